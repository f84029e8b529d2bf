package survey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// tableReader reads an input whose rows are objects.
type tableReader struct {
	base
	t     table.Table
	binds []binding
	reads []tableRead // for each of binds
	slab  int64
}

// tableRead is where the values of a column, or of the members of a struct, come from.
type tableRead struct {
	parts []tablePart
}

// tablePart is a field of the table, or a member of it, for one mapping.
type tablePart struct {
	m      *Mapping
	field  int // -1: the input lacks it, and rows are null
	member int // -1: the field itself
	native catalog.Column
	padded bool
}

// maxTableRow bounds what a row of a table may take in memory.
const maxTableRow = 1 << 30

func (b *base) openTable(t table.Table) (Reader, error) {
	r := &tableReader{base: *b, t: t}
	fields := t.Fields()
	at := map[string]int{}
	for i := range fields {
		at[fields[i].Source] = i
	}
	used := map[string]bool{} // sources, and source NUL member
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s: %s", ErrMapping, b.in.Path, fmt.Sprintf(format, args...)))
	}
	take := func(m *Mapping) tablePart {
		p := tablePart{m: m, field: -1, member: -1}
		i, ok := at[m.Source]
		if m.Member != "" && (!ok || fields[i].Column.Kind != catalog.Struct) {
			// Where all lists of a struct are of one length, a table may offer them one by one.
			i, ok = at[m.Source+"."+m.Member]
			used[m.Source+"."+m.Member] = true
		} else if m.Member != "" {
			used[m.Source+"\x00"+m.Member] = true
			p.member = slices.IndexFunc(fields[i].Column.Members, func(c catalog.Column) bool { return c.Name == m.Member })
			ok = p.member >= 0
		} else {
			used[m.Source] = true
		}
		switch {
		case !ok && !m.Nullable:
			fail("there is no %q for column %q; a scalar or a list may be missing where the recipe says nullable: true", m.key(), m.Name)
			return p
		case !ok:
			return p
		}
		f := &fields[i]
		if f.Empty && p.member < 0 {
			if !m.Nullable && t.Rows() > 0 {
				fail("%q has no value in any row, and column %q always has; nullable: true lets it have none", m.key(), m.Name)
			}
			return p
		}
		p.field, p.native, p.padded = i, f.Column, f.Padded
		if p.member >= 0 {
			p.native = f.Column.Members[p.member]
		}
		err := f.Err
		if err == nil {
			err = suits(m, &p.native)
		}
		if err != nil {
			fail("%q does not fit column %q (%s of %s): %v", m.key(), m.Name, m.Kind, m.DType, err)
		}
		return p
	}
	for i, m := range b.maps {
		x := binding{m: m, col: b.cols[i], f: &field{}}
		var read tableRead
		switch {
		case m.From == FromSplit:
		case m.Kind == catalog.Struct:
			for k := range m.Members {
				read.parts = append(read.parts, take(&m.Members[k]))
			}
		default:
			read.parts = append(read.parts, take(m))
		}
		if b.opt.only == nil || b.opt.only(m) {
			r.binds, r.reads = append(r.binds, x), append(r.reads, read)
		}
	}
	for _, f := range kept(b.recipe, fields) {
		if b.opt.lenient {
			break
		}
		if f.Column.Kind != catalog.Struct || used[f.Source] {
			if !used[f.Source] {
				fail("%q is in no column; put it in one, or leave it out (drop: [%s])", f.Source, f.Source)
			}
			continue
		}
		for _, c := range f.Column.Members {
			if !used[f.Source+"\x00"+c.Name] {
				fail("%q is in no column; put it in one, or leave it out (drop: [%s.%s])", f.Source+"."+c.Name, f.Source, c.Name)
			}
		}
	}
	if len(errs) > maxProblemText {
		errs = append(errs[:maxProblemText:maxProblemText], fmt.Errorf("%w: %d more", ErrMapping, len(errs)-maxProblemText))
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	row := max(1, t.RowBytes())
	if row > maxTableRow {
		return nil, fmt.Errorf("%w: %s: a row takes %d bytes, at most %d", ErrMapping, b.in.Path, row, maxTableRow)
	}
	r.slab = max(1, b.opt.slab/row)
	if grain := t.Grain(); grain > 1 && grain <= r.slab {
		r.slab -= r.slab % grain
	}
	return r, nil
}

