package survey

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"astropile/internal/catalog"
)

// Family is one of the ways in which published surveys lay objects out: three of HDF5, and two of other formats.
type Family string

// The families.
const (
	// Columnar files hold datasets whose axis 0 is the object.
	Columnar Family = "columnar"
	// OneObject files hold one object each: scalars of shape (), arrays of its measurements.
	OneObject Family = "object"
	// Grouped files hold a group for every object.
	Grouped Family = "group"
	// Table files hold a row for every object: FITS tables, Parquet, CSV, ECSV, JSONL.
	Table Family = "table"
	// Image files are FITS files of one object each: its images and their header.
	Image Family = "image"
)

// families are all of them.
var families = []Family{Columnar, OneObject, Grouped, Table, Image}

// tabular says whether inputs of the family are read as tables.
func (f Family) tabular() bool { return f == Table || f == Image }

// From says what a column is read from.
type From string

// What a column can be read from.
const (
	// FromDataset is a dataset, or a member of a compound one.
	FromDataset From = "dataset"
	// FromAttribute is an attribute of an object's group.
	FromAttribute From = "attribute"
	// FromGroup is the name of an object's group.
	FromGroup From = "group"
	// FromSplit is the published split that the path of the file tells.
	FromSplit From = "split"
)

// Mapping says how one column, or one member of a struct, is made.
type Mapping struct {
	Name     string
	From     From
	Source   string // name of the dataset or attribute; empty for group and split
	Member   string // member of a compound dataset, with slashes for members of members
	Kind     catalog.Kind
	DType    catalog.DType
	Shape    []int
	Unit     string
	Nullable bool
	Text     Text     // of text, and of ids made text; empty elsewhere
	Split    string   // list of text from one text: what stands between its parts
	Trim     string   // struct of bands x epochs: the member that holds the time by which padding is known
	Pad      *float64 // tensor: value that fills what smaller files lack; nil refuses them
	Round    bool     // floats may be rounded to DType
	Fill     any      // what stands for null elements of lists and tensors, and for null rows: float64, or string for text; nil: see doc.go
	Scale    float64  // float64: factor that values are multiplied by; 0: none
	Wrap     bool     // float64: degrees from -360 to 0, and 360, are brought into [0, 360)
	Members  []Mapping
	Note     string // why, for people; written as a comment and not read back
}

// Recipe is how survey files become the columns of a dataset. Where Map is empty, Inspect infers it and obeys the rest.
type Recipe struct {
	Family      Family // empty: detected
	ID, RA, Dec string // names of columns
	NoSky       bool   // the objects have no position
	HDU         string // FITS: name or number of the HDU that holds the table
	Map         []Mapping
	Rename      map[string]string  // inferred name of a column to its name here
	Drop        []string           // sources that are left out: dataset, or dataset/member of a compound
	Pad         map[string]float64 // hint: sources whose shapes differ, and what fills up smaller values
	Notes       []string           // written as a comment at the top and not read back

	ragged map[string]bool // sources that are groups of lists in some inputs, while Inspect looks into all
}

// Column is the mapping as the dataset describes it; layout and codec are left to the writer.
func (m *Mapping) Column() catalog.Column {
	c := catalog.Column{Name: m.Name, Kind: m.Kind, Shape: slices.Clone(m.Shape), DType: m.DType, Unit: m.Unit, Nullable: m.Nullable}
	for i := range m.Members {
		c.Members = append(c.Members, m.Members[i].Column())
	}
	return c
}

// Columns gives the dataset's columns in the order they have in a shard. Layout and codec are empty.
func (r *Recipe) Columns() []catalog.Column {
	cols := make([]catalog.Column, len(r.Map))
	for i := range r.Map {
		cols[i] = r.Map[i].Column()
	}
	return catalog.FileOrder(cols)
}

// mappings gives the mappings in the order of Columns.
func (r *Recipe) mappings() []*Mapping {
	byName := map[string]*Mapping{}
	for i := range r.Map {
		byName[r.Map[i].Name] = &r.Map[i]
	}
	cols := r.Columns()
	out := make([]*Mapping, len(cols))
	for i := range cols {
		out[i] = byName[cols[i].Name]
	}
	return out
}

