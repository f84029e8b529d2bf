package release

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"astropile/internal/survey"
	"astropile/internal/survey/fits"
	"astropile/internal/survey/hdf5"
	"astropile/internal/survey/parquet"
	"astropile/internal/survey/text"
)

func TestDamageAndRefusalsAreToldApartInEveryFormat(t *testing.T) {
	for err, want := range map[error]error{
		hdf5.ErrCorrupt: ErrDamaged, hdf5.ErrNotHDF5: ErrDamaged, hdf5.ErrUnsupported: ErrRefused,
		fits.ErrCorrupt: ErrDamaged, fits.ErrChecksum: ErrDamaged, fits.ErrNotFITS: ErrDamaged, fits.ErrUnsupported: ErrRefused,
		parquet.ErrFormat: ErrDamaged, parquet.ErrUnsupported: ErrRefused, parquet.ErrValue: ErrRefused,
		text.ErrCorrupt: ErrDamaged, text.ErrUnsupported: ErrRefused,
		survey.ErrMapping: ErrRefused, survey.ErrRecipe: ErrRefused, survey.ErrValue: ErrRefused, survey.ErrPosition: ErrRefused,
	} {
		// As packages hand them on: what the survey calls an unusable input may be a damaged one.
		got := Graded(fmt.Errorf("%w: a.file: %w", survey.ErrInput, err))
		if !errors.Is(got, want) || errors.Is(got, ErrDamaged) == errors.Is(got, ErrRefused) || !errors.Is(got, err) {
			t.Errorf("%v: graded %v, want %v", err, got, want)
		}
	}
	for _, err := range []error{nil, fs.ErrNotExist, survey.ErrInput} {
		if got := Graded(err); !errors.Is(got, err) || errors.Is(got, ErrDamaged) || errors.Is(got, ErrRefused) {
			t.Errorf("%v: graded %v", err, got)
		}
	}
}
