package hdf5

import stdadler "hash/adler32"

// The loops of this file have AVX2 versions (bytes_amd64.s) that take whole blocks; what they leave, and everything
// where there is no AVX2, is done here.

// unshuffle puts the bytes of each element together again: src has the first bytes of all elements, then the second, and
// so on, and what is left of an odd length at the end. dst and src are of one length and do not overlap.
func unshuffle(dst, src []byte, width int) {
	n := len(src) / width
	done := unshuffleBlocks(dst, src, width, n)
	unshuffleFrom(dst, src, width, n, done)
	copy(dst[n*width:], src[n*width:])
}

// unshuffleFrom does the elements from number i on of n.
func unshuffleFrom(dst, src []byte, width, n, i int) {
	dst = dst[:n*width]
	switch width {
	case 2:
		a, b := src[:n], src[n:2*n]
		for ; i < n; i++ {
			le.PutUint16(dst[2*i:], uint16(a[i])|uint16(b[i])<<8)
		}
	case 4:
		a, b, c, d := src[:n], src[n:2*n], src[2*n:3*n], src[3*n:4*n]
		for ; i < n; i++ {
			le.PutUint32(dst[4*i:], uint32(a[i])|uint32(b[i])<<8|uint32(c[i])<<16|uint32(d[i])<<24)
		}
	case 8:
		lo, hi := src[:4*n], src[4*n:8*n]
		a, b, c, d := lo[:n], lo[n:2*n], lo[2*n:3*n], lo[3*n:]
		e, f, g, h := hi[:n], hi[n:2*n], hi[2*n:3*n], hi[3*n:]
		for ; i < n; i++ {
			low := uint32(a[i]) | uint32(b[i])<<8 | uint32(c[i])<<16 | uint32(d[i])<<24
			high := uint32(e[i]) | uint32(f[i])<<8 | uint32(g[i])<<16 | uint32(h[i])<<24
			le.PutUint64(dst[8*i:], uint64(low)|uint64(high)<<32)
		}
	default:
		// A strip of elements at a time keeps what is written in the first-level cache.
		const strip = 1024
		for ; i < n; i += strip {
			end := min(i+strip, n)
			for k := range width {
				at := i*width + k
				for _, x := range src[k*n+i : k*n+end] {
					dst[at] = x
					at += width
				}
			}
		}
	}
}

// adler32 is the checksum of zlib streams (RFC 1950).
func adler32(b []byte) uint32 {
	sum, done := adlerBlocks(b)
	if done == 0 {
		return stdadler.Checksum(b)
	}
	return adlerFrom(sum, b[done:])
}

const adlerModulus = 65521

// adlerFrom continues a checksum over a short rest.
func adlerFrom(sum uint32, b []byte) uint32 {
	s1, s2 := sum&0xffff, sum>>16
	for _, x := range b {
		s1 += uint32(x)
		s2 += s1
	}
	return s2%adlerModulus<<16 | s1%adlerModulus
}
