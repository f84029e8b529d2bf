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

// chunk is neighbouring rows of a shard, a row group or a part of it, of which columns are decoded as they are asked for.
// Scalars of fixed size stand in records, one row after another, since a shuffled batch wants all columns of rows that
// stand far apart.
type chunk struct {
	set   *Set
	shard int
	lo    int64 // first row in the shard
	rows  int64
	home  *atomic.Pointer[chunk] // where it is found while it is in the cache
	bytes int64                  // counted in the cache; 0 before and after
	used  atomic.Bool            // since the cache looked last

	missing atomic.Int32    // columns that are not decoded
	nulls   atomic.Bool     // a column has some
	cols    []decodedColumn // of the set
	once    sync.Once       // makes records
	records []byte
}

// decodedColumn is a column of a chunk. Of what stands in records the vector has no data.
type decodedColumn struct {
	v  atomic.Pointer[catalog.Vector]
	mu sync.Mutex // while it is decoded
}

// shardChunks are the chunks of a shard.
type shardChunks struct {
	bounds []int64 // first row of each, and the number of rows at the end
	even   int64   // rows of every chunk but the last, where they are equal; else 0
	chunks []atomic.Pointer[chunk]
}

// at gives the number of the chunk that holds a row.
func (t *shardChunks) at(row int64) int {
	if t.even > 0 {
		return int(row / t.even)
	}
	return sort.Search(len(t.bounds), func(i int) bool { return t.bounds[i] > row }) - 1
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

// chunkCache keeps decoded scalars, text and ragged columns within a budget of bytes; what was not used for long goes
// first. Concurrent callers decode a column of a chunk once.
type chunkCache struct {
	columns []catalog.Column // as they are stored
	layout  recordLayout
	decoded int32 // columns that are decoded: all but tensors

	mu     sync.Mutex
	budget int64
	queue  list.List // of *chunk: the next to be looked at, then those that came or were used later
	bytes  int64
}

// What a chunk takes without its columns, and each of these.
const (
	chunkBytes         = 256
	decodedColumnBytes = 256
)

func newChunkCache(budget int64, columns []catalog.Column) *chunkCache {
	c := &chunkCache{budget: budget, columns: columns, layout: newRecordLayout(columns)}
	for k := range columns {
		if columns[k].Kind != catalog.Tensor {
			c.decoded++
		}
	}
	return c
}

func isCancel(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// chunk gives the chunk that holds a row of a shard.
func (s *Set) chunk(t *shardChunks, shard int, row int64) *chunk {
	n := t.at(row)
	e := t.chunks[n].Load()
	if e == nil {
		e = s.chunks.add(&chunk{set: s, shard: shard, lo: t.bounds[n], rows: t.bounds[n+1] - t.bounds[n], home: &t.chunks[n]})
	}
	if !e.used.Load() {
		e.used.Store(true)
	}
	return e
}

// add takes in a chunk, unless somebody was faster, and gives the one that is there.
func (c *chunkCache) add(e *chunk) *chunk {
	c.mu.Lock()
	defer c.mu.Unlock()
	if there := e.home.Load(); there != nil {
		return there
	}
	e.cols = make([]decodedColumn, len(c.columns))
	e.missing.Store(c.decoded)
	e.used.Store(true)
	e.bytes = chunkBytes + e.rows*int64(c.layout.stride)
	c.bytes += e.bytes
	e.home.Store(e)
	c.queue.PushBack(e)
	c.evict()
	return e
}

// evict makes room. What was used since it was looked at last gets a second chance; one chunk stays.
func (c *chunkCache) evict() {
	for c.bytes > c.budget && c.queue.Len() > 1 {
		front := c.queue.Front()
		e := front.Value.(*chunk)
		if e.used.Swap(false) {
			c.queue.MoveToBack(front)
			continue
		}
		c.queue.Remove(front)
		c.bytes -= e.bytes
		e.bytes = 0
		e.home.Store(nil)
	}
}

// column gives a column of a chunk, from memory or by decode.
func (c *chunkCache) column(ctx context.Context, e *chunk, k int) (*catalog.Vector, error) {
	col := &e.cols[k]
	if v := col.v.Load(); v != nil {
		return v, nil
	}
	col.mu.Lock()
	defer col.mu.Unlock()
	if v := col.v.Load(); v != nil {
		return v, nil
	}
	v, err := e.decode(ctx, k)
	if err != nil {
		return nil, err
	}
	if v.Valid != nil {
		e.nulls.Store(true)
	}
	if c.layout.off[k] >= 0 {
		c.layout.put(e, k, v)
	}
	v = compact(v)
	col.v.Store(v)
	e.missing.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.bytes > 0 { // else it was put out meanwhile
		n := vectorBytes(v) + decodedColumnBytes
		e.bytes += n
		c.bytes += n
		c.evict()
	}
	return v, nil
}

// decode reads a column of a chunk.
func (e *chunk) decode(ctx context.Context, k int) (*catalog.Vector, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := e.set
	o, err := s.open.acquire(ctx, e.shard)
	if err != nil {
		return nil, err
	}
	defer s.open.release(o)
	v, err := o.cols[k].ReadVector(ctx, e.lo, e.lo+e.rows)
	if err == nil && v.Rows != int(e.rows) {
		err = fmt.Errorf("%w: %d rows decoded of %d", ErrMismatch, v.Rows, e.rows)
	}
	if err != nil {
		return nil, fmt.Errorf("shard %s, rows %d to %d: %w", s.shards[e.shard].Path, e.lo, e.lo+e.rows-1, err)
	}
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
	for x := c.queue.Front(); x != nil; x = x.Next() {
		e := x.Value.(*chunk)
		e.bytes = 0
		e.home.Store(nil)
	}
	c.queue.Init()
	c.bytes = 0
}

// chunksOf gives the chunks of a shard. It opens the shard the first time.
func (s *Set) chunksOf(ctx context.Context, shard int) (*shardChunks, error) {
	if t := s.chunked[shard].Load(); t != nil {
		return t, nil
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
	t := &shardChunks{}
	for _, g := range o.r.Groups() {
		for lo := int64(0); lo < g.Rows; {
			t.bounds = append(t.bounds, g.First+lo)
			if g.Rows-lo <= step {
				break
			}
			lo += step
		}
	}
	t.chunks = make([]atomic.Pointer[chunk], len(t.bounds))
	t.bounds = append(t.bounds, o.r.Rows())
	t.even = t.bounds[1]
	for i, b := range t.bounds[:len(t.bounds)-1] {
		if b != int64(i)*t.even || t.bounds[i+1]-b > t.even {
			t.even = 0
			break
		}
	}
	s.chunked[shard].CompareAndSwap(nil, t)
	return s.chunked[shard].Load(), nil
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
