package release

import (
	"fmt"
	"math"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"astropile/internal/catalog"
)

// spool keeps what was read until it is known where each row goes: in memory up to a budget, beyond it in a file that is
// mapped, so that the kernel may let go of it.
type spool struct {
	mu     sync.Mutex
	budget int64
	held   int64
	path   string
	file   *os.File
	end    int64
	maps   [][]byte
}

func newSpool(path string, budget int64) *spool { return &spool{path: path, budget: budget} }

// keep puts the values of a batch where they may stay.
func (s *spool) keep(b *catalog.Batch) error {
	for _, v := range b.Vectors {
		if err := s.vector(v); err != nil {
			return err
		}
	}
	return nil
}

const spoolLeast = 64 << 10 // smaller runs stay in memory: a mapping costs more than they do

func (s *spool) vector(v *catalog.Vector) error {
	for _, m := range v.Members {
		if err := s.vector(m); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(len(v.Data))
	if n < spoolLeast || s.held+n <= s.budget {
		s.held += n
		return nil
	}
	if s.file == nil {
		f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		// No name: whatever happens to this process, the disk gets its space back.
		if err := os.Remove(s.path); err != nil {
			_ = f.Close()
			return err
		}
		s.file = f
	}
	if _, err := s.file.WriteAt(v.Data, s.end); err != nil {
		return fmt.Errorf("release: spool: %w", err)
	}
	if n > math.MaxInt {
		return fmt.Errorf("release: spool: a run of %d bytes", n)
	}
	m, err := unix.Mmap(int(s.file.Fd()), s.end, int(n), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("release: map the spool: %w", err)
	}
	s.maps = append(s.maps, m)
	page := int64(os.Getpagesize())
	s.end += (n + page - 1) / page * page
	v.Data = m
	return nil
}

// close lets go of everything; vectors that were kept are stale.
func (s *spool) close() {
	for _, m := range s.maps {
		_ = unix.Munmap(m)
	}
	s.maps = nil
	if s.file != nil {
		_ = s.file.Close()
	}
}
