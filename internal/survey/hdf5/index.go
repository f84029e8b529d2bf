package hdf5

import (
	"cmp"
	"math/bits"
	"slices"
)

// Kinds of chunk index, with the numbers of layout versions 4 and up; 0 is the version 1 B-tree of older layouts.
const (
	indexTree1           = 0
	indexSingle          = 1
	indexImplicit        = 2
	indexFixedArray      = 3
	indexExtensibleArray = 4
	indexTree2           = 5

	recordChunk         = 10 // record types of a version 2 B-tree
	recordFilteredChunk = 11
	clientFiltered      = 1 // array elements carry size and filter mask
	maskSize            = 4
	arrayHead           = 4 + 1 + 1 // signature, version, client of an array's blocks
	sumSize             = 4
	maxPageBits         = 31
	maxArrayBits        = 48 // of an element's number in an extensible array; writers use 32
)

// chunkRef says where a chunk's bytes are.
type chunkRef struct {
	addr uint64
	size uint64
	mask uint32 // bit i: filter i was not applied
}

type chunkEntry struct {
	number uint64 // row-major over the grid of chunks
	chunkRef
}

// table gives the chunks that are stored, by number. It is read once.
func (d *Dataset) table() ([]chunkEntry, error) {
	d.once.Do(func() {
		b := indexReader{d: d, f: d.o.f, spent: budget{f: d.o.f}}
		if err := b.read(); err != nil {
			d.indexErr = d.o.in(err)
			return
		}
		d.chunks = b.out
	})
	return d.chunks, d.indexErr
}

// chunk finds where chunk number n is stored; not ok if it never was.
func (d *Dataset) chunk(table []chunkEntry, n uint64) (chunkRef, bool) {
	if d.index == indexImplicit && d.addr != noAddress {
		return chunkRef{addr: d.addr + d.maxNumber(n)*d.chunkBytes, size: d.chunkBytes}, true
	}
	i, ok := slices.BinarySearchFunc(table, n, func(e chunkEntry, n uint64) int { return cmp.Compare(e.number, n) })
	if !ok {
		return chunkRef{}, false
	}
	return table[i].chunkRef, true
}

// maxNumber turns a chunk's number in the grid into its number in the grid of the largest shape.
func (d *Dataset) maxNumber(n uint64) uint64 {
	var out uint64
	scale := uint64(1)
	for i := len(d.grid) - 1; i >= 0; i-- {
		out += n % d.grid[i] * scale
		n /= d.grid[i]
		scale *= d.maxGrid[i]
	}
	return out
}

// indexReader collects the entries of a chunk index.
type indexReader struct {
	d      *Dataset
	f      *File
	out    []chunkEntry
	spent  budget // on elements of the index and on the chunks themselves
	coords []uint64
	last   []uint64 // coords of the chunk before in a version 1 B-tree
	order  []int    // dimensions, slowest first, in which arrays count chunks
}

func (b *indexReader) read() error {
	d := b.d
	// Chunk numbers must not overflow, in the present shape and, where arrays count so, in the largest.
	if _, ok := product(1, d.grid); !ok {
		return b.f.corrupt(d.o.addr, "grid of %v chunks", d.grid)
	}
	if _, ok := product(1, d.maxGrid); !ok && d.index != indexTree1 && d.index != indexTree2 {
		return b.f.corrupt(d.o.addr, "grid of up to %v chunks", d.maxGrid)
	}
	if d.addr == noAddress || d.Rows() == 0 {
		return nil
	}
	b.coords = make([]uint64, len(d.grid))
	b.orderAxes()
	var err error
	switch d.index {
	case indexTree1:
		err = b.tree1(d.addr, 0)
	case indexSingle:
		if n, _ := product(1, d.grid); n != 1 {
			return b.f.corrupt(d.o.addr, "index of a single chunk over a grid of %v", d.grid)
		}
		d.single.addr = d.addr
		err = b.put(d.single)
	case indexImplicit:
		size, ok := product(d.chunkBytes, d.maxGrid)
		if !ok || slices.Contains(d.MaxDims, elementsUnlimited) || len(d.Filters) > 0 {
			return b.f.corrupt(d.o.addr, "implicit chunk index of an unlimited or filtered dataset")
		}
		err = b.f.inside(d.addr, size)
	case indexFixedArray:
		err = b.fixedArray()
	case indexExtensibleArray:
		err = b.extensibleArray()
	case indexTree2:
		err = b.tree2()
	}
	if err != nil {
		return err
	}
	slices.SortFunc(b.out, func(x, y chunkEntry) int { return cmp.Compare(x.number, y.number) })
	for i := 1; i < len(b.out); i++ {
		if b.out[i].number == b.out[i-1].number {
			return b.f.corrupt(d.addr, "chunk %d is stored twice", b.out[i].number)
		}
	}
	return nil
}

