package parquet

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/zeebo/xxh3"

	"astropile/internal/catalog"
	"astropile/internal/shard"
)

const (
	scanBytes  = 64 << 20 // stored bytes of lists whose lengths are read before it becomes a sample
	scanGroups = 16       // row groups of a sample
)

// span is a run of rows.
type span struct{ lo, hi int64 }

func groupOf(first []int64, row int64) int {
	return sort.Search(len(first)-1, func(g int) bool { return first[g+1] > row })
}

// lengths is what the levels of a leaf say of its rows.
type lengths struct {
	all       bool // every row was looked at
	same      bool // all rows looked at have the shape dims
	dims      []int
	agree     uint64 // equal for leaves whose outer lengths are equal in every row looked at
	counts    []int64
	nullRows  bool
	nullElems bool
	uneven    string // where rows differ
}

// rowPattern is the repetition levels of a row of the shape.
func rowPattern(dims []int) []byte {
	n := 1
	for _, d := range dims {
		n *= d
	}
	out := make([]byte, n)
	shard.Fill(out, byte(len(dims)))
	stride := n
	for j, d := range dims {
		for i := 0; i < n; i += stride {
			if out[i] == byte(len(dims)) {
				out[i] = byte(j)
			}
		}
		stride /= d
	}
	return out
}

// rowDims is the shape of a row by its repetition levels, or nil where it is no box.
func rowDims(rep []byte, depth int) []int {
	strides := make([]int, depth+1)
	strides[0], strides[depth] = len(rep), 1
	for j := 1; j < depth; j++ {
		strides[j] = len(rep)
		if i := slices.IndexFunc(rep[1:], func(r byte) bool { return int(r) <= j }); i >= 0 {
			strides[j] = i + 1
		}
	}
	dims := make([]int, depth)
	for j := range dims {
		if strides[j]%strides[j+1] != 0 {
			return nil
		}
		dims[j] = strides[j] / strides[j+1]
	}
	if !bytes.Equal(rowPattern(dims), rep) {
		return nil
	}
	return dims
}

// rowsOf calls f with the span of levels of each row in a sink.
func rowsOf(rep []byte, f func(a, b int) error) error {
	for a := 0; a < len(rep); {
		b := bytes.IndexByte(rep[a+1:], 0)
		if b < 0 {
			b = len(rep)
		} else {
			b += a + 1
		}
		if err := f(a, b); err != nil {
			return err
		}
		a = b
	}
	return nil
}

// spans are the rows whose lengths are read.
func (t *Table) spans() ([]span, bool) {
	var total int64
	for g := range t.meta.RowGroups {
		for _, l := range t.leaves {
			if l.maxRep > 0 {
				total += t.meta.RowGroups[g].Columns[l.index].Meta.TotalCompressed
			}
		}
	}
	if total <= scanBytes {
		return []span{{0, t.rows}}, true
	}
	groups := len(t.meta.RowGroups)
	step := max(1, (groups+scanGroups-1)/scanGroups)
	looked := int64((groups + step - 1) / step)
	rows := max(2, int64(float64(t.rows)*scanBytes/float64(total))/looked)
	var out []span
	for g := 0; g < groups; g += step {
		if t.first[g] < t.first[g+1] {
			out = append(out, span{t.first[g], min(t.first[g+1], t.first[g]+rows)})
		}
	}
	return out, false
}

