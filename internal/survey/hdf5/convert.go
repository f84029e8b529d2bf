package hdf5

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"astropile/internal/catalog"
)

// swap is a run of count numbers of width bytes, from offset in an element, to be reversed, or brought into a plain form.
type swap struct {
	offset, width, count int
	odd                  *oddNumber // nil: reversed
}

// oddNumber is a number that does not fill its bytes as one of its size does.
type oddNumber struct {
	big  bool
	at   int // its lowest bit
	bits int
	sign bool // of an integer: the highest bit is the sign

	float *floatLayout // nil: an integer
}

// plain turns numbers of odd shape into such as fill their bytes, little-endian.
func (o *oddNumber) plain(b []byte, width int) {
	for ; len(b) >= width; b = b[width:] {
		var v uint64
		for i := range width {
			k := i
			if o.big {
				k = width - 1 - i
			}
			v |= uint64(b[k]) << (8 * i)
		}
		if o.float != nil {
			v = o.float.ieee(v, width)
		} else if v = v >> o.at << (64 - o.bits); o.sign {
			v = uint64(int64(v) >> (64 - o.bits))
		} else {
			v >>= 64 - o.bits
		}
		for i := range width {
			b[i] = byte(v >> (8 * i))
		}
	}
}

// ieee gives the bits of the float of width bytes that has the value of v, which within says there is.
func (l *floatLayout) ieee(v uint64, width int) uint64 {
	part := func(at, n int) uint64 { return v >> at & (1<<n - 1) }
	exp, mant := int(part(l.expAt, l.expSize)), part(l.mantAt, l.mantSize)
	var x float64
	switch {
	case exp == 1<<l.expSize-1 && mant != 0:
		x = math.NaN()
	case exp == 1<<l.expSize-1:
		x = math.Inf(1)
	case exp == 0:
		x = math.Ldexp(float64(mant), 1-l.bias-l.mantSize)
	default:
		x = math.Ldexp(float64(mant|1<<l.mantSize), exp-l.bias-l.mantSize)
	}
	if part(l.signAt, 1) == 1 {
		x = math.Copysign(x, -1)
	}
	switch width {
	case 2:
		return uint64(halfFromFloat64(x))
	case 4:
		return uint64(math.Float32bits(float32(x)))
	}
	return math.Float64bits(x)
}

// halfFromFloat64 narrows a value that a binary16 has.
func halfFromFloat64(x float64) uint16 {
	b := math.Float64bits(x)
	sign, exp, mant := uint16(b>>48&0x8000), int(b>>52&2047)-1023, b&(1<<52-1)
	switch {
	case exp == 1024 && mant != 0:
		return sign | 0x7e00
	case exp == 1024:
		return sign | 0x7c00
	case exp < -14:
		return sign | uint16(math.Ldexp(math.Abs(x), 24))
	}
	return sign | uint16(exp+15)<<10 | uint16(mant>>42)
}

func (s *swap) apply(b []byte) {
	if s.odd != nil {
		s.odd.plain(b, s.width)
		return
	}
	reverse(b, s.width)
}

// maxSwaps bounds the plan of a compound, maxArraySwaps that of an array, which a few bytes in the file can make long. A
// type that needs more has an empty plan that is not nil, and is converted part by part.
const (
	maxSwaps      = 1 << 12
	maxArraySwaps = 1 << 6
)

// plan lists what toLittle reverses in an element of t; nil if nothing.
func (t *Type) plan() []swap {
	switch t.Class {
	case ClassInt, ClassFloat, ClassBitfield, ClassEnum:
		if t.odd != nil || t.BigEndian && t.Size > 1 {
			return []swap{{0, t.Size, 1, t.odd}}
		}
	case ClassCompound:
		var out []swap
		for _, m := range t.Members {
			if m.Type.byParts() || len(out)+len(m.Type.swaps) > maxSwaps {
				return []swap{}
			}
			for _, s := range m.Type.swaps {
				out = append(out, swap{m.Offset + s.offset, s.width, s.count, s.odd})
			}
		}
		return out
	case ClassArray:
		base := t.Base.swaps
		n := t.Size / t.Base.Size
		switch {
		case base == nil:
			return nil
		case t.Base.byParts():
			return []swap{}
		case len(base) == 1 && base[0].width*base[0].count == t.Base.Size:
			return []swap{{0, base[0].width, base[0].count * n, base[0].odd}}
		case n > maxArraySwaps/len(base):
			return []swap{}
		}
		out := make([]swap, 0, n*len(base))
		for i := range n {
			for _, s := range base {
				out = append(out, swap{i*t.Base.Size + s.offset, s.width, s.count, s.odd})
			}
		}
		return out
	}
	return nil
}

