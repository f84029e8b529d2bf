package hdf5

import (
	"context"
	"slices"
)

// A float that no IEEE float of its size can hold, such as bfloat16, is read as the next larger one that can. Inside a
// compound, an array or a sequence, whose elements keep their places, it is refused.

// wideFloat is the type as which a float is read, and the layout that it has in the file.
type wideFloat struct {
	as     *Type
	layout floatLayout
}

// widened gives the smallest IEEE float larger than size bytes that has all values of l, or nil. Floats of one byte are
// left out: writers do not agree on what their largest exponent means.
func widened(l floatLayout, size int) *wideFloat {
	for _, n := range []int{2, 4, 8} {
		target, _ := ieee(n)
		if size > 1 && n > size && l.within(target, 8*size) {
			return &wideFloat{&Type{Class: ClassFloat, Size: n, Signed: true}, l}
		}
	}
	return nil
}

// widen turns little-endian elements of size bytes in src into such of w.as in dst.
func (w *wideFloat) widen(dst, src []byte, size int) {
	for ; len(src) >= size; src = src[size:] {
		var v uint64
		for i := range size {
			v |= uint64(src[i]) << (8 * i)
		}
		v = w.layout.ieee(v, w.as.Size)
		for i := range w.as.Size {
			dst[i] = byte(v >> (8 * i))
		}
		dst = dst[w.as.Size:]
	}
}

// widen gives a dataset of a wider type in whose place d is read.
func (d *Dataset) widen() *Dataset {
	w := d.Type.wide
	d.refused = nil
	out := &Dataset{Type: w.as, Dims: d.Dims, MaxDims: d.MaxDims, Null: d.Null, Chunk: d.Chunk, Filters: d.Filters, o: d.o, narrow: d}
	if d.Fill != nil {
		out.Fill = make([]byte, w.as.Size)
		w.widen(out.Fill, d.Fill, d.Type.Size)
	}
	return out
}

// readNarrow reads rows of the narrow type and widens them.
func (d *Dataset) readNarrow(ctx context.Context, r0, r1 uint64, dst []byte, workers int) error {
	n := d.narrow
	b := make([]byte, len(dst)/d.Type.Size*n.Type.Size)
	if err := n.readStored(ctx, r0, r1, b, workers); err != nil {
		return err
	}
	n.Type.wide.widen(dst, b, n.Type.Size)
	return nil
}

// widen turns an attribute of floats that are read as wider ones.
func (a *Attr) widen() {
	w, narrow := a.Type.wide, a.Type.Size
	data := a.Data
	a.Data = slices.Grow([]byte(nil), len(data)/narrow*w.as.Size)[:len(data)/narrow*w.as.Size]
	w.widen(a.Data, data, narrow)
	a.Type = w.as
}
