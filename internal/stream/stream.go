package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"astropile/internal/order"
)

// Mode says how rows are shuffled; package order defines it.
type Mode = order.Mode

// The modes.
const (
	Off    = order.ShuffleOff
	Blocks = order.ShuffleBlocks
	Rows   = order.ShuffleRows
)

// ErrOptions marks options of a stream that do not fit together or do not fit the dataset.
var ErrOptions = errors.New("stream: options do not fit")

// ErrClosed marks the use of a stream after Close.
var ErrClosed = errors.New("stream: closed")

// StreamOptions say which rows come, in which order, in which batches.
type StreamOptions struct {
	Batch    int           // rows of a batch
	Shuffle  Mode          // the zero value shuffles blocks
	Seed     uint64        // of the order
	Params   *order.Params // the order's numbers, of a job that set them; nil takes Set.Params. Shuffle and Seed above do not count then
	Epoch    uint64        // first epoch
	Position uint64        // rows of the first epoch that all ranks have seen
	Epochs   int           // how many epochs end at or after the first; 0 is endless
	DropLast bool          // leave out the step that would not be full
	Rank     int
	World    int // ranks; 0 is 1
	First    int // steps that are passed over at the beginning, unread
	Every    int // which of the steps from there on are read: each (0 or 1), every second (2), ...
	// State is a checkpoint to go on from: it has to be of the same order, and its numbers take the place of Params, Shuffle, Seed, Epoch and Position.
	State *State
}

// Batch is a filled slot. The slot is the caller's from here on; it goes back to its pool by the caller's hand.
type Batch struct {
	Slot     Slot
	Layout   *Layout
	Epoch    uint64
	Position uint64 // rows of the epoch, all ranks together, up to and including this step
	Last     bool   // the last of its epoch
	// Valid is nil, or false for rows that stand there again only to make the batches of all ranks equally long. With
	// one rank the last batch is short instead.
	Valid []bool
	// Sources numbers the source of every row of a mix; else nil.
	Sources []uint16
}

// Stream reads batches ahead, in order, as far as its pool gives slots. Next is for one goroutine at a time.
type Stream struct {
	view   *View
	opt    StreamOptions
	seq    sequence
	pool   SlotPool
	crew   *crew
	ctx    context.Context
	cancel context.CancelFunc
	ready  chan *filling // in order
	ended  chan struct{} // closed when the planner is gone
	err    error         // of the planner, once ended is closed
	once   sync.Once

	mu   sync.Mutex
	fail error     // what Next returned last for good
	next *filling  // taken by a Next whose ctx ended before it was full
	free []recycle // what finished batches leave for later ones
}

type recycle struct {
	refs     [][]ref
	sides    []sidePlan
	constant []int32
}

// maxAhead bounds the batches that are in flight, whatever the pool gives.
const maxAhead = 1 << 10

// Stream starts to read. Options that do not fit are reported by Next. The caller closes the stream.
func (s *Set) Stream(ctx context.Context, opt StreamOptions, pool SlotPool) *Stream {
	return s.View().Stream(ctx, opt, pool)
}

// Stream starts to read. Options that do not fit are reported by Next. The caller closes the stream.
func (v *View) Stream(ctx context.Context, opt StreamOptions, pool SlotPool) *Stream {
	st := &Stream{view: v, opt: opt, pool: pool, ready: make(chan *filling, maxAhead), ended: make(chan struct{})}
	st.ctx, st.cancel = context.WithCancel(ctx)
	if st.opt.World == 0 {
		st.opt.World = 1
	}
	if err := st.prepare(); err != nil {
		st.err = err
		close(st.ready)
		close(st.ended)
		return st
	}
	st.crew = newCrew(st.ctx, v.threads)
	go st.plan()
	return st
}

