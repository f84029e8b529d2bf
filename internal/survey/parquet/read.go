package parquet

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"
	"unicode/utf8"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// maxAhead bounds the memory that is taken for rows before their bytes were seen.
const maxAhead = 64 << 20

// Read gives rows [lo, hi) of the fields asked for. Rows that follow the ones read last cost their own bytes alone; going
// back costs decoding from the start of the row group on.
func (t *Table) Read(ctx context.Context, lo, hi int64, want []table.Request) ([]*catalog.Vector, error) {
	if lo < 0 || hi < lo || hi > t.rows {
		return nil, fmt.Errorf("%s: %w: rows %d to %d of %d", t.name, ErrRequest, lo, hi, t.rows)
	}
	out := make([]*catalog.Vector, len(want))
	for i, w := range want {
		if w.Field < 0 || w.Field >= len(t.fields) {
			return nil, fmt.Errorf("%s: %w: field %d of %d", t.name, ErrRequest, w.Field, len(t.fields))
		}
		f := &t.fields[w.Field]
		if f.Err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, f.Err)
		}
		err := guarded(func() (err error) {
			r := &reader{t: t, ctx: ctx, f: f, lo: lo, hi: hi}
			out[i], err = r.read(w.Fill)
			return err
		})
		if err != nil {
			for _, l := range f.leaves {
				t.open[l.index] = nil // where it stands is not known any more
			}
			return nil, fmt.Errorf("%s: %s: %w", t.name, f.Source, err)
		}
	}
	return out, nil
}

// reader reads one field.
type reader struct {
	t      *Table
	ctx    context.Context
	f      *field
	lo, hi int64
}

func (r *reader) read(fills []any) (*catalog.Vector, error) {
	f := r.f
	fill := make([]filler, len(f.leaves))
	for i := range fill {
		d := f.Column.DType
		if f.Column.Kind == catalog.Struct {
			d = f.Column.Members[i].DType
		}
		var v any
		if i < len(fills) {
			v = fills[i]
		}
		var err error
		if fill[i], err = newFiller(d, v); err != nil {
			return nil, err
		}
	}
	if r.lo == r.hi {
		return catalog.NewVector(&f.Column), nil
	}
	switch {
	case f.cutout:
		return r.cutouts(fill[0])
	case f.Column.Kind == catalog.Scalar:
		return r.scalar()
	case f.Column.Kind == catalog.Tensor:
		return r.tensor(fill[0])
	case f.Column.Kind == catalog.List:
		v, valid, err := r.list(f.leaves[0], fill[0])
		if err == nil {
			v.Valid = valid
		}
		return v, err
	}
	out := &catalog.Vector{Rows: int(r.hi - r.lo)}
	for k, l := range f.leaves {
		v, valid, err := r.list(l, fill[k])
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", f.Column.Members[k].Name, err)
		}
		if k == 0 {
			out.Valid = valid
		} else if first := out.Members[0].Offsets; !slices.Equal(first, v.Offsets) {
			for i := range out.Rows {
				if first[i+1] != v.Offsets[i+1] {
					return nil, badValue("row %d: %s has %d elements, %s has %d; in a recipe, make them lists of their own", r.lo+int64(i), f.Column.Members[0].Name,
						first[i+1]-first[i], f.Column.Members[k].Name, v.Offsets[i+1]-v.Offsets[i])
				}
			}
		}
		out.Members = append(out.Members, v)
	}
	return out, nil
}

// start is the cursor of a leaf at the first row.
func (r *reader) start(l *leaf) (*cursor, error) {
	c := r.t.open[l.index]
	if c == nil {
		c = r.t.newCursor(l)
		r.t.open[l.index] = c
	}
	return c, c.seek(r.ctx, r.lo)
}

// blocks calls f after each block of rows was read into s; at is the first of them.
func (r *reader) blocks(l *leaf, s *sink, rows func(at int64) int64, f func(at, n int64) error) error {
	c, err := r.start(l)
	if err != nil {
		return err
	}
	for at := r.lo; at < r.hi; {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		n := min(rows(at), r.hi-at)
		s.reset()
		if err := c.read(s, int(n)); err != nil {
			return err
		}
		if err := f(at, n); err != nil {
			return err
		}
		at += n
	}
	return nil
}

