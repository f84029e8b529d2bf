package order

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sort"
)

// MaxWeight bounds the sum of a mix's weights: the length of its cycle.
const MaxWeight = 4096

// ErrMix is returned, wrapped, for sources and weights that cannot be mixed.
var ErrMix = errors.New("invalid mix")

// End says when an epoch of a mix is over.
type End uint8

const (
	// EndNever repeats every source for ever; the only epoch is 0, and has MixRows rows.
	EndNever End = iota
	// EndFirst ends an epoch before the first lane of any source would have to repeat.
	EndFirst
)

// MixRows is the number of positions of a mix that never ends.
const MixRows = maxRows

// Mix interleaves sources lane by lane: at every offset of every lane the source is a function of the weights alone, and its row is
// the next of that lane of that source. It never changes.
//
// Walking a lane, source i comes exactly a_i times in any A offsets in a row, A the sum of the weights; lanes start at different places of the
// cycle, so that a step has the weights' proportions as well.
type Mix struct {
	parts  []*Layout
	weight []uint64
	end    End
	cycle  uint64   // A
	turn   uint64   // h, coprime to A
	source []uint16 // which source stands at each place of the cycle
	nth    []uint16 // how often it stood before that
	at     [][]uint16
	back   uint64 // h^-1 modulo A: x*back is the place at which the walk is at x
	copies []uint64
	rows   uint64
}

// Weights turns shares into integer weights of sum total, each at least 1, by the largest remainder; ties go to the earlier source. Shares need not sum to 1.
// The error is ErrMix.
func Weights(shares []float64, total int) ([]uint64, error) {
	if total < len(shares) || total > MaxWeight || len(shares) == 0 {
		return nil, fmt.Errorf("%w: %d sources in a cycle of %d, at most %d", ErrMix, len(shares), total, MaxWeight)
	}
	sum := 0.0
	for i, s := range shares {
		if !(s > 0) || math.IsInf(s, 0) {
			return nil, fmt.Errorf("%w: share %v of source %d has to be a positive number", ErrMix, s, i)
		}
		sum += s
	}
	if math.IsInf(sum, 0) {
		return nil, fmt.Errorf("%w: the shares sum to more than any number", ErrMix)
	}
	out := make([]uint64, len(shares))
	rest := make([]float64, len(shares))
	order := make([]int, len(shares))
	left := total
	for i, s := range shares {
		exact := s / sum * float64(total)
		out[i] = max(1, uint64(exact))
		rest[i] = exact - float64(out[i]) // negative where 1 is more than the share
		order[i] = i
		left -= int(out[i])
	}
	sort.SliceStable(order, func(a, b int) bool { return rest[order[a]] > rest[order[b]] })
	for k := 0; left > 0; k = (k + 1) % len(order) {
		out[order[k]]++
		left--
	}
	for left < 0 {
		// Sources raised to 1 are paid for by those that have most.
		most := 0
		for i := range out {
			if out[i] > out[most] {
				most = i
			}
		}
		out[most]--
		left++
	}
	return out, nil
}

// ShareWeights are Weights, but whole shares whose sum is at most MaxWeight are taken as they are. total is the sum that others are rounded to.
func ShareWeights(shares []float64, total int) ([]uint64, error) {
	sum := 0.0
	whole := make([]uint64, len(shares))
	for i, s := range shares {
		if !(s >= 1) || s != math.Trunc(s) || s > MaxWeight {
			return Weights(shares, total)
		}
		sum += s
		whole[i] = uint64(s)
	}
	if sum > MaxWeight || len(shares) == 0 {
		return Weights(shares, total)
	}
	return whole, nil
}

// LanesFor returns the most lanes, of the divisors of DefaultLanes, in which a source of so many rows has 64 in each: an epoch of a mix that ends with its
// first source leaves out what lanes of other lengths still hold.
func LanesFor(rows uint64) uint64 {
	most := max(1, rows/lanesBlocks)
	for l := uint64(DefaultLanes); ; l-- {
		if DefaultLanes%l == 0 && l <= most {
			return l
		}
	}
}

