package hdf5

import (
	"bytes"
	"fmt"
)

const (
	maxHeapCache   = 64 << 20 // bytes of global heap collections kept
	heapAlignment  = 8
	freeSpaceIndex = 0
)

// collection is a global heap collection: the contents of variable-length elements.
type collection struct {
	objects map[uint32][]byte
	size    int
}

// ReadVlen gives the contents of one variable-length element: for a string its bytes (which end before the first NUL) and
// their number, for a sequence its base elements in little-endian order, packed, and their number. elem is one element of
// type t as ReadRows gives it. The result must not be written to. In a damaged file many elements may lead to the same
// contents: a caller that collects them bounds their sum, with VlenReader or VlenBytes. At most 64 MiB of heap
// collections stay cached.
func (f *File) ReadVlen(t *Type, elem []byte) ([]byte, int, error) {
	if t.Class != ClassVlen || len(elem) != t.Size {
		return nil, 0, f.fail(noAddress, unsupportedf("%d bytes of type %s are no variable-length element", len(elem), t))
	}
	if !t.VarString && t.Base.unreadable != nil {
		return nil, 0, f.fail(noAddress, t.Base.unreadable)
	}
	c := &cursor{f: f, b: elem}
	n := c.u32()
	addr := c.offset()
	index := uint32(c.u32())
	if c.err != nil {
		return nil, 0, c.err
	}
	if n == 0 {
		return nil, 0, nil
	}
	if addr == noAddress || addr == 0 {
		return nil, 0, f.corrupt(noAddress, "variable-length element of length %d without an address", n)
	}
	b, err := f.heapObject(addr, index)
	if err != nil {
		return nil, 0, err
	}
	size := n * uint64(t.Base.Size)
	if size > uint64(len(b)) {
		return nil, 0, f.corrupt(addr, "variable-length element of %d bytes in a heap object of %d", size, len(b))
	}
	b = b[:size:size]
	if t.VarString {
		if end := bytes.IndexByte(b, 0); end >= 0 {
			b = b[:end]
		}
		return b, len(b), nil
	}
	if t.Base.swaps != nil {
		b = bytes.Clone(b)
		t.Base.toLittle(b)
	}
	return b, int(n), nil
}

// VlenBytes is the number of bytes that ReadVlen gives for elem, of a string at most. It comes from the element alone,
// so that the contents of a slab can be added up before any is read.
func (f *File) VlenBytes(t *Type, elem []byte) (uint64, error) {
	if t.Class != ClassVlen || len(elem) != t.Size {
		return 0, f.fail(noAddress, unsupportedf("%d bytes of type %s are no variable-length element", len(elem), t))
	}
	return uint64(le.Uint32(elem)) * uint64(t.Base.Size), nil
}

// VlenReader reads contents of variable length up to a limit on all of them together. It serves one goroutine.
type VlenReader struct {
	f           *File
	limit, used uint64
}

// NewVlenReader gives a reader of contents that together have at most limit bytes.
func (f *File) NewVlenReader(limit uint64) *VlenReader { return &VlenReader{f: f, limit: limit} }

// Read is ReadVlen. Once what was read, elem included, is over the limit, the error wraps ErrLimit.
func (r *VlenReader) Read(t *Type, elem []byte) ([]byte, int, error) {
	n, err := r.f.VlenBytes(t, elem)
	if err != nil {
		return nil, 0, err
	}
	if n > r.limit-r.used {
		return nil, 0, r.f.fail(noAddress, fmt.Errorf("%w: %d bytes were read, %d more are asked for, the limit is %d", ErrLimit, r.used, n, r.limit))
	}
	r.used += n
	return r.f.ReadVlen(t, elem)
}

func (f *File) heapObject(addr uint64, index uint32) ([]byte, error) {
	f.heapMu.Lock()
	defer f.heapMu.Unlock()
	h, ok := f.heaps[addr]
	if !ok {
		var err error
		if h, err = f.readCollection(addr); err != nil {
			return nil, err
		}
		f.heaps[addr] = h
		f.heapOrder = append(f.heapOrder, addr)
		f.heapBytes += h.size
		for f.heapBytes > maxHeapCache && len(f.heapOrder) > 1 {
			oldest := f.heapOrder[0]
			f.heapOrder = f.heapOrder[1:]
			f.heapBytes -= f.heaps[oldest].size
			delete(f.heaps, oldest)
		}
	}
	b, ok := h.objects[index]
	if !ok {
		return nil, f.corrupt(addr, "no object %d in the global heap collection", index)
	}
	return b, nil
}

func (f *File) readCollection(addr uint64) (*collection, error) {
	head := uint64(8 + f.lengthSize)
	c, err := f.block(addr, head)
	if err != nil {
		return nil, err
	}
	c.signature("GCOL")
	c.version("global heap", 1)
	c.skip(3)
	size := c.length()
	if c.err != nil {
		return nil, c.err
	}
	if size < head {
		return nil, f.corrupt(addr, "global heap collection of %d bytes", size)
	}
	if c, err = f.block(addr, size); err != nil {
		return nil, err
	}
	if !f.heapSeen[addr] {
		if err := f.heapSpent.spend(addr, size, "global heap collections"); err != nil {
			return nil, err
		}
		f.heapSeen[addr] = true
	}
	c.skip(int(head))
	h := &collection{objects: map[uint32][]byte{}, size: len(c.b)}
	for c.left() >= 8+f.lengthSize {
		index := uint32(c.u16())
		c.skip(6)
		n := c.length()
		if index == freeSpaceIndex {
			break
		}
		if n > uint64(c.left()) {
			return nil, f.corrupt(addr, "global heap object %d of %d bytes", index, n)
		}
		h.objects[index] = c.bytes(int(n))
		if pad := (heapAlignment - int(n)%heapAlignment) % heapAlignment; pad <= c.left() {
			c.skip(pad)
		}
	}
	return h, c.err
}
