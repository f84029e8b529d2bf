package fits

import (
	"math"
	"math/bits"
)

// hcompress writes an image as the bit planes of its H-transform: a pyramid of sums and differences of 2 x 2 pixels, the
// sums of one level being the pixels of the next. Each plane of each quadrant is a quadtree or stands bit by bit
// (FITS 4.0, section 10.4.4, and R. L. White, hcompress).

const (
	hcMagic     = 0xdd99
	hcHead      = 2 + 3*4 + 8 + 3
	hcDirect    = 0
	hcTree      = 15
	hcMaxPlanes = 62
)

var errHcompress = corruptf("HCOMPRESS_1: the tile's bytes end before its pixels do")

type hdecompressor struct {
	a, b    []int64 // coefficients, and a level's pixels
	codes   []byte
	parents []byte
}

// decode decodes into dst a tile of two axes; axes of one pixel do not count.
func (d *hdecompressor) decode(dst []int32, src []byte, size []int64, smooth bool) error {
	var dims []int
	for k := len(size) - 1; k >= 0; k-- {
		if size[k] != 1 {
			dims = append(dims, int(size[k]))
		}
	}
	if len(dims) != 2 {
		return unsupportedf("HCOMPRESS_1 of a tile of %v pixels, which has not two axes", size)
	}
	if len(src) < hcHead || be.Uint16(src) != hcMagic {
		return corruptf("HCOMPRESS_1: the tile does not begin as one")
	}
	rows, cols := dims[0], dims[1]
	if int(be.Uint32(src[2:])) != rows || int(be.Uint32(src[6:])) != cols {
		return corruptf("HCOMPRESS_1: the tile says that it has %d x %d pixels, not %d x %d", be.Uint32(src[2:]), be.Uint32(src[6:]), rows, cols)
	}
	scale := int64(int32(be.Uint32(src[10:])))
	sum := int64(be.Uint64(src[14:]))
	planes := src[22:25]
	for _, p := range planes {
		if p > hcMaxPlanes {
			return corruptf("HCOMPRESS_1: %d bit planes", p)
		}
	}
	n := rows * cols
	if cap(d.a) < n {
		d.a, d.b = make([]int64, n), make([]int64, n)
	}
	d.a, d.b = d.a[:n], d.b[:n]
	clear(d.a)
	r := riceReader{src: src[hcHead:]}
	if err := d.planes(&r, rows, cols, planes); err != nil {
		return err
	}
	d.a[0] = sum
	if scale > 1 {
		for i := range d.a {
			d.a[i] *= scale
		}
	}
	d.inverse(rows, cols, smooth, scale)
	for i, v := range d.a {
		if v < math.MinInt32 || v > math.MaxInt32 {
			return corruptf("HCOMPRESS_1: pixel %d is %d, which 32 bits do not hold", i, v)
		}
		dst[i] = int32(v)
	}
	return nil
}

// planes reads the magnitudes of all coefficients, quadrant by quadrant, and then their signs.
func (d *hdecompressor) planes(r *riceReader, rows, cols int, planes []byte) error {
	upper, left := (rows+1)/2, (cols+1)/2
	for _, q := range []struct{ row, col, rows, cols, planes int }{
		{0, 0, upper, left, int(planes[0])},
		{0, left, upper, cols / 2, int(planes[1])},
		{upper, 0, rows / 2, left, int(planes[1])},
		{upper, left, rows / 2, cols / 2, int(planes[2])},
	} {
		for bit := q.planes - 1; bit >= 0; bit-- {
			if err := d.plane(r, q.rows, q.cols); err != nil {
				return err
			}
			d.insert(q.row*cols+q.col, cols, q.rows, q.cols, uint(bit))
		}
	}
	if end, ok := r.take(4); !ok || end != 0 {
		return corruptf("HCOMPRESS_1: no end after the bit planes")
	}
	// Signs begin with the next byte.
	if _, ok := r.take(r.n & 7); !ok {
		return errHcompress
	}
	for i, v := range d.a {
		if v != 0 {
			s, ok := r.take(1)
			if !ok {
				return errHcompress
			}
			if s != 0 {
				d.a[i] = -v
			}
		}
	}
	return nil
}