func (r *reader) scalar() (*catalog.Vector, error) {
	l := r.f.leaves[0]
	rows := int(r.hi - r.lo)
	s := newSink(l)
	s.data = make([]byte, 0, min(rows*max(l.size, 1), maxAhead))
	if s.off != nil {
		s.off = append(make([]int64, 0, min(rows+1, maxAhead/8)), 0)
	}
	c, err := r.start(l)
	if err != nil {
		return nil, err
	}
	for left := rows; left > 0; {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		n := min(left, 1<<20)
		if err := c.read(s, n); err != nil {
			return nil, err
		}
		left -= n
	}
	v := &catalog.Vector{Rows: rows, Data: s.data}
	if !s.allDef {
		v.Valid = make([]bool, rows)
		for i, d := range s.def {
			v.Valid[i] = int(d) == l.maxDef
		}
	}
	if r.f.Column.DType != catalog.String {
		v.Data = spread(s.data, v.Valid, l.size)
		return v, nil
	}
	if s.off == nil {
		s.off = evenly(len(s.data)/l.size, l.size)
	}
	if i := badText(s.data, s.off); i >= 0 {
		return nil, badValue("row %d: the text %q is not UTF-8; mend the file, or drop the source", r.lo+nth(v.Valid, i), clip(s.data[s.off[i]:s.off[i+1]]))
	}
	v.Offsets = s.off
	if v.Valid != nil {
		v.Offsets = make([]int64, rows+1)
		k := 0
		for i, ok := range v.Valid {
			if ok {
				k++
			}
			v.Offsets[i+1] = s.off[k]
		}
	}
	return v, nil
}

// nth is the index of the i-th true in valid.
func nth(valid []bool, i int) int64 {
	if valid == nil {
		return int64(i)
	}
	for k, ok := range valid {
		if ok {
			if i == 0 {
				return int64(k)
			}
			i--
		}
	}
	return int64(len(valid))
}

// evenly are the offsets of n texts of one size.
func evenly(n, size int) []int64 {
	off := make([]int64, n+1)
	for i := range off {
		off[i] = int64(i * size)
	}
	return off
}

func clip(b []byte) []byte { return b[:min(len(b), 40)] }

// badText is the index of the first text that is not UTF-8, or -1.
func badText(data []byte, off []int64) int {
	good := utf8.Valid(data)
	if good {
		for _, o := range off {
			if o < int64(len(data)) && !utf8.RuneStart(data[o]) {
				good = false
				break
			}
		}
	}
	if good {
		return -1
	}
	for i := range len(off) - 1 {
		if !utf8.Valid(data[off[i]:off[i+1]]) {
			return i
		}
	}
	return -1
}

// spread puts values where rows are valid, and zeros elsewhere.
func spread(data []byte, valid []bool, size int) []byte {
	if valid == nil {
		return data
	}
	from := len(data)
	data = grow(data, len(valid)*size-from)
	for i := len(valid) - 1; i >= 0; i-- {
		to := data[i*size : (i+1)*size]
		if valid[i] {
			from -= size
			copy(to, data[from:from+size])
		} else {
			clear(to)
		}
	}
	return data
}

