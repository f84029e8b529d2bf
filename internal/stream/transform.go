package stream

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"astropile/internal/catalog"
)

// Transform changes the rows of a tensor column on their way into the slot. The zero value changes nothing. It is applied in this order: Bands,
// Crop, then (value - Subtract) / Divide, then DType.
type Transform struct {
	Bands    []int     `json:"bands,omitempty"`    // indices along the first axis, in the order wanted
	Crop     []int     `json:"crop,omitempty"`     // lengths of the last axes, of which the middle is kept
	Subtract []float64 `json:"subtract,omitempty"` // one for all, or one for each band that is kept
	Divide   []float64 `json:"divide,omitempty"`   // likewise
	DType    string    `json:"dtype,omitempty"`    // float16, bfloat16, float32 or float64; empty keeps it, or float32 where numbers are computed
}

// bfloat16 is a format of memory only: the upper half of a float32.
const bfloat16 = "bfloat16"

// transform is a Transform worked out for a column.
type transform struct {
	in, out catalog.Column
	format  string // bfloat16, or empty
	src     catalog.DType
	width   int   // bytes of a source element
	runs    []run // what is needed of a source row, in the order of the result
	need    int   // bytes of the runs
	sub     []float64
	div     []float64
	compute bool
	plain   bool // values are copied as they are
}

// run is a piece of a source row that is kept, and the number of elements of the band it belongs to.
type run struct {
	off, elems int
	band       int
}

// newTransform checks a transform. It gives nil for one that changes nothing. The error is ErrSelect.
func newTransform(c *catalog.Column, x *Transform) (*transform, error) {
	if x.Bands == nil && x.Crop == nil && x.Subtract == nil && x.Divide == nil && x.DType == "" {
		return nil, nil
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: column %q: %s", ErrSelect, c.Name, fmt.Sprintf(format, args...))
	}
	if c.Kind != catalog.Tensor || c.DType.Complex() || c.DType == catalog.Bool {
		return nil, bad("only tensors of numbers are cropped, cast and computed with; it is a %s of %s", c.Kind, c.DType)
	}
	t := &transform{in: *c, out: *c, src: c.DType, width: c.DType.Size()}
	shape := slices.Clone(c.Shape)
	bands := x.Bands
	if bands == nil {
		bands = make([]int, shape[0])
		for i := range bands {
			bands[i] = i
		}
	}
	for _, b := range bands {
		if b < 0 || b >= shape[0] {
			return nil, bad("band %d of %d", b, shape[0])
		}
	}
	if len(bands) == 0 {
		return nil, bad("no bands are kept")
	}
	lo := make([]int, len(shape))
	hi := slices.Clone(shape)
	if len(x.Crop) > len(shape) || x.Bands != nil && len(x.Crop) == len(shape) {
		return nil, bad("a crop of %d axes, and the shape is %v; give one length for each axis to crop, such as crop=(64,)", len(x.Crop), shape)
	}
	for i, n := range x.Crop {
		axis := len(shape) - len(x.Crop) + i
		if n < 1 || n > shape[axis] {
			return nil, bad("a crop to %v of shape %v", x.Crop, shape)
		}
		lo[axis] = (shape[axis] - n) / 2
		hi[axis] = lo[axis] + n
	}
	// Bands are along the first axis of two or more; of one axis there are none, and a crop cuts it.
	if len(shape) == 1 {
		if x.Bands == nil {
			t.runs = []run{{lo[0] * t.width, hi[0] - lo[0], 0}}
			t.out.Shape = []int{hi[0] - lo[0]}
		} else {
			for k, b := range bands {
				t.runs = append(t.runs, run{b * t.width, 1, k})
			}
			t.out.Shape = []int{len(bands)}
		}
	} else {
		t.out.Shape = append([]int{len(bands)}, shape[1:]...)
		for axis := 1; axis < len(shape); axis++ {
			t.out.Shape[axis] = hi[axis] - lo[axis]
		}
		if x.Bands == nil {
			bands = bands[lo[0]:hi[0]]
			t.out.Shape[0] = len(bands)
		}
		stride := make([]int, len(shape))
		stride[len(shape)-1] = 1
		for axis := len(shape) - 2; axis >= 0; axis-- {
			stride[axis] = stride[axis+1] * shape[axis+1]
		}
		for k, b := range bands {
			t.cut(b*stride[0], 1, k, lo, hi, shape, stride)
		}
	}
	for _, r := range t.runs {
		t.need += r.elems * t.width
	}
	t.compute = x.Subtract != nil || x.Divide != nil
	n := 1
	if len(shape) > 1 || x.Bands != nil {
		n = t.out.Shape[0]
	}
	var err error
	if t.sub, err = perBand("subtract", x.Subtract, 0, n); err != nil {
		return nil, bad("%v", err)
	}
	if t.div, err = perBand("divide", x.Divide, 1, n); err != nil {
		return nil, bad("%v", err)
	}
	switch x.DType {
	case "":
		if t.compute && c.DType != catalog.Float64 {
			t.out.DType = catalog.Float32
		}
	case bfloat16:
		t.out.DType, t.format = catalog.Uint16, bfloat16
	case string(catalog.Float16), string(catalog.Float32), string(catalog.Float64):
		t.out.DType = catalog.DType(x.DType)
	default:
		return nil, bad("dtype %q is none of float16, bfloat16, float32, float64", x.DType)
	}
	t.plain = !t.compute && t.format == "" && t.out.DType == t.src
	t.out.Layout = ""
	return t, nil
}