// RawID is the column that keeps the id as it stands in the inputs, before it is decoded and trimmed; empty if none does.
func (r *Recipe) RawID() string {
	id := r.find(r.ID)
	for i := range r.Map {
		m := &r.Map[i]
		if id != nil && m.key() == id.key() && m.Name != id.Name && m.Kind == catalog.Scalar && m.DType == catalog.String && (m.Text == TextExact || m.Text == "") {
			return m.Name
		}
	}
	return ""
}

func (r *Recipe) find(name string) *Mapping {
	for i := range r.Map {
		if r.Map[i].Name == name {
			return &r.Map[i]
		}
	}
	return nil
}

// rename applies Rename to Map and to the names of id and position, and empties it.
func (r *Recipe) rename() error {
	for from, to := range r.Rename {
		if r.find(from) == nil {
			return fmt.Errorf("%w: rename: there is no column %q", ErrRecipe, from)
		}
		if to == "" {
			return fmt.Errorf("%w: rename: %q has no new name", ErrRecipe, from)
		}
	}
	to := func(name string) string {
		if n, ok := r.Rename[name]; ok {
			return n
		}
		return name
	}
	for i := range r.Map {
		r.Map[i].Name = to(r.Map[i].Name)
	}
	r.ID, r.RA, r.Dec = to(r.ID), to(r.RA), to(r.Dec)
	r.Rename = nil
	return nil
}

// Check says whether the recipe is complete and free of contradictions. The error wraps ErrRecipe.
func (r *Recipe) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrRecipe, fmt.Sprintf(format, args...))
	}
	if !slices.Contains(families, r.Family) {
		return bad("family: %q is none of %v", r.Family, families)
	}
	if len(r.Map) == 0 {
		return bad("columns: there are none")
	}
	if len(r.Pad) > 0 {
		return bad("pad: %v is not applied", slices.Sorted(maps.Keys(r.Pad)))
	}
	if len(r.Rename) > 0 {
		return bad("rename: %v is not applied", slices.Sorted(maps.Keys(r.Rename)))
	}
	for i := range r.Map {
		if err := r.Map[i].check(r.Family, false); err != nil {
			return err
		}
	}
	for i := range r.Map {
		if m := &r.Map[i]; m.Wrap && m.Name != r.RA {
			return r.wrapError(m)
		}
	}
	if err := catalog.CheckColumns(r.Columns()); err != nil {
		return fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	if r.NoSky && (r.RA != "" || r.Dec != "") {
		return bad("no_sky: true contradicts ra: %s, dec: %s", r.RA, r.Dec)
	}
	if err := r.key("id", r.ID, "an integer or text", func(c byte) bool { return c == 'i' || c == 'u' || c == 't' }); err != nil {
		return err
	}
	if r.NoSky {
		return nil
	}
	isNumber := func(c byte) bool { return c == 'f' || c == 'i' || c == 'u' }
	if err := r.key("ra", r.RA, "a number", isNumber); err != nil {
		return err
	}
	if err := r.key("dec", r.Dec, "a number", isNumber); err != nil {
		return err
	}
	if r.RA == r.Dec {
		return bad("ra and dec are both %q", r.RA)
	}
	return nil
}

func (r *Recipe) wrapError(m *Mapping) error {
	return fmt.Errorf("%w: column %q: wrap: belongs to the right ascension, which is %q", ErrRecipe, m.Name, r.RA)
}

func (r *Recipe) key(what, name, want string, ok func(byte) bool) error {
	m := r.find(name)
	if m == nil {
		return fmt.Errorf("%w: %s: there is no column %q", ErrRecipe, what, name)
	}
	class, _ := number(m.DType)
	if m.Kind != catalog.Scalar || m.Nullable || !ok(class) {
		return fmt.Errorf("%w: %s: %q has to be %s in every row, and is a %s of %s (nullable: %v)", ErrRecipe, what, name, want, m.Kind, m.DType, m.Nullable)
	}
	return nil
}