// plane reads one bit plane into codes: 4 bits for 2 x 2 coefficients.
func (d *hdecompressor) plane(r *riceReader, rows, cols int) error {
	n := (rows + 1) / 2 * ((cols + 1) / 2)
	d.codes, d.parents = room(d.codes, n), room(d.parents, n)
	how, ok := r.take(4)
	switch {
	case !ok:
		return errHcompress
	case how == hcDirect:
		for i := range d.codes {
			v, ok := r.take(4)
			if !ok {
				return errHcompress
			}
			d.codes[i] = byte(v)
		}
		return nil
	case how != hcTree:
		return corruptf("HCOMPRESS_1: a bit plane of kind %d", how)
	}
	root, ok := r.huffman()
	if !ok {
		return errHcompress
	}
	d.codes[0] = root
	levels := bits.Len(uint(max(rows, cols) - 1))
	height, width := 1, 1 // of codes
	for left := levels - 1; left > 0; left-- {
		h, w := (rows+1<<left-1)>>left, (cols+1<<left-1)>>left
		copy(d.parents, d.codes[:height*width])
		for y := range h {
			for x := range w {
				d.codes[y*w+x] = d.parents[y/2*width+x/2] >> (3 - 2*(y&1) - x&1) & 1
			}
		}
		// Codes of the next level stand from the last to the first.
		for i := h*w - 1; i >= 0; i-- {
			if d.codes[i] != 0 {
				if d.codes[i], ok = r.huffman(); !ok {
					return errHcompress
				}
			}
		}
		height, width = h, w
	}
	return nil
}

// huffman reads one of the 16 codes of a quadtree, of 3 to 6 bits.
func (r *riceReader) huffman() (byte, bool) {
	if r.n < 6 {
		r.refill()
	}
	look := uint(r.acc >> 58)
	var v byte
	var n uint
	switch {
	case look < 0x20:
		v, n = 1<<(look>>3), 3
	case look < 0x34:
		v, n = [...]byte{3, 5, 10, 12, 15}[look>>2-8], 4
	case look < 0x3e:
		v, n = [...]byte{6, 7, 9, 11, 13}[look>>1-26], 5
	case look == 0x3e:
		v, n = 0, 6
	default:
		v, n = 14, 6
	}
	if r.n < n {
		return 0, false
	}
	r.acc <<= n
	r.n -= n
	return v, true
}

// insert sets a bit of the coefficients of a quadrant that begins at a[at], as codes say.
func (d *hdecompressor) insert(at, stride, rows, cols int, bit uint) {
	k := 0
	for y := 0; y < rows; y += 2 {
		for x := 0; x < cols; x += 2 {
			c := int64(d.codes[k])
			k++
			if c == 0 {
				continue
			}
			p := at + y*stride + x
			d.a[p] |= c >> 3 & 1 << bit
			if x+1 < cols {
				d.a[p+1] |= c >> 2 & 1 << bit
			}
			if y+1 < rows {
				d.a[p+stride] |= c >> 1 & 1 << bit
				if x+1 < cols {
					d.a[p+stride+1] |= c & 1 << bit
				}
			}
		}
	}
}

// rounder rounds to a multiple of a power of two, halves away from zero.
type rounder struct{ up, down, mask int64 }

func roundTo(bit int64) rounder {
	if bit <= 1 {
		return rounder{0, 0, -1}
	}
	return rounder{bit >> 1, bit>>1 - 1, -bit}
}

func (r rounder) round(v int64) int64 {
	if v >= 0 {
		return (v + r.up) & r.mask
	}
	return (v + r.down) & r.mask
}

// toward takes n from the magnitude of v.
func toward(v, n int64) int64 {
	if v >= 0 {
		return v - n
	}
	return v + n
}

// inverse undoes the transform level by level, from one coefficient to the whole tile.
func (d *hdecompressor) inverse(rows, cols int, smooth bool, scale int64) {
	levels := bits.Len(uint(max(rows, cols) - 1))
	bit := int64(1) << (levels - 1) // what differences of both axes are multiples of; those of one axis of twice that
	d.a[0] = roundTo(4 * bit).round(d.a[0])
	for left := levels - 1; left >= 0; left-- {
		h, w := (rows+1<<left-1)>>left, (cols+1<<left-1)>>left
		if smooth {
			d.smooth(h, w, cols, scale)
		}
		d.level(h, w, cols, bit, left == 0)
		for y := range h {
			copy(d.a[y*cols:y*cols+w], d.b[y*w:(y+1)*w])
		}
		bit >>= 1
	}
}

