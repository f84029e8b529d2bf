package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// watch returns nil when the process has ended, and an error when ctx has ended before. A socket does not tell: its
// other end may live on in a forked child.
func watch(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.EINVAL) {
		// Before Linux 5.10 there is no flag; the runtime sets it.
		if fd, err = unix.PidfdOpen(pid, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case err != nil:
		return poll(ctx, pid, "/proc", 200*time.Millisecond)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { _ = f.Close() })
	defer stop()
	raw, err := f.SyscallConn()
	if err != nil {
		return poll(ctx, pid, "/proc", 200*time.Millisecond)
	}
	err = raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		return err == nil && n == 1
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return poll(ctx, pid, "/proc", 200*time.Millisecond)
	}
	return nil
}

// poll is watch for kernels without pidfd_open (before Linux 5.3): a process is told from a later one with its number
// by the time it started.
func poll(ctx context.Context, pid int, proc string, every time.Duration) error {
	first, err := startTime(proc, pid)
	if err != nil {
		return nil
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if t, err := startTime(proc, pid); err != nil || !bytes.Equal(t, first) {
			return nil
		}
	}
}

// startTime is field 22 of a process's stat: clock ticks after boot. A zombie counts as ended.
func startTime(proc string, pid int) ([]byte, error) {
	b, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", proc, pid))
	if err != nil {
		return nil, err
	}
	// The command, in parentheses, may hold anything.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 || f[0][0] == 'Z' || f[0][0] == 'X' {
		return nil, os.ErrProcessDone
	}
	return f[19], nil
}
