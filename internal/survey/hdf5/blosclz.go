package hdf5

import "fmt"

var errBloscLZ = fmt.Errorf("%w: bad BloscLZ data", ErrCorrupt)

const (
	bloscLZLiterals = 32   // control bytes below this start a run of literals
	bloscLZLonger   = 6    // a length of this value goes on in the next bytes, until one is not 255
	bloscLZMinimum  = 3    // added to a match's length
	bloscLZFar      = 8191 // distance of this value: 16 bits more follow
)

// decodeBloscLZ expands src into dst and gives the number of bytes written. The format is FastLZ's level 2 as C-Blosc 1 writes
// it: of the first byte the low 5 bits count. A control byte below 32 is followed by that many literals plus one; any
// other holds, from the top, 3 bits of length plus one and 5 of distance. Bytes of length follow, then the low 8 bits of
// the distance, then 16 bits of distance, big-endian, if the 13 before are all ones.
func decodeBloscLZ(dst, src []byte) (int, error) {
	if len(src) == 0 {
		return 0, errBloscLZ
	}
	in, out := 1, 0
	ctrl := int(src[0]) & (bloscLZLiterals - 1)
	for {
		if ctrl < bloscLZLiterals {
			n := ctrl + 1
			if n > len(src)-in || n > len(dst)-out {
				return 0, errBloscLZ
			}
			if len(src)-in >= 32 && len(dst)-out >= 32 {
				copy32(dst[out:], src[in:])
			} else {
				copy(dst[out:out+n], src[in:in+n])
			}
			in += n
			out += n
		} else {
			n, distance := ctrl>>5-1, ctrl&31<<8
			if n == bloscLZLonger {
				for {
					if in == len(src) {
						return 0, errBloscLZ
					}
					x := int(src[in])
					in++
					if n += x; n > len(dst) {
						return 0, errBloscLZ
					}
					if x != 255 {
						break
					}
				}
			}
			if in == len(src) {
				return 0, errBloscLZ
			}
			distance += int(src[in])
			in++
			if distance == bloscLZFar {
				if len(src)-in < 2 {
					return 0, errBloscLZ
				}
				distance += int(src[in])<<8 | int(src[in+1])
				in += 2
			}
			distance++
			n += bloscLZMinimum
			if distance > out || n > len(dst)-out {
				return 0, errBloscLZ
			}
			if n <= 16 && distance >= 8 && len(dst)-out >= 16 {
				to, from := dst[out:out+16], dst[out-distance:]
				le.PutUint64(to, le.Uint64(from))
				le.PutUint64(to[8:], le.Uint64(from[8:]))
			} else {
				copyMatch(dst, out, distance, n)
			}
			out += n
		}
		if in == len(src) {
			return out, nil
		}
		ctrl = int(src[in])
		in++
	}
}