func (r *tableReader) Rows() int64  { return r.t.Rows() }
func (r *tableReader) Slab() int64  { return r.slab }
func (r *tableReader) Close() error { return r.t.Close() }

// suits says whether a column of a table can be read as a mapping wants it, value by value aside.
func suits(m *Mapping, c *catalog.Column) error {
	text := c.DType == catalog.String
	if c.Kind == catalog.Struct {
		return errors.New("it is a group of lists; name its members (kind: struct)")
	}
	if text != (m.DType == catalog.String) {
		k, _ := number(c.DType)
		if !(m.DType == catalog.String && m.Kind == catalog.Scalar && c.Kind == catalog.Scalar && (k == 'i' || k == 'u')) {
			return fmt.Errorf("it holds %s, not %s", c.DType, m.DType)
		}
	}
	switch m.Kind {
	case catalog.Scalar:
		if c.Kind != catalog.Scalar && !(c.Kind == catalog.Tensor && c.Elems() == 1) {
			return fmt.Errorf("it is a %s of shape %v, not one value", c.Kind, c.Shape)
		}
	case catalog.Tensor:
		switch {
		case c.Kind == catalog.Scalar && elements(m.Shape) == 1:
		case c.Kind == catalog.List && len(m.Shape) == 1:
		case c.Kind != catalog.Tensor:
			return fmt.Errorf("it is a %s, not a tensor of shape %v", c.Kind, m.Shape)
		case slices.Equal(c.Shape, m.Shape), reshapes(c.Shape, m.Shape, m.Pad):
		case len(c.Shape) != len(m.Shape):
			return fmt.Errorf("it has shape %v a row, not %v", c.Shape, m.Shape)
		default:
			for i, d := range c.Shape {
				if d > m.Shape[i] || d < m.Shape[i] && m.Pad == nil {
					return fmt.Errorf("it has shape %v a row, not %v", c.Shape, m.Shape)
				}
			}
		}
	case catalog.List:
		if m.Split != "" && c.Kind == catalog.Scalar {
			return nil
		}
		if c.Kind != catalog.List && !(c.Kind == catalog.Tensor && len(c.Shape) == 1) {
			return fmt.Errorf("it is a %s of shape %v, which is no list", c.Kind, c.Shape)
		}
	}
	return nil
}

// reshapes says whether shape: asks for the same elements along another number of axes. With the same number of axes the
// shapes of inputs differ, by a transposition perhaps, and that is refused.
func reshapes(from, to []int, pad *float64) bool {
	return pad == nil && len(from) != len(to) && elements(from) == elements(to)
}

func (r *tableReader) Read(ctx context.Context, lo, hi int64) (*catalog.Batch, error) {
	if err := r.rangeError(lo, hi, r.Rows()); err != nil {
		return nil, err
	}
	r.trimmed = nil
	n := int(hi - lo)
	want, at := r.requests()
	got, err := r.t.Read(ctx, lo, hi, want)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	vectors := make([]*catalog.Vector, len(r.binds))
	for i := range r.binds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		x := &r.binds[i]
		switch {
		case x.m.From == FromSplit:
			v := catalog.NewVector(&x.col)
			for range n {
				if r.in.Split == "" {
					appendNull(v, x.m)
				} else {
					appendText(v, r.in.Split)
				}
			}
			vectors[i] = v
		case x.m.Kind == catalog.Struct:
			vectors[i], err = r.structure(x, &r.reads[i], got, at, lo, n)
		default:
			vectors[i], err = r.column(x.m, &x.col, &r.reads[i].parts[0], got, at, lo, n)
		}
		if err != nil {
			return nil, err
		}
	}
	return r.finish(r.binds, vectors, lo, n)
}

// asked says where in the answers of a table the values of a field are. Where the recipe's fill does not fit the field's own
// type (255 among bools, the least int64 among int32), the field is read twice, with two fills that do: elements that
// differ are null. other is the second answer, else -1.
type asked struct{ first, other int }