// level makes h x w pixels of the quadrants that stand in the same place of a: sums, differences along the axes, and of both.
func (d *hdecompressor) level(h, w, stride int, bit int64, last bool) {
	shift := uint(1)
	if last {
		shift = 2
	}
	both, one := roundTo(bit), roundTo(2*bit)
	hh, hw := (h+1)/2, (w+1)/2
	for y := 0; y < h; y += 2 {
		for x := 0; x < w; x += 2 {
			p := y/2*stride + x/2
			s := d.a[p]
			out := y*w + x
			right, below := x+1 < w, y+1 < h
			switch {
			case right && below:
				dx := one.round(d.a[p+hh*stride])
				dy := one.round(d.a[p+hw])
				dc := both.round(d.a[p+hh*stride+hw])
				low := dc & bit
				dx, dy = toward(dx, low), toward(dy, low)
				odd := (dc ^ dx ^ dy) & (2 * bit)
				switch {
				case s >= 0:
					s += low - odd
				case low == 0:
					s += odd
				default:
					s += low - odd
				}
				d.b[out+w+1] = (s + dx + dy + dc) >> shift
				d.b[out+w] = (s + dx - dy - dc) >> shift
				d.b[out+1] = (s - dx + dy - dc) >> shift
				d.b[out] = (s - dx - dy + dc) >> shift
			case below:
				dx := one.round(d.a[p+hh*stride])
				s = toward(s, dx&(2*bit))
				d.b[out+w] = (s + dx) >> shift
				d.b[out] = (s - dx) >> shift
			case right:
				dy := one.round(d.a[p+hw])
				s = toward(s, dy&(2*bit))
				d.b[out+1] = (s + dy) >> shift
				d.b[out] = (s - dy) >> shift
			default:
				d.b[out] = s >> shift
			}
		}
	}
}

// smooth moves differences towards what neighbouring sums suggest, by no more than rounding took from them, and only where
// sums rise or fall steadily.
func (d *hdecompressor) smooth(h, w, stride int, scale int64) {
	most := scale >> 1
	if most <= 0 {
		return
	}
	hh, hw := (h+1)/2, (w+1)/2
	a := d.a
	slope := func(at int, minus, middle, plus int64) {
		highest := max(min(plus-middle, middle-minus), 0) << 2
		lowest := min(max(plus-middle, middle-minus), 0) << 2
		if lowest < highest {
			want := max(min(plus-minus, highest), lowest)
			a[at] += max(min(truncate(want-a[at]<<3, 3), most), -most)
		}
	}
	for y := 1; 2*y < h-2; y++ {
		for x := 0; 2*x < w; x++ {
			p := y*stride + x
			slope(p+hh*stride, a[p-stride], a[p], a[p+stride])
		}
	}
	for y := 0; 2*y < h; y++ {
		for x := 1; 2*x < w-2; x++ {
			p := y*stride + x
			slope(p+hw, a[p-1], a[p], a[p+1])
		}
	}
	for y := 1; 2*y < h-2; y++ {
		for x := 1; 2*x < w-2; x++ {
			p := y*stride + x
			s := a[p]
			mm, pm, mp, pp := a[p-stride-1], a[p+stride-1], a[p-stride+1], a[p+stride+1]
			dx, dy := 2*a[p+hh*stride], 2*a[p+hw]
			highest := min(max(pp-s, 0)-dx-dy, max(s-pm, 0)+dx-dy, max(s-mp, 0)-dx+dy, max(mm-s, 0)+dx+dy) << 4
			lowest := max(min(pp-s, 0)-dx-dy, min(s-pm, 0)+dx-dy, min(s-mp, 0)-dx+dy, min(mm-s, 0)+dx+dy) << 4
			if lowest < highest {
				c := p + hh*stride + hw
				want := max(min(pp+mm-mp-pm, highest), lowest)
				a[c] += max(min(truncate(want-a[c]<<6, 6), most), -most)
			}
		}
	}
}

// truncate divides by a power of two, towards zero.
func truncate(v int64, shift uint) int64 {
	if v < 0 {
		v += 1<<shift - 1
	}
	return v >> shift
}
