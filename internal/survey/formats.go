package survey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"astropile/internal/survey/fits"
	"astropile/internal/survey/table"
)

// format is how a file is written.
type format string

const (
	formatHDF5    format = "HDF5"
	formatFITS    format = "FITS"
	formatParquet format = "Parquet"
	formatCSV     format = "CSV"
	formatECSV    format = "ECSV"
	formatJSONL   format = "JSONL"
)

// endings of the files that are read, lower case; each may be followed by .gz, but for HDF5 and Parquet.
var endings = []struct {
	ending string
	format format
}{
	{".hdf5", formatHDF5}, {".h5", formatHDF5}, {".hdf", formatHDF5},
	{".fits", formatFITS}, {".fit", formatFITS}, {".fts", formatFITS}, {".fz", formatFITS},
	{".parquet", formatParquet}, {".parq", formatParquet}, {".pq", formatParquet},
	{".csv", formatCSV}, {".tsv", formatCSV},
	{".ecsv", formatECSV},
	{".jsonl", formatJSONL}, {".ndjson", formatJSONL},
}

// endingsText lists the endings for people.
func endingsText() string {
	list := make([]string, len(endings))
	for i, e := range endings {
		list[i] = e.ending
	}
	return strings.Join(list, ", ")
}

// named is the format that a file's name tells; empty where it tells none.
func named(name string) format {
	name = strings.ToLower(name)
	plain, zipped := strings.CutSuffix(name, ".gz")
	for _, e := range endings {
		if strings.HasSuffix(plain, e.ending) && !(zipped && (e.format == formatHDF5 || e.format == formatParquet)) {
			return e.format
		}
	}
	return ""
}

// formatOf is the format of a file: what its name tells, if its first bytes do not say otherwise.
func formatOf(path string) (format, error) {
	want := named(path)
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInput, err)
	}
	defer f.Close()
	head := make([]byte, 16)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("%w: %w", ErrInput, err)
	}
	var is format
	switch head = head[:n]; {
	case bytes.HasPrefix(head, []byte("\x89HDF\r\n\x1a\n")):
		is = formatHDF5
	case bytes.HasPrefix(head, []byte("SIMPLE  =")):
		is = formatFITS
	case bytes.HasPrefix(head, []byte("PAR1")):
		is = formatParquet
	case bytes.HasPrefix(head, []byte("PARE")):
		return "", fmt.Errorf("%w: %s: an encrypted Parquet file; decrypt it first", ErrInput, path)
	}
	if is != "" && is != want {
		return "", fmt.Errorf("%w: %s: its bytes are %s and its name says %s; give it the right ending", ErrInput, path, is, want)
	}
	return want, nil
}

// openTable opens an input whose rows are objects, or that is one object of images, and says which family it is.
func openTable(ctx context.Context, in Input, is format, r *Recipe) (table.Table, Family, error) {
	wrap := func(err error) error {
		if errors.Is(err, ErrMapping) || ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%w: %w", ErrInput, err)
	}
	if r.HDU != "" && is != formatFITS {
		return nil, "", fmt.Errorf("%w: %s is %s, and hdu: %s names a part of a FITS file", ErrMapping, in.Path, is, r.HDU)
	}
	switch is {
	case formatFITS:
		t, family, err := openFITS(in, r)
		if err != nil {
			return nil, "", wrap(err)
		}
		return t, family, nil
	default:
		open, ok := openers[is]
		if !ok {
			return nil, "", fmt.Errorf("%w: %s: %s is not read", ErrInput, in.Path, is)
		}
		t, err := open(ctx, in, r)
		if err != nil {
			return nil, "", wrap(err)
		}
		return t, Table, nil
	}
}

// fitsTable closes the file with the table.
type fitsTable struct {
	table.Table
	file *fits.File
}

func (t fitsTable) Close() error { return errors.Join(t.Table.Close(), t.file.Close()) }

// openFITS finds what a FITS file holds: its table, or the images of one object.
func openFITS(in Input, r *Recipe) (_ table.Table, _ Family, err error) {
	f, err := fits.Open(in.Path)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	var tables []*fits.HDU
	var names []string
	images := 0
	for _, h := range f.HDUs() {
		switch {
		case h.HasImage():
			images++
		case h.Kind == fits.BinTable, h.Kind == fits.ASCIITable:
			tables = append(tables, h)
			name := strconv.Itoa(h.Index())
			if h.Name() != "" {
				name += " (" + h.Name() + ")"
			}
			names = append(names, name)
		}
	}
	family := r.Family
	if family == "" {
		switch {
		case r.HDU != "" || len(tables) > 0 && images == 0:
			family = Table
		case images > 0 && len(tables) == 0:
			family = Image
		case images == 0:
			return nil, "", fmt.Errorf("%w: %s: neither a table nor an image is in its %d HDUs", ErrMapping, in.Path, len(f.HDUs()))
		default:
			return nil, "", fmt.Errorf("%w: %s: both tables (HDU %s) and images stand in it; a recipe decides with the line \"family: %s\" (rows are objects) or \"family: %s\" (the file is one object)",
				ErrMapping, in.Path, strings.Join(names, ", "), Table, Image)
		}
	}
	if family == Image {
		t, err := fits.Images(f)
		if err != nil {
			return nil, "", err
		}
		return fitsTable{t, f}, Image, nil
	}
	at := 0
	switch {
	case r.HDU != "":
		at = -1
		for i, h := range tables {
			if strings.EqualFold(h.Name(), r.HDU) || strconv.Itoa(h.Index()) == r.HDU {
				at = i
				break
			}
		}
		if at < 0 {
			return nil, "", fmt.Errorf("%w: %s: hdu: %s is no table of it; there are HDU %s", ErrMapping, in.Path, r.HDU, strings.Join(names, ", "))
		}
	case len(tables) == 0:
		return nil, "", fmt.Errorf("%w: %s: there is no table in its %d HDUs", ErrMapping, in.Path, len(f.HDUs()))
	case len(tables) > 1:
		return nil, "", fmt.Errorf("%w: %s: %d tables stand in it, HDU %s; a recipe decides with the line \"hdu: %d\"", ErrMapping, in.Path, len(tables), strings.Join(names, ", "), tables[0].Index())
	}
	t, err := tables[at].Table()
	if err != nil {
		return nil, "", err
	}
	return fitsTable{t, f}, Table, nil
}
