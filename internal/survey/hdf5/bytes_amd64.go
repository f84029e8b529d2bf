package hdf5

import "golang.org/x/sys/cpu"

const (
	elementsPerBlock = 32   // unshuffled at a time, of 2 and 4 bytes
	elements8        = 16   // the same of 8 bytes
	adlerVector      = 32   // bytes summed at a time
	adlerRun         = 5536 // bytes, a multiple of adlerVector, after which 32-bit sums must be reduced (at most 5552)
)

// unshuffleBlocks does as many whole blocks of elements as there are and gives the number of elements done.
func unshuffleBlocks(dst, src []byte, width, n int) (done int) {
	if !cpu.X86.HasAVX2 || len(dst) < n*width || len(src) < n*width {
		return 0
	}
	switch width {
	case 2:
		if blocks := n / elementsPerBlock; blocks > 0 {
			unshuffle2AVX2(&dst[0], &src[0], n, blocks)
			return blocks * elementsPerBlock
		}
	case 4:
		if blocks := n / elementsPerBlock; blocks > 0 {
			unshuffle4AVX2(&dst[0], &src[0], n, blocks)
			return blocks * elementsPerBlock
		}
	case 8:
		if blocks := n / elements8; blocks > 0 {
			unshuffle8AVX2(&dst[0], &src[0], n, blocks)
			return blocks * elements8
		}
	}
	return 0
}

// adlerBlocks sums whole vectors and gives the checksum so far and the number of bytes it covers.
func adlerBlocks(b []byte) (sum uint32, done int) {
	if !cpu.X86.HasAVX2 {
		return 1, 0
	}
	s1, s2 := uint32(1), uint32(0)
	for len(b)-done >= adlerVector {
		n := min(len(b)-done, adlerRun) / adlerVector
		add1, add2 := adlerAVX2(&b[done], n)
		// The bytes before are in s1, which every byte of this run adds to s2 once more.
		s2 = uint32((uint64(s2) + uint64(s1)*uint64(n*adlerVector) + uint64(add2)) % adlerModulus)
		s1 = (s1 + add1) % adlerModulus
		done += n * adlerVector
	}
	return s2<<16 | s1, done
}

// unshuffle2AVX2 interleaves blocks of 32 elements from 2 planes of n bytes.
//
//go:noescape
func unshuffle2AVX2(dst, src *byte, n, blocks int)

// unshuffle4AVX2 interleaves blocks of 32 elements from 4 planes of n bytes.
//
//go:noescape
func unshuffle4AVX2(dst, src *byte, n, blocks int)

// unshuffle8AVX2 interleaves blocks of 16 elements from 8 planes of n bytes.
//
//go:noescape
func unshuffle8AVX2(dst, src *byte, n, blocks int)

// adlerAVX2 gives, of n vectors of 32 bytes (at most 5552 bytes), the sum of bytes, and the sum of all prefixes' sums.
//
//go:noescape
func adlerAVX2(b *byte, n int) (s1, s2 uint32)

const transposeBlock = 64 // bytes transposed at a time

// transposeBlocks does as many whole blocks as there are and gives the number of bytes done.
func transposeBlocks(b []byte) (done int) {
	blocks := len(b) / transposeBlock
	if !cpu.X86.HasAVX2 || blocks == 0 {
		return 0
	}
	transpose8AVX2(&b[0], blocks)
	return blocks * transposeBlock
}

// transpose8AVX2 transposes the bits of each 8 bytes in blocks of 64 bytes.
//
//go:noescape
func transpose8AVX2(b *byte, blocks int)
