package stream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strconv"

	"astropile/internal/catalog"
	"astropile/internal/order"
	"astropile/internal/query"
)

// View is what streams read: the rows of one set, of several that are mixed, or of two that are matched. It may be used from any number of
// goroutines.
//
// A row of a view has one place on each of its sides; a side is a set, or several with the same columns, one after the other. A column stands
// on one side.
type View struct {
	sides   []side
	columns []catalog.Column // as renamed
	on      []int            // side of each column
	local   []int            // its number in the sets of that side
	values  *constantValues
	threads int
	rows    int64
	seq     func(p order.Params) (sequence, error)
	params  func(mode Mode, seed uint64) order.Params
	place   func(dst [][]ref, row int64) // appends the places of a row by its dense number, one a side
	weights []uint64                     // of a mix
	epoch   uint64                       // positions of an epoch of a mix
}

// side is a run of sets whose shards are numbered through.
type side struct {
	sets  []*Set
	first []int // number of each set's first shard
}

// at gives the set of a shard, and the shard's number there.
func (s *side) at(shard int) (*Set, int) {
	if len(s.sets) == 1 {
		return s.sets[0], shard
	}
	i := s.number(shard)
	return s.sets[i], shard - s.first[i]
}

// number is which set a shard is of.
func (s *side) number(shard int) int {
	return sort.Search(len(s.first), func(i int) bool { return s.first[i] > shard }) - 1
}

// sequence says which row stands at a position of an epoch.
type sequence interface {
	Rows() uint64
	Lanes() uint64
	// Walk gives a function that appends the places of the row at a position, one a side. It is used by one goroutine.
	Walk(epoch uint64) func(dst [][]ref, position uint64)
	// State is where a job stands, for a checkpoint.
	State(epoch, position uint64) State
}

// View is the set by itself.
func (s *Set) View() *View {
	v := &View{sides: []side{{sets: []*Set{s}, first: []int{0}}}, columns: s.columns, values: s.values, threads: s.opt.Threads, rows: s.Rows()}
	v.on, v.local = make([]int, len(s.columns)), make([]int, len(s.columns))
	for k := range s.columns {
		v.local[k] = k
	}
	v.params = s.Params
	v.seq = func(p order.Params) (sequence, error) {
		l, err := order.NewLayout(s.Counts(), p)
		return &plain{s, l}, err
	}
	v.place = func(dst [][]ref, row int64) { dst[0] = append(dst[0], s.dense(row)) }
	return v
}

// dense is the place of a selected row by its number.
func (s *Set) dense(row int64) ref {
	i := sort.Search(len(s.shards), func(i int) bool { return s.before[i+1] > row })
	return ref{i, s.rowOf(i, uint64(row-s.before[i]))}
}

// rowOf is the row of a shard that its x-th selected row is.
func (s *Set) rowOf(shard int, x uint64) int64 {
	if s.selected == nil {
		return int64(x)
	}
	return s.selected.Row(shard, x)
}

// plain is the order of one set.
type plain struct {
	set    *Set
	layout *order.Layout
}

func (p *plain) Rows() uint64  { return p.layout.Rows() }
func (p *plain) Lanes() uint64 { return p.layout.Params().Lanes }

func (p *plain) Walk(epoch uint64) func(dst [][]ref, position uint64) {
	c := p.layout.Epoch(epoch).Cursor()
	return func(dst [][]ref, position uint64) {
		r := c.At(position)
		dst[0] = append(dst[0], ref{r.Shard, p.set.rowOf(r.Shard, r.Index)})
	}
}

func (p *plain) State(epoch, position uint64) State {
	return State{Source: p.set.state(p.layout, epoch, position)}
}

// state is what the order of a set is a function of.
func (s *Set) state(l *order.Layout, epoch, position uint64) order.State {
	return order.NewState(l, int64(s.release.Number), s.id, s.SelectionDigest(), epoch, position)
}

// Source is a set in a mix, with its share.
type Source struct {
	Set    *Set
	Weight uint64
	Name   string // for messages
}

