package survey

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"astropile/internal/catalog"
)

// source is what all inputs together say about one source of values.
type source struct {
	agreed
	key     fieldKey
	seen    int
	missing string // an object without it
	fixed   bool   // text of fixed length is among it
	vlen    bool
	array   bool // not of varying length in some input
	lead    int
	enum    string // names of the numbers of the first enumeration
}

// merger joins what objects offer, in the order of the inputs.
type merger struct {
	sources []*source
	by      map[fieldKey]*source
	objects int
	first   string

	attrs      []string // of the first file that has any
	attrsWhere string
}

func newMerger() *merger { return &merger{by: map[fieldKey]*source{}} }

func (g *merger) add(o *object) {
	for i := range o.fields {
		f := &o.fields[i]
		s := g.by[f.key]
		if s == nil {
			s = &source{key: f.key, lead: f.lead, agreed: agreed{where: o.where, dt: f.elem.dt, dtWhere: o.where, shape: f.shape, most: slices.Clone(f.shape)}}
			if g.objects > 0 {
				s.missing = g.first
			}
			g.by[f.key] = s
			g.sources = append(g.sources, s)
		}
		s.seen++
		if f.err != nil {
			s.fail(f.err, o.where)
			continue
		}
		s.join(f, o.where)
	}
	for _, s := range g.sources {
		if s.missing == "" && o.find(s.key) == nil {
			s.missing = o.where
		}
	}
	if g.objects == 0 {
		g.first = o.where
	}
	g.objects++
}

func (s *source) join(f *field, where string) {
	s.joinType(f.elem.dt, where, nil)
	if f.elem.dt == catalog.String && f.elem.vlen == nil && f.elem.typ.Size > 0 && !f.elem.typ.VarString {
		s.fixed = true
	}
	if f.elem.vlen != nil {
		s.vlen = true
	} else {
		s.array = true
	}
	s.joinShape(f.shape, where)
	s.joinUnit(f.unit, where)
	if f.elem.enum && s.enum == "" {
		names := make([]string, 0, len(f.elem.typ.EnumNames))
		for i, n := range f.elem.typ.EnumNames {
			names = append(names, fmt.Sprintf("%d %s", f.elem.typ.EnumValues[i], n))
		}
		if len(names) > 16 {
			names = append(names[:16], "...")
		}
		s.enum = strings.Join(names, ", ")
		if s.enum == "" {
			s.enum = "no names"
		}
	}
}

// rank is the number of axes of a row, or -1 where inputs disagree.
func (s *source) rank() int {
	if s.other != nil && len(s.other) != len(s.shape) {
		return -1
	}
	return len(s.shape)
}

// Code names a kind of warning.
type Code string

// The warnings of Inspect.
const (
	WarnID        Code = "id"         // the id was guessed, or does not look unique
	WarnFloat32   Code = "float32"    // positions of single precision
	WarnSentinel  Code = "sentinel"   // values that stand for missing ones
	WarnConstant  Code = "constant"   // all values of the sample are equal
	WarnPosition  Code = "position"   // positions that are NaN, or outside of the folder's pixel
	WarnUnits     Code = "units"      // positions that look like radians or hours; units that some inputs do not state
	WarnEnum      Code = "enum"       // named numbers, kept as numbers
	WarnNullable  Code = "nullable"   // missing in some inputs
	WarnDType     Code = "dtype"      // a type that does not hold all values that may come
	WarnSplit     Code = "split"      // only some inputs tell a split
	WarnRagged    Code = "ragged"     // lengths that differ between objects
	WarnAttribute Code = "attributes" // attributes of a file that become no column
	WarnFill      Code = "fill"       // null elements inside lists or tensors
	WarnName      Code = "name"       // a name that the format does not allow
	WarnPassed    Code = "passed"     // files and folders of the sources that are no inputs
)

// Warning is what a person should look at before trusting a recipe.
type Warning struct {
	Code   Code
	Column string
	File   string // an input that shows it; empty where all do
	Text   string
}

func (w Warning) String() string {
	s := string(w.Code) + ": "
	if w.Column != "" {
		s += w.Column + ": "
	}
	s += w.Text
	if w.File != "" {
		s += " (" + w.File + ")"
	}
	return s
}

// inference turns what the inputs offer into a recipe.
type inference struct {
	recipe   *Recipe
	warnings []Warning
	problems []error
}

func (n *inference) warn(code Code, column, file, format string, args ...any) {
	n.warnings = append(n.warnings, Warning{code, column, file, fmt.Sprintf(format, args...)})
}

func (n *inference) problem(format string, args ...any) {
	n.problems = append(n.problems, fmt.Errorf("%w: %s", ErrMapping, fmt.Sprintf(format, args...)))
}

