package hdf5

import "sort"

const (
	attrSharedType  = 1 << 0
	attrSharedSpace = 1 << 1
	recordAttrName  = 8 // record types of a version 2 B-tree
	recordAttrOrder = 9
	attrHasOrder    = 1 << 0
)

// Attr is an attribute: a small named array on an object.
type Attr struct {
	Name string
	Type *Type
	Dims []uint64 // none for a scalar
	Null bool     // the attribute has a type but no elements
	Data []byte   // elements, row-major, little-endian, packed as in the file's type

	object *Object
}

// Strings gives the values of a text attribute, row-major, without padding.
func (a Attr) Strings() ([]string, error) {
	s, err := a.object.f.Strings(a.Type, a.Data)
	return s, a.object.in(err)
}

// Value gives the attribute as the plainest Go value: bool, int64, uint64 (only for unsigned types), float64, complex128
// or string for a scalar, a slice of these (row-major) for an array, nil for a null attribute. Enumerations give their
// numbers. The error wraps ErrUnsupported for any other type: use Type and Data.
func (a Attr) Value() (any, error) {
	if a.Null {
		return nil, nil
	}
	if a.Type.unreadable != nil {
		return nil, a.object.in(a.Type.unreadable)
	}
	t := a.Type
	switch {
	case t.Class == ClassString, t.Class == ClassVlen && t.VarString:
		s, err := a.Strings()
		if err != nil {
			return nil, err
		}
		return oneOrAll(a.Dims, s), nil
	case t.Bool():
		return values(a, func(b []byte) bool { return b[0] != 0 }), nil
	case t.Class == ClassFloat:
		return values(a, t.float64), nil
	case t.Complex():
		part := t.Members[0].Type
		return values(a, func(b []byte) complex128 { return complex(part.float64(b), part.float64(b[part.Size:])) }), nil
	case t.Class == ClassInt || t.Class == ClassEnum || t.Class == ClassBitfield:
		if t.Signed {
			return values(a, t.int64), nil
		}
		return values(a, func(b []byte) uint64 { return uint64(t.int64(b)) }), nil
	}
	return nil, a.object.in(unsupportedf("attribute %q of type %s has no plain value", a.Name, t))
}

func values[T any](a Attr, one func([]byte) T) any {
	out := make([]T, 0, len(a.Data)/a.Type.Size)
	for b := a.Data; len(b) > 0; b = b[a.Type.Size:] {
		out = append(out, one(b[:a.Type.Size]))
	}
	return oneOrAll(a.Dims, out)
}

func oneOrAll[T any](dims []uint64, all []T) any {
	if len(dims) == 0 && len(all) == 1 {
		return all[0]
	}
	return all
}

// Attrs gives the object's attributes by name.
func (o *Object) Attrs() ([]Attr, error) {
	out, err := o.attrs()
	if err != nil {
		return nil, o.in(err)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

func (o *Object) attrs() ([]Attr, error) {
	var out []Attr
	spent := budget{f: o.f} // shared attributes could come as often as there are links to them
	add := func(c *cursor) error {
		if err := spent.spend(c.addr, uint64(len(c.b)), "attributes of an object"); err != nil {
			return err
		}
		a, err := c.attribute(o)
		if err == nil {
			out = append(out, a)
		}
		return err
	}
	for i := range o.messages {
		m := &o.messages[i]
		switch m.kind {
		case msgAttribute:
			c, err := o.f.open(m)
			if err == nil {
				err = add(c)
			}
			if err != nil {
				return nil, err
			}
		case msgAttrInfo:
			if err := o.denseAttrs(m, add); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (o *Object) denseAttrs(m *message, add func(*cursor) error) error {
	f := o.f
	c := &cursor{f: f, b: m.body, addr: m.addr}
	c.version("attribute info", 0)
	if c.u8()&attrHasOrder != 0 {
		c.skip(2)
	}
	heapAt, treeAt := c.offset(), c.offset()
	if c.err != nil {
		return c.err
	}
	if heapAt == noAddress || treeAt == noAddress {
		return nil
	}
	heap, err := f.fractalHeap(heapAt)
	if err != nil {
		return err
	}
	return f.tree2(treeAt, func(kind int, rec *cursor) error {
		if kind != recordAttrName && kind != recordAttrOrder {
			return f.corrupt(treeAt, "B-tree of record type %d where attributes belong", kind)
		}
		id := &cursor{f: f, b: rec.bytes(heap.idSize), addr: rec.addr}
		flags := rec.u8()
		if rec.err != nil {
			return rec.err
		}
		if flags&flagShared == 0 {
			body, err := heap.object(id)
			if err != nil {
				return err
			}
			return add(body)
		}
		var shared heapID
		copy(shared[:], id.bytes(len(shared)))
		if id.err != nil {
			return id.err
		}
		body, err := f.shared.body(f, msgAttribute, shared)
		if err != nil {
			return err
		}
		return add(body)
	})
}

// attribute reads an attribute message.
func (c *cursor) attribute(o *Object) (a Attr, err error) {
	f := c.f
	version := c.u8()
	flags := c.u8()
	nameSize, typeSize, spaceSize := c.u16(), c.u16(), c.u16()
	if c.err == nil && (version < 1 || version > 3) {
		c.fail("attribute version %d", version)
	}
	if version == 1 {
		flags = 0 // the byte is reserved there
	}
	if version == 3 {
		c.skip(1)
	}
	part := func(n int) *cursor {
		at := c.addr + uint64(c.pos)
		if version == 1 {
			n = (n + 7) / 8 * 8
		}
		return &cursor{f: f, b: c.bytes(n), addr: at}
	}
	name, typ, space := part(nameSize), part(typeSize), part(spaceSize)
	a.Name = name.text(1)
	if c.err != nil {
		return a, c.err
	}
	if name.err != nil {
		return a, name.err
	}
	if flags&attrSharedSpace != 0 {
		if space, err = f.sharedBody(space, msgDataspace); err != nil {
			return a, err
		}
	}
	if flags&attrSharedType != 0 {
		a.Type, err = f.sharedType(typ)
	} else {
		a.Type, err = typ.datatype(0)
	}
	if err != nil {
		return a, err
	}
	s, err := space.dataspace()
	if err != nil {
		return a, err
	}
	a.object, a.Dims, a.Null = o, s.dims, s.null
	if a.Null {
		return a, nil
	}
	size, ok := product(uint64(a.Type.Size), s.dims)
	if !ok || size > uint64(c.left()) {
		c.fail("attribute %q of shape %v and type %s in %d bytes", a.Name, a.Dims, a.Type, c.left())
		return a, c.err
	}
	a.Data = append([]byte(nil), c.bytes(int(size))...)
	a.Type.toLittle(a.Data)
	if c.err == nil && a.Type.wide != nil {
		a.widen()
	}
	return a, c.err
}
