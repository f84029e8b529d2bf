package survey

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// tableSource is what all tables together say about one source, or about one member of a struct.
type tableSource struct {
	agreed
	source, member string
	seen           int
	lacking        string // an input without it
	kind           catalog.Kind
	kindClash      string
	strong         bool   // an input of several rows shows the shape
	nullable       string // an input that may hold nulls
	missing        string // an input in which elements may be null
	padded         bool
	note           string
	members        []*tableSource
}

// tableMerger joins what tables offer, in the order of the inputs.
type tableMerger struct {
	sources []*tableSource
	by      map[string]*tableSource
	inputs  int
	first   string
}

func newTableMerger() *tableMerger { return &tableMerger{by: map[string]*tableSource{}} }

// drops says whether the recipe leaves a source of a table out, by its own name, that of a struct above it, or source/member.
func (r *Recipe) dropsTable(source, member string) bool {
	for _, d := range r.Drop {
		if d == source || strings.HasPrefix(source, d+".") || member != "" && (d == source+"."+member || d == source+"/"+member) {
			return true
		}
	}
	return false
}

// kept are the fields that the recipe does not leave out, with the members of structs that it leaves out taken off.
func kept(r *Recipe, fields []table.Field) []table.Field {
	out := make([]table.Field, 0, len(fields))
	for _, f := range fields {
		if r.dropsTable(f.Source, "") {
			continue
		}
		if f.Column.Kind == catalog.Struct {
			c, missing := f.Column, []bool(nil)
			c.Members = nil
			for i, m := range f.Column.Members {
				if !r.dropsTable(f.Source, m.Name) {
					c.Members = append(c.Members, m)
					if i < len(f.Missing) {
						missing = append(missing, f.Missing[i])
					}
				}
			}
			if len(c.Members) == 0 {
				continue
			}
			f.Column, f.Missing = c, missing
		}
		out = append(out, f)
	}
	return out
}

// add takes in the fields of one table.
func (g *tableMerger) add(where string, fields []table.Field, weak map[string]bool) {
	here := map[string]bool{}
	for i := range fields {
		f := &fields[i]
		here[f.Source] = true
		s := g.by[f.Source]
		if s == nil {
			s = &tableSource{agreed: agreed{where: where}, source: f.Source, kind: f.Column.Kind, note: f.Note}
			if g.inputs > 0 {
				s.lacking = g.first
			}
			g.by[f.Source] = s
			g.sources = append(g.sources, s)
		}
		s.seen++
		switch {
		case f.Err != nil:
			s.fail(f.Err, where)
		case f.Empty:
			if s.nullable == "" {
				s.nullable = where
			}
		case f.Column.Kind == catalog.Struct:
			if s.bare() {
				s.kind = catalog.Struct
			}
			s.joinStruct(f, where)
		default:
			s.strong = s.strong || !weak[f.Source]
			s.join(&f.Column, where, f.Padded, len(f.Missing) > 0 && f.Missing[0])
		}
	}
	for _, s := range g.sources {
		if s.lacking == "" && !here[s.source] {
			s.lacking = where
		}
	}
	if g.inputs == 0 {
		g.first = where
	}
	g.inputs++
}

func (s *tableSource) joinStruct(f *table.Field, where string) {
	if s.kind != catalog.Struct {
		s.kindClash = fmt.Sprintf("is a %s in %s and a group of lists in %s", s.kind, s.where, where)
		return
	}
	for k := range f.Column.Members {
		c := &f.Column.Members[k]
		i := slices.IndexFunc(s.members, func(m *tableSource) bool { return m.member == c.Name })
		if i < 0 {
			m := &tableSource{agreed: agreed{where: where}, source: s.source, member: c.Name, kind: catalog.List}
			if s.seen > 1 {
				m.lacking = s.where
			}
			s.members = append(s.members, m)
			i = len(s.members) - 1
		}
		s.members[i].seen++
		s.members[i].join(c, where, f.Padded, k < len(f.Missing) && f.Missing[k])
	}
	for _, m := range s.members {
		if m.lacking == "" && !slices.ContainsFunc(f.Column.Members, func(c catalog.Column) bool { return c.Name == m.member }) {
			m.lacking = where
		}
	}
	if f.Column.Nullable && s.nullable == "" {
		s.nullable = where
	}
}

