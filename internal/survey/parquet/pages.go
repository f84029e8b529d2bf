package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"

	"astropile/internal/shard"
)

const (
	maxPage       = 512 << 20
	maxPageValues = 1 << 27
	windowBytes   = 128 << 10
)

// window reads a span of a file front to back through a buffer.
type window struct {
	r        io.ReaderAt
	at, end  int64 // of the span: where buf starts in the file, and where the span ends
	buf      []byte
	from, to int // what of buf is read and not yet taken
}

func (w *window) reset(r io.ReaderAt, lo, hi int64) {
	w.r, w.at, w.end, w.from, w.to = r, lo, hi, 0, 0
}

// pos is the place in the file of the next byte.
func (w *window) pos() int64 { return w.at + int64(w.from) }

func (w *window) left() int64 { return w.end - w.pos() }

// peek gives the next n bytes, fewer at the span's end, valid until the next call.
func (w *window) peek(n int) ([]byte, error) {
	n = int(min(int64(n), w.left()))
	if w.to-w.from < n {
		copy(w.buf[:cap(w.buf)], w.buf[w.from:w.to])
		w.at += int64(w.from)
		w.from, w.to = 0, w.to-w.from
		want := int(min(int64(max(n, windowBytes)), w.end-w.at))
		if cap(w.buf) < want {
			b := make([]byte, want)
			copy(b, w.buf[:w.to])
			w.buf = b
		}
		w.buf = w.buf[:cap(w.buf)]
		if _, err := w.r.ReadAt(w.buf[w.to:want], w.at+int64(w.to)); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, damaged("the file ends within a column chunk")
			}
			return nil, err
		}
		w.to = want
	}
	return w.buf[w.from : w.from+n], nil
}

// skip passes over n bytes of the span.
func (w *window) skip(n int) {
	if n <= w.to-w.from {
		w.from += n
		return
	}
	w.at += int64(w.from + n)
	w.from, w.to = 0, 0
}

// page is an open data page.
type page struct {
	left     int // levels still to come; rows in flat columns
	rep, def hybrid
	values   stored
}

// unpacker decompresses pages.
type unpacker struct {
	zstd *zstd.Decoder
	gzip *gzip.Reader
}

// expansion is about how many times larger than its compressed bytes a page can be, or 0 where that has no bound.
func expansion(codec shard.Compression) int64 {
	switch codec {
	case shard.CompressSnappy:
		return 64
	case shard.CompressGzip:
		return 1040
	case shard.CompressLZ4Raw:
		return 256
	}
	return 0
}

// unpack decompresses src, which has to give size bytes, into buf where that is large enough.
func (u *unpacker) unpack(codec shard.Compression, buf, src []byte, size int) ([]byte, error) {
	if e := expansion(codec); e > 0 && int64(size) > int64(len(src))*e+64 {
		return nil, damaged("%d bytes are said to be the compressed form of %d", len(src), size)
	}
	var out []byte
	var err error
	switch codec {
	case shard.CompressSnappy:
		var n int
		if n, err = snappy.DecodedLen(src); err == nil && n == size {
			out, err = snappy.Decode(sized(buf, size), src)
		}
	case shard.CompressZstd:
		if u.zstd == nil {
			if u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage), zstd.IgnoreChecksum(false)); err != nil {
				return nil, err
			}
		}
		var h zstd.Header
		if err = h.Decode(src); err == nil && h.HasFCS && h.FrameContentSize != uint64(size) && !h.Skippable && h.FrameContentSize > uint64(size) {
			return nil, damaged("a compressed page holds %d bytes, its header says %d", h.FrameContentSize, size)
		}
		first := min(size, 16*len(src)+1<<20)
		out, err = u.zstd.DecodeAll(src, sized(buf, first)[:0])
	case shard.CompressGzip:
		if u.gzip == nil {
			u.gzip, err = gzip.NewReader(bytes.NewReader(src))
		} else {
			err = u.gzip.Reset(bytes.NewReader(src))
		}
		if err == nil {
			out, err = fillFrom(u.gzip, sized(buf, size))
		}
	case shard.CompressBrotli:
		var c compress.Codec
		if c, err = compress.GetCodec(compress.Codecs.Brotli); err == nil {
			sc, ok := c.(compress.StreamingCodec)
			if !ok {
				return nil, unsupported("brotli")
			}
			r := sc.NewReader(bytes.NewReader(src))
			out, err = readUpTo(r, buf[:0], size)
			err = errors.Join(err, r.Close())
		}
	case shard.CompressLZ4Raw:
		var c compress.Codec
		if c, err = compress.GetCodec(compress.Codecs.Lz4Raw); err == nil {
			out, err = compress.Decode(c, sized(buf, size), src)
		}
	case shard.CompressLZO:
		return nil, unsupported("codec LZO; rewrite the file with zstd")
	case shard.CompressLZ4:
		return nil, unsupported("codec LZ4 in the framing of Hadoop; rewrite the file with LZ4_RAW or zstd")
	default:
		return nil, unsupported("codec %d", codec)
	}
	if err != nil {
		return nil, damaged("a compressed page: %v", err)
	}
	if len(out) != size {
		return nil, damaged("a compressed page does not hold the %d bytes that its header says", size)
	}
	return out, nil
}

