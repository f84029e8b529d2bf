package survey

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"astropile/internal/catalog"
	"astropile/internal/survey/hdf5"
)

var le = binary.LittleEndian

// elem is what one element of a file is to us.
type elem struct {
	typ  *hdf5.Type
	dt   catalog.DType // narrowest dtype that holds every value of the type
	size int           // bytes of an element as read
	vlen *elem         // elements of a variable-length sequence
	enum bool          // numbers that have names in the file
}

// classify says what an element type is, or why it has no place in a column.
func classify(t *hdf5.Type) (elem, error) {
	e := elem{typ: t, size: t.Size}
	if err := t.Readable(); err != nil {
		return e, err
	}
	switch {
	case t.Bool():
		e.dt = catalog.Bool
	case t.Complex():
		switch t.Size {
		case 8:
			e.dt = catalog.Complex64
		case 16:
			e.dt = catalog.Complex128
		}
	case t.Class == hdf5.ClassString, t.Class == hdf5.ClassVlen && t.VarString:
		e.dt = catalog.String
	case t.Class == hdf5.ClassInt, t.Class == hdf5.ClassEnum, t.Class == hdf5.ClassBitfield:
		e.enum = t.Class == hdf5.ClassEnum
		e.dt = integer(t.Size, t.Signed)
	case t.Class == hdf5.ClassFloat:
		e.dt = map[int]catalog.DType{2: catalog.Float16, 4: catalog.Float32, 8: catalog.Float64}[t.Size]
	case t.Class == hdf5.ClassVlen:
		base, err := classify(t.Base)
		if err != nil {
			return e, err
		}
		if base.vlen != nil || base.dt.Complex() {
			return e, fmt.Errorf("type %s is not read", t)
		}
		e.vlen, e.dt = &base, base.dt
	}
	if e.dt == "" {
		return e, fmt.Errorf("type %s is not read", t)
	}
	return e, nil
}

func integer(size int, signed bool) catalog.DType {
	bits := 8
	for bits < 8*size {
		bits *= 2
	}
	if signed {
		return catalog.DType(fmt.Sprintf("int%d", bits))
	}
	return catalog.DType(fmt.Sprintf("uint%d", bits))
}

// number is the class of a numeric dtype and its size in bits.
func number(d catalog.DType) (class byte, bits int) {
	switch {
	case d == catalog.Bool:
		return 'b', 1
	case d == catalog.String:
		return 't', 0
	case d.Complex():
		return 'c', 8 * d.Size()
	case strings.HasPrefix(string(d), "uint"):
		return 'u', 8 * d.Size()
	case strings.HasPrefix(string(d), "int"):
		return 'i', 8 * d.Size()
	}
	return 'f', 8 * d.Size()
}

// mantissa is the number of bits of the integers that a float of so many bits holds exactly.
func mantissa(bits int) int {
	switch bits {
	case 16:
		return 11
	case 32:
		return 24
	}
	return 53
}

// holds says whether every value of from is exact in to.
func holds(to, from catalog.DType) bool {
	if to == from {
		return true
	}
	tc, tb := number(to)
	fc, fb := number(from)
	if tc == 't' || fc == 't' || tc == 'b' {
		return false
	}
	if fc == 'b' {
		fc = 'u'
	}
	if tc == 'c' {
		if fc == 'c' {
			return fb <= tb
		}
		tc, tb = 'f', tb/2
	}
	switch {
	case fc == 'c':
		return false
	case tc == 'f' && fc == 'f':
		return fb <= tb
	case tc == 'f' && fc == 'u':
		return fb <= mantissa(tb)
	case tc == 'f':
		return fb-1 <= mantissa(tb)
	case fc == 'f':
		return false
	case tc == fc:
		return fb <= tb
	}
	return tc == 'i' && fb < tb
}

// widening is the order in which a common type is looked for: narrow before wide.
var widening = []catalog.DType{
	catalog.Bool, catalog.Uint8, catalog.Int8, catalog.Uint16, catalog.Int16, catalog.Float16, catalog.Uint32, catalog.Int32, catalog.Float32,
	catalog.Uint64, catalog.Int64, catalog.Float64, catalog.Complex64, catalog.Complex128, catalog.String,
}

// common is the narrowest dtype that holds both exactly. Where 64-bit integers meet floats no type does; float64 is then
// given as checked: the reader refuses every value that it does not hold.
func common(a, b catalog.DType) (dt catalog.DType, checked, ok bool) {
	for _, dt := range widening {
		if holds(dt, a) && holds(dt, b) {
			return dt, false, true
		}
	}
	ca, _ := number(a)
	cb, _ := number(b)
	if (ca == 'f' && (cb == 'i' || cb == 'u')) || (cb == 'f' && (ca == 'i' || ca == 'u')) {
		return catalog.Float64, true, true
	}
	return "", false, false
}

