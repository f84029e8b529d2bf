package text

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// Options are how a file is to be read.
type Options struct {
	// Null lists unquoted texts of CSV files, and texts of the number columns of ECSV files, that say null, beside the empty one.
	Null []string
	// Scan is what an earlier Open of the same file, with the same Null, found out ([ScanOf]); the file is then not read again.
	// It is ignored where the file's size or time of change is another.
	Scan *Scan
}

// Scan is what one pass over a file found. It does not change, so several tables may share one.
type Scan struct {
	path    string
	size    int64
	changed time.Time
	null    string

	delim  byte // 0: JSONL
	begin  mark // of the first row
	rows   int64
	marks  []mark // of every stride-th row
	fields []table.Field
	width  int64 // bytes of a row in memory
	nodes  *tree // of JSONL
	cols   []column
}

// mark is a place in a file's unpacked bytes.
type mark struct{ off, line int64 }

// stride is the number of rows between two marks.
const stride = 4096

// column is how a column of a CSV or ECSV file is read.
type column struct {
	list   bool // of JSON arrays
	strict bool // the empty text is a value, as a column of its own says which are null
	skip   bool // its field has an error
	ecsv   bool
}

// format of a file, told by its name.
type format uint8

const (
	csvFile format = iota + 1
	tsvFile
	ecsvFile
	jsonlFile
)

func formatOf(path string) format {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(path)), ".gz")
	switch filepath.Ext(name) {
	case ".csv":
		return csvFile
	case ".tsv":
		return tsvFile
	case ".ecsv":
		return ecsvFile
	case ".jsonl", ".ndjson":
		return jsonlFile
	}
	return 0
}

// Open reads a file from end to end, settles what its columns are and gives it as a table. Errors wrap [ErrCorrupt],
// [ErrUnsupported], [ErrTooLarge], or are those of the system.
func Open(ctx context.Context, path string, opt Options) (_ table.Table, err error) {
	is := formatOf(path)
	if is == 0 {
		return nil, fmt.Errorf("%w: %s: the name ends in none of .csv, .tsv, .ecsv, .jsonl, .ndjson (each also .gz)", ErrUnsupported, path)
	}
	in, err := openInput(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close())
		}
	}()
	info, err := in.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	null := strings.Join(opt.Null, "\x00")
	s := opt.Scan
	if s == nil || s.path != path || s.size != info.Size() || !s.changed.Equal(info.ModTime()) || s.null != null {
		s = &Scan{path: path, size: info.Size(), changed: info.ModTime(), null: null}
		if err := in.start(ctx); err != nil {
			return nil, err
		}
		if is == jsonlFile {
			err = s.scanJSON(ctx, in)
		} else {
			err = s.scanRecords(ctx, in, is, opt.Null)
		}
		if err != nil {
			return nil, err
		}
		// Rows are read from the first one on.
		if err := in.seek(ctx, s.begin); err != nil {
			return nil, err
		}
	} else if err := in.seek(ctx, s.begin); err != nil {
		return nil, err
	}
	f := file{scan: s, in: in}
	if is == jsonlFile {
		return &jsonTable{file: f}, nil
	}
	t := &recordTable{file: f, null: opt.Null, json: &jsonLine{}}
	t.records = records{in: in, delim: s.delim}
	return t, nil
}

// ScanOf is what [Open] found of a table that it gave; nil for other tables.
func ScanOf(t table.Table) *Scan {
	if s, ok := t.(interface{ scanned() *Scan }); ok {
		return s.scanned()
	}
	return nil
}

// mark notes where the row that is next begins, if it is one of those to be found again.
func (s *Scan) mark(in *input) {
	if s.rows%stride == 0 {
		s.marks = append(s.marks, mark{in.off, in.line})
	}
}

// file is what the tables of this package have in common.
type file struct {
	scan *Scan
	in   *input
	row  int64 // the next one
}

func (f *file) scanned() *Scan        { return f.scan }
func (f *file) Rows() int64           { return f.scan.rows }
func (f *file) Fields() []table.Field { return f.scan.fields }
func (f *file) Grain() int64          { return 1 }
func (f *file) RowBytes() int64       { return f.scan.width }
func (f *file) Close() error          { return f.in.close() }

// check says whether rows and requests are there.
func (f *file) check(lo, hi int64, want []table.Request) error {
	if lo < 0 || hi < lo || hi > f.scan.rows {
		return fmt.Errorf("%s: rows %d to %d of %d", f.scan.path, lo, hi, f.scan.rows)
	}
	for _, q := range want {
		if q.Field < 0 || q.Field >= len(f.scan.fields) {
			return fmt.Errorf("%s: field %d of %d", f.scan.path, q.Field, len(f.scan.fields))
		}
		if err := f.scan.fields[q.Field].Err; err != nil {
			return fmt.Errorf("%s: column %q: %w", f.scan.path, f.scan.fields[q.Field].Source, err)
		}
	}
	return nil
}

// to goes to a row: by the marks, then by reading over the rows between.
func (f *file) to(ctx context.Context, row int64, next func() (bool, error)) error {
	if k := row / stride; row != f.row && k < int64(len(f.scan.marks)) && (row < f.row || k*stride > f.row) {
		if err := f.in.seek(ctx, f.scan.marks[k]); err != nil {
			return err
		}
		f.row = k * stride
	}
	for f.row < row {
		ok, err := next()
		if err != nil {
			return err
		}
		if !ok {
			return f.short()
		}
		f.row++
	}
	return nil
}

func (f *file) short() error {
	return fmt.Errorf("%w: %s: it has %d rows, and had %d", ErrChanged, f.scan.path, f.row, f.scan.rows)
}

// fill is what stands for null elements of member k of a request.
func fill(q table.Request, k int) any {
	if k < len(q.Fill) {
		return q.Fill[k]
	}
	return nil
}

// newVector makes a vector with room for rows of a column.
func newVector(c *catalog.Column, rows int64) *catalog.Vector {
	v := catalog.NewVector(c)
	if n := c.RowBytes(); n > 0 && n <= 16 {
		v.Data = make([]byte, 0, rows*int64(n))
	}
	return v
}
