package release

import (
	"errors"
	"fmt"
	"slices"

	"astropile/internal/survey"
	"astropile/internal/survey/fits"
	"astropile/internal/survey/hdf5"
	"astropile/internal/survey/parquet"
	"astropile/internal/survey/text"
)

// Graded says of an error of package survey which of ours it is: ErrRefused where columns, values, positions or the recipe
// do not fit or a format is not read, ErrDamaged where a file does not decode. Any other error, and nil, it gives back as
// it is.
func Graded(err error) error {
	if err == nil {
		return nil
	}
	return graded(err)
}

func graded(err error) error {
	is := func(target error) bool { return errors.Is(err, target) }
	damaged := []error{hdf5.ErrCorrupt, hdf5.ErrNotHDF5, fits.ErrCorrupt, fits.ErrNotFITS, parquet.ErrFormat, text.ErrCorrupt}
	refused := []error{survey.ErrPosition, survey.ErrMapping, survey.ErrValue, survey.ErrRecipe,
		hdf5.ErrUnsupported, fits.ErrUnsupported, fits.ErrTooLarge, parquet.ErrUnsupported, parquet.ErrValue, text.ErrUnsupported, text.ErrTooLarge, text.ErrChanged}
	switch {
	case slices.ContainsFunc(damaged, is):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case slices.ContainsFunc(refused, is):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}