// requests lists what is asked of the table: every field once or twice, with what stands for null elements.
func (r *tableReader) requests() (want []table.Request, at map[int]asked) {
	at = map[int]asked{}
	fields := r.t.Fields()
	for i := range r.reads {
		for _, p := range r.reads[i].parts {
			if p.field < 0 {
				continue
			}
			k, ok := at[p.field]
			if !ok {
				k = asked{len(want), -1}
				want = append(want, table.Request{Field: p.field, Fill: make([]any, max(1, len(fields[p.field].Column.Members)))})
			}
			fill := p.m.Fill
			if fill == nil && p.m.Pad != nil && len(fields[p.field].Missing) == 0 {
				fill = *p.m.Pad // of images, which the table itself fills up
			}
			if fill != nil && p.native.Kind != catalog.Scalar {
				member := max(0, p.member)
				first, other, fits := nativeFills(fill, p.native.DType)
				want[k.first].Fill[member] = first
				// Of integers it has to be known which elements are null, or a value that equals the fill would pass for one.
				if i := max(0, p.member); fits && integral(p.native.DType) && i < len(fields[p.field].Missing) && fields[p.field].Missing[i] {
					fits = false
					if other = 0.0; first == other {
						other = 1.0
					}
				}
				if !fits && k.other < 0 {
					k.other = len(want)
					want = append(want, table.Request{Field: p.field, Fill: slices.Clone(want[k.first].Fill)})
				}
				if k.other >= 0 {
					want[k.other].Fill[member] = other
				}
			}
			at[p.field] = k
		}
	}
	return want, at
}

// integral says whether values of a type are whole numbers or bools.
func integral(d catalog.DType) bool {
	class, _ := number(d)
	return class == 'i' || class == 'u' || class == 'b'
}

// nativeFills gives the fill for elements of type d, and where it does not fit them two others that do.
func nativeFills(fill any, d catalog.DType) (first, other any, fits bool) {
	x, ok := fill.(float64)
	class, bits := number(d)
	if !ok {
		return fill, fill, true
	}
	if d.Complex() {
		class, bits = 'f', bits/2
	}
	if class == 'b' && (x == 0 || x == 1) || class != 'b' && putNumber(make([]byte, bits/8), class, bits, x, false) {
		return fill, fill, true
	}
	switch class {
	case 'i':
		return -math.Ldexp(1, bits-1), 0.0, false
	case 'u':
		return math.Ldexp(1, bits-1), 0.0, false
	}
	return 0.0, 1.0, false
}

// nulls marks the elements of n that were null, by what two fills made of them; nil where none was.
func nulls(a, b []byte, size int) []bool {
	if bytes.Equal(a, b) {
		return nil
	}
	out := make([]bool, len(a)/size)
	for i := range out {
		out[i] = !bytes.Equal(a[i*size:(i+1)*size], b[i*size:(i+1)*size])
	}
	return out
}

func (r *tableReader) rowError(row int64, column, format string, args ...any) error {
	return r.valueError(row, column, fmt.Errorf(format, args...))
}

// structure joins the members of a struct.
func (r *tableReader) structure(x *binding, read *tableRead, got []*catalog.Vector, at map[int]asked, lo int64, n int) (*catalog.Vector, error) {
	out := &catalog.Vector{Rows: n}
	for k := range read.parts {
		p := &read.parts[k]
		m := p.m
		v, err := r.column(m, &x.col.Members[k], p, got, at, lo, n)
		if err != nil {
			return nil, err
		}
		v.Valid = nil // a null row is an empty one
		if k > 0 {
			first := out.Members[0]
			for i := range n {
				if a, b := first.Offsets[i+1]-first.Offsets[i], v.Offsets[i+1]-v.Offsets[i]; a != b {
					return nil, r.rowError(lo+int64(i), x.m.Name, "member %q has %d elements and %q has %d; lists whose lengths differ are columns of their own (kind: list)", x.m.Members[0].Name, a, m.Name, b)
				}
			}
		}
		out.Members = append(out.Members, v)
	}
	return out, nil
}

