package text

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"astropile/internal/catalog"
)

// appendValue appends the bytes of a scalar that is no text. b has no spaces around it.
func appendValue(dst []byte, d catalog.DType, b []byte) ([]byte, error) {
	bad := func() ([]byte, error) { return dst, fmt.Errorf("%s is no %s", clip(b), d) }
	switch d {
	case catalog.Bool:
		v, ok := truth(b)
		if !ok {
			return bad()
		}
		if v {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	case catalog.Float64, catalog.Float32, catalog.Float16:
		v, ok := parseFloat(b, d)
		if !ok {
			return bad()
		}
		return appendFloat(dst, d, v), nil
	case catalog.Complex64, catalog.Complex128:
		re, im, ok := parseComplex(b, d.Component())
		if !ok {
			return bad()
		}
		return appendFloat(appendFloat(dst, d.Component(), re), d.Component(), im), nil
	}
	c, magnitude, negative := classify(b)
	if c != isInt && c != isOdd {
		return bad()
	}
	size := d.Size()
	signed := d == catalog.Int8 || d == catalog.Int16 || d == catalog.Int32 || d == catalog.Int64
	bits := uint(8 * size)
	switch {
	case signed && negative && magnitude > 1<<(bits-1),
		signed && !negative && magnitude > 1<<(bits-1)-1,
		!signed && negative && magnitude > 0,
		!signed && bits < 64 && magnitude > 1<<bits-1:
		return bad()
	}
	if negative {
		magnitude = -magnitude
	}
	var raw [8]byte
	binary.LittleEndian.PutUint64(raw[:], magnitude)
	return append(dst, raw[:size]...), nil
}

// parseFloat reads a decimal number, nan or inf, rounded to the nearest value of the type; beyond its range is no number.
func parseFloat(b []byte, d catalog.DType) (float64, bool) {
	// ParseFloat takes hexadecimal numbers as well, which no classified number is.
	for _, c := range b {
		if c|0x20 == 'x' || c == '_' {
			return 0, false
		}
	}
	bits := 64
	if d == catalog.Float32 {
		bits = 32
	}
	v, err := strconv.ParseFloat(str(b), bits)
	if err != nil {
		return 0, false
	}
	if d == catalog.Float16 && math.Abs(v) >= 65520 && !math.IsInf(v, 0) {
		return 0, false
	}
	return v, true
}

// parseComplex reads a complex number as Python writes it: (1+2j), 1+2j, 2j, 1.
func parseComplex(b []byte, d catalog.DType) (re, im float64, ok bool) {
	if n := len(b); n > 1 && b[0] == '(' && b[n-1] == ')' {
		b = b[1 : n-1]
	}
	if len(b) == 0 {
		return 0, 0, false
	}
	if b[len(b)-1] != 'j' {
		re, ok = parseFloat(b, d)
		return re, 0, ok
	}
	b = b[:len(b)-1]
	at := 0
	for i := len(b) - 1; i > 0; i-- {
		if (b[i] == '+' || b[i] == '-') && b[i-1]|0x20 != 'e' {
			at = i
			break
		}
	}
	if at > 0 {
		if re, ok = parseFloat(b[:at], d); !ok {
			return 0, 0, false
		}
	}
	im, ok = parseFloat(b[at:], d)
	return re, im, ok
}

// appendFloat appends a float of a type that holds it, or its nearest one.
func appendFloat(dst []byte, d catalog.DType, v float64) []byte {
	switch d {
	case catalog.Float32:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v)))
	case catalog.Float16:
		return binary.LittleEndian.AppendUint16(dst, catalog.FloatToHalf(v))
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

// errNull marks a null element of a type that has no value for it.
var errNull = errors.New("an element is null; a recipe gives what stands for it (fill: VALUE)")

// appendFill appends what stands for a null element that is no text.
func appendFill(dst []byte, d catalog.DType, fill any) ([]byte, error) {
	v, given := fill.(float64)
	switch d {
	case catalog.Float64, catalog.Float32, catalog.Float16:
		if !given {
			v = math.NaN()
		}
		return appendFloat(dst, d, v), nil
	case catalog.Complex64, catalog.Complex128:
		im := 0.0
		if !given {
			v, im = math.NaN(), math.NaN()
		}
		return appendFloat(appendFloat(dst, d.Component(), v), d.Component(), im), nil
	}
	if !given {
		return dst, errNull
	}
	if d == catalog.Bool {
		if v != 0 && v != 1 {
			return dst, fmt.Errorf("the fill %v is no bool", v)
		}
		return append(dst, byte(v)), nil
	}
	if v != math.Trunc(v) || math.Abs(v) > 1<<64 {
		return dst, fmt.Errorf("the fill %v is no %s", v, d)
	}
	return appendValue(dst, d, strconv.AppendFloat(nil, v, 'f', 0, 64))
}
