package feed_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"astropile/internal/feed"
	"astropile/internal/feed/feedtest"
	"astropile/internal/stream"
)

// pair is two connected unix sockets.
func pair(t testing.TB) (*net.UnixConn, *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		out[i] = c.(*net.UnixConn)
		t.Cleanup(func() { _ = c.Close() })
	}
	return out[0], out[1]
}

// client speaks the protocol as python/astropile does, written from protocol.go's comments.
type client struct {
	t       testing.TB
	control *net.UnixConn
	served  chan error
}

type head struct {
	body, layout, seq, flags, js      uint32
	kind, fds                         uint8
	slot                              uint16
	rows, used, size, epoch, position uint64
}

func message(kind byte, seq uint32, js any, plain []byte) []byte {
	var text []byte
	if js != nil {
		text, _ = json.Marshal(js)
	}
	b := make([]byte, 64)
	binary.LittleEndian.PutUint32(b[0:], uint32(len(text)+len(plain)))
	b[4] = kind
	binary.LittleEndian.PutUint32(b[8:], seq)
	binary.LittleEndian.PutUint32(b[60:], uint32(len(text)))
	return append(append(b, text...), plain...)
}

func receive(t testing.TB, c *net.UnixConn) (head, []byte, int) {
	t.Helper()
	b, oob := make([]byte, 64), make([]byte, unix.CmsgSpace(16))
	n, on, _, _, err := c.ReadMsgUnix(b, oob)
	if err != nil || n == 0 {
		t.Fatalf("receive: %v, %d bytes", err, n)
	}
	if _, err := io.ReadFull(c, b[n:]); err != nil {
		t.Fatal(err)
	}
	fd := -1
	if on > 0 {
		msgs, _ := unix.ParseSocketControlMessage(oob[:on])
		fds, _ := unix.ParseUnixRights(&msgs[0])
		fd = fds[0]
	}
	le := binary.LittleEndian
	h := head{body: le.Uint32(b), kind: b[4], fds: b[5], slot: le.Uint16(b[6:]), seq: le.Uint32(b[8:]), layout: le.Uint32(b[12:]), rows: le.Uint64(b[16:]), used: le.Uint64(b[24:]),
		size: le.Uint64(b[32:]), epoch: le.Uint64(b[40:]), position: le.Uint64(b[48:]), flags: le.Uint32(b[56:]), js: le.Uint32(b[60:])}
	body := make([]byte, h.body)
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatal(err)
	}
	return h, body, fd
}

// start serves a made-up dataset and opens it.
func start(t testing.TB, cfg feedtest.Config, more map[string]any) *client {
	t.Helper()
	ours, theirs := pair(t)
	c := &client{t: t, control: ours, served: make(chan error, 1)}
	go func() {
		c.served <- feed.Serve(context.Background(), theirs, feed.Options{Open: feedtest.Open(func() {}), Resources: feed.Resources{Threads: 1, Memory: 64 << 20}})
	}()
	root, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	source := map[string]any{"root": string(root)}
	ask := map[string]any{"version": feed.Version, "sources": []any{source}}
	for k, v := range more {
		if names, ok := v.([]string); ok {
			var cols []stream.Select
			for _, n := range names {
				cols = append(cols, stream.Select{As: n, Name: n})
			}
			source[k] = cols
		} else {
			ask[k] = v
		}
	}
	c.write(ours, message(1, 0, ask, nil))
	return c
}

func (c *client) write(conn *net.UnixConn, b []byte) {
	c.t.Helper()
	if _, err := conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) opened() {
	c.t.Helper()
	if h, body, _ := receive(c.t, c.control); h.kind != 65 {
		c.t.Fatalf("not opened: %d %s", h.kind, body)
	}
}

// attach makes a session.
func (c *client) attach() (session, credits *net.UnixConn) {
	c.t.Helper()
	session, a := pair(c.t)
	credits, b := pair(c.t)
	fa, _ := a.File()
	fb, _ := b.File()
	m := message(2, 0, nil, nil)
	m[5] = 2
	if _, _, err := c.control.WriteMsgUnix(m, unix.UnixRights(int(fa.Fd()), int(fb.Fd())), nil); err != nil {
		c.t.Fatal(err)
	}
	for _, x := range []io.Closer{fa, fb, a, b} {
		_ = x.Close()
	}
	return session, credits
}