// Mix makes a view of several sets, whose rows come in the proportion of their weights. Their columns have to be the same, by the names they
// are selected under. The sets share their memory from here on, and are closed by their owner. The error is ErrSelect.
func Mix(sources []Source, end order.End) (*View, error) {
	if len(sources) == 0 {
		return nil, fmt.Errorf("%w: a mix of no datasets", ErrSelect)
	}
	first := sources[0].Set
	v := &View{columns: slices.Clone(first.columns), values: first.values, sides: []side{{}}}
	sd := &v.sides[0]
	shards := 0
	for i, x := range sources {
		if err := sameColumns(v.columns, x.Set.columns, sources[0].Name, x.Name); err != nil {
			return nil, err
		}
		if x.Set.Rows() == 0 {
			return nil, fmt.Errorf("%w: %s has no selected rows to mix", ErrSelect, x.Name)
		}
		if i > 0 {
			x.Set.values = v.values
		}
		sd.sets, sd.first = append(sd.sets, x.Set), append(sd.first, shards)
		shards += len(x.Set.shards)
		v.rows += x.Set.Rows()
		v.threads = max(v.threads, x.Set.opt.Threads)
		for k := range v.columns {
			v.columns[k].Nullable = v.columns[k].Nullable || x.Set.columns[k].Nullable
		}
	}
	v.on, v.local = make([]int, len(v.columns)), make([]int, len(v.columns))
	for k := range v.columns {
		v.local[k] = k
	}
	least := first.Rows()
	for _, x := range sources {
		least = min(least, x.Set.Rows())
	}
	v.params = func(mode Mode, seed uint64) order.Params {
		p := first.Params(mode, seed)
		if end == order.EndFirst && mode != Off {
			p.Lanes = order.LanesFor(uint64(least))
		}
		return p
	}
	v.seq = func(p order.Params) (sequence, error) {
		m := &mixed{side: sd, weights: make([]uint64, len(sources))}
		var parts []*order.Layout
		for i, x := range sources {
			// Lanes are shared; blocks and windows fit each source.
			own := x.Set.Params(p.Shuffle, p.Seed)
			if own.Lanes = p.Lanes; i == 0 {
				own = p
			}
			l, err := order.NewLayout(x.Set.Counts(), own)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", x.Name, err)
			}
			parts = append(parts, l)
			m.weights[i] = x.Weight
		}
		var err error
		m.mix, err = order.NewMix(parts, m.weights, end)
		return m, err
	}
	seq, err := v.seq(v.params(Blocks, 0))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSelect, err)
	}
	v.epoch, v.weights = seq.Rows(), seq.(*mixed).mix.Weights()
	v.place = func(dst [][]ref, row int64) {
		for i, s := range sd.sets {
			if row < s.Rows() {
				r := s.dense(row)
				dst[0] = append(dst[0], ref{r.shard + sd.first[i], r.row})
				return
			}
			row -= s.Rows()
		}
	}
	return v, nil
}

func sameColumns(a, b []catalog.Column, nameA, nameB string) error {
	for i := range a {
		k := slices.IndexFunc(b, func(c catalog.Column) bool { return c.Name == a[i].Name })
		if k < 0 {
			return fmt.Errorf("%w: %s has a column %q and %s does not; give columns= that both have, renamed where they are called otherwise", ErrSelect, nameA, a[i].Name, nameB)
		}
		if k != i {
			return fmt.Errorf("%w: %s and %s give their columns in different order; give columns= for both", ErrSelect, nameA, nameB)
		}
		if why := differs(&a[i], &b[k]); why != "" {
			return fmt.Errorf("%w: column %q %s in %s and %s; leave it out, or cast it", ErrSelect, a[i].Name, why, nameA, nameB)
		}
	}
	if len(b) > len(a) {
		return fmt.Errorf("%w: %s has a column %q and %s does not; give columns= that both have", ErrSelect, nameB, b[len(a)].Name, nameA)
	}
	return nil
}

func differs(a, b *catalog.Column) string {
	switch {
	case a.Kind != b.Kind || a.DType != b.DType:
		return fmt.Sprintf("is a %s of %s and a %s of %s", a.Kind, a.DType, b.Kind, b.DType)
	case !slices.Equal(a.Shape, b.Shape):
		return fmt.Sprintf("has shape %v and %v", a.Shape, b.Shape)
	case a.Unit != b.Unit:
		return fmt.Sprintf("is in %q and %q", a.Unit, b.Unit)
	case len(a.Members) != len(b.Members):
		return "has other members"
	}
	for i := range a.Members {
		if a.Members[i].Name != b.Members[i].Name {
			return "has other members"
		}
		if why := differs(&a.Members[i], &b.Members[i]); why != "" {
			return fmt.Sprintf("has a member %q that %s", a.Members[i].Name, why)
		}
	}
	return ""
}

// mixed is the order of a mix.
type mixed struct {
	side    *side
	weights []uint64
	mix     *order.Mix
}

func (m *mixed) Rows() uint64  { return m.mix.Rows() }
func (m *mixed) Lanes() uint64 { return m.mix.Lanes() }

func (m *mixed) Walk(epoch uint64) func(dst [][]ref, position uint64) {
	c := m.mix.Cursor(epoch)
	return func(dst [][]ref, position uint64) {
		i, r := c.At(position)
		dst[0] = append(dst[0], ref{m.side.first[i] + r.Shard, m.side.sets[i].rowOf(r.Shard, r.Index)})
	}
}

func (m *mixed) State(epoch, position uint64) State {
	out := State{Mix: &MixState{Weights: m.mix.Weights(), End: m.mix.End(), Epoch: epoch, Position: position}}
	for i, l := range m.mix.Sources() {
		out.Mix.Sources = append(out.Mix.Sources, m.side.sets[i].state(l, 0, 0))
	}
	out.Mix.Hash = out.Mix.digest()
	return out
}

