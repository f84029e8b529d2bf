package order

import (
	"fmt"
	"math/bits"
	"sort"
)

// Row is a selected row: the x-th selected row of a shard, shards counted in manifest order.
type Row struct {
	Shard int
	Index uint64
}

// Layout is what all epochs of a selection share. It never changes.
type Layout struct {
	p      Params
	rows   uint64
	blocks uint64 // B: whole blocks of single shards, then blocks of what was left over ("dust")
	whole  uint64 // F: how many of them are whole
	short  uint64 // r: rows of the last block, 1..n
	full   sums   // whole blocks before each shard
	dust   sums   // left-over rows before each shard
	head   sums   // rows before each shard; only without shuffling
}

// sums are prefix sums with a coarse table that makes a search start where it nearly ends.
type sums struct {
	before []uint64
	coarse []int32
	shift  uint
}

func (s *sums) total() uint64 { return s.before[len(s.before)-1] }

func (s *sums) index() {
	n := len(s.before) - 1
	total := s.total()
	s.shift = 0
	if w := bits.Len64(total); w > bits.Len(uint(n))+1 {
		s.shift = uint(w - bits.Len(uint(n)) - 1)
	}
	s.coarse = make([]int32, total>>s.shift+2)
	shard := 0
	for b := range s.coarse {
		for shard < n-1 && s.before[shard+1] <= uint64(b)<<s.shift {
			shard++
		}
		s.coarse[b] = int32(shard)
	}
}

// find returns the shard in which the v-th thing lies, v < total.
func (s *sums) find(v uint64) int {
	b := v >> s.shift
	lo, hi := int(s.coarse[b]), int(s.coarse[b+1])
	if hi-lo > 8 {
		return lo + sort.Search(hi-lo, func(i int) bool { return s.before[lo+i+1] > v })
	}
	for lo < hi && s.before[lo+1] <= v {
		lo++
	}
	return lo
}

// NewLayout takes the number of selected rows of each shard, in manifest order, zeros included. It costs a few passes over the counts. The error is ErrParams.
func NewLayout(counts []uint64, p Params) (*Layout, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if len(counts) > 1<<30 {
		return nil, fmt.Errorf("%w: %d shards", ErrParams, len(counts))
	}
	l := &Layout{p: p}
	for s, c := range counts {
		if c > maxRows || l.rows > maxRows-c {
			return nil, fmt.Errorf("%w: more than %d rows, at shard %d of %d", ErrParams, uint64(maxRows), s, len(counts))
		}
		l.rows += c
	}
	prefix := func(of func(c uint64) uint64) sums {
		s := sums{before: make([]uint64, len(counts)+1)}
		for i, c := range counts {
			s.before[i+1] = s.before[i] + of(c)
		}
		s.index()
		return s
	}
	n := p.Block
	if p.Shuffle == ShuffleOff {
		l.head = prefix(func(c uint64) uint64 { return c })
		return l, nil
	}
	if n == 1 {
		l.full = prefix(func(c uint64) uint64 { return c })
		l.dust = sums{before: []uint64{0}}
	} else {
		l.full = prefix(func(c uint64) uint64 { return c / n })
		l.dust = prefix(func(c uint64) uint64 { return c % n })
	}
	l.whole = l.full.total()
	l.blocks = l.whole + (l.dust.total()+n-1)/n
	if l.blocks > 0 {
		l.short = l.rows - n*(l.blocks-1)
	}
	return l, nil
}

// Rows returns the number of selected rows, N: the positions of an epoch are 0 to N-1.
func (l *Layout) Rows() uint64 { return l.rows }

// Params returns the parameters the layout was made with.
func (l *Layout) Params() Params { return l.p }

// lane returns the first permuted row of a lane and how many it has.
func (l *Layout) lane(i uint64) (start, length uint64) {
	q, g := l.rows/l.p.Lanes, l.rows%l.p.Lanes
	start, length = i*q+min(i, g), q
	if i < g {
		length++
	}
	return start, length
}