// ended waits for Serve to return.
func (c *client) ended() error {
	c.t.Helper()
	select {
	case err := <-c.served:
		return err
	case <-time.After(5 * time.Second):
		c.t.Fatal("the feed goes on")
		return nil
	}
}

func fds(t testing.TB) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

func TestBatchesComeInOrderThroughEveryTransport(t *testing.T) {
	for _, kind := range []feed.Transport{feed.Auto, feed.Memfd, feed.MemfdPlain, feed.ShmFile, feed.Inline} {
		t.Run(string(kind), func(t *testing.T) {
			before := fds(t)
			c := start(t, feedtest.Config{Rows: 100, Side: 4}, map[string]any{"transport": kind})
			c.opened()
			s, credits := c.attach()
			c.write(s, message(3, 7, map[string]any{"batch": 30, "shuffle": "off", "epochs": 2}, nil))
			slots := map[uint16][]byte{}
			layouts := 0
			var lay stream.Layout
			for i := 0; ; i++ {
				h, body, fd := receive(t, s)
				if h.seq != 7 {
					t.Fatalf("answer to %d", h.seq)
				}
				if h.kind == 67 {
					if i != 8 {
						t.Fatalf("%d batches, want 8", i)
					}
					break
				}
				if h.kind != 66 || h.flags>>16 != 16 {
					t.Fatalf("message %d, flags %x: %s", h.kind, h.flags, body)
				}
				if len(body) > 0 {
					layouts++
					if err := json.Unmarshal(body, &lay); err != nil {
						t.Fatal(err)
					}
				}
				var mem []byte
				if h.flags&2 != 0 {
					mem = make([]byte, h.used)
					if _, err := io.ReadFull(s, mem); err != nil {
						t.Fatal(err)
					}
				} else {
					if fd >= 0 {
						m, err := unix.Mmap(fd, 0, int(h.size), unix.PROT_READ, unix.MAP_SHARED)
						if err != nil {
							t.Fatal(err)
						}
						slots[h.slot] = m
						_ = unix.Close(fd)
					}
					mem = slots[h.slot]
				}
				at := uint64(i%4)*30 + h.rows
				if h.position != min(at, 100) || h.epoch != uint64(i/4) || (h.flags&1 != 0) != (i%4 == 3) {
					t.Fatalf("batch %d: epoch %d position %d flags %x", i, h.epoch, h.position, h.flags)
				}
				for _, col := range lay.Columns {
					if col.Name != "row" {
						continue
					}
					for r := range h.rows {
						if got := binary.LittleEndian.Uint64(mem[uint64(col.Values.Off)+8*r:]); got != uint64(i%4)*30+r {
							t.Fatalf("batch %d row %d: %d", i, r, got)
						}
					}
				}
				if h.flags&2 == 0 {
					c.write(credits, []byte{byte(h.slot)})
				}
			}
			if layouts != 8 {
				t.Errorf("%d layouts: ragged columns make each batch's own", layouts)
			}
			for _, m := range slots {
				_ = unix.Munmap(m)
			}
			_ = c.control.Close()
			if err := c.ended(); err != nil {
				t.Errorf("a client that leaves in order: %v", err)
			}
			_, _ = s.Close(), credits.Close()
			if after := fds(t); after != before {
				t.Errorf("%d descriptors, %d before", after, before)
			}
		})
	}
}

func TestALayoutThatDoesNotChangeIsSentOnce(t *testing.T) {
	c := start(t, feedtest.Config{Rows: 120, Side: 4}, map[string]any{"columns": []string{"row", "image"}})
	c.opened()
	s, credits := c.attach()
	c.write(s, message(3, 1, map[string]any{"batch": 30, "shuffle": "rows", "epochs": 1}, nil))
	for i := range 4 {
		h, body, fd := receive(t, s)
		if (len(body) > 0) != (i == 0) || h.layout != 1 {
			t.Fatalf("batch %d: layout %d in %d bytes", i, h.layout, len(body))
		}
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		c.write(credits, []byte{byte(h.slot)})
	}
}