func perBand(what string, v []float64, none float64, n int) ([]float64, error) {
	out := make([]float64, n)
	for i := range out {
		switch {
		case v == nil:
			out[i] = none
		case len(v) == 1:
			out[i] = v[0]
		case len(v) != n:
			return nil, fmt.Errorf("%s has %d numbers for %d bands", what, len(v), n)
		default:
			out[i] = v[i]
		}
		if math.IsNaN(out[i]) || math.IsInf(out[i], 0) || what == "divide" && out[i] == 0 {
			return nil, fmt.Errorf("%s: %v is not a number to compute with", what, out[i])
		}
	}
	return out, nil
}

// cut appends the runs of a band: whole axes at the end join.
func (t *transform) cut(at, axis, band int, lo, hi, shape, stride []int) {
	whole := true
	for k := axis + 1; k < len(shape); k++ {
		whole = whole && lo[k] == 0 && hi[k] == shape[k]
	}
	if whole {
		r := run{(at + lo[axis]*stride[axis]) * t.width, (hi[axis] - lo[axis]) * stride[axis], band}
		if n := len(t.runs); n > 0 && t.runs[n-1].band == band && t.runs[n-1].off+t.runs[n-1].elems*t.width == r.off {
			t.runs[n-1].elems += r.elems
		} else {
			t.runs = append(t.runs, r)
		}
		return
	}
	for i := lo[axis]; i < hi[axis]; i++ {
		t.cut(at+i*stride[axis], axis+1, band, lo, hi, shape, stride)
	}
}

// apply makes a row of the result of the runs of a source row: one after the other in packed, or at their places in row.
func (t *transform) apply(dst, row []byte, packed bool) {
	size, at, from := t.out.DType.Size(), 0, 0
	for _, r := range t.runs {
		start := r.off
		if packed {
			start = from
			from += r.elems * t.width
		}
		src := row[start : start+r.elems*t.width]
		out := dst[at : at+r.elems*size]
		at += r.elems * size
		if t.plain {
			copy(out, src)
			continue
		}
		t.convert(out, src, r.elems, r.band)
	}
}

var le = binary.LittleEndian

// convert computes n elements of a band.
func (t *transform) convert(dst, src []byte, n, band int) {
	k := min(band, len(t.sub)-1)
	sub, div := t.sub[k], t.div[k]
	if t.src == catalog.Float32 && t.out.DType == catalog.Float32 && t.format == "" {
		for i := range n {
			x := float64(math.Float32frombits(le.Uint32(src[4*i:])))
			le.PutUint32(dst[4*i:], math.Float32bits(float32((x-sub)/div)))
		}
		return
	}
	get := getter(t.src, src)
	for i := range n {
		x := get(i)
		if t.compute {
			x = (x - sub) / div
		}
		switch {
		case t.format == bfloat16:
			le.PutUint16(dst[2*i:], toBfloat16(float32(x)))
		case t.out.DType == catalog.Float16:
			le.PutUint16(dst[2*i:], catalog.FloatToHalf(x))
		case t.out.DType == catalog.Float32:
			le.PutUint32(dst[4*i:], math.Float32bits(float32(x)))
		default:
			le.PutUint64(dst[8*i:], math.Float64bits(x))
		}
	}
}

