package hdf5

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

const (
	// zstdExpansion: a block of 4 bytes (header and the byte to repeat) gives at most 128 KiB (RFC 8878, 3.1.1.2); no other
	// kind gives more for its bytes.
	zstdExpansion = 1 << 15
	// roomBehind is what a decoder may scribble over behind its output, where the buffer has that much: it is a third
	// faster then.
	roomBehind = 32
)

// undoZstd decodes Zstandard frames (RFC 8878), which filter 32015 stores without a head of its own. A frame's checksum
// is verified where there is one. What dst has room for behind its end may be overwritten.
func (s *scratch) undoZstd(_ *Filter, dst, src []byte) (int, error) {
	if s.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return 0, err
		}
		s.zstd = d
	}
	to := dst
	if cap(dst)-len(dst) < roomBehind {
		s.roomy = resize(s.roomy, uint64(len(dst)))
		to = s.roomy
	}
	out, err := s.zstd.DecodeAll(src, to[:0:len(to)+roomBehind])
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(out) > len(dst) {
		return 0, fmt.Errorf("%w: Zstandard frames of %d bytes where %d fit", ErrCorrupt, len(out), len(dst))
	}
	return copy(dst, out), nil
}
