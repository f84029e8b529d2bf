package hdf5

import (
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// zstdExpansion: a block of 4 bytes (header and the byte to repeat) gives at most 128 KiB (RFC 8878, 3.1.1.2); no other
// kind gives more for its bytes.
const zstdExpansion = 1 << 15

// undoZstd decodes Zstandard frames (RFC 8878), which filter 32015 stores without a head of its own. A frame's checksum
// is verified where there is one.
func (s *scratch) undoZstd(_ *Filter, dst, src []byte) (int, error) {
	if s.zstd == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return 0, err
		}
		s.zstd = d
	}
	out, err := s.zstd.DecodeAll(src, dst[:0:len(dst)])
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return len(out), nil
}
