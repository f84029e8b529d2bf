package feed

import (
	"errors"
	"fmt"
	"os"

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
		if err := unix.Munmap(b.mem); err != nil {
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
	mem, err := unix.Mmap(b.fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return fmt.Errorf("%w: mapping a slot of %d bytes: %v", ErrMemory, n, err)
	}
	b.mem = mem
	// Both are wishes: kernels that do not know them fault the pages in one by one.
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	_ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
	return nil
}

func (b *backing) close() {
	if b.mem != nil {
		_ = unix.Munmap(b.mem)
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
