package hdf5

import (
	"bytes"
	"encoding/binary"
	"io"
)

// MaxMetadata is the largest single metadata block (header, heap, tree node) that is read, in bytes.
const MaxMetadata = 64 << 20

var le = binary.LittleEndian

// cursor reads a block of metadata in order. The first overrun or mismatch sticks in err, after which every read gives
// zeros, so that a caller checks once a structure instead of once a field.
type cursor struct {
	f    *File
	b    []byte
	pos  int
	addr uint64 // address of b[0], relative to the file's base
	err  error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = c.f.corrupt(c.addr+uint64(c.pos), format, args...)
	}
}

func (c *cursor) left() int { return len(c.b) - c.pos }

func (c *cursor) bytes(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || n > c.left() {
		c.fail("structure of %d bytes ends before %d more", len(c.b), n)
		return nil
	}
	b := c.b[c.pos : c.pos+n : c.pos+n]
	c.pos += n
	return b
}

func (c *cursor) skip(n int) { c.bytes(n) }

// uint reads a little-endian integer of n bytes, 0 to 8.
func (c *cursor) uint(n int) uint64 {
	if n < 0 || n > 8 {
		c.fail("integer of %d bytes", n)
		return 0
	}
	var v uint64
	for i, x := range c.bytes(n) {
		v |= uint64(x) << (8 * i)
	}
	return v
}

func (c *cursor) u8() int     { return int(c.uint(1)) }
func (c *cursor) u16() int    { return int(c.uint(2)) }
func (c *cursor) u32() uint64 { return c.uint(4) }

// offset reads an address in the file; one of all ones is noAddress whatever its width.
func (c *cursor) offset() uint64 { return widen(c.uint(c.f.offsetSize), c.f.offsetSize) }

// length reads a length; one of all ones (unlimited) is noAddress whatever its width.
func (c *cursor) length() uint64 { return widen(c.uint(c.f.lengthSize), c.f.lengthSize) }

func widen(v uint64, size int) uint64 {
	if size < 8 && v == 1<<(8*size)-1 {
		return noAddress
	}
	return v
}

func (c *cursor) signature(want string) {
	if got := c.bytes(len(want)); c.err == nil && string(got) != want {
		c.pos -= len(want)
		c.fail("signature %q where %q belongs", got, want)
	}
}

func (c *cursor) version(what string, want int) {
	if v := c.u8(); c.err == nil && v != want {
		c.pos--
		c.fail("%s version %d, not %d", what, v, want)
	}
}

// text reads a NUL-terminated string padded with NULs to a multiple of pad bytes.
func (c *cursor) text(pad int) string {
	if c.err != nil {
		return ""
	}
	n := bytes.IndexByte(c.b[c.pos:], 0)
	if n < 0 {
		c.fail("string without an end")
		return ""
	}
	s := string(c.b[c.pos : c.pos+n])
	c.skip((n + pad) / pad * pad)
	return s
}

// checksum compares the 4 bytes at the cursor with the lookup3 hash of all bytes before them.
func (c *cursor) checksum(what string) {
	covered := c.pos
	stored := uint32(c.u32())
	if c.err != nil || c.f.unverified {
		return
	}
	if sum := lookup3(c.b[:covered]); sum != stored {
		c.pos = covered
		c.fail("checksum of %s is %08x, its bytes give %08x", what, stored, sum)
	}
}

// block reads n bytes at addr, all of which must be in the file.
func (f *File) block(addr, n uint64) (*cursor, error) {
	if addr == noAddress {
		return nil, f.corrupt(noAddress, "undefined address where a structure of %d bytes belongs", n)
	}
	if n > MaxMetadata {
		return nil, f.corrupt(addr, "metadata block of %d bytes; the largest read is %d", n, MaxMetadata)
	}
	if err := f.inside(addr, n); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	if err := f.readAt(b, addr); err != nil {
		return nil, err
	}
	return &cursor{f: f, b: b, addr: addr}, nil
}

// prefix reads up to n bytes at addr, fewer at the end of the file.
func (f *File) prefix(addr, n uint64) (*cursor, error) {
	if room := f.room(); addr < room {
		n = min(n, room-addr)
	}
	return f.block(addr, n)
}

// room is the number of bytes from the base to the end of the file.
func (f *File) room() uint64 { return uint64(f.size) - f.base }

func (f *File) inside(addr, n uint64) error {
	if room := f.room(); addr > room || n > room-addr {
		return f.corrupt(addr, "%d bytes here reach past the end of the file (%d bytes)", n, f.size)
	}
	return nil
}

// budget counts what the structures of one walk take up in the file. In a sound file they do not overlap, so that they
// fit; a walk through damaged links, in circles or again and again, ends after work linear in the file's size.
type budget struct {
	f    *File
	used uint64
}

func (b *budget) spend(addr, n uint64, what string) error {
	if room := b.f.room(); n > room-b.used {
		return b.f.corrupt(addr, "%s together take more than the %d bytes of the file: they overlap or lead in a circle", what, room)
	}
	b.used += n
	return nil
}

// readAt fills b from addr, which the caller has checked to be inside.
func (f *File) readAt(b []byte, addr uint64) error {
	n, err := f.r.ReadAt(b, int64(addr+f.base))
	if n == len(b) {
		return nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return f.fail(addr, err)
}
