package survey

import (
	"errors"
	"fmt"
	"strings"

	"astropile/internal/catalog"
	"astropile/internal/survey/hdf5"
)

// field is one source of values in a file: a dataset, a member of a compound one, an attribute.
type field struct {
	key    fieldKey
	elem   elem
	err    error // why it has no place in a column; elem is then empty
	offset int   // bytes from the start of a dataset's element, for members
	width  int   // bytes of the value in a dataset's element, its array dimensions included
	shape  []int // of one row: without axis 0 in columnar files
	lead   int   // leading axes of shape that are the dataset's own and not the member's array dimensions
	unit   string
	attr   *hdf5.Attr
	bytes  int64 // of one row, as read
}

// object is what one file (columnar, one object) or one group (grouped) offers.
type object struct {
	where  string // for messages: the file, and the group
	rows   int64
	fields []field
	index  map[fieldKey]int
	sets   map[string]*hdf5.Dataset
}

func (o *object) find(k fieldKey) *field {
	if i, ok := o.index[k]; ok {
		return &o.fields[i]
	}
	return nil
}

func (o *object) add(f field) {
	if _, ok := o.index[f.key]; ok {
		return
	}
	o.index[f.key] = len(o.fields)
	o.fields = append(o.fields, f)
}

// detect says which family a file is of. Where its shape allows more than one, the error gives the line of a recipe that
// decides.
func detect(root *hdf5.Object, where string, r *Recipe) (Family, error) {
	sets, groups, err := children(root, r)
	if err != nil {
		return "", err
	}
	unclear := func(family Family, format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s; if that is meant, a recipe with the line \"family: %s\" decides", ErrMapping, where, fmt.Sprintf(format, args...), family)
	}
	switch {
	case len(sets) == 0 && len(groups) == 0:
		return "", fmt.Errorf("%w: %s: neither datasets nor groups are in it", ErrMapping, where)
	case len(sets) == 0:
		return Grouped, nil
	case len(groups) > 0:
		return "", unclear(Columnar, "both datasets (%q) and groups (%q) stand at its root, so it is not clear what an object is", sets[0].name, groups[0])
	}
	var scalar, first, other string
	rows := uint64(0)
	for _, s := range sets {
		switch d := s.set; {
		case len(d.Dims) == 0:
			scalar = s.name
		case first == "":
			first, rows = s.name, d.Dims[0]
		case d.Dims[0] != rows && other == "":
			other = s.name
		}
	}
	switch {
	case scalar == "" && other == "":
		return Columnar, nil
	case scalar == "":
		return "", unclear(Columnar, "datasets %q and %q have different lengths of axis 0, and there are no scalars as in files of one object (drop the one that is no column)", first, other)
	}
	// Scalars are what an object has one of; its id or position among them tells a file of one object.
	for _, s := range sets {
		n := strings.ToLower(s.name)
		if len(s.set.Dims) == 0 && (n == "object_id" || n == "ra" || n == "dec") {
			return OneObject, nil
		}
	}
	if first == "" {
		return OneObject, nil
	}
	return "", unclear(Columnar, "dataset %q has shape () and %q has an axis 0 of %d, and neither id nor position tells whether the file is one object (family: %s) or many (drop %q)", scalar, first, rows, OneObject, scalar)
}

type namedSet struct {
	name string
	set  *hdf5.Dataset
}

// children lists the datasets and the groups below an object by name, but for what the recipe leaves out.
func children(o *hdf5.Object, r *Recipe) (sets []namedSet, groups []string, err error) {
	links, err := o.Links()
	if err != nil {
		return nil, nil, err
	}
	for _, l := range links {
		if r.drops(fieldKey{path: l.Name}) {
			continue
		}
		c, err := o.Child(l.Name)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case c.IsDataset():
			d, err := c.Dataset()
			if err != nil {
				return nil, nil, err
			}
			sets = append(sets, namedSet{l.Name, d})
		case c.IsGroup():
			groups = append(groups, l.Name)
		}
	}
	return sets, groups, nil
}

