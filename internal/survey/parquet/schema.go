package parquet

import (
	"strings"

	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"astropile/internal/catalog"
)

const (
	maxLeaves = 4096
	maxDepth  = 40
)

type kind int

const (
	kindLeaf kind = iota
	kindGroup
	kindList
	kindMap // a list whose element is the entry
)

// node is an element of the schema as the mapping sees it: lists and maps without the groups that spell them.
type node struct {
	name     string
	kind     kind
	children []*node // of a group; the one element of a list or map
	def      int     // definition level from which the node itself is not null
	slot     int     // lists: definition level from which an element is there
	leaf     *leaf
	hint     hint
}

// leaf is one column of the file.
type leaf struct {
	index  int
	path   string
	maxDef int
	maxRep int
	slots  []int // of each list around it, outermost first: definition level from which an element is there
	phys   pq.Type
	width  int // bytes of a stored value; 0 for BYTE_ARRAY
	size   int // bytes of a value once decoded; 0 for text and bytes
	dtype  catalog.DType
	unit   string
	conv   func(dst, src []byte) error // stored to decoded; nil where they are the same
	binary bool                        // bytes without a meaning
	err    error                       // why its values have no element type
}

type treeBuilder struct {
	leaves []*leaf
	names  []string
}

// schemaNodes builds the mapping's view of a schema.
func schemaNodes(root *schema.GroupNode) ([]*node, []*leaf, error) {
	b := &treeBuilder{}
	var out []*node
	for i := range root.NumFields() {
		n, err := b.node(root.Field(i), 0, nil, 1)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, n)
	}
	return out, b.leaves, nil
}

func (b *treeBuilder) node(s schema.Node, def int, slots []int, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, unsupported("the schema nests more than %d deep", maxDepth)
	}
	b.names = append(b.names, s.Name())
	defer func() { b.names = b.names[:len(b.names)-1] }()
	if s.RepetitionType() == pq.Repetitions.Repeated {
		// A repeated element outside a list's spelling is a list of required elements.
		n := &node{name: s.Name(), kind: kindList, def: def, slot: def + 1}
		e, err := b.body(s, def+1, within(slots, def+1), depth+1)
		n.children = []*node{e}
		return n, err
	}
	if s.RepetitionType() == pq.Repetitions.Optional {
		def++
	}
	g, isGroup := s.(*schema.GroupNode)
	if !isGroup {
		return b.body(s, def, slots, depth)
	}
	k := kindGroup
	switch {
	case isMap(g):
		k = kindMap
	case isList(g):
		k = kindList
	}
	if k == kindGroup || g.NumFields() != 1 || g.Field(0).RepetitionType() != pq.Repetitions.Repeated {
		return b.body(s, def, slots, depth)
	}
	n := &node{name: s.Name(), kind: k, def: def, slot: def + 1}
	inner := g.Field(0)
	var e *node
	var err error
	if ig, ok := inner.(*schema.GroupNode); k == kindList && ok && ig.NumFields() == 1 && ig.Name() != "array" && ig.Name() != g.Name()+"_tuple" {
		b.names = append(b.names, inner.Name())
		e, err = b.node(ig.Field(0), def+1, within(slots, def+1), depth+2)
		b.names = b.names[:len(b.names)-1]
	} else {
		b.names = append(b.names, inner.Name())
		e, err = b.body(inner, def+1, within(slots, def+1), depth+1)
		b.names = b.names[:len(b.names)-1]
	}
	n.children = []*node{e}
	return n, err
}

// body is a node whose own repetition is in the levels already.
func (b *treeBuilder) body(s schema.Node, def int, slots []int, depth int) (*node, error) {
	n := &node{name: s.Name(), def: def}
	if g, ok := s.(*schema.GroupNode); ok {
		n.kind = kindGroup
		for i := range g.NumFields() {
			c, err := b.node(g.Field(i), def, slots, depth+1)
			if err != nil {
				return nil, err
			}
			n.children = append(n.children, c)
		}
		return n, nil
	}
	p, ok := s.(*schema.PrimitiveNode)
	if !ok {
		return nil, damaged("schema element %q is neither a group nor a leaf", s.Name())
	}
	if len(b.leaves) >= maxLeaves {
		return nil, unsupported("more than %d columns", maxLeaves)
	}
	l := &leaf{index: len(b.leaves), path: strings.Join(b.names, "."), maxDef: def, maxRep: len(slots), slots: slots, phys: p.PhysicalType()}
	l.element(p)
	b.leaves = append(b.leaves, l)
	n.kind, n.leaf = kindLeaf, l
	return n, nil
}

// within adds a list around what comes.
func within(slots []int, slot int) []int { return append(slots[:len(slots):len(slots)], slot) }

func isList(g *schema.GroupNode) bool {
	_, ok := g.LogicalType().(schema.ListLogicalType)
	return ok || g.ConvertedType() == schema.ConvertedTypes.List
}

func isMap(g *schema.GroupNode) bool {
	_, ok := g.LogicalType().(schema.MapLogicalType)
	return ok || g.ConvertedType() == schema.ConvertedTypes.Map || g.ConvertedType() == schema.ConvertedTypes.MapKeyValue
}

