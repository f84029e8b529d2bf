package feed

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrMemory marks a batch that does not fit the memory budget.
var ErrMemory = errors.New("feed: not enough memory")

// Transport names how the bytes of a batch reach the client.
type Transport string

// The transports, best first. Auto takes the first that the system allows.
const (
	Auto       Transport = "auto"
	Memfd      Transport = "memfd"       // anonymous shared memory, sealed against execution
	MemfdPlain Transport = "memfd-plain" // the same before Linux 6.3
	ShmFile    Transport = "shm-file"    // a file without a name in /dev/shm, its blocks reserved
	Inline     Transport = "inline"      // through the socket: no shared memory to be had
)

// mfdNoexecSeal asks for memory that can never be executed (Linux 6.3).
const mfdNoexecSeal = 0x8

// hugePage is the size in bytes of a huge page on the machines we know.
const hugePage = 2 << 20

const shmDir = "/dev/shm"

// backing is a run of shared memory that can grow. Its descriptor is -1 for Inline.
type backing struct {
	kind Transport
	fd   int
	mem  []byte
}

// newBacking makes empty memory of the first kind in the list that the system allows.
func newBacking(kinds []Transport) (*backing, error) {
	var errs []error
	for _, k := range kinds {
		fd, err := -1, error(nil)
		switch k {
		case Memfd:
			fd, err = unix.MemfdCreate("astropile-slot", unix.MFD_CLOEXEC|mfdNoexecSeal|unix.MFD_ALLOW_SEALING)
		case MemfdPlain:
			fd, err = unix.MemfdCreate("astropile-slot", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		case ShmFile:
			fd, err = shmFile()
		case Inline:
		default:
			return nil, fmt.Errorf("feed: unknown transport %q; there are auto, memfd, memfd-plain, shm-file, inline", k)
		}
		if err == nil && (k == Memfd || k == MemfdPlain) {
			// The client maps this memory: it must never shrink under its feet.
			if _, serr := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); serr != nil {
				_ = unix.Close(fd)
				err = serr
			}
		}
		if err == nil {
			return &backing{kind: k, fd: fd}, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", k, err))
	}
	return nil, fmt.Errorf("feed: no shared memory: %w", errors.Join(errs...))
}

// shmFile makes a file without a name on a file system that is memory; anywhere else it could be a disk or a network.
func shmFile() (int, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(shmDir, &st); err != nil {
		return -1, err
	}
	if int64(st.Type) != unix.TMPFS_MAGIC {
		return -1, fmt.Errorf("%s is not a tmpfs", shmDir)
	}
	return unix.Open(shmDir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC|unix.O_EXCL, 0o600)
}

// grow makes the memory n bytes long, n a multiple of the page size; what it held may be lost.
func (b *backing) grow(n int) error {
	if n <= len(b.mem) {
		return nil
	}
	if b.mem != nil {
		if err := unmap(b.mem); err != nil {
			return os.NewSyscallError("munmap", err)
		}
		b.mem = nil
	}
	flags := unix.MAP_SHARED
	switch b.kind {
	case Inline:
		flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	case ShmFile:
		// ftruncate would succeed beyond the size of the file system, and a later store would be SIGBUS.
		if err := ignoringEINTR(func() error { return unix.Fallocate(b.fd, 0, 0, int64(n)) }); err != nil {
			return fmt.Errorf("%w: %s has no room for a slot of %d bytes (%v); give the container more shared memory, or a smaller batch", ErrMemory, shmDir, n, err)
		}
	default:
		if err := ignoringEINTR(func() error { return unix.Ftruncate(b.fd, int64(n)) }); err != nil {
			return os.NewSyscallError("ftruncate", err)
		}
	}
	mem, err := mapAligned(b.fd, n, flags)
	if err != nil {
		return fmt.Errorf("%w: mapping a slot of %d bytes: %v", ErrMemory, n, err)
	}
	b.mem = mem
	b.populate()
	return nil
}

// populate gives the memory its pages ahead of its first use, huge ones where the kernel has them. All of it is wishes:
// what a kernel does not know or have is left to faults.
func (b *backing) populate() {
	_ = unix.Madvise(b.mem, unix.MADV_HUGEPAGE)
	// The blocks of a file are there before they are mapped, and copying them costs more than it gives.
	if b.kind == Memfd || b.kind == MemfdPlain {
		b.collapse()
	}
	_ = unix.Madvise(b.mem, unix.MADV_POPULATE_WRITE)
}

const (
	// collapseStep is how much is put on huge pages at once, in bytes.
	collapseStep = 8 * hugePage
	// collapseTime is how much processor time a step may take before the rest gets small pages. 2 to 5 ms are usual, and
	// small pages take 10; more means that the kernel moves others' pages to make room.
	collapseTime = 25 * time.Millisecond
)

// collapse puts the memory on huge pages as far as they are to be had. Shared memory gets them by fault only where an
// administrator says so, but by this call since Linux 6.1. It wants a page to start from: one is enough, and cheaper than
// filling in all of them first.
func (b *backing) collapse() {
	runtime.LockOSThread() // the time is a thread's
	defer runtime.UnlockOSThread()
	page := os.Getpagesize()
	for step := range slices.Chunk(b.mem[:len(b.mem)/hugePage*hugePage], collapseStep) {
		start := threadTime()
		for i := 0; i < len(step); i += hugePage {
			if unix.Madvise(step[i:i+page], unix.MADV_POPULATE_WRITE) != nil {
				return
			}
		}
		if unix.Madvise(step, unix.MADV_COLLAPSE) != nil || threadTime()-start > collapseTime {
			return
		}
	}
}

func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// mapAligned maps n bytes; a whole number of huge pages starts at a multiple of one, which a kernel does not see to by itself.
func mapAligned(fd, n, flags int) ([]byte, error) {
	const access = unix.PROT_READ | unix.PROT_WRITE
	if n%hugePage != 0 {
		return mapAt(nil, fd, n, access, flags)
	}
	room, err := mapAt(nil, -1, n+hugePage, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(room))) & (hugePage - 1))
	mem, err := mapAt(unsafe.Pointer(&room[skip]), fd, n, access, flags|unix.MAP_FIXED)
	if err != nil {
		_ = unmap(room)
		return nil, err
	}
	_ = unmap(room[:skip])
	_ = unmap(room[skip+n:])
	return mem, nil
}

func mapAt(at unsafe.Pointer, fd, n, access, flags int) ([]byte, error) {
	p, err := unix.MmapPtr(fd, 0, at, uintptr(n), access, flags)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

func unmap(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
}

func (b *backing) close() {
	if b.mem != nil {
		_ = unmap(b.mem)
		b.mem = nil
	}
	if b.fd >= 0 {
		_ = unix.Close(b.fd)
		b.fd = -1
	}
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// kinds is the order in which transports are tried.
func kinds(t Transport) []Transport {
	if t == "" || t == Auto {
		return []Transport{Memfd, MemfdPlain, ShmFile, Inline}
	}
	return []Transport{t}
}
