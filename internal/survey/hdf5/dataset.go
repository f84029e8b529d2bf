package hdf5

import (
	"fmt"
	"math/bits"
	"sync"
)

const (
	maxRank           = 32
	maxDatasetBytes   = 1 << 62
	maxFilters        = 32
	spaceHasMax       = 1 << 0
	spaceNull         = 2
	fillNever         = 1 // write time: unwritten elements have no value
	layoutCompact     = 0
	layoutContiguous  = 1
	layoutChunked     = 2
	layoutVirtual     = 3
	layoutNewest      = 5
	layoutIndexed     = 4 // from this version on a chunked layout names its index
	edgeUnfiltered    = 1 << 0
	singleFiltered    = 1 << 1
	firstNamedFilter  = 256 // ids from here on have a name in newer pipelines
	maxChunkBytes     = 1 << 40
	elementsUnlimited = noAddress
)

// Filter is one step of a dataset's pipeline, in the order in which writing applies it.
type Filter struct {
	ID     int
	Name   string
	Params []uint32
}

// Dataset is an array of elements.
type Dataset struct {
	Type    *Type
	Dims    []uint64 // none for a scalar
	MaxDims []uint64 // all ones: unlimited
	Null    bool     // the dataset has a type but no elements
	Chunk   []uint64 // nil if not chunked
	Filters []Filter
	Fill    []byte // one element, little-endian, for what was never written; nil: zeros

	narrow     *Dataset // nil, or that which is read instead and widened
	o          *Object
	refused    error // why nothing can be read (wraps ErrUnsupported), or nil
	class      int
	compact    []byte
	addr       uint64 // of contiguous data, or of the chunk index
	stored     uint64 // bytes of contiguous data
	chunkBytes uint64 // decoded
	index      int    // kind of chunk index
	single     chunkRef
	plainEdges bool     // chunks that reach over the edge are not filtered
	grid       []uint64 // chunks by dimension
	maxGrid    []uint64 // the same for MaxDims; 0 for an unlimited dimension

	once     sync.Once
	chunks   []chunkEntry
	indexErr error
}

// Dataset gives the object as a dataset. What this package cannot read (see Readable) is no error here, so that it can be
// listed.
func (o *Object) Dataset() (*Dataset, error) {
	d := &Dataset{o: o, addr: noAddress}
	if err := d.read(); err != nil {
		return nil, o.in(err)
	}
	if w := d.Type.wide; w != nil && d.class != layoutVirtual && o.find(msgExternal) == nil {
		if _, ok := product(uint64(w.as.Size), d.Dims); !ok {
			return nil, o.in(o.f.corrupt(o.addr, "dataset of shape %v and type %s is too large", d.Dims, w.as))
		}
		return d.widen(), nil
	}
	return d, nil
}

// Readable gives nil, or an error that wraps ErrUnsupported and names what in the dataset cannot be read. Filters are
// judged too, though single chunks may have been stored without them.
func (d *Dataset) Readable() error {
	err := d.refused
	if err != nil && d.Type.Class == ClassReference {
		err = d.refusedReferences(err)
	}
	for _, fl := range d.Filters {
		if err == nil && !fl.supported() {
			err = fl.unsupported()
		}
	}
	return d.o.in(err)
}

// Rows is the length of axis 0: 1 for a scalar, 0 for a null dataset.
func (d *Dataset) Rows() uint64 {
	switch {
	case d.Null:
		return 0
	case len(d.Dims) == 0:
		return 1
	}
	return d.Dims[0]
}

// RowBytes is the number of bytes of one row, all elements of one index of axis 0.
func (d *Dataset) RowBytes() uint64 {
	n := uint64(d.Type.Size)
	for i := 1; i < len(d.Dims); i++ {
		n *= d.Dims[i]
	}
	return n
}

// SlabRows is the height of a chunk along axis 0, 1 if the dataset is not chunked: reads that begin and end at multiples
// of it decode every chunk once.
func (d *Dataset) SlabRows() uint64 {
	if len(d.Chunk) == 0 {
		return 1
	}
	return d.Chunk[0]
}

type space struct {
	dims, max []uint64
	null      bool
}

