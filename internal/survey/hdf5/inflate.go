package hdf5

import (
	"fmt"

	"astropile/internal/survey/deflate"
)

var errDeflate = fmt.Errorf("%w: bad deflate data", ErrCorrupt)

const (
	zlibHead = 2
	zlibTail = 4
)

// inflater decodes zlib streams.
type inflater struct{ raw deflate.Decoder }

// zlib decodes a zlib stream (RFC 1950) into dst, verifies its checksum, and gives the number of bytes.
func (z *inflater) zlib(dst, src []byte) (int, error) {
	if len(src) < zlibHead+zlibTail {
		return 0, errDeflate
	}
	const method, maxWindow, dictionary = 8, 7, 1 << 5
	if src[0]&15 != method || src[0]>>4 > maxWindow || (int(src[0])<<8|int(src[1]))%31 != 0 || src[1]&dictionary != 0 {
		return 0, errDeflate
	}
	src = src[zlibHead:]
	n, used, err := z.raw.Inflate(dst, src)
	if err != nil {
		return 0, errDeflate
	}
	if len(src)-used < zlibTail {
		return 0, errDeflate
	}
	stored := uint32(src[used])<<24 | uint32(src[used+1])<<16 | uint32(src[used+2])<<8 | uint32(src[used+3])
	if sum := adler32(dst[:n]); sum != stored {
		return 0, fmt.Errorf("%w: adler32 is %08x, the bytes give %08x", ErrCorrupt, stored, sum)
	}
	return n, nil
}
