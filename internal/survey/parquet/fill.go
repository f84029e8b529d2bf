package parquet

import (
	"encoding/binary"
	"math"

	"astropile/internal/catalog"
)

// filler is what stands for null elements.
type filler struct {
	bytes []byte // of one element, or of the text
	there bool
}

// newFiller makes the bytes of a fill value; v is nil where none was asked for.
func newFiller(d catalog.DType, v any) (filler, error) {
	d = d.Component()
	if v == nil {
		switch d {
		case catalog.String:
			return filler{there: true}, nil
		case catalog.Float16, catalog.Float32, catalog.Float64:
			v = math.NaN()
		default:
			return filler{}, nil
		}
	}
	if d == catalog.String {
		s, ok := v.(string)
		if !ok {
			return filler{}, badValue("fill %v for text is not text", v)
		}
		return filler{bytes: []byte(s), there: true}, nil
	}
	x, ok := v.(float64)
	if !ok {
		return filler{}, badValue("fill %v for %s is not a number", v, d)
	}
	b, ok := encode(d, x)
	if !ok {
		return filler{}, badValue("fill %v is not exact as %s", x, d)
	}
	return filler{bytes: b, there: true}, nil
}

// encode is x as one element, and false where the type does not hold it.
func encode(d catalog.DType, x float64) ([]byte, bool) {
	le := binary.LittleEndian
	if math.IsNaN(x) {
		x = math.Float64frombits(0x7ff8 << 48) // without the payload of Go's own
	}
	switch d {
	case catalog.Float64:
		return le.AppendUint64(nil, math.Float64bits(x)), true
	case catalog.Float32:
		if f := float32(x); float64(f) == x || math.IsNaN(x) {
			return le.AppendUint32(nil, math.Float32bits(f)), true
		}
		return nil, false
	case catalog.Float16:
		return half(x)
	case catalog.Bool:
		return []byte{byte(x)}, x == 0 || x == 1
	}
	size := d.Size()
	bits := 8 * size
	if x != math.Trunc(x) {
		return nil, false
	}
	var u uint64
	switch d {
	case catalog.Uint8, catalog.Uint16, catalog.Uint32, catalog.Uint64:
		if x < 0 || x >= math.Ldexp(1, bits) {
			return nil, false
		}
		u = uint64(x)
	default:
		if x < -math.Ldexp(1, bits-1) || x >= math.Ldexp(1, bits-1) {
			return nil, false
		}
		u = uint64(int64(x))
	}
	return le.AppendUint64(nil, u)[:size], true
}

// half is x as a 16-bit float, if it is exact.
func half(x float64) ([]byte, bool) {
	h := catalog.FloatToHalf(x)
	return binary.LittleEndian.AppendUint16(nil, h), math.IsNaN(x) || catalog.HalfToFloat(h) == x
}