func sized(buf []byte, n int) []byte {
	if cap(buf) >= n {
		return buf[:n]
	}
	return make([]byte, n)
}

// fillFrom fills dst, and makes sure that nothing follows and the stream's own checksum holds.
func fillFrom(r io.Reader, dst []byte) ([]byte, error) {
	if _, err := io.ReadFull(r, dst); err != nil {
		return nil, err
	}
	var one [1]byte
	switch n, err := io.ReadFull(r, one[:]); {
	case n > 0:
		return nil, errors.New("it goes on")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return dst, nil
}

// readUpTo reads at most size+1 bytes, taking memory as they come.
func readUpTo(r io.Reader, buf []byte, size int) ([]byte, error) {
	b := bytes.NewBuffer(buf)
	_, err := io.Copy(b, io.LimitReader(r, int64(size)+1))
	return b.Bytes(), err
}

// pageHead reads the header of the next page in w.
func pageHead(w *window) (*shard.PageHeader, int, error) {
	for n := 256; ; n *= 8 {
		b, err := w.peek(n)
		if err != nil {
			return nil, 0, err
		}
		h, k, err := shard.DecodePageHeader(b)
		if err == nil {
			if int64(h.CompressedSize) > w.left()-int64(k) {
				return nil, 0, damaged("a page of %d bytes runs over the end of its column chunk", h.CompressedSize)
			}
			if h.UncompressedSize > maxPage || h.CompressedSize > maxPage {
				return nil, 0, unsupported("a page of %d bytes (%d compressed), at most %d MiB", h.UncompressedSize, h.CompressedSize, maxPage>>20)
			}
			if h.Values() > maxPageValues {
				return nil, 0, unsupported("a page of %d values, at most %d", h.Values(), maxPageValues)
			}
			return h, k, nil
		}
		if n >= shard.MaxPageHeader || len(b) < n {
			return nil, 0, damaged("%v", err)
		}
	}
}

// openPage checks and decompresses a page's body. buf is reused; the result may refer to it or to body.
func (u *unpacker) body(h *shard.PageHeader, codec shard.Compression, buf, body []byte, levelsOnly bool) ([]byte, error) {
	if h.HasCRC && crc32.ChecksumIEEE(body) != h.CRC {
		return nil, damaged("a page's checksum does not match its bytes")
	}
	if v := h.DataV2; v != nil {
		n := int(v.DefBytes + v.RepBytes)
		if levelsOnly {
			return body[:n], nil
		}
		if codec == shard.CompressNone || !v.Compressed {
			return body, nil
		}
		if int(h.UncompressedSize) == n {
			return body[:n], nil
		}
		out, err := u.unpack(codec, buf, body[n:], int(h.UncompressedSize)-n)
		return out, err
	}
	if codec == shard.CompressNone {
		if h.CompressedSize != h.UncompressedSize {
			return nil, damaged("an uncompressed page of %d bytes that takes %d", h.UncompressedSize, h.CompressedSize)
		}
		return body, nil
	}
	if h.UncompressedSize == 0 {
		return nil, nil
	}
	return u.unpack(codec, buf, body, int(h.UncompressedSize))
}

// takeLevels splits the levels from the front of a data page of version 1.
func takeLevels(b []byte, enc shard.Encoding, maxLevel int) (hybrid, []byte, error) {
	if maxLevel == 0 {
		return hybrid{}, b, nil
	}
	if enc != shard.EncRLE {
		return hybrid{}, nil, unsupported("levels of encoding %d", enc)
	}
	if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
		return hybrid{}, nil, damaged("levels run over their page's end")
	}
	n := 4 + int(binary.LittleEndian.Uint32(b))
	return newHybrid(b[4:n], levelWidth(maxLevel)), b[n:], nil
}
