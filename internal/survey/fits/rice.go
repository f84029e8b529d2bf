package fits

import "math/bits"

// riceCode are the parameters of the Rice code for one size of pixels (FITS 4.0, section 10.4.1).
type riceCode struct {
	fsBits uint // bits that give a block's number of low bits
	fsMax  int  // the number that says: the differences stand as they are
	bits   uint // of a pixel
}

func riceFor(bytepix int) (riceCode, bool) {
	switch bytepix {
	case 1:
		return riceCode{3, 6, 8}, true
	case 2:
		return riceCode{4, 14, 16}, true
	case 4:
		return riceCode{5, 25, 32}, true
	}
	return riceCode{}, false
}

var errRice = corruptf("RICE_1: the tile's bytes end before its pixels do")

// riceReader gives the bits of src, highest first. The next n bits stand at the top of acc; below them are zeros, or bits
// that a refill will write again.
type riceReader struct {
	src []byte
	in  int
	acc uint64
	n   uint
}

// refill makes at least 56 bits ready while there are that many.
func (r *riceReader) refill() {
	if r.in+8 <= len(r.src) {
		r.acc |= be.Uint64(r.src[r.in:]) >> r.n
		r.in += int(63-r.n) >> 3
		r.n |= 56
		return
	}
	// A refill of whole words may have left bits that do not count.
	r.acc &= ^(^uint64(0) >> r.n)
	for r.n <= 56 && r.in < len(r.src) {
		r.acc |= uint64(r.src[r.in]) << (56 - r.n)
		r.in++
		r.n += 8
	}
}

// take gives the next k bits, at most 32.
func (r *riceReader) take(k uint) (uint32, bool) {
	if r.n < k {
		if r.refill(); r.n < k {
			return 0, false
		}
	}
	v := uint32(r.acc >> (64 - k))
	r.acc <<= k
	r.n -= k
	return v, true
}

// zeros counts zeros up to the next 1 and takes both.
func (r *riceReader) zeros() (int, bool) {
	total := 0
	for {
		r.refill()
		z := uint(bits.LeadingZeros64(r.acc))
		if z < r.n {
			r.acc <<= z + 1
			r.n -= z + 1
			return total + int(z), true
		}
		if r.n == 0 || r.in == len(r.src) {
			return 0, false
		}
		total += int(r.n)
		r.acc, r.n = 0, 0
	}
}

// rice decodes len(dst) pixels. Of pixels of 1 and 2 bytes only the low bits of dst count.
func rice(dst []int32, src []byte, code riceCode, block int) error {
	r := riceReader{src: src}
	first, ok := r.take(code.bits)
	if !ok {
		return errRice
	}
	last := int32(first)
	for len(dst) > 0 {
		out := dst[:min(block, len(dst))]
		dst = dst[len(out):]
		head, ok := r.take(code.fsBits)
		if !ok {
			return errRice
		}
		switch fs := int(head) - 1; {
		case fs < 0:
			for i := range out {
				out[i] = last
			}
		case fs == code.fsMax:
			for i := range out {
				d, ok := r.take(code.bits)
				if !ok {
					return errRice
				}
				last += unfold(d)
				out[i] = last
			}
		case fs > code.fsMax:
			return corruptf("RICE_1: %d low bits, of pixels of %d bits", fs, code.bits)
		default:
			if last, ok = r.block(out, last, uint(fs), code); !ok {
				return errRice
			}
		}
	}
	return nil
}

// unfold undoes the folding of signed differences: 0, -1, 1, -2, ...
func unfold(d uint32) int32 { return int32(d>>1) ^ -int32(d&1) }

// block decodes differences of fs low bits after a run of zeros and a 1. It is the loop that decides the speed: while 8
// bytes of input are left, a refill serves two differences where both are short, which nearly all are, and no bit needs a
// check.
func (r *riceReader) block(out []int32, last int32, fs uint, code riceCode) (int32, bool) {
	const ready, half = 56, 28
	src, in, acc, n := r.src, r.in, r.acc, r.n
	limit := len(src) - 8
	low := uint64(1)<<fs - 1
	i := 0
	for i+1 < len(out) && in <= limit {
		acc |= be.Uint64(src[in:]) >> (n & 63)
		in += int(63-n) >> 3
		n |= ready
		z := uint(bits.LeadingZeros64(acc))
		used := z + 1 + fs
		if used > ready {
			break
		}
		d := uint32(z)<<(fs&31) | uint32(acc>>((64-used)&63)&low)
		acc <<= used & 63
		n -= used
		last += int32(d>>1) ^ -int32(d&1)
		out[i] = last
		i++
		if used > half {
			continue
		}
		z = uint(bits.LeadingZeros64(acc))
		if used = z + 1 + fs; used > half {
			continue
		}
		d = uint32(z)<<(fs&31) | uint32(acc>>((64-used)&63)&low)
		acc <<= used & 63
		n -= used
		last += int32(d>>1) ^ -int32(d&1)
		out[i] = last
		i++
	}
	r.in, r.acc, r.n = in, acc, n
	for ; i < len(out); i++ {
		z, ok := r.zeros()
		// A run that long is no difference of pixels.
		if !ok || uint64(z)>>(min(32, code.bits+1)-fs) != 0 {
			return 0, false
		}
		v, ok := r.take(fs)
		if !ok {
			return 0, false
		}
		last += unfold(uint32(z)<<fs | v)
		out[i] = last
	}
	return last, true
}
