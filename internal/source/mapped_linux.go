package source

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Large reads of a file whose pages are in memory are copied from a mapping of it. A read call copies with stores that
// first fetch what they overwrite; batches are larger than caches, so that this costs as much again as the copy
// (docs/design/0004). What is not in memory is read as ever: a fault reads ahead less well than a call.

// errUnmapped says that a read has to be made by a call.
var errUnmapped = errors.New("source: not mapped")

// minMapped is the size from which a read is worth looking at the mapping, in bytes.
const minMapped = 12 << 10

// mapping is a read-only map of a whole file; nil where the file system is not known to map well.
type mapping []byte

// localFS are the file systems whose page cache is this machine's alone.
var localFS = [...]int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC}

func mapFile(f *os.File, size int64) mapping {
	var st unix.Statfs_t
	if size < minMapped || !tellsResidence(f) || unix.Fstatfs(int(f.Fd()), &st) != nil {
		return nil
	}
	for _, fs := range localFS {
		if int64(st.Type) == fs {
			m, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
			if err != nil {
				return nil
			}
			return m
		}
	}
	return nil
}

// tellsResidence says whether mincore answers for the file: of a file that is neither ours nor ours to write it says that
// all pages are in memory, and reading those that are not by faults is slow.
func tellsResidence(f *os.File) bool {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	user := os.Geteuid()
	return user == 0 || int(st.Uid) == user || unix.Access(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.W_OK) == nil
}

func (m mapping) close() {
	if m != nil {
		_ = unix.Munmap(m)
	}
}

// release takes the pages out of the process.
func (m mapping) release() { _ = unix.Madvise(m, unix.MADV_DONTNEED) }

// resident says whether all pages of [off, off+n) are in memory. seen is a buffer of a byte a page.
func (m mapping) resident(off, n int64, seen []byte) bool {
	page := int64(os.Getpagesize())
	lo := off &^ (page - 1)
	pages := (off + n - lo + page - 1) / page
	if pages > int64(len(seen)) {
		return false
	}
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[lo])), uintptr(off+n-lo), uintptr(unsafe.Pointer(&seen[0])))
	if errno != 0 {
		return false
	}
	for _, s := range seen[:pages] {
		if s&1 == 0 {
			return false
		}
	}
	return true
}

// readMapped fills the buffers from the mapping, or gives errUnmapped where it does not hold all of it in memory.
func (m mapping) readMapped(bufs [][]byte, off, n int64, seen []byte) error {
	if n < minMapped || off < 0 || off > int64(len(m))-n || !m.resident(off, n, seen) {
		return errUnmapped
	}
	return m.copyOut(bufs, off)
}

// copyOut fills the buffers from the mapping.
func (m mapping) copyOut(bufs [][]byte, off int64) (err error) {
	// A file that someone cuts while it is mapped faults; the process must not end for it.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			fault, ok := r.(interface {
				runtime.Error
				Addr() uintptr
			})
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("the file was cut short while it was read: %w", fault)
		}
	}()
	for _, b := range bufs {
		copyPast(b, m[off:])
		off += int64(len(b))
	}
	return nil
}
