package hdf5

import (
	"fmt"
	"math/bits"
)

const (
	heapManaged        = 0 // kinds of heap id, bits 4 and 5 of its first byte
	heapHuge           = 1
	heapTiny           = 2
	heapBlockHashed    = 1 << 1 // header flag: direct blocks have a checksum
	maxHeapDepth       = 32
	recordHugeIndirect = 1 // record types of a version 2 B-tree
	recordHugeFiltered = 2
	maxFilteredHeap    = 64 << 20 // bytes of a heap whose blocks are filtered, decoded
	heapBlocks         = "blocks of a fractal heap"
)

// hugeRef is where a huge object is stored, and its size when it has been decoded.
type hugeRef struct {
	chunkRef
	decoded uint64
}

// fractalHeap holds the links or attributes of an object that has many.
type fractalHeap struct {
	f            *File
	addr         uint64
	idSize       int
	hashed       bool
	hugeTree     uint64
	width        int
	start        uint64 // bytes of a block in the first row
	maxDirect    uint64 // bytes of the largest direct block
	root         uint64
	rows         int // of the root indirect block; 0 if the root is a direct block
	offsetSize   int // bytes of an offset in the heap
	lengthSize   int // bytes of an object's length
	huge         map[uint64]hugeRef
	filters      *Dataset // nil, or one whose pipeline the heap's direct blocks and huge objects went through
	filteredRoot chunkRef // of a root that is a direct block
	scratch      scratch
	blocks       map[uint64][]byte // direct blocks whose checksum was verified
	objects      budget            // of one walk over the objects, which never are asked for twice
	spent        budget            // on blocks
	indirectSeen map[uint64]*cursor
	decoded      uint64 // bytes of filtered blocks so far
	given        uint64 // bytes of their objects
}

func (f *File) fractalHeap(addr uint64) (*fractalHeap, error) {
	size := 4 + 1 + 2 + 2 + 1 + 4 + 12*f.lengthSize + 3*f.offsetSize + 2 + 2 + 2 + 2 + 4
	c, err := f.block(addr, uint64(size))
	if err != nil {
		return nil, err
	}
	h := &fractalHeap{f: f, addr: addr, objects: budget{f: f}, spent: budget{f: f}, blocks: map[uint64][]byte{}, indirectSeen: map[uint64]*cursor{}}
	c.signature("FRHP")
	c.version("fractal heap", 0)
	h.idSize = c.u16()
	filters := c.u16()
	h.hashed = c.u8()&heapBlockHashed != 0
	maxManaged := c.u32()
	c.length()
	h.hugeTree = c.offset()
	c.length()
	c.offset()
	c.skip(8 * f.lengthSize)
	h.width = c.u16()
	h.start = c.length()
	h.maxDirect = c.length()
	maxBits := c.u16()
	c.skip(2)
	h.root = c.offset()
	h.rows = c.u16()
	var pipeline *cursor
	if c.err == nil && filters != 0 { // the root block's stored size, its filter mask, and the pipeline
		at := c.pos
		if c, err = f.block(addr, uint64(size+f.lengthSize+4+filters)); err != nil {
			return nil, err
		}
		c.skip(at)
		h.filteredRoot = chunkRef{size: c.length(), mask: uint32(c.u32())}
		pipeline = &cursor{f: f, addr: c.addr + uint64(c.pos), b: c.bytes(filters)}
	}
	c.checksum("fractal heap header")
	if c.err != nil {
		return nil, c.err
	}
	if pipeline != nil {
		h.filters = &Dataset{o: &Object{f: f}, Type: &Type{Size: 1}}
		if err := h.filters.pipeline(pipeline); err != nil {
			return nil, err
		}
	}
	powers := bits.OnesCount64(h.start) == 1 && bits.OnesCount64(h.maxDirect) == 1 && bits.OnesCount(uint(h.width)) == 1
	if !powers || h.start > h.maxDirect || h.maxDirect > MaxMetadata || maxBits > 64 || h.idSize < 1 {
		return nil, f.corrupt(addr, "fractal heap of width %d, blocks of %d to %d bytes, %d bits of offset, ids of %d bytes", h.width, h.start, h.maxDirect, maxBits, h.idSize)
	}
	h.offsetSize = (maxBits + 7) / 8
	h.lengthSize = bytesFor(min(h.maxDirect, maxManaged))
	return h, nil
}

