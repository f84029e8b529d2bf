package query

import (
	"bytes"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"sort"
	"unsafe"

	"astropile/internal/catalog"
)

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

type real interface{ ~float32 | ~float64 }

// view sees packed little-endian values as what they are. Vectors start at the alignment of their values.
func view[T integer | real](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

func widen[T integer | real](out []float64, in []T) {
	in = in[:len(out)]
	for i, x := range in {
		out[i] = float64(x)
	}
}

// compareWords sets a bit for every value that compares. Each comparison has a loop of its own, which compiles to one
// comparison a value and no branch.
func compareWords[T integer | real](out []uint64, x []T, o op, c T) {
	switch o {
	case lt:
		for w := range out {
			var m uint64
			for j, v := range x[64*w : min(64*w+64, len(x))] {
				m |= uint64(b2i(v < c)) << (j & 63)
			}
			out[w] = m
		}
	case le:
		for w := range out {
			var m uint64
			for j, v := range x[64*w : min(64*w+64, len(x))] {
				m |= uint64(b2i(v <= c)) << (j & 63)
			}
			out[w] = m
		}
	case gt:
		for w := range out {
			var m uint64
			for j, v := range x[64*w : min(64*w+64, len(x))] {
				m |= uint64(b2i(v > c)) << (j & 63)
			}
			out[w] = m
		}
	case ge:
		for w := range out {
			var m uint64
			for j, v := range x[64*w : min(64*w+64, len(x))] {
				m |= uint64(b2i(v >= c)) << (j & 63)
			}
			out[w] = m
		}
	case eq:
		for w := range out {
			var m uint64
			for j, v := range x[64*w : min(64*w+64, len(x))] {
				m |= uint64(b2i(v == c)) << (j & 63)
			}
			out[w] = m
		}
	case ne: // NaN compares with nothing
		for w := range out {
			var m uint64
			for j, v := range x[64*w : min(64*w+64, len(x))] {
				m |= uint64(b2i(v < c)|b2i(v > c)) << (j & 63)
			}
			out[w] = m
		}
	}
}

// compareConst compares a numeric column with a constant that its type holds.
type compareConst struct {
	column int
	dtype  catalog.DType
	op     op
	f      float64 // for floats
	i      int64   // for signed integers
	u      uint64  // for unsigned ones and bool
}

func (p compareConst) eval(c *chunk, out []uint64) error {
	v, err := c.column(p.column)
	if err != nil {
		return err
	}
	switch p.dtype {
	case catalog.Float32:
		compareWords(out, view[float32](v.Data), p.op, float32(p.f))
	case catalog.Float64:
		compareWords(out, view[float64](v.Data), p.op, p.f)
	case catalog.Float16:
		f := c.numbers()
		for i, h := range view[uint16](v.Data) {
			f[i] = catalog.HalfToFloat(h)
		}
		compareWords(out, f, p.op, p.f)
		c.giveNumbers(f)
	case catalog.Int8:
		compareWords(out, view[int8](v.Data), p.op, int8(p.i))
	case catalog.Int16:
		compareWords(out, view[int16](v.Data), p.op, int16(p.i))
	case catalog.Int32:
		compareWords(out, view[int32](v.Data), p.op, int32(p.i))
	case catalog.Int64:
		compareWords(out, view[int64](v.Data), p.op, p.i)
	case catalog.Uint8, catalog.Bool:
		compareWords(out, view[uint8](v.Data), p.op, uint8(p.u))
	case catalog.Uint16:
		compareWords(out, view[uint16](v.Data), p.op, uint16(p.u))
	case catalog.Uint32:
		compareWords(out, view[uint32](v.Data), p.op, uint32(p.u))
	case catalog.Uint64:
		compareWords(out, view[uint64](v.Data), p.op, p.u)
	}
	known(out, v)
	return nil
}

func (p compareConst) value() float64 {
	switch {
	case p.dtype[0] == 'f':
		return p.f
	case p.dtype[0] == 'i':
		return float64(p.i)
	}
	return float64(p.u)
}

// possible compares the constant with the least and the greatest value. Numbers that float64 rounds are given the
// benefit of the doubt.
func (p compareConst) possible(r ranges) bool {
	x := r(p.column)
	if !x.known || x.text {
		return true
	}
	if x.none {
		return false
	}
	c := p.value()
	lo, hi := math.Nextafter(x.lo, math.Inf(-1)), math.Nextafter(x.hi, math.Inf(1))
	switch p.op {
	case lt, le:
		return lo <= c
	case gt, ge:
		return hi >= c
	case eq:
		return lo <= c && c <= hi
	}
	return true
}

// newCompare makes the comparison of a column with a number: the constant is rounded to a float column's type, and taken
// exactly for an integer one.
func newCompare(column int, dtype catalog.DType, o op, value any) predicate {
	switch class(dtype) {
	case 'f':
		f := toFloat(value)
		switch dtype {
		case catalog.Float32:
			f = float64(float32(f))
		case catalog.Float16:
			f = catalog.HalfToFloat(catalog.FloatToHalf(f))
		}
		if math.IsNaN(f) {
			return none{}
		}
		return compareConst{column: column, dtype: dtype, op: o, f: f}
	case 'i':
		size := 8 * dtype.Size()
		c, out := bound(o, value, -1<<(size-1), 1<<(size-1)-1)
		return settled(column, out, compareConst{column: column, dtype: dtype, op: c.op, i: int64(c.v)})
	}
	most := uint64(1)
	if dtype != catalog.Bool {
		most = ^uint64(0) >> (64 - 8*dtype.Size())
	}
	c, out := bound(o, value, 0, most)
	return settled(column, out, compareConst{column: column, dtype: dtype, op: c.op, u: c.v})
}

// settled replaces a comparison that the type of the column decides.
func settled(column int, out int, p compareConst) predicate {
	switch out {
	case 1:
		return isNull{column, true}
	case -1:
		return none{}
	}
	return p
}

type bounded struct {
	op op
	v  uint64 // bits of an int64 where negative
}

// bound finds the comparison with an integer of a type's range [lo, hi] that means the same as one with any number. out is
// 1 where every value of the type compares, -1 where none does.
func bound(o op, value any, lo int64, hi uint64) (b bounded, out int) {
	beyond := func(above bool) (bounded, int) {
		switch {
		case o == ne, above && (o == lt || o == le), !above && (o == gt || o == ge):
			return bounded{}, 1
		}
		return bounded{}, -1
	}
	switch x := value.(type) {
	case int64:
		switch {
		case x < lo:
			return beyond(false)
		case x >= 0 && uint64(x) > hi:
			return beyond(true)
		}
		return bounded{o, uint64(x)}, 0
	case float64:
		floor := math.Floor(x)
		switch {
		case math.IsNaN(x):
			return bounded{}, -1
		case x != floor && o == eq:
			return bounded{}, -1
		case x != floor && o == ne:
			return bounded{}, 1
		case x != floor && (o == lt || o == le):
			o = le
		case x != floor:
			o = gt
		}
		switch {
		case floor < float64(lo):
			return beyond(false)
		case floor >= 1<<64 || floor >= 0 && uint64(floor) > hi:
			return beyond(true)
		case floor < 0:
			return bounded{o, uint64(int64(floor))}, 0
		}
		return bounded{o, uint64(floor)}, 0
	}
	return bounded{}, -1
}

func toFloat(v any) float64 {
	if i, ok := v.(int64); ok {
		return float64(i)
	}
	return v.(float64)
}

// class is f, i, u, b or t.
func class(d catalog.DType) byte {
	switch d {
	case catalog.Bool:
		return 'b'
	case catalog.String:
		return 't'
	}
	return d[0]
}

// integerAt is value i of integers of a size, as 64 bits: those of an int64 where signed.
func integerAt(b []byte, i, size int, signed bool) uint64 {
	var x uint64
	for k := size - 1; k >= 0; k-- {
		x = x<<8 | uint64(b[i*size+k])
	}
	if shift := 64 - 8*size; signed {
		return uint64(int64(x<<shift) >> shift)
	}
	return x
}

// compareIntegers compares two integer columns exactly.
type compareIntegers struct {
	op   op
	a, b columnNumber
}

func (p compareIntegers) eval(c *chunk, out []uint64) error {
	va, err := c.column(p.a.column)
	if err != nil {
		return err
	}
	vb, err := c.column(p.b.column)
	if err != nil {
		return err
	}
	sizeA, signedA := p.a.dtype.Size(), class(p.a.dtype) == 'i'
	sizeB, signedB := p.b.dtype.Size(), class(p.b.dtype) == 'i'
	for w := range out {
		var m uint64
		for i := 64 * w; i < min(64*w+64, c.rows); i++ {
			x, y := integerAt(va.Data, i, sizeA, signedA), integerAt(vb.Data, i, sizeB, signedB)
			xn, yn := signedA && int64(x) < 0, signedB && int64(y) < 0
			var less, same bool
			switch {
			case xn != yn:
				less = xn
			default: // of one sign, the bits are in order
				less, same = x < y, x == y
			}
			var is bool
			switch p.op {
			case lt:
				is = less
			case le:
				is = less || same
			case gt:
				is = !less && !same
			case ge:
				is = !less
			case eq:
				is = same
			case ne:
				is = !same
			}
			m |= uint64(b2i(is)) << (i & 63)
		}
		out[w] = m
	}
	known(out, va)
	known(out, vb)
	return nil
}

func (p compareIntegers) possible(ranges) bool { return true }

// text is a condition on one text column.
type text struct {
	column int
	is     func(b []byte) bool
	// least and most bound the texts for which it can be true; most is not used where it is nil.
	least string
	most  *string
}

func (p text) eval(c *chunk, out []uint64) error {
	v, err := c.column(p.column)
	if err != nil {
		return err
	}
	for w := range out {
		var m uint64
		for i := 64 * w; i < min(64*w+64, c.rows); i++ {
			m |= uint64(b2i(p.is(v.Str(i)))) << (i & 63)
		}
		out[w] = m
	}
	known(out, v)
	return nil
}

func (p text) possible(r ranges) bool {
	x := r(p.column)
	if !x.known || !x.text {
		return true
	}
	return !x.none && x.max >= p.least && (p.most == nil || x.min <= *p.most)
}

func compareText(column int, o op, want string) predicate {
	w := []byte(want)
	p := text{column: column}
	switch o {
	case lt:
		p.is, p.most = func(b []byte) bool { return bytes.Compare(b, w) < 0 }, &want
	case le:
		p.is, p.most = func(b []byte) bool { return bytes.Compare(b, w) <= 0 }, &want
	case gt:
		p.is, p.least = func(b []byte) bool { return bytes.Compare(b, w) > 0 }, want
	case ge:
		p.is, p.least = func(b []byte) bool { return bytes.Compare(b, w) >= 0 }, want
	case eq:
		p.is, p.least, p.most = func(b []byte) bool { return bytes.Equal(b, w) }, want, &want
	case ne:
		p.is = func(b []byte) bool { return !bytes.Equal(b, w) }
	}
	return p
}

func negateText(p text) predicate {
	is := p.is
	return text{column: p.column, is: func(b []byte) bool { return !is(b) }}
}

func matchText(column int, re *regexp.Regexp) text { return text{column: column, is: re.Match} }

// compareTexts compares two text columns.
type compareTexts struct {
	op   op
	a, b int
}

func (p compareTexts) eval(c *chunk, out []uint64) error {
	va, err := c.column(p.a)
	if err != nil {
		return err
	}
	vb, err := c.column(p.b)
	if err != nil {
		return err
	}
	for w := range out {
		var m uint64
		for i := 64 * w; i < min(64*w+64, c.rows); i++ {
			k := bytes.Compare(va.Str(i), vb.Str(i))
			is := [...]bool{lt: k < 0, le: k <= 0, gt: k > 0, ge: k >= 0, eq: k == 0, ne: k != 0}[p.op]
			m |= uint64(b2i(is)) << (i & 63)
		}
		out[w] = m
	}
	known(out, va)
	known(out, vb)
	return nil
}

func (p compareTexts) possible(ranges) bool { return true }

// integerSet is the condition that an integer column is one of many values. Values are the bits of the column's type.
type integerSet struct {
	column int
	dtype  catalog.DType
	values []uint64 // sorted
	not    bool
}

func (p integerSet) eval(c *chunk, out []uint64) error {
	v, err := c.column(p.column)
	if err != nil {
		return err
	}
	switch p.dtype.Size() {
	case 1:
		inWords(out, view[uint8](v.Data), p.values, p.not)
	case 2:
		inWords(out, view[uint16](v.Data), p.values, p.not)
	case 4:
		inWords(out, view[uint32](v.Data), p.values, p.not)
	case 8:
		inWords(out, view[uint64](v.Data), p.values, p.not)
	}
	known(out, v)
	return nil
}

func (p integerSet) possible(r ranges) bool {
	if p.not {
		return true
	}
	return slices.ContainsFunc(p.values, func(u uint64) bool {
		one := compareConst{column: p.column, dtype: p.dtype, op: eq, u: u}
		if shift := 64 - 8*p.dtype.Size(); class(p.dtype) == 'i' {
			one.i = int64(u<<shift) >> shift
		}
		return one.possible(r)
	})
}

func inWords[T ~uint8 | ~uint16 | ~uint32 | ~uint64](out []uint64, x []T, set []uint64, not bool) {
	// A filter of few bits spares most values the search.
	var filter [64]uint64
	hash := func(v uint64) uint64 { return (v * 0x9e3779b97f4a7c15) >> 52 }
	for _, v := range set {
		filter[hash(v)>>6] |= 1 << (hash(v) & 63)
	}
	for w := range out {
		var m uint64
		for j, v := range x[64*w : min(64*w+64, len(x))] {
			u := uint64(v)
			is := false
			if h := hash(u); filter[h>>6]>>(h&63)&1 != 0 {
				k := sort.Search(len(set), func(i int) bool { return set[i] >= u })
				is = k < len(set) && set[k] == u
			}
			m |= uint64(b2i(is != not)) << j
		}
		out[w] = m
	}
}

// bitsOf is a bitwise operation of an integer column with a constant, compared with a constant: flags.
type bitsOf struct {
	column int
	dtype  catalog.DType
	do     func(x uint64) uint64
	is     func(x uint64) bool
}

func (p bitsOf) eval(c *chunk, out []uint64) error {
	v, err := c.column(p.column)
	if err != nil {
		return err
	}
	size, signed := p.dtype.Size(), class(p.dtype) == 'i'
	for w := range out {
		var m uint64
		for i := 64 * w; i < min(64*w+64, c.rows); i++ {
			m |= uint64(b2i(p.is(p.do(integerAt(v.Data, i, size, signed))))) << (i & 63)
		}
		out[w] = m
	}
	known(out, v)
	return nil
}

func (p bitsOf) possible(ranges) bool { return true }

// count is the number of bits set.
func count(b []uint64) uint64 {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return uint64(n)
}
