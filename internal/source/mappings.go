package source

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"
)

// mappings keeps the pages that reads leave mapped within a bound.
type mappings struct {
	bound int64 // bytes of file and shared pages of the process, beyond base; 0: there is none
	base  int64 // such pages that were there before
	statm *os.File

	size    atomic.Int64 // of all mappings
	touched atomic.Int64 // since the process was looked at last

	mu   sync.Mutex
	list map[unsafe.Pointer]mapping
}

// leastBound is the bound below which files are not mapped: a fault may map a huge page.
const leastBound = 16 << 20

func (l *mappings) add(m mapping) {
	if m == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil {
		l.list = map[unsafe.Pointer]mapping{}
	}
	l.list[unsafe.Pointer(unsafe.SliceData(m))] = m
	l.size.Add(int64(len(m)))
}

func (l *mappings) remove(m mapping) {
	if m == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.list, unsafe.Pointer(unsafe.SliceData(m)))
	l.size.Add(-int64(len(m)))
}

// allow says whether n bytes of a file may be read through its mapping, and lets go of pages to make room. How much a read
// maps is the kernel's choice, from its own pages to all of a large folio, so the process is asked what it holds, often
// enough for it not to grow much in between.
func (l *mappings) allow(n int64) bool {
	switch {
	case l.bound == 0:
		return true
	case l.bound < leastBound || l.statm == nil:
		return false
	case l.touched.Add(n) < l.bound/256:
		return true
	}
	l.touched.Store(0)
	if held, ok := l.held(); !ok || held-l.base > l.bound-l.bound/8 {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, m := range l.list {
			m.release()
		}
		return ok
	}
	return true
}

// held is what the process holds of files and shared memory, in bytes.
func (l *mappings) held() (int64, bool) {
	var b [128]byte
	n, _ := l.statm.ReadAt(b[:], 0)
	f := bytes.Fields(b[:n])
	if len(f) < 3 {
		return 0, false
	}
	pages, err := strconv.ParseInt(string(f[2]), 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}

// BoundMapped bounds the pages of files and shared memory that the process holds, beyond those it holds now: reads leave
// pages mapped, which count as its memory where that is measured. It is called before the first read.
func (s *File) BoundMapped(bytes int64) {
	l := &s.maps
	l.bound = max(bytes, 1)
	// Without an answer files are not mapped.
	if l.statm, _ = os.Open("/proc/self/statm"); l.statm != nil {
		l.base, _ = l.held()
	}
}

func (l *mappings) close() {
	if l.statm != nil {
		_ = l.statm.Close()
	}
}