// columns maps every source; the recipe's Family is known, and its Map is filled.
func (n *inference) columns(g *merger) {
	done := map[fieldKey]bool{}
	if n.recipe.Family == OneObject {
		n.lightCurve(g, done)
	}
	for _, s := range g.sources {
		if done[s.key] {
			continue
		}
		if n.recipe.Family != Columnar && s.key.member != "" && s.lead > 0 && s.rank() >= 0 && s.other != nil && !slices.Equal(s.other[:s.lead], s.shape[:s.lead]) {
			n.group(g, s.key.path, done)
			continue
		}
		done[s.key] = true
		if m, ok := n.column(s); ok {
			n.recipe.Map = append(n.recipe.Map, m)
		}
	}
	n.bandsColumn()
}

// sound says whether types, units and shapes of a source agree well enough to be a column or a member.
func (n *inference) sound(s *source) bool {
	if !n.agree(&s.agreed, s.key.String(), s.key.name()) {
		return false
	}
	if s.enum != "" {
		n.warn(WarnEnum, s.key.name(), s.where, "numbers with names (%s) stay numbers", s.enum)
	}
	return true
}

// column maps one source to one column.
func (n *inference) column(s *source) (Mapping, bool) {
	m := Mapping{Name: s.key.name(), From: s.key.from, Source: s.key.path, Member: s.key.member, DType: s.dt, Unit: s.unit, Text: s.text(s.fixed)}
	if !n.sound(s) {
		return m, false
	}
	rank := s.rank()
	switch {
	case s.vlen && (rank == 0 && !s.array || s.array && len(s.shape)+len(s.other) == 1):
		m.Kind, m.Note = catalog.List, "of varying length"
	case s.vlen:
		n.problem("%q has %v sequences of varying length a row; leave it out (drop: [%s])", s.key, s.shape, s.key)
		return m, false
	case rank < 0:
		n.problem("%q has shape %v in %s and %v in %s; leave it out (drop: [%s])", s.key, s.shape, s.where, s.other, s.otherWhere, s.key)
		return m, false
	case rank == 0 && !s.dt.Complex():
		m.Kind = catalog.Scalar
	case s.dt == catalog.String && rank == 1:
		m.Kind, m.Note = catalog.List, "texts a row"
	case s.dt == catalog.String:
		n.problem("%s: %q has text of shape %v a row; only a list is kept: leave it out (drop: [%s])", s.where, s.key, s.shape, s.key)
		return m, false
	case s.other != nil && rank == 1 && n.recipe.Family != Columnar:
		m.Kind, m.Note = catalog.List, "lengths differ between objects"
		n.warn(WarnRagged, m.Name, s.otherWhere, "length %d here and %d in %s: a list", s.other[0], s.shape[0], s.where)
	case s.other != nil:
		how := "a recipe with pad: VALUE and shape: %[5]v fills what is smaller"
		if rank == 1 {
			how = "a recipe with kind: list keeps the lengths, one with pad: VALUE and shape: %[5]v fills what is shorter"
		}
		if n.padded(&m) {
			m.Kind, m.Shape, m.Note = catalog.Tensor, slices.Clone(s.most), fmt.Sprintf("smaller ones are filled up with %v", *m.Pad)
			break
		}
		n.problem("%q has shape %v in %s and %v in %s; "+strings.ReplaceAll(how, "%[5]v", fmt.Sprint(s.most)), s.key, s.shape, s.where, s.other, s.otherWhere)
		m.Kind, m.Shape = catalog.Tensor, slices.Clone(s.most)
		m.Note = fmt.Sprintf("shape %v in %s and %v in %s", s.shape, s.where, s.other, s.otherWhere)
	default:
		m.Kind, m.Shape = catalog.Tensor, slices.Clone(s.shape)
	}
	if m.Kind == catalog.Tensor {
		c := m.Column()
		c.Name = "x" // names are judged once they are renamed
		if err := c.Check(); err != nil {
			n.problem("%s: %q is %s of shape %v a row, which is empty, over %d MiB or of too many axes: leave it out (drop: [%s])", s.where, s.key, s.dt, m.Shape, catalog.MaxTensorBytes>>20, s.key)
			return m, false
		}
	}
	if s.missing != "" {
		if m.Kind != catalog.Scalar {
			n.problem("%q is in %s and missing in %s; only a scalar may be null: leave it out (drop: [%s])", s.key, s.where, s.missing, s.key)
			return m, false
		}
		m.Nullable = true
		n.warn(WarnNullable, m.Name, s.missing, "missing here, and null there")
	}
	return m, true
}

