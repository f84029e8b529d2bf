package parquet

import (
	"context"
	"fmt"
	"slices"

	pq "github.com/apache/arrow-go/v18/parquet"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// field is a source and how its rows are made of leaves.
type field struct {
	table.Field
	leaves []*leaf
	null   int    // lists and structs: a row is null where the definition level is below
	shape  []byte // tensors: repetition levels of a row
	elems  int    // tensors: elements of a row as stored, parts of complex numbers apart
	cutout bool
	pad    bool // smaller images are filled up
}

// planner turns the schema into fields.
type planner struct {
	t    *Table
	ctx  context.Context
	deep bool // within a struct that has lists of lists: it holds no light curve, and one row tells a list's length
}

func (t *Table) plan(ctx context.Context, nodes []*node) error {
	p := &planner{t: t, ctx: ctx}
	for _, n := range nodes {
		if err := p.node(n, n.name); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for i := range t.fields {
		f := &t.fields[i]
		if seen[f.Source] && f.Err == nil {
			f.Err = unsupported("%s: a second column of this name; rename one of them in the file", f.Source)
		}
		seen[f.Source] = true
	}
	return nil
}

func (p *planner) add(f field) { p.t.fields = append(p.t.fields, f) }

func (p *planner) refuse(source string, err error) {
	p.add(field{Field: table.Field{Source: source, Column: catalog.Column{Name: source}, Err: fmt.Errorf("%s: %w", source, err)}})
}

func (p *planner) node(n *node, source string) error {
	switch n.kind {
	case kindGroup:
		return p.group(n, source)
	case kindList, kindMap:
		return p.list(n, source)
	}
	l := n.leaf
	switch {
	case l.binary && l.err == nil:
		return p.binary(n, source)
	case l.err != nil:
		p.refuse(source, l.err)
		return nil
	}
	p.add(field{leaves: []*leaf{l}, Field: table.Field{Source: source, Column: catalog.Column{
		Name: source, Kind: catalog.Scalar, DType: l.dtype, Unit: unit(n, l), Nullable: l.maxDef > 0}}})
	return nil
}

func unit(n *node, l *leaf) string {
	if n.hint.unit != "" {
		return n.hint.unit
	}
	return l.unit
}

// simple says whether a node is one list of numbers or text.
func simple(n *node) (*leaf, bool) {
	if n.kind != kindList || n.children[0].kind != kindLeaf {
		return nil, false
	}
	l := n.children[0].leaf
	return l, l.err == nil && !l.binary
}

// group is a struct: its members are sources, and its ragged lists one struct of lists if their lengths agree.
func (p *planner) group(n *node, source string) error {
	defer func(was bool) { p.deep = was }(p.deep)
	p.deep = slices.ContainsFunc(n.children, func(c *node) bool { return c.kind == kindList && c.children[0].kind == kindList })
	var ragged []*node
	pure := true
	wanted, said := p.t.opt.Shapes[source]
	said = said && len(wanted) == 0
	for _, c := range n.children {
		l, ok := simple(c)
		if !ok {
			pure = false
			continue
		}
		if declared(c) != nil {
			continue
		}
		if _, own := p.t.opt.Shapes[source+"."+c.name]; own {
			continue
		}
		if !said {
			x, err := p.t.lengthsOf(p.ctx, l)
			if err != nil {
				return err
			}
			if p.even(x) {
				continue
			}
		}
		ragged = append(ragged, c)
	}
	if len(ragged) < 2 && !(pure && len(ragged) == len(n.children)) && !said {
		ragged = nil
	}
	apart := ""
	if !said && len(ragged) > 1 {
		first := p.t.known[ragged[0].children[0].leaf.index]
		for _, c := range ragged[1:] {
			x := p.t.known[c.children[0].leaf.index]
			if x.agree != first.agree || !slices.Equal(x.counts, first.counts) {
				apart = fmt.Sprintf("a list of its own: the lengths of %s.%s and %s.%s differ in some rows", source, ragged[0].name, source, c.name)
				ragged = nil
				break
			}
		}
	}
	done := false
	for _, c := range n.children {
		if slices.Contains(ragged, c) {
			if !done {
				if err := p.lists(n, ragged, source); err != nil {
					return err
				}
				done = true
			}
			continue
		}
		before := len(p.t.fields)
		if err := p.node(c, source+"."+c.name); err != nil {
			return err
		}
		if _, ok := simple(c); ok && apart != "" && len(p.t.fields) > before {
			if f := &p.t.fields[before]; f.Column.Kind == catalog.List {
				f.Note = apart
			}
		}
	}
	return nil
}

// even says whether a list has one length in so many rows that this is no chance.
func (p *planner) even(x *lengths) bool { return x.same && (p.t.rows > 1 || p.deep) }

// lists is a group whose lists have lengths that agree.
func (p *planner) lists(n *node, members []*node, source string) error {
	f := field{null: n.def, Field: table.Field{Source: source, Column: catalog.Column{Name: source, Kind: catalog.Struct, Nullable: n.def > 0}}}
	for _, c := range members {
		if err := p.member(&f, c.name, c.children[0], unit(c, c.children[0].leaf), p.probed(source)); err != nil {
			return err
		}
	}
	f.Note = fmt.Sprintf("%d lists whose lengths agree in every row", len(members))
	p.finish(&f)
	return nil
}

// probed says whether the lengths of a source may be searched.
func (p *planner) probed(source string) bool {
	_, said := p.t.opt.Shapes[source]
	return !said
}

// member adds a leaf to a struct.
func (p *planner) member(f *field, name string, n *node, u string, probe bool) error {
	l := n.leaf
	if u == "" {
		u = unit(n, l)
	}
	missing := l.maxDef > l.slots[len(l.slots)-1]
	if missing && !p.noNulls(l) && probe {
		x, err := p.t.lengthsOf(p.ctx, l)
		if err != nil {
			return err
		}
		missing = x.nullElems
	} else if p.noNulls(l) {
		missing = false
	}
	f.leaves = append(f.leaves, l)
	f.Missing = append(f.Missing, missing)
	f.Column.Members = append(f.Column.Members, catalog.Column{Name: name, Kind: catalog.List, DType: l.dtype, Unit: u})
	return nil
}

// noNulls says whether the footer's statistics rule out nulls.
func (p *planner) noNulls(l *leaf) bool {
	for g := range p.t.meta.RowGroups {
		s := p.t.meta.RowGroups[g].Columns[l.index].Meta.Statistics
		if s == nil || s.NullCount != 0 {
			return false
		}
	}
	return true
}

func (p *planner) finish(f *field) {
	for i := range f.Column.Members {
		for k := range i {
			if f.Column.Members[k].Name == f.Column.Members[i].Name {
				f.Err = unsupported("%s: two members are called %s", f.Source, f.Column.Members[i].Name)
			}
		}
	}
	if !slices.Contains(f.Missing, true) {
		f.Missing = nil
	}
	p.add(*f)
}

// list is a list, a tensor, or a list of structs.
func (p *planner) list(n *node, source string) error {
	elem, depth := n, 0
	for elem.kind == kindList {
		elem = elem.children[0]
		depth++
	}
	switch {
	case n.kind == kindMap, elem.kind == kindGroup && depth == 1:
		return p.structs(n, source)
	case elem.kind != kindLeaf:
		p.refuse(source, unsupported("lists of lists of structs, or of maps, have no column; flatten them in the file, or drop the source"))
		return nil
	}
	l := elem.leaf
	switch {
	case l.err != nil:
		p.refuse(source, l.err)
		return nil
	case l.binary:
		p.refuse(source, unsupported("lists of binary values are not read; drop the source"))
		return nil
	}
	u := unit(elem, l)
	for c := n; c.kind == kindList; c = c.children[0] {
		if c.hint.unit != "" {
			u = c.hint.unit
			break
		}
	}
	if l.dtype == catalog.String {
		if depth > 1 {
			p.refuse(source, unsupported("lists of lists of text have no column; drop the source"))
			return nil
		}
		return p.ragged(n, l, source, u, "")
	}
	if dims, said := p.t.opt.Shapes[source]; said {
		if len(dims) > 0 {
			return p.tensor(n, l, dims, source, u, "of the shape that was asked for")
		}
		if depth == 1 {
			return p.ragged(n, l, source, u, "")
		}
		p.refuse(source, raggedNested(depth, "it is not one shape elsewhere"))
		return nil
	}
	if dims := declared(n); dims != nil {
		from := n.hint.from
		if from == "" {
			from = "its type, a fixed-size list"
		}
		return p.tensor(n, l, dims, source, u, "of the shape that is declared by "+from)
	}
	x, err := p.t.lengthsOf(p.ctx, l)
	if err != nil {
		return err
	}
	sampled := ""
	if !x.all {
		sampled = ", as far as counts and a sample of rows tell"
	}
	switch {
	case depth == 1 && !p.even(x):
		return p.ragged(n, l, source, u, "")
	case x.same:
		return p.tensor(n, l, x.dims, source, u, "of the shape that all rows have"+sampled)
	}
	why := x.uneven
	if why == "" {
		why = "no row tells a shape"
	}
	p.refuse(source, raggedNested(depth, why))
	return nil
}

func raggedNested(depth int, why string) error {
	return unsupported("lists nest %d deep and have no common shape (%s); drop the source, or flatten or pad it in the file", depth, why)
}

// declared is the shape that metadata give a list of numbers, as the column has it, or nil.
func declared(n *node) []int {
	if n.kind != kindList {
		return nil
	}
	depth, elems := 0, 1
	var sizes []int
	whole := true
	elem := n
	for ; elem.kind == kindList; elem = elem.children[0] {
		depth++
		whole = whole && elem.hint.size > 0 && elem.hint.size <= catalog.MaxTensorBytes/elems
		if whole {
			elems *= elem.hint.size
			sizes = append(sizes, elem.hint.size)
		}
	}
	if elem.kind != kindLeaf || elem.leaf.dtype == catalog.String || elem.leaf.binary {
		return nil
	}
	if d := n.hint.dims; n.hint.from != "" {
		if c := n.hint.dtype; c != "" {
			if c.Component() == elem.leaf.dtype && (c.Complex() && len(d)+1 == depth || c == elem.leaf.dtype && len(d) == depth && depth > 0) {
				return d
			}
		} else if checkShape(elem.leaf.dtype, d) == nil {
			n := 1
			for _, s := range d {
				n *= s
			}
			if len(d) == depth || depth == 1 && whole && n == elems {
				return d
			}
		}
	}
	if whole {
		return sizes
	}
	return nil
}

// tensor is a source of one shape.
func (p *planner) tensor(n *node, l *leaf, dims []int, source, u, note string) error {
	d := l.dtype
	stored := slices.Clone(dims)
	if c := n.hint.dtype; c.Complex() && c.Component() == d {
		d = c
		stored = append(stored, 2)
	}
	if err := checkShape(d, dims); err != nil {
		p.refuse(source, unsupported("%v", err))
		return nil
	}
	elems := 1
	for _, s := range stored {
		elems *= s
	}
	if len(stored) != l.maxRep {
		if l.maxRep != 1 {
			p.refuse(source, unsupported("a shape of %d axes, lists nest %d deep", len(dims), l.maxRep))
			return nil
		}
		stored = []int{elems} // the elements of a row stand in one list
	}
	f := field{leaves: []*leaf{l}, shape: rowPattern(stored), elems: elems, Field: table.Field{Source: source, Note: "tensor " + note,
		Column: catalog.Column{Name: source, Kind: catalog.Tensor, DType: d, Shape: slices.Clone(dims), Unit: u}}}
	missing := l.maxDef > l.slots[len(l.slots)-1] && !p.noNulls(l)
	x := p.t.known[l.index]
	if x != nil {
		missing, f.Column.Nullable = x.nullElems, x.nullRows
	} else {
		f.Column.Nullable = p.nullRows(l, elems)
		if missing && p.probed(source) {
			x, err := p.t.lengthsOf(p.ctx, l)
			if err != nil {
				return err
			}
			missing = x.nullElems
			if x.all {
				f.Column.Nullable = x.nullRows
			}
		}
	}
	if missing {
		f.Missing = []bool{true}
	}
	p.add(f)
	return nil
}

// nullRows says whether rows of a declared shape may be null: each of those counts as one value, not elems.
func (p *planner) nullRows(l *leaf, elems int) bool {
	if l.maxDef == len(l.slots) || p.noNulls(l) {
		return false
	}
	for g := range p.t.meta.RowGroups {
		if n := p.t.meta.RowGroups[g].Columns[l.index].Meta.NumValues; elems == 1 || n != int64(elems)*(p.t.first[g+1]-p.t.first[g]) {
			return true
		}
	}
	return false
}

// ragged is a list of any length.
func (p *planner) ragged(n *node, l *leaf, source, u, note string) error {
	f := field{leaves: []*leaf{l}, null: n.def, Field: table.Field{Source: source, Note: note,
		Column: catalog.Column{Name: source, Kind: catalog.List, DType: l.dtype, Unit: u, Nullable: n.def > 0}}}
	if l.maxDef > l.slots[0] && !p.noNulls(l) {
		missing := true
		if p.probed(source) {
			x, err := p.t.lengthsOf(p.ctx, l)
			if err != nil {
				return err
			}
			missing = x.nullElems
		}
		if missing {
			f.Missing = []bool{true}
		}
	}
	p.add(f)
	return nil
}

// structs is a list of structs, or a map.
func (p *planner) structs(n *node, source string) error {
	f := field{null: n.def, Field: table.Field{Source: source, Column: catalog.Column{Name: source, Kind: catalog.Struct, Nullable: n.def > 0}}}
	type refused struct {
		source string
		err    error
	}
	var bad []refused
	var walk func(n *node, name, path string) error
	walk = func(n *node, name, path string) error {
		switch {
		case n.kind == kindGroup:
			for _, c := range n.children {
				if err := walk(c, name+"_"+c.name, path+"."+c.name); err != nil {
					return err
				}
			}
			return nil
		case n.kind != kindLeaf:
			bad = append(bad, refused{path, unsupported("a list within a list of structs has no column; drop this member (the others are read)")})
		case n.leaf.err != nil:
			bad = append(bad, refused{path, n.leaf.err})
		case n.leaf.binary:
			bad = append(bad, refused{path, unsupported("binary values within a list of structs are not read; drop this member (the others are read)")})
		default:
			return p.member(&f, name, n, "", p.probed(source))
		}
		return nil
	}
	elem := n.children[0]
	kind := "a list of structs"
	members := elem.children
	switch {
	case elem.kind != kindGroup: // a map without values
		members = []*node{elem}
	case n.kind == kindMap && len(members) == 2:
		key, value := *members[0], *members[1]
		key.name, value.name = "key", "value"
		members = []*node{&key, &value}
		kind = "a map"
	case n.kind == kindMap:
		kind = "a map"
	}
	for _, c := range members {
		if err := walk(c, c.name, source+"."+c.name); err != nil {
			return err
		}
	}
	if len(f.leaves) == 0 {
		if len(bad) == 0 {
			bad = append(bad, refused{source, unsupported("a list of structs without members; drop it")})
		}
	} else {
		f.Note = kind
		if len(bad) > 0 {
			f.Note += fmt.Sprintf("; %d of its members are not read", len(bad))
		}
		p.finish(&f)
	}
	for _, b := range bad {
		p.refuse(b.source, b.err)
	}
	return nil
}

// binary is a column of byte arrays, which may be images.
func (p *planner) binary(n *node, source string) error {
	l := n.leaf
	if l.phys != pq.Types.ByteArray {
		p.refuse(source, unsupported("binary values are not read; drop the source"))
		return nil
	}
	raws, err := p.firstValues(l)
	if err != nil {
		return err
	}
	if len(raws) == 0 {
		p.refuse(source, unsupported("a binary column without a value; drop it"))
		return nil
	}
	gz := false
	for _, raw := range raws {
		ok, zipped := looksFITS(raw)
		if !ok {
			p.refuse(source, unsupported("binary values that are not FITS images (the first bytes of one are %q); cast text to strings in the file, else drop the source", raw[:min(len(raw), 8)]))
			return nil
		}
		gz = gz || zipped
	}
	if p.t.opt.Cutout == nil {
		p.refuse(source, unsupported("no decoder of FITS images at hand"))
		return nil
	}
	shapes, err := p.imageShapes(l, source)
	if err != nil {
		return err
	}
	if shapes.err == nil {
		shapes.err = checkShape(shapes.dtype, shapes.dims)
	}
	if shapes.err == nil && shapes.differ != "" && !p.t.opt.Pad[source] {
		shapes.err = unsupported("FITS images of several shapes: %s; pad the source in the recipe, or drop it", shapes.differ)
	}
	if shapes.err != nil {
		p.refuse(source, shapes.err)
		return nil
	}
	note := "FITS images of " + times(shapes.dims)
	if gz {
		note = "gzipped " + note
	}
	if p.t.opt.Pad[source] {
		note += ", smaller ones filled up"
	}
	p.add(field{leaves: []*leaf{l}, cutout: true, pad: p.t.opt.Pad[source], Field: table.Field{Source: source, Note: note, Column: catalog.Column{
		Name: source, Kind: catalog.Tensor, DType: shapes.dtype, Shape: slices.Clone(shapes.dims), Unit: unit(n, l), Nullable: l.maxDef > 0 && !p.noNulls(l)}}})
	return nil
}

// imageBytes is how many stored bytes of images are decoded to see whether they have one shape.
const imageBytes = 16 << 20

// images is the shape of a column's images.
type images struct {
	dtype  catalog.DType
	dims   []int  // the largest side of each axis
	differ string // two that differ
	err    error
}

// imageShapes decodes the first images of a column: one where the shape is known, else up to imageBytes of them.
func (p *planner) imageShapes(l *leaf, source string) (images, error) {
	var out images
	known := p.t.opt.Shapes[source]
	var first []int
	bytes := 0
	err := p.values(l, func(row int64, raw []byte) bool {
		d, shape, _, err := p.t.opt.Cutout(raw, catalog.MaxTensorBytes)
		switch {
		case err != nil:
			out.err = badValue("row %d: FITS image: %v", row, err)
		case out.dtype == "":
			first = slices.Clone(shape)
			out.dtype, out.dims = d, slices.Clone(shape)
		case d != out.dtype || len(shape) != len(out.dims):
			out.err = badValue("row %d: its FITS image is %s of %s, the first one %s of %s", row, d, times(shape), out.dtype, times(first))
		case !slices.Equal(shape, first):
			if out.differ == "" {
				out.differ = fmt.Sprintf("row %d has one of %s, the first is %s", row, times(shape), times(first))
			}
			for i, n := range shape {
				out.dims[i] = max(out.dims[i], n)
			}
		}
		bytes += len(raw)
		return out.err == nil && len(known) == 0 && bytes < imageBytes
	})
	if len(known) > 0 {
		out.dims, out.differ = known, ""
	}
	return out, err
}

// firstValues gives up to four values from the first rows that have one.
func (p *planner) firstValues(l *leaf) ([][]byte, error) {
	var out [][]byte
	err := p.values(l, func(_ int64, raw []byte) bool {
		out = append(out, slices.Clone(raw))
		return len(out) < 4
	})
	return out, err
}

// values calls f with a flat leaf's values, nulls left out, until it says that it has enough.
func (p *planner) values(l *leaf, f func(row int64, raw []byte) bool) error {
	c := p.t.newCursor(l)
	if p.t.rows == 0 {
		return nil
	}
	if err := c.seek(p.ctx, 0); err != nil {
		return err
	}
	s := newSink(l)
	for row, step, next := int64(0), int64(4), int64(4); row < p.t.rows; row, step = row+step, next {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		step = min(step, p.t.rows-row)
		s.reset()
		s.data, s.off = s.data[:0], s.off[:1]
		if err := c.read(s, int(step)); err != nil {
			return err
		}
		k := 0
		for i := range step {
			if len(s.def) > 0 && int(s.def[i]) < l.maxDef {
				continue
			}
			k++
			if !f(row+i, s.data[s.off[k-1]:s.off[k]]) {
				return nil
			}
		}
		if next = 4; k == 0 {
			next = min(4*step, 1<<16) // nulls are passed over quickly
		}
	}
	return nil
}
