package feed

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"golang.org/x/sys/unix"

	"astropile/internal/stream"
)

// streamRequest asks for a stream of batches.
type streamRequest struct {
	Batch    int    `json:"batch"`
	Shuffle  string `json:"shuffle"` // off, blocks, rows
	Seed     uint64 `json:"seed"`
	Epoch    uint64 `json:"epoch"`
	Position uint64 `json:"position"`
	Epochs   int    `json:"epochs"`
	DropLast bool   `json:"drop_last"`
	Rank     int    `json:"rank"`
	World    int    `json:"world"` // 0 is 1
	First    int    `json:"first"` // of the steps that are wanted
	Every    int    `json:"every"` // 0 is 1: each step from the first on
	// State is a checkpoint to go on from; it must be of the same order, and then epoch, position, shuffle and seed are its.
	State json.RawMessage `json:"state,omitempty"`
}

// options are what the request means.
func (q *streamRequest) options() (stream.StreamOptions, error) {
	mode, ok := map[string]stream.Mode{"off": stream.Off, "blocks": stream.Blocks, "rows": stream.Rows}[q.Shuffle]
	if !ok {
		return stream.StreamOptions{}, fmt.Errorf("%w: shuffle %q", ErrProtocol, q.Shuffle)
	}
	o := stream.StreamOptions{Batch: q.Batch, Shuffle: mode, Seed: q.Seed, Epoch: q.Epoch, Position: q.Position, Epochs: q.Epochs, DropLast: q.DropLast, Rank: q.Rank, World: q.World,
		First: q.First, Every: q.Every}
	if len(q.State) > 0 && !bytes.Equal(q.State, []byte("null")) {
		st, err := stream.DecodeState(q.State)
		if err != nil {
			return o, err
		}
		o.State = &st
	}
	return o, nil
}

type mapRequest struct {
	Column string `json:"column"`
	Shard  int    `json:"shard"`
}

type mapReply struct {
	Path     string `json:"path"` // relative to the root
	Rows     int64  `json:"rows"`
	Pages    int    `json:"pages"`
	Constant bool   `json:"constant"` // one row's bytes follow First, in place of Offsets
}

type wireError struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// session serves one connection: requests in order, a stream beside them.
type session struct {
	link    link
	credits *net.UnixConn
	engine  Engine
	kind    Transport
	budget  *budget
	slots   int // of a stream; 0 lets the batch's size decide

	pool     *pool
	layout   []byte // the last one sent
	layoutNo uint32
	running  *running
	inflight sync.WaitGroup // senders and the reader of credits
}

