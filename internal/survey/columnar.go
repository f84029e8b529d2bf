package survey

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"astropile/internal/catalog"
	"astropile/internal/survey/hdf5"
)

// columnar reads files whose datasets share axis 0.
type columnar struct {
	base
	rows  int64
	slab  int64
	binds []binding
	sets  map[string]*rowSet
}

// rowSet is a dataset with its last rows decoded, where chunks are taller than what is read at once.
type rowSet struct {
	set      *hdf5.Dataset
	rowBytes int64
	tall     int64 // rows of a chunk
	keep     bool  // whole chunks are decoded and kept
	lo, hi   int64 // rows in buf
	buf      []byte
}

// keepBytes is the most that the chunks kept decoded by a reader take.
const keepBytes = 256 << 20

func (b *base) openColumnar(root *hdf5.Object) (Reader, error) {
	o, err := describe(root, b.in.Path, b.recipe)
	if err != nil {
		return nil, err
	}
	all, err := bind(o, b.recipe, b.maps, b.cols)
	if err != nil {
		return nil, err
	}
	c := &columnar{base: *b, rows: o.rows, binds: b.narrow(all), sets: map[string]*rowSet{}}
	var ordered []*rowSet
	add := func(f *field) error {
		if f == nil || c.sets[f.key.path] != nil {
			return nil
		}
		d := o.sets[f.key.path]
		if d.RowBytes() > maxRowBytes {
			return fmt.Errorf("%w: %s: a row of %q takes %d bytes, at most %d", ErrMapping, b.in.Path, f.key.path, d.RowBytes(), maxRowBytes)
		}
		s := &rowSet{set: d, rowBytes: int64(d.RowBytes()), tall: int64(min(max(1, d.SlabRows()), 1<<40))}
		c.sets[f.key.path] = s
		ordered = append(ordered, s)
		return nil
	}
	for i := range c.binds {
		for _, f := range append([]*field{c.binds[i].f}, c.binds[i].members...) {
			if err := add(f); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(ordered, func(a, b *rowSet) int { return cmp.Compare(b.rowBytes, a.rowBytes) })
	c.slab = slabRows(ordered, c.rows, c.heapBytes(), c.opt.slab)
	keepTall(ordered, c.slab)
	return c, nil
}

// heapBytes is what a row's elements of varying length take on average, at most: they stand uncompressed in the file.
func (c *columnar) heapBytes() int64 {
	for i := range c.binds {
		for _, f := range append([]*field{c.binds[i].f}, c.binds[i].members...) {
			if f != nil && f.elem.typ.Class == hdf5.ClassVlen {
				return c.size / max(1, c.rows)
			}
		}
	}
	return 0
}

// slabRows chooses how many rows to read at once: about target bytes, a multiple of the chunks of the datasets that
// make up most of a row, unless that takes more than 16 times as much.
func slabRows(sets []*rowSet, rows, heap, target int64) int64 {
	total := 1 + heap
	for _, s := range sets {
		total += s.rowBytes
	}
	step := max(1, target/total)
	align := int64(1)
	for _, s := range sets {
		if s.rowBytes*16 < total {
			continue
		}
		tall := min(s.tall, max(1, rows))
		if both := align / gcd(align, tall) * tall; both <= 16*target/total {
			align = both
		}
	}
	if step < align {
		return align
	}
	return step - step%align
}

// keepTall decides which datasets stay decoded a chunk's height at a time: those whose chunks are taller than what is
// read at once, the smallest first, as long as there is memory for them.
func keepTall(sets []*rowSet, slab int64) {
	sets = slices.Clone(sets)
	slices.SortStableFunc(sets, func(a, b *rowSet) int { return cmp.Compare(a.chunkBytes(), b.chunkBytes()) })
	left := int64(keepBytes)
	for _, s := range sets {
		if s.tall <= slab || s.chunkBytes() > left {
			continue
		}
		left -= s.chunkBytes()
		s.keep = true
	}
}

// chunkBytes is the number of bytes of all rows of one height of chunks.
func (s *rowSet) chunkBytes() int64 {
	if s.rowBytes > 0 && s.tall > math.MaxInt64/s.rowBytes {
		return math.MaxInt64
	}
	return s.tall * s.rowBytes
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (c *columnar) Rows() int64 { return c.rows }
func (c *columnar) Slab() int64 { return c.slab }

// read gives the rows [lo, hi) of the dataset as they are in the file, to be used before the next call.
func (s *rowSet) read(ctx context.Context, lo, hi int64, workers int) ([]byte, error) {
	if lo < s.lo || hi > s.hi {
		from, to := lo, hi
		if s.keep {
			from, to = lo/s.tall*s.tall, min(int64(s.set.Rows()), (hi+s.tall-1)/s.tall*s.tall)
		}
		n := (to - from) * s.rowBytes
		if int64(cap(s.buf)) < n {
			s.buf = make([]byte, n)
		}
		s.buf, s.lo, s.hi = s.buf[:n], 0, 0
		if err := s.set.ReadRows(ctx, uint64(from), uint64(to), s.buf, workers); err != nil {
			return nil, err
		}
		s.lo, s.hi = from, to
	}
	return s.buf[(lo-s.lo)*s.rowBytes : (hi-s.lo)*s.rowBytes], nil
}

func (c *columnar) Read(ctx context.Context, lo, hi int64) (*catalog.Batch, error) {
	if err := c.rangeError(lo, hi, c.rows); err != nil {
		return nil, err
	}
	c.begin()
	n := int(hi - lo)
	vectors := make([]*catalog.Vector, len(c.binds))
	for i := range c.binds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		if vectors[i], err = c.column(ctx, &c.binds[i], lo, hi); err != nil {
			return nil, err
		}
	}
	return c.finish(c.binds, vectors, lo, n)
}

func (c *columnar) column(ctx context.Context, x *binding, lo, hi int64) (*catalog.Vector, error) {
	v := catalog.NewVector(&x.col)
	n := int(hi - lo)
	switch {
	case x.m.From == FromSplit:
		for range n {
			if c.in.Split == "" {
				appendNull(v, x.m)
			} else {
				appendText(v, c.in.Split)
			}
		}
		return v, nil
	case x.m.Kind == catalog.Struct:
		cells := make([][]byte, len(x.members))
		for k, f := range x.members {
			raw, err := c.raw(ctx, f, lo, hi)
			if err != nil {
				return nil, err
			}
			cells[k] = raw
		}
		row := make([]*cell, len(cells))
		for i := range n {
			for k, f := range x.members {
				w := int(f.bytes)
				row[k] = &cell{vlen: c.vlen, f: f, data: cells[k][i*w : (i+1)*w]}
			}
			if err := c.append(v, x, row, lo+int64(i)); err != nil {
				return nil, err
			}
		}
		return v, nil
	case x.f == nil:
		for range n {
			appendNull(v, x.m)
		}
		return v, nil
	}
	f, size := x.f, x.m.DType.Size()
	fixed := x.col.Fixed() && f.elem.dt != catalog.String && elements(f.shape) == x.col.Elems()
	if s := c.sets[f.key.path]; fixed && f.key.member == "" && f.elem.dt == x.m.DType && f.elem.size == size && !s.keep {
		v.Data, v.Rows = make([]byte, int64(n)*s.rowBytes), n
		if err := s.set.ReadRows(ctx, uint64(lo), uint64(hi), v.Data, c.opt.workers); err != nil {
			return nil, err
		}
		if x.m.DType == catalog.Bool {
			if i := notBool(v.Data); i >= 0 {
				return nil, c.valueError(lo+int64(i)/s.rowBytes, x.m.Name, inexact(x.m, v.Data, &f.elem, i))
			}
		}
		return v, nil
	}
	raw, err := c.raw(ctx, f, lo, hi)
	if err != nil {
		return nil, err
	}
	if fixed {
		per := x.col.Elems()
		v.Data, v.Rows = make([]byte, n*per*size), n
		if i := convert(v.Data, x.m.DType, raw, &f.elem, n*per, x.m.Round); i >= 0 {
			return nil, c.valueError(lo+int64(i/per), x.m.Name, inexact(x.m, raw, &f.elem, i))
		}
		return v, nil
	}
	w := int(f.bytes)
	one := cell{vlen: c.vlen, f: f}
	for i := range n {
		one.data, one.changed = raw[i*w:(i+1)*w], false
		if err := c.append(v, x, []*cell{&one}, lo+int64(i)); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// raw gives the rows [lo, hi) of a field, packed; what belongs to a dataset of one part is shared with its buffer.
func (c *columnar) raw(ctx context.Context, f *field, lo, hi int64) ([]byte, error) {
	s := c.sets[f.key.path]
	b, err := s.read(ctx, lo, hi, c.opt.workers)
	if err != nil {
		return nil, err
	}
	if f.key.member == "" && f.width == s.set.Type.Size {
		if len(b) == 0 {
			return nil, nil
		}
		return b, nil
	}
	return pick(nil, b, s.set.Type.Size, f), nil
}

// pick appends the part of each element that is the field's.
func pick(dst, elements []byte, stride int, f *field) []byte {
	if dst == nil {
		dst = make([]byte, 0, len(elements)/stride*f.width)
	}
	for at := 0; at < len(elements); at += stride {
		dst = append(dst, elements[at+f.offset:at+f.offset+f.width]...)
	}
	return dst
}
