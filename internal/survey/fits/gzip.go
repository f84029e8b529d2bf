package fits

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"

	"astropile/internal/survey/deflate"
)

const (
	gzipID1 = 0x1f
	gzipID2 = 0x8b

	// MaxInMemory is the size up to which a gzipped file is unpacked in memory.
	MaxInMemory = 64 << 20
	// MaxUnpacked is the size up to which a gzipped file is unpacked at all, to an unnamed temporary file.
	MaxUnpacked = 64 << 30

	gzipTail      = 8
	maxExpansion  = 1032 // a deflate stream gives at most this many bytes a byte
	gzipHeadBytes = 10
)

// gunzip decodes gzip streams (RFC 1952) held in memory.
type gunzip struct{ z deflate.Decoder }

// gzipHead gives the length of a member's header.
func gzipHead(src []byte) (int, error) {
	const deflated, crc, extra, name, comment, reserved = 8, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 0xe0
	if len(src) < gzipHeadBytes+gzipTail || src[0] != gzipID1 || src[1] != gzipID2 || src[2] != deflated || src[3]&reserved != 0 {
		return 0, corruptf("no gzip stream of %d bytes", len(src))
	}
	flags, at := src[3], gzipHeadBytes
	if flags&extra != 0 {
		if at += 2 + int(le.Uint16(src[at:])); at > len(src) {
			return 0, corruptf("the gzip header does not end")
		}
	}
	for _, f := range []byte{name, comment} {
		if flags&f != 0 {
			n := bytes.IndexByte(src[at:], 0)
			if n < 0 {
				return 0, corruptf("the gzip header does not end")
			}
			at += n + 1
		}
	}
	if flags&crc != 0 {
		at += 2
	}
	if at+gzipTail > len(src) {
		return 0, corruptf("the gzip stream is truncated")
	}
	return at, nil
}

// gzipSize is what the end of src says that its only member unpacks to; what the bytes cannot hold is refused.
func gzipSize(src []byte) (int64, error) {
	if len(src) < gzipHeadBytes+gzipTail {
		return 0, corruptf("no gzip stream of %d bytes", len(src))
	}
	n := int64(le.Uint32(src[len(src)-4:]))
	if n > int64(len(src))*maxExpansion {
		return 0, corruptf("a gzip stream of %d bytes says that it holds %d", len(src), n)
	}
	return n, nil
}

// into decodes src, one whole member, into dst, which has to be exactly what it holds, and verifies its checksum.
func (g *gunzip) into(dst, src []byte) error {
	at, err := gzipHead(src)
	if err != nil {
		return err
	}
	n, used, err := g.z.Inflate(dst, src[at:])
	if err != nil {
		return corruptf("bad gzip data")
	}
	tail := src[at+used:]
	switch {
	case len(tail) < gzipTail:
		return corruptf("the gzip stream is truncated")
	case len(tail) > gzipTail:
		return corruptf("%d bytes after the gzip stream", len(tail)-gzipTail)
	case n != len(dst) || le.Uint32(tail[4:]) != uint32(n):
		return corruptf("the gzip stream holds %d bytes of %d", n, len(dst))
	}
	if sum := crc32.ChecksumIEEE(dst); sum != le.Uint32(tail) {
		return fmt.Errorf("%w: gzip crc32 is %08x, the bytes give %08x", ErrChecksum, le.Uint32(tail), sum)
	}
	return nil
}

// faulty keeps the error of a reader, so that it is not taken for the writer's.
type faulty struct {
	r   io.Reader
	err error
}

func (f *faulty) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// unpack replaces the gzipped file fd by what it holds: in memory if it is small, else in an unnamed temporary file.
func (f *File) unpack(fd *os.File) error {
	if f.size <= MaxInMemory {
		src := make([]byte, f.size)
		if err := f.readAt(src, 0); err != nil {
			return err
		}
		if n, err := gzipSize(src); err == nil && n <= MaxInMemory {
			dst := make([]byte, n)
			var g gunzip
			if g.into(dst, src) == nil {
				f.r, f.size, f.closer = bytes.NewReader(dst), n, nil
				return fd.Close()
			}
		}
		// Several members, or damage: the reader of streams knows, or says what is wrong.
	}
	z, err := gzip.NewReader(io.NewSectionReader(fd, 0, f.size))
	if err != nil {
		return corruptf("gzip: %v", err)
	}
	first := make([]byte, cardSize)
	if _, err := io.ReadFull(z, first); err != nil || !bytes.HasPrefix(first, []byte("SIMPLE  =")) {
		return fmt.Errorf("%w: it is gzipped, but what it holds does not begin with SIMPLE", ErrNotFITS)
	}
	tmp, err := os.CreateTemp("", "astropile-fits-")
	if err != nil {
		return err
	}
	if err := os.Remove(tmp.Name()); err != nil {
		tmp.Close()
		return err
	}
	in := &faulty{r: io.MultiReader(bytes.NewReader(first), z)}
	n, err := io.Copy(tmp, io.LimitReader(in, MaxUnpacked+1))
	switch {
	case in.err != nil:
		err = corruptf("gzip, after %d bytes: %v", n, in.err)
	case err != nil:
		err = fmt.Errorf("unpacking to a temporary file: %w", err)
	case n > MaxUnpacked:
		err = fmt.Errorf("%w: gzipped, and over %d GiB when unpacked; unpack it first", ErrTooLarge, int64(MaxUnpacked)>>30)
	default:
		err = fd.Close()
	}
	if err != nil {
		tmp.Close()
		return err
	}
	f.r, f.size, f.closer = tmp, n, tmp
	return nil
}
