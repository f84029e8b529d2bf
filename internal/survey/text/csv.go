package text

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// recordTable is a CSV or ECSV file.
type recordTable struct {
	file
	records records
	null    []string
	json    *jsonLine
}

// scanRecords reads a CSV or ECSV file from end to end.
func (s *Scan) scanRecords(ctx context.Context, in *input, is format, null []string) error {
	comments, err := in.comments(ctx)
	if err != nil {
		return err
	}
	if is == ecsvFile || len(comments) > 0 && strings.HasPrefix(strings.TrimSpace(comments[0][1:]), "%ECSV ") {
		return s.scanECSV(ctx, in, comments, null)
	}
	r := &records{in: in}
	if r.delim, err = delimiter(ctx, in, is); err != nil {
		return err
	}
	s.delim = r.delim
	header, err := r.next(ctx)
	if err != nil {
		return err
	}
	if header == nil {
		return lineError(ErrCorrupt, in.path, in.line, "there is no header: the first record has to name the columns")
	}
	names, notes, err := columnNames(in.path, r.line, header, comments)
	if err != nil {
		return err
	}
	cols := make([]guess, len(names))
	s.begin = mark{in.off, in.line}
	var text int64
	for {
		s.mark(in)
		cells, err := r.next(ctx)
		if err != nil {
			return err
		}
		if cells == nil {
			break
		}
		if len(cells) != len(names) {
			return ragged(in.path, r.line, len(cells), len(names))
		}
		for i := range cells {
			cols[i].see(cells[i], null, r.line)
			text += int64(len(cells[i].b))
		}
		s.rows++
	}
	var texts int64
	for i, name := range names {
		f := table.Field{Source: name, Column: catalog.Column{Name: name, Kind: catalog.Scalar}}
		c := &f.Column
		var why string
		c.DType, c.Nullable, why = cols[i].settle()
		f.Note = join(notes[i], why)
		f.Empty = cols[i].none() && !cols[i].empty
		s.fields = append(s.fields, f)
		s.cols = append(s.cols, column{})
		if c.DType == catalog.String {
			texts += cols[i].bytes
			s.width += 8
		}
		s.width += int64(c.RowBytes())
	}
	s.width += texts / max(1, s.rows)
	return nil
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

func ragged(path string, line int64, got, want int) error {
	return lineError(ErrCorrupt, path, line, "%d fields, and the header has %d; a field that holds the delimiter has to be quoted", got, want)
}

// delimiters that are recognised.
const delimiters = ",\t;|"

// delimiter finds what separates the fields: what header and first row agree on.
func delimiter(ctx context.Context, in *input, is format) (byte, error) {
	usual := byte(',')
	if is == tsvFile {
		usual = '\t'
	}
	// Two lines decide; quoted line ends before that are no matter, as fields are counted with quotes.
	for {
		b := in.rest()
		if in.eof || bytes.Count(b, []byte{'\n'}) > 8 || len(b) >= firstBuffer {
			break
		}
		if err := in.more(ctx); err != nil {
			return 0, err
		}
	}
	b := in.rest()
	count := func(d byte) (header, row int) {
		r := records{in: &input{path: in.path, line: 1}, delim: d}
		for n := 0; n < 2; {
			k, err := r.split(b, in.eof)
			if err != nil || k <= 0 {
				return header, row
			}
			b = b[k:]
			if len(r.cells) == 1 && len(r.cells[0].b) == 0 && !r.cells[0].quoted {
				continue
			}
			if n == 0 {
				header = len(r.cells)
			} else {
				row = len(r.cells)
			}
			n++
		}
		return header, row
	}
	best := usual
	all := string(usual) + strings.ReplaceAll(delimiters, string(usual), "")
	found := false
	for i := range len(all) {
		b = in.rest()
		header, row := count(all[i])
		if header > 1 && (row == header || row == 0) {
			return all[i], nil
		}
		if header > 1 && !found {
			best, found = all[i], true
		}
	}
	return best, nil
}

// columnNames checks the header.
func columnNames(path string, line int64, header []cell, comments []string) (names, notes []string, err error) {
	at := map[string]int{}
	numbers, decimals, unnamed := 0, 0, 0
	for i, h := range header {
		name := string(h.b)
		note := ""
		if !h.quoted {
			name = strings.TrimSpace(name)
		}
		switch c, _, _ := classify([]byte(name)); c {
		case isInt, isOdd, isZeros, isHuge:
			numbers++
		case isFloat, isOut:
			numbers++
			if strings.ContainsAny(name, "0123456789") {
				decimals++
			}
		}
		if name == "" {
			unnamed++
			name = fmt.Sprintf("col%d", i+1)
			note = fmt.Sprintf("column %d has no name", i+1)
		}
		if first, twice := at[name]; twice {
			return nil, nil, lineError(ErrCorrupt, path, line, "columns %d and %d are both called %q; give one another name", first+1, i+1, name)
		}
		if len(name) > 255 || strings.ContainsAny(name, "\n\x00") {
			return nil, nil, lineError(ErrCorrupt, path, line, "the name of column %d has over 255 bytes or a line end: %s", i+1, clip(h.b))
		}
		at[name] = i
		names, notes = append(names, name), append(notes, note)
	}
	if decimals > 0 || numbers+unnamed == len(header) {
		hint := ""
		if n := len(comments); n > 0 {
			hint = fmt.Sprintf("; if line %d is the header, remove its #", line-1)
		}
		return nil, nil, lineError(ErrCorrupt, path, line, "there is no header: numbers stand where the names of columns should (%s)%s", clip(header[0].b), hint)
	}
	return names, notes, nil
}

// guess finds the type of a column.
type guess struct {
	kinds
	nulls  bool
	empty  bool // a quoted empty field
	bytes  int64
	why    string // the first value that makes it text
	others bool   // values that alone would not make it text
}

func isNull(b []byte, null []string) bool {
	for _, n := range null {
		if string(b) == n {
			return true
		}
	}
	return false
}

// see takes in a field.
func (g *guess) see(f cell, null []string, line int64) {
	b := f.b
	g.bytes += int64(len(b))
	if len(b) == 0 {
		if f.quoted {
			g.empty = true
		} else {
			g.nulls = true
		}
		return
	}
	if null != nil && !f.quoted && isNull(trim(b), null) {
		g.nulls = true
		return
	}
	if g.text && g.others {
		return
	}
	if b = trim(b); len(b) == 0 {
		// Blanks: no value of a number, and text of a text.
		g.empty = true
		return
	}
	c, magnitude, negative := classify(b)
	g.add(c, magnitude, negative)
	switch c {
	case isInt, isFloat, isBool:
		g.others = true
	case isText, isZeros, isHuge, isOut:
		if g.why == "" {
			g.why = fmt.Sprintf("%s in line %d", clip(b), line)
		}
	}
}

// settle gives the type, whether there are nulls, and why it is text though numbers stand there too.
func (g *guess) settle() (d catalog.DType, nullable bool, why string) {
	if g.none() {
		if g.empty {
			return catalog.String, g.nulls, ""
		}
		return catalog.Float64, true, "no row has a value"
	}
	d = g.dtype()
	if d != catalog.String {
		return d, g.nulls || g.empty, ""
	}
	switch {
	case g.why != "" && (g.others || g.integer || !g.text):
		why = "text because of " + g.why
	case g.boolean && (g.integer || g.float):
		why = "text because true or false stand among numbers"
	case g.odd && !g.float && !g.text:
		why = "text because of integers with a plus sign, or -0"
	case g.negative && g.big && !g.text:
		why = "text because integers above 2^63 and below 0 stand in it"
	case g.inexact && g.float && !g.text:
		why = "text because integers that float64 does not hold stand among decimal numbers"
	}
	return d, g.nulls, why
}

// reading is one request while rows are read.
type reading struct {
	at      int // the field
	field   *table.Field
	col     *column
	v       *catalog.Vector
	fill    any
	d       catalog.DType
	opening bool // the file is read for the first time
}

func (t *recordTable) Read(ctx context.Context, lo, hi int64, want []table.Request) (_ []*catalog.Vector, err error) {
	if err := t.check(lo, hi, want); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			t.row = 1 << 62 // the next Read finds its place anew
		}
	}()
	reads := make([]reading, len(want))
	out := make([]*catalog.Vector, len(want))
	for i, q := range want {
		f := &t.scan.fields[q.Field]
		out[i] = newVector(&f.Column, hi-lo)
		reads[i] = reading{at: q.Field, field: f, col: &t.scan.cols[q.Field], v: out[i], fill: fill(q, 0), d: f.Column.DType}
	}
	next := func() (bool, error) {
		cells, err := t.records.next(ctx)
		return cells != nil, err
	}
	if err := t.to(ctx, lo, next); err != nil {
		return nil, err
	}
	for t.row < hi {
		cells, err := t.records.next(ctx)
		if err != nil {
			return nil, err
		}
		if cells == nil {
			return nil, t.short()
		}
		if len(cells) != len(t.scan.fields) {
			return nil, ragged(t.scan.path, t.records.line, len(cells), len(t.scan.fields))
		}
		for i := range reads {
			r := &reads[i]
			if err := t.value(r, cells[r.at], hi-lo); err != nil {
				return nil, lineError(ErrCorrupt, t.scan.path, t.records.line, "column %q: row %d: %v", r.field.Source, t.row, err)
			}
		}
		t.row++
	}
	return out, nil
}

