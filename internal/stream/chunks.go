package stream

import (
	"bytes"
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"astropile/internal/catalog"
)

// chunkRows is how many rows of a row group are decoded at once where all columns can be read by page: two pages of
// float64, one of float32. Blocks of the order of scalar data are about twice as long.
const chunkRows = 16 << 10

// chunkKey names a chunk: a row group of a shard, or a part of it.
type chunkKey struct {
	shard, number int
}

// chunk is neighbouring rows of a shard of which columns are decoded as they are asked for. Scalars of fixed size stand in
// records, one row after another, since a shuffled batch wants all columns of rows that stand far apart.
type chunk struct {
	key     chunkKey
	lo      int64 // first row in the shard
	rows    int64
	elem    *list.Element // while it is in the cache
	bytes   int64         // counted in the cache
	cols    []chunkColumn // of the set
	once    sync.Once     // makes records
	records []byte
}

// recordLayout says where scalars stand in a record.
type recordLayout struct {
	stride int
	off    []int // of each column of a set; -1 where it is elsewhere
}

func newRecordLayout(columns []catalog.Column) recordLayout {
	l := recordLayout{off: make([]int, len(columns))}
	for k := range columns {
		l.off[k] = -1
	}
	for _, size := range []int{16, 8, 4, 2, 1} {
		for k := range columns {
			if c := &columns[k]; c.Kind == catalog.Scalar && c.Fixed() && c.RowBytes() == size {
				l.off[k] = l.stride
				l.stride += size
			}
		}
	}
	if l.stride > 8 {
		l.stride = (l.stride + 7) &^ 7
	}
	return l
}

// put moves the values of a column into the records.
func (l *recordLayout) put(e *chunk, k int, v *catalog.Vector) {
	e.once.Do(func() { e.records = make([]byte, int(e.rows)*l.stride) })
	size := len(v.Data) / max(v.Rows, 1)
	b := e.records[l.off[k]:]
	le := binary.LittleEndian
	switch size {
	case 8:
		for i := range v.Rows {
			le.PutUint64(b[i*l.stride:], le.Uint64(v.Data[8*i:]))
		}
	case 4:
		for i := range v.Rows {
			le.PutUint32(b[i*l.stride:], le.Uint32(v.Data[4*i:]))
		}
	default:
		for i := range v.Rows {
			copy(b[i*l.stride:], v.Data[i*size:(i+1)*size])
		}
	}
	v.Data = nil
}

type chunkColumn struct {
	v  atomic.Pointer[catalog.Vector]
	mu sync.Mutex // while it is decoded
}

// chunkCache keeps decoded scalars, text and ragged columns, the chunk that was least recently used out first, within a
// budget of bytes. Concurrent callers decode a column of a chunk once.
type chunkCache struct {
	budget  int64
	columns []catalog.Column // as they are stored
	layout  recordLayout

	mu    sync.Mutex
	table map[chunkKey]*chunk
	order list.List // of *chunk, least recently used first
	bytes int64
}

// chunkBytes is what a chunk takes without its columns, and of each of these.
const (
	chunkBytes       = 256
	chunkColumnBytes = 256
)

func newChunkCache(budget int64, columns []catalog.Column) *chunkCache {
	return &chunkCache{budget: budget, columns: columns, layout: newRecordLayout(columns), table: map[chunkKey]*chunk{}}
}

func isCancel(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// get gives the chunk of rows [lo, hi).
func (c *chunkCache) get(key chunkKey, lo, hi int64) *chunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.table[key]; e != nil {
		c.order.MoveToBack(e.elem)
		return e
	}
	e := &chunk{key: key, lo: lo, rows: hi - lo, cols: make([]chunkColumn, len(c.columns))}
	e.elem = c.order.PushBack(e)
	c.table[key] = e
	c.count(e, chunkBytes+e.rows*int64(c.layout.stride))
	return e
}

// count adds bytes of a chunk. The chunk itself stays, whatever the budget.
func (c *chunkCache) count(e *chunk, n int64) {
	if e.elem == nil {
		return // it was put out meanwhile
	}
	e.bytes += n
	c.bytes += n
	for front := c.order.Front(); c.bytes > c.budget && front != nil; front = c.order.Front() {
		old := front.Value.(*chunk)
		if old == e {
			if c.order.Len() == 1 {
				return
			}
			c.order.MoveToBack(front)
			continue
		}
		c.order.Remove(front)
		c.bytes -= old.bytes
		old.elem = nil
		delete(c.table, old.key)
	}
}

// column gives a column of a chunk, from memory or by decode.
func (c *chunkCache) column(e *chunk, k int, decode func() (*catalog.Vector, error)) (*catalog.Vector, error) {
	col := &e.cols[k]
	if v := col.v.Load(); v != nil {
		return v, nil
	}
	col.mu.Lock()
	defer col.mu.Unlock()
	if v := col.v.Load(); v != nil {
		return v, nil
	}
	v, err := decode()
	if err != nil {
		return nil, err
	}
	if v.Rows != int(e.rows) {
		return nil, fmt.Errorf("%w: %d rows decoded of %d", ErrMismatch, v.Rows, e.rows)
	}
	if c.layout.off[k] >= 0 {
		c.layout.put(e, k, v)
	}
	v = compact(v)
	col.v.Store(v)
	c.mu.Lock()
	c.count(e, vectorBytes(v)+chunkColumnBytes)
	c.mu.Unlock()
	return v, nil
}

func (c *chunkCache) setBudget(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.budget = n
}

func (c *chunkCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.table {
		e.elem = nil
	}
	clear(c.table)
	c.order.Init()
	c.bytes = 0
}

// bounds gives the first row of every chunk of a shard, and its rows at the end. It opens the shard the first time.
func (s *Set) bounds(ctx context.Context, shard int) ([]int64, error) {
	if b := s.chunked[shard].Load(); b != nil {
		return *b, nil
	}
	o, err := s.open.acquire(ctx, shard)
	if err != nil {
		return nil, err
	}
	defer s.open.release(o)
	step := int64(chunkRows)
	for k := range s.stored {
		if s.stored[k].Kind != catalog.Tensor && !o.cols[k].PageWise() {
			step = 1 << 62 // a whole row group would be decoded for each
		}
	}
	var b []int64
	for _, g := range o.r.Groups() {
		for lo := int64(0); lo < g.Rows; {
			b = append(b, g.First+lo)
			if g.Rows-lo <= step {
				break
			}
			lo += step
		}
	}
	b = append(b, o.r.Rows())
	s.chunked[shard].Store(&b)
	return b, nil
}

// chunkOf is the number of the chunk that holds a row.
func chunkOf(bounds []int64, row int64) int {
	return sort.Search(len(bounds), func(i int) bool { return bounds[i] > row }) - 1
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