// sequence is the order that options ask for. Of a state it takes the numbers, once it is sure that nothing else differs.
func (v *View) sequence(o *StreamOptions) (sequence, error) {
	p := v.params(o.Shuffle, o.Seed)
	switch {
	case o.State != nil:
		// Lanes, windows and blocks are the state's, which may have been set once; what the caller names has to be the same.
		if q := o.State.Params(); q.Shuffle == p.Shuffle {
			q.Seed = p.Seed
			p = q
		}
		o.Epoch, o.Position = o.State.Epoch(), o.State.Position()
	case o.Params != nil:
		p = *o.Params
	}
	seq, err := v.seq(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if o.State != nil {
		if err := o.State.Check(seq.State(o.Epoch, o.Position)); err != nil {
			return nil, err
		}
	}
	return seq, nil
}

// State is the checkpoint of a job that has taken all rows of an epoch up to a position.
func (v *View) State(o StreamOptions) (State, error) {
	seq, err := v.sequence(&o)
	if err != nil {
		return State{}, err
	}
	if o.Position > seq.Rows() {
		return State{}, fmt.Errorf("%w: position %d of an epoch of %d rows", ErrOptions, o.Position, seq.Rows())
	}
	return seq.State(o.Epoch, o.Position), nil
}

func (st *Stream) deal() order.Deal {
	return order.Deal{Rank: st.opt.Rank, World: st.opt.World, Batch: st.opt.Batch, DropLast: st.opt.DropLast}
}

func (st *Stream) prepare() error {
	var err error
	if st.seq, err = st.view.sequence(&st.opt); err != nil {
		return err
	}
	if err := st.deal().Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrOptions, err)
	}
	n := st.seq.Rows()
	if st.opt.World == 1 && !st.opt.DropLast {
		st.opt.Batch = int(min(uint64(st.opt.Batch), max(n, 1))) // what is planned for a batch, a larger one would never hold
	}
	switch {
	case st.opt.First < 0 || st.opt.Every < 0:
		return fmt.Errorf("%w: every %d. step from step %d on", ErrOptions, st.opt.Every, st.opt.First)
	case st.opt.Epochs < 0:
		return fmt.Errorf("%w: %d epochs", ErrOptions, st.opt.Epochs)
	case st.opt.Position > n:
		return fmt.Errorf("%w: position %d of an epoch of %d rows", ErrOptions, st.opt.Position, n)
	case n > 0 && st.deal().Steps(n, 0) == 0:
		return fmt.Errorf("%w: a step of %d rows, all ranks together, is more than the %d rows there are, and the last step is to be dropped; take a smaller batch", ErrOptions, st.deal().Global(), n)
	}
	return nil
}

// plan decides which rows every batch holds and hands them to the crew, one slot at a time.
func (st *Stream) plan() {
	defer close(st.ended)
	defer close(st.ready)
	n := st.seq.Rows()
	if n == 0 {
		return
	}
	deal, lanes := st.deal(), st.seq.Lanes()
	position := st.opt.Position
	skip := st.opt.First
	var places []order.Place
	for e := st.opt.Epoch; st.opt.Epochs == 0 || e < st.opt.Epoch+uint64(st.opt.Epochs); e++ {
		walk := st.seq.Walk(e)
		for {
			var next uint64
			places, next = deal.Step(places[:0], lanes, n, position)
			if len(places) == 0 {
				break
			}
			if skip > 0 {
				skip--
				position = next
				continue
			}
			skip = max(0, st.opt.Every-1)
			slot, err := st.pool.Acquire(st.ctx)
			if err != nil {
				st.err = err
				return
			}
			f := st.filling()
			f.epoch, f.position = e, next
			f.last = deal.Steps(n, next) == 0
			st.rowsOf(f, walk, places)
			f.start(st.view, f.refs, slot)
			st.crew.add(f)
			select {
			case st.ready <- f:
			case <-st.ctx.Done():
				st.crew.close() // nothing writes to the slot any more
				st.pool.Release(slot)
				st.err = st.ctx.Err()
				return
			}
			position = next
		}
		position = 0
	}
}

