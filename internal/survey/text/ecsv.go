package text

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// ecsvColumn is what an ECSV header says of a column.
type ecsvColumn struct {
	name, datatype, subtype, unit string
}

// ecsvHeader reads the YAML of the comment block.
func ecsvHeader(path string, comments []string) (cols []ecsvColumn, delim byte, mixins map[string]string, err error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: ECSV header: %s", ErrCorrupt, path, fmt.Sprintf(format, args...))
	}
	if len(comments) == 0 {
		return nil, 0, nil, bad("the file does not begin with # %%ECSV")
	}
	version, ok := strings.CutPrefix(strings.TrimSpace(comments[0][1:]), "%ECSV ")
	if !ok {
		return nil, 0, nil, bad("the file begins with %s, not with # %%ECSV and a version", clip([]byte(comments[0])))
	}
	if !strings.HasPrefix(version, "0.") && !strings.HasPrefix(version, "1.") {
		return nil, 0, nil, fmt.Errorf("%w: %s: ECSV version %s; 0.9 and 1.0 are read", ErrUnsupported, path, clip([]byte(version)))
	}
	var text strings.Builder
	for _, line := range comments[1:] {
		line = strings.TrimPrefix(line[1:], " ")
		text.WriteString(line)
		text.WriteByte('\n')
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text.String()), &doc); err != nil {
		return nil, 0, nil, bad("%v", err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, 0, nil, bad("there is no YAML in it")
	}
	root := doc.Content[0]
	delim = ' '
	if d := member(root, "delimiter"); d != nil {
		if d.Value != " " && d.Value != "," {
			return nil, 0, nil, bad("delimiter %q; ECSV has space and comma", d.Value)
		}
		delim = d.Value[0]
	}
	types := member(root, "datatype")
	if types == nil || types.Kind != yaml.SequenceNode {
		return nil, 0, nil, bad("there is no list datatype")
	}
	if len(types.Content) > MaxColumns {
		return nil, 0, nil, fmt.Errorf("%w: %s: %d columns, at most %d", ErrTooLarge, path, len(types.Content), MaxColumns)
	}
	for i, n := range types.Content {
		c := ecsvColumn{name: scalar(member(n, "name")), datatype: scalar(member(n, "datatype")), subtype: scalar(member(n, "subtype"))}
		if c.name == "" || c.datatype == "" {
			return nil, 0, nil, bad("column %d has no name or no datatype", i+1)
		}
		unit := member(n, "unit")
		if unit != nil && unit.Kind == yaml.MappingNode {
			unit = member(unit, "unit")
		}
		c.unit = scalar(unit)
		cols = append(cols, c)
	}
	return cols, delim, mixinNotes(member(root, "meta")), nil
}

// member is the value of a key in a mapping, or in a list of mappings (an omap).
func member(n *yaml.Node, key string) *yaml.Node {
	if n == nil {
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		for _, x := range n.Content {
			if x.Kind == yaml.MappingNode {
				if v := member(x, key); v != nil {
					return v
				}
			}
		}
	}
	return nil
}

