package hdf5

import (
	"fmt"

	"github.com/pierrec/lz4/v4"
)

const (
	lz4Expansion = 255 // a byte of length counts at most 255 bytes
	lz4Head      = 12
	lz4BlockHead = 4
)

// lz4Block decodes one LZ4 block ("LZ4 Block Format Description" of the lz4 project) and gives the number of bytes.
func lz4Block(dst, src []byte) (int, error) {
	if len(src) == 0 {
		return 0, fmt.Errorf("%w: LZ4 block of no bytes", ErrCorrupt)
	}
	n, err := lz4.UncompressBlock(src, dst)
	if err != nil || n < 0 || n > len(dst) {
		return 0, fmt.Errorf("%w: bad LZ4 block", ErrCorrupt)
	}
	return n, nil
}

// undoLZ4 decodes filter 32004 (The HDF Group, "HDF5 LZ4 filter specification"). Numbers are big-endian: 8 bytes of decoded
// size, 4 bytes of block size, then each block with 4 bytes of stored size before it; one stored in its own size is as it
// was.
func (s *scratch) undoLZ4(_ *Filter, dst, src []byte) (int, error) {
	if len(src) < lz4Head {
		return 0, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(src))
	}
	total, size := be.Uint64(src), uint64(be.Uint32(src[8:]))
	if total > uint64(len(dst)) || size == 0 && total > 0 {
		return 0, fmt.Errorf("%w: %d bytes in blocks of %d where %d fit", ErrCorrupt, total, size, len(dst))
	}
	src = src[lz4Head:]
	for at := uint64(0); at < total; {
		n := min(size, total-at)
		stored, rest, err := sizedBE(src)
		if err != nil {
			return 0, err
		}
		out := dst[at : at+n]
		if uint64(len(stored)) == n {
			copy(out, stored)
		} else if got, err := lz4Block(out, stored); err != nil || uint64(got) != n {
			return 0, fmt.Errorf("%w: block at %d of %d bytes", ErrCorrupt, at, total)
		}
		src = rest
		at += n
	}
	return int(total), nil
}

// sizedBE cuts off a part whose size stands before it in 4 big-endian bytes.
func sizedBE(b []byte) (part, rest []byte, err error) {
	if len(b) < lz4BlockHead {
		return nil, nil, fmt.Errorf("%w: %d bytes where a block begins", ErrCorrupt, len(b))
	}
	n := uint64(be.Uint32(b))
	if b = b[lz4BlockHead:]; n > uint64(len(b)) {
		return nil, nil, fmt.Errorf("%w: block of %d bytes, %d are left", ErrCorrupt, n, len(b))
	}
	return b[:n], b[n:], nil
}
