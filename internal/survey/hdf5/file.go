package hdf5

import (
	"fmt"
	"io"
	"os"
	"sync"
)

const (
	signature         = "\x89HDF\r\n\x1a\n"
	firstUserBlock    = 512 // the signature stands at 0, 512, 1024, 2048, ...
	superblockMax     = 128 // bytes that hold any superblock
	writerFlags       = 1 | 4
	maxWidth          = 8
	superblockNewest  = 3
	superblockHashed  = 2 // versions from this one have a checksum
	superblockIndexed = 1 // the version that adds the chunk B-tree's K
)

// File is an open HDF5 file. Its methods, and those of the objects and datasets it gives, may be called from several
// goroutines at once.
type File struct {
	r          io.ReaderAt
	closer     io.Closer
	name       string
	size       int64
	base       uint64 // bytes of user block before the superblock; addresses are relative to it
	offsetSize int
	lengthSize int
	root       uint64
	extension  uint64 // object header of the superblock's extension; noAddress if there is none
	unverified bool   // set by fuzz tests alone, to get past metadata checksums

	heapMu    sync.Mutex
	heaps     map[uint64]*collection
	heapOrder []uint64
	heapBytes int
	heapSeen  map[uint64]bool // collections ever read, of which heapSpent keeps count
	heapSpent budget

	typesMu    sync.Mutex
	types      map[uint64]*Type // committed types by address
	typesSpent budget

	shared  sharedMessages
	scratch sync.Pool // of *scratch, for those who decode chunks
}

// Open opens the file at path. The error wraps ErrNotHDF5, ErrCorrupt, ErrUnsupported or one of os.Open.
func Open(path string) (*File, error) {
	fd, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := fd.Stat()
	if err != nil {
		fd.Close()
		return nil, err
	}
	f, err := New(fd, st.Size(), path)
	if err != nil {
		fd.Close()
		return nil, err
	}
	f.closer = fd
	return f, nil
}

// New reads an HDF5 file of size bytes from r; name stands in error messages. Close leaves r alone.
func New(r io.ReaderAt, size int64, name string) (*File, error) {
	return newFile(&File{r: r, name: name, size: size})
}

func newFile(f *File) (*File, error) {
	f.heaps, f.heapSeen = map[uint64]*collection{}, map[uint64]bool{}
	f.heapSpent.f = f
	f.types = map[uint64]*Type{}
	f.typesSpent.f = f
	f.extension = noAddress
	f.offsetSize, f.lengthSize = maxWidth, maxWidth
	if f.size < 0 {
		return nil, f.fail(noAddress, fmt.Errorf("size of %d bytes", f.size))
	}
	at, err := f.findSuperblock()
	if err != nil {
		return nil, err
	}
	f.base = at
	if err := f.readSuperblock(); err != nil {
		return nil, err
	}
	return f, nil
}

// Close closes what Open opened.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Name is the name given to Open or New.
func (f *File) Name() string { return f.name }

// Root gives the root group.
func (f *File) Root() (*Object, error) { return f.object(f.root, "/") }

func (f *File) findSuperblock() (uint64, error) {
	var got [len(signature)]byte
	for at := int64(0); at <= f.size-int64(len(got)); at = max(firstUserBlock, 2*at) {
		if err := f.readAt(got[:], uint64(at)); err != nil {
			return 0, err
		}
		if string(got[:]) == signature {
			return uint64(at), nil
		}
	}
	return 0, f.fail(noAddress, fmt.Errorf("%w: no signature in its %d bytes", ErrNotHDF5, f.size))
}

// readSuperblock reads widths, the root's address and the length the file had when it was closed.
func (f *File) readSuperblock() error {
	c, err := f.prefix(0, superblockMax)
	if err != nil {
		return err
	}
	c.skip(len(signature))
	version := c.u8()
	if c.err == nil && version > superblockNewest {
		return f.unsupported(0, "superblock version %d; the newest read is %d", version, superblockNewest)
	}
	widths := func() {
		f.offsetSize, f.lengthSize = c.u8(), c.u8()
		if c.err == nil && !(validWidth(f.offsetSize) && validWidth(f.lengthSize)) {
			c.fail("addresses of %d and lengths of %d bytes", f.offsetSize, f.lengthSize)
			f.offsetSize, f.lengthSize = maxWidth, maxWidth
		}
	}
	var base, end uint64
	if version < superblockHashed {
		c.skip(4)
		widths()
		c.skip(1 + 2 + 2 + 4)
		if version == superblockIndexed {
			c.skip(4)
		}
		base = c.offset()
		c.offset()
		end = c.offset()
		c.offset()
		c.offset() // the root entry's name, always empty
		f.root = c.offset()
	} else {
		widths()
		flags := c.u8()
		base = c.offset()
		f.extension = c.offset()
		end = c.offset()
		f.root = c.offset()
		c.checksum("superblock")
		if c.err == nil && flags&writerFlags != 0 {
			return f.unsupported(0, "the file is marked as open for writing (its writer is at work or died); close it, or run h5clear -s")
		}
	}
	if c.err != nil {
		return c.err
	}
	if base == noAddress || end == noAddress || end < base {
		return f.corrupt(0, "base address %d, end of file %d", base, end)
	}
	// A user block put before a finished file moves everything: the superblock's own place rules, as in the library.
	if length := end - base; length > f.room() {
		return f.corrupt(0, "file is truncated: %d bytes from here are left of %d", f.room(), length)
	}
	return nil
}

func validWidth(n int) bool { return n == 2 || n == 4 || n == 8 }
