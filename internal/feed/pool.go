package feed

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"astropile/internal/stream"
)

// maxSlots bounds the slots of a session: a credit is one byte, its highest bit a flag.
const maxSlots = 64

// slotStep is the granularity of a slot's size: a huge page.
const slotStep = hugePage

// slot is memory that is free, being filled, or lent to the client.
type slot struct {
	pool *pool
	id   int
	mem  *backing
	lent bool
	sent bool // the client has the descriptor
}

// Bytes is the memory as it stands.
func (s *slot) Bytes() []byte { return s.mem.mem }

// Grow makes the memory at least n bytes long, within the budget of its pool.
func (s *slot) Grow(n int) error {
	have := len(s.mem.mem)
	if n <= have {
		return nil
	}
	// Ragged batches differ in size: the first growth is exact, later ones leave room, so that they become rare.
	want := n
	if have > 0 {
		want = n + n/8
	}
	want = roundUp(want)
	if err := s.pool.reserve(n, want, have); err != nil {
		if want = roundUp(n); s.pool.reserve(n, want, have) != nil {
			return err
		}
	}
	if err := s.mem.grow(want); err != nil {
		s.pool.giveBack(want - len(s.mem.mem))
		return err
	}
	return nil
}

// budget is what the slots of all sessions of a feed may take, in bytes.
type budget struct {
	max  int64
	used atomic.Int64
}

// take counts n bytes more, or fewer, and says whether they fit.
func (b *budget) take(n int) bool {
	if b.used.Add(int64(n)) > b.max && n > 0 {
		b.used.Add(-int64(n))
		return false
	}
	return true
}

func roundUp(n int) int { return (n + slotStep - 1) / slotStep * slotStep }

// pool owns the slots of a session. It implements stream.SlotPool.
type pool struct {
	kinds  []Transport
	budget *budget
	max    int
	avail  chan struct{} // one entry a slot that is free or may still be made
	mu     sync.Mutex
	slots  []*slot // by id; nil where none is made
	free   []*slot // the last one used is taken first: it is still in cache
	closed bool
}

func newPool(t Transport, max int, b *budget) *pool {
	max = min(maxSlots, max)
	p := &pool{kinds: kinds(t), budget: b, max: max, avail: make(chan struct{}, maxSlots), slots: make([]*slot, maxSlots)}
	for range max {
		p.avail <- struct{}{}
	}
	return p
}

// Acquire waits for a free slot.
func (p *pool) Acquire(ctx context.Context) (stream.Slot, error) {
	select {
	case <-p.avail:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.avail <- struct{}{}
		return nil, context.Canceled
	}
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		return s, nil
	}
	mem, err := newBacking(p.kinds)
	if err != nil {
		p.avail <- struct{}{}
		return nil, err
	}
	p.kinds = []Transport{mem.kind}
	for id, s := range p.slots {
		if s == nil {
			p.slots[id] = &slot{pool: p, id: id, mem: mem}
			return p.slots[id], nil
		}
	}
	mem.close()
	return nil, fmt.Errorf("%w: more than %d slots", ErrProtocol, maxSlots)
}

// Release takes back a slot that was acquired and not lent.
func (p *pool) Release(s stream.Slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(s.(*slot))
}

func (p *pool) put(s *slot) {
	p.free = append(p.free, s)
	p.avail <- struct{}{}
}

// lend notes that the client has the slot. Where it does not know the descriptor yet, it gives a copy for the caller to
// send and close, else -1: from here on a credit, honest or not, may close the slot's own.
func (p *pool) lend(s *slot) (fd int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fd = -1
	if !s.sent && s.mem.fd >= 0 {
		if fd, err = unix.FcntlInt(uintptr(s.mem.fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return -1, os.NewSyscallError("fcntl", err)
		}
	}
	s.lent, s.sent = true, true
	return fd, nil
}

// credit takes back a lent slot by what the client wrote.
func (p *pool) credit(b byte) error {
	id := int(b &^ creditRetire)
	p.mu.Lock()
	defer p.mu.Unlock()
	if id >= len(p.slots) || p.slots[id] == nil || !p.slots[id].lent {
		return fmt.Errorf("%w: credit for slot %d, which is not lent", ErrProtocol, id)
	}
	s := p.slots[id]
	s.lent = false
	if b&creditRetire != 0 {
		p.drop(s)
		p.avail <- struct{}{}
		return nil
	}
	p.put(s)
	return nil
}

// drop frees a slot; the entry it has in avail, or gets, lets another be made in its place.
func (p *pool) drop(s *slot) {
	p.budget.take(-len(s.mem.mem))
	s.mem.close()
	p.slots[s.id] = nil
}

// reserve counts the bytes by which a slot grows; slots that lie free make room.
func (p *pool) reserve(need, want, have int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.budget.take(want - have) {
		k := len(p.free) - 1
		if k < 0 {
			return fmt.Errorf("%w: a batch of %d MiB in up to %d slots passes the %d MiB for the slots of all streams; give a larger memory=, a smaller batch, fewer columns or fewer streams at once",
				ErrMemory, (need+1<<20-1)>>20, p.max, p.budget.max>>20)
		}
		s := p.free[k]
		p.free = p.free[:k]
		p.drop(s)
	}
	return nil
}

func (p *pool) giveBack(n int) { p.budget.take(-n) }

// close frees all memory of this side; what is lent stays the client's through its own mapping.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.slots {
		if s != nil {
			p.budget.take(-len(s.mem.mem))
			s.mem.close()
		}
	}
	p.slots, p.free = nil, nil
}
