package fits

import (
	"context"
	"fmt"
	"math"
	"slices"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

const (
	// slabBytes is how much of a table is read at a time: what stays in a core's cache.
	slabBytes = 256 << 10
	// MaxRow bounds the bytes of a row of a table.
	MaxRow = 256 << 20
	// MaxArray bounds the bytes of one array of the heap.
	MaxArray = 256 << 20
	// heapShare is how many times its heap the arrays of one Read may take together, and heapFree what they may take anyway:
	// where arrays share bytes of the heap, a small file describes a large table.
	heapShare = 8
	heapFree  = 64 << 20
)

// kindOf says how a column's bytes become values.
type kindOf uint8

const (
	numbersKind kindOf = iota // numbers, complex ones as pairs
	logicalKind               // T, F or 0
	bitsKind
	textKind  // one text a row
	textsKind // texts of one width
)

// field is a column that a table offers.
type field struct {
	table.Field
	col   *column
	kind  kindOf
	s     scaling
	elems int64 // of a row, where it is fixed
	width int64 // of a text of several
}

// binTable reads a BINTABLE.
type binTable struct {
	h      *HDU
	fields []field
	heap   heap
	slab   []byte
}

// Table gives the rows of a binary or an ASCII table. Columns of zero width are left out; what else has no place in a
// column is a field with Err. See the package's documentation for how forms become columns. The table reads the file until
// that is closed; closing the table does nothing.
func (h *HDU) Table() (table.Table, error) {
	t, err := h.table()
	if err != nil {
		return nil, h.fail(place{row: -1, at: h.head}, err)
	}
	return t, nil
}

func (h *HDU) table() (table.Table, error) {
	switch h.Kind {
	case BinTable:
	case ASCIITable:
		return h.asciiTable()
	case CompressedTab:
		return nil, unsupportedf("a compressed table (ZTABLE); unpack it first (funpack)")
	default:
		return nil, unsupportedf("a table is asked for, this is %s", h.what())
	}
	if h.axes[0] > MaxRow {
		return nil, fmt.Errorf("%w: rows of %d bytes, at most %d are read", ErrTooLarge, h.axes[0], MaxRow)
	}
	cols, err := h.columns()
	if err != nil {
		return nil, err
	}
	t := &binTable{h: h}
	if t.heap, err = h.newHeap(); err != nil {
		return nil, err
	}
	for i := range cols {
		if c := &cols[i]; c.form.width() > 0 {
			t.fields = append(t.fields, newField(c))
		}
	}
	return t, nil
}

// newField decides what a column becomes.
func newField(c *column) field {
	f := field{col: c, elems: c.form.repeat}
	f.Missing = []bool{false}
	f.Source = c.name
	f.Column = catalog.Column{Name: c.name, Unit: c.unit, DType: c.form.dtype()}
	if c.fault != nil {
		f.Err = c.fault
		return f
	}
	switch c.form.code {
	case 'L':
		f.kind = logicalKind
	case 'X':
		f.kind = bitsKind
	case 'A':
		f.kind = textKind
	default:
		f.numeric()
	}
	switch {
	case f.Err != nil:
	case c.form.array != 0:
		f.list()
	case c.form.code == 'A':
		f.text()
	default:
		f.fixed()
	}
	return f
}

// numeric decides on the type of numbers.
func (f *field) numeric() {
	c := f.col
	raw := c.form.dtype()
	if raw.Complex() {
		if c.scale != 1 || c.zero != 0 {
			f.Err = unsupportedf("complex numbers with TSCAL %v and TZERO %v", c.scale, c.zero)
		}
		f.s = scaling{raw: raw, out: raw}
		return
	}
	f.s = newScaling(raw, c.scale, c.zero, func(catalog.DType) catalog.DType { return catalog.Float64 })
	f.s.blank, f.s.hasNo = c.null, c.hasNull
	f.Column.DType = f.s.out
	if f.s.float {
		f.Note = fmt.Sprintf("%s scaled by TSCAL %v and TZERO %v, in float64", raw, c.scale, c.zero)
	}
}

// fixed makes a scalar or a tensor.
func (f *field) fixed() {
	c := f.col
	mayMiss := c.hasNull || f.kind == logicalKind
	if c.form.repeat == 1 && c.dim == nil && f.kind != bitsKind && !f.Column.DType.Complex() {
		f.Column.Kind, f.Column.Nullable = catalog.Scalar, mayMiss
		return
	}
	f.Column.Kind, f.Missing = catalog.Tensor, []bool{mayMiss}
	if c.dim == nil {
		if c.form.repeat > 1 || f.kind == bitsKind {
			f.Column.Shape = []int{int(c.form.repeat)}
		}
		return
	}
	f.elems = 1
	for _, n := range c.dim {
		if n == 0 || f.elems > c.form.repeat/n {
			f.Err = corruptf("TDIM %v does not fit TFORM %s", c.dim, c.tform)
			return
		}
		f.elems *= n
		f.Column.Shape = append(f.Column.Shape, int(n))
	}
	slices.Reverse(f.Column.Shape)
}

// text makes a text or, of texts of one width, a list.
func (f *field) text() {
	c := f.col
	f.Padded = true
	f.Column.Kind = catalog.Scalar
	switch {
	case len(c.dim) <= 1:
		if len(c.dim) == 1 {
			if c.dim[0] > c.form.repeat {
				f.Err = corruptf("TDIM %v does not fit TFORM %s", c.dim, c.tform)
			}
			f.elems = min(f.elems, c.dim[0])
		}
	case len(c.dim) == 2:
		f.Column.Kind, f.kind, f.width, f.elems = catalog.List, textsKind, c.dim[0], c.dim[1]
		if f.width == 0 || f.elems == 0 || f.width > c.form.repeat/f.elems {
			f.Err = corruptf("TDIM %v does not fit TFORM %s", c.dim, c.tform)
		}
	default:
		f.Err = unsupportedf("texts in an array of %d axes (TDIM %v)", len(c.dim)-1, c.dim)
	}
}

// list makes a list of an array in the heap, and a text of characters there.
func (f *field) list() {
	c := f.col
	f.Missing = []bool{c.hasNull || f.kind == logicalKind}
	f.Column.Kind = catalog.List
	switch {
	case f.Column.DType.Complex():
		f.Err = unsupportedf("complex arrays of varying length (TFORM %s)", c.tform)
	case f.kind == bitsKind:
		f.Err = unsupportedf("bit arrays of varying length (TFORM %s)", c.tform)
	case f.kind == textKind && len(c.dim) > 1:
		f.Err = unsupportedf("texts of varying number (TFORM %s, TDIM %v)", c.tform, c.dim)
	case f.kind == textKind:
		f.Column.Kind = catalog.Scalar
	case len(c.dim) > 1:
		f.Note = fmt.Sprintf("arrays of several axes (TDIM %v), as flat lists", c.dim)
	}
}

func (t *binTable) Rows() int64  { return t.h.axes[1] }
func (t *binTable) Grain() int64 { return 1 }
func (t *binTable) Close() error { return nil }

func (t *binTable) RowBytes() int64 {
	n := t.h.axes[0]
	if rows := t.Rows(); rows > 0 {
		n += t.heap.size / rows
	}
	return max(1, n)
}

func (t *binTable) Fields() []table.Field { return fieldsOf(t.fields) }

func fieldsOf(fields []field) []table.Field {
	out := make([]table.Field, len(fields))
	for i := range fields {
		out[i] = fields[i].Field
	}
	return out
}

// Read reads rows [lo, hi), slab by slab. It verifies the HDU's checksums first, once.
func (t *binTable) Read(ctx context.Context, lo, hi int64, want []table.Request) ([]*catalog.Vector, error) {
	fills, err := t.prepare(ctx, lo, hi, want)
	if err != nil {
		return nil, t.h.fail(nowhere, err)
	}
	rows := int(hi - lo)
	out := make([]*catalog.Vector, len(want))
	decoders := make([]decoder, len(want))
	for i, w := range want {
		out[i] = newVector(&t.fields[w.Field], rows)
		decoders[i] = decoder{t: t, f: &t.fields[w.Field], v: out[i], fill: fills[i]}
	}
	size := t.h.axes[0]
	err = t.h.slabs(ctx, &t.slab, lo, hi, func(at, n, from int64) error {
		if err := t.span(want, int(n)); err != nil {
			return t.h.fail(place{row: at, at: -1}, err)
		}
		for i := range decoders {
			d := &decoders[i]
			d.lo, d.slab, d.size = at, t.slab, int(size)
			if row, err := d.rows(int(at-lo), int(n)); err != nil {
				return t.h.fail(place{column: d.f.Source, row: at + int64(row), at: from + int64(row)*size + int64(d.f.col.at)}, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// slabs reads the rows [lo, hi) of a table into slab, some at a time, and gives each to do: n rows from row at on, which stand at byte from.
func (h *HDU) slabs(ctx context.Context, slab *[]byte, lo, hi int64, do func(at, n, from int64) error) error {
	size := h.axes[0]
	step := max(1, slabBytes/max(1, size))
	for at := lo; at < hi && size > 0; at += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(step, hi-at)
		*slab = room(*slab, int(n*size))
		from := h.data + at*size
		if err := h.f.readAt(*slab, from); err != nil {
			return h.fail(place{row: at, at: from}, err)
		}
		if err := do(at, n, from); err != nil {
			return err
		}
	}
	return nil
}

// prepare checks what is asked for, and that the file is what it was when it was summed up.
func (t *binTable) prepare(ctx context.Context, lo, hi int64, want []table.Request) ([]filler, error) {
	fills, err := checkRequests(t.Rows(), lo, hi, t.fields, want)
	if err != nil {
		return nil, err
	}
	return fills, t.h.verify(ctx)
}

func checkRequests(rows, lo, hi int64, fields []field, want []table.Request) ([]filler, error) {
	if lo < 0 || hi < lo || hi > rows {
		return nil, fmt.Errorf("rows %d to %d of a table of %d", lo, hi, rows)
	}
	fills := make([]filler, len(want))
	for i, w := range want {
		if w.Field < 0 || w.Field >= len(fields) {
			return nil, fmt.Errorf("field %d of a table of %d", w.Field, len(fields))
		}
		f := &fields[w.Field]
		if f.Err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Source, f.Err)
		}
		if f.Column.Fixed() && (hi-lo) > math.MaxInt/int64(f.Column.RowBytes()) {
			return nil, fmt.Errorf("%w: %d rows of %s", ErrTooLarge, hi-lo, f.Source)
		}
		var err error
		if fills[i], err = newFiller(f, w.Fill); err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Source, err)
		}
	}
	return fills, nil
}

// newVector makes a vector of the rows, its fixed part allocated.
func newVector(f *field, rows int) *catalog.Vector {
	v := &catalog.Vector{Rows: rows}
	if f.Column.Nullable {
		v.Valid = make([]bool, rows)
	}
	if f.Column.Fixed() {
		v.Data = make([]byte, rows*f.Column.RowBytes())
		return v
	}
	v.Offsets = make([]int64, 1, rows+1)
	if f.Column.Kind == catalog.List && f.Column.DType == catalog.String {
		v.StrOffsets = make([]int64, 1, rows*int(f.elems)+1)
	}
	return v
}

// span reads the part of the heap that a slab's rows point at, where it is not much more than they need: arrays of several
// columns often stand among each other.
func (t *binTable) span(want []table.Request, n int) error {
	lo, hi, need := int64(math.MaxInt64), int64(0), int64(0)
	for _, w := range want {
		c := t.fields[w.Field].col
		if c.form.array == 0 {
			continue
		}
		for i := range n {
			count, off := c.form.descriptor(t.slab[i*int(t.h.axes[0])+c.at:])
			size, ok := c.form.arrayBytes(count)
			if !ok || size == 0 || t.heap.check(off, size) != nil {
				continue // the decoder says what is wrong
			}
			lo, hi, need = min(lo, off), max(hi, off+size), need+size
		}
	}
	const most, slack = 16 << 20, 64 << 10
	if hi > lo && hi-lo <= most && hi-lo <= 2*need+slack {
		return t.heap.load(lo, hi)
	}
	return nil
}