// convert writes n elements of src, packed as e says, to dst as dt, and gives the first element that is not exact in dt,
// or -1. With round, floats are rounded to the nearest instead.
func convert(dst []byte, dt catalog.DType, src []byte, e *elem, n int, round bool) int {
	size := dt.Size()
	if e.dt == dt && e.size == size {
		copy(dst[:n*size], src[:n*size])
		if dt == catalog.Bool {
			return notBool(dst[:n])
		}
		return -1
	}
	fc, _ := number(e.dt)
	tc, tb := number(dt)
	half := size
	if tc == 'c' {
		half, tb = size/2, tb/2
		clear(dst[:n*size])
	}
	for i := range n {
		s, d := src[i*e.size:(i+1)*e.size], dst[i*size:(i+1)*size]
		ok := false
		switch fc {
		case 'c':
			part := e.size / 2
			if tc == 'c' {
				ok = putFloat(d[:half], tb, getFloat(s[:part]), round) && putFloat(d[half:], tb, getFloat(s[part:]), round)
			}
		case 'f':
			ok = putNumber(d[:half], tc, tb, getFloat(s), round)
		case 'b':
			ok = s[0] <= 1 && putInt(d[:half], tc, tb, uint64(s[0]), false)
		case 'i', 'u':
			v := getInt(s, fc == 'i')
			ok = putInt(d[:half], tc, tb, v, fc == 'i' && int64(v) < 0)
		}
		if !ok {
			return i
		}
	}
	return -1
}

// notBool is the index of the first byte that is neither 0 nor 1, or -1.
func notBool(b []byte) int {
	i := 0
	for ; i+8 <= len(b) && le.Uint64(b[i:])&^0x0101010101010101 == 0; i += 8 {
	}
	for ; i < len(b); i++ {
		if b[i] > 1 {
			return i
		}
	}
	return -1
}

func getInt(b []byte, signed bool) uint64 {
	var v uint64
	for i, x := range b {
		v |= uint64(x) << (8 * i)
	}
	if shift := 64 - 8*len(b); signed && shift > 0 {
		return uint64(int64(v<<shift) >> shift)
	}
	return v
}

func getFloat(b []byte) float64 {
	switch len(b) {
	case 2:
		return catalog.HalfToFloat(le.Uint16(b))
	case 4:
		return float64(math.Float32frombits(le.Uint32(b)))
	}
	return math.Float64frombits(le.Uint64(b))
}

// putInt writes an integer (the bits of an int64 where negative) as class tc of tb bits; false where it does not fit.
func putInt(d []byte, tc byte, tb int, v uint64, negative bool) bool {
	switch tc {
	case 'i':
		if negative {
			if int64(v) < -1<<(tb-1) {
				return false
			}
		} else if v > 1<<(tb-1)-1 {
			return false
		}
	case 'u':
		if negative || tb < 64 && v>>tb != 0 {
			return false
		}
	case 'f', 'c':
		f := float64(v)
		if negative {
			f = float64(int64(v))
		}
		// 2^63 and 2^64 are where the float overflows the integer it came from.
		if negative && int64(f) != int64(v) || !negative && (f >= 1<<64 || uint64(f) != v) {
			return false
		}
		return putFloat(d, tb, f, false)
	default:
		return false
	}
	for i := range d {
		d[i] = byte(v >> (8 * i))
	}
	return true
}

// putNumber writes a float as class tc; a float that is an integer in range is exact in an integer type.
func putNumber(d []byte, tc byte, tb int, f float64, round bool) bool {
	switch tc {
	case 'f', 'c':
		return putFloat(d, tb, f, round)
	case 'i', 'u':
		if f != math.Trunc(f) || f < -(1<<63) || f >= 1<<64 || f == 0 && math.Signbit(f) {
			return false
		}
		if f < 0 {
			return putInt(d, tc, tb, uint64(int64(f)), true)
		}
		return putInt(d, tc, tb, uint64(f), false)
	}
	return false
}

// putFloat writes f in tb bits. NaN is exact in every float type, its payload aside.
func putFloat(d []byte, tb int, f float64, round bool) bool {
	switch tb {
	case 64:
		le.PutUint64(d, math.Float64bits(f))
	case 32:
		g := float32(f)
		if !round && float64(g) != f && f == f {
			return false
		}
		le.PutUint32(d, math.Float32bits(g))
	case 16:
		h := catalog.FloatToHalf(f)
		if !round && catalog.HalfToFloat(h) != f && f == f {
			return false
		}
		le.PutUint16(d, h)
	}
	return true
}
