package fits

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"astropile/internal/catalog"
)

// filler is what stands for elements that are null inside an array.
type filler struct {
	value []byte // as the column holds it; nil: such an element is an error
}

// newFiller takes the fill of a request: a number that the column's type holds. Texts and complex numbers need none.
func newFiller(f *field, fill []any) (filler, error) {
	dt := f.Column.DType
	if dt == catalog.String || dt.Complex() {
		return filler{}, nil // never null
	}
	if len(fill) == 0 || fill[0] == nil {
		switch dt {
		case catalog.Float32:
			return filler{le.AppendUint32(nil, nanBits32)}, nil
		case catalog.Float64:
			return filler{le.AppendUint64(nil, nanBits64)}, nil
		}
		return filler{}, nil
	}
	v, ok := fill[0].(float64)
	if !ok {
		return filler{}, fmt.Errorf("fill %v is no float64", fill[0])
	}
	b := make([]byte, dt.Size())
	back := math.NaN()
	// Converting what an integer does not hold gives anything: the way back shows it, but at 2^63 and 2^64, where it rounds.
	switch dt {
	case catalog.Bool:
		if v == 1 {
			b[0] = 1
		}
		back = float64(b[0])
	case catalog.Int8:
		b[0] = byte(int8(v))
		back = float64(int8(v))
	case catalog.Uint8:
		b[0] = byte(v)
		back = float64(byte(v))
	case catalog.Int16:
		le.PutUint16(b, uint16(int16(v)))
		back = float64(int16(v))
	case catalog.Uint16:
		le.PutUint16(b, uint16(v))
		back = float64(uint16(v))
	case catalog.Int32:
		le.PutUint32(b, uint32(int32(v)))
		back = float64(int32(v))
	case catalog.Uint32:
		le.PutUint32(b, uint32(v))
		back = float64(uint32(v))
	case catalog.Int64:
		if v >= -1<<63 && v < 1<<63 {
			le.PutUint64(b, uint64(int64(v)))
			back = float64(int64(v))
		}
	case catalog.Uint64:
		if v >= 0 && v < 1<<64 {
			le.PutUint64(b, uint64(v))
			back = float64(uint64(v))
		}
	case catalog.Float32:
		le.PutUint32(b, math.Float32bits(float32(v)))
		back = v
	case catalog.Float64:
		le.PutUint64(b, math.Float64bits(v))
		back = v
	}
	if back != v && !math.IsNaN(v) || math.IsNaN(v) && dt != catalog.Float32 && dt != catalog.Float64 {
		return filler{}, fmt.Errorf("fill %v is no %s", v, dt)
	}
	return filler{b}, nil
}

// decoder fills a vector from slabs of rows.
type decoder struct {
	t    *binTable
	f    *field
	v    *catalog.Vector
	fill filler
	lo   int64 // row of the table with which the slab begins
	slab []byte
	size int // bytes of a row

	raw   []byte // numbers before they are scaled
	nulls []int
	taken int64 // bytes of the heap that arrays took
}

// rows decodes the slab's n rows; the vector's row number base is the first. An error comes with the row of the slab.
func (d *decoder) rows(base, n int) (int, error) {
	switch c := d.f.col; {
	case c.form.array != 0:
		return d.arrays(n)
	case d.f.kind == numbersKind:
		return d.numbers(base, n)
	case d.f.kind == logicalKind:
		return d.logicals(base, n)
	case d.f.kind == bitsKind:
		d.bits(base, n)
	case d.f.kind == textKind:
		d.texts(n)
	default:
		d.textLists(n)
	}
	return 0, nil
}

