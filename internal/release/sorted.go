package release

import (
	"container/heap"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sorter sorts more values than fit into memory: runs that fit are sorted and written, and read again side by side. The values have
// no pointers, and no two compare as equal.
type sorter[T any] struct {
	disk    disk
	dir     string
	name    string
	room    int // values held at once
	compare func(a, b T) int

	held []T
	runs []spoolFile
	size []int64 // values in each run
}

const (
	sortLeast  = 64      // values that are held, at least
	mergeLeast = 256     // values of a run that are read at once, at least
	readAtOnce = 1 << 16 // and at most
)

func newSorter[T any](d disk, dir, name string, memory int64, compare func(a, b T) int) *sorter[T] {
	var v T
	return &sorter[T]{disk: d, dir: dir, name: name, room: max(sortLeast, int(memory/int64(unsafe.Sizeof(v)))), compare: compare}
}

func (s *sorter[T]) add(v T) error {
	if len(s.held) == s.room {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if len(s.held) == cap(s.held) {
		s.held = slices.Grow(s.held, min(max(1024, len(s.held)), s.room-len(s.held)))
	}
	s.held = append(s.held, v)
	return nil
}

func (s *sorter[T]) spill() error {
	slices.SortFunc(s.held, s.compare)
	f, err := s.disk.Open(filepath.Join(s.dir, s.name+strconv.Itoa(len(s.runs))))
	if err != nil {
		return spoolError(err)
	}
	s.runs, s.size = append(s.runs, f), append(s.size, int64(len(s.held)))
	if _, err := f.WriteAt(bytesOf(s.held), 0); err != nil {
		return spoolError(err)
	}
	s.held = s.held[:0]
	return nil
}

// each gives the values in order; afterwards the sorter is empty.
func (s *sorter[T]) each(ctx context.Context, do func(T) error) error {
	defer s.close()
	if len(s.runs) == 0 {
		slices.SortFunc(s.held, s.compare)
		for _, v := range s.held {
			if err := do(v); err != nil {
				return err
			}
		}
		return nil
	}
	if len(s.held) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.held = nil
	at := min(max(mergeLeast, s.room/len(s.runs)), readAtOnce)
	m := merge[T]{compare: s.compare}
	for i, f := range s.runs {
		r := &run[T]{f: f, left: s.size[i], room: at}
		if err := r.next(); err != nil {
			return err
		}
		m.runs = append(m.runs, r)
	}
	heap.Init(&m)
	for n := 0; len(m.runs) > 0; n++ {
		if n%readAtOnce == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r := m.runs[0]
		if err := do(r.held[0]); err != nil {
			return err
		}
		r.held = r.held[1:]
		if err := r.next(); err != nil {
			return err
		}
		if len(r.held) == 0 {
			heap.Pop(&m)
		} else {
			heap.Fix(&m, 0)
		}
	}
	return nil
}

func (s *sorter[T]) close() {
	for i, f := range s.runs {
		_ = f.Close()
		_ = s.disk.Remove(filepath.Join(s.dir, s.name+strconv.Itoa(i)))
	}
	s.runs, s.held = nil, nil
}

// run is a sorted run that is being read.
type run[T any] struct {
	f    spoolFile
	at   int64 // bytes read
	left int64 // values not read yet
	room int
	buf  []T
	held []T
}

func (r *run[T]) next() error {
	if len(r.held) > 0 || r.left == 0 {
		return nil
	}
	if r.buf == nil {
		r.buf = make([]T, r.room)
	}
	r.held = r.buf[:min(int64(r.room), r.left)]
	b := bytesOf(r.held)
	if err := readWhole(r.f, b, r.at); err != nil {
		return err
	}
	r.at += int64(len(b))
	r.left -= int64(len(r.held))
	return nil
}

type merge[T any] struct {
	runs    []*run[T]
	compare func(a, b T) int
}

func (m *merge[T]) Len() int           { return len(m.runs) }
func (m *merge[T]) Less(a, b int) bool { return m.compare(m.runs[a].held[0], m.runs[b].held[0]) < 0 }
func (m *merge[T]) Swap(a, b int)      { m.runs[a], m.runs[b] = m.runs[b], m.runs[a] }
func (m *merge[T]) Push(any)           {}
func (m *merge[T]) Pop() any {
	r := m.runs[len(m.runs)-1]
	m.runs = m.runs[:len(m.runs)-1]
	return r
}

// table is a list of values without pointers: in memory while there is room, beyond it in a file that is mapped when it is whole,
// so that the kernel may let go of its pages.
type table[T any] struct {
	disk disk
	path string
	room int
	held []T
	f    spoolFile
	end  int64
	m    []byte
}

func newTable[T any](d disk, path string, memory int64) *table[T] {
	var v T
	return &table[T]{disk: d, path: path, room: max(sortLeast, int(memory/int64(unsafe.Sizeof(v))))}
}

func (t *table[T]) add(v T) error {
	if len(t.held) == t.room {
		if err := t.flush(); err != nil {
			return err
		}
	}
	if len(t.held) == cap(t.held) {
		t.held = slices.Grow(t.held, min(max(1024, len(t.held)), t.room-len(t.held)))
	}
	t.held = append(t.held, v)
	return nil
}

func (t *table[T]) flush() error {
	if t.f == nil {
		f, err := t.disk.Open(t.path)
		if err != nil {
			return spoolError(err)
		}
		t.f = f
		t.room = min(t.room, readAtOnce)
	}
	b := bytesOf(t.held)
	if _, err := t.f.WriteAt(b, t.end); err != nil {
		return spoolError(err)
	}
	t.end += int64(len(b))
	t.held = t.held[:0]
	return nil
}

// whole gives all values; nothing is added any more.
func (t *table[T]) whole() ([]T, error) {
	if t.f == nil {
		return t.held, nil
	}
	if err := t.flush(); err != nil {
		return nil, err
	}
	t.held = nil
	f, err := os.Open(t.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if t.m, err = unix.Mmap(int(f.Fd()), 0, int(t.end), unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("release: map %s: %w", t.path, err)
	}
	var v T
	return unsafe.Slice((*T)(unsafe.Pointer(&t.m[0])), t.end/int64(unsafe.Sizeof(v))), nil
}

// close lets go of everything; what whole gave is stale.
func (t *table[T]) close() {
	if t.m != nil {
		_ = unix.Munmap(t.m)
		t.m = nil
	}
	if t.f != nil {
		_ = t.f.Close()
		_ = t.disk.Remove(t.path)
		t.f = nil
	}
	t.held = nil
}
