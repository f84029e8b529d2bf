package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"astropile/internal/order"
	"astropile/internal/query"
	"astropile/internal/shard"
)

// ErrClientGone says that the client process has ended while its socket was still open in another process.
var ErrClientGone = errors.New("feed: the client process has ended")

// Options are what a feed is started with.
type Options struct {
	Open      Opener    // nil is OpenLocal
	Resources Resources // defaults for what the client leaves open
	// Own says that the process is nothing but a feed: Serve may then set how its threads are scheduled.
	Own   bool
	Cache string        // folder in which a host keeps what selections found; empty keeps nothing
	Grace time.Duration // how long Serve waits for work under way after the client has gone; 0 is half a second
}

// openRequest is the first message of a client.
type openRequest struct {
	Version   int       `json:"version"`
	Sources   []Source  `json:"sources"`
	Mix       *Mix      `json:"mix"`
	Match     *Match    `json:"match"`
	Threads   int       `json:"threads"` // 0 is the default
	Memory    int64     `json:"memory"`  // bytes; 0 is the default
	Slots     int       `json:"slots"`   // of a stream; 0 lets the feed choose
	Transport Transport `json:"transport"`
}

// The slots of a stream: one that the caller still holds, one it is given, one ready and one being filled. More large
// ones do not run faster, and leave the last-level cache; of small ones there are more, so that reading goes on while a
// batch changes hands, as long as all of them fit cachedBytes.
const (
	fewSlots    = 4
	manySlots   = 16
	cachedBytes = 32 << 20
)

// minMemory is the least budget of a feed, in bytes.
const minMemory = 48 << 20

// runtimeMemory is what the Go runtime may take beside decoded columns before it collects harder, in bytes.
const runtimeMemory = 12 << 20

// Serve works for the client at the other end of the control connection until it leaves, dies, or ctx ends. A client
// that leaves in order gives nil. Serve owns conn.
func Serve(ctx context.Context, conn *net.UnixConn, opt Options) error {
	if opt.Open == nil {
		opt.Open = OpenLocal
	}
	if opt.Grace == 0 {
		opt.Grace = 500 * time.Millisecond
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()

	var work sync.WaitGroup
	pid, err := peer(conn)
	if err != nil {
		return err
	}
	work.Add(1)
	go func() {
		defer work.Done()
		if watch(ctx, pid) == nil {
			cancel(ErrClientGone)
		}
	}()
	err = control(ctx, &link{conn: conn}, opt, &work)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	rested := make(chan struct{})
	go func() {
		work.Wait()
		close(rested)
	}()
	grace := time.NewTimer(opt.Grace)
	defer grace.Stop()
	select {
	case <-rested:
	case <-grace.C: // a read that hangs on a network file system must not keep the process
	}
	return err
}

// control serves the control connection: one dataset, any number of sessions.
func control(ctx context.Context, l *link, opt Options, work *sync.WaitGroup) error {
	m, err := l.receive()
	if errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	var q openRequest
	if m.Type != msgOpen {
		closeAll(m.FDs)
		return fmt.Errorf("%w: the first message is of type %d", ErrProtocol, m.Type)
	}
	if err := m.decode(&q); err != nil {
		return err
	}
	slotMemory := &budget{}
	engine, err := open(ctx, l, &q, opt, slotMemory)
	if err != nil {
		js, jerr := json.Marshal(wireError{Kind: errorKind(err), Text: err.Error()})
		if jerr != nil {
			return jerr
		}
		return l.send(header{Type: msgError}, js, nil, nil, -1)
	}
	var sessions sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	work.Add(1)
	defer func() {
		cancel()
		go func() {
			defer work.Done()
			sessions.Wait()
			_ = engine.Close()
		}()
	}()
	for {
		m, err := l.receive()
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return nil
		} else if err != nil {
			return err
		}
		if m.Type != msgAttach || len(m.FDs) != 2 {
			closeAll(m.FDs)
			return fmt.Errorf("%w: type %d with %d descriptors on the control connection", ErrProtocol, m.Type, len(m.FDs))
		}
		conn, err := connFrom(m.FDs[0])
		if err != nil {
			closeAll(m.FDs[1:])
			return err
		}
		credits, err := connFrom(m.FDs[1])
		if err != nil {
			_ = conn.Close()
			return err
		}
		s := &session{link: link{conn: conn}, credits: credits, engine: engine, kind: q.Transport, budget: slotMemory, slots: q.Slots}
		sessions.Add(1)
		go func() {
			defer sessions.Done()
			// A session that breaks the protocol loses its connection, which its client sees; the others go on.
			_ = s.serve(ctx)
		}()
	}
}

// open opens the dataset, and sets the bytes that the slots of all its sessions may take.
func open(ctx context.Context, l *link, q *openRequest, opt Options, slots *budget) (Engine, error) {
	if q.Version != Version {
		return nil, fmt.Errorf("%w: the client speaks protocol %d, this program %d; install the astropile package and binary of one version", ErrProtocol, q.Version, Version)
	}
	if q.Threads < 0 || q.Memory < 0 || q.Slots != 0 && (q.Slots < 2 || q.Slots > maxSlots) {
		return nil, fmt.Errorf("%w: threads %d, memory %d, slots %d; give positive numbers, and 2 to %d slots", ErrProtocol, q.Threads, q.Memory, q.Slots, maxSlots)
	}
	threads, memory := q.Threads, q.Memory
	if threads == 0 {
		threads = max(1, opt.Resources.Threads)
	}
	most := int64(0)
	if memory == 0 {
		memory, most = max(minMemory, opt.Resources.Memory), opt.Resources.Most
	}
	if memory < minMemory {
		return nil, fmt.Errorf("%w: memory=%d; at least %d bytes are needed", ErrMemory, memory, minMemory)
	}
	if opt.Own {
		schedule(threads)
	}
	engine, err := opt.Open(ctx, Request{Sources: q.Sources, Mix: q.Mix, Match: q.Match, Threads: threads, Memory: memory, Most: most, Cache: opt.Cache})
	if err != nil {
		return nil, err
	}
	m := engine.Memory()
	slots.max = m.Slots
	if opt.Own {
		debug.SetMemoryLimit(m.Decoded + runtimeMemory)
	}
	d := engine.Describe()
	d.Version, d.Threads, d.Memory = Version, threads, m.All
	js, err := json.Marshal(d)
	if err == nil {
		err = l.send(header{Type: msgOpened}, js, nil, nil, -1)
	}
	if err != nil {
		_ = engine.Close()
		return nil, err
	}
	return engine, nil
}

// peer is the process that made the socket.
func peer(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if cerr != nil {
		return 0, fmt.Errorf("feed: who is the client: %w", cerr)
	}
	return int(cred.Pid), nil
}

// errorKind sorts an error for the client, which makes exceptions of it.
func errorKind(err error) string {
	switch {
	case errors.Is(err, shard.ErrNotMapped):
		return "unmapped"
	case errors.Is(err, ErrMemory):
		return "memory"
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	case errors.Is(err, ErrProtocol):
		return "protocol"
	case errors.Is(err, order.ErrState), errors.Is(err, order.ErrStateDiffers):
		return "state"
	case errors.Is(err, query.ErrQuery), errors.Is(err, order.ErrMix):
		return "query"
	case errors.Is(err, query.ErrMissing):
		return "ids"
	}
	return "data"
}
