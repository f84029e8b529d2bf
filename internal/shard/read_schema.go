package shard

import (
	"fmt"
	"slices"

	"astropile/internal/catalog"
)

// schemaNode is one element of a file's schema with what stands below it.
type schemaNode struct {
	SchemaElement
	children []schemaNode
	rep, def int // the largest levels at this node
	leaf     int // number of the leaf, or -1
}

// maxSchemaDepth bounds how deep a file's schema nests.
const maxSchemaDepth = 40

// schemaTree builds the top-level nodes from the depth-first list and counts the leaves.
func schemaTree(elems []SchemaElement) (top []schemaNode, leaves int, err error) {
	if len(elems) == 0 || elems[0].Leaf {
		return nil, 0, fmt.Errorf("%w: the schema has no root", ErrFormat)
	}
	next := 1
	var build func(rep, def, depth int) (schemaNode, error)
	build = func(rep, def, depth int) (schemaNode, error) {
		if next >= len(elems) || depth > maxSchemaDepth {
			return schemaNode{}, fmt.Errorf("%w: the schema's tree does not close", ErrFormat)
		}
		n := schemaNode{SchemaElement: elems[next], rep: rep, def: def, leaf: -1}
		next++
		switch n.Repetition {
		case Optional:
			n.def++
		case Repeated:
			n.def++
			n.rep++
		}
		if n.Leaf {
			if n.Children != 0 {
				return n, fmt.Errorf("%w: a leaf of the schema has children", ErrFormat)
			}
			n.leaf = leaves
			leaves++
			return n, nil
		}
		for range n.Children {
			c, err := build(n.rep, n.def, depth+1)
			if err != nil {
				return n, err
			}
			n.children = append(n.children, c)
		}
		return n, nil
	}
	for range elems[0].Children {
		n, err := build(0, 0, 1)
		if err != nil {
			return nil, 0, err
		}
		top = append(top, n)
	}
	if next != len(elems) {
		return nil, 0, fmt.Errorf("%w: %d elements stand outside the schema's tree", ErrFormat, len(elems)-next)
	}
	return top, leaves, nil
}

// onlyLeaf is the single leaf below a node, or nil where there are several or none.
func (n *schemaNode) onlyLeaf() *schemaNode {
	for !n.Leaf {
		if len(n.children) != 1 {
			return nil
		}
		n = &n.children[0]
	}
	return n
}

// leaves appends the numbers of all leaves below a node.
func (n *schemaNode) leaves(out []int) []int {
	if n.Leaf {
		return append(out, n.leaf)
	}
	for i := range n.children {
		out = n.children[i].leaves(out)
	}
	return out
}

// dtypeOf is the element type of a leaf, and false where there is none for it.
func dtypeOf(e *SchemaElement) (catalog.DType, bool) {
	switch e.Type {
	case TypeBoolean:
		return catalog.Bool, true
	case TypeFloat:
		return catalog.Float32, true
	case TypeDouble:
		return catalog.Float64, true
	case TypeByteArray:
		return catalog.String, true
	case TypeFixed:
		return catalog.Float16, e.TypeLength == 2 && e.Logical == LogicalFloat16
	case TypeInt64:
		if e.Logical == LogicalInteger && e.IntBits == 64 && !e.IntSigned || e.Converted == ConvertedUint64 {
			return catalog.Uint64, true
		}
		return catalog.Int64, true
	case TypeInt32:
		if e.Logical == LogicalInteger {
			switch {
			case e.IntBits == 8 && e.IntSigned:
				return catalog.Int8, true
			case e.IntBits == 8:
				return catalog.Uint8, true
			case e.IntBits == 16 && e.IntSigned:
				return catalog.Int16, true
			case e.IntBits == 16:
				return catalog.Uint16, true
			case e.IntBits == 32 && !e.IntSigned:
				return catalog.Uint32, true
			}
			return catalog.Int32, true
		}
		switch e.Converted {
		case ConvertedUint8:
			return catalog.Uint8, true
		case ConvertedUint16:
			return catalog.Uint16, true
		case ConvertedUint32:
			return catalog.Uint32, true
		case ConvertedInt8:
			return catalog.Int8, true
		case ConvertedInt16:
			return catalog.Int16, true
		}
		return catalog.Int32, true
	}
	return "", false
}

// formOf is how elements of a dtype stand in a leaf of that type.
func formOf(d catalog.DType) elemForm {
	switch c := d.Component(); c {
	case catalog.Bool:
		return elemForm{phys: TypeBoolean, size: 1}
	case catalog.Int8, catalog.Uint8, catalog.Int16, catalog.Uint16:
		return elemForm{phys: TypeInt32, width: 4, size: c.Size()}
	case catalog.Int32, catalog.Uint32:
		return elemForm{phys: TypeInt32, width: 4, size: 4}
	case catalog.Int64, catalog.Uint64:
		return elemForm{phys: TypeInt64, width: 8, size: 8}
	case catalog.Float16:
		return elemForm{phys: TypeFixed, width: 2, size: 2}
	case catalog.Float32:
		return elemForm{phys: TypeFloat, width: 4, size: 4}
	default:
		return elemForm{phys: TypeDouble, width: 8, size: 8}
	}
}

