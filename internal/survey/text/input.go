package text

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
)

// Bounds of a file.
const (
	MaxLine    = 64 << 20 // bytes of a record
	MaxHeader  = 16 << 20 // bytes of the comments before a header
	MaxColumns = 4096
	MaxDepth   = 32      // of JSON
	MaxValues  = 8 << 20 // of JSON in a line
)

// firstBuffer is how much is read at once.
const firstBuffer = 1 << 20

// input gives the bytes of a file, unpacked, record by record.
type input struct {
	path string
	file *os.File
	zip  *gzip.Reader // nil: the file is plain
	buf  []byte
	lo   int // what is not yet taken is buf[lo:hi]
	hi   int
	off  int64 // of buf[lo] in the unpacked bytes
	line int64 // of buf[lo], from 1
	eof  bool
}

// openInput opens a file; gzip is told by its first bytes.
func openInput(path string) (*input, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	in := &input{path: path, file: f, line: 1}
	var magic [2]byte
	if n, err := f.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	} else if n == 2 && magic == [2]byte{0x1f, 0x8b} {
		if in.zip, err = gzip.NewReader(f); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %s: gzip: %w", ErrCorrupt, path, err), f.Close())
		}
	}
	return in, nil
}

func (in *input) close() error {
	in.buf = nil
	return in.file.Close()
}

// seek goes to a place in the unpacked bytes. Going back in a gzip stream means reading it from the start.
func (in *input) seek(ctx context.Context, to mark) error {
	if in.zip == nil {
		if _, err := in.file.Seek(to.off, io.SeekStart); err != nil {
			return fmt.Errorf("%s: %w", in.path, err)
		}
		in.lo, in.hi, in.off, in.line, in.eof = 0, 0, to.off, to.line, false
		return nil
	}
	if to.off < in.off {
		if _, err := in.file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("%s: %w", in.path, err)
		}
		if err := in.zip.Reset(in.file); err != nil {
			return fmt.Errorf("%w: %s: gzip: %w", ErrCorrupt, in.path, err)
		}
		in.lo, in.hi, in.off, in.eof = 0, 0, 0, false
	}
	for in.off < to.off {
		if in.lo == in.hi {
			if in.eof {
				return fmt.Errorf("%w: %s: it ends at byte %d, before byte %d", ErrChanged, in.path, in.off, to.off)
			}
			if err := in.more(ctx); err != nil {
				return err
			}
			continue
		}
		n := int(min(to.off-in.off, int64(in.hi-in.lo)))
		in.lo += n
		in.off += int64(n)
	}
	in.line = to.line
	return nil
}

// more reads on, until the buffer is full or the file ends, and makes room first.
func (in *input) more(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if in.lo > 0 {
		copy(in.buf, in.buf[in.lo:in.hi])
		in.lo, in.hi = 0, in.hi-in.lo
	}
	if in.hi == len(in.buf) {
		size := max(firstBuffer, 2*len(in.buf))
		if in.hi >= MaxLine {
			return lineError(ErrTooLarge, in.path, in.line, "a record of over %d MiB; is a quote open?", MaxLine>>20)
		}
		grown := make([]byte, size)
		copy(grown, in.buf[:in.hi])
		in.buf = grown
	}
	var r io.Reader = in.file
	if in.zip != nil {
		r = in.zip
	}
	n, err := io.ReadFull(r, in.buf[in.hi:])
	in.hi += n
	switch {
	case err == nil:
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF) && in.zip == nil:
		in.eof = true
	case errors.Is(err, io.ErrUnexpectedEOF):
		// The reader below says the same where a gzip stream is cut; only a clean end gives io.EOF when asked again.
		if _, again := in.zip.Read(make([]byte, 1)); !errors.Is(again, io.EOF) {
			return fmt.Errorf("%w: %s: gzip: the stream is cut off", ErrCorrupt, in.path)
		}
		in.eof = true
	case in.zip != nil:
		return fmt.Errorf("%w: %s: gzip: %w", ErrCorrupt, in.path, err)
	default:
		return fmt.Errorf("%s: %w", in.path, err)
	}
	return nil
}

// rest is what was read and not yet taken.
func (in *input) rest() []byte { return in.buf[in.lo:in.hi] }

// take passes n bytes that hold a number of line ends.
func (in *input) take(n int, lines int64) {
	in.lo += n
	in.off += int64(n)
	in.line += lines
}

// nextLine takes the next line and gives it without its end; nil at the end of the file. It is valid until the next call.
func (in *input) nextLine(ctx context.Context) ([]byte, error) {
	from := 0
	for {
		b := in.rest()
		if i := bytes.IndexByte(b[from:], '\n'); i >= 0 {
			n := from + i
			if n > MaxLine {
				return nil, lineError(ErrTooLarge, in.path, in.line, "a line of over %d MiB", MaxLine>>20)
			}
			line := b[:n:n]
			if err := in.sane(line); err != nil {
				return nil, err
			}
			in.take(n+1, 1)
			return trimCR(line), nil
		}
		if in.eof {
			if len(b) == 0 {
				return nil, nil
			}
			if err := in.sane(b); err != nil {
				return nil, err
			}
			in.take(len(b), 1)
			return trimCR(b), nil
		}
		from = len(b)
		if err := in.more(ctx); err != nil {
			return nil, err
		}
	}
}

func trimCR(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\r' {
		return b[:n-1]
	}
	return b
}

// sane refuses bytes that are no text, in a record that begins at the present line.
func (in *input) sane(b []byte) error {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return in.byteError(b, i, "a NUL: this is no text")
	}
	if utf8.Valid(b) {
		return nil
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return in.byteError(b, i, "byte 0x%02x is not UTF-8; convert the file first (iconv -f latin1 -t utf8)", b[i])
		}
		i += n
	}
	return nil
}

// byteError names byte i of a record that begins at the present line.
func (in *input) byteError(b []byte, i int, format string, args ...any) error {
	lines := bytes.Count(b[:i], []byte{'\n'})
	column := i - bytes.LastIndexByte(b[:i], '\n')
	return lineError(ErrCorrupt, in.path, in.line+int64(lines), "byte %d: %s", column, fmt.Sprintf(format, args...))
}

// start skips a byte order mark.
func (in *input) start(ctx context.Context) error {
	if err := in.more(ctx); err != nil {
		return err
	}
	b := in.rest()
	switch {
	case bytes.HasPrefix(b, []byte("\xef\xbb\xbf")):
		in.take(3, 0)
	case bytes.HasPrefix(b, []byte("\xff\xfe")), bytes.HasPrefix(b, []byte("\xfe\xff")):
		return lineError(ErrUnsupported, in.path, 1, "the file is UTF-16; convert it first (iconv -f utf16 -t utf8)")
	}
	return nil
}

// comments takes the lines that begin with # and gives them.
func (in *input) comments(ctx context.Context) ([]string, error) {
	var out []string
	size := 0
	for {
		if in.lo == in.hi && !in.eof {
			if err := in.more(ctx); err != nil {
				return nil, err
			}
		}
		if b := in.rest(); len(b) == 0 || b[0] != '#' {
			return out, nil
		}
		line, err := in.nextLine(ctx)
		if err != nil {
			return nil, err
		}
		if size += len(line) + 16; size > MaxHeader {
			return nil, lineError(ErrTooLarge, in.path, in.line, "over %d MiB of comments", MaxHeader>>20)
		}
		out = append(out, string(line))
	}
}
