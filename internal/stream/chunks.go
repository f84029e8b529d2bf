package stream

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"

	"astropile/internal/catalog"
)

// chunkKey names a decoded column chunk.
type chunkKey struct {
	shard, column, group int
}

// chunkCache keeps decoded chunks of scalars, text and ragged columns, least recently used out first, within a budget
// of bytes. Concurrent callers decode a chunk once.
type chunkCache struct {
	budget int64

	mu    sync.Mutex
	table map[chunkKey]*cachedChunk
	order list.List // of *cachedChunk that are ready, least recently used first
	bytes int64
}

type cachedChunk struct {
	key   chunkKey
	v     *catalog.Vector
	bytes int64
	err   error
	ready chan struct{}
	elem  *list.Element
}

func newChunkCache(budget int64) *chunkCache {
	return &chunkCache{budget: budget, table: map[chunkKey]*cachedChunk{}}
}

func isCancel(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// get gives the chunk, from memory or by decode.
func (c *chunkCache) get(ctx context.Context, key chunkKey, decode func(ctx context.Context) (*catalog.Vector, error)) (*catalog.Vector, error) {
	for {
		c.mu.Lock()
		e := c.table[key]
		if e != nil {
			if e.elem != nil {
				c.order.MoveToBack(e.elem)
			}
			c.mu.Unlock()
			select {
			case <-e.ready:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if e.err == nil {
				return e.v, nil
			}
			if !isCancel(e.err) || ctx.Err() != nil {
				return nil, e.err
			}
			continue // whoever decoded it was cancelled
		}
		e = &cachedChunk{key: key, ready: make(chan struct{})}
		c.table[key] = e
		c.mu.Unlock()

		v, err := decode(ctx)
		if err == nil {
			v = compact(v)
		}
		c.mu.Lock()
		e.v, e.err = v, err
		close(e.ready)
		if err != nil {
			if c.table[key] == e {
				delete(c.table, key)
			}
			c.mu.Unlock()
			return nil, err
		}
		e.bytes = vectorBytes(v) + 256
		if c.table[key] == e {
			e.elem = c.order.PushBack(e)
			c.bytes += e.bytes
			for c.bytes > c.budget && c.order.Len() > 1 {
				old := c.order.Remove(c.order.Front()).(*cachedChunk)
				c.bytes -= old.bytes
				delete(c.table, old.key)
			}
		}
		c.mu.Unlock()
		return v, nil
	}
}

func (c *chunkCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.table)
	c.order.Init()
	c.bytes = 0
}

func vectorBytes(v *catalog.Vector) int64 {
	n := int64(cap(v.Data) + 8*cap(v.Offsets) + 8*cap(v.StrOffsets) + cap(v.Valid) + 128)
	for _, m := range v.Members {
		n += vectorBytes(m)
	}
	return n
}

// compact gives back what decoding reserved in excess.
func compact(v *catalog.Vector) *catalog.Vector {
	if cap(v.Data) > len(v.Data)+len(v.Data)/8 {
		v.Data = bytes.Clone(v.Data)
	}
	if cap(v.Offsets) > len(v.Offsets)+len(v.Offsets)/8 {
		v.Offsets = slices.Clone(v.Offsets)
	}
	if cap(v.StrOffsets) > len(v.StrOffsets)+len(v.StrOffsets)/8 {
		v.StrOffsets = slices.Clone(v.StrOffsets)
	}
	for i := range v.Members {
		v.Members[i] = compact(v.Members[i])
	}
	return v
}