func (c *cursor) dataspace() (s space, err error) {
	version, rank, flags := c.u8(), c.u8(), c.u8()
	switch version {
	case 1:
		c.skip(5)
	case 2:
		s.null = c.u8() == spaceNull
	default:
		c.fail("dataspace version %d", version)
	}
	if rank > maxRank {
		c.fail("dataspace of rank %d; at most %d", rank, maxRank)
	}
	if c.err != nil {
		return s, c.err
	}
	for range rank {
		s.dims = append(s.dims, c.length())
	}
	s.max = append([]uint64(nil), s.dims...)
	if flags&spaceHasMax != 0 {
		for i := range s.max {
			s.max[i] = c.length()
			if c.err == nil && s.max[i] < s.dims[i] {
				c.fail("length %d of axis %d is over its limit %d", s.dims[i], i, s.max[i])
			}
		}
	}
	return s, c.err
}

// product multiplies size by all dims; not ok if the result is out of bounds, empty dimensions left aside: even if
// another is 0, none of the products of the rest may overflow.
func product(size uint64, dims []uint64) (uint64, bool) {
	zero := false
	for _, d := range dims {
		if d == 0 {
			zero = true
			continue
		}
		hi, lo := bits.Mul64(size, d)
		if hi != 0 || lo > maxDatasetBytes {
			return 0, false
		}
		size = lo
	}
	if zero {
		return 0, true
	}
	return size, true
}

func (d *Dataset) read() error {
	o, f := d.o, d.o.f
	if !o.IsDataset() {
		return f.fail(o.addr, fmt.Errorf("%w: the object is no dataset", ErrNotFound))
	}
	c, err := f.open(o.find(msgDataspace))
	if err != nil {
		return err
	}
	s, err := c.dataspace()
	if err != nil {
		return err
	}
	d.Dims, d.MaxDims, d.Null = s.dims, s.max, s.null
	m := o.find(msgDatatype)
	if m == nil {
		return f.corrupt(o.addr, "dataset without a type")
	}
	if d.Type, err = f.datatype(m); err != nil {
		return err
	}
	d.refused = d.Type.unreadable
	if _, ok := product(uint64(d.Type.Size), d.Dims); !ok {
		return f.corrupt(o.addr, "dataset of shape %v and type %s is too large", d.Dims, d.Type)
	}
	if m = o.find(msgFilters); m != nil {
		if c, err = f.open(m); err != nil {
			return err
		}
		if err = d.pipeline(c); err != nil {
			return err
		}
	}
	if err = d.fill(); err != nil {
		return err
	}
	if o.find(msgExternal) != nil {
		d.refused = unsupportedf("external storage (the data is in other files)")
	}
	if c, err = f.open(o.find(msgLayout)); err != nil {
		return err
	}
	return d.layout(c)
}

func (d *Dataset) fill() error {
	o, f := d.o, d.o.f
	m := o.find(msgFill)
	old := m == nil
	if old {
		if m = o.find(msgFillOld); m == nil {
			return nil
		}
	}
	c, err := f.open(m)
	if err != nil {
		return err
	}
	defined, never := true, false
	if !old {
		switch version := c.u8(); version {
		case 1, 2:
			c.skip(1)
			never = c.u8() == fillNever
			defined = c.u8() == 1 || version == 1
		case 3:
			flags := c.u8()
			never, defined = flags>>2&3 == fillNever, flags&(1<<5) != 0
		default:
			c.fail("fill value version %d", version)
		}
	}
	if !defined || c.err != nil {
		return c.err
	}
	n := c.u32()
	if n > uint64(c.left()) {
		c.fail("fill value of %d bytes", n)
	}
	b := c.bytes(int(n))
	switch {
	case c.err != nil:
		return c.err
	case len(b) == 0 || never:
		return nil
	case len(b) != d.Type.Size:
		c.fail("fill value of %d bytes for type %s", len(b), d.Type)
		return c.err
	}
	for _, x := range b {
		if x != 0 {
			d.Fill = append([]byte(nil), b...)
			d.Type.toLittle(d.Fill)
			break
		}
	}
	return nil
}

func (d *Dataset) pipeline(c *cursor) error {
	version, n := c.u8(), c.u8()
	if version == 1 {
		c.skip(6)
	}
	if c.err == nil && (version < 1 || version > 2 || n > maxFilters) {
		c.fail("filter pipeline version %d of %d filters", version, n)
	}
	for range n {
		if c.err != nil {
			break
		}
		fl := Filter{ID: c.u16()}
		nameSize := 0
		if version == 1 || fl.ID >= firstNamedFilter {
			nameSize = c.u16()
		}
		c.skip(2)
		params := c.u16()
		if version == 1 {
			nameSize = (nameSize + 7) / 8 * 8
		}
		name := c.bytes(nameSize)
		for i, x := range name {
			if x == 0 {
				name = name[:i]
				break
			}
		}
		fl.Name = string(name)
		for range params {
			if c.err != nil {
				break
			}
			fl.Params = append(fl.Params, uint32(c.u32()))
		}
		if version == 1 && params%2 == 1 {
			c.skip(4)
		}
		d.Filters = append(d.Filters, fl)
	}
	return c.err
}