func scalar(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// mixinNotes says of which mixin a plain column is a part.
func mixinNotes(meta *yaml.Node) map[string]string {
	notes := map[string]string{}
	all := member(meta, "__serialized_columns__")
	if all == nil || all.Kind != yaml.MappingNode {
		return notes
	}
	for i := 0; i+1 < len(all.Content); i += 2 {
		name, body := all.Content[i].Value, all.Content[i+1]
		class := scalar(member(body, "__class__"))
		if at := strings.LastIndexByte(class, '.'); at >= 0 {
			class = class[at+1:]
		}
		var about []string
		for _, key := range []string{"frame", "format", "scale"} {
			if v := scalar(member(body, key)); v != "" {
				about = append(about, key+" "+v)
			}
		}
		note := fmt.Sprintf("of the %s %q", class, name)
		if len(about) > 0 {
			note += " (" + strings.Join(about, ", ") + ")"
		}
		note += ", of which only the numbers are read"
		if class == "MaskedColumn" || class == "Quantity" || class == "" {
			continue // the numbers and the unit are all of it
		}
		var walk func(n *yaml.Node, depth int)
		walk = func(n *yaml.Node, depth int) {
			if depth > MaxDepth {
				return
			}
			if strings.HasSuffix(n.Tag, "SerializedColumn") {
				if part := scalar(member(n, "name")); part != "" {
					notes[part] = note
				}
			}
			for _, x := range n.Content {
				walk(x, depth+1)
			}
		}
		walk(body, 0)
	}
	return notes
}

// ecsvTypes are the types that ECSV names, and older files.
var ecsvTypes = map[string]catalog.DType{
	"bool": catalog.Bool, "int8": catalog.Int8, "int16": catalog.Int16, "int32": catalog.Int32, "int64": catalog.Int64,
	"uint8": catalog.Uint8, "uint16": catalog.Uint16, "uint32": catalog.Uint32, "uint64": catalog.Uint64,
	"float16": catalog.Float16, "float32": catalog.Float32, "float64": catalog.Float64,
	"complex64": catalog.Complex64, "complex128": catalog.Complex128, "string": catalog.String, "str": catalog.String,
}

// field makes the field of a column.
func (c *ecsvColumn) field() (table.Field, column) {
	f := table.Field{Source: c.name, Column: catalog.Column{Name: c.name, Kind: catalog.Scalar, Unit: c.unit}}
	read := column{ecsv: true}
	fail := func(format string, args ...any) (table.Field, column) {
		f.Err = fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
		read.skip = true
		return f, read
	}
	d, ok := ecsvTypes[c.datatype]
	if !ok {
		return fail("datatype %s", c.datatype)
	}
	f.Column.DType = d
	if c.subtype == "" {
		if d.Complex() {
			f.Column.Kind = catalog.Tensor
		}
		return f, read
	}
	if d != catalog.String {
		return fail("subtype %s of datatype %s", c.subtype, c.datatype)
	}
	name, dims, shaped := strings.Cut(c.subtype, "[")
	if d, ok = ecsvTypes[name]; !ok || !shaped {
		return fail("subtype %s", c.subtype)
	}
	if d.Complex() {
		return fail("subtype %s: arrays of complex numbers", c.subtype)
	}
	var shape []*int
	if err := json.Unmarshal([]byte("["+dims), &shape); err != nil || len(shape) == 0 {
		return fail("subtype %s", c.subtype)
	}
	f.Column.DType = d
	f.Missing = []bool{false}
	if len(shape) == 1 && (shape[0] == nil || d == catalog.String) {
		f.Column.Kind = catalog.List
		read.list = true
		return f, read
	}
	if d == catalog.String || slices.Contains(shape, nil) {
		return fail("subtype %s: texts of several axes, and arrays of several axes of which one varies", c.subtype)
	}
	f.Column.Kind = catalog.Tensor
	for _, n := range shape {
		f.Column.Shape = append(f.Column.Shape, *n)
	}
	check := f.Column
	check.Name = "x"
	if err := check.Check(); err != nil {
		return fail("subtype %s: a shape that is empty, over %d MiB a row or of too many axes", c.subtype, catalog.MaxTensorBytes>>20)
	}
	return f, read
}

// scanECSV reads an ECSV file from end to end, and every value once.
func (s *Scan) scanECSV(ctx context.Context, in *input, comments []string, null []string) error {
	cols, delim, mixins, err := ecsvHeader(in.path, comments)
	if err != nil {
		return err
	}
	s.delim = delim
	r := &records{in: in, delim: delim}
	header, err := r.next(ctx)
	if err != nil {
		return err
	}
	at := map[string]bool{}
	for i := range cols {
		if at[cols[i].name] {
			return lineError(ErrCorrupt, in.path, r.line, "two columns are called %q", cols[i].name)
		}
		at[cols[i].name] = true
		if i >= len(header) || string(header[i].b) != cols[i].name {
			return lineError(ErrCorrupt, in.path, r.line, "the names of the columns differ from those of the ECSV header, from %q on", cols[i].name)
		}
	}
	if len(header) != len(cols) {
		return lineError(ErrCorrupt, in.path, r.line, "%d names of columns, and the ECSV header has %d", len(header), len(cols))
	}
	t := &recordTable{file: file{scan: s}, null: null, json: &jsonLine{}}
	for i := range cols {
		f, c := cols[i].field()
		c.strict = f.Column.DType == catalog.String && f.Column.Kind == catalog.Scalar && at[cols[i].name+".mask"]
		f.Note = mixins[cols[i].name]
		s.fields, s.cols = append(s.fields, f), append(s.cols, c)
	}
	reads := make([]reading, len(cols))
	for i := range reads {
		f := &s.fields[i]
		reads[i] = reading{at: i, field: f, col: &s.cols[i], d: f.Column.DType, fill: anyFill(f.Column.DType), opening: true}
	}
	s.begin = mark{in.off, in.line}
	var varying int64
	for {
		s.mark(in)
		cells, err := r.next(ctx)
		if err != nil {
			return err
		}
		if cells == nil {
			break
		}
		if len(cells) != len(cols) {
			return ragged(in.path, r.line, len(cells), len(cols))
		}
		for i := range reads {
			x := &reads[i]
			if x.col.skip {
				continue
			}
			if x.v == nil {
				x.v = catalog.NewVector(&x.field.Column)
			}
			if err := t.value(x, cells[i], 1); err != nil {
				return lineError(ErrCorrupt, in.path, r.line, "column %q: row %d: %v", x.field.Source, s.rows, err)
			}
			if x.v.Valid != nil {
				x.field.Column.Nullable = true
			}
			if !x.field.Column.Fixed() {
				varying += int64(len(x.v.Data)) + 8
			}
			reset(x.v)
		}
		s.rows++
	}
	for i := range s.fields {
		s.width += int64(s.fields[i].Column.RowBytes())
	}
	s.width += varying / max(1, s.rows)
	return nil
}

// anyFill stands for null elements while a file is only checked.
func anyFill(d catalog.DType) any {
	if d == catalog.String {
		return ""
	}
	return 0.0
}

// reset empties a vector and keeps its memory.
func reset(v *catalog.Vector) {
	v.Rows, v.Data, v.Valid = 0, v.Data[:0], nil
	if v.Offsets != nil {
		v.Offsets = v.Offsets[:1]
	}
	if v.StrOffsets != nil {
		v.StrOffsets = v.StrOffsets[:1]
	}
}

// array appends the JSON array of a field.
func (t *recordTable) array(r *reading, b []byte, rows int64) error {
	v := r.v
	if len(b) == 0 {
		if n := r.field.Column.RowBytes(); n > 0 {
			v.Data = append(v.Data, make([]byte, n)...)
		} else {
			v.Offsets = append(v.Offsets, v.Offsets[len(v.Offsets)-1])
		}
		markNull(v, rows)
		return nil
	}
	if v.Valid != nil {
		v.Valid = append(v.Valid, true)
	}
	j := t.json
	if err := j.parse(b); err != nil {
		return err
	}
	if j.tokens[0].kind != jArray {
		return fmt.Errorf("%s is no JSON array", clip(b))
	}
	if r.col.list {
		n, missing, err := j.list(v, r.d, 0, r.fill)
		if err != nil {
			return err
		}
		v.Offsets = append(v.Offsets, v.Offsets[len(v.Offsets)-1]+int64(n))
		r.miss(missing)
		return nil
	}
	missing, err := j.tensor(v, r.d, 0, r.field.Column.Shape, r.fill)
	r.miss(missing)
	return err
}

// miss notes that elements are null, while the file is opened.
func (r *reading) miss(missing bool) {
	if missing && r.opening {
		r.field.Missing[0] = true
	}
}