// column converts the values of one field, or member, to a column.
func (r *tableReader) column(m *Mapping, col *catalog.Column, p *tablePart, got []*catalog.Vector, at map[int]asked, lo int64, n int) (*catalog.Vector, error) {
	if p.field < 0 {
		v := catalog.NewVector(col)
		for range n {
			if m.Kind == catalog.List {
				appendNullList(v)
			} else {
				appendNull(v, m)
			}
		}
		return v, nil
	}
	k := at[p.field]
	src := p.of(got[k.first])
	var other *catalog.Vector
	if k.other >= 0 {
		other = p.of(got[k.other])
	}
	valid := src.Valid
	if valid != nil && !slices.Contains(valid, false) {
		valid = nil
	}
	var v *catalog.Vector
	var err error
	switch {
	case m.DType == catalog.String:
		v, err = r.texts(m, p, src, lo, n)
	case m.Kind == catalog.List:
		v, err = r.list(m, p, src, other, lo, n)
	default:
		v, err = r.fixed(m, p, src, other, valid, lo, n)
	}
	if err != nil {
		return nil, err
	}
	v.Valid = valid
	if valid == nil || p.member >= 0 {
		return v, nil
	}
	first := int64(slices.Index(valid, false))
	switch {
	case m.Fill != nil && m.Kind != catalog.List:
		if err := fillRows(v, m, valid); err != nil {
			return nil, r.valueError(lo+first, m.Name, err)
		}
		v.Valid = nil
	case !m.Nullable && m.Name != r.recipe.ID && m.Name != r.recipe.RA && m.Name != r.recipe.Dec:
		if m.Kind == catalog.Tensor {
			return nil, r.rowError(lo+first, m.Name, "the value is null, which no tensor is; fill: VALUE says what its elements are then")
		}
		return nil, r.rowError(lo+first, m.Name, "the value is null; nullable: true lets it be, and fill: VALUE says what stands for it")
	case !m.Nullable && m.Name == r.recipe.ID:
		return nil, r.rowError(lo+first, m.Name, "the id is null")
	}
	return v, nil
}

// of is the part's own vector: that of the field, or that of the member.
func (p *tablePart) of(v *catalog.Vector) *catalog.Vector {
	if p.member < 0 {
		return v
	}
	m := *v.Members[p.member]
	if m.Valid == nil {
		m.Valid = v.Valid
	}
	return &m
}

func appendNullList(v *catalog.Vector) {
	if v.Valid == nil {
		v.Valid = slices.Repeat([]bool{true}, v.Rows)
	}
	v.Valid = append(v.Valid, false)
	v.Offsets = append(v.Offsets, v.Offsets[v.Rows])
	v.Rows++
}

// fillRows puts the fill where rows are null.
func fillRows(v *catalog.Vector, m *Mapping, valid []bool) error {
	if m.DType == catalog.String {
		out := &catalog.Vector{Offsets: []int64{0}}
		s, _ := m.Fill.(string)
		for i, ok := range valid {
			if ok {
				appendText(out, string(v.Str(i)))
			} else {
				appendText(out, s)
			}
		}
		v.Data, v.Offsets = out.Data, out.Offsets
		return nil
	}
	one := make([]byte, m.DType.Size())
	if err := putFill(one, m); err != nil {
		return err
	}
	n := m.DType.Size() * elements(m.Shape)
	for i, ok := range valid {
		if row := v.Data[i*n : (i+1)*n]; !ok {
			for at := 0; at < n; at += len(one) {
				copy(row[at:], one)
			}
		} else if class, _ := number(m.DType); class != 'f' && class != 'c' && bytes.Equal(row, slices.Repeat(one, elements(m.Shape))) {
			return fmt.Errorf("row %d of what was read equals fill: %v, which stands for null; choose another", i, m.Fill)
		}
	}
	return nil
}

// putFill writes the fill as an element.
func putFill(one []byte, m *Mapping) error {
	f, ok := m.Fill.(float64)
	class, bits := number(m.DType)
	switch {
	case !ok:
		return fmt.Errorf("fill: %v is no %s", m.Fill, m.DType)
	case class == 'b' && (f == 0 || f == 1):
		one[0] = byte(f)
	case class == 'c':
		putFloat(one[:len(one)/2], bits/2, f, true)
		putFloat(one[len(one)/2:], bits/2, 0, true)
	case class == 'f':
		putFloat(one, bits, f, true)
	case !putNumber(one, class, bits, f, false):
		return fmt.Errorf("fill: %v is no %s", m.Fill, m.DType)
	}
	return nil
}