func (r *reader) tensor(fill filler) (*catalog.Vector, error) {
	l, f := r.f.leaves[0], r.f
	rows := int(r.hi - r.lo)
	rowBytes := f.elems * l.size
	inner, list := byte(l.slots[len(l.slots)-1]), byte(l.slots[0]-1)
	s := newSink(l)
	s.data = make([]byte, 0, min(rows*rowBytes, maxAhead))
	v := &catalog.Vector{Rows: rows}
	done := 0 // bytes of rows that are checked
	var packed []byte
	err := r.blocks(l, s, func(at int64) int64 { return max(1, min(int64((64<<10)/f.elems), 1<<14)) }, func(at, n int64) error {
		if s.allDef && len(s.rep) == int(n)*f.elems && repeats(s.rep, f.shape) {
			done += int(n) * rowBytes
			return nil
		}
		packed = append(packed[:0], s.data[done:]...)
		s.data = s.data[:done]
		from := 0
		err := rowsOf(s.rep, func(a, b int) error {
			defer func() { at++ }()
			if b-a == 1 && s.def[a] < list {
				if v.Valid == nil {
					v.Valid = make([]bool, rows)
					fillTrue(v.Valid)
				}
				v.Valid[at-r.lo] = false
				k := len(s.data)
				s.data = grow(s.data, rowBytes)
				clear(s.data[k:])
				return nil
			}
			if s.def[a] < inner || !bytes.Equal(s.rep[a:b], f.shape) {
				return badValue("row %d is not of the shape %s of the column%s", at, times(f.Column.Shape), r.advice())
			}
			for i := a; i < b; i++ {
				switch {
				case int(s.def[i]) == l.maxDef:
					s.data = append(s.data, packed[from:from+l.size]...)
					from += l.size
				case s.def[i] < inner:
					return badValue("row %d is not of the shape %s of the column%s", at, times(f.Column.Shape), r.advice())
				case !fill.there:
					return badValue("row %d: element %d is null; say in the recipe what stands for it (fill)", at, i-a)
				default:
					s.data = append(s.data, fill.bytes...)
				}
			}
			return nil
		})
		done = len(s.data)
		return err
	})
	v.Data = s.data
	return v, err
}

func (r *reader) advice() string {
	if r.f.leaves[0].maxRep == 1 {
		return "; in a recipe, make it a list"
	}
	return "; drop the source, or pad it in the file"
}

func fillTrue(b []bool) {
	for i := range b {
		b[i] = true
	}
}

// repeats says whether levels are one row after the other of the shape.
func repeats(rep, shape []byte) bool {
	for ; len(rep) > 0; rep = rep[len(shape):] {
		if !bytes.Equal(rep[:len(shape)], shape) {
			return false
		}
	}
	return true
}

// list reads the elements of a leaf's innermost rows; valid is nil where no row is null.
func (r *reader) list(l *leaf, fill filler) (*catalog.Vector, []bool, error) {
	rows := int(r.hi - r.lo)
	slot, null := byte(l.slots[0]), byte(r.f.null)
	s := newSink(l)
	v := &catalog.Vector{Rows: rows, Offsets: append(make([]int64, 0, min(rows+1, maxAhead/8)), 0)}
	var valid []bool
	var nulls []int64 // elements that are null
	elems := int64(0)
	err := r.blocks(l, s, func(at int64) int64 { return r.t.blockRows(l, at, r.hi) }, func(at, n int64) error {
		if s.allDef {
			return rowsOf(s.rep, func(a, b int) error {
				elems += int64(b - a)
				v.Offsets = append(v.Offsets, elems)
				return nil
			})
		}
		return rowsOf(s.rep, func(a, b int) error {
			for i := a; i < b; i++ {
				if s.def[i] < slot {
					continue
				}
				if int(s.def[i]) < l.maxDef {
					if !fill.there {
						return badValue("row %d: element %d is null; say in the recipe what stands for it (fill)", at, i-a)
					}
					nulls = append(nulls, elems)
				}
				elems++
			}
			if s.def[a] < null {
				if valid == nil {
					valid = make([]bool, rows)
					fillTrue(valid)
				}
				valid[at-r.lo] = false
			}
			v.Offsets = append(v.Offsets, elems)
			at++
			return nil
		})
	})
	if err != nil {
		return nil, nil, err
	}
	text := l.dtype == catalog.String
	if text && s.off == nil {
		s.off = evenly(len(s.data)/l.size, l.size)
	}
	if text {
		if i := badText(s.data, s.off); i >= 0 {
			elem := int64(i)
			for _, at := range nulls {
				if at <= elem {
					elem++
				}
			}
			row := sort.Search(rows, func(k int) bool { return v.Offsets[k+1] > elem })
			return nil, nil, badValue("row %d: the text %q is not UTF-8; mend the file, or drop the source", r.lo+int64(row), clip(s.data[s.off[i]:s.off[i+1]]))
		}
	}
	v.Data, v.StrOffsets = s.data, s.off
	if len(nulls) > 0 {
		insert(v, nulls, fill.bytes, l.size, elems)
	}
	return v, valid, nil
}

