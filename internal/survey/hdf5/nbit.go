package hdf5

import "fmt"

// Parameters of the n-bit filter (HDF5 library, "N-bit filter"): their number, whether nothing is packed, the number of
// elements, and then the type of an element as a tree of classes and sizes.
const (
	nbitPlain   = 1
	nbitCount   = 2
	nbitType    = 3
	nbitAtomic  = 1 // size, order, precision, offset
	nbitArray   = 2 // size, type
	nbitRecord  = 3 // size, number of members, and of each its offset and type
	nbitBytes   = 4 // size: stored whole
	nbitBig     = 1 // order
	nbitDepth   = 32
	nbitNewest  = nbitBytes
	nbitMembers = 1 << 16
)

// packed is a node of the tree: of what is stored in an element, and how.
type packed struct {
	class     int
	size      int // bytes in the element
	at        int // of the node in a record
	precision int
	offset    int
	big       bool
	parts     []packed // members of a record, or the one type of an array
}

// nbitTree reads the parameters.
type nbitTree struct {
	params []uint32
	err    error
}

func (t *nbitTree) next() int {
	if len(t.params) == 0 {
		t.fail("the parameters end early")
		return 0
	}
	v := t.params[0]
	t.params = t.params[1:]
	if v > maxTypeSize {
		t.fail("parameter %d", v)
		return 0
	}
	return int(v)
}

func (t *nbitTree) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
	}
	t.params = nil
}

// node reads a type that has room bytes.
func (t *nbitTree) node(room, depth int) (p packed) {
	p.class, p.size = t.next(), t.next()
	if t.err == nil && (p.class < nbitAtomic || p.class > nbitNewest || p.size < 1 || p.size > room || depth > nbitDepth) {
		t.fail("type of class %d and %d bytes in %d, at depth %d", p.class, p.size, room, depth)
	}
	if t.err != nil {
		return p
	}
	switch p.class {
	case nbitAtomic:
		p.big = t.next() == nbitBig
		p.precision, p.offset = t.next(), t.next()
		if t.err == nil && (p.size > 8 || p.precision < 1 || p.offset > 8*p.size || p.precision > 8*p.size-p.offset) {
			t.fail("%d bits at bit %d of %d bytes", p.precision, p.offset, p.size)
		}
	case nbitArray:
		p.parts = []packed{t.node(p.size, depth+1)}
		if t.err == nil && p.size%p.parts[0].size != 0 {
			t.fail("array of %d bytes of elements of %d", p.size, p.parts[0].size)
		}
	case nbitRecord:
		n := t.next()
		if n > nbitMembers {
			t.fail("%d members", n)
		}
		for range n {
			at := t.next()
			if t.err == nil && at > p.size {
				t.fail("member at %d of %d bytes", at, p.size)
			}
			if t.err != nil {
				return p
			}
			m := t.node(p.size-at, depth+1)
			m.at = at
			if k := len(p.parts); t.err == nil && k > 0 && p.parts[k-1].misplaces() {
				t.err = unsupportedf("a member behind an array of records or arrays: the HDF5 library loses such when it writes them")
			}
			p.parts = append(p.parts, m)
		}
	}
	return p
}

// misplaces says that the library, when it has written p, takes up the parameters at the wrong place: it does not step
// over those of an array's elements where they are arrays or records.
func (p *packed) misplaces() bool {
	switch p.class {
	case nbitArray:
		return p.parts[0].class == nbitArray || p.parts[0].class == nbitRecord
	case nbitRecord:
		return len(p.parts) > 0 && p.parts[len(p.parts)-1].misplaces()
	}
	return false
}

// bits is the number of bits that an element takes.
func (p *packed) bits() (n uint64) {
	switch p.class {
	case nbitAtomic:
		return uint64(p.precision)
	case nbitBytes:
		return 8 * uint64(p.size)
	case nbitArray:
		return uint64(p.size/p.parts[0].size) * p.parts[0].bits()
	}
	for i := range p.parts {
		n += p.parts[i].bits()
	}
	return n
}

// undoNbit decodes filter 5: of each number only the bits that its type counts, the most significant first, numbers one
// behind the other without gaps. What is not stored is zero: the type says what the bits mean.
func (s *scratch) undoNbit(fl *Filter, dst, src []byte) (int, error) {
	if fl.param(nbitPlain) != 0 {
		if len(src) > len(dst) {
			return 0, fmt.Errorf("%w: %d bytes where %d fit", ErrCorrupt, len(src), len(dst))
		}
		return copy(dst, src), nil
	}
	if len(fl.Params) < nbitType {
		return 0, fmt.Errorf("%w: %d parameters", ErrCorrupt, len(fl.Params))
	}
	t := nbitTree{params: fl.Params[nbitType:]}
	root := t.node(maxTypeSize, 0)
	if t.err != nil {
		return 0, t.err
	}
	n, each := uint64(fl.param(nbitCount)), root.bits()
	if n > uint64(len(dst)/root.size) || saturate(n, each) > 8*uint64(len(src)) {
		return 0, fmt.Errorf("%w: %d elements of %d bits and %d bytes; stored are %d bytes, %d fit", ErrCorrupt, n, each, root.size, len(src), len(dst))
	}
	dst = dst[:n*uint64(root.size)]
	if root.class == nbitRecord || root.class == nbitArray {
		clear(dst)
	}
	r := msbReader{b: src}
	if root.class == nbitAtomic {
		root.numbers(&r, dst)
		return len(dst), nil
	}
	for at := 0; at < len(dst); at += root.size {
		root.unpack(&r, dst[at:at+root.size])
	}
	return len(dst), nil
}

func (p *packed) unpack(r *msbReader, dst []byte) {
	switch p.class {
	case nbitAtomic:
		p.numbers(r, dst)
	case nbitBytes:
		for i := range dst {
			dst[i] = byte(r.take(8))
		}
	case nbitArray:
		m := &p.parts[0]
		if m.class == nbitAtomic {
			m.numbers(r, dst)
			return
		}
		for at := 0; at < len(dst); at += m.size {
			m.unpack(r, dst[at:at+m.size])
		}
	case nbitRecord:
		for i := range p.parts {
			m := &p.parts[i]
			m.unpack(r, dst[m.at:m.at+m.size])
		}
	}
}

// numbers fills dst with numbers of p, which is atomic.
func (p *packed) numbers(r *msbReader, dst []byte) {
	for at := 0; at < len(dst); at += p.size {
		v := r.wide(p.precision) << p.offset
		out := dst[at : at+p.size]
		switch {
		case p.size == 4 && !p.big:
			le.PutUint32(out, uint32(v))
		case p.size == 2 && !p.big:
			le.PutUint16(out, uint16(v))
		case p.size == 8 && !p.big:
			le.PutUint64(out, v)
		case p.big:
			for i := range out {
				out[len(out)-1-i] = byte(v >> (8 * i))
			}
		default:
			for i := range out {
				out[i] = byte(v >> (8 * i))
			}
		}
	}
}