// join takes in what one table says of a column.
func (s *tableSource) join(c *catalog.Column, where string, padded, missing bool) {
	if s.dt == "" {
		s.kind, s.dt, s.dtWhere, s.shape, s.most = c.Kind, c.DType, where, c.Shape, slices.Clone(c.Shape)
	}
	if c.Kind != s.kind {
		// Arrays of one axis whose lengths agree in one input and not in another are lists.
		oneAxis := func(k catalog.Kind, shape []int) bool {
			return k == catalog.List || k == catalog.Tensor && len(shape) == 1
		}
		if oneAxis(c.Kind, c.Shape) && oneAxis(s.kind, s.shape) {
			s.kind = catalog.List
		} else if s.kindClash == "" {
			s.kindClash = fmt.Sprintf("is a %s in %s and a %s in %s", s.kind, s.where, c.Kind, where)
		}
	}
	s.joinType(c.DType, where, func(a, b catalog.DType) (catalog.DType, bool) {
		return catalog.String, s.kind == catalog.Scalar && whole(a, b) // an integer is exact as its decimal text
	})
	if c.Kind == catalog.Tensor {
		s.joinShape(c.Shape, where)
	}
	s.joinUnit(c.Unit, where)
	if c.Nullable && s.nullable == "" {
		s.nullable = where
	}
	if missing && s.missing == "" {
		s.missing = where
	}
	s.padded = s.padded || padded
}

// bare says that nothing but inputs without a value showed the source so far.
func (s *tableSource) bare() bool { return s.dt == "" && len(s.members) == 0 && s.err == nil }

// whole says whether two types are text and an integer, or two integers that no type holds together.
func whole(a, b catalog.DType) bool {
	ca, _ := number(a)
	cb, _ := number(b)
	isInt := func(c byte) bool { return c == 'i' || c == 'u' }
	return ca == 't' && isInt(cb) || cb == 't' && isInt(ca) || isInt(ca) && isInt(cb)
}

// columnName makes a name that the format allows of a source: dots and slashes become underscores.
func columnName(source string) string {
	return strings.Map(func(c rune) rune {
		if c == '.' || c == '/' || c == 0 || c == '\n' {
			return '_'
		}
		return c
	}, source)
}

// tableColumns maps every source of tables.
func (n *inference) tableColumns(g *tableMerger) {
	by := map[string]string{}
	for _, s := range g.sources {
		m, ok := n.tableColumn(s)
		if !ok {
			continue
		}
		if other, taken := by[m.Name]; taken {
			n.problem("sources %q and %q would both be called %q; drop one (drop: [%s]), or give the columns by hand", other, s.source, m.Name, s.source)
			continue
		}
		by[m.Name] = s.source
		n.recipe.Map = append(n.recipe.Map, m)
	}
}

// fine says whether types, units and kinds of a source agree well enough.
func (n *inference) fine(s *tableSource) bool {
	name := s.source
	if s.member != "" {
		name += "." + s.member
	}
	if s.err == nil && s.kindClash != "" {
		n.problem("%q %s; leave it out (drop: [%s])", name, s.kindClash, name)
		return false
	}
	ok := n.agree(&s.agreed, name, columnName(name))
	if s.err != nil && strings.Contains(s.err.Error(), "several shapes") {
		n.problem("%q: a recipe with the line \"pad: {%s: .nan}\" fills what is smaller", name, name)
	}
	return ok
}