func (t *Type) byParts() bool { return t.swaps != nil && len(t.swaps) == 0 }

// toLittle turns elements of type t, as they stand in the file, little-endian in place. len(b) is a multiple of t.Size.
func (t *Type) toLittle(b []byte) {
	switch {
	case t.swaps == nil:
	case t.byParts() && t.Class == ClassArray:
		t.Base.toLittle(b)
	case t.byParts():
		for at := 0; at < len(b); at += t.Size {
			for _, m := range t.Members {
				m.Type.toLittle(b[at+m.Offset : at+m.Offset+m.Type.Size])
			}
		}
	case len(t.swaps) == 1 && t.swaps[0].width*t.swaps[0].count == t.Size:
		t.swaps[0].apply(b)
	default:
		for at := 0; at < len(b); at += t.Size {
			for _, s := range t.swaps {
				s.apply(b[at+s.offset : at+s.offset+s.width*s.count])
			}
		}
	}
}

// reverse reverses the bytes of each number of width bytes in b.
func reverse(b []byte, width int) {
	const low2 = 0x00ff00ff00ff00ff
	switch width {
	case 2:
		for ; len(b) >= 8; b = b[8:] {
			v := le.Uint64(b)
			le.PutUint64(b, v>>8&low2|v&low2<<8)
		}
		for ; len(b) >= 2; b = b[2:] {
			b[0], b[1] = b[1], b[0]
		}
	case 4:
		for ; len(b) >= 8; b = b[8:] {
			le.PutUint64(b, bits.RotateLeft64(bits.ReverseBytes64(le.Uint64(b)), 32))
		}
		if len(b) >= 4 {
			le.PutUint32(b, bits.ReverseBytes32(le.Uint32(b)))
		}
	case 8:
		for ; len(b) >= 8; b = b[8:] {
			le.PutUint64(b, bits.ReverseBytes64(le.Uint64(b)))
		}
	default:
		for ; len(b) >= width; b = b[width:] {
			slices.Reverse(b[:width])
		}
	}
}

// int64 gives a little-endian integer of 1 to 8 bytes; a uint64 keeps its bits.
func (t *Type) int64(b []byte) int64 {
	var v uint64
	for i := range min(t.Size, 8) {
		v |= uint64(b[i]) << (8 * i)
	}
	if shift := 64 - 8*t.Size; t.Signed && shift > 0 {
		return int64(v<<shift) >> shift
	}
	return int64(v)
}

func (t *Type) float64(b []byte) float64 {
	switch t.Size {
	case 2:
		return catalog.HalfToFloat(le.Uint16(b))
	case 4:
		return float64(math.Float32frombits(le.Uint32(b)))
	}
	return math.Float64frombits(le.Uint64(b))
}

// TrimString cuts the padding off one element of a fixed-length string type.
func (t *Type) TrimString(b []byte) []byte {
	if t.StrPad == PadSpace {
		return bytes.TrimRight(b, " ")
	}
	if t.StrPad == PadNulTerminated {
		if n := bytes.IndexByte(b, 0); n >= 0 {
			b = b[:n]
		}
		return b
	}
	return bytes.TrimRight(b, "\x00")
}

// Strings gives the elements in data, of a fixed or variable-length string type, as text without padding. Bytes that are
// no UTF-8 are kept as they are. Elements of variable length have contents of their own each: all together are at most
// as long as the file.
func (f *File) Strings(t *Type, data []byte) ([]string, error) {
	fixed := t.Class == ClassString
	if !fixed && !(t.Class == ClassVlen && t.VarString) {
		return nil, f.fail(noAddress, fmt.Errorf("type %s holds no text", t))
	}
	out := make([]string, 0, len(data)/t.Size)
	contents := budget{f: f}
	for ; len(data) >= t.Size; data = data[t.Size:] {
		e := data[:t.Size]
		if fixed {
			out = append(out, string(t.TrimString(e)))
			continue
		}
		b, _, err := f.ReadVlen(t, e)
		if err == nil {
			err = contents.spend(noAddress, uint64(len(b)), "texts")
		}
		if err != nil {
			return nil, err
		}
		out = append(out, string(b))
	}
	return out, nil
}