// element finds what a value of the leaf is.
func (l *leaf) element(p *schema.PrimitiveNode) {
	set := func(d catalog.DType, width int) { l.dtype, l.width, l.size = d, width, d.Size() }
	switch l.phys {
	case pq.Types.Boolean:
		l.dtype, l.width, l.size = catalog.Bool, 1, 1
	case pq.Types.Int32:
		set(catalog.Int32, 4)
	case pq.Types.Int64:
		set(catalog.Int64, 8)
	case pq.Types.Float:
		set(catalog.Float32, 4)
	case pq.Types.Double:
		set(catalog.Float64, 8)
	case pq.Types.Int96:
		l.dtype, l.width, l.size, l.conv, l.unit = catalog.Int64, 12, 8, julian, "ns since 1970-01-01T00:00:00"
	case pq.Types.ByteArray:
		l.binary = true
	case pq.Types.FixedLenByteArray:
		l.width, l.size = p.TypeLength(), p.TypeLength()
		if l.width < 1 || l.width > 1<<20 {
			l.err = unsupported("values of %d bytes", l.width)
			return
		}
		l.err = unsupported("values of %d bytes without a type; cast them, or drop the column", l.width)
	default:
		l.err = unsupported("physical type %v", l.phys)
	}
	l.logical(p.LogicalType())
}

func (l *leaf) logical(t schema.LogicalType) {
	switch t := t.(type) {
	case schema.IntLogicalType:
		l.integer(int(t.BitWidth()), t.IsSigned())
	case schema.StringLogicalType, schema.EnumLogicalType, schema.JSONLogicalType:
		if l.phys == pq.Types.ByteArray {
			l.dtype, l.binary = catalog.String, false
		}
	case schema.Float16LogicalType:
		if l.width == 2 {
			l.dtype, l.err = catalog.Float16, nil
		}
	case schema.UUIDLogicalType:
		if l.width == 16 {
			l.dtype, l.err, l.conv, l.size = catalog.String, nil, uuidText, 36
		}
	case schema.DateLogicalType:
		l.unit = "days since 1970-01-01"
	case schema.TimeLogicalType:
		l.unit = timeUnit(t.TimeUnit()) + " since midnight"
	case schema.TimestampLogicalType:
		l.unit = timeUnit(t.TimeUnit()) + " since 1970-01-01T00:00:00"
		if t.IsAdjustedToUTC() {
			l.unit += " UTC"
		}
	case schema.DecimalLogicalType:
		l.decimal(int(t.Scale()))
	case schema.IntervalLogicalType:
		l.err = unsupported("intervals are not read; cast them, or drop the column")
	case schema.NullLogicalType:
		l.err = unsupported("a column of nulls without a type; drop it")
	case schema.BSONLogicalType:
		l.err = unsupported("BSON is not read; drop the column")
	}
}

func timeUnit(u schema.TimeUnitType) string {
	switch u {
	case schema.TimeUnitMillis:
		return "ms"
	case schema.TimeUnitMicros:
		return "us"
	case schema.TimeUnitNanos:
		return "ns"
	}
	return "unknown unit"
}

func (l *leaf) integer(bits int, signed bool) {
	switch {
	case l.phys == pq.Types.Int64 && bits == 64:
		if !signed {
			l.dtype = catalog.Uint64
		}
	case l.phys == pq.Types.Int32 && bits == 32:
		if !signed {
			l.dtype = catalog.Uint32
		}
	case l.phys == pq.Types.Int32 && (bits == 8 || bits == 16):
		l.dtype = map[bool]map[int]catalog.DType{
			true:  {8: catalog.Int8, 16: catalog.Int16},
			false: {8: catalog.Uint8, 16: catalog.Uint16},
		}[signed][bits]
		l.size, l.conv = bits/8, narrow(bits, signed)
	default:
		l.err = unsupported("integers of %d bits in physical type %v", bits, l.phys)
	}
}

func (l *leaf) decimal(scale int) {
	if scale != 0 {
		l.err = unsupported("decimals with a scale of %d are not exact in binary; cast the column to float64 or to text, or drop it", scale)
		return
	}
	switch l.phys {
	case pq.Types.Int32, pq.Types.Int64:
	case pq.Types.FixedLenByteArray:
		if l.width >= 1 && l.width <= 32 {
			l.dtype, l.size, l.conv, l.err = catalog.Int64, 8, bigEndian, nil
		}
	default:
		l.err = unsupported("decimals in byte arrays; cast the column to int64 or to text, or drop it")
	}
}

// reveal takes what the Arrow type says beyond the Parquet type.
func (l *leaf) reveal(f *arrowField) {
	switch f.typ {
	case arrowUtf8, arrowLargeUtf8, arrowUtf8View:
		if l.binary {
			l.dtype, l.binary = catalog.String, false
		}
	case arrowNull:
		l.err = unsupported("a column of nulls without a type; drop it")
	case arrowDuration:
		if units := []string{"s", "ms", "us", "ns"}; l.unit == "" && l.dtype == catalog.Int64 && f.unit < len(units) {
			l.unit = units[f.unit]
		}
	}
}
