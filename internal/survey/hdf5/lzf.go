package hdf5

import "fmt"

var errLZF = fmt.Errorf("%w: bad LZF data", ErrCorrupt)

const (
	lzfLiterals   = 32 // control bytes below this start a run of literals
	lzfLongMatch  = 7  // a length field of this value is continued in the next byte
	lzfMinimum    = 2  // added to a match's length
	lzfOffsetMask = 31
)

// decodeLZF expands src into dst and gives the number of bytes written. A control byte below 32 is followed by that many
// literals plus one; any other holds, from the top, 3 bits of length (7: another byte of length follows) and 5 bits of
// distance, the low 8 of which follow; length counts from 2, distance from 1.
func decodeLZF(dst, src []byte) (int, error) {
	in, out := 0, 0
	for in < len(src) {
		ctrl := int(src[in])
		in++
		if ctrl < lzfLiterals {
			n := ctrl + 1
			if n > len(src)-in || n > len(dst)-out {
				return 0, errLZF
			}
			copy(dst[out:out+n], src[in:in+n])
			in += n
			out += n
			continue
		}
		n := ctrl >> 5
		if n == lzfLongMatch {
			if in == len(src) {
				return 0, errLZF
			}
			n += int(src[in])
			in++
		}
		if in == len(src) {
			return 0, errLZF
		}
		n += lzfMinimum
		distance := (ctrl&lzfOffsetMask)<<8 + int(src[in]) + 1
		in++
		if distance > out || n > len(dst)-out {
			return 0, errLZF
		}
		copyMatch(dst, out, distance, n)
		out += n
	}
	return out, nil
}

// copyMatch repeats the n bytes that begin distance before out, at out; the two may overlap.
func copyMatch(dst []byte, out, distance, n int) {
	start := out - distance
	for n > distance { // what is copied doubles the period that can be copied next
		copy(dst[out:out+distance], dst[start:out])
		out += distance
		n -= distance
		distance *= 2
	}
	copy(dst[out:out+n], dst[start:start+n])
}
