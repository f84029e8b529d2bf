package stream

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"

	"astropile/internal/catalog"
	"astropile/internal/shard"
	"astropile/internal/source"
)

// shardTable keeps shards open, least recently used out first, within a budget of bytes for their tails and tables.
type shardTable struct {
	set    *Set
	budget int64

	mu    sync.Mutex
	open  map[int]*openShard
	idle  list.List // of *openShard without users, least recently used first
	bytes int64
}

// openShard is one shard with a reader for each selected column.
type openShard struct {
	index int
	path  string // where it was found
	h     source.Handle
	r     *shard.Reader
	cols  []*shard.ColumnReader
	bytes int64

	ready chan struct{} // closed when opening ended
	err   error
	users int
	elem  *list.Element
}

func newShardTable(s *Set, budget int64) *shardTable {
	return &shardTable{set: s, budget: budget, open: map[int]*openShard{}}
}

// acquire gives an open shard; the caller releases it. Concurrent callers open a shard once.
func (t *shardTable) acquire(ctx context.Context, index int) (*openShard, error) {
	t.mu.Lock()
	o := t.open[index]
	if o == nil {
		o = &openShard{index: index, ready: make(chan struct{}), users: 1}
		t.open[index] = o
		t.mu.Unlock()
		o.err = t.load(ctx, o)
		close(o.ready)
		if o.err != nil {
			t.mu.Lock()
			delete(t.open, index)
			t.mu.Unlock()
			return nil, o.err
		}
		t.mu.Lock()
		t.bytes += o.bytes
		t.evict()
		t.mu.Unlock()
		return o, nil
	}
	o.users++
	if o.elem != nil {
		t.idle.Remove(o.elem)
		o.elem = nil
	}
	t.mu.Unlock()
	select {
	case <-o.ready:
	default:
		select {
		case <-o.ready:
		case <-ctx.Done():
			t.release(o)
			return nil, ctx.Err()
		}
	}
	if o.err != nil {
		// The one who opened it may have been cancelled; whoever was not tries again.
		if ctx.Err() == nil && isCancel(o.err) {
			return t.acquire(ctx, index)
		}
		return nil, o.err
	}
	return o, nil
}

func (t *shardTable) release(o *openShard) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o.users--
	if o.users == 0 && t.open[o.index] == o {
		o.elem = t.idle.PushBack(o)
		t.evict()
	}
}

// evict closes shards nobody uses while the budget is overdrawn.
func (t *shardTable) evict() {
	for t.bytes > t.budget && t.idle.Len() > 0 {
		o := t.idle.Remove(t.idle.Front()).(*openShard)
		delete(t.open, o.index)
		t.bytes -= o.bytes
		_ = o.h.Close()
	}
}

func (t *shardTable) setBudget(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.budget = n
}

func (t *shardTable) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	for _, o := range t.open {
		if o.h != nil {
			if e := o.h.Close(); err == nil {
				err = e
			}
		}
	}
	clear(t.open)
	t.idle.Init()
	t.bytes = 0
	return err
}

func (t *shardTable) load(ctx context.Context, o *openShard) error {
	s := t.set
	m := &s.shards[o.index]
	o.path = m.Path
	h, err := s.src.Open(ctx, m.Path)
	if errors.Is(err, fs.ErrNotExist) {
		// A shard that was withdrawn stays readable for those who pin its release.
		if w, werr := s.src.Open(ctx, path.Join("withdrawn", m.Path)); werr == nil {
			o.path = path.Join("withdrawn", m.Path)
			h, err = w, nil
		}
	}
	if err != nil {
		return err
	}
	fail := func(err error) error {
		_ = h.Close()
		return fmt.Errorf("shard %s: %w", m.Path, err)
	}
	if h.Size() != m.Bytes {
		return fail(fmt.Errorf("%w: %d bytes, the manifest says %d", ErrMismatch, h.Size(), m.Bytes))
	}
	tail, err := s.readTail(h, m)
	if err != nil {
		return fail(err)
	}
	r, err := shard.Open(ctx, h, h.Size(), shard.OpenOptions{Tail: tail, Own: true, Columns: s.stored, Decoder: s.dec, CheckCRC: s.opt.CheckCRC})
	if err != nil {
		return fail(err)
	}
	if r.Rows() != m.Rows {
		return fail(fmt.Errorf("%w: %d rows, the manifest says %d", ErrMismatch, r.Rows(), m.Rows))
	}
	o.h, o.r = h, r
	o.bytes = r.Footprint()
	for k := range s.stored {
		c, err := r.Column(s.stored[k].Name)
		if err != nil {
			return fail(err)
		}
		o.cols = append(o.cols, c)
		o.bytes += c.Footprint()
	}
	return nil
}

// readTail reads a shard's tail and checks it against the manifest.
func (s *Set) readTail(h source.Handle, m *catalog.Shard) ([]byte, error) {
	n := m.Bytes - m.TailOffset
	if n > maxTail {
		return nil, fmt.Errorf("%w: a tail of %d bytes, at most %d", ErrMismatch, n, int64(maxTail))
	}
	tail := make([]byte, n)
	if k, err := h.ReadAt(tail, m.TailOffset); k < len(tail) {
		return nil, fmt.Errorf("%d bytes at byte %d: %w", n, m.TailOffset, errors.Join(io.ErrUnexpectedEOF, err))
	}
	if s.digest(tail) != m.TailDigest {
		return nil, fmt.Errorf("%w: the tail from byte %d on does not have the digest that the manifest pins", ErrMismatch, m.TailOffset)
	}
	return tail, nil
}

// maxTail bounds what is read of a shard before anything of it is known.
const maxTail = 512 << 20
