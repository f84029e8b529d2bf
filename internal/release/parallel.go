package release

import (
	"context"
	"sync"
	"sync/atomic"
)

// parallel runs work for 0 to n-1 on a few goroutines and waits for them. The first error, in order of time, ends the rest.
func parallel(ctx context.Context, workers, n int, work func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(max(workers, 1), n) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := work(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	return context.Cause(ctx)
}

// counter adds up what goroutines have done.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int64) int64 { return c.n.Add(n) }
