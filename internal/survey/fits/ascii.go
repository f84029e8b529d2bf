package fits

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// asciiForm is a TFORM of an ASCII table: Aw, Iw, Fw.d, Ew.d or Dw.d.
type asciiForm struct {
	code  byte
	width int64
	frac  int64
}

func parseASCIIForm(s string) (asciiForm, error) {
	bad := corruptf("TFORM %q of an ASCII table", s)
	s = strings.TrimSpace(s)
	if s == "" || strings.IndexByte("AIFED", s[0]) < 0 {
		return asciiForm{}, bad
	}
	w, d, dotted := strings.Cut(s[1:], ".")
	f := asciiForm{code: s[0]}
	var err error
	if f.width, err = strconv.ParseInt(w, 10, 32); err != nil || f.width < 0 {
		return f, bad
	}
	if dotted {
		if f.frac, err = strconv.ParseInt(d, 10, 32); err != nil || f.frac < 0 {
			return f, bad
		}
	}
	return f, nil
}

// asciiTable reads a TABLE.
type asciiTable struct {
	h      *HDU
	fields []field
	slab   []byte
}

func (h *HDU) asciiTable() (table.Table, error) {
	if h.axes[0] > MaxRow {
		return nil, fmt.Errorf("%w: rows of %d bytes, at most %d are read", ErrTooLarge, h.axes[0], MaxRow)
	}
	n := numbers{h: h.header}
	count := n.get("TFIELDS", 0, -1)
	if n.err == nil && count > MaxFields {
		return nil, corruptf("TFIELDS = %d, at most %d is allowed", count, MaxFields)
	}
	cols := make([]column, max(0, count))
	for i := range cols {
		c := &cols[i]
		c.number = i + 1
		c.at = int(n.get(key("TBCOL", i+1), 1, 0)) - 1
		if n.err != nil {
			return nil, n.err
		}
		var err error
		if c.tform, _, err = h.header.Text(key("TFORM", i+1)); err != nil {
			return nil, err
		}
		if c.ascii, err = parseASCIIForm(c.tform); err != nil {
			return nil, err
		}
		if int64(c.at) > h.axes[0] || c.ascii.width > h.axes[0]-int64(c.at) {
			return nil, corruptf("column %d takes bytes %d to %d, a row has %d", i+1, c.at, int64(c.at)+c.ascii.width, h.axes[0])
		}
		if err := c.describe(h); err != nil {
			return nil, err
		}
	}
	if n.err != nil {
		return nil, n.err
	}
	nameColumns(cols)
	t := &asciiTable{h: h}
	for i := range cols {
		if c := &cols[i]; c.ascii.width > 0 {
			t.fields = append(t.fields, newASCIIField(c))
		}
	}
	return t, nil
}

func newASCIIField(c *column) field {
	f := field{col: c}
	f.Source = c.name
	f.Column = catalog.Column{Name: c.name, Kind: catalog.Scalar, Unit: c.unit, Nullable: true}
	f.Missing = []bool{false}
	raw := catalog.Float64
	switch c.ascii.code {
	case 'A':
		f.Column.DType, f.Padded = catalog.String, true
		f.Column.Nullable = c.hasNull
		return f
	case 'I':
		// As wide as numbers of that many digits need.
		switch raw = catalog.Int32; {
		case c.ascii.width <= 4:
			raw = catalog.Int16
		case c.ascii.width > 9:
			raw = catalog.Int64
		}
	}
	f.s = newScaling(raw, c.scale, c.zero, func(catalog.DType) catalog.DType { return catalog.Float64 })
	if f.s.flip {
		f.s = scaling{raw: raw, out: catalog.Float64, float: true, scale: c.scale, zero: c.zero}
	}
	f.Column.DType = f.s.out
	return f
}

func (t *asciiTable) Rows() int64           { return t.h.axes[1] }
func (t *asciiTable) Grain() int64          { return 1 }
func (t *asciiTable) Close() error          { return nil }
func (t *asciiTable) RowBytes() int64       { return max(1, t.h.axes[0]) }
func (t *asciiTable) Fields() []table.Field { return fieldsOf(t.fields) }

// Read reads rows [lo, hi). It verifies the HDU's checksums first, once.
func (t *asciiTable) Read(ctx context.Context, lo, hi int64, want []table.Request) ([]*catalog.Vector, error) {
	if _, err := checkRequests(t.Rows(), lo, hi, t.fields, want); err != nil {
		return nil, t.h.fail(nowhere, err)
	}
	if err := t.h.verify(ctx); err != nil {
		return nil, err
	}
	out := make([]*catalog.Vector, len(want))
	for i, w := range want {
		out[i] = newVector(&t.fields[w.Field], int(hi-lo))
	}
	size := t.h.axes[0]
	err := t.h.slabs(ctx, &t.slab, lo, hi, func(at, n, from int64) error {
		for i, w := range want {
			f := &t.fields[w.Field]
			for r := range n {
				b := t.slab[r*size+int64(f.col.at):][:f.col.ascii.width]
				if err := f.asciiValue(out[i], int(at-lo+r), b); err != nil {
					return t.h.fail(place{column: f.Source, row: at + r, at: from + r*size + int64(f.col.at)}, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// asciiValue decodes one cell into row i of the vector.
func (f *field) asciiValue(v *catalog.Vector, i int, b []byte) error {
	text := bytes.TrimRight(untilNUL(b), " ")
	trimmed := string(bytes.TrimLeft(text, " "))
	null := f.col.hasNull && trimmed == f.col.text
	if f.Column.DType == catalog.String {
		if !null {
			v.Data = append(v.Data, untilNUL(b)...)
		}
		v.Offsets = append(v.Offsets, int64(len(v.Data)))
		if v.Valid != nil {
			v.Valid[i] = !null
		}
		return nil
	}
	if null || trimmed == "" {
		return nil // the vector's zeros say so
	}
	v.Valid[i] = true
	var raw [8]byte
	width := f.s.raw.Size()
	if f.col.ascii.code == 'I' {
		n, err := strconv.ParseInt(trimmed, 10, 8*width)
		if err != nil || !isInteger(trimmed) {
			return corruptf("%q is no integer of %d bits", trimmed, 8*width)
		}
		le.PutUint64(raw[:], uint64(n))
	} else {
		x, err := f.col.ascii.real(trimmed)
		if err != nil {
			return err
		}
		le.PutUint64(raw[:], math.Float64bits(x))
	}
	out := f.s.out.Size()
	f.s.apply(v.Data[i*out:(i+1)*out], raw[:width])
	return nil
}

// real reads a number, in whose exponent the letter may be missing (1.5+3).
func (a asciiForm) real(s string) (float64, error) {
	mantissa, exponent := s, ""
	if k := strings.IndexAny(s, "EeDd"); k >= 0 {
		mantissa, exponent = s[:k], s[k+1:]
	} else if k := strings.LastIndexAny(s, "+-"); k > 0 {
		mantissa, exponent = s[:k], s[k:]
	}
	if a.frac > 0 && !strings.Contains(mantissa, ".") {
		return 0, corruptf("%q has no decimal point: by its form it would mean its %d last digits are a fraction, which most writers do not mean", s, a.frac)
	}
	if exponent != "" {
		mantissa += "E" + exponent
	}
	x, ok := parseReal(mantissa)
	if !ok {
		return 0, corruptf("%q is no number", s)
	}
	return x, nil
}