// lengthsOf reads the lengths of a leaf's lists.
func (t *Table) lengthsOf(ctx context.Context, l *leaf) (*lengths, error) {
	if x := t.known[l.index]; x != nil {
		return x, nil
	}
	spans, all := t.spans()
	x := &lengths{all: all, same: true}
	c := t.newCursor(l)
	c.levelsOnly = true
	s := newSink(l)
	var hash xxh3.Hasher
	var pattern, word []byte
	outer, inner := byte(l.slots[0]), byte(l.slots[len(l.slots)-1])
	for _, sp := range spans {
		if sp.lo == sp.hi {
			continue
		}
		if err := c.seek(ctx, sp.lo); err != nil {
			return nil, err
		}
		for row := sp.lo; row < sp.hi; {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			n := t.blockRows(l, row, sp.hi)
			s.reset()
			if err := c.read(s, int(n)); err != nil {
				return nil, err
			}
			err := rowsOf(s.rep, func(a, b int) error {
				full := true
				length := 0
				if !s.allDef {
					for i := a; i < b; i++ {
						d := s.def[i]
						full = full && d >= inner
						if d >= outer && s.rep[i] <= 1 {
							length++
						}
						x.nullElems = x.nullElems || d >= inner && d < byte(l.maxDef)
					}
					x.nullRows = x.nullRows || s.def[a] < outer-1
				} else if length = b - a; l.maxRep > 1 {
					length = 0
					for _, r := range s.rep[a:b] {
						if r <= 1 {
							length++
						}
					}
				}
				word = append(word[:0], byte(length), byte(length>>8), byte(length>>16), byte(length>>24), byte(length>>32))
				_, _ = hash.Write(word)
				if x.same && s.def[a] >= outer-1 { // null rows have any shape
					x.see(full, s.rep[a:b], l, row, &pattern)
				}
				row++
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
	}
	x.agree = hash.Sum64()
	x.settle(t, l)
	t.known[l.index] = x
	return x, nil
}

func (x *lengths) see(full bool, rep []byte, l *leaf, row int64, pattern *[]byte) {
	switch {
	case !full:
		x.same, x.uneven = false, fmt.Sprintf("row %d has an empty list", row)
	case x.dims == nil:
		x.dims = rowDims(rep, l.maxRep)
		*pattern = rep
		if x.dims == nil {
			x.same, x.uneven = false, fmt.Sprintf("the lists within row %d differ in length", row)
			return
		}
		*pattern = slices.Clone(rep)
	case !bytes.Equal(rep, *pattern):
		x.same, x.uneven = false, fmt.Sprintf("row %d differs from the shape %s of the rows before it", row, times(x.dims))
	}
}

// settle joins what was looked at with the counts of the footer.
func (x *lengths) settle(t *Table, l *leaf) {
	x.same = x.same && x.dims != nil
	elems := int64(1)
	for _, d := range x.dims {
		elems *= int64(d)
	}
	nulls := int64(0)
	for g := range t.meta.RowGroups {
		m := &t.meta.RowGroups[g].Columns[l.index].Meta
		x.counts = append(x.counts, m.NumValues)
		rows := t.first[g+1] - t.first[g]
		if !x.all && x.same && m.NumValues != elems*rows {
			if missing := elems*rows - m.NumValues; elems > 1 && missing > 0 && missing%(elems-1) == 0 && l.maxDef > len(l.slots) {
				x.nullRows = true // each counts as one value
			} else {
				x.same, x.uneven = false, fmt.Sprintf("row group %d has %d values in %d rows", g, m.NumValues, rows)
			}
		}
		if m.Statistics == nil || m.Statistics.NullCount < 0 {
			nulls = -1
		} else if nulls >= 0 {
			nulls += m.Statistics.NullCount
		}
	}
	if !x.all && nulls != 0 && l.maxDef > l.slots[len(l.slots)-1] {
		x.nullElems = true
	}
}

// blockRows is how many rows from row on are worked on together: some 64 Ki levels.
func (t *Table) blockRows(l *leaf, row, hi int64) int64 {
	m := &t.meta.RowGroups[groupOf(t.first, row)].Columns[l.index].Meta
	g := groupOf(t.first, row)
	per := max(1, m.NumValues/max(1, t.first[g+1]-t.first[g]))
	return min(hi-row, max(1, (64<<10)/per))
}

func times(dims []int) string {
	var parts []string
	for _, d := range dims {
		parts = append(parts, fmt.Sprint(d))
	}
	return strings.Join(parts, " x ")
}

// checkShape says whether a shape can be a row of a dtype.
func checkShape(d catalog.DType, dims []int) error {
	c := catalog.Column{Name: "x", Kind: catalog.Tensor, DType: d, Shape: dims}
	return c.Check()
}