// value appends a field to its vector.
func (t *recordTable) value(r *reading, f cell, rows int64) (err error) {
	v := r.v
	v.Rows++
	if r.col.list || r.field.Column.Kind == catalog.Tensor && !r.d.Complex() {
		return t.array(r, f.b, rows)
	}
	if r.d == catalog.String {
		null := len(f.b) == 0 && (r.col.ecsv || !f.quoted) && !r.col.strict
		if !null && !r.col.ecsv && t.null != nil && !f.quoted {
			null = isNull(trim(f.b), t.null)
		}
		if !null {
			v.Data = append(v.Data, f.b...)
			if v.Valid != nil {
				v.Valid = append(v.Valid, true)
			}
		}
		v.Offsets = append(v.Offsets, int64(len(v.Data)))
		if null {
			markNull(v, rows)
		}
		return nil
	}
	b := trim(f.b)
	if len(b) == 0 || t.null != nil && (r.col.ecsv || !f.quoted) && isNull(b, t.null) || r.col.ecsv && string(b) == "null" {
		v.Data = append(v.Data, zeros[:r.field.Column.RowBytes()]...)
		markNull(v, rows)
		return nil
	}
	if v.Valid != nil {
		v.Valid = append(v.Valid, true)
	}
	v.Data, err = appendValue(v.Data, r.d, b)
	return err
}

// zeros stand for a scalar that is null.
var zeros [16]byte

// markNull makes the last row null, for which no entry of Valid was made.
func markNull(v *catalog.Vector, rows int64) {
	if v.Valid == nil {
		v.Valid = make([]bool, v.Rows-1, rows)
		for i := range v.Valid {
			v.Valid[i] = true
		}
	}
	v.Valid = append(v.Valid, false)
}