// object gives the object whose id stands at the cursor, and moves the cursor behind the id.
func (h *fractalHeap) object(id *cursor) (*cursor, error) {
	c, err := h.find(id)
	if err != nil {
		return nil, err
	}
	n := uint64(len(c.b))
	if h.filters == nil {
		return c, h.objects.spend(c.addr, n, "objects of a fractal heap")
	}
	if h.given += n; h.given > maxFilteredHeap {
		return nil, h.tooLarge()
	}
	return c, nil
}

func (h *fractalHeap) tooLarge() error {
	return h.f.unsupported(h.addr, "filtered fractal heap of more than %d bytes", maxFilteredHeap)
}

func (h *fractalHeap) find(id *cursor) (*cursor, error) {
	f := h.f
	b := id.bytes(h.idSize)
	if id.err != nil {
		return nil, id.err
	}
	c := &cursor{f: f, b: b, addr: id.addr + uint64(id.pos-h.idSize)}
	first := c.u8()
	switch first >> 4 & 3 {
	case heapManaged:
		at, n := c.uint(h.offsetSize), c.uint(h.lengthSize)
		if c.err != nil {
			return nil, c.err
		}
		if h.rows == 0 {
			root := h.filteredRoot
			root.addr = h.root
			return h.inDirect(root, 0, h.start, at, n)
		}
		return h.inIndirect(h.root, 0, h.rows, at, n, 0)
	case heapHuge:
		direct := f.offsetSize + f.lengthSize
		if h.filters != nil {
			direct += maskSize + f.lengthSize
		}
		if h.idSize-1 >= direct {
			e := hugeRef{chunkRef: chunkRef{addr: c.offset(), size: c.length()}}
			if h.filters != nil {
				e.mask, e.decoded = uint32(c.u32()), c.length()
			}
			if c.err != nil {
				return nil, c.err
			}
			return h.hugeBlock(e)
		}
		return h.hugeObject(c.uint(min(h.idSize-1, 8)))
	case heapTiny:
		const shortIDs = 17 // ids of at most this many bytes keep the length in 4 bits
		n := first & 15
		if h.idSize > shortIDs {
			n = n<<8 | c.u8()
		}
		at := c.addr + uint64(c.pos)
		return &cursor{f: f, b: c.bytes(n + 1), addr: at}, c.err
	}
	return nil, f.corrupt(c.addr, "heap id of unknown kind %#x", first)
}

func (h *fractalHeap) hugeObject(key uint64) (*cursor, error) {
	if h.huge == nil {
		h.huge = map[uint64]hugeRef{}
		err := h.f.tree2(h.hugeTree, func(kind int, rec *cursor) error {
			var e hugeRef
			e.addr, e.size = rec.offset(), rec.length()
			switch {
			case kind == recordHugeFiltered && h.filters != nil:
				e.mask, e.decoded = uint32(rec.u32()), rec.length()
			case kind != recordHugeIndirect || h.filters != nil:
				return h.f.unsupported(rec.addr, "huge heap objects of record type %d", kind)
			}
			h.huge[rec.length()] = e
			return rec.err
		})
		if err != nil {
			return nil, err
		}
	}
	e, ok := h.huge[key]
	if !ok {
		return nil, h.f.corrupt(h.addr, "no huge object %d in the heap", key)
	}
	return h.hugeBlock(e)
}

func (h *fractalHeap) hugeBlock(e hugeRef) (*cursor, error) {
	if h.filters == nil {
		return h.f.block(e.addr, e.size)
	}
	return h.unfiltered(e.chunkRef, e.decoded)
}

// unfiltered reads what the heap's filters made of size bytes.
func (h *fractalHeap) unfiltered(ref chunkRef, size uint64) (*cursor, error) {
	f := h.f
	if ref.addr == noAddress || size > MaxMetadata {
		return nil, f.corrupt(ref.addr, "filtered heap block of %d bytes", size)
	}
	h.filters.chunkBytes = size
	var w window
	b, err := h.filters.readChunk(ref, &w, &h.scratch, nil)
	if err != nil {
		return nil, f.fail(ref.addr, fmt.Errorf("filtered heap block: %w", err))
	}
	return &cursor{f: f, b: append([]byte(nil), b...), addr: ref.addr}, nil
}

// directBlock reads a direct block of size bytes.
func (h *fractalHeap) directBlock(ref chunkRef, size uint64) (*cursor, error) {
	if h.filters == nil {
		if err := h.spent.spend(ref.addr, size, heapBlocks); err != nil {
			return nil, err
		}
		return h.f.block(ref.addr, size)
	}
	if err := h.spent.spend(ref.addr, ref.size, heapBlocks); err != nil {
		return nil, err
	}
	if h.decoded += size; h.decoded > maxFilteredHeap {
		return nil, h.tooLarge()
	}
	return h.unfiltered(ref, size)
}