// convert gives count elements of a field from element from on in the mapping's type. What the file holds in that type
// already is passed on as it is.
func (r *tableReader) convert(m *Mapping, p *tablePart, src, other *catalog.Vector, from, count int, row func(element int) int64) ([]byte, error) {
	e := elem{dt: p.native.DType, size: p.native.DType.Size()}
	if (from+count)*e.size > len(src.Data) {
		return nil, fmt.Errorf("%w: %s: %q: %d elements were announced and %d came", ErrInput, r.in.Path, m.key(), from+count, len(src.Data)/e.size)
	}
	data := src.Data[from*e.size : (from+count)*e.size]
	var null []bool
	if other != nil {
		null = nulls(data, other.Data[from*e.size:(from+count)*e.size], e.size)
	}
	if e.dt == m.DType && other == nil {
		if m.DType == catalog.Bool {
			if i := notBool(data); i >= 0 {
				return nil, r.valueError(row(i), m.Name, inexact(m, data, &e, i))
			}
		}
		return data, nil
	}
	size := m.DType.Size()
	out := make([]byte, count*size)
	if i := convert(out, m.DType, data, &e, count, m.Round); i >= 0 {
		return nil, r.valueError(row(i), m.Name, inexact(m, data, &e, i))
	}
	if other == nil || m.Fill == nil {
		return out, nil
	}
	one := make([]byte, size)
	if err := putFill(one, m); err != nil {
		return nil, r.valueError(row(0), m.Name, err)
	}
	exact := integral(m.DType)
	for i := range count {
		at := out[i*size : (i+1)*size]
		switch {
		case null != nil && null[i]:
			copy(at, one)
		case exact && bytes.Equal(at, one):
			return nil, r.rowError(row(i), m.Name, "a value equals fill: %v, which stands for null elements here; choose another fill", m.Fill)
		}
	}
	return out, nil
}

// fixed converts scalars and tensors of numbers.
func (r *tableReader) fixed(m *Mapping, p *tablePart, src, other *catalog.Vector, valid []bool, lo int64, n int) (*catalog.Vector, error) {
	per := elements(m.Shape)
	if p.native.Kind != catalog.List && p.native.Elems() == per {
		data, err := r.convert(m, p, src, other, 0, n*per, func(i int) int64 { return lo + int64(i/per) })
		return &catalog.Vector{Rows: n, Data: data}, err
	}
	start := func(i int) int { return i * p.native.Elems() }
	if p.native.Kind == catalog.List {
		start = func(i int) int { return int(src.Offsets[i]) }
	}
	from := start(0)
	data, err := r.convert(m, p, src, other, from, start(n)-from, func(k int) int64 {
		return lo + int64(sort.Search(n, func(i int) bool { return start(i+1)-from > k }))
	})
	if err != nil {
		return nil, err
	}
	e := elem{dt: m.DType, size: m.DType.Size()}
	v := &catalog.Vector{Rows: n, Data: make([]byte, 0, n*per*e.size)}
	for i := range n {
		f := &field{elem: e, shape: p.native.Shape}
		a, b := start(i)-from, start(i+1)-from
		if p.native.Kind == catalog.List {
			f.shape = []int{b - a}
			if b-a > per || b-a < per && m.Pad == nil {
				if valid == nil || valid[i] {
					return nil, r.rowError(lo+int64(i), m.Name, "%d elements, not %d", b-a, per)
				}
				v.Data = append(v.Data, make([]byte, per*e.size)...)
				continue
			}
		}
		if err := appendTensor(v, m, &cell{f: f, data: data[a*e.size : b*e.size]}); err != nil {
			return nil, r.valueError(lo+int64(i), m.Name, err)
		}
	}
	return v, nil
}