// numbers decodes scalars and tensors of numbers.
func (d *decoder) numbers(base, n int) (int, error) {
	f := d.f
	per := f.Column.RowBytes()
	out := d.v.Data[base*per : (base+n)*per]
	width := f.s.raw.Size()
	elems := int(f.elems)
	raw := out
	if f.s.float {
		d.raw = room(d.raw, n*elems*width)
		raw = d.raw
	}
	d.collect(raw, n, elems*width, f.s.raw.Component().Size())
	d.findNulls(raw)
	f.s.apply(out, raw)
	if d.v.Valid != nil {
		valid := d.v.Valid[base : base+n]
		for i := range valid {
			valid[i] = true
		}
		for _, k := range d.nulls {
			valid[k] = false
			clear(out[k*per : (k+1)*per])
		}
		return 0, nil
	}
	return d.fillNulls(out, elems)
}

// collect copies n values of per bytes, one a row, and turns their numbers of width bytes.
func (d *decoder) collect(dst []byte, n, per, width int) {
	src, size := d.slab[d.f.col.at:], d.size
	if per != width {
		for i := range n {
			swap(dst[i*per:(i+1)*per], src[i*size:i*size+per], width)
		}
		return
	}
	at := 0
	switch width {
	case 1:
		for i := range dst[:n] {
			dst[i] = src[at]
			at += size
		}
	case 2:
		for ; len(dst) >= 2; dst = dst[2:] {
			le.PutUint16(dst, be.Uint16(src[at:]))
			at += size
		}
	case 4:
		for ; len(dst) >= 4; dst = dst[4:] {
			le.PutUint32(dst, be.Uint32(src[at:]))
			at += size
		}
	default:
		for ; len(dst) >= 8; dst = dst[8:] {
			le.PutUint64(dst, be.Uint64(src[at:]))
			at += size
		}
	}
}

// findNulls lists the numbers that are TNULL.
func (d *decoder) findNulls(raw []byte) {
	d.nulls = d.nulls[:0]
	s := &d.f.s
	if !s.hasNo {
		return
	}
	switch s.raw {
	case catalog.Uint8:
		for i, x := range raw {
			if int64(x) == s.blank {
				d.nulls = append(d.nulls, i)
			}
		}
	case catalog.Int16:
		for i := range len(raw) / 2 {
			if int64(int16(le.Uint16(raw[2*i:]))) == s.blank {
				d.nulls = append(d.nulls, i)
			}
		}
	case catalog.Int32:
		for i := range len(raw) / 4 {
			if int64(int32(le.Uint32(raw[4*i:]))) == s.blank {
				d.nulls = append(d.nulls, i)
			}
		}
	case catalog.Int64:
		for i := range len(raw) / 8 {
			if int64(le.Uint64(raw[8*i:])) == s.blank {
				d.nulls = append(d.nulls, i)
			}
		}
	}
}

// fillNulls puts what stands for null elements of arrays; elems of them are a row's.
func (d *decoder) fillNulls(out []byte, elems int) (int, error) {
	if len(d.nulls) == 0 {
		return 0, nil
	}
	if d.fill.value == nil {
		return d.nulls[0] / max(1, elems), fmt.Errorf("element %d has no value (TNULL, or an undefined logical), and %s has none that says so; give a fill in the recipe",
			d.nulls[0]%max(1, elems), d.f.Column.DType)
	}
	w := len(d.fill.value)
	for _, k := range d.nulls {
		copy(out[k*w:], d.fill.value)
	}
	return 0, nil
}

// logical turns bytes T, F and 0 into bools; what is undefined is listed in nulls.
func (d *decoder) logical(dst, src []byte, first int) error {
	for i, x := range src {
		switch x {
		case 'T':
			dst[i] = 1
		case 'F':
			dst[i] = 0
		case 0:
			dst[i] = 0
			d.nulls = append(d.nulls, first+i)
		default:
			return corruptf("%#02x is no logical (T, F or zero)", x)
		}
	}
	return nil
}

func (d *decoder) logicals(base, n int) (int, error) {
	per := int(d.f.elems)
	out := d.v.Data[base*per : (base+n)*per]
	d.nulls = d.nulls[:0]
	for i := range n {
		at := i*d.size + d.f.col.at
		if err := d.logical(out[i*per:(i+1)*per], d.slab[at:at+per], i*per); err != nil {
			return i, err
		}
	}
	if d.v.Valid == nil {
		return d.fillNulls(out, per)
	}
	for i := range n {
		d.v.Valid[base+i] = true
	}
	for _, k := range d.nulls {
		d.v.Valid[base+k] = false
	}
	return 0, nil
}

