package hdf5

import (
	"fmt"

	"github.com/klauspost/compress/snappy"
)

const (
	bloscHead       = 16
	bloscNewest     = 2 // format version
	bloscShuffle    = 1 << 0
	bloscStored     = 1 << 1
	bloscBitshuffle = 1 << 2
	bloscWhole      = 1 << 4 // blocks are not split by byte of element
	bloscCodecAt    = 5
	bloscBlosclz    = 0 // codecs, in the flags from bit 5 on
	bloscLZ4        = 1
	bloscSnappy     = 2
	bloscZlib       = 3
	bloscZstd       = 4
	bloscMaxSplits  = 16
	bloscMinSplit   = 128
)

// undoBlosc decodes filter 32001, a chunk of C-Blosc 1 (its README_CHUNK_FORMAT and README_HEADER): 16 bytes of head, the
// starts of all blocks in 4 bytes each, and the blocks. A block is compressed in one part, or in one for each byte of an
// element, each with its size in 4 bytes before it; a part stored in its own size is as it was.
func (s *scratch) undoBlosc(_ *Filter, dst, src []byte) (int, error) {
	if len(src) < bloscHead {
		return 0, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(src))
	}
	version, flags, width := src[0], src[2], int(src[3])
	total, block, stored := uint64(le.Uint32(src[4:])), uint64(le.Uint32(src[8:])), uint64(le.Uint32(src[12:]))
	if version < 1 || version > bloscNewest {
		return 0, unsupportedf("blosc format version %d", version)
	}
	if total > uint64(len(dst)) || stored > uint64(len(src)) || stored < bloscHead || width == 0 {
		return 0, fmt.Errorf("%w: %d bytes of elements of %d, stored in %d, where %d fit and %d are", ErrCorrupt, total, width, stored, len(dst), len(src))
	}
	src, dst = src[:stored], dst[:total]
	if flags&bloscStored != 0 {
		if stored-bloscHead < total {
			return 0, fmt.Errorf("%w: %d bytes of %d", ErrCorrupt, stored-bloscHead, total)
		}
		return copy(dst, src[bloscHead:]), nil
	}
	if total == 0 {
		return 0, nil
	}
	blocks := uint64(0)
	if block > 0 {
		blocks = (total + block - 1) / block
	}
	if block == 0 || blocks > (stored-bloscHead)/4 {
		return 0, fmt.Errorf("%w: %d bytes in blocks of %d", ErrCorrupt, total, block)
	}
	for i := range blocks {
		out := dst[i*block : min((i+1)*block, total)]
		start := uint64(le.Uint32(src[bloscHead+4*i:]))
		if start > stored {
			return 0, fmt.Errorf("%w: block %d of %d begins behind the end", ErrCorrupt, i, blocks)
		}
		if err := s.bloscBlock(out, src[start:], flags, width, uint64(len(out)) == block); err != nil {
			return 0, fmt.Errorf("block %d of %d: %w", i, blocks, err)
		}
	}
	return int(total), nil
}

// bloscBlock decodes a block, which but for the last one is full.
func (s *scratch) bloscBlock(dst, src []byte, flags byte, width int, full bool) error {
	shuffled := flags&bloscShuffle != 0 && width > 1
	// The writer moves bits only where a block has a multiple of 8 elements.
	bitShuffled := !shuffled && flags&bloscBitshuffle != 0 && len(dst) >= width && len(dst)/width%bitshuffleEights == 0
	out := dst
	if shuffled || bitShuffled {
		s.block = resize(s.block, uint64(len(dst)))
		out = s.block
	}
	parts := 1
	if flags&bloscWhole == 0 && width <= bloscMaxSplits && len(dst)/width >= bloscMinSplit && full {
		parts = width
	}
	if len(dst)%parts != 0 {
		return fmt.Errorf("%w: %d bytes in %d parts", ErrCorrupt, len(dst), parts)
	}
	each := len(dst) / parts
	for k := range parts {
		if len(src) < 4 {
			return fmt.Errorf("%w: %d bytes are left", ErrCorrupt, len(src))
		}
		n := uint64(le.Uint32(src))
		if src = src[4:]; n > uint64(len(src)) {
			return fmt.Errorf("%w: part of %d bytes, %d are left", ErrCorrupt, n, len(src))
		}
		to := out[k*each : (k+1)*each]
		got, err := len(to), error(nil)
		if n == uint64(each) {
			copy(to, src)
		} else {
			got, err = s.bloscPart(to, src[:n], flags>>bloscCodecAt)
		}
		if err != nil {
			return err
		}
		if got != each {
			return fmt.Errorf("%w: part of %d bytes, not %d", ErrCorrupt, got, each)
		}
		src = src[n:]
	}
	switch {
	case shuffled:
		unshuffle(dst, out, width)
	case bitShuffled:
		n := len(dst) / width * width
		s.unbitshuffle(dst[:n], out[:n], width)
		copy(dst[n:], out[n:])
	}
	return nil
}

func (s *scratch) bloscPart(dst, src []byte, codec byte) (int, error) {
	switch codec {
	case bloscBlosclz:
		return decodeBloscLZ(dst, src)
	case bloscLZ4:
		return lz4Block(dst, src)
	case bloscSnappy:
		return decodeSnappy(dst, src)
	case bloscZlib:
		return s.inflate.zlib(dst, src)
	case bloscZstd:
		return s.undoZstd(nil, dst, src)
	}
	return 0, unsupportedf("blosc codec %d", codec)
}

// decodeSnappy decodes a block of Snappy ("Snappy compressed format description" of the snappy project).
func decodeSnappy(dst, src []byte) (int, error) {
	n, err := snappy.DecodedLen(src)
	if err != nil || n > len(dst) {
		return 0, fmt.Errorf("%w: Snappy block of %d bytes where %d fit", ErrCorrupt, n, len(dst))
	}
	out, err := snappy.Decode(dst, src)
	if err != nil || n > 0 && &out[0] != &dst[0] {
		return 0, fmt.Errorf("%w: bad Snappy block", ErrCorrupt)
	}
	return len(out), nil
}
