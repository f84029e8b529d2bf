package source

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxVectors is the number of buffers Linux takes in one call.
const maxVectors = 1024

func pread(fd int, p []byte, off int64) (int, error) {
	for {
		n, err := unix.Pread(fd, p, off)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// iovecs are the arguments of one call, kept between calls so that a call takes no memory.
type iovecs struct {
	v    [maxVectors]unix.Iovec
	seen [4096]byte // of mapping.resident: reads of up to 16 MiB
}

// preadv reads into the buffers in order and may stop early, as pread does.
func preadv(a *iovecs, fd int, bufs [][]byte, off int64) (int, error) {
	n := 0
	for _, b := range bufs {
		if n == maxVectors {
			break
		}
		if len(b) == 0 {
			continue
		}
		a.v[n].Base = unsafe.SliceData(b)
		a.v[n].SetLen(len(b))
		n++
	}
	defer clear(a.v[:n])
	if n == 0 {
		return 0, nil
	}
	for {
		got, _, errno := unix.Syscall6(unix.SYS_PREADV, uintptr(fd), uintptr(unsafe.Pointer(&a.v[0])), uintptr(n), uintptr(off), uintptr(off>>32), 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, errno
		}
		return int(got), nil
	}
}
