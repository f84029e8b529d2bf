package source

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"astropile/internal/catalog"
)

// ErrClosed marks the use of a handle or a source after its Close.
var ErrClosed = errors.New("source: closed")

// File reads a dataset's folder on a local or network file system. It keeps few files open at once and opens them
// again when they are needed; a file that was replaced meanwhile is refused (shards are immutable).
type File struct {
	root  *os.Root
	limit int
	iov   sync.Pool // of *iovecs

	mu   sync.Mutex
	open map[string]*openFile
	idle list.List // of *openFile with no user, least recently used first

	maps mappings
}

// openFile is one open descriptor and those who use it at this moment.
type openFile struct {
	path  string
	f     *os.File
	fd    int
	info  fs.FileInfo
	once  sync.Once
	maps  mapping // made with the first large read
	users int
	elem  *list.Element // in idle, or nil
	gone  bool          // no longer in the table: close after the last user
}

// maxOpen bounds the descriptors one source keeps, whatever the process may open.
const maxOpen = 4096

// NewFile reads the files below root.
func NewFile(root string) (*File, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	limit := 256
	var rl syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &rl) == nil {
		limit = int(min(rl.Cur/2, maxOpen))
	}
	return newFile(r, max(limit, 8)), nil
}

func newFile(root *os.Root, limit int) *File {
	return &File{root: root, limit: limit, open: map[string]*openFile{}, iov: sync.Pool{New: func() any { return new(iovecs) }}}
}

// Close closes all files. Handles still held give ErrClosed or finish what they are at.
func (s *File) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, of := range s.open {
		delete(s.open, p)
		of.gone = true
		if of.users == 0 {
			s.closeFile(of)
		}
	}
	s.idle.Init()
	s.limit = 0
	s.maps.close()
	return s.root.Close()
}

// acquire gives the open file at path, opening it if need be.
func (s *File) acquire(path string) (*openFile, error) {
	s.mu.Lock()
	if s.limit == 0 {
		s.mu.Unlock()
		return nil, fmt.Errorf("%w: %s", ErrClosed, path)
	}
	if of := s.open[path]; of != nil {
		s.use(of)
		s.mu.Unlock()
		return of, nil
	}
	s.mu.Unlock()

	f, err := s.root.Open(path)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("source: %w", err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit == 0 {
		_ = f.Close()
		return nil, fmt.Errorf("%w: %s", ErrClosed, path)
	}
	if of := s.open[path]; of != nil {
		_ = f.Close()
		s.use(of)
		return of, nil
	}
	of := &openFile{path: path, f: f, fd: int(f.Fd()), info: info, users: 1}
	s.open[path] = of
	for len(s.open) > s.limit && s.idle.Len() > 0 {
		old := s.idle.Remove(s.idle.Front()).(*openFile)
		delete(s.open, old.path)
		s.closeFile(old)
	}
	return of, nil
}

// mapped is the file's mapping, made when it is first asked for by one who uses the file.
func (s *File) mapped(of *openFile) mapping {
	of.once.Do(func() {
		of.maps = mapFile(of.f, of.info.Size())
		s.maps.add(of.maps)
	})
	return of.maps
}

// closeFile ends a file that nobody uses.
func (s *File) closeFile(of *openFile) {
	s.maps.remove(of.maps)
	of.maps.close()
	_ = of.f.Close()
}

func (s *File) use(of *openFile) {
	of.users++
	if of.elem != nil {
		s.idle.Remove(of.elem)
		of.elem = nil
	}
}

func (s *File) release(of *openFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.users--
	if of.users > 0 {
		return
	}
	if of.gone {
		s.closeFile(of)
		return
	}
	if len(s.open) > s.limit {
		delete(s.open, of.path)
		s.closeFile(of)
		return
	}
	of.elem = s.idle.PushBack(of)
}

// Open opens the file at a slash path relative to the root.
func (s *File) Open(ctx context.Context, path string) (Handle, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !catalog.CleanPath(path) {
		return nil, fmt.Errorf("%w: %q", ErrPath, path)
	}
	of, err := s.acquire(path)
	if err != nil {
		return nil, err
	}
	defer s.release(of)
	return &fileHandle{s: s, path: path, info: of.info}, nil
}

// ReadFile reads a whole file of at most limit bytes.
func (s *File) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	h, err := s.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = h.Close() }()
	if h.Size() > limit {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are read", ErrTooLarge, path, h.Size(), limit)
	}
	b := make([]byte, h.Size())
	if _, err := h.ReadAt(b, 0); err != nil && (err != io.EOF || len(b) > 0) {
		return nil, err
	}
	return b, nil
}

// fileHandle is a claim on a file; the descriptor behind it comes and goes.
type fileHandle struct {
	s      *File
	path   string
	info   fs.FileInfo
	mu     sync.RWMutex
	closed bool
}

func (h *fileHandle) Size() int64 { return h.info.Size() }

func (h *fileHandle) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	return nil
}

// file gives the descriptor for one read; the caller releases it.
func (h *fileHandle) file() (*openFile, error) {
	h.mu.RLock()
	closed := h.closed
	h.mu.RUnlock()
	if closed {
		return nil, fmt.Errorf("%w: %s", ErrClosed, h.path)
	}
	of, err := h.s.acquire(h.path)
	if err != nil {
		return nil, err
	}
	if of.info != h.info && (!os.SameFile(of.info, h.info) || of.info.Size() != h.info.Size()) {
		h.s.release(of)
		return nil, fmt.Errorf("source: %s was replaced while it was being read; open the dataset again", h.path)
	}
	return of, nil
}

// ReadAt reads as io.ReaderAt does.
func (h *fileHandle) ReadAt(p []byte, off int64) (int, error) {
	of, err := h.file()
	if err != nil {
		return 0, err
	}
	defer h.s.release(of)
	done := 0
	for done < len(p) {
		n, err := pread(of.fd, p[done:], off+int64(done))
		if err != nil {
			return done, fmt.Errorf("source: read %s at byte %d: %w", h.path, off+int64(done), err)
		}
		if n == 0 {
			return done, io.EOF
		}
		done += n
	}
	return done, nil
}

// ReadVectorAt fills the buffers one after another from off on, with one system call where the system allows. It
// fills all of them or gives an error.
func (h *fileHandle) ReadVectorAt(bufs [][]byte, off int64) (int, error) {
	of, err := h.file()
	if err != nil {
		return 0, err
	}
	defer h.s.release(of)
	want := 0
	for _, b := range bufs {
		want += len(b)
	}
	a := h.s.iov.Get().(*iovecs)
	if m := h.s.mapped(of); m != nil && h.s.maps.allow(int64(want)) {
		if err := m.readMapped(bufs, off, int64(want), a.seen[:]); !errors.Is(err, errUnmapped) {
			h.s.iov.Put(a)
			if err != nil {
				return 0, fmt.Errorf("source: read %s at byte %d: %w", h.path, off, err)
			}
			return want, nil
		}
	}
	n, err := preadv(a, of.fd, bufs, off)
	h.s.iov.Put(a)
	if err != nil {
		return 0, fmt.Errorf("source: read %s at byte %d: %w", h.path, off, err)
	}
	for n < want { // a short read: take the rest buffer by buffer
		skip, at := n, off+int64(n)
		for _, b := range bufs {
			if skip >= len(b) {
				skip -= len(b)
				continue
			}
			k, err := h.ReadAt(b[skip:], at)
			n += k
			if err != nil {
				return n, err
			}
			break
		}
	}
	return n, nil
}
