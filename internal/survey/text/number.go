package text

import (
	"errors"
	"math"
	"strconv"
	"unsafe"

	"astropile/internal/catalog"
)

// class is what a text says of a number.
type class uint8

const (
	isText  class = iota
	isBool        // true or false
	isInt         // an integer of at most 64 bits, written as integers are
	isOdd         // an integer with a plus sign, or -0
	isZeros       // an integer with leading zeros
	isHuge        // an integer of more than 64 bits
	isFloat       // a decimal number, nan or inf
	isOut         // a decimal number beyond the range of float64
)

// classify says what b is, without spaces around it; of an integer its magnitude and sign as well.
func classify(b []byte) (c class, magnitude uint64, negative bool) {
	if len(b) == 0 {
		return isText, 0, false
	}
	i := 0
	signed := b[0] == '-' || b[0] == '+'
	if signed {
		negative = b[0] == '-'
		i = 1
	}
	first := i
	huge := false
	for i < len(b) && b[i]-'0' <= 9 {
		d := uint64(b[i] - '0')
		if magnitude > (math.MaxUint64-d)/10 {
			huge = true
		}
		magnitude = magnitude*10 + d
		i++
	}
	digits := i - first
	if i == len(b) && digits > 0 {
		switch {
		case b[first] == '0' && digits > 1:
			return isZeros, 0, negative
		case huge || negative && magnitude > 1<<63:
			return isHuge, 0, negative
		case signed && (!negative || magnitude == 0):
			return isOdd, magnitude, negative
		}
		return isInt, magnitude, negative
	}
	if digits == 0 && i < len(b) && b[i] != '.' {
		return word(b[i:], signed), 0, negative
	}
	exponent := 0
	if i < len(b) && b[i] == '.' {
		i++
		from := i
		for i < len(b) && b[i]-'0' <= 9 {
			i++
		}
		digits += i - from
	}
	if digits == 0 {
		return isText, 0, false
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			i++
		}
		from := i
		for i < len(b) && b[i]-'0' <= 9 {
			exponent = min(exponent*10+int(b[i]-'0'), 1<<20)
			i++
		}
		if i == from {
			return isText, 0, false
		}
	}
	if i < len(b) {
		return isText, 0, false
	}
	if digits+exponent > 300 {
		if _, err := strconv.ParseFloat(str(b), 64); errors.Is(err, strconv.ErrRange) {
			return isOut, 0, negative
		}
	}
	return isFloat, 0, negative
}

// word classifies what is not made of digits.
func word(b []byte, signed bool) class {
	switch len(b) {
	case 3:
		if fold(b, "nan") || fold(b, "inf") {
			return isFloat
		}
	case 8:
		if fold(b, "infinity") {
			return isFloat
		}
	}
	if _, ok := truth(b); ok && !signed {
		return isBool
	}
	return isText
}

// fold compares with letters of lower case.
func fold(b []byte, lower string) bool {
	for i := range b {
		if b[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// truth reads true and false.
func truth(b []byte) (value, ok bool) {
	switch string(b) {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

// str is a view of b as a string, which must not outlive it.
func str(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// trim drops spaces and tabs around a number.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for n := len(b); n > 0 && (b[n-1] == ' ' || b[n-1] == '\t'); n-- {
		b = b[:n-1]
	}
	return b
}

// exact says whether float64 holds an integer.
func exact(magnitude uint64) bool {
	f := float64(magnitude)
	return f < 1<<64 && uint64(f) == magnitude
}

// kinds gathers what the values of a column are.
type kinds struct {
	text, boolean, integer, float bool
	negative, big                 bool // integers below 0, and above the greatest int64
	odd, zeros, huge              bool
	inexact                       bool // an integer that float64 does not hold
}

// add takes in a value.
func (k *kinds) add(c class, magnitude uint64, negative bool) {
	switch c {
	case isText, isOut:
		k.text = true
	case isBool:
		k.boolean = true
	case isOdd, isInt:
		if c == isOdd {
			k.odd = true
		}
		k.integer = true
		k.negative = k.negative || negative
		k.big = k.big || magnitude > math.MaxInt64 && !negative
		k.inexact = k.inexact || magnitude > 1<<53 && !exact(magnitude)
	case isZeros:
		k.zeros = true
	case isHuge:
		k.huge = true
	case isFloat:
		k.float = true
	}
}

// none says that no value was seen.
func (k *kinds) none() bool {
	return !(k.text || k.boolean || k.integer || k.zeros || k.huge || k.float)
}

// dtype is the narrowest type that loses nothing: string where no number does.
func (k *kinds) dtype() catalog.DType {
	numbers := k.integer || k.float || k.zeros || k.huge
	switch {
	case k.text, k.zeros, k.huge, k.boolean && numbers:
		return catalog.String
	case k.boolean:
		return catalog.Bool
	case k.float && k.inexact:
		return catalog.String
	case k.float:
		return catalog.Float64
	case k.odd, k.negative && k.big:
		return catalog.String
	case k.big:
		return catalog.Uint64
	case k.integer:
		return catalog.Int64
	}
	return catalog.Float64 // without values
}
