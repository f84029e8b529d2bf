package order

import "fmt"

// Cursor computes positions of one epoch and remembers the last window of each lane it visited: up to Lanes windows of 2 bytes a row, 0.3 MB at the default
// parameters for images. It belongs to one goroutine.
type Cursor struct {
	e       *Epoch
	windows []*window
	shard   int // without shuffling, where the last row was
}

// window is one window of one lane, ready to be read.
type window struct {
	lo, hi uint64 // offsets in the lane
	start  uint64 // permuted row at offset lo
	order  perm
	buf    []uint16
	slot   uint64 // slot of the permuted row at offset lo
	blocks []base // of that slot and those that follow, where there are few
}

// maxBlocks bounds the blocks a window remembers.
const maxBlocks = 32

// Cursor returns a cursor with nothing remembered.
func (e *Epoch) Cursor() *Cursor {
	c := &Cursor{e: e}
	if e.l.p.Shuffle != ShuffleOff {
		// A lane beyond the last row is never visited.
		c.windows = make([]*window, min(e.l.p.Lanes, e.l.rows))
	}
	return c
}

// Epoch returns the epoch whose positions the cursor computes.
func (c *Cursor) Epoch() *Epoch { return c.e }

// At returns the row at position p, which must be below Rows.
func (c *Cursor) At(p uint64) Row {
	l := c.e.l
	if p >= l.rows {
		panic(fmt.Sprintf("order: position %d of an epoch of %d rows", p, l.rows))
	}
	if c.windows == nil {
		return c.plain(p)
	}
	return c.shuffled(p%l.p.Lanes, p/l.p.Lanes)
}

// Batch appends the rows at positions p to p+n-1, or to the end of the epoch, to dst.
func (c *Cursor) Batch(dst []Row, p uint64, n int) []Row {
	l := c.e.l
	if p >= l.rows || n <= 0 {
		return dst
	}
	end := p + min(uint64(n), l.rows-p)
	if c.windows == nil {
		for ; p < end; p++ {
			dst = append(dst, c.plain(p))
		}
		return dst
	}
	lane, offset := p%l.p.Lanes, p/l.p.Lanes
	for ; p < end; p++ {
		dst = append(dst, c.shuffled(lane, offset))
		if lane++; lane == l.p.Lanes {
			lane = 0
			offset++
		}
	}
	return dst
}

func (c *Cursor) plain(p uint64) Row {
	h := &c.e.l.head
	if s := c.shard; p < h.before[s] || p >= h.before[s+1] {
		c.shard = h.find(p)
	}
	return Row{c.shard, p - h.before[c.shard]}
}

func (c *Cursor) shuffled(lane, offset uint64) Row {
	w := c.windows[lane]
	if w == nil || offset < w.lo || offset >= w.hi {
		w = c.enter(lane, offset)
	}
	slot, row := c.e.slotOf(w.start + w.order.at(offset-w.lo))
	if i := slot - w.slot; i < uint64(len(w.blocks)) {
		return c.e.rowOf(w.blocks[i], row)
	}
	return c.e.rowOf(c.e.blockAt(slot), row)
}

// enter makes ready the window of a lane that holds an offset.
func (c *Cursor) enter(lane, offset uint64) *window {
	w := c.windows[lane]
	if w == nil {
		w = new(window)
		c.windows[lane] = w
	}
	e := c.e
	start, length := e.l.lane(lane)
	j, lo, hi := e.l.windowAt(lane, offset, length)
	w.lo, w.hi, w.start = lo, hi, start+lo
	w.order = newPerm(w.buf, hi-lo, subKey(e.key, tagWindow, lane, j))
	w.buf = w.order.table
	w.slot, _ = e.slotOf(w.start)
	last, _ := e.slotOf(w.start + hi - lo - 1)
	w.blocks = w.blocks[:0]
	if last-w.slot < maxBlocks {
		for s := w.slot; s <= last; s++ {
			w.blocks = append(w.blocks, e.blockAt(s))
		}
	}
	return w
}