// describe lists what an object offers. The recipe's Drop leaves sources out; its Family says what axis 0 is.
func describe(o *hdf5.Object, where string, r *Recipe) (*object, error) {
	out := &object{where: where, rows: 1, index: map[fieldKey]int{}, sets: map[string]*hdf5.Dataset{}}
	links, err := o.Links()
	if err != nil {
		return nil, err
	}
	first := ""
	for _, l := range links {
		if r.drops(fieldKey{path: l.Name}) {
			continue
		}
		c, err := o.Child(l.Name)
		if err != nil {
			return nil, err
		}
		if !c.IsDataset() {
			return nil, fmt.Errorf("%w: %s: %q is a group and no column; leave it out (drop: [%s])", ErrMapping, where, l.Name, l.Name)
		}
		d, err := c.Dataset()
		if err != nil {
			return nil, err
		}
		if r.Family == Columnar {
			switch {
			case len(d.Dims) == 0:
				return nil, fmt.Errorf("%w: %s: dataset %q has no axis of objects; leave it out (drop: [%s])", ErrMapping, where, l.Name, l.Name)
			case first == "":
				first, out.rows = l.Name, int64(d.Dims[0])
			case int64(d.Dims[0]) != out.rows:
				return nil, fmt.Errorf("%w: %s: dataset %q has %d rows and %q has %d; leave one out (drop: [%s])", ErrMapping, where, first, out.rows, l.Name, d.Dims[0], l.Name)
			}
		}
		if err := out.addDataset(c, l.Name, d, r); err != nil {
			return nil, err
		}
	}
	if r.Family == Columnar && first == "" {
		return nil, fmt.Errorf("%w: %s: no dataset is left to be a column", ErrMapping, where)
	}
	if r.Family != Grouped {
		return out, nil
	}
	attrs, err := o.Attrs()
	if err != nil {
		return nil, err
	}
	for i := range attrs {
		a := &attrs[i]
		// Groups repeat their scalars as attributes; the dataset is what counts.
		if _, ok := out.sets[a.Name]; ok || r.drops(fieldKey{path: a.Name}) {
			continue
		}
		f := field{key: fieldKey{FromAttribute, a.Name, ""}, attr: a, width: a.Type.Size}
		if f.elem, f.err = classify(a.Type); a.Null {
			f.err = errors.New("it has no value")
		}
		if f.shape, err = ints(a.Dims); err != nil {
			f.err = err
		}
		f.lead = len(f.shape)
		out.add(f)
	}
	return out, nil
}

func (o *object) addDataset(c *hdf5.Object, name string, d *hdf5.Dataset, r *Recipe) error {
	attrs, err := c.Attrs()
	if err != nil {
		return err
	}
	unit := ""
	for _, a := range attrs {
		if n := strings.ToLower(a.Name); n == "unit" || n == "units" {
			if s := unitText(a); s != "" && unit == "" {
				unit = s
			}
		}
	}
	o.sets[name] = d
	dims := d.Dims
	if r.Family == Columnar {
		dims = dims[1:]
	}
	lead, shapeErr := ints(dims)
	if d.Null {
		shapeErr = errors.New("it has no elements")
	} else if shapeErr == nil {
		shapeErr = d.Readable()
	}
	return leaves(d.Type, "", 0, nil, 0, func(member string, offset int, t *hdf5.Type, array []int) error {
		f := field{key: fieldKey{FromDataset, name, member}, offset: offset, width: t.Size, unit: unit, lead: len(lead), err: shapeErr}
		if member != "" {
			f.unit = ""
			if r.drops(f.key) {
				return nil
			}
		}
		f.shape = append(append([]int(nil), lead...), array...)
		for _, n := range array {
			f.width *= n
		}
		e, err := classify(t)
		if f.elem = e; f.err == nil {
			f.err = err
		}
		f.bytes = int64(f.width)
		for _, n := range lead {
			if f.bytes *= int64(n); f.bytes > maxRowBytes {
				f.bytes = maxRowBytes
				break
			}
		}
		o.add(f)
		return nil
	})
}