// list converts lists of numbers, and tensors of one axis to them.
func (r *tableReader) list(m *Mapping, p *tablePart, src, other *catalog.Vector, lo int64, n int) (*catalog.Vector, error) {
	v := &catalog.Vector{Rows: n, Offsets: src.Offsets}
	if p.native.Kind == catalog.Tensor {
		v.Offsets = make([]int64, n+1)
		for i := range v.Offsets {
			v.Offsets[i] = int64(i * p.native.Elems())
		}
	}
	from := v.Offsets[0]
	if from != 0 {
		v.Offsets = slices.Clone(v.Offsets)
		for i := range v.Offsets {
			v.Offsets[i] -= from
		}
	}
	var err error
	v.Data, err = r.convert(m, p, src, other, int(from), int(v.Offsets[n]), func(k int) int64 {
		return lo + int64(sort.Search(n, func(i int) bool { return v.Offsets[i+1] > int64(k) }))
	})
	return v, err
}

// texts converts text: scalars, lists, one text that is parted, and integers written in decimal.
func (r *tableReader) texts(m *Mapping, p *tablePart, src *catalog.Vector, lo int64, n int) (*catalog.Vector, error) {
	isID := p.member < 0 && m.Name == r.recipe.ID
	e := elem{dt: p.native.DType, size: p.native.DType.Size()}
	decode := func(row int64, b []byte) ([]byte, error) {
		if p.padded && m.Text != TextPadded && m.Text != TextLatin1 {
			b = bytes.TrimRight(b, "\x00")
		}
		out, ok := m.Text.decode(b)
		if !ok {
			return nil, r.rowError(row, m.Name, "%q is not UTF-8 (text: latin1 reads ISO 8859-1)", b)
		}
		if isID && m.Text == TextID && !bytes.Equal(out, b) {
			r.trimmed = append(r.trimmed, row)
		}
		return out, nil
	}
	v := &catalog.Vector{Rows: n, Offsets: make([]int64, 1, n+1)}
	if m.Kind == catalog.Scalar {
		if p.native.DType == catalog.String && (m.Text == TextExact || m.Text == "") && !p.padded && p.native.Kind == catalog.Scalar {
			if _, ok := TextExact.decode(src.Data[src.Offsets[0]:src.Offsets[n]]); ok {
				return &catalog.Vector{Rows: n, Data: src.Data, Offsets: src.Offsets}, nil
			}
		}
		for i := range n {
			row := lo + int64(i)
			var b []byte
			switch class, _ := number(p.native.DType); class {
			case 'i':
				b = strconv.AppendInt(nil, int64(getInt(src.Data[i*e.size:(i+1)*e.size], true)), 10)
			case 'u':
				b = strconv.AppendUint(nil, getInt(src.Data[i*e.size:(i+1)*e.size], false), 10)
			default:
				var err error
				if b, err = decode(row, src.Str(i)); err != nil {
					return nil, err
				}
			}
			v.Data = append(v.Data, b...)
			v.Offsets = append(v.Offsets, int64(len(v.Data)))
		}
		return v, nil
	}
	v.StrOffsets = []int64{0}
	for i := range n {
		row := lo + int64(i)
		if m.Split != "" && p.native.Kind == catalog.Scalar {
			b, err := decode(row, src.Str(i))
			if err != nil {
				return nil, err
			}
			appendTexts(v, parts(b, m.Split))
			continue
		}
		list := []string{}
		for k := src.Offsets[i]; k < src.Offsets[i+1]; k++ {
			b, err := decode(row, src.Data[src.StrOffsets[k]:src.StrOffsets[k+1]])
			if err != nil {
				return nil, err
			}
			list = append(list, string(b))
		}
		appendTexts(v, list)
	}
	return v, nil
}

// scale multiplies floats in place, and brings right ascensions that are wrapped into [0, 360).
func scale(v *catalog.Vector, m *Mapping) {
	if m.Scale == 0 && !m.Wrap {
		return
	}
	v.Data = bytes.Clone(v.Data) // the table may keep what it gave
	for at := 0; at+8 <= len(v.Data); at += 8 {
		x := math.Float64frombits(le.Uint64(v.Data[at:]))
		if m.Scale != 0 {
			x = float64(x * m.Scale)
		}
		if m.Wrap {
			switch {
			case x < 0 && x >= -360:
				// A number too small to count would round up to the end of the circle.
				if x = float64(x + 360); x >= 360 {
					x = 0
				}
			case x == 360:
				x = 0
			}
		}
		le.PutUint64(v.Data[at:], math.Float64bits(x))
	}
}
