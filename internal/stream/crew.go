package stream

import (
	"context"
	"sync"
)

// crew is the goroutines that work on fillings, the oldest first, until it is closed.
type crew struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	wake   sync.Cond
	queue  []*filling // in order of use; finished ones are taken out on the way
	closed bool
}

func newCrew(ctx context.Context, threads int) *crew {
	c := &crew{}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.wake.L = &c.mu
	for range max(threads, 1) {
		c.wg.Go(c.work)
	}
	return c
}

// add hands over a filling that was started.
func (c *crew) add(f *filling) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, f)
	c.wake.Broadcast()
}

// close ends what is being worked on and waits for all goroutines. Fillings that were not finished stay so.
func (c *crew) close() {
	c.cancel()
	c.mu.Lock()
	c.closed = true
	c.wake.Broadcast()
	c.mu.Unlock()
	c.wg.Wait()
}

func (c *crew) work() {
	w := &worker{}
	for {
		f, t, ok := c.next()
		if !ok {
			return
		}
		if f.finish(f.run(c.ctx, w, t)) {
			c.mu.Lock()
			c.wake.Broadcast()
			c.mu.Unlock()
		}
	}
}

// next waits for a task of the oldest filling that has one.
func (c *crew) next() (*filling, task, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.closed {
			return nil, task{}, false
		}
		kept := c.queue[:0]
		for i, f := range c.queue {
			select {
			case <-f.done:
				continue
			default:
			}
			kept = append(kept, f)
			if t, ok := f.take(); ok {
				kept = append(kept, c.queue[i+1:]...)
				clear(c.queue[len(kept):])
				c.queue = kept
				return f, t, true
			}
		}
		clear(c.queue[len(kept):])
		c.queue = kept
		c.wake.Wait()
	}
}