// rowsOf fills in the rows of a step and which of them are there only for the count.
func (st *Stream) rowsOf(f *filling, walk func(dst [][]ref, position uint64), places []order.Place) {
	f.valid = nil
	if f.refs == nil {
		f.refs = make([][]ref, len(st.view.sides))
	}
	for i := range f.refs {
		f.refs[i] = f.refs[i][:0]
	}
	for i, p := range places {
		if !p.Valid {
			if st.opt.World == 1 {
				continue // the last batch of the epoch is short
			}
			if f.valid == nil {
				f.valid = make([]bool, len(places))
				for k := range f.valid {
					f.valid[k] = places[k].Valid
				}
			}
		}
		walk(f.refs, places[i].Position)
	}
	f.sources = nil
	if sd := &st.view.sides[0]; len(sd.sets) > 1 {
		f.sources = make([]uint16, len(f.refs[0]))
		for i, r := range f.refs[0] {
			f.sources[i] = uint16(sd.number(r.shard))
		}
	}
}

func (st *Stream) filling() *filling {
	st.mu.Lock()
	defer st.mu.Unlock()
	if n := len(st.free); n > 0 {
		r := st.free[n-1]
		st.free = st.free[:n-1]
		return &filling{refs: r.refs, sides: r.sides, constant: r.constant}
	}
	return &filling{}
}

// Next waits for the next batch. At the end of the last epoch it gives io.EOF; after any other error but the end of
// the ctx given here the stream is over.
func (st *Stream) Next(ctx context.Context) (*Batch, error) {
	st.mu.Lock()
	fail, f := st.fail, st.next
	st.next = nil
	st.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	ok := true
	if f == nil {
		select {
		case f, ok = <-st.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if !ok {
		<-st.ended
		err := st.err
		if err == nil {
			err = io.EOF
		}
		return nil, st.over(err)
	}
	select {
	case <-f.done:
	case <-st.ctx.Done():
		st.crew.close() // nothing writes to the slot any more
	case <-ctx.Done():
		st.mu.Lock()
		open := st.ctx.Err() == nil
		if open {
			st.next = f
		}
		st.mu.Unlock()
		if !open {
			st.drop(f)
		}
		return nil, ctx.Err()
	}
	f.mu.Lock()
	err := f.err
	f.mu.Unlock()
	if err == nil && f.layout == nil {
		err = st.ctx.Err()
	}
	if err != nil {
		st.drop(f)
		return nil, st.over(err)
	}
	b := &Batch{Slot: f.slot, Layout: f.layout, Epoch: f.epoch, Position: f.position, Last: f.last, Valid: f.valid, Sources: f.sources}
	for i := range f.sides {
		clear(f.sides[i].spots) // chunks are the cache's to keep
		clear(f.sides[i].missing)
	}
	st.mu.Lock()
	st.free = append(st.free, recycle{f.refs, f.sides, f.constant})
	st.mu.Unlock()
	return b, nil
}

// drop gives the slot of a batch that will not be delivered back, once nothing writes to it any more.
func (st *Stream) drop(f *filling) {
	st.cancel()
	st.crew.close()
	st.pool.Release(f.slot)
}

func (st *Stream) over(err error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.fail == nil {
		st.fail = err
	}
	return st.fail
}

// Close ends reading, waits until no goroutine is left and nothing writes to any slot, and gives undelivered slots
// back to the pool.
func (st *Stream) Close() error {
	st.once.Do(func() {
		_ = st.over(ErrClosed)
		st.cancel()
		<-st.ended
		if st.crew != nil {
			st.crew.close()
		}
		st.mu.Lock()
		f := st.next
		st.next = nil
		st.mu.Unlock()
		if f != nil {
			st.pool.Release(f.slot)
		}
		for f := range st.ready {
			st.pool.Release(f.slot)
		}
	})
	return nil
}