// timeNames are the names that a light curve's time has.
var timeNames = []string{"time", "mjd", "jd", "bjd", "times"}

// lightCurve finds arrays of bands x epochs with a time among them.
func (n *inference) lightCurve(g *merger, done map[fieldKey]bool) {
	var time, bands *source
	for _, s := range g.sources {
		name := strings.ToLower(s.key.path)
		class, _ := number(s.dt)
		switch {
		case s.err != nil || s.vlen || s.key.member != "":
		case time == nil && s.rank() == 2 && (class == 'f' || class == 'i' || class == 'u') && slices.Contains(timeNames, name):
			time = s
		case bands == nil && s.dt == catalog.String && (s.rank() == 0 || s.rank() == 1) && (name == "bands" || name == "band"):
			bands = s
		}
	}
	if time == nil || bands == nil || bands.rank() == 1 && bands.shape[0] != time.shape[0] {
		return
	}
	m := Mapping{Name: "lightcurve", From: FromDataset, Kind: catalog.Struct, Trim: time.key.path,
		Note: fmt.Sprintf("bands x epochs, band after band; epochs after a band's last with %s not 0 and not -99 are padding", time.key.path)}
	member := func(name string, s *source) {
		if s.missing != "" {
			n.problem("%q is in %s and missing in %s, so it is no member of the light curves: leave it out (drop: [%s])", s.key, s.where, s.missing, s.key)
		}
		if n.sound(s) {
			m.Members = append(m.Members, Mapping{Name: name, From: s.key.from, Source: s.key.path, Kind: catalog.List, DType: s.dt, Unit: s.unit, Text: s.text(s.fixed)})
		}
	}
	member("band", bands)
	member(time.key.path, time)
	done[time.key] = true
	for _, s := range g.sources {
		class, _ := number(s.dt)
		if s == time || s.err != nil || s.vlen || s.rank() != 2 || class == 't' || class == 'c' || s.key.member != "" || s.shape[0] != time.shape[0] || s.shape[1] != time.shape[1] {
			continue
		}
		member(s.key.path, s)
		done[s.key] = true
	}
	n.recipe.Map = append(n.recipe.Map, m)
}

// bandsColumn parts bands that are one text with commas.
func (n *inference) bandsColumn() {
	i := slices.IndexFunc(n.recipe.Map, func(m Mapping) bool { return m.Trim != "" })
	if i < 0 {
		return
	}
	for k := range n.recipe.Map {
		m := &n.recipe.Map[k]
		if m.Kind == catalog.Scalar && m.Source == n.recipe.Map[i].Members[0].Source {
			m.Kind, m.Split, m.Nullable, m.Note = catalog.List, ",", false, "one text in the file, parted at commas"
		}
	}
}

// group maps a compound dataset whose length differs between objects to one struct of lists.
func (n *inference) group(g *merger, path string, done map[fieldKey]bool) {
	m := Mapping{Name: path, From: FromDataset, Kind: catalog.Struct, Note: "its length differs between objects"}
	for _, s := range g.sources {
		if s.key.path != path || s.key.from != FromDataset {
			continue
		}
		done[s.key] = true
		if !n.sound(s) {
			continue
		}
		if s.rank() != 1 || s.vlen {
			n.problem("%s: %q has shape %v a row and %q differs in length between objects; a ragged run of arrays is no column: leave it out (drop: [%s])", s.where, s.key, s.shape, path, s.key)
			continue
		}
		if s.missing != "" {
			n.problem("%q is in %s and missing in %s: leave it out (drop: [%s])", s.key, s.where, s.missing, s.key)
			continue
		}
		m.Members = append(m.Members, Mapping{Name: strings.ReplaceAll(s.key.member, "/", "_"), From: FromDataset, Source: path, Member: s.key.member,
			Kind: catalog.List, DType: s.dt, Unit: s.unit, Text: s.text(s.fixed)})
	}
	if len(m.Members) > 0 {
		n.recipe.Map = append(n.recipe.Map, m)
	}
}

// keys finds id, ra and dec where the recipe does not name them; unique says whether a column's values differ in the sample.
func (n *inference) keys(unique func(column string) bool) {
	r := n.recipe
	scalarOf := func(m *Mapping, classes string) bool {
		class, _ := number(m.DType)
		return m.Kind == catalog.Scalar && (!m.Nullable || r.Family.tabular()) && m.From != FromSplit && strings.IndexByte(classes, class) >= 0
	}
	if r.ID == "" {
		n.guessID(func(m *Mapping) bool { return scalarOf(m, "iut") }, unique)
	}
	if m := r.find(r.ID); m != nil && m.DType == catalog.String && m.From != FromGroup {
		m.Text = TextID
	}
	if r.NoSky {
		return
	}
	if r.RA == "" {
		r.RA = n.guessAxis("ra", []string{"ra", "ra_deg", "radeg", "raj2000", "ra_j2000", "target_ra", "ra_target", "ra_icrs"}, scalarOf)
	}
	if r.Dec == "" {
		r.Dec = n.guessAxis("dec", []string{"dec", "dec_deg", "decdeg", "dej2000", "decj2000", "dec_j2000", "target_dec", "dec_target", "de_icrs", "dec_icrs"}, scalarOf)
	}
}