// insert puts the fill value where elements are null.
func insert(v *catalog.Vector, nulls []int64, fill []byte, size int, elems int64) {
	src, from := v.Data, int64(0) // from: next value of src
	off := v.StrOffsets
	out := make([]byte, 0, len(src)+len(nulls)*len(fill))
	var ends []int64
	if off != nil {
		ends = append(make([]int64, 0, elems+1), 0)
	}
	copyTo := func(to int64) { // values [from, to)
		if off == nil {
			out = append(out, src[from*int64(size):to*int64(size)]...)
		} else {
			base := int64(len(out)) - off[from]
			out = append(out, src[off[from]:off[to]]...)
			for _, o := range off[from+1 : to+1] {
				ends = append(ends, base+o)
			}
		}
		from = to
	}
	for k, at := range nulls {
		copyTo(at - int64(k))
		out = append(out, fill...)
		if off != nil {
			ends = append(ends, int64(len(out)))
		}
	}
	copyTo(elems - int64(len(nulls)))
	v.Data, v.StrOffsets = out, ends
}

func (r *reader) cutouts(fill filler) (*catalog.Vector, error) {
	l, col := r.f.leaves[0], &r.f.Column
	rows, size := int(r.hi-r.lo), col.RowBytes()
	v := &catalog.Vector{Rows: rows, Data: make([]byte, 0, min(rows*size, maxAhead))}
	s := newSink(l)
	err := r.blocks(l, s, func(int64) int64 { return 32 }, func(at, n int64) error {
		k := 0
		for i := range n {
			if len(s.def) > 0 && int(s.def[i]) < l.maxDef {
				if v.Valid == nil {
					v.Valid = make([]bool, rows)
					fillTrue(v.Valid)
				}
				v.Valid[at+i-r.lo] = false
				v.Data = append(v.Data, make([]byte, size)...)
				continue
			}
			raw := s.data[s.off[k]:s.off[k+1]]
			k++
			if int64(len(v.Data)+size) > maxSink {
				return badValue("over %d MiB at once; ask for fewer rows", maxSink>>20)
			}
			d, shape, data, err := r.t.opt.Cutout(raw, catalog.MaxTensorBytes)
			if err == nil && (d != col.DType || !slices.Equal(shape, col.Shape) && !(r.f.pad && inside(shape, col.Shape))) {
				err = fmt.Errorf("it is %s of %s, the column has %s of %s", d, times(shape), col.DType, times(col.Shape))
			}
			if err == nil && len(data) != product(shape)*d.Size() {
				err = fmt.Errorf("%d bytes of pixels in a shape of %s", len(data), times(shape))
			}
			if err == nil && len(data) < size {
				if data, err = padded(data, shape, col, fill); err == nil {
					v.Data = append(v.Data, data...)
					continue
				}
			}
			if err != nil {
				return fmt.Errorf("%w: row %d: FITS image: %w", ErrValue, at+i, err)
			}
			v.Data = append(v.Data, data...)
		}
		s.data, s.off = s.data[:0], s.off[:1]
		return nil
	})
	return v, err
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// inside says whether a shape is no larger than another in any axis.
func inside(shape, of []int) bool {
	if len(shape) != len(of) {
		return false
	}
	for i := range shape {
		if shape[i] > of[i] || shape[i] < 1 {
			return false
		}
	}
	return true
}

// padded fills an image up to the shape of its column, at the end of each axis.
func padded(data []byte, shape []int, col *catalog.Column, fill filler) ([]byte, error) {
	if !fill.there {
		return nil, badValue("it is smaller than %s; say in the recipe what fills it up (fill)", times(col.Shape))
	}
	out := bytes.Repeat(fill.bytes, col.Elems())
	last := len(shape) - 1
	run, size := shape[last]*col.DType.Size(), col.DType.Size()
	at := make([]int, len(shape))
	for ; len(data) > 0; data = data[run:] {
		to := 0
		for i, x := range at {
			to = to*col.Shape[i] + x
		}
		copy(out[to*size:], data[:run])
		for i := last - 1; i >= 0; i-- {
			if at[i]++; at[i] < shape[i] {
				break
			}
			at[i] = 0
		}
	}
	return out, nil
}