func getter(d catalog.DType, b []byte) func(i int) float64 {
	switch d {
	case catalog.Float32:
		return func(i int) float64 { return float64(math.Float32frombits(le.Uint32(b[4*i:]))) }
	case catalog.Float64:
		return func(i int) float64 { return math.Float64frombits(le.Uint64(b[8*i:])) }
	case catalog.Float16:
		return func(i int) float64 { return catalog.HalfToFloat(le.Uint16(b[2*i:])) }
	case catalog.Int8:
		return func(i int) float64 { return float64(int8(b[i])) }
	case catalog.Int16:
		return func(i int) float64 { return float64(int16(le.Uint16(b[2*i:]))) }
	case catalog.Int32:
		return func(i int) float64 { return float64(int32(le.Uint32(b[4*i:]))) }
	case catalog.Int64:
		return func(i int) float64 { return float64(int64(le.Uint64(b[8*i:]))) }
	case catalog.Uint16:
		return func(i int) float64 { return float64(le.Uint16(b[2*i:])) }
	case catalog.Uint32:
		return func(i int) float64 { return float64(le.Uint32(b[4*i:])) }
	case catalog.Uint64:
		return func(i int) float64 { return float64(le.Uint64(b[8*i:])) }
	}
	return func(i int) float64 { return float64(b[i]) }
}

// toBfloat16 rounds to the nearest, ties to even.
func toBfloat16(f float32) uint16 {
	b := math.Float32bits(f)
	if f != f {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// partial is the share of a row above which the whole row is read, for one long read beats several short ones.
const partial = 0.75

// readChanged reads rows of one shard of a column and changes them on the way.
func (s *Set) readChanged(ctx context.Context, w *worker, o *openShard, k int, rows []int64, dst []byte) error {
	t := s.changes[k]
	rb, out := t.in.RowBytes(), len(dst)/len(rows)
	if float64(t.need) <= partial*float64(rb) && len(t.runs) <= 64 {
		if l, err := o.cols[k].Locate(ctx); err == nil {
			return t.readRuns(ctx, w, o, l.First, l.Offsets, rows, dst)
		}
	}
	step := max(1, runBytes/rb)
	for lo := 0; lo < len(rows); lo += step {
		hi := min(len(rows), lo+step)
		buf := w.room((hi - lo) * rb)
		if err := o.cols[k].ReadRows(ctx, rows[lo:hi], buf); err != nil {
			return err
		}
		for i := lo; i < hi; i++ {
			t.apply(dst[i*out:(i+1)*out], buf[(i-lo)*rb:(i-lo+1)*rb], false)
		}
	}
	return nil
}

// readRuns reads only what is needed of each row, where values stand in the file as they do in memory.
func (t *transform) readRuns(ctx context.Context, w *worker, o *openShard, first, offsets, rows []int64, dst []byte) error {
	rb, out := int64(t.in.RowBytes()), len(dst)/len(rows)
	buf := w.room(t.need)
	for i, row := range rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, ok := slices.BinarySearch(first, row)
		if !ok {
			p--
		}
		at := offsets[p] + (row-first[p])*rb
		n := 0
		for _, r := range t.runs {
			size := r.elems * t.width
			if _, err := o.h.ReadAt(buf[n:n+size], at+int64(r.off)); err != nil {
				return fmt.Errorf("row %d: %d bytes at byte %d: %w", row, size, at+int64(r.off), err)
			}
			n += size
		}
		t.apply(dst[i*out:(i+1)*out], buf, true)
	}
	return nil
}

// room is a buffer of a worker.
func (w *worker) room(n int) []byte {
	if cap(w.buf) < n {
		w.buf = make([]byte, n)
	}
	return w.buf[:n]
}