// put records the chunk at b.coords, unless it lies outside the present shape.
func (b *indexReader) put(ref chunkRef) error {
	if ref.addr == noAddress {
		return nil
	}
	var n uint64
	for i, x := range b.coords {
		if x >= b.d.grid[i] {
			return nil
		}
		n = n*b.d.grid[i] + x
	}
	b.out = append(b.out, chunkEntry{n, ref})
	return b.spent.spend(ref.addr, ref.size, "chunks and their index")
}

// orderAxes: the extensible array counts chunks with its one unlimited dimension slowest.
func (b *indexReader) orderAxes() {
	for i := range b.d.grid {
		b.order = append(b.order, i)
	}
	if b.d.index != indexExtensibleArray {
		return
	}
	for i, limit := range b.d.MaxDims {
		if limit == elementsUnlimited {
			copy(b.order[1:i+1], b.order[:i])
			b.order[0] = i
			return
		}
	}
}

// number sets b.coords to those of chunk k of an array; not ok if there is no such chunk.
func (b *indexReader) number(k uint64) bool {
	for j := len(b.order) - 1; j > 0; j-- {
		n := b.d.maxGrid[b.order[j]]
		if n == 0 {
			return false
		}
		b.coords[b.order[j]] = k % n
		k /= n
	}
	b.coords[b.order[0]] = k
	return true
}