// storedDims is the shape of a row as the file nests it: complex numbers have a last dimension of 2.
func storedDims(c *catalog.Column) []int {
	d := slices.Clone(c.Shape)
	if c.DType.Complex() {
		d = append(d, 2)
	}
	return d
}

// field is a column of the file and the leaves that hold it.
type field struct {
	col   catalog.Column
	top   int   // number of the top-level node
	leafs []int // leaves, in file order
	node  *schemaNode
}

// bindColumn finds a described column in the schema and checks that the file stores what the description says.
func bindColumn(col *catalog.Column, top int, n *schemaNode) (*field, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: column %q: %s", ErrFormat, col.Name, fmt.Sprintf(format, args...))
	}
	f := &field{col: *col, top: top, leafs: n.leaves(nil), node: n}
	if col.Kind == catalog.Struct {
		if len(n.children) != len(col.Members) {
			return nil, bad("%d members in the file, %d described", len(n.children), len(col.Members))
		}
		for i := range col.Members {
			m := &col.Members[i]
			if n.children[i].Name != m.Name {
				return nil, bad("member %d is %q in the file, %q described", i, n.children[i].Name, m.Name)
			}
			if err := bindLeaf(m, n.children[i].onlyLeaf(), 1, bad); err != nil {
				return nil, err
			}
		}
		return f, nil
	}
	want := 0
	switch col.Kind {
	case catalog.List:
		want = 1
	case catalog.Tensor:
		want = len(storedDims(col))
	}
	return f, bindLeaf(col, n.onlyLeaf(), want, bad)
}

func bindLeaf(col *catalog.Column, l *schemaNode, rep int, bad func(string, ...any) error) error {
	if l == nil {
		return bad("the file holds a group")
	}
	if l.rep != rep {
		return bad("lists nest %d deep in the file, %d described", l.rep, rep)
	}
	d, ok := dtypeOf(&l.SchemaElement)
	if !ok || d != col.DType.Component() {
		return bad("the file holds %q, %q described", d, col.DType)
	}
	return nil
}

// inferred is what a file without descriptions says of its columns.
type inferred struct {
	fields  []*field
	skipped []Skipped
}

// Skipped is a column of a foreign file that is not read, and why.
type Skipped struct{ Name, Why string }

// inferFields reads columns from the Parquet schema alone. Members of groups become columns group_member, but for a
// group of lists of one length, which is a struct. dims guesses the shape of a nested leaf, or nil for ragged rows.
func inferFields(top []schemaNode, dims func(l *schemaNode) []int) inferred {
	var out inferred
	for i := range top {
		inferNode(&out, i, &top[i], top[i].Name, dims)
	}
	return out
}

func inferNode(out *inferred, top int, n *schemaNode, name string, dims func(l *schemaNode) []int) {
	skip := func(format string, args ...any) {
		out.skipped = append(out.skipped, Skipped{name, fmt.Sprintf(format, args...)})
	}
	add := func(c catalog.Column) {
		// Names are others' to choose; what is checked is what the column holds.
		probe := c
		probe.Name, probe.Members = "x", nil
		if c.Kind != catalog.Struct {
			if err := probe.Check(); err != nil {
				skip("%v", err)
				return
			}
		}
		out.fields = append(out.fields, &field{col: c, top: top, leafs: n.leaves(nil), node: n})
	}
	l := n.onlyLeaf()
	if l == nil {
		if c, ok := inferStruct(n, name, dims); ok {
			add(c)
			return
		}
		if n.Repetition == Repeated || n.rep > 0 || isList(n) {
			skip("lists of groups are not read")
			return
		}
		for i := range n.children {
			inferNode(out, top, &n.children[i], name+"_"+n.children[i].Name, dims)
		}
		return
	}
	d, ok := dtypeOf(&l.SchemaElement)
	if !ok {
		skip("no element type for Parquet's physical type %d", l.Type)
		return
	}
	c := catalog.Column{Name: name, Kind: catalog.Scalar, DType: d, Nullable: l.def > l.rep}
	switch {
	case l.rep == 0:
		add(c)
	case d != catalog.String && dims(l) != nil:
		c.Kind, c.Shape, c.Nullable = catalog.Tensor, dims(l), false
		add(c)
	case l.rep == 1:
		c.Kind = catalog.List
		add(c)
	default:
		skip("lists nest %d deep and differ in length", l.rep)
	}
}

func isList(n *schemaNode) bool { return n.Logical == LogicalList || n.Converted == ConvertedList }

// inferStruct takes a group whose members are all ragged lists of numbers or text for a struct.
func inferStruct(n *schemaNode, name string, dims func(l *schemaNode) []int) (catalog.Column, bool) {
	c := catalog.Column{Name: name, Kind: catalog.Struct, Nullable: n.Repetition == Optional}
	if n.rep > 0 || isList(n) || len(n.children) < 2 {
		return c, false
	}
	for i := range n.children {
		l := n.children[i].onlyLeaf()
		if l == nil || l.rep != 1 {
			return c, false
		}
		d, ok := dtypeOf(&l.SchemaElement)
		if !ok || d != catalog.String && dims(l) != nil {
			return c, false
		}
		c.Members = append(c.Members, catalog.Column{Name: n.children[i].Name, Kind: catalog.List, DType: d, Nullable: l.def > 1})
	}
	return c, true
}