// maxRowBytes bounds what one row of one source may take in memory.
const maxRowBytes = 256 << 20

func unitText(a hdf5.Attr) string {
	v, err := a.Value()
	if err != nil {
		return ""
	}
	switch s := v.(type) {
	case string:
		return strings.TrimSpace(strings.ToValidUTF8(s, "?"))
	case []string:
		if len(s) == 1 {
			return strings.TrimSpace(strings.ToValidUTF8(s[0], "?"))
		}
	}
	return ""
}

// leaves visits the parts of a type that are neither compounds nor arrays.
func leaves(t *hdf5.Type, member string, offset int, array []int, depth int, visit func(member string, offset int, t *hdf5.Type, array []int) error) error {
	switch {
	case depth > 16:
		return fmt.Errorf("%w: compounds nested more than 16 deep", ErrMapping)
	case t.Class == hdf5.ClassArray:
		dims, err := ints(t.Dims)
		if err != nil || t.Base.Class == hdf5.ClassCompound && !t.Base.Complex() {
			return visit(member, offset, t, nil) // an array of compounds is no column: classify names it
		}
		return leaves(t.Base, member, offset, append(append([]int(nil), array...), dims...), depth+1, visit)
	case t.Class == hdf5.ClassCompound && !t.Complex():
		for _, m := range t.Members {
			name := m.Name
			if member != "" {
				name = member + "/" + m.Name
			}
			if err := leaves(m.Type, name, offset+m.Offset, array, depth+1, visit); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(member, offset, t, array)
}

// ints gives dimensions as ints; what cannot be one row in memory is an error.
func ints(dims []uint64) ([]int, error) {
	out := make([]int, len(dims))
	n := uint64(1)
	for i, d := range dims {
		if d > maxRowBytes || d > 0 && n > maxRowBytes/d {
			return nil, fmt.Errorf("a row of shape %v is too large", dims)
		}
		if d > 0 {
			n *= d
		}
		out[i] = int(d)
	}
	return out, nil
}

func elements(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// ragged says whether a field is an array of one axis, or a sequence, a row.
func (f *field) ragged() bool {
	return f.elem.vlen == nil && len(f.shape) == 1 || f.elem.vlen != nil && len(f.shape) == 0
}

// fits says whether a field can be read as a mapping wants it, value by value aside.
func (f *field) fits(m *Mapping) error {
	if f.err != nil {
		return f.err
	}
	if f.elem.dt == catalog.String != (m.DType == catalog.String) {
		fromNumber := m.DType == catalog.String && f.elem.vlen == nil && m.Kind == catalog.Scalar
		class, _ := number(f.elem.dt)
		if !fromNumber || class != 'i' && class != 'u' {
			return fmt.Errorf("it holds %s, not %s", f.elem.dt, m.DType)
		}
	}
	text := m.DType == catalog.String
	switch m.Kind {
	case catalog.Scalar:
		// An axis of length 1 is how some writers spell a scalar.
		if f.elem.vlen != nil || elements(f.shape) != 1 {
			return fmt.Errorf("it has shape %v a row, not one value", f.shape)
		}
	case catalog.Tensor:
		if f.elem.vlen != nil {
			return errors.New("it is of varying length, and no tensor (kind: list)")
		}
		if reshapes(f.shape, m.Shape, m.Pad) {
			return nil
		}
		if len(f.shape) != len(m.Shape) {
			return fmt.Errorf("it has shape %v a row, not %v", f.shape, m.Shape)
		}
		for i, d := range f.shape {
			if d > m.Shape[i] || d < m.Shape[i] && m.Pad == nil {
				return fmt.Errorf("it has shape %v a row, not %v", f.shape, m.Shape)
			}
		}
	case catalog.List:
		if text && m.Split != "" && f.elem.vlen == nil && elements(f.shape) == 1 {
			return nil
		}
		if !f.ragged() {
			return fmt.Errorf("it has shape %v a row of %s, which is no list", f.shape, f.elem.typ)
		}
	}
	return nil
}