// elements reads n elements of an array's block, the first of which is number base.
func (b *indexReader) elements(c *cursor, n uint64, size int, client int, base uint64) error {
	if err := b.spent.spend(c.addr, n*uint64(size), "chunks and their index"); err != nil {
		return err
	}
	for i := range n {
		ref := chunkRef{addr: c.offset(), size: b.d.chunkBytes}
		if client == clientFiltered {
			ref.size = c.uint(size - b.f.offsetSize - maskSize)
			ref.mask = uint32(c.u32())
		} else {
			c.skip(size - b.f.offsetSize)
		}
		if c.err != nil {
			return c.err
		}
		if ref.addr != noAddress && b.number(base+i) {
			if err := b.put(ref); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *indexReader) elementSize(c *cursor, client, size int) {
	most := b.f.offsetSize
	least := most
	if client == clientFiltered {
		least, most = least+1+maskSize, most+8+maskSize
	}
	if c.err == nil && (client > clientFiltered || size < least || size > most) {
		c.fail("array of client %d with elements of %d bytes", client, size)
	}
}

func (b *indexReader) tree1(addr uint64, depth int) error {
	f, d := b.f, b.d
	if depth > maxTreeDepth {
		return f.corrupt(addr, "the chunks' B-tree leads back to itself")
	}
	head := uint64(8 + 2*f.offsetSize)
	c, err := f.block(addr, head)
	if err != nil {
		return err
	}
	c.signature("TREE")
	kind, level, n := c.u8(), c.u8(), c.u16()
	if c.err != nil {
		return c.err
	}
	if kind != treeChunks {
		return f.corrupt(addr, "B-tree node of type %d in a chunk index", kind)
	}
	key := 4 + maskSize + 8*(len(d.Dims)+1)
	size := uint64(n * (key + f.offsetSize))
	if err := b.spent.spend(addr, head+size, "chunks and their index"); err != nil {
		return err
	}
	if c, err = f.block(addr+head, size); err != nil {
		return err
	}
	for range n {
		ref := chunkRef{size: c.u32(), mask: uint32(c.u32())}
		for i := range b.coords {
			x := c.uint(8)
			if c.err == nil && level == 0 && x%d.Chunk[i] != 0 {
				c.fail("chunk at %d of axis %d, which is no multiple of %d", x, i, d.Chunk[i])
			}
			b.coords[i] = x / d.Chunk[i]
		}
		if within := c.uint(8); within != 0 {
			c.fail("chunk that begins %d bytes inside an element", within)
		}
		ref.addr = c.offset()
		if c.err != nil {
			return c.err
		}
		if level == 0 {
			// These trees have no checksum: their order is what betrays a chunk that damage would put elsewhere.
			if slices.Compare(b.coords, b.last) <= 0 {
				return f.corrupt(addr, "chunk %v of the grid stands behind chunk %v in the B-tree", b.coords, b.last)
			}
			b.last = append(b.last[:0], b.coords...)
			err = b.put(ref)
		} else {
			err = b.tree1(ref.addr, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *indexReader) tree2() error {
	f, d := b.f, b.d
	return f.tree2(d.addr, func(kind int, rec *cursor) error {
		ref := chunkRef{addr: rec.offset(), size: d.chunkBytes}
		switch kind {
		case recordFilteredChunk:
			ref.size = rec.uint(len(rec.b) - f.offsetSize - maskSize - 8*len(d.Dims))
			ref.mask = uint32(rec.u32())
		case recordChunk:
		default:
			return f.corrupt(rec.addr, "B-tree of record type %d in a chunk index", kind)
		}
		for i := range b.coords {
			b.coords[i] = rec.uint(8)
		}
		if rec.err != nil {
			return rec.err
		}
		return b.put(ref)
	})
}

func (b *indexReader) fixedArray() error {
	f := b.f
	c, err := f.block(b.d.addr, uint64(4+1+3+f.lengthSize+f.offsetSize+sumSize))
	if err != nil {
		return err
	}
	c.signature("FAHD")
	c.version("fixed array", 0)
	client, size, pageBits := c.u8(), c.u8(), c.u8()
	n := c.length()
	data := c.offset()
	c.checksum("fixed array header")
	b.elementSize(c, client, size)
	if c.err != nil {
		return c.err
	}
	if data == noAddress {
		return nil
	}
	if pageBits > maxPageBits || n > uint64(f.size) {
		return f.corrupt(b.d.addr, "fixed array of %d elements in pages of 2^%d", n, pageBits)
	}
	page := uint64(1) << pageBits
	head := uint64(arrayHead + f.offsetSize)
	if n <= page {
		return b.arrayBlock(data, "FADB", head, n, size, client, 0)
	}
	pages := (n + page - 1) / page
	bitmap, err := b.pagedHead(data, "FADB", head, (pages+7)/8)
	if err != nil {
		return err
	}
	return b.pages(data+head+(pages+7)/8+sumSize, bitmap, 0, pages, page, n, size, client, 0)
}

// arrayBlock reads a data block without pages: head, elements, checksum.
func (b *indexReader) arrayBlock(addr uint64, signature string, head, n uint64, size, client int, base uint64) error {
	c, err := b.f.block(addr, head+n*uint64(size)+sumSize)
	if err != nil {
		return err
	}
	c.signature(signature)
	c.pos = len(c.b) - sumSize
	c.checksum("array block")
	if c.err != nil {
		return c.err
	}
	c.pos = int(head)
	return b.elements(c, n, size, client, base)
}

// pagedHead reads head, bitmap and checksum of a block whose elements are in pages.
func (b *indexReader) pagedHead(addr uint64, signature string, head, bitmap uint64) ([]byte, error) {
	c, err := b.f.block(addr, head+bitmap+sumSize)
	if err != nil {
		return nil, err
	}
	c.signature(signature)
	c.pos = int(head + bitmap)
	c.checksum("array block")
	return c.b[head : head+bitmap], c.err
}

// pages reads the pages that bitmap, from firstBit on, says were written. n counts the elements of all.
func (b *indexReader) pages(addr uint64, bitmap []byte, firstBit, pages, page, n uint64, size, client int, base uint64) error {
	for p := range pages {
		bit := firstBit + p
		if bit/8 >= uint64(len(bitmap)) {
			break
		}
		if bitmap[bit/8]&(0x80>>(bit%8)) == 0 {
			continue
		}
		count := min(page, n-p*page)
		c, err := b.f.block(addr+p*(page*uint64(size)+sumSize), count*uint64(size)+sumSize)
		if err != nil {
			return err
		}
		c.pos = len(c.b) - sumSize
		c.checksum("array page")
		if c.err != nil {
			return c.err
		}
		c.pos = 0
		if err := b.elements(c, count, size, client, base+p*page); err != nil {
			return err
		}
	}
	return nil
}

// extensible is what the header of an extensible array says.
type extensible struct {
	client, size   int
	used           uint64 // one more than the last element set
	page           uint64
	blockOffset    int // bytes of a block's offset in the array
	inIndex        int // elements in the index block
	smallestBlock  uint64
	superBlocks    int
	superInIndex   int // super blocks whose data blocks the index block names
	directPointers int
}

func (b *indexReader) extensibleArray() error {
	f := b.f
	c, err := f.block(b.d.addr, uint64(4+1+7+6*f.lengthSize+f.offsetSize+sumSize))
	if err != nil {
		return err
	}
	c.signature("EAHD")
	c.version("extensible array", 0)
	e := extensible{client: c.u8(), size: c.u8()}
	maxBits := c.u8()
	e.inIndex = c.u8()
	least, minPointers, pageBits := c.u8(), c.u8(), c.u8()
	c.skip(4 * f.lengthSize)
	e.used = c.length()
	c.length()
	index := c.offset()
	c.checksum("extensible array header")
	b.elementSize(c, e.client, e.size)
	if c.err != nil {
		return c.err
	}
	if index == noAddress || e.used == 0 {
		return nil
	}
	powers := bits.OnesCount(uint(least)) == 1 && bits.OnesCount(uint(minPointers)) == 1
	if !powers || pageBits > maxPageBits || maxBits > maxArrayBits || maxBits < bits.Len(uint(least)) {
		return f.corrupt(b.d.addr, "extensible array of %d bits, blocks from %d elements, %d pointers, pages of 2^%d", maxBits, least, minPointers, pageBits)
	}
	e.page = 1 << pageBits
	e.smallestBlock = uint64(least)
	e.superBlocks = 1 + maxBits - (bits.Len(uint(least)) - 1)
	e.superInIndex = 2 * (bits.Len(uint(minPointers)) - 1)
	e.directPointers = 2 * (minPointers - 1)
	e.blockOffset = (maxBits + 7) / 8
	return b.extensibleIndex(index, &e)
}

func (b *indexReader) extensibleIndex(addr uint64, e *extensible) error {
	f := b.f
	head := arrayHead + f.offsetSize
	pointers := e.directPointers + max(0, e.superBlocks-e.superInIndex)
	c, err := f.block(addr, uint64(head+e.inIndex*e.size+pointers*f.offsetSize+sumSize))
	if err != nil {
		return err
	}
	c.signature("EAIB")
	c.pos = len(c.b) - sumSize
	c.checksum("extensible array index block")
	if c.err != nil {
		return c.err
	}
	c.pos = head
	if err := b.elements(c, uint64(e.inIndex), e.size, e.client, 0); err != nil {
		return err
	}
	base := uint64(e.inIndex)
	for s := 0; s < e.superBlocks && base < e.used; s++ {
		blocks := uint64(1) << (s / 2)
		each := e.smallestBlock << ((s + 1) / 2)
		if s < e.superInIndex {
			for range blocks {
				if err := b.dataBlock(c.offset(), e, each, base, nil, 0); err != nil {
					return err
				}
				base += each
			}
		} else {
			if err := b.superBlock(c.offset(), e, blocks, each, base); err != nil {
				return err
			}
			base += blocks * each
		}
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

func (b *indexReader) superBlock(addr uint64, e *extensible, blocks, each, base uint64) error {
	if addr == noAddress {
		return nil
	}
	f := b.f
	perBlock := uint64(0) // bytes of page bitmap of a data block
	if each > e.page {
		perBlock = (each/e.page + 7) / 8
	}
	if blocks > MaxMetadata || perBlock > MaxMetadata {
		return f.corrupt(addr, "super block of %d data blocks", blocks)
	}
	head := uint64(arrayHead + f.offsetSize + e.blockOffset)
	c, err := f.block(addr, head+blocks*perBlock+blocks*uint64(f.offsetSize)+sumSize)
	if err != nil {
		return err
	}
	c.signature("EASB")
	c.pos = len(c.b) - sumSize
	c.checksum("extensible array super block")
	if c.err != nil {
		return c.err
	}
	c.pos = int(head)
	bitmaps := c.bytes(int(blocks * perBlock))
	for k := range blocks {
		// Each block has whole bytes of bitmap, yet the bits of all stand one behind the other without gaps.
		if err := b.dataBlock(c.offset(), e, each, base+k*each, bitmaps, k*(each/e.page)); err != nil {
			return err
		}
	}
	return c.err
}

func (b *indexReader) dataBlock(addr uint64, e *extensible, n, base uint64, bitmap []byte, firstBit uint64) error {
	if addr == noAddress {
		return nil
	}
	head := uint64(arrayHead + b.f.offsetSize + e.blockOffset)
	if n <= e.page {
		return b.arrayBlock(addr, "EADB", head, n, e.size, e.client, base)
	}
	if _, err := b.pagedHead(addr, "EADB", head, 0); err != nil {
		return err
	}
	return b.pages(addr+head+sumSize, bitmap, firstBit, n/e.page, e.page, n, e.size, e.client, base)
}
