package hdf5

import (
	"fmt"
	"math"
	"strconv"
)

// Parameters of the scale-offset filter (HDF5 library, "Scale-offset filter" of the file format's filter descriptions).
const (
	scaleKind      = 0 // how floats are scaled
	scaleFactor    = 1 // decimal digits kept of floats
	scaleCount     = 2 // elements of a chunk
	scaleClass     = 3
	scaleSize      = 4
	scaleOrder     = 6
	scaleHasFill   = 7
	scaleFill      = 8 // the fill value in words of 4 bytes
	scaleParams    = 20
	scaleClassInt  = 0
	scaleFloat     = 1
	scaleDecimal   = 0
	scaleBigEndian = 1
	scaleHead      = 21 // bits a value in 4 bytes, the size of the minimum, the minimum in 8 bytes, and room
	scaleMinimumAt = 5
)

// undoScaleOffset decodes filter 6: unsigned distances from the chunk's minimum, in as few bits as hold them, the most
// significant first. Distances of floats count units of 10 to the power of minus the factor. All bits set stand for the
// fill value where there is one. Where as many bits as the type has are needed, elements follow as they were, in the
// order of the machine that wrote them, which is taken to be little-endian.
func (s *scratch) undoScaleOffset(fl *Filter, dst, src []byte) (int, error) {
	n, class, size := uint64(fl.param(scaleCount)), fl.param(scaleClass), int(fl.param(scaleSize))
	if len(fl.Params) != scaleParams {
		return 0, fmt.Errorf("%w: %d parameters", ErrCorrupt, len(fl.Params))
	}
	float := class == scaleFloat
	switch {
	case class > scaleFloat, size != 1 && size != 2 && size != 4 && size != 8, float && size < 4:
		return 0, unsupportedf("values of class %d in %d bytes", class, size)
	case float && fl.param(scaleKind) != scaleDecimal:
		return 0, unsupportedf("floats scaled by binary exponents")
	case n > uint64(len(dst)/size):
		return 0, fmt.Errorf("%w: %d values of %d bytes where %d bytes fit", ErrCorrupt, n, size, len(dst))
	case len(src) < scaleHead:
		return 0, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(src))
	}
	width := le.Uint32(src)
	if width > uint32(8*size) || src[4] > 8 {
		return 0, fmt.Errorf("%w: values of %d bits in %d bytes, minimum of %d bytes", ErrCorrupt, width, size, src[4])
	}
	var minimum uint64
	for i := range int(src[4]) {
		minimum |= uint64(src[scaleMinimumAt+i]) << (8 * i)
	}
	src, dst = src[scaleHead:], dst[:n*uint64(size)]
	swapped := fl.param(scaleOrder) == scaleBigEndian
	if width == uint32(8*size) {
		if len(src) < len(dst) {
			return 0, fmt.Errorf("%w: %d bytes of %d", ErrCorrupt, len(src), len(dst))
		}
		copy(dst, src)
	} else {
		if uint64(width)*n > 8*uint64(len(src)) {
			return 0, fmt.Errorf("%w: %d values of %d bits in %d bytes", ErrCorrupt, n, width, len(src))
		}
		r := offsetReader{bits: msbReader{b: src}, width: int(width), fills: fl.param(scaleHasFill) == 1, all: 1<<width - 1}
		r.fill = uint64(fl.param(scaleFill+1))<<32 | uint64(fl.param(scaleFill))
		digits := int32(fl.param(scaleFactor))
		switch {
		case float && size == 4:
			r.floats(dst, digits, math.Float32frombits(uint32(minimum)))
		case float:
			r.doubles(dst, digits, math.Float64frombits(minimum))
		default:
			r.ints(dst, size, minimum)
		}
	}
	if swapped && size > 1 {
		reverse(dst, size)
	}
	return len(dst), nil
}

// offsetReader gives the distances of scale-offset.
type offsetReader struct {
	bits  msbReader
	width int
	fills bool
	all   uint64 // the distance that stands for the fill value
	fill  uint64
}

func (r *offsetReader) ints(dst []byte, size int, minimum uint64) {
	if r.width > atOnce {
		for at := 0; at < len(dst); at += size {
			putInt(dst[at:], size, r.value(r.bits.wide(r.width), minimum))
		}
		return
	}
	// The same with the bits at hand in registers.
	k, acc, n := r.width, r.bits.acc, r.bits.n
	for at := 0; at < len(dst); at += size {
		if n < k {
			r.bits.acc, r.bits.n = acc, n
			r.bits.fill()
			acc, n = r.bits.acc, r.bits.n
		}
		v := r.value(acc>>(64-k), minimum)
		acc <<= k
		n -= k
		putInt(dst[at:], size, v)
	}
}

func (r *offsetReader) value(distance, minimum uint64) uint64 {
	if r.fills && distance == r.all {
		return r.fill
	}
	return distance + minimum
}

// putInt writes the low size bytes of v, little-endian.
func putInt(b []byte, size int, v uint64) {
	switch size {
	case 1:
		b[0] = byte(v)
	case 2:
		le.PutUint16(b, uint16(v))
	case 4:
		le.PutUint32(b, uint32(v))
	default:
		le.PutUint64(b, v)
	}
}

func (r *offsetReader) floats(dst []byte, digits int32, minimum float32) {
	unit := float32(powerOfTen(digits, 32))
	for ; len(dst) >= 4; dst = dst[4:] {
		v := r.bits.take(r.width)
		bits := uint32(r.fill)
		if !r.fills || v != r.all {
			bits = math.Float32bits(float32(float32(int32(v))/unit) + minimum)
		}
		le.PutUint32(dst, bits)
	}
}

func (r *offsetReader) doubles(dst []byte, digits int32, minimum float64) {
	unit := powerOfTen(digits, 64)
	for ; len(dst) >= 8; dst = dst[8:] {
		v := r.bits.wide(r.width)
		bits := r.fill
		if !r.fills || v != r.all {
			bits = math.Float64bits(float64(float64(int64(v))/unit) + minimum)
		}
		le.PutUint64(dst, bits)
	}
}

// powerOfTen is the float of so many bits nearest to 10 to the power of n; beyond its range 0 or infinity.
func powerOfTen(n int32, bits int) float64 {
	v, _ := strconv.ParseFloat("1e"+strconv.Itoa(int(n)), bits)
	return v
}
