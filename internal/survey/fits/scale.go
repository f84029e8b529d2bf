package fits

import (
	"math"

	"astropile/internal/catalog"
)

// The NaN that stands for no value is the plain quiet one; Go's own has a further bit set.
const (
	nanBits32 = 0x7fc00000
	nanBits64 = 0x7ff8000000000000
)

func nan() float64 { return math.Float64frombits(nanBits64) }

// scaling says what becomes of the numbers of an image or a column.
type scaling struct {
	raw   catalog.DType // as they stand in the file
	out   catalog.DType
	flip  bool // an unsigned convention: half the range is added
	float bool // out is a float that has to be computed
	scale float64
	zero  float64
	blank int64 // integers that stand for no value
	hasNo bool
}

// rawTypes are the types of BITPIX.
func rawType(bitpix int) catalog.DType {
	switch bitpix {
	case 8:
		return catalog.Uint8
	case 16:
		return catalog.Int16
	case 32:
		return catalog.Int32
	case 64:
		return catalog.Int64
	case -32:
		return catalog.Float32
	}
	return catalog.Float64
}

// flipped is the type of numbers whose range was moved by half of it.
func flipped(raw catalog.DType) (out catalog.DType, zero float64) {
	switch raw {
	case catalog.Uint8:
		return catalog.Int8, -1 << 7
	case catalog.Int16:
		return catalog.Uint16, 1 << 15
	case catalog.Int32:
		return catalog.Uint32, 1 << 31
	case catalog.Int64:
		return catalog.Uint64, 1 << 63
	}
	return raw, 0
}

// newScaling decides on a type: unscaled numbers and the conventions for unsigned ones stay exact; anything else becomes
// the float wide gives for it.
func newScaling(raw catalog.DType, scale, zero float64, wide func(catalog.DType) catalog.DType) scaling {
	s := scaling{raw: raw, out: raw, scale: scale, zero: zero}
	if scale == 1 && zero == 0 {
		return s
	}
	if out, half := flipped(raw); scale == 1 && zero == half {
		s.out, s.flip = out, true
		return s
	}
	s.out, s.float = wide(raw), true
	return s
}

// imageFloat is the float of scaled pixels: that of astropy, which computes 8 and 16 bits in float32.
func imageFloat(raw catalog.DType) catalog.DType {
	switch raw {
	case catalog.Uint8, catalog.Int16, catalog.Float32:
		return catalog.Float32
	}
	return catalog.Float64
}

// apply turns little-endian numbers of the raw type into the output's; dst and src may be the same bytes where the types
// have one size.
func (s *scaling) apply(dst, src []byte) {
	if !s.float {
		if len(src) > 0 && &dst[0] != &src[0] {
			copy(dst, src)
		}
		if s.flip {
			flipSigns(dst, s.raw.Size())
		}
		return
	}
	width := s.raw.Size()
	n := len(src) / width
	if s.out == catalog.Float32 {
		scale, zero := float32(s.scale), float32(s.zero)
		for i := range n {
			v, no := s.float32(src[i*width:])
			// The conversions keep a product from being fused with the sum.
			if scale != 1 {
				v = float32(v * scale)
			}
			if zero != 0 {
				v = float32(v + zero)
			}
			if no {
				v = float32(nan())
			}
			le.PutUint32(dst[4*i:], math.Float32bits(v))
		}
		return
	}
	for i := range n {
		v, no := s.float64(src[i*width:])
		if s.scale != 1 {
			v = float64(v * s.scale)
		}
		if s.zero != 0 {
			v = float64(v + s.zero)
		}
		if no {
			v = nan()
		}
		le.PutUint64(dst[8*i:], math.Float64bits(v))
	}
}

// float32 and float64 give a raw number, and whether it stands for none.

func (s *scaling) float32(b []byte) (float32, bool) {
	switch s.raw {
	case catalog.Uint8:
		return float32(b[0]), s.hasNo && int64(b[0]) == s.blank
	case catalog.Int16:
		v := int16(le.Uint16(b))
		return float32(v), s.hasNo && int64(v) == s.blank
	}
	return math.Float32frombits(le.Uint32(b)), false
}

func (s *scaling) float64(b []byte) (float64, bool) {
	switch s.raw {
	case catalog.Uint8:
		return float64(b[0]), s.hasNo && int64(b[0]) == s.blank
	case catalog.Int16:
		v := int16(le.Uint16(b))
		return float64(v), s.hasNo && int64(v) == s.blank
	case catalog.Int32:
		v := int32(le.Uint32(b))
		return float64(v), s.hasNo && int64(v) == s.blank
	case catalog.Int64:
		v := int64(le.Uint64(b))
		return float64(v), s.hasNo && v == s.blank
	case catalog.Float32:
		return float64(math.Float32frombits(le.Uint32(b))), false
	}
	return math.Float64frombits(le.Uint64(b)), false
}
