package hdf5

import (
	"fmt"
	"slices"
	"strings"
)

// Class is the kind of a type, with the numbers of the file format.
type Class int

// The classes. A native complex number (class 11 of newer files) is given as a compound of r and i.
const (
	ClassInt       Class = 0
	ClassFloat     Class = 1
	ClassTime      Class = 2
	ClassString    Class = 3
	ClassBitfield  Class = 4
	ClassOpaque    Class = 5
	ClassCompound  Class = 6
	ClassReference Class = 7
	ClassEnum      Class = 8
	ClassVlen      Class = 9
	ClassArray     Class = 10
	classComplex   Class = 11
)

var classNames = [...]string{"int", "float", "time", "string", "bitfield", "opaque", "compound", "reference", "enum", "vlen", "array", "complex"}

func (c Class) String() string {
	if c >= 0 && int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class %d", int(c))
}

// StrPad says how a fixed-length string shorter than its type is filled up.
type StrPad int

// The paddings, with the numbers of the file format.
const (
	PadNulTerminated StrPad = 0
	PadNul           StrPad = 1
	PadSpace         StrPad = 2
)

// Member is one field of a compound.
type Member struct {
	Name   string
	Offset int // bytes from the start of the element
	Type   *Type
}

// Type is the type of an element. It is shared and must not be changed.
type Type struct {
	Class      Class
	Size       int  // bytes of an element, in the file and as read
	BigEndian  bool // in the file; what is read is little-endian
	Signed     bool
	Members    []Member // of a compound
	Base       *Type    // of an enumeration, an array, a variable-length type
	Dims       []uint64 // of an array
	EnumNames  []string
	EnumValues []int64
	StrPad     StrPad
	UTF8       bool   // of a string: UTF-8, else ASCII
	VarString  bool   // a variable-length type is a string
	Tag        string // of an opaque type

	unreadable error      // why elements cannot be read (wraps ErrUnsupported), or nil
	refKind    uint64     // of a reference
	odd        *oddNumber // of a number that does not fill its bytes
	wide       *wideFloat // of a float that is read as a wider one, where it stands alone
	swaps      []swap     // what to reverse in an element, nil if nothing
}

// Readable gives nil, or an error that wraps ErrUnsupported and names what in the type cannot be read.
func (t *Type) Readable() error { return t.unreadable }

// Bool says whether the type is the enumeration {FALSE: 0, TRUE: 1} of one byte that stands for booleans.
func (t *Type) Bool() bool {
	if t.Class != ClassEnum || t.Size != 1 || len(t.EnumNames) != 2 {
		return false
	}
	for i, name := range t.EnumNames {
		want := int64(-1)
		switch name {
		case "FALSE":
			want = 0
		case "TRUE":
			want = 1
		}
		if t.EnumValues[i] != want {
			return false
		}
	}
	return t.EnumNames[0] != t.EnumNames[1]
}

// Complex says whether the type is the compound {r, i} of two equal floats, without padding, that stands for complex
// numbers.
func (t *Type) Complex() bool {
	if t.Class != ClassCompound || len(t.Members) != 2 {
		return false
	}
	r, i := t.Members[0], t.Members[1]
	return r.Name == "r" && i.Name == "i" && r.Type.Class == ClassFloat && i.Type.Class == ClassFloat &&
		r.Type.Size == i.Type.Size && r.Offset == 0 && i.Offset == r.Type.Size && t.Size == 2*r.Type.Size
}