// running is the stream of a session.
type running struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// serve returns when the client closes the connection, when ctx ends, or when the client breaks the protocol.
func (s *session) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() {
		_ = s.link.conn.Close()
		_ = s.credits.Close()
	})
	defer stop()
	defer func() {
		cancel()
		s.stopStream()
		_ = s.link.conn.Close()
		_ = s.credits.Close()
		s.inflight.Wait()
		if s.pool != nil {
			s.pool.close()
		}
	}()
	// Requests are received ahead of the work, so that the end of the connection interrupts the work.
	requests := make(chan *message)
	var rerr error
	s.inflight.Add(1)
	go func() {
		defer s.inflight.Done()
		defer close(requests)
		defer cancel()
		for {
			m, err := s.link.receive()
			if err == nil && m.Type == msgAttach {
				closeAll(m.FDs)
				err = fmt.Errorf("%w: attach on a session", ErrProtocol)
			}
			if err != nil {
				rerr = err
				return
			}
			select {
			case requests <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	for m := range requests {
		if err := s.request(ctx, m); err != nil {
			cancel()
			_ = s.link.conn.Close()
			for range requests {
			}
			return err
		}
	}
	if errors.Is(rerr, io.EOF) || errors.Is(rerr, net.ErrClosed) {
		return nil
	}
	return rerr
}

// request ends the stream that runs, if any, and does what one message asks. An error ends the session; a failure of the work is told to the client.
func (s *session) request(ctx context.Context, m *message) error {
	s.stopStream()
	switch m.Type {
	case msgStream:
		var q streamRequest
		if err := m.decode(&q); err != nil {
			return err
		}
		return s.startStream(ctx, m.Seq, q)
	case msgStop:
		return nil
	case msgState:
		var q streamRequest
		if err := m.decode(&q); err != nil {
			return err
		}
		return s.state(m.Seq, q)
	case msgChosen:
		var q mapRequest
		if err := m.decode(&q); err != nil {
			return err
		}
		rows, err := s.engine.Chosen(q.Shard)
		if err != nil {
			return s.fail(m.Seq, err)
		}
		return s.link.send(header{Type: msgRows, Seq: m.Seq}, nil, int64s(rows), nil, -1)
	case msgRead:
		if len(m.Body)%8 != 0 || m.JSON != 0 {
			return fmt.Errorf("%w: a row list of %d bytes", ErrProtocol, len(m.Body))
		}
		rows := make([]int64, len(m.Body)/8)
		for i := range rows {
			rows[i] = int64(binary.LittleEndian.Uint64(m.Body[8*i:]))
		}
		return s.read(ctx, m.Seq, rows)
	case msgMap:
		var q mapRequest
		if err := m.decode(&q); err != nil {
			return err
		}
		t, err := s.engine.Map(ctx, q.Column, q.Shard)
		if err != nil {
			return s.fail(m.Seq, err)
		}
		js, err := json.Marshal(mapReply{Path: t.Path, Rows: t.Rows, Pages: max(0, len(t.First)-1), Constant: t.Constant})
		if err != nil {
			return err
		}
		plain := append(int64s(t.First), int64s(t.Offsets)...)
		return s.link.send(header{Type: msgTable, Seq: m.Seq}, js, append(plain, t.Value...), nil, -1)
	case msgShards:
		return s.link.send(header{Type: msgShardRows, Seq: m.Seq}, nil, int64s(s.engine.ShardRows()), nil, -1)
	}
	return fmt.Errorf("%w: type %d on a session", ErrProtocol, m.Type)
}

func int64s(x []int64) []byte {
	b := make([]byte, 8*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(v))
	}
	return b
}

// ready makes the slots at the first request that needs them.
func (s *session) ready(slots int) {
	if s.pool != nil {
		return
	}
	s.pool = newPool(s.kind, slots, s.budget)
	s.inflight.Add(1)
	go func() {
		defer s.inflight.Done()
		b := make([]byte, maxSlots)
		for {
			n, err := s.credits.Read(b)
			for _, c := range b[:max(n, 0)] {
				if s.pool.credit(c) != nil {
					err = ErrProtocol
				}
			}
			if err != nil || n == 0 {
				// Without credits no slot ever comes back: end the session rather than wait.
				_ = s.link.conn.Close()
				return
			}
		}
	}()
}

// readSlots is the number of slots of a session that reads rows on request: lent, arriving, and one to copy out of.
const readSlots = 3

func (s *session) read(ctx context.Context, seq uint32, rows []int64) error {
	s.ready(readSlots)
	sl, err := s.pool.Acquire(ctx)
	if err != nil {
		return s.fail(seq, err)
	}
	lay, err := s.engine.Read(ctx, rows, sl)
	if err != nil {
		s.pool.Release(sl)
		return s.fail(seq, err)
	}
	return s.deliver(header{Seq: seq}, sl.(*slot), lay, nil)
}

// planSlots is the number of slots of a stream: few, so that they stay in cache, and no more than fit the budget. A batch
// never holds more rows than there are.
func (s *session) planSlots(batch int) (int, error) {
	d := s.engine.Describe()
	batch = int(min(int64(batch), max(d.Rows, 1)))
	row := int64(0)
	for i := range d.Columns {
		row += int64(d.Columns[i].RowBytes())
	}
	if batch < 1 || row > 0 && int64(batch) > maxBatchBytes/row {
		return 0, fmt.Errorf("%w: a batch of %d rows of %d bytes; give 1 row or more, and at most %d GiB", ErrMemory, batch, row, maxBatchBytes>>30)
	}
	size := max(row*int64(batch), 1)
	if size = (size + slotStep - 1) / slotStep * slotStep; 2*size > s.budget.max {
		return 0, fmt.Errorf("%w: two batches of %d rows take %d MiB, memory= leaves %d MiB for them; give a larger memory=, a smaller batch or fewer columns",
			ErrMemory, batch, 2*size>>20, s.budget.max>>20)
	}
	slots := int64(s.slots)
	if slots == 0 {
		slots = min(max(cachedBytes/size, fewSlots), manySlots)
	}
	return int(min(s.budget.max/size, slots)), nil
}

// maxBatchBytes bounds one batch.
const maxBatchBytes = 64 << 30

// state tells the client the checkpoint of a stream.
func (s *session) state(seq uint32, q streamRequest) error {
	opt, err := q.options()
	if errors.Is(err, ErrProtocol) {
		return err
	}
	var js []byte
	if err == nil {
		var st stream.State
		if st, err = s.engine.State(opt); err == nil {
			js, err = st.Encode()
		}
	}
	if err != nil {
		return s.fail(seq, err)
	}
	return s.link.send(header{Type: msgStateIs, Seq: seq}, js, nil, nil, -1)
}

func (s *session) startStream(ctx context.Context, seq uint32, q streamRequest) error {
	opt, err := q.options()
	if errors.Is(err, ErrProtocol) {
		return err
	}
	if err != nil {
		return s.fail(seq, err)
	}
	n, err := s.planSlots(q.Batch)
	if err != nil {
		return s.fail(seq, err)
	}
	s.ready(n)
	ctx, cancel := context.WithCancel(ctx)
	st, err := s.engine.Start(ctx, opt, s.pool)
	if err != nil {
		cancel()
		return s.fail(seq, err)
	}
	r := &running{cancel: cancel, done: make(chan struct{})}
	s.running = r
	s.inflight.Add(1)
	go func() {
		defer s.inflight.Done()
		defer close(r.done)
		defer cancel()
		if err := s.pump(ctx, seq, st); err != nil {
			_ = s.link.conn.Close()
		}
	}()
	return nil
}

// pump sends batches until the stream ends. Its error is one of the connection.
func (s *session) pump(ctx context.Context, seq uint32, st Batches) error {
	for {
		b, err := st.Next(ctx)
		if err != nil {
			// The slots must be at rest before the client hears of the end, for it may start the next stream at once.
			cerr := st.Close()
			switch {
			case ctx.Err() != nil:
				return nil
			case !errors.Is(err, io.EOF):
				return s.fail(seq, err)
			case cerr != nil:
				return s.fail(seq, cerr)
			}
			return s.link.send(header{Type: msgEnd, Seq: seq}, nil, nil, nil, -1)
		}
		h := header{Seq: seq, Epoch: b.Epoch, Position: b.Position}
		if b.Last {
			h.Flags |= flagLast
		}
		var plain []byte
		if b.Valid != nil {
			h.Flags |= flagValid
			for _, ok := range b.Valid {
				if ok {
					plain = append(plain, 1)
				} else {
					plain = append(plain, 0)
				}
			}
		}
		if b.Sources != nil {
			h.Flags |= flagSource
			for _, k := range b.Sources {
				plain = binary.LittleEndian.AppendUint16(plain, k)
			}
		}
		if err := s.deliver(h, b.Slot.(*slot), b.Layout, plain); err != nil {
			_ = st.Close()
			return err
		}
	}
}

func (s *session) stopStream() {
	if s.running == nil {
		return
	}
	s.running.cancel()
	<-s.running.done
	s.running = nil
}

// deliver lends a filled slot to the client. One goroutine at a time calls it: the stream's, or the requests' after the
// stream has ended.
func (s *session) deliver(h header, sl *slot, lay *stream.Layout, plain []byte) error {
	js, err := json.Marshal(lay)
	if err != nil {
		return err
	}
	if bytes.Equal(js, s.layout) {
		js = nil
	} else {
		s.layout = js
		s.layoutNo++
	}
	h.Layout = s.layoutNo
	h.Type, h.Slot, h.Rows, h.Used = msgBatch, uint16(sl.id), uint64(lay.Rows), uint64(lay.Bytes)
	h.Size = uint64(len(sl.mem.mem))
	h.Flags |= uint32(s.pool.max) << flagSlotsShift
	if sl.mem.kind == Inline {
		h.Flags |= flagInline
		err := s.link.send(h, js, plain, sl.mem.mem[:lay.Bytes], -1)
		s.pool.Release(sl)
		return err
	}
	fd, err := s.pool.lend(sl)
	if err != nil {
		return err
	}
	err = s.link.send(h, js, plain, nil, fd)
	if fd >= 0 {
		_ = unix.Close(fd)
	}
	return err
}

// fail tells the client that a request could not be done.
func (s *session) fail(seq uint32, err error) error {
	js, jerr := json.Marshal(wireError{Kind: errorKind(err), Text: err.Error()})
	if jerr != nil {
		return jerr
	}
	return s.link.send(header{Type: msgError, Seq: seq}, js, nil, nil, -1)
}