// inDirect finds an object in a direct block, which begins at offset from of the heap's address space.
func (h *fractalHeap) inDirect(ref chunkRef, from, size, at, n uint64) (*cursor, error) {
	f := h.f
	head := uint64(4 + 1 + f.offsetSize + h.offsetSize)
	if h.hashed {
		head += 4
	}
	if at < from+head || at-from > size || n > size-(at-from) {
		return nil, f.corrupt(h.addr, "heap object of %d bytes at %d is not inside its block at %d of %d bytes", n, at, from, size)
	}
	b, ok := h.blocks[ref.addr]
	if !ok || uint64(len(b)) != size {
		c, err := h.directBlock(ref, size)
		if err != nil {
			return nil, err
		}
		c.signature("FHDB")
		if h.hashed && c.err == nil && !f.unverified {
			field := c.b[head-4 : head]
			stored := le.Uint32(field)
			clear(field)
			if sum := lookup3(c.b); sum != stored {
				c.fail("checksum of heap block is %08x, its bytes give %08x", stored, sum)
			}
		}
		if c.err != nil {
			return nil, c.err
		}
		b = c.b
		h.blocks[ref.addr] = b
	}
	rel := at - from
	return &cursor{f: f, b: b[rel : rel+n : rel+n], addr: ref.addr + rel}, nil
}

// rowSize is the size of blocks in row r of the doubling table.
func (h *fractalHeap) rowSize(r int) uint64 {
	if r == 0 {
		return h.start
	}
	return h.start << (r - 1)
}

func (h *fractalHeap) inIndirect(addr, from uint64, rows int, at, n uint64, depth int) (*cursor, error) {
	f := h.f
	if depth > maxHeapDepth || rows < 1 || rows > 64 {
		return nil, f.corrupt(addr, "fractal heap with an indirect block of %d rows at depth %d", rows, depth)
	}
	c, err := h.indirect(addr, rows)
	if err != nil {
		return nil, err
	}
	rel := at - from
	for r := range rows {
		size := h.rowSize(r)
		hi, span := bits.Mul64(size, uint64(h.width))
		if size == 0 || hi != 0 {
			break
		}
		if rel >= span {
			rel -= span
			from += span
			continue
		}
		col := rel / size
		entry := *c
		entry.skip(h.entries(r, int(col)))
		child := chunkRef{addr: entry.offset()}
		if h.filters != nil && r < h.directRows() {
			child.size, child.mask = entry.length(), uint32(entry.u32())
		}
		if entry.err != nil {
			return nil, entry.err
		}
		from += col * size
		if r < h.directRows() {
			return h.inDirect(child, from, size, at, n)
		}
		childRows := bits.Len64(size) - bits.Len64(h.start*uint64(h.width)) + 1
		return h.inIndirect(child.addr, from, childRows, at, n, depth+1)
	}
	return nil, f.corrupt(addr, "heap object at %d is beyond the heap's %d rows", at, rows)
}

// directRows is the number of rows of an indirect block that lead to direct blocks.
func (h *fractalHeap) directRows() int { return bits.Len64(h.maxDirect) - bits.Len64(h.start) + 2 }

// entries is the number of bytes that an indirect block's entries before the one in that row and column take.
func (h *fractalHeap) entries(row, col int) int {
	n := row*h.width + col
	size := n * h.f.offsetSize
	if h.filters != nil {
		size += min(n, h.directRows()*h.width) * (h.f.lengthSize + maskSize)
	}
	return size
}

// indirect gives a cursor over the verified child addresses of an indirect block.
func (h *fractalHeap) indirect(addr uint64, rows int) (*cursor, error) {
	if c, ok := h.indirectSeen[addr]; ok {
		return c, nil
	}
	f := h.f
	head := 4 + 1 + f.offsetSize + h.offsetSize
	size := uint64(head + h.entries(rows, 0) + 4)
	if err := h.spent.spend(addr, size, heapBlocks); err != nil {
		return nil, err
	}
	c, err := f.block(addr, size)
	if err != nil {
		return nil, err
	}
	c.signature("FHIB")
	c.pos = head + h.entries(rows, 0)
	c.checksum("heap indirect block")
	if c.err != nil {
		return nil, c.err
	}
	c.pos = head
	h.indirectSeen[addr] = c
	return c, nil
}