func (d *Dataset) layout(c *cursor) error {
	version := c.u8()
	switch {
	case version == 1 || version == 2:
		d.layoutOld(c)
	case version >= 3 && version <= layoutNewest:
		d.layoutNew(c, version)
	case c.err == nil:
		return c.f.unsupported(c.addr, "data layout version %d", version)
	}
	if c.err != nil {
		return c.err
	}
	if d.class != layoutChunked {
		if d.class != layoutVirtual && len(d.Filters) > 0 {
			c.fail("filters on data that is not chunked")
		}
		return c.err
	}
	if len(d.Dims) == 0 {
		c.fail("chunked scalar")
		return c.err
	}
	for i, n := range d.Chunk {
		d.grid = append(d.grid, chunksOver(d.Dims[i], n))
		limit := uint64(0)
		if d.MaxDims[i] != elementsUnlimited {
			limit = chunksOver(d.MaxDims[i], n)
		}
		d.maxGrid = append(d.maxGrid, limit)
	}
	return nil
}

func chunksOver(n, chunk uint64) uint64 {
	whole := n / chunk
	if n%chunk != 0 {
		whole++
	}
	return whole
}

func (d *Dataset) layoutOld(c *cursor) {
	rank := c.u8()
	d.class = c.u8()
	c.skip(5)
	if d.class != layoutCompact {
		d.addr = c.offset()
	}
	switch d.class {
	case layoutCompact:
		c.skip(4 * rank)
		d.compact = c.sized(c.u32())
	case layoutContiguous:
		c.skip(4 * rank)
		d.stored, _ = product(uint64(d.Type.Size), d.Dims)
	case layoutChunked:
		d.chunkDims(c, rank, 4)
	default:
		c.fail("data layout class %d", d.class)
	}
}

func (c *cursor) sized(n uint64) []byte {
	if n > uint64(c.left()) {
		c.fail("%d bytes of data in a message", n)
		return nil
	}
	return c.bytes(int(n))
}

func (d *Dataset) layoutNew(c *cursor, version int) {
	d.class = c.u8()
	switch d.class {
	case layoutCompact:
		d.compact = c.sized(c.uint(2))
	case layoutContiguous:
		d.addr, d.stored = c.offset(), c.length()
	case layoutChunked:
		if version < layoutIndexed {
			rank := c.u8()
			d.addr = c.offset()
			d.chunkDims(c, rank, 4)
			return
		}
		d.layoutIndex(c)
	case layoutVirtual:
		d.refused = unsupportedf("virtual dataset (the data is in other datasets)")
	default:
		c.fail("data layout class %d", d.class)
	}
}

func (d *Dataset) layoutIndex(c *cursor) {
	flags := c.u8()
	rank := c.u8()
	width := c.u8()
	d.chunkDims(c, rank, width)
	d.plainEdges = flags&edgeUnfiltered != 0
	d.index = c.u8()
	switch d.index {
	case indexSingle:
		d.single.size = d.chunkBytes
		if flags&singleFiltered != 0 {
			d.single.size = c.length()
			d.single.mask = uint32(c.u32())
		}
	case indexImplicit:
	case indexFixedArray:
		c.skip(1)
	case indexExtensibleArray:
		c.skip(5)
	case indexTree2:
		c.skip(6)
	default:
		c.fail("chunk index of kind %d", d.index)
	}
	d.addr = c.offset()
}

// chunkDims reads the chunk's shape; the last of its rank numbers is the element's size.
func (d *Dataset) chunkDims(c *cursor, rank, width int) {
	if c.err == nil && rank != len(d.Dims)+1 {
		c.fail("chunks of rank %d in a dataset of rank %d", rank-1, len(d.Dims))
	}
	var dims []uint64
	for range rank {
		x := c.uint(width)
		if c.err != nil {
			return
		}
		if x == 0 {
			c.fail("empty chunks")
		}
		dims = append(dims, x)
	}
	if c.err != nil {
		return
	}
	if element := dims[rank-1]; element != uint64(d.Type.Size) {
		c.fail("chunks of elements of %d bytes, type %s", element, d.Type)
	}
	d.Chunk = dims[: rank-1 : rank-1]
	var ok bool
	if d.chunkBytes, ok = product(1, dims); !ok || d.chunkBytes > maxChunkBytes {
		c.fail("chunks of shape %v", dims)
	}
}
