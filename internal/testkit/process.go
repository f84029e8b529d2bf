package testkit

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// poll is how often a condition that nothing announces is looked at again.
const poll = time.Millisecond

// Moment says whether the time to kill a process has come. It is asked at every
// write of the process to stderr and about every millisecond, with all that the
// process wrote to stderr so far. It must not keep or change the bytes.
type Moment func(stderr []byte) bool

// Stderr is the moment when text stands in what the process wrote to stderr.
func Stderr(text string) Moment {
	return func(stderr []byte) bool { return bytes.Contains(stderr, []byte(text)) }
}

// File is the moment when a file matches pattern, as filepath.Glob has it.
func File(pattern string) Moment {
	return func([]byte) bool {
		found, err := filepath.Glob(pattern)
		return err == nil && len(found) > 0
	}
}

// Outcome tells how a process that KillAfter started came to its end.
type Outcome struct {
	// Killed is false when the process ended by itself before the moment came.
	Killed bool
	// Code is the exit code, -1 when a signal ended the process.
	Code           int
	Stdout, Stderr string
}

// KillAfter starts cmd, sends it SIGKILL as soon as the moment comes, and
// returns once it is gone. A process that ends before its moment is no failure:
// Outcome says so, and the caller judges. The test fails when neither happens
// within limit, or when cmd cannot be started.
//
// The process gets a group of its own. Only the process itself is killed, as a
// batch system or the kernel would; what it left running in its group is killed
// when the test ends. cmd must have neither Stdout nor Stderr set.
func KillAfter(tb testing.TB, cmd *exec.Cmd, when Moment, limit time.Duration) Outcome {
	tb.Helper()
	var stdout bytes.Buffer
	stderr := &watched{wrote: make(chan struct{}, 1)}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	// A child of the process may hold the pipes open after it is gone.
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", cmd.Path, err)
	}
	group := cmd.Process.Pid
	tb.Cleanup(func() {
		if err := syscall.Kill(-group, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			tb.Errorf("kill what %s left behind: %v", cmd.Path, err)
		}
	})

	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	finish := func(killed bool, err error) Outcome {
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
			tb.Errorf("wait for %s: %v", cmd.Path, err)
		}
		return Outcome{Killed: killed, Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.text()}
	}

	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !stderr.satisfies(when) {
		select {
		case err := <-ended:
			return finish(false, err)
		case <-stderr.wrote:
		case <-tick.C:
		case <-deadline.C:
			killErr := cmd.Process.Kill()
			<-ended
			tb.Fatalf("%s: neither its end nor the moment to kill it came within %v (%v)\nstderr:\n%s", cmd.Path, limit, killErr, stderr.text())
		}
	}
	// A process that ends between the moment and the signal was not killed.
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Errorf("kill %s: %v", cmd.Path, err)
	}
	err := <-ended
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return finish(ok && status.Signaled() && status.Signal() == syscall.SIGKILL, err)
}

// Eventually waits until holds returns true, asking about every millisecond,
// and fails the test, naming what did not come, when it has not within limit.
func Eventually(tb testing.TB, what string, limit time.Duration, holds func() bool) {
	tb.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			if holds() {
				return
			}
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// watched keeps what is written to it and announces every write.
type watched struct {
	mu    sync.Mutex
	bytes bytes.Buffer
	wrote chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.wrote <- struct{}{}:
	default:
	}
	return w.bytes.Write(p)
}

func (w *watched) satisfies(when Moment) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return when(w.bytes.Bytes())
}

func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bytes.String()
}
