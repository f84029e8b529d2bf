package stream

import "context"

// Pool is a SlotPool of ordinary memory for callers inside the process.
type Pool struct{ free chan Slot }

// NewPool makes a pool of n slots, empty at first.
func NewPool(n int) *Pool {
	p := &Pool{free: make(chan Slot, n)}
	for range n {
		p.free <- new(Memory)
	}
	return p
}

// Acquire waits for a free slot or for the end of ctx.
func (p *Pool) Acquire(ctx context.Context) (Slot, error) {
	select {
	case s := <-p.free:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Release takes a slot back.
func (p *Pool) Release(s Slot) { p.free <- s }