// String names the type for people: float32, bool, string[16], vlen<int16>, compound{ra float64, dec float64}.
func (t *Type) String() string {
	switch {
	case t.Bool():
		return "bool"
	case t.Complex():
		return fmt.Sprintf("complex%d", 8*t.Size)
	case t.Class == ClassVlen && t.VarString:
		return "string"
	}
	switch t.Class {
	case ClassInt:
		if t.Signed {
			return fmt.Sprintf("int%d", 8*t.Size)
		}
		return fmt.Sprintf("uint%d", 8*t.Size)
	case ClassFloat:
		return fmt.Sprintf("float%d", 8*t.Size)
	case ClassString:
		return fmt.Sprintf("string[%d]", t.Size)
	case ClassEnum:
		return fmt.Sprintf("enum<%s>", t.Base)
	case ClassVlen:
		return fmt.Sprintf("vlen<%s>", t.Base)
	case ClassArray:
		return fmt.Sprintf("array%v<%s>", t.Dims, t.Base)
	case ClassCompound:
		parts := make([]string, len(t.Members))
		for i, m := range t.Members {
			parts[i] = m.Name + " " + m.Type.String()
		}
		return "compound{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprintf("%s[%d]", t.Class, t.Size)
}

const (
	maxTypeDepth  = 32
	maxTypeSize   = 1 << 30
	maxTypeDims   = 32
	newestType    = 5
	packedType    = 3 // from this version on names are not padded and member offsets are as short as can be
	typeBigEndian = 1 << 0
	typeVAX       = 1 << 6
	typeSigned    = 1 << 3
	typeIsString  = 1 // low bits of a variable-length type
	impliedBit    = 2 // normalization of a float: the mantissa's highest bit is 1 and not stored
)

// datatype reads a type.
func (c *cursor) datatype(depth int) (*Type, error) {
	if depth > maxTypeDepth {
		return nil, c.f.corrupt(c.addr, "types nested more than %d deep", maxTypeDepth)
	}
	at := c.addr + uint64(c.pos)
	head := c.u8()
	flags := c.uint(3)
	size := c.u32()
	if c.err != nil {
		return nil, c.err
	}
	version := head >> 4
	if version < 1 || version > newestType || size == 0 || size > maxTypeSize {
		return nil, c.f.corrupt(at, "type version %d of %d bytes", version, size)
	}
	t := &Type{Class: Class(head & 15), Size: int(size)}
	var err error
	switch t.Class {
	case ClassInt, ClassBitfield:
		t.BigEndian, t.Signed = flags&typeBigEndian != 0, flags&typeSigned != 0
		offset, precision := c.u16(), c.u16()
		switch {
		case c.err != nil:
		case precision < 1 || offset+precision > 8*t.Size:
			c.fail("%s of %d bits at bit %d of %d bytes", t.Class, precision, offset, t.Size)
		case t.Size > 8:
			t.unreadable = unsupportedf("%s of %d bytes", t.Class, t.Size)
		case offset != 0 || precision != 8*t.Size:
			t.odd = &oddNumber{big: t.BigEndian, at: offset, bits: precision, sign: t.Signed}
		}
	case ClassFloat:
		t.float(c, flags)
	case ClassTime:
		c.skip(2)
		t.unreadable = unsupportedf("time type")
	case ClassString:
		t.StrPad, t.UTF8 = StrPad(flags&15), flags>>4&15 == 1
		if t.StrPad > PadSpace {
			t.unreadable = unsupportedf("string with padding of kind %d", t.StrPad)
		}
	case ClassOpaque:
		n := int(flags & 255)
		t.Tag = strings.TrimRight(string(c.bytes((n+7)/8*8)), "\x00")
	case ClassReference:
		t.refKind = flags & 15
		t.unreadable = unreadableReference(t.refKind)
	case ClassCompound:
		err = c.compound(t, version, int(flags&0xffff), depth)
	case ClassEnum:
		err = c.enum(t, version, int(flags&0xffff), depth)
	case ClassVlen:
		t.VarString, t.UTF8 = flags&15 == typeIsString, flags>>8&15 == 1
		t.StrPad = StrPad(flags >> 4 & 15)
		if t.Base, err = c.datatype(depth + 1); err == nil {
			if t.Size != 4+c.f.offsetSize+4 || t.VarString && t.Base.Size != 1 {
				c.fail("variable-length type of %d bytes over one of %d", t.Size, t.Base.Size)
			}
			t.unreadable = t.Base.unreadable
			if kind := flags & 15; kind > typeIsString {
				t.unreadable = unsupportedf("variable-length type of kind %d", kind)
			}
		}
	case ClassArray:
		err = c.array(t, version, depth)
	case classComplex:
		if t.Base, err = c.datatype(depth + 1); err == nil {
			if t.Base.Class != ClassFloat || t.Size != 2*t.Base.Size {
				c.fail("complex type of %d bytes over %s", t.Size, t.Base)
			}
			t.Class = ClassCompound
			t.Members = []Member{{"r", 0, t.Base}, {"i", t.Base.Size, t.Base}}
			t.unreadable, t.Base = t.Base.unreadable, nil
		}
	default:
		return nil, c.f.unsupported(at, "type of class %d", int(t.Class))
	}
	if err != nil {
		return nil, err
	}
	if c.err != nil {
		return nil, c.err
	}
	t.swaps = t.plan()
	return t, nil
}

// floatLayout is where the parts of a float are, in bits.
type floatLayout struct{ at, precision, expAt, expSize, mantAt, mantSize, bias, signAt, norm int }

// ieee gives the layout of IEEE 754's float of so many bytes.
func ieee(size int) (l floatLayout, ok bool) {
	switch size {
	case 2:
		return floatLayout{0, 16, 10, 5, 0, 10, 15, 15, impliedBit}, true
	case 4:
		return floatLayout{0, 32, 23, 8, 0, 23, 127, 31, impliedBit}, true
	case 8:
		return floatLayout{0, 64, 52, 11, 0, 52, 1023, 63, impliedBit}, true
	}
	return floatLayout{}, false
}

// float accepts the IEEE formats of 2, 4 and 8 bytes, and others all of whose values the one of their size has; the rest
// are named.
func (t *Type) float(c *cursor, flags uint64) {
	t.BigEndian, t.Signed = flags&typeBigEndian != 0, true
	got := floatLayout{
		at: c.u16(), precision: c.u16(), expAt: c.u8(), expSize: c.u8(), mantAt: c.u8(), mantSize: c.u8(), bias: int(c.u32()),
		signAt: int(flags >> 8 & 0xff), norm: int(flags >> 4 & 3),
	}
	want, ok := ieee(t.Size)
	switch {
	case flags&typeVAX != 0:
		t.unreadable = unsupportedf("floats in VAX byte order")
	case ok && got == want:
	case ok && got.within(want, 8*t.Size):
		t.odd = &oddNumber{big: t.BigEndian, float: &got}
	default:
		t.wide = widened(got, t.Size)
		t.unreadable = unsupportedf("%sfloat of %d bits (%d exponent, %d mantissa) in %d bytes", got.called(), got.precision, got.expSize, got.mantSize, t.Size)
	}
}

// called is the name of a layout that people know by one.
func (l floatLayout) called() string {
	switch {
	case l.precision == 16 && l.expSize == 8:
		return "bfloat16: "
	case l.precision == 80 && l.expSize == 15:
		return "x86 long double: "
	case l.precision == 128 && l.expSize == 15:
		return "float128: "
	}
	return ""
}

// within says whether l is sound in so many bits and all its values are values of the layout wide.
func (l floatLayout) within(wide floatLayout, room int) bool {
	inside := func(at, n int) bool { return at >= l.at && n >= 1 && at+n <= l.at+l.precision }
	apart := func(a, n, b, m int) bool { return a+n <= b || b+m <= a }
	sound := l.at+l.precision <= room && inside(l.signAt, 1) && inside(l.expAt, l.expSize) && inside(l.mantAt, l.mantSize) &&
		apart(l.signAt, 1, l.expAt, l.expSize) && apart(l.signAt, 1, l.mantAt, l.mantSize) && apart(l.expAt, l.expSize, l.mantAt, l.mantSize)
	return sound && l.norm == impliedBit && l.expSize >= 2 && l.expSize <= wide.expSize && l.mantSize <= wide.mantSize &&
		l.largest() <= wide.largest() && l.smallest() >= wide.smallest()
}

// largest is the exponent of the largest finite value, smallest that of the least one that is not 0.
func (l floatLayout) largest() int  { return 1<<l.expSize - 2 - l.bias }
func (l floatLayout) smallest() int { return 1 - l.bias - l.mantSize }

// name reads a member's name; older versions pad it.
func (c *cursor) name(version int) string {
	if version < packedType {
		return c.text(8)
	}
	return c.text(1)
}

func (c *cursor) compound(t *Type, version, n, depth int) error {
	for range n {
		m := Member{Name: c.name(version)}
		var offset uint64
		if version < packedType {
			offset = c.u32()
		} else {
			offset = c.uint(bytesFor(uint64(t.Size)))
		}
		var dims []uint64
		if version == 1 {
			rank := c.u8()
			c.skip(3 + 4 + 4)
			for k := range 4 {
				if d := c.u32(); k < rank {
					dims = append(dims, d)
				}
			}
			if c.err == nil && rank > 4 {
				c.fail("member of rank %d", rank)
			}
		}
		if c.err != nil {
			return c.err
		}
		var err error
		if m.Type, err = c.datatype(depth + 1); err != nil {
			return err
		}
		if len(dims) > 0 {
			a := &Type{Class: ClassArray, Base: m.Type, Dims: dims, unreadable: m.Type.unreadable}
			if a.Size = arraySize(m.Type.Size, dims); a.Size < 0 {
				c.fail("member array of %v", dims)
				return c.err
			}
			a.swaps = a.plan()
			m.Type = a
		}
		if offset > uint64(t.Size) || uint64(m.Type.Size) > uint64(t.Size)-offset {
			c.fail("member %q of %d bytes at %d in a compound of %d", m.Name, m.Type.Size, offset, t.Size)
			return c.err
		}
		m.Offset = int(offset)
		if t.unreadable == nil && m.Type.unreadable != nil {
			t.unreadable = fmt.Errorf("member %q: %w", m.Name, m.Type.unreadable)
		}
		t.Members = append(t.Members, m)
	}
	byOffset := slices.Clone(t.Members)
	slices.SortFunc(byOffset, func(a, b Member) int { return a.Offset - b.Offset })
	for i := 1; i < len(byOffset); i++ {
		if a, b := byOffset[i-1], byOffset[i]; a.Offset+a.Type.Size > b.Offset {
			c.fail("members %q and %q of a compound overlap", a.Name, b.Name)
		}
	}
	return c.err
}

// arraySize is the size of an array of dims elements, or -1 if it is none.
func arraySize(base int, dims []uint64) int {
	size := uint64(base)
	for _, d := range dims {
		if d == 0 || size > maxTypeSize/d {
			return -1
		}
		size *= d
	}
	return int(size)
}

func (c *cursor) enum(t *Type, version, n, depth int) error {
	var err error
	if t.Base, err = c.datatype(depth + 1); err != nil {
		return err
	}
	if t.Base.Class != ClassInt || t.Base.Size != t.Size {
		c.fail("enumeration of %d bytes over %s", t.Size, t.Base)
		return c.err
	}
	t.BigEndian, t.Signed, t.odd, t.unreadable = t.Base.BigEndian, t.Base.Signed, t.Base.odd, t.Base.unreadable
	for range n {
		if c.err != nil {
			return c.err
		}
		t.EnumNames = append(t.EnumNames, c.name(version))
	}
	for range n {
		b := append([]byte(nil), c.bytes(t.Size)...)
		if c.err != nil {
			return c.err
		}
		t.Base.toLittle(b)
		t.EnumValues = append(t.EnumValues, t.Base.int64(b))
	}
	return nil
}

func (c *cursor) array(t *Type, version, depth int) error {
	rank := c.u8()
	if version < packedType {
		c.skip(3)
	}
	if rank > maxTypeDims {
		c.fail("array of rank %d", rank)
	}
	for range rank {
		t.Dims = append(t.Dims, c.u32())
	}
	if version < packedType {
		c.skip(4 * rank)
	}
	if c.err != nil {
		return c.err
	}
	var err error
	if t.Base, err = c.datatype(depth + 1); err != nil {
		return err
	}
	if arraySize(t.Base.Size, t.Dims) != t.Size {
		c.fail("array %v of %s in %d bytes", t.Dims, t.Base, t.Size)
	}
	t.unreadable = t.Base.unreadable
	return c.err
}