func (m *Mapping) check(family Family, member bool) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: column %q: %s", ErrRecipe, m.Name, fmt.Sprintf(format, args...))
	}
	switch m.From {
	case FromDataset:
	case FromAttribute, FromGroup:
		if family != Grouped {
			return bad("from: %s needs family: %s", m.From, Grouped)
		}
	case FromSplit:
	default:
		return bad("from: %q is none of %s, %s, %s, %s", m.From, FromDataset, FromAttribute, FromGroup, FromSplit)
	}
	named := m.From == FromDataset || m.From == FromAttribute
	switch {
	case m.Kind == catalog.Struct && (m.Source != "" || m.Member != "" || m.From != FromDataset):
		return bad("a struct has no source of its own; its members have")
	case m.Kind != catalog.Struct && named && m.Source == "":
		return bad("source: is missing")
	case !named && (m.Source != "" || m.Member != ""):
		return bad("from: %s has no source", m.From)
	case !named && (m.Kind != catalog.Scalar || m.DType != catalog.String):
		return bad("from: %s gives text, a scalar of dtype string", m.From)
	case m.Kind == catalog.Struct && m.DType != "":
		return bad("a struct has no dtype; its members have")
	case m.Kind == catalog.Struct && m.Nullable:
		return bad("a struct is not null, but empty")
	case m.Kind != catalog.Struct && len(m.Members) > 0:
		return bad("only a struct has members")
	case m.Kind != catalog.Struct && m.Trim != "":
		return bad("trim: belongs to a struct")
	case m.Text != "" && m.DType != catalog.String:
		return bad("text: belongs to dtype string")
	case m.Split != "" && (m.Kind != catalog.List || m.DType != catalog.String):
		return bad("split: belongs to a list of dtype string")
	case m.Pad != nil && m.Kind != catalog.Tensor:
		return bad("pad: belongs to a tensor")
	case member && m.Nullable:
		return bad("a member is not null")
	case m.Kind == catalog.Struct && (m.Fill != nil || m.Scale != 0 || m.Wrap):
		return bad("fill:, scale: and wrap: belong to its members")
	case m.Fill != nil && m.Scale != 0:
		return bad("fill: and scale: do not go together; what stands for null would be scaled too")
	case m.Fill != nil && !family.tabular():
		return bad("fill: needs family: %s or %s", Table, Image)
	case (m.Scale != 0 || m.Wrap) && m.DType != catalog.Float64:
		return bad("scale: and wrap: need dtype: float64")
	case math.IsNaN(m.Scale) || math.IsInf(m.Scale, 0):
		return bad("scale: %v is no factor", m.Scale)
	case m.Wrap && m.Kind != catalog.Scalar:
		return bad("wrap: belongs to a scalar")
	}
	if m.Fill != nil {
		if m.DType == catalog.String {
			if _, ok := m.Fill.(string); !ok {
				return bad("fill: %v is no text", m.Fill)
			}
		} else if err := putFill(make([]byte, m.DType.Size()), m); err != nil {
			return bad("%v", err)
		}
	}
	switch m.Text {
	case "", TextExact, TextPadded, TextID, TextLatin1:
	default:
		return bad("text: %q is none of %s, %s, %s, %s", m.Text, TextExact, TextPadded, TextID, TextLatin1)
	}
	if m.Pad != nil {
		if class, bits := number(m.DType); !putNumber(make([]byte, m.DType.Size()), class, bits, *m.Pad, false) && !(class == 'b' && (*m.Pad == 0 || *m.Pad == 1)) {
			return bad("pad: %v is no %s", *m.Pad, m.DType)
		}
	}
	for i := range m.Members {
		if err := m.Members[i].check(family, true); err != nil {
			return err
		}
	}
	if m.Trim != "" {
		if family != OneObject {
			return bad("trim: needs family: %s", OneObject)
		}
		if i := slices.IndexFunc(m.Members, func(x Mapping) bool { return x.Name == m.Trim }); i < 0 || m.Members[i].DType == catalog.String {
			return bad("trim: %q is no member that holds numbers", m.Trim)
		}
	}
	return nil
}

// drops says whether the recipe leaves a source out.
func (r *Recipe) drops(k fieldKey) bool {
	for _, d := range r.Drop {
		if d == k.path || k.member != "" && d == k.path+"/"+k.member {
			return true
		}
	}
	return false
}

// fieldKey names a source of values in a file.
type fieldKey struct {
	from         From
	path, member string
}

func (m *Mapping) key() fieldKey { return fieldKey{m.From, m.Source, m.Member} }

// name is the column's name where nothing says otherwise.
func (k fieldKey) name() string {
	if k.member == "" {
		return k.path
	}
	return k.path + "_" + strings.ReplaceAll(k.member, "/", "_")
}

func (k fieldKey) String() string {
	if k.member == "" {
		return k.path
	}
	return k.path + "/" + k.member
}