func (n *inference) guessAxis(what string, names []string, scalarOf func(*Mapping, string) bool) string {
	for _, m := range n.axes(names) {
		switch {
		case m.Nullable && !n.recipe.Family.tabular():
			n.problem("%q looks like %s and is missing in some inputs (%s)", m.Name, what, n.missing(m.Name))
			return ""
		case scalarOf(m, "fiu"):
			return m.Name
		}
	}
	n.problem("no column looks like %s in degrees; a recipe names it (%s: COLUMN), or says that there are no positions (no_sky: true)", what, what)
	return ""
}

// axes gives the columns of the names, the likelier ones first: those at the top of a file before those inside a struct.
func (n *inference) axes(names []string) []*Mapping {
	var out []*Mapping
	for depth := 0; depth < 4; depth++ {
		for _, name := range names {
			for i := range n.recipe.Map {
				m := &n.recipe.Map[i]
				last := strings.ToLower(m.Source[strings.LastIndexByte(m.Source, '.')+1:])
				if strings.Count(m.Source, ".") == depth && (strings.ToLower(m.Name) == name || last == name) {
					out = append(out, m)
				}
			}
		}
	}
	return out
}

// likeID says whether a name in lower case looks like an id's: it ends or begins in id, and not as valid or grid do.
func likeID(name string) bool {
	for _, word := range []string{"valid", "grid", "void", "roid"} {
		if strings.HasSuffix(name, word) {
			return false
		}
	}
	return strings.HasSuffix(name, "id") || strings.HasPrefix(name, "id_") || strings.Contains(name, "_id_")
}

// missing is an input that lacks a column, as the warnings say.
func (n *inference) missing(column string) string {
	for _, w := range n.warnings {
		if w.Code == WarnNullable && w.Column == column {
			return w.File
		}
	}
	return ""
}

func (n *inference) guessID(ok func(*Mapping) bool, unique func(column string) bool) {
	r := n.recipe
	var found []string
	r0 := r.Family.tabular() // where columns may be null and mostly are not: the reader refuses a null id
	for i := range r.Map {
		m := &r.Map[i]
		name := strings.ToLower(m.Name)
		if name == "object_id" && m.Nullable && !r0 {
			n.problem("%q looks like the id and is missing in some inputs (%s)", m.Name, n.missing(m.Name))
			return
		}
		if !ok(m) {
			continue
		}
		if name == "object_id" {
			r.ID = m.Name
			return
		}
		if likeID(name) {
			found = append(found, m.Name)
		}
	}
	found = slices.DeleteFunc(found, func(name string) bool { return !unique(name) })
	if len(found) > 1 && r.Family == Table {
		// An id at the top of the file is the object's; those inside structs are other things' too.
		depth := func(name string) int { return strings.Count(r.find(name).Source, ".") }
		least := depth(slices.MinFunc(found, func(a, b string) int { return depth(a) - depth(b) }))
		if shallow := slices.DeleteFunc(slices.Clone(found), func(name string) bool { return depth(name) > least }); len(shallow) == 1 {
			found = shallow
		}
	}
	if r.Family == Image && r.find("file") != nil {
		found = []string{"file"}
	}
	switch {
	case len(found) == 1:
		r.ID = found[0]
		if r.Family != Image {
			n.warn(WarnID, r.ID, "", "taken as the id because of its name and its values, which differ in the sample; there is no object_id")
		}
	case len(found) > 1:
		n.problem("columns %s look like ids, and their values differ; a recipe decides with the line \"id: %s\"", strings.Join(found, ", "), found[0])
	case r.Family == Grouped:
		r.ID = "object_id"
		r.Map = append([]Mapping{{Name: r.ID, From: FromGroup, Kind: catalog.Scalar, DType: catalog.String, Note: "the name of the object's group"}}, r.Map...)
	default:
		n.problem("no column looks like an id; a recipe names it (id: COLUMN)")
	}
}

// finish applies renames and checks the whole.
func (n *inference) finish() error {
	if err := errors.Join(n.problems...); err != nil {
		return err
	}
	if err := n.recipe.rename(); err != nil {
		return err
	}
	return n.recipe.Check()
}
