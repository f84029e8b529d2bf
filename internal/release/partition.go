package release

import (
	"fmt"
	"sort"

	"astropile/internal/sky"
)

// maxOrder is the finest order at which a pixel is still split.
const maxOrder = 12

// pixel is a HEALPix pixel (NESTED).
type pixel struct {
	order int8
	pix   int64
}

func (p pixel) span() (lo, hi int64) { return sky.Span(int(p.order), p.pix) }

// part is a run of sorted rows that goes into one shard of a pixel.
type part struct {
	pixel
	lo, hi int // rows
}

// payloadOf is the payload of sorted rows.
func payloadOf(rows []row) int64 {
	if len(rows) == 0 {
		return 0
	}
	last := &rows[len(rows)-1]
	return last.sum + int64(last.payload) - rows[0].sum
}

// meanOf is what so many rows weigh, where total is what n rows weigh.
func meanOf(rows, total, n int64) int64 {
	return int64(float64(rows) * float64(total) / float64(n))
}

// partition cuts rows, sorted by their place on the sky, into shards. existing are the pixels that there are, which keep their
// order and are never overlapped.
func partition(rows []row, existing []pixel, shardSize int64, expect int) ([]part, error) {
	taken := make([]pixel, len(existing))
	copy(taken, existing)
	sort.Slice(taken, func(i, j int) bool {
		a, _ := taken[i].span()
		b, _ := taken[j].span()
		return a < b
	})
	for i := 1; i < len(taken); i++ {
		_, end := taken[i-1].span()
		if lo, _ := taken[i].span(); lo < end {
			return nil, fmt.Errorf("%w: pixels %v and %v of the manifest overlap", ErrDamaged, taken[i-1], taken[i])
		}
	}
	p := partitioner{rows: rows, taken: taken, shardSize: shardSize, limit: max(1, shardSize/int64(expect))}
	for base := int64(0); base < 12; base++ {
		p.walk(pixel{0, base}, 0, len(rows))
	}
	return p.out, nil
}

type partitioner struct {
	rows             []row
	taken            []pixel
	shardSize, limit int64
	out              []part
}

func (p *partitioner) walk(at pixel, lo, hi int) {
	first, last := at.span()
	lo += sort.Search(hi-lo, func(i int) bool { return p.rows[lo+i].hpx >= first })
	hi = lo + sort.Search(hi-lo, func(i int) bool { return p.rows[lo+i].hpx >= last })
	if lo == hi {
		return
	}
	// The first pixel there is that ends behind this one's start is the only one that can hold it or begin inside it.
	k := sort.Search(len(p.taken), func(i int) bool { _, end := p.taken[i].span(); return end > first })
	inside := false
	if k < len(p.taken) {
		if p.taken[k] == at {
			p.cut(at, lo, hi)
			return
		}
		start, _ := p.taken[k].span()
		inside = start < last
	}
	if at.order < sky.MaxOrder && (inside || at.order < maxOrder && payloadOf(p.rows[lo:hi]) > p.limit) {
		for c := int64(0); c < 4; c++ {
			p.walk(pixel{at.order + 1, at.pix<<2 | c}, lo, hi)
		}
		return
	}
	p.cut(at, lo, hi)
}

// cut makes shards of equal rows where a pixel holds more than one shard may.
func (p *partitioner) cut(at pixel, lo, hi int) {
	n := shardsFor(payloadOf(p.rows[lo:hi]), p.shardSize, hi-lo)
	for k := 0; k < n; k++ {
		p.out = append(p.out, part{at, lo + k*(hi-lo)/n, lo + (k+1)*(hi-lo)/n})
	}
}

// shardsFor is how many shards of about equal rows a payload needs.
func shardsFor(payload, shardSize int64, rows int) int {
	return int(min(int64(rows), max(1, (payload+shardSize-1)/shardSize)))
}

// Growth says that a pixel holds more than a shard's bytes many times over.
type Growth struct {
	Order   int8    `json:"order"`
	Pix     int64   `json:"pix"`
	Payload int64   `json:"payload"`
	Times   float64 `json:"times"`
}

// Limits of a pixel's payload, in multiples of the shard size.
const (
	warnTimes   = 4
	refuseTimes = 16
)

// grown lists the pixels that parts bring above the warning, and refuses above the limit where
// another edition would help. rows are those that parts cut; old is the payload of each pixel so far.
func grown(parts []part, rows []row, old map[pixel]int64, shardSize int64) ([]Growth, error) {
	total := map[pixel]int64{}
	var order []pixel
	for _, p := range parts {
		if _, ok := total[p.pixel]; !ok {
			total[p.pixel] = old[p.pixel]
			order = append(order, p.pixel)
		}
		total[p.pixel] += payloadOf(rows[p.lo:p.hi])
	}
	var out []Growth
	for _, px := range order {
		if total[px] < warnTimes*shardSize {
			continue
		}
		g := Growth{Order: px.order, Pix: px.pix, Payload: total[px], Times: float64(total[px]) / float64(shardSize)}
		if total[px] > refuseTimes*shardSize && px.order < maxOrder { // no edition cuts finer than the finest order
			return nil, fmt.Errorf("%w: pixel %d of order %d would hold %.1f times the shard size of %d bytes, at most %d times: the dataset has outgrown its partition; publish a new edition (a new root) with --expect %dx",
				ErrRefused, px.pix, px.order, g.Times, shardSize, refuseTimes, nextExpect(g.Times))
		}
		out = append(out, g)
	}
	return out, nil
}

func nextExpect(times float64) int {
	n := 4
	for float64(n) < 4*times {
		n *= 2
	}
	return n
}