// Pair makes a view of two sets: row i of it is row i of the first, as far as its selection goes, and row partner[i] of the second (dense row
// numbers). Columns of the second come after those of the first; their names have to differ. The error is ErrSelect.
func Pair(a, b *Set, partner []int64, key string) (*View, error) {
	if int64(len(partner)) != a.Rows() {
		return nil, fmt.Errorf("%w: %d partners for %d rows", ErrSelect, len(partner), a.Rows())
	}
	for i, r := range partner {
		if r < 0 || r >= b.Rows() {
			return nil, fmt.Errorf("%w: row %d is paired with row %d; there are %d", ErrSelect, i, r, b.Rows())
		}
	}
	v := &View{values: a.values, threads: max(a.opt.Threads, b.opt.Threads), rows: a.Rows(), params: a.Params}
	b.values = a.values
	for k, s := range []*Set{a, b} {
		v.sides = append(v.sides, side{sets: []*Set{s}, first: []int{0}})
		for i, c := range s.columns {
			if slices.ContainsFunc(v.columns, func(x catalog.Column) bool { return x.Name == c.Name }) {
				return nil, fmt.Errorf("%w: both sides have a column %q; rename one (columns={\"new\": %q})", ErrSelect, c.Name, c.Name)
			}
			v.columns, v.on, v.local = append(v.columns, c), append(v.on, k), append(v.local, i)
		}
	}
	v.place = func(dst [][]ref, row int64) {
		dst[0], dst[1] = append(dst[0], a.dense(row)), append(dst[1], b.dense(partner[row]))
	}
	v.seq = func(p order.Params) (sequence, error) {
		l, err := order.NewLayout(a.Counts(), p)
		return &paired{plain{a, l}, b, partner, key}, err
	}
	return v, nil
}

// Matched makes a view of the objects of a that have one of b within radius degrees: each with the nearest. Their positions are read from
// both releases; the selection of a shrinks to what is matched. The error is ErrSelect or that of package query.
func Matched(ctx context.Context, a, b *Set, radius float64, cache string) (*View, error) {
	opt := query.Options{Threads: max(a.opt.Threads, b.opt.Threads), Cache: cache}
	raA, decA, err := query.Positions(ctx, a.table(), a.selected, opt)
	if err != nil {
		return nil, err
	}
	raB, decB, err := query.Positions(ctx, b.table(), b.selected, opt)
	if err != nil {
		return nil, err
	}
	nearest, err := query.Match(ctx, raA, decA, raB, decB, radius, opt.Threads)
	if err != nil {
		return nil, err
	}
	partner := make([]int64, 0, len(nearest))
	h := sha256.New()
	fmt.Fprintf(h, "match1 %s %s %s %s", a.digestSel, b.id, b.digestSel, strconv.FormatFloat(radius, 'g', -1, 64))
	for _, k := range nearest {
		if k >= 0 {
			partner = append(partner, k)
		}
	}
	rows := a.selected
	if rows == nil {
		if rows, err = query.Select(ctx, a.table(), query.Selection{}, query.Options{}); err != nil {
			return nil, err
		}
	}
	kept, err := rows.Keep(func(x uint64) bool { return nearest[x] >= 0 })
	if err != nil {
		return nil, err
	}
	a.take(kept)
	fmt.Fprintf(h, " %s", a.digestSel)
	return Pair(a, b, partner, hex.EncodeToString(h.Sum(nil)))
}

// paired is the order of matched rows: that of the first side.
type paired struct {
	plain
	b       *Set
	partner []int64
	key     string // names the pairs
}

func (p *paired) Walk(epoch uint64) func(dst [][]ref, position uint64) {
	c := p.layout.Epoch(epoch).Cursor()
	return func(dst [][]ref, position uint64) {
		r := c.At(position)
		dst[0] = append(dst[0], ref{r.Shard, p.set.rowOf(r.Shard, r.Index)})
		dst[1] = append(dst[1], p.b.dense(p.partner[p.set.before[r.Shard]+int64(r.Index)]))
	}
}

func (p *paired) State(epoch, position uint64) State {
	l := p.layout
	return State{Source: order.NewState(l, int64(p.set.release.Number), p.set.id, p.key, epoch, position)}
}

// Columns describes the columns in order.
func (v *View) Columns() []catalog.Column { return slices.Clone(v.columns) }

// Rows is the number of different rows; dense row numbers go from 0 to Rows-1.
func (v *View) Rows() int64 { return v.rows }

// EpochRows is the number of positions of an epoch, which a mix has more or fewer of than rows.
func (v *View) EpochRows() uint64 {
	if v.epoch == 0 {
		return uint64(v.rows)
	}
	return v.epoch
}

// Weights are those of a mix, without their common factor; else nil.
func (v *View) Weights() []uint64 { return slices.Clone(v.weights) }
