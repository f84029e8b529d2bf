package text

import (
	"context"
	"fmt"
	"slices"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// node is a member of the objects of a file, at any depth.
type node struct {
	place    int // among its siblings
	key      string
	name     string // dotted, from the row down; inside a struct of lists from its objects down
	kind     nodeKind
	line     int64 // where its kind was settled
	err      error
	children []*node
	by       map[string]*node
	stamp    uint64 // of the object that had it last
	rows     int64  // that have a value

	kinds    // of scalars, or of the elements of arrays
	elements int64
	missing  bool // elements that are null
	shape    []int
	bytes    int64
	field    int // in Fields; -1 for objects, and for members of a struct of lists
	member   int // in a struct of lists
}

// nodeKind is what stands at a node.
type nodeKind uint8

const (
	unknown nodeKind = iota
	single           // scalars
	object
	empties // arrays without elements, so far
	flat    // arrays of one axis
	nested  // arrays of arrays
	objects // arrays of objects
)

func (k nodeKind) String() string {
	return [...]string{"null", "a scalar", "an object", "an empty array", "an array of scalars", "an array of arrays", "an array of objects"}[k]
}

// tree is what the lines of a file are made of.
type tree struct {
	root  node
	nodes int
	stamp uint64
}

// child finds the node of a key, first where it is expected: after the one before it.
func (n *node) child(key []byte, expected *int) *node {
	if k := *expected; k < len(n.children) && n.children[k].key == string(key) {
		*expected = k + 1
		return n.children[k]
	}
	c := n.by[string(key)]
	if c != nil {
		*expected = c.place + 1
	}
	return c
}

// add makes the node of a new key. Names start anew inside a struct of lists.
func (t *tree) add(n *node, key []byte, prefix string) (*node, error) {
	if t.nodes++; t.nodes > MaxColumns {
		return nil, fmt.Errorf("over %d names", MaxColumns)
	}
	c := &node{key: string(key), name: prefix + string(key), place: len(n.children), field: -1, member: -1}
	if n.by == nil {
		n.by = map[string]*node{}
	}
	n.by[string(key)] = c
	n.children = append(n.children, c)
	return c, nil
}

// scanJSON reads a JSONL file from end to end.
func (s *Scan) scanJSON(ctx context.Context, in *input) error {
	s.begin = mark{in.off, in.line}
	s.nodes = &tree{}
	j := &jsonLine{}
	for {
		s.mark(in)
		at := in.line
		line, err := in.nextLine(ctx)
		if err != nil {
			return err
		}
		if line == nil {
			break
		}
		if len(line) == 0 {
			continue
		}
		if err := j.parse(line); err != nil {
			return lineError(ErrCorrupt, in.path, at, "%v", err)
		}
		if k := j.tokens[0].kind; k != jObject {
			hint := ""
			if k == jArray {
				hint = "; a JSON array is no JSONL (jq -c '.[]' makes one of it)"
			}
			return lineError(ErrCorrupt, in.path, at, "%s, and every line has to be an object%s", k, hint)
		}
		if err := s.nodes.object(&s.nodes.root, j, 0, "", at); err != nil {
			return lineError(ErrCorrupt, in.path, at, "%v", err)
		}
		s.rows++
	}
	return s.jsonFields()
}

// object takes in an object.
func (t *tree) object(n *node, j *jsonLine, at int32, prefix string, line int64) error {
	t.stamp++
	stamp := t.stamp
	expected := 0
	end := j.tokens[at].next
	for i := at + 1; i < end; {
		key := j.key(j.tokens[i])
		c := n.child(key, &expected)
		if c == nil {
			var err error
			if c, err = t.add(n, key, prefix); err != nil {
				return err
			}
			expected = len(n.children)
		}
		if c.stamp == stamp {
			return fmt.Errorf("the key %s stands twice in an object", clip(key))
		}
		c.stamp = stamp
		i++
		if err := t.value(c, j, i, line); err != nil {
			return err
		}
		i = j.tokens[i].next
	}
	return nil
}

// be settles what kind a node is, and refuses two.
func (n *node) be(k nodeKind, line int64) bool {
	switch {
	case n.kind == k:
	case n.kind == unknown, n.kind == empties && (k == flat || k == objects):
		n.kind, n.line = k, line
	case k == empties && (n.kind == flat || n.kind == objects):
	case n.err == nil:
		n.err = fmt.Errorf("%w: %s in line %d and %s in line %d", ErrUnsupported, n.kind, n.line, k, line)
	}
	return n.err == nil
}

// scalar takes in a number, a bool or a text.
func (n *node) scalar(j *jsonLine, t token, line int64) {
	var c class
	var magnitude uint64
	var negative bool
	switch t.kind {
	case jString:
		c = isText
		n.bytes += int64(t.hi - t.lo)
	case jTrue, jFalse:
		c = isBool
	default:
		if c, magnitude, negative = classify(j.raw(t)); c == isOdd {
			c = isInt // -0 is 0 in JSON
		}
	}
	if n.err == nil && (c == isHuge || c == isOut) {
		n.err = fmt.Errorf("%w: %s in line %d is beyond 64 bits; write it as a text", ErrUnsupported, clip(j.raw(t)), line)
	}
	n.add(c, magnitude, negative)
	numbers := n.integer || n.float
	if n.err == nil && (n.text && (n.boolean || numbers) || n.boolean && numbers) {
		n.err = fmt.Errorf("%w: texts, numbers or bools stand together, first in line %d", ErrUnsupported, line)
	}
}

// value takes in the value of a node.
func (t *tree) value(n *node, j *jsonLine, at int32, line int64) error {
	tok := j.tokens[at]
	switch tok.kind {
	case jNull:
		return nil
	case jObject:
		n.rows++
		// What is refused is not looked into, so that it may be left out.
		if !n.be(object, line) {
			return nil
		}
		return t.object(n, j, at, n.name+".", line)
	case jArray:
		n.rows++
		return t.array(n, j, at, line)
	}
	n.rows++
	if n.be(single, line) {
		n.scalar(j, tok, line)
	}
	return nil
}

// array takes in an array.
func (t *tree) array(n *node, j *jsonLine, at int32, line int64) error {
	tok := j.tokens[at]
	kind := empties
	var has [4]bool // null, scalars, arrays, objects
	for i := at + 1; i < tok.next; i = j.tokens[i].next {
		switch j.tokens[i].kind {
		case jNull:
			has[0] = true
		case jArray:
			has[2] = true
		case jObject:
			has[3] = true
		default:
			has[1] = true
		}
	}
	switch {
	case has[1] && (has[2] || has[3]), has[2] && has[3]:
		if n.err == nil {
			n.err = fmt.Errorf("%w: an array of different kinds of values in line %d", ErrUnsupported, line)
		}
		return nil
	case has[1]:
		kind = flat
	case has[2]:
		kind = nested
	case has[3]:
		kind = objects
	case has[0]:
		if kind = n.kind; kind != objects {
			kind = flat
		}
	}
	if !n.be(kind, line) {
		return nil
	}
	switch kind {
	case flat:
		for i := at + 1; i < tok.next; i = j.tokens[i].next {
			n.elements++
			if j.tokens[i].kind == jNull {
				n.missing = true
			} else {
				n.scalar(j, j.tokens[i], line)
			}
		}
	case nested:
		first := n.shape == nil
		if ok := n.axes(j, at, 0, first, true, line); !ok && n.err == nil {
			n.err = fmt.Errorf("%w: arrays of arrays whose shape differs, or with texts in them, first in line %d; the shape was %v", ErrUnsupported, line, n.shape)
		}
	case objects:
		for i := at + 1; i < tok.next; i = j.tokens[i].next {
			n.elements++
			if j.tokens[i].kind == jNull {
				continue
			}
			if err := t.object(n, j, i, "", line); err != nil {
				return err
			}
		}
		n.inner(line)
	}
	return nil
}

// inner refuses what has no place in a struct of lists.
func (n *node) inner(line int64) {
	for _, c := range n.children {
		switch {
		case n.err != nil:
			return
		case c.err != nil:
			n.err = fmt.Errorf("%w (of its member %q)", c.err, c.name)
		case c.kind == object:
			c.inner(line)
			n.err = c.err
		case c.kind != single && c.kind != unknown:
			n.err = fmt.Errorf("%w: its member %q is %s in line %d, and a struct of lists holds scalars", ErrUnsupported, c.name, c.kind, line)
		}
	}
}

// axes compares nested arrays with the shape, which the first ones set, and takes in their elements.
func (n *node) axes(j *jsonLine, at int32, axis int, first, leading bool, line int64) bool {
	tok := j.tokens[at]
	count := 0
	for i := at + 1; i < tok.next; i = j.tokens[i].next {
		count++
	}
	if first && leading {
		n.shape = append(n.shape, count)
	}
	if axis >= len(n.shape) || n.shape[axis] != count || count == 0 {
		return false
	}
	for i := at + 1; i < tok.next; i = j.tokens[i].next {
		switch x := j.tokens[i]; x.kind {
		case jArray:
			if !n.axes(j, i, axis+1, first, leading, line) {
				return false
			}
			leading = false
		case jObject, jString:
			return false
		default:
			if axis != len(n.shape)-1 {
				return false
			}
			n.elements++
			if x.kind == jNull {
				n.missing = true
			} else {
				n.scalar(j, x, line)
			}
		}
	}
	return true
}

// jsonFields makes the fields of what was seen.
func (s *Scan) jsonFields() error {
	var varying int64
	s.leaves(&s.nodes.root, &varying)
	at := map[string]bool{}
	for i := range s.fields {
		f := &s.fields[i]
		if at[f.Source] {
			return fmt.Errorf("%w: %s: %q is a key with a dot in it and a member of an object as well", ErrCorrupt, s.path, f.Source)
		}
		at[f.Source] = true
		s.width += int64(f.Column.RowBytes())
	}
	s.width += varying / max(1, s.rows)
	return nil
}

func (s *Scan) leaves(n *node, varying *int64) {
	for _, c := range n.children {
		if c.kind == object && c.err == nil {
			s.leaves(c, varying)
			continue
		}
		c.field = len(s.fields)
		s.fields = append(s.fields, c.leaf(s.rows, varying))
	}
}

// leaf makes the field of a node that is no object.
func (n *node) leaf(rows int64, varying *int64) table.Field {
	f := table.Field{Source: n.name, Err: n.err, Column: catalog.Column{Name: n.name, Kind: catalog.Scalar, Nullable: n.rows < rows}}
	c := &f.Column
	if f.Err != nil {
		return f
	}
	elementType := func(n *node) catalog.DType {
		if n.text {
			return catalog.String
		}
		d := n.dtype()
		if d == catalog.String && f.Err == nil {
			f.Err = fmt.Errorf("%w: integers that no type of 64 bits holds together, or that float64 does not hold among decimal numbers", ErrUnsupported)
		}
		return d
	}
	switch n.kind {
	case objects:
		c.Kind = catalog.Struct
		*varying += n.members(c, &f, n, elementType) + 8*rows
		if len(c.Members) == 0 {
			f.Err = fmt.Errorf("%w: arrays of objects without members", ErrUnsupported)
		}
		return f
	case empties, flat:
		c.Kind = catalog.List
		f.Missing = []bool{n.missing}
	case nested:
		c.Kind, c.Shape = catalog.Tensor, n.shape
		f.Missing = []bool{n.missing}
	}
	c.DType = elementType(n)
	switch {
	case n.kind == unknown:
		f.Note, f.Empty = "no row has a value", true
	case n.elements == 0 && n.kind != single:
		f.Note = "no row has an element"
	}
	if c.Kind == catalog.List || c.DType == catalog.String {
		*varying += n.bytes + 8*rows + n.elements*int64(max(8, c.DType.Size()))
	}
	if c.Kind == catalog.Tensor {
		check := *c
		check.Name, check.Nullable = "x", false
		if check.Check() != nil {
			f.Err = fmt.Errorf("%w: arrays of shape %v are over %d MiB a row, or of over 8 axes", ErrUnsupported, c.Shape, catalog.MaxTensorBytes>>20)
		}
	}
	return f
}

// members makes the members of a struct of lists.
func (n *node) members(c *catalog.Column, f *table.Field, top *node, elementType func(*node) catalog.DType) (bytes int64) {
	for _, x := range n.children {
		if x.kind == object {
			bytes += x.members(c, f, top, elementType)
			continue
		}
		if slices.ContainsFunc(c.Members, func(m catalog.Column) bool { return m.Name == x.name }) && f.Err == nil {
			f.Err = fmt.Errorf("%w: %q is a key with a dot in it and a member of an object as well", ErrUnsupported, x.name)
		}
		x.member = len(c.Members)
		d := elementType(x)
		c.Members = append(c.Members, catalog.Column{Name: x.name, Kind: catalog.List, DType: d})
		f.Missing = append(f.Missing, x.rows < top.elements)
		bytes += x.bytes + top.elements*int64(max(8, d.Size()))
	}
	return bytes
}
