package query

import (
	"math"
	"slices"

	"astropile/internal/catalog"
)

// op is a comparison.
type op uint8

const (
	lt op = iota
	le
	gt
	ge
	eq
	ne
)

var opNames = map[string]op{"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}

// negated is the comparison that holds where both sides are known and this one does not.
func (o op) negated() op { return [...]op{lt: ge, le: gt, gt: le, ge: lt, eq: ne, ne: eq}[o] }

// swapped is the comparison with its sides exchanged.
func (o op) swapped() op { return [...]op{lt: gt, le: ge, gt: lt, ge: le, eq: eq, ne: ne}[o] }

// chunk is a run of rows that a predicate is evaluated for. Columns are decoded when they are first asked for.
type chunk struct {
	rows    int
	columns []*catalog.Vector
	load    func(column int) (*catalog.Vector, error)
	free    [][]uint64  // scratch
	floats  [][]float64 // scratch
}

func (c *chunk) column(i int) (*catalog.Vector, error) {
	if c.columns[i] == nil {
		v, err := c.load(i)
		if err != nil {
			return nil, err
		}
		c.columns[i] = v
	}
	return c.columns[i], nil
}

func words(rows int) int { return (rows + 63) / 64 }

func (c *chunk) bits() []uint64 {
	n := words(c.rows)
	if k := len(c.free); k > 0 {
		b := c.free[k-1]
		c.free = c.free[:k-1]
		if cap(b) >= n {
			return b[:n]
		}
	}
	return make([]uint64, n)
}

func (c *chunk) giveBits(b []uint64) { c.free = append(c.free, b) }

func (c *chunk) numbers() []float64 {
	if k := len(c.floats); k > 0 {
		b := c.floats[k-1]
		c.floats = c.floats[:k-1]
		if cap(b) >= c.rows {
			return b[:c.rows]
		}
	}
	return make([]float64, c.rows)
}

func (c *chunk) giveNumbers(b []float64) { c.floats = append(c.floats, b) }

// ones sets the bits of all rows.
func (c *chunk) ones(out []uint64) {
	for i := range out {
		out[i] = ^uint64(0)
	}
	if tail := c.rows % 64; tail > 0 {
		out[len(out)-1] = 1<<tail - 1
	}
}

// known clears the bits of rows where a vector is null.
func known(out []uint64, v *catalog.Vector) {
	if v.Valid == nil {
		return
	}
	for w := range out {
		valid := v.Valid[64*w : min(64*w+64, len(v.Valid))]
		var m uint64
		for j, ok := range valid {
			m |= uint64(b2i(ok)) << j
		}
		out[w] &= m
	}
}

func b2i(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// predicate is a condition in which no negation is left: an unknown row is one whose bit is not set.
type predicate interface {
	// eval sets the bit of every row for which the condition is true, and clears the others.
	eval(c *chunk, out []uint64) error
	// possible says whether any row can be true, judged by the ranges of columns.
	possible(r ranges) bool
}

// interval is what is known of the values of a column in a run of rows: the least and the greatest that compare, as
// numbers or texts, and how many rows are null.
type interval struct {
	known    bool
	lo, hi   float64 // outward-rounded where the column has 64-bit integers
	min, max string
	text     bool
	nulls    int64 // -1: not known
	rows     int64
	none     bool // no value compares
}

// ranges gives what is known of a column.
type ranges func(column int) interval

type all struct{}

func (all) eval(c *chunk, out []uint64) error { c.ones(out); return nil }
func (all) possible(ranges) bool              { return true }

type none struct{}

func (none) eval(_ *chunk, out []uint64) error { clear(out); return nil }
func (none) possible(ranges) bool              { return false }

type and struct{ parts []predicate }

func (p and) eval(c *chunk, out []uint64) error {
	if err := p.parts[0].eval(c, out); err != nil {
		return err
	}
	for _, x := range p.parts[1:] {
		if !slices.ContainsFunc(out, func(w uint64) bool { return w != 0 }) {
			return nil
		}
		b := c.bits()
		if err := x.eval(c, b); err != nil {
			return err
		}
		for i := range out {
			out[i] &= b[i]
		}
		c.giveBits(b)
	}
	return nil
}

func (p and) possible(r ranges) bool {
	return !slices.ContainsFunc(p.parts, func(x predicate) bool { return !x.possible(r) })
}

type or struct{ parts []predicate }

func (p or) eval(c *chunk, out []uint64) error {
	if err := p.parts[0].eval(c, out); err != nil {
		return err
	}
	for _, x := range p.parts[1:] {
		b := c.bits()
		if err := x.eval(c, b); err != nil {
			return err
		}
		for i := range out {
			out[i] |= b[i]
		}
		c.giveBits(b)
	}
	return nil
}

func (p or) possible(r ranges) bool {
	return slices.ContainsFunc(p.parts, func(x predicate) bool { return x.possible(r) })
}

// isNull is true where a column is null, or (not) where it is not.
type isNull struct {
	column int
	not    bool
}

func (p isNull) eval(c *chunk, out []uint64) error {
	v, err := c.column(p.column)
	if err != nil {
		return err
	}
	c.ones(out)
	known(out, v)
	if !p.not {
		all := c.bits()
		c.ones(all)
		for i := range out {
			out[i] ^= all[i]
		}
		c.giveBits(all)
	}
	return nil
}

func (p isNull) possible(r ranges) bool {
	x := r(p.column)
	if !x.known || x.nulls < 0 {
		return true
	}
	if p.not {
		return x.nulls < x.rows
	}
	return x.nulls > 0
}

// isNaN is true where a float is NaN, or (not) where it is a number; a null is neither.
type isNaN struct {
	x   number
	not bool
}

func (p isNaN) eval(c *chunk, out []uint64) error {
	// The values say NaN for null as well, so the nulls of a column are taken out.
	col, isColumn := p.x.(columnNumber)
	f := c.numbers()
	defer func() { c.giveNumbers(f) }()
	if err := p.x.eval(c, f); err != nil {
		return err
	}
	setBits(out, f, func(x float64) bool { return (x != x) != p.not })
	if isColumn && !p.not {
		v, err := c.column(col.column)
		if err != nil {
			return err
		}
		known(out, v)
	}
	return nil
}

func (p isNaN) possible(ranges) bool { return true }

func setBits(out []uint64, f []float64, is func(float64) bool) {
	for w := range out {
		var m uint64
		for j, x := range f[64*w : min(64*w+64, len(f))] {
			m |= uint64(b2i(is(x))) << j
		}
		out[w] = m
	}
}

// compareNumbers compares two expressions as float64; NaN, and so null, compares with nothing.
type compareNumbers struct {
	op   op
	a, b number
}

func (p compareNumbers) eval(c *chunk, out []uint64) error {
	x, y := c.numbers(), c.numbers()
	defer func() { c.giveNumbers(x); c.giveNumbers(y) }()
	if err := p.a.eval(c, x); err != nil {
		return err
	}
	if err := p.b.eval(c, y); err != nil {
		return err
	}
	for w := range out {
		lo, hi := 64*w, min(64*w+64, c.rows)
		var m uint64
		for j := range hi - lo {
			x, y := x[lo+j], y[lo+j]
			var is bool
			switch p.op {
			case lt:
				is = x < y
			case le:
				is = x <= y
			case gt:
				is = x > y
			case ge:
				is = x >= y
			case eq:
				is = x == y
			case ne:
				is = x < y || x > y
			}
			m |= uint64(b2i(is)) << j
		}
		out[w] = m
	}
	return nil
}

func (p compareNumbers) possible(ranges) bool { return true }

// number is an expression that gives a float64 a row; NaN where it is null.
type number interface {
	eval(c *chunk, out []float64) error
}

type constNumber float64

func (n constNumber) eval(_ *chunk, out []float64) error {
	for i := range out {
		out[i] = float64(n)
	}
	return nil
}

type columnNumber struct {
	column int
	dtype  catalog.DType
}

func (n columnNumber) eval(c *chunk, out []float64) error {
	v, err := c.column(n.column)
	if err != nil {
		return err
	}
	switch n.dtype {
	case catalog.Float32:
		widen(out, view[float32](v.Data))
	case catalog.Float64:
		copy(out, view[float64](v.Data))
	case catalog.Int8:
		widen(out, view[int8](v.Data))
	case catalog.Int16:
		widen(out, view[int16](v.Data))
	case catalog.Int32:
		widen(out, view[int32](v.Data))
	case catalog.Int64:
		widen(out, view[int64](v.Data))
	case catalog.Uint8, catalog.Bool:
		widen(out, view[uint8](v.Data))
	case catalog.Uint16:
		widen(out, view[uint16](v.Data))
	case catalog.Uint32:
		widen(out, view[uint32](v.Data))
	case catalog.Uint64:
		widen(out, view[uint64](v.Data))
	case catalog.Float16:
		for i, h := range view[uint16](v.Data) {
			out[i] = catalog.HalfToFloat(h)
		}
	}
	if v.Valid != nil {
		for i, ok := range v.Valid {
			if !ok {
				out[i] = math.NaN()
			}
		}
	}
	return nil
}

// arith1 and arith2 are arithmetic.
type arith1 struct {
	x  number
	do func(x float64) float64
}

func (n arith1) eval(c *chunk, out []float64) error {
	if err := n.x.eval(c, out); err != nil {
		return err
	}
	for i, x := range out {
		out[i] = n.do(x)
	}
	return nil
}

type arith2 struct {
	a, b number
	do   func(x, y float64) float64
}

func (n arith2) eval(c *chunk, out []float64) error {
	if err := n.a.eval(c, out); err != nil {
		return err
	}
	y := c.numbers()
	defer func() { c.giveNumbers(y) }()
	if err := n.b.eval(c, y); err != nil {
		return err
	}
	for i := range out {
		out[i] = n.do(out[i], y[i])
	}
	return nil
}
