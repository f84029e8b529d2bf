package hdf5

import "fmt"

// Parameters of filter 32008 and what they may say (bitshuffle's README and its HDF5 filter).
const (
	bitshuffleElement = 2 // bytes of an element
	bitshuffleBlock   = 3 // elements of a block; 0: as many as make 8 KiB
	bitshuffleCodec   = 4

	bitshuffleNone   = 0
	bitshuffleLZ4    = 2
	bitshuffleZstd   = 3
	bitshuffleHead   = 12
	bitshuffleEights = 8 // elements come in groups of so many
	bitshuffleTarget = 8192
	bitshuffleLeast  = 128
)

// undoBitshuffle decodes filter 32008: blocks of elements, each transposed by bits and then, maybe, compressed. With a
// codec the data begin, big-endian, with the decoded size in 8 bytes and a block's in 4, and each block with its stored
// size in 4. The last block may be shorter; elements beyond a multiple of 8 end the data as they were.
func (s *scratch) undoBitshuffle(fl *Filter, dst, src []byte) (int, error) {
	width, codec := uint64(fl.param(bitshuffleElement)), fl.param(bitshuffleCodec)
	if width == 0 || width > maxTypeSize {
		return 0, fmt.Errorf("%w: elements of %d bytes", ErrCorrupt, width)
	}
	total, block := uint64(len(src)), uint64(fl.param(bitshuffleBlock))*width
	if block == 0 {
		block = max(bitshuffleTarget/width/bitshuffleEights*bitshuffleEights, bitshuffleLeast) * width
	}
	switch codec {
	case bitshuffleNone:
	case bitshuffleLZ4, bitshuffleZstd:
		if len(src) < bitshuffleHead {
			return 0, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(src))
		}
		total, block = be.Uint64(src), uint64(be.Uint32(src[8:]))
		src = src[bitshuffleHead:]
	default:
		return 0, unsupportedf("codec %d", codec)
	}
	group := bitshuffleEights * width
	if total > uint64(len(dst)) || block == 0 || block%group != 0 {
		return 0, fmt.Errorf("%w: %d bytes in blocks of %d and elements of %d, where %d fit", ErrCorrupt, total, block, width, len(dst))
	}
	whole := total / group * group
	s.block = resize(s.block, min(block, whole))
	for at := uint64(0); at < whole; {
		n := min(block, whole-at)
		rows := s.block[:n]
		if codec == bitshuffleNone {
			if uint64(len(src)) < n {
				return 0, fmt.Errorf("%w: %d bytes of %d", ErrCorrupt, at, total)
			}
			rows, src = src[:n], src[n:]
		} else {
			stored, rest, err := sizedBE(src)
			if err != nil {
				return 0, err
			}
			got := 0
			if codec == bitshuffleLZ4 {
				got, err = lz4Block(rows, stored)
			} else {
				got, err = s.undoZstd(nil, rows, stored)
			}
			if err != nil || uint64(got) != n {
				return 0, fmt.Errorf("%w: block at %d of %d bytes", ErrCorrupt, at, total)
			}
			src = rest
		}
		s.unbitshuffle(dst[at:at+n], rows, int(width))
		at += n
	}
	if rest := total - whole; rest > uint64(len(src)) {
		return 0, fmt.Errorf("%w: %d bytes of %d", ErrCorrupt, total-rest, total)
	}
	copy(dst[whole:total], src)
	return int(total), nil
}

// unbitshuffle puts bits together again: src has bit 0 of byte 0 of all elements, 8 elements to a byte, then bit 1, and so
// on. dst and src are of one length, a multiple of 8 elements, and do not overlap.
func (s *scratch) unbitshuffle(dst, src []byte, width int) {
	n := len(src) / width // elements, and bytes of one plane: the same byte of all elements
	planes := dst
	if width > 1 {
		s.planes = resize(s.planes, uint64(len(src)))
		planes = s.planes
	}
	for k := range width {
		plane := planes[k*n : (k+1)*n]
		unshuffle(plane, src[k*n:(k+1)*n], bitshuffleEights)
		transposeBits(plane)
	}
	if width > 1 {
		unshuffle(dst, planes, width)
	}
}

// transposeBits turns each 8 bytes of b, seen as an 8 by 8 matrix of bits with the lowest bit first, over its diagonal.
func transposeBits(b []byte) {
	done := transposeBlocks(b)
	for b = b[done:]; len(b) >= 8; b = b[8:] {
		v := le.Uint64(b)
		t := (v ^ v>>7) & 0x00aa00aa00aa00aa
		v ^= t ^ t<<7
		t = (v ^ v>>14) & 0x0000cccc0000cccc
		v ^= t ^ t<<14
		t = (v ^ v>>28) & 0x00000000f0f0f0f0
		v ^= t ^ t<<28
		le.PutUint64(b, v)
	}
}