func (d *decoder) bits(base, n int) {
	per := int(d.f.elems)
	for i := range n {
		src := d.slab[i*d.size+d.f.col.at:]
		for k := range per {
			d.v.Data[(base+i)*per+k] = src[k>>3] >> (7 - k&7) & 1
		}
	}
}

// untilNUL cuts a text where it ends: what stands after a NUL has no meaning (FITS 4.0, section 7.3.3).
func untilNUL(b []byte) []byte {
	if k := bytes.IndexByte(b, 0); k >= 0 {
		return b[:k]
	}
	return b
}

func (d *decoder) texts(n int) {
	per := int(d.f.elems)
	for i := range n {
		at := i*d.size + d.f.col.at
		d.v.Data = append(d.v.Data, untilNUL(d.slab[at:at+per])...)
		d.v.Offsets = append(d.v.Offsets, int64(len(d.v.Data)))
	}
}

func (d *decoder) textLists(n int) {
	count, width := int(d.f.elems), int(d.f.width)
	for i := range n {
		at := i*d.size + d.f.col.at
		for k := range count {
			d.v.Data = append(d.v.Data, untilNUL(d.slab[at+k*width:at+(k+1)*width])...)
			d.v.StrOffsets = append(d.v.StrOffsets, int64(len(d.v.Data)))
		}
		d.v.Offsets = append(d.v.Offsets, int64(len(d.v.StrOffsets)-1))
	}
}

// arrays decodes what the rows' descriptors point at.
func (d *decoder) arrays(n int) (int, error) {
	f, v := d.f, d.v
	elem := max(1, f.Column.DType.Size())
	for i := range n {
		count, off := f.col.form.descriptor(d.slab[i*d.size+f.col.at:])
		size, ok := f.col.form.arrayBytes(count)
		if !ok {
			return i, corruptf("a descriptor of %d elements", count)
		}
		if size > 0 {
			if err := d.t.heap.check(off, size); err != nil {
				return i, err
			}
		}
		if size > MaxArray {
			return i, fmt.Errorf("%w: an array of %d bytes, at most %d are read", ErrTooLarge, size, MaxArray)
		}
		if d.taken += size; d.taken > heapFree && d.taken/heapShare > d.t.heap.size {
			return i, fmt.Errorf("%w: arrays share bytes of the heap: those of %s take over %d times its %d bytes; read fewer rows at a time", ErrTooLarge, f.Source, heapShare, d.t.heap.size)
		}
		var src []byte
		if size > 0 {
			var err error
			if src, err = d.t.heap.get(off, size); err != nil {
				return i, err
			}
		}
		if f.kind == textKind {
			v.Data = append(v.Data, untilNUL(src)...)
			v.Offsets = append(v.Offsets, int64(len(v.Data)))
			continue
		}
		at := len(v.Data)
		v.Data = slices.Grow(v.Data, int(count)*elem)[:at+int(count)*elem]
		if err := d.array(v.Data[at:], src); err != nil {
			return i, err
		}
		v.Offsets = append(v.Offsets, v.Offsets[len(v.Offsets)-1]+count)
	}
	return 0, nil
}

// array decodes one array.
func (d *decoder) array(out, src []byte) error {
	d.nulls = d.nulls[:0]
	if d.f.kind == logicalKind {
		if err := d.logical(out, src, 0); err != nil {
			return err
		}
	} else {
		s := &d.f.s
		raw := out
		if s.float {
			d.raw = room(d.raw, len(src))
			raw = d.raw
		}
		swap(raw, src, s.raw.Size())
		d.findNulls(raw)
		s.apply(out, raw)
	}
	_, err := d.fillNulls(out, 1)
	return err
}