// tableColumn maps one source to one column.
func (n *inference) tableColumn(s *tableSource) (Mapping, bool) {
	if s.bare() && s.kind != catalog.Struct {
		s.kind, s.dt = catalog.Scalar, catalog.Float64
	}
	name := columnName(s.source)
	if err := (&catalog.Column{Name: name, Kind: catalog.Scalar, DType: catalog.Int8}).Check(); err != nil && name != "" && len(name) <= 255 {
		// Names that HATS gives a meaning: its own columns of older catalogues have them.
		n.warn(WarnName, name+"_", s.where, "%q has a meaning of its own in a dataset; the column is called %s_", name, name)
		name += "_"
	}
	m := Mapping{Name: name, From: FromDataset, Source: s.source, Kind: s.kind, DType: s.dt, Unit: s.unit, Text: s.text(s.padded), Note: s.note}
	if m.Name != s.source {
		m.Note = join("; ", s.source+" in the file", m.Note)
	}
	if !n.fine(s) {
		return m, false
	}
	lacking := func() bool {
		if s.lacking == "" {
			return false
		}
		n.problem("%q is in %s and missing in %s; only a scalar or a list may be null: leave it out (drop: [%s])", s.source, s.where, s.lacking, s.source)
		return true
	}
	switch s.kind {
	case catalog.Struct:
		return n.tableStruct(s, m), !lacking()
	case catalog.Tensor:
		if !s.strong {
			m.Kind = catalog.List
			m.Note = join("; ", "of varying length, as far as single rows tell", m.Note)
			m.Nullable = s.nullable != "" || s.lacking != ""
			break
		}
		padded := n.padded(&m)
		if s.other != nil && len(s.shape) == 1 && len(s.other) == 1 && !padded {
			m.Kind = catalog.List
			m.Note = join("; ", "lengths differ between inputs", m.Note)
			m.Nullable = s.nullable != "" || s.lacking != ""
			n.warn(WarnRagged, m.Name, s.otherWhere, "length %d here and %d in %s: a list", s.other[0], s.shape[0], s.where)
			break
		}
		m.Shape = slices.Clone(s.most)
		if s.other != nil && !padded {
			n.problem("%q has shape %v in %s and %v in %s; a recipe with the line \"pad: {%s: .nan}\" fills what is smaller", s.source, s.shape, s.where, s.other, s.otherWhere, s.source)
		} else if padded {
			m.Note = join("; ", fmt.Sprintf("smaller ones are filled up with %v", *m.Pad), m.Note)
		}
		c := m.Column()
		c.Name = "x"
		if err := c.Check(); err != nil {
			n.problem("%s: %q is %s of shape %v a row, which is empty, over %d MiB or of too many axes: leave it out (drop: [%s])", s.where, s.source, s.dt, m.Shape, catalog.MaxTensorBytes>>20, s.source)
			return m, false
		}
		if strings.Contains(s.note, "BLANK") {
			n.warn(WarnSentinel, m.Name, s.where, "%s; it is kept as a number", s.note)
		}
		if s.nullable != "" {
			n.warn(WarnNullable, m.Name, s.nullable, "rows may be null here, and a tensor has no null: such a row will be refused, unless the recipe says fill: VALUE")
		}
		if lacking() {
			return m, false
		}
	default:
		m.Nullable = s.nullable != "" || s.lacking != ""
		if s.lacking != "" {
			n.warn(WarnNullable, m.Name, s.lacking, "missing here, and null there")
		}
	}
	if m.Kind != catalog.Scalar && s.missing != "" {
		n.warn(WarnFill, m.Name, s.missing, "elements are null here; they become %s", m.setFill())
	}
	return m, true
}

func (n *inference) tableStruct(s *tableSource, m Mapping) Mapping {
	m.Source, m.DType, m.Text = "", "", ""
	m.Note = join("; ", "lists whose lengths agree in every row", m.Note)
	if s.nullable != "" {
		n.warn(WarnNullable, m.Name, s.nullable, "rows may be null here; they become empty")
	}
	filled := map[string][]string{} // names of members by what stands for their nulls
	var order []string
	for _, x := range s.members {
		if !n.fine(x) {
			continue
		}
		if x.lacking != "" {
			n.problem("%q is in %s and missing in %s: leave it out (drop: [%s])", x.source+"."+x.member, x.where, x.lacking, x.source+"."+x.member)
			continue
		}
		mm := Mapping{Name: columnName(x.member), From: FromDataset, Source: x.source, Member: x.member, Kind: catalog.List, DType: x.dt, Unit: x.unit, Text: x.text(x.padded)}
		if x.missing != "" {
			what := mm.setFill()
			if filled[what] == nil {
				order = append(order, what)
			}
			filled[what] = append(filled[what], mm.Name)
			if s.missing == "" {
				s.missing = x.missing
			}
		}
		m.Members = append(m.Members, mm)
	}
	for _, what := range order {
		n.warn(WarnFill, m.Name, s.missing, "elements of %s are null here; they become %s", strings.Join(filled[what], ", "), what)
	}
	return m
}

// setFill decides what stands for null elements, which no column of lists or tensors has, and says it.
func (m *Mapping) setFill() string {
	switch class, bits := number(m.DType); class {
	case 't':
		return `""`
	case 'b':
		m.DType, m.Fill = catalog.Uint8, float64(255)
		return "255 among 0 and 1 (uint8)"
	case 'i':
		m.Fill = -math.Ldexp(1, bits-1)
		return fmt.Sprintf("the least %s (fill: %.0f)", m.DType, m.Fill)
	case 'u':
		// float64 does not hold the greatest uint64; the power of two before it does.
		if m.Fill = math.Ldexp(1, bits) - 1; bits == 64 {
			m.Fill = math.Ldexp(1, 63)
		}
		return fmt.Sprintf("%.0f (%s)", m.Fill, m.DType)
	}
	return "NaN"
}

func join(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}
