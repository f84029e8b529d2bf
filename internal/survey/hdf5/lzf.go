package hdf5

import "fmt"

var errLZF = fmt.Errorf("%w: bad LZF data", ErrCorrupt)

const (
	lzfLiterals   = 32 // control bytes below this start a run of literals
	lzfLongMatch  = 7  // a length field of this value is continued in the next byte
	lzfMinimum    = 2  // added to a match's length
	lzfOffsetMask = 31

	// While so much is left on both sides, no step of the decoder needs a check.
	lzfFastInput  = 1 + lzfLiterals
	lzfFastOutput = 7 + 255 + lzfMinimum + 16
)

// decodeLZF expands src into dst and gives the number of bytes written. A control byte below 32 is followed by that many
// literals plus one; any other holds, from the top, 3 bits of length (7: another byte of length follows) and 5 bits of
// distance, the low 8 of which follow; length counts from 2, distance from 1.
func decodeLZF(dst, src []byte) (int, error) {
	in, out := 0, 0
	for len(src)-in >= lzfFastInput && len(dst)-out >= lzfFastOutput {
		b := src[in : in+lzfFastInput]
		ctrl := int(b[0])
		if ctrl < lzfLiterals {
			copy32(dst[out:], b[1:])
			in += ctrl + 2
			out += ctrl + 1
			continue
		}
		n, low := ctrl>>5, b[1]
		in += 2
		if n == lzfLongMatch {
			n, low = n+int(low), b[2]
			in++
		}
		n += lzfMinimum
		distance := ctrl&lzfOffsetMask<<8 + int(low) + 1
		if distance > out {
			return 0, errLZF
		}
		if n <= 16 && distance >= 8 {
			to, from := dst[out:out+16], dst[out-distance:]
			le.PutUint64(to, le.Uint64(from))
			le.PutUint64(to[8:], le.Uint64(from[8:]))
		} else {
			copyMatch(dst, out, distance, n)
		}
		out += n
	}
	for in < len(src) {
		ctrl := int(src[in])
		in++
		if ctrl < lzfLiterals {
			n := ctrl + 1
			if n > len(src)-in || n > len(dst)-out {
				return 0, errLZF
			}
			if len(src)-in >= lzfLiterals && len(dst)-out >= lzfLiterals {
				copy32(dst[out:], src[in:])
			} else {
				copy(dst[out:out+n], src[in:in+n])
			}
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

func copy16(dst, src []byte) {
	a, b := le.Uint64(src), le.Uint64(src[8:])
	le.PutUint64(dst, a)
	le.PutUint64(dst[8:], b)
}

func copy32(dst, src []byte) {
	copy16(dst, src)
	copy16(dst[16:], src[16:])
}

// copyMatch repeats the n bytes that begin distance before out, at out; the two may overlap.
func copyMatch(dst []byte, out, distance, n int) {
	start := out - distance
	switch {
	case len(dst)-out < n+16:
	case distance >= 16:
		// 16 bytes at a time never read what they write. What is written behind the end is written again.
		for i := 0; i < n; i += 16 {
			copy16(dst[out+i:], dst[start+i:])
		}
		return
	case distance >= 8:
		for i := 0; i < n; i += 8 {
			le.PutUint64(dst[out+i:], le.Uint64(dst[start+i:]))
		}
		return
	}
	for n > distance { // what is copied doubles the period that can be copied next
		copy(dst[out:out+distance], dst[start:out])
		out += distance
		n -= distance
		distance *= 2
	}
	copy(dst[out:out+n], dst[start:start+n])
}