func TestTheFeedWorksAheadOnlyAsFarAsItsSlotsGo(t *testing.T) {
	c := start(t, feedtest.Config{Rows: 1000, Side: 4}, map[string]any{"slots": 3})
	c.opened()
	s, credits := c.attach()
	c.write(s, message(3, 1, map[string]any{"batch": 10, "shuffle": "off", "epochs": 1}, nil))
	seen := map[uint16]bool{}
	for range 3 {
		h, _, fd := receive(t, s)
		seen[h.slot] = true
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	if len(seen) != 3 {
		t.Fatalf("slots %v: one was lent twice", seen)
	}
	_ = s.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a fourth batch in three lent slots: %v", err)
	}
	_ = s.SetReadDeadline(time.Time{})
	// A retired slot is replaced: the same number comes with a new descriptor.
	c.write(credits, []byte{1 | 0x80})
	h, _, fd := receive(t, s)
	if h.slot != 1 || fd < 0 || h.position != 40 {
		t.Fatalf("slot %d, descriptor %d, position %d", h.slot, fd, h.position)
	}
	_ = unix.Close(fd)
}

func TestANewRequestEndsTheStreamBeforeIt(t *testing.T) {
	c := start(t, feedtest.Config{Rows: 1000, Side: 4}, nil)
	c.opened()
	s, credits := c.attach()
	for seq := uint32(1); seq <= 20; seq++ {
		c.write(s, message(3, seq, map[string]any{"batch": 100, "shuffle": "off"}, nil)) // endless
		for {
			h, _, fd := receive(t, s)
			if fd >= 0 {
				_ = unix.Close(fd)
			}
			c.write(credits, []byte{byte(h.slot)})
			if h.seq == seq {
				break
			}
		}
	}
	rows := binary.LittleEndian.AppendUint64(nil, 5)
	c.write(s, message(4, 99, nil, rows))
	for {
		h, _, fd := receive(t, s)
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		if h.seq == 99 {
			if h.rows != 1 {
				t.Fatalf("%d rows", h.rows)
			}
			return
		}
		c.write(credits, []byte{byte(h.slot)})
	}
}

func TestWhatAClientMayNotAskEndsItsSessionOnly(t *testing.T) {
	bad := map[string][]byte{
		"unknown type":        message(42, 1, nil, nil),
		"odd row list":        message(4, 1, nil, []byte{1, 2, 3}),
		"stream without JSON": message(3, 1, nil, []byte("nonsense")),
		"unknown shuffle":     message(3, 1, map[string]any{"batch": 1, "shuffle": "maybe"}, nil),
		"huge body":           func() []byte { b := message(4, 1, nil, nil); binary.LittleEndian.PutUint32(b, 1<<31); return b }(),
		"JSON beyond body":    func() []byte { b := message(3, 1, nil, nil); binary.LittleEndian.PutUint32(b[60:], 9); return b }(),
		"open on a session":   message(1, 1, map[string]any{"version": 1}, nil),
	}
	c := start(t, feedtest.Config{Rows: 10, Side: 2}, nil)
	c.opened()
	for name, m := range bad {
		s, _ := c.attach()
		c.write(s, m)
		_ = s.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := s.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the session goes on: %d bytes, %v", name, n, err)
		}
	}
	s, credits := c.attach()
	c.write(credits, []byte{3}) // nothing is lent yet
	c.write(s, message(4, 1, nil, make([]byte, 8)))
	_ = s.SetReadDeadline(time.Now().Add(5 * time.Second))
	for {
		if _, err := s.Read(make([]byte, 4096)); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("a credit for a slot that is not lent was taken")
			}
			break
		}
	}
	// The others go on.
	s, _ = c.attach()
	c.write(s, message(6, 5, nil, nil))
	if h, body, _ := receive(t, s); h.kind != 70 || len(body) != 8 {
		t.Fatalf("message %d, %d bytes", h.kind, len(body))
	}
}

