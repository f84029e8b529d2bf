package parquet

import "encoding/binary"

// The Arrow schema in a footer, read by hand: a general decoder takes memory for counts that the bytes merely claim. It is
// an IPC message of Flatbuffers tables, vectors and strings that offsets lead to. Offsets out of the bytes panic, which
// the caller turns into "no schema".

// arrowField is a field of an Arrow schema.
type arrowField struct {
	name     string
	typ      byte // arrowNull...
	size     int  // of a fixed-size list
	unit     int  // of a duration: s, ms, us, ns
	meta     map[string]string
	children []arrowField
}

// Types of the union Type in Arrow's format.
const (
	arrowNull          = 1
	arrowUtf8          = 5
	arrowStruct        = 13
	arrowFixedSizeList = 16
	arrowMap           = 17
	arrowDuration      = 18
	arrowLargeUtf8     = 20
	arrowUtf8View      = 24
)

const (
	maxArrowFields = 1 << 16 // and entries of metadata, in all
	maxArrowText   = 1 << 16 // bytes of a name or an entry
)

type flat struct {
	b    []byte
	left int
}

func (r *flat) i32(at int) int { return int(int32(binary.LittleEndian.Uint32(r.b[at:]))) }

func (r *flat) follow(at int) int { return at + r.i32(at) }

// slot is the place of a table's n-th field, or 0.
func (r *flat) slot(table, n int) int {
	vt := table - r.i32(table)
	if 4+2*n+2 > int(binary.LittleEndian.Uint16(r.b[vt:])) {
		return 0
	}
	off := int(binary.LittleEndian.Uint16(r.b[vt+4+2*n:]))
	if off == 0 {
		return 0
	}
	return table + off
}

// vector is the place of the first of a vector's elements, and their number.
func (r *flat) vector(table, n int) (first, count int) {
	at := r.slot(table, n)
	if at == 0 {
		return 0, 0
	}
	at = r.follow(at)
	count = r.i32(at)
	if r.left -= count; count < 0 || r.left < 0 {
		panic("more than an Arrow schema holds")
	}
	return at + 4, count
}

func (r *flat) text(table, n int) string {
	at := r.slot(table, n)
	if at == 0 {
		return ""
	}
	at = r.follow(at)
	count := r.i32(at)
	if count > maxArrowText {
		return ""
	}
	return string(r.b[at+4 : at+4+count])
}

// arrowSchema reads the fields of a schema from an IPC message; it panics where that is not one.
func arrowSchema(b []byte) []arrowField {
	r := &flat{b: b[4:], left: maxArrowFields}
	if binary.LittleEndian.Uint32(b) == 0xffffffff { // else the older framing, without this marker
		r.b = b[8:]
	}
	root := r.follow(0)
	return r.fields(r.follow(r.slot(root, 2)), 1, 0)
}

func (r *flat) fields(table, n, depth int) []arrowField {
	first, count := r.vector(table, n)
	if depth > maxDepth {
		return nil
	}
	out := make([]arrowField, count)
	for i := range out {
		at := r.follow(first + 4*i)
		f := &out[i]
		f.name = r.text(at, 0)
		if p := r.slot(at, 2); p != 0 {
			f.typ = r.b[p]
		}
		if p := r.slot(at, 3); p != 0 {
			t := r.follow(p)
			p = r.slot(t, 0)
			switch {
			case f.typ == arrowFixedSizeList && p != 0:
				f.size = r.i32(p)
			case f.typ == arrowDuration && p != 0:
				f.unit = int(binary.LittleEndian.Uint16(r.b[p:]))
			case f.typ == arrowDuration:
				f.unit = 1
			}
		}
		f.children = r.fields(at, 5, depth+1)
		first, count := r.vector(at, 6)
		f.meta = map[string]string{}
		for k := range count {
			kv := r.follow(first + 4*k)
			f.meta[r.text(kv, 0)] = r.text(kv, 1)
		}
	}
	return out
}
