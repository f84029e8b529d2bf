package hdf5

import (
	"encoding/binary"
	"math/bits"
)

var be = binary.BigEndian

const (
	atOnce    = 56 // bits that msbReader gives in one piece, at most
	longestFS = 1 << 16
)

// msbReader reads bits from the most significant one of each byte on. Behind the end of b it gives zeros, which over tells.
type msbReader struct {
	b   []byte
	at  int    // the next byte to take
	acc uint64 // bits taken, the next one on top; what is below the lowest of n bits is what follows in b, or 0
	n   int
}

// fill takes bytes until at least atOnce bits are at hand.
func (r *msbReader) fill() {
	if len(r.b)-r.at >= 8 {
		r.acc |= be.Uint64(r.b[r.at:]) >> r.n
		k := (63 - r.n) >> 3
		r.at += k
		r.n += 8 * k
		return
	}
	for r.n <= atOnce {
		if r.at < len(r.b) {
			r.acc |= uint64(r.b[r.at]) << (56 - r.n)
		}
		r.at++
		r.n += 8
	}
}

// take gives the next k bits, at most atOnce.
func (r *msbReader) take(k int) uint64 {
	if r.n < k {
		r.fill()
	}
	v := r.acc >> (64 - k)
	r.acc <<= k
	r.n -= k
	return v
}

// wide gives the next k bits, at most 64.
func (r *msbReader) wide(k int) uint64 {
	if k <= atOnce {
		return r.take(k)
	}
	return r.take(k-32)<<32 | r.take(32)
}

// zeros gives the number of zero bits before the next one bit, and takes that bit too. Behind the end, or after a run
// longer than any writer makes, it gives longestFS.
func (r *msbReader) zeros() uint32 {
	var run uint32
	for {
		if r.n < 32 {
			r.fill()
		}
		z := bits.LeadingZeros64(r.acc)
		if z < r.n {
			r.acc <<= z + 1
			r.n -= z + 1
			return run + uint32(z)
		}
		run += uint32(r.n)
		r.acc, r.n = 0, 0
		if r.at > len(r.b) || run >= longestFS {
			return longestFS
		}
	}
}

// over says that more bits were read than there are.
func (r *msbReader) over() bool { return 8*r.at-r.n > 8*len(r.b) }