// NewMix mixes sources with integer weights, which are divided by their common factor. All layouts have the same lanes and rows to give. The error is ErrMix.
func NewMix(parts []*Layout, weights []uint64, end End) (*Mix, error) {
	if len(parts) == 0 || len(parts) != len(weights) {
		return nil, fmt.Errorf("%w: %d sources and %d weights", ErrMix, len(parts), len(weights))
	}
	if end > EndFirst {
		return nil, fmt.Errorf("%w: end %d", ErrMix, uint8(end))
	}
	m := &Mix{parts: parts, end: end}
	factor := uint64(0)
	for i, p := range parts {
		switch {
		case weights[i] < 1 || weights[i] > MaxWeight:
			return nil, fmt.Errorf("%w: weight %d of source %d, must be 1 to %d", ErrMix, weights[i], i, MaxWeight)
		case p.rows == 0:
			return nil, fmt.Errorf("%w: source %d has no rows", ErrMix, i)
		case p.p.Lanes != parts[0].p.Lanes:
			return nil, fmt.Errorf("%w: source %d has %d lanes and the first has %d", ErrMix, i, p.p.Lanes, parts[0].p.Lanes)
		}
		factor = gcd(factor, weights[i])
	}
	for _, w := range weights {
		m.weight = append(m.weight, w/factor)
		m.cycle += w / factor
	}
	if m.cycle > MaxWeight {
		return nil, fmt.Errorf("%w: the weights sum to %d, at most %d", ErrMix, m.cycle, MaxWeight)
	}
	m.table()
	lanes := m.Lanes()
	for _, p := range parts {
		copies := uint64(1)
		if least := lanesBlocks * lanes; end == EndNever && p.rows < least {
			copies = (least + p.rows - 1) / p.rows
		}
		m.copies = append(m.copies, copies)
	}
	m.rows = MixRows
	if end == EndFirst {
		m.rows = m.offsets() * lanes
	}
	return m, nil
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// table walks the cycle once: place k is at k*h mod A, which lies on the arc of one source.
func (m *Mix) table() {
	a := m.cycle
	m.turn = max(1, uint64(math.Round(0.382*float64(a))))
	for gcd(m.turn, a) != 1 {
		m.turn++
	}
	arc := make([]uint16, 0, a)
	for i, w := range m.weight {
		for range w {
			arc = append(arc, uint16(i))
		}
	}
	m.source, m.nth = make([]uint16, a), make([]uint16, a)
	m.at = make([][]uint16, len(m.parts))
	for k := range a {
		x := k * m.turn % a
		if x == 1%a {
			m.back = k
		}
		i := arc[x]
		m.source[k], m.nth[k] = i, uint16(len(m.at[i]))
		m.at[i] = append(m.at[i], uint16(k))
	}
}

// place is where in the cycle a lane begins.
func (m *Mix) place(lane uint64) uint64 {
	x, _ := bits.Mul64(lane*golden, m.cycle)
	return x * m.back % m.cycle
}

// before is how often a source comes in the first n places of the walk.
func (m *Mix) before(i int, n uint64) uint64 {
	at := m.at[i]
	k := uint16(n % m.cycle)
	return n/m.cycle*m.weight[i] + uint64(sort.Search(len(at), func(j int) bool { return at[j] >= k }))
}

// length is the number of rows that a lane of a source has before it repeats.
func (m *Mix) length(i int, lane uint64) uint64 {
	n, lanes := m.parts[i].rows*m.copies[i], m.Lanes()
	length := n / lanes
	if lane < n%lanes {
		length++
	}
	return length
}

// offsets is the largest number of offsets at which no lane of any source repeats.
func (m *Mix) offsets() uint64 {
	most := uint64(MixRows) / m.Lanes()
	for lane := range m.Lanes() {
		from := m.place(lane)
		for i := range m.parts {
			// The place of the first row too many.
			n := m.before(i, from) + m.length(i, lane)
			at := n/m.weight[i]*m.cycle + uint64(m.at[i][n%m.weight[i]])
			most = min(most, at-from)
		}
	}
	return most
}

// Lanes returns the lanes that all sources share.
func (m *Mix) Lanes() uint64 { return m.parts[0].p.Lanes }

// Weights returns the weights, their common factor taken out.
func (m *Mix) Weights() []uint64 { return append([]uint64(nil), m.weight...) }

// Rows returns the number of positions of an epoch.
func (m *Mix) Rows() uint64 { return m.rows }

// End returns when an epoch is over.
func (m *Mix) End() End { return m.end }

// Sources returns the layouts that are mixed.
func (m *Mix) Sources() []*Layout { return append([]*Layout(nil), m.parts...) }

// MixPlace is a row of a mix before the source's own order is applied: the position of an epoch of one source.
type MixPlace struct {
	Source          int
	Epoch, Position uint64
}

// At returns which position of which epoch of which source stands at position p, below Rows, of an epoch of the mix.
func (m *Mix) At(epoch, p uint64) MixPlace {
	if p >= m.rows {
		panic(fmt.Sprintf("order: position %d of an epoch of %d rows", p, m.rows))
	}
	lane, offset := p%m.Lanes(), p/m.Lanes()
	from := m.place(lane)
	return m.walk(epoch, lane, offset, from, m.before)
}

// walk finds the row at an offset of a lane whose walk begins at from.
func (m *Mix) walk(epoch, lane, offset, from uint64, before func(i int, n uint64) uint64) MixPlace {
	k := from + offset
	i := int(m.source[k%m.cycle])
	c := k/m.cycle*m.weight[i] + uint64(m.nth[k%m.cycle]) - before(i, from)
	length, rows := m.length(i, lane), m.parts[i].rows
	p := c%length*m.Lanes() + lane
	return MixPlace{i, (epoch+c/length)*m.copies[i] + p/rows, p % rows}
}

// MixCursor computes positions of a mix and remembers the windows of its sources. It belongs to one goroutine.
type MixCursor struct {
	m       *Mix
	epoch   uint64
	from    []uint64   // where each lane begins
	earlier [][]uint64 // how often each source comes before that, by source
	cursors []map[uint64]*Cursor
}

// keptEpochs bounds the epochs of a source that a cursor remembers: lanes of unequal length enter an epoch at different times.
const keptEpochs = 4

// Cursor returns a cursor of an epoch with nothing remembered.
func (m *Mix) Cursor(epoch uint64) *MixCursor {
	c := &MixCursor{m: m, epoch: epoch, from: make([]uint64, m.Lanes()), earlier: make([][]uint64, len(m.parts)), cursors: make([]map[uint64]*Cursor, len(m.parts))}
	for i := range m.parts {
		c.earlier[i] = make([]uint64, m.Lanes())
		c.cursors[i] = map[uint64]*Cursor{}
	}
	for lane := range m.Lanes() {
		c.from[lane] = m.place(lane)
		for i := range m.parts {
			c.earlier[i][lane] = m.before(i, c.from[lane])
		}
	}
	return c
}

// At returns the source and its row at position p, below the mix's Rows.
func (c *MixCursor) At(p uint64) (source int, row Row) {
	if p >= c.m.rows {
		panic(fmt.Sprintf("order: position %d of an epoch of %d rows", p, c.m.rows))
	}
	lane, offset := p%c.m.Lanes(), p/c.m.Lanes()
	at := c.m.walk(c.epoch, lane, offset, c.from[lane], func(i int, _ uint64) uint64 { return c.earlier[i][lane] })
	return at.Source, c.of(at.Source, at.Epoch).At(at.Position)
}

func (c *MixCursor) of(source int, epoch uint64) *Cursor {
	kept := c.cursors[source]
	if x, ok := kept[epoch]; ok {
		return x
	}
	if len(kept) >= keptEpochs {
		oldest := epoch
		for e := range kept {
			oldest = min(oldest, e)
		}
		delete(kept, oldest)
	}
	x := c.m.parts[source].Epoch(epoch).Cursor()
	kept[epoch] = x
	return x
}