func TestWhatCannotBeOpenedIsSaid(t *testing.T) {
	for name, c := range map[string]struct {
		more map[string]any
		kind string
	}{
		"version": {map[string]any{"version": 99}, "protocol"},
		"memory":  {map[string]any{"memory": 1 << 10}, "memory"},
		"slots":   {map[string]any{"slots": 1}, "protocol"},
		"root":    {map[string]any{"sources": []any{map[string]any{"root": "/nothing/here"}}}, "data"},
		"column":  {map[string]any{"columns": []string{"nothing"}}, "data"},
	} {
		x := start(t, feedtest.Config{Rows: 1}, c.more)
		h, body, _ := receive(t, x.control)
		var e struct{ Kind, Text string }
		if err := json.Unmarshal(body, &e); err != nil || h.kind != 68 || e.Kind != c.kind || e.Text == "" {
			t.Errorf("%s: message %d %s, want kind %s", name, h.kind, body, c.kind)
		}
		if err := x.ended(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMissingFoldersAreToldApart(t *testing.T) {
	ours, theirs := pair(t)
	done := make(chan error, 1)
	go func() { done <- feed.Serve(context.Background(), theirs, feed.Options{}) }()
	if _, err := ours.Write(message(1, 0, map[string]any{"version": feed.Version, "sources": []any{map[string]any{"root": t.TempDir() + "/nothing"}}}, nil)); err != nil {
		t.Fatal(err)
	}
	_, body, _ := receive(t, ours)
	var e struct{ Kind, Text string }
	if err := json.Unmarshal(body, &e); err != nil || e.Kind != "missing" {
		t.Fatalf("%s", body)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestServeEndsWithItsContextAndWithHangingReads(t *testing.T) {
	ours, theirs := pair(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- feed.Serve(ctx, theirs, feed.Options{Open: feedtest.Open(func() {}), Resources: feed.Resources{Threads: 1, Memory: 64 << 20}})
	}()
	c := &client{t: t, control: ours, served: done}
	c.write(ours, message(1, 0, map[string]any{"version": feed.Version, "sources": []any{map[string]any{"root": `{"rows": 5, "hang": true}`}}}, nil))
	c.opened()
	s, _ := c.attach()
	c.write(s, message(4, 1, nil, make([]byte, 8)))
	cancel()
	if err := c.ended(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestTheSumOfSlotsStaysWithinMemory(t *testing.T) {
	c := start(t, feedtest.Config{Rows: 100_000, Side: 32}, map[string]any{"memory": 48 << 20, "columns": []string{"image"}})
	c.opened()
	s, _ := c.attach()
	for batch, want := range map[int]string{4000: "two batches", 1 << 40: "batch of"} {
		c.write(s, message(3, 1, map[string]any{"batch": batch, "shuffle": "off"}, nil))
		h, body, _ := receive(t, s)
		var e struct{ Kind, Text string }
		if err := json.Unmarshal(body, &e); err != nil || h.kind != 68 || e.Kind != "memory" {
			t.Fatalf("%d: %s (want %s)", h.kind, body, want)
		}
	}
	c.write(s, message(4, 2, nil, make([]byte, 8*5000)))
	if h, body, _ := receive(t, s); h.kind != 68 {
		t.Fatalf("%d: %s", h.kind, body)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(message(3, 1, map[string]any{"batch": 3, "shuffle": "off", "epochs": 1}, nil), []byte{0})
	f.Add(message(4, 1, nil, make([]byte, 16)), []byte{0x80})
	f.Add(message(5, 1, map[string]any{"column": "image", "shard": 0}, nil), []byte{255})
	f.Fuzz(func(t *testing.T, m, credit []byte) {
		c := start(t, feedtest.Config{Rows: 10, Side: 2}, nil)
		c.opened()
		s, credits := c.attach()
		_, _ = s.Write(m)
		_, _ = credits.Write(credit)
		_ = c.control.CloseWrite()
		_ = s.SetReadDeadline(time.Now().Add(3 * time.Second))
		if err := c.ended(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzControl(f *testing.F) {
	f.Add(message(1, 1, map[string]any{"version": feed.Version, "sources": []any{map[string]any{"root": "{}"}}}, nil))
	f.Add(message(2, 1, nil, nil))
	f.Fuzz(func(t *testing.T, m []byte) {
		ours, theirs := pair(t)
		done := make(chan error, 1)
		go func() {
			done <- feed.Serve(context.Background(), theirs, feed.Options{Open: feedtest.Open(func() {}), Resources: feed.Resources{Threads: 1, Memory: 32 << 20}})
		}()
		_, _ = ours.Write(m)
		_ = ours.CloseWrite()
		select {
		case <-done:
		case <-time.After(5 * time.Second):
			t.Fatal("the feed goes on")
		}
	})
}