// Epoch is the order of one epoch. It never changes.
type Epoch struct {
	l      *Layout
	number uint64
	key    uint64
	blocks perm
	slot   uint64 // t*: where the short block stands
	edge   uint64 // t* times n: first permuted row of the short block
}

// Epoch returns the order of an epoch, counted from 0. It costs a table of the blocks, 0.5 ms at most.
func (l *Layout) Epoch(e uint64) *Epoch {
	ep := &Epoch{l: l, number: e}
	if l.p.Shuffle == ShuffleOff || l.rows == 0 {
		return ep
	}
	ep.key = epochKey(l.p.Seed, e)
	ep.blocks = newPerm(nil, l.blocks, subKey(ep.key, tagBlocks, 0, 0))
	ep.slot = ep.blocks.inverse(l.blocks - 1)
	ep.edge = ep.slot * l.p.Block
	return ep
}

// Number returns which epoch this is.
func (e *Epoch) Number() uint64 { return e.number }

// slotOf returns the slot in which permuted row v stands, and the row in it.
func (e *Epoch) slotOf(v uint64) (slot, row uint64) {
	n := e.l.p.Block
	if v < e.edge {
		return v / n, v % n
	}
	v -= e.edge
	if v < e.l.short {
		return e.slot, v
	}
	v -= e.l.short
	return e.slot + 1 + v/n, v % n
}

// base is where a block's rows are: a run in one shard, or (shard < 0) a run of dust.
type base struct {
	first uint64
	shard int32
}

func (e *Epoch) blockAt(slot uint64) base {
	l := e.l
	i := e.blocks.at(slot)
	if i < l.whole {
		s := l.full.find(i)
		return base{(i - l.full.before[s]) * l.p.Block, int32(s)}
	}
	return base{(i - l.whole) * l.p.Block, -1}
}

func (e *Epoch) rowOf(b base, row uint64) Row {
	if b.shard >= 0 {
		return Row{int(b.shard), b.first + row}
	}
	l := e.l
	d := b.first + row
	s := l.dust.find(d)
	whole := l.full.before[s+1] - l.full.before[s]
	return Row{s, whole*l.p.Block + d - l.dust.before[s]}
}

// windowAt returns the window of a lane that holds an offset: its number and the offsets [lo, hi) it spans.
func (l *Layout) windowAt(lane, offset, length uint64) (j, lo, hi uint64) {
	k := l.p.Window
	phase := lane * k / l.p.Lanes
	j = (offset + phase) / k
	if j*k > phase {
		lo = j*k - phase
	}
	return j, lo, min(length, (j+1)*k-phase)
}

// At returns the row at position p, which must be below Rows. It may be called from any number of goroutines; each call
// permutes a whole window, so a Cursor is faster for neighbouring positions.
func (e *Epoch) At(p uint64) Row {
	l := e.l
	if p >= l.rows {
		panic(fmt.Sprintf("order: position %d of an epoch of %d rows", p, l.rows))
	}
	if l.p.Shuffle == ShuffleOff {
		s := l.head.find(p)
		return Row{s, p - l.head.before[s]}
	}
	lane, offset := p%l.p.Lanes, p/l.p.Lanes
	start, length := l.lane(lane)
	j, lo, hi := l.windowAt(lane, offset, length)
	var buf [256]uint16
	w := newPerm(buf[:], hi-lo, subKey(e.key, tagWindow, lane, j))
	slot, row := e.slotOf(start + lo + w.at(offset-lo))
	return e.rowOf(e.blockAt(slot), row)
}

// Batch appends the rows at positions p to p+n-1, or to the end of the epoch, to dst. It is At in a loop with the windows remembered; it may be called from any number of goroutines.
func (e *Epoch) Batch(dst []Row, p uint64, n int) []Row { return e.Cursor().Batch(dst, p, n) }
