package hdf5

import "math/bits"

const (
	tree2MaxDepth = 16
	tree2Overhead = 4 + 1 + 1 + 4 // signature, version, type, checksum of a node
)

// tree2 walks a version 2 B-tree in order and calls fn with the tree's record type and each record.
func (f *File) tree2(addr uint64, fn func(kind int, rec *cursor) error) error {
	c, err := f.block(addr, uint64(4+1+1+4+2+2+1+1+f.offsetSize+2+f.lengthSize+4))
	if err != nil {
		return err
	}
	c.signature("BTHD")
	c.version("B-tree", 0)
	t := tree2{f: f, fn: fn, nodes: budget{f: f}, kind: c.u8(), nodeSize: c.u32(), recordSize: c.u16()}
	depth := c.u16()
	c.skip(2)
	root := c.offset()
	n := c.u16()
	c.length()
	c.checksum("B-tree header")
	if c.err != nil {
		return c.err
	}
	if root == noAddress || n == 0 {
		return nil
	}
	if t.recordSize == 0 || t.nodeSize < tree2Overhead+uint64(t.recordSize) || t.nodeSize > MaxMetadata || depth > tree2MaxDepth {
		return f.corrupt(addr, "B-tree of depth %d with records of %d and nodes of %d bytes", depth, t.recordSize, t.nodeSize)
	}
	if err := t.plan(addr, depth); err != nil {
		return err
	}
	return t.node(root, n, depth)
}

type tree2 struct {
	f          *File
	fn         func(kind int, rec *cursor) error
	kind       int
	nodeSize   uint64
	recordSize int
	maxRecords []uint64 // in a node, by depth
	countSize  int      // bytes of a child's record count
	totalSize  []int    // bytes of a child's subtree's record count, by the child's depth
	nodes      budget
}

// plan works out how many records nodes of each depth hold, which fixes the widths of their children's counts.
func (t *tree2) plan(addr uint64, depth int) error {
	t.maxRecords = make([]uint64, depth+1)
	t.totalSize = make([]int, depth+1)
	t.maxRecords[0] = (t.nodeSize - tree2Overhead) / uint64(t.recordSize)
	t.countSize = bytesFor(t.maxRecords[0])
	total := t.maxRecords[0]
	for d := 1; d <= depth; d++ {
		pointer := uint64(t.f.offsetSize + t.countSize + t.totalSize[d-1])
		if t.nodeSize < tree2Overhead+2*pointer+uint64(t.recordSize) {
			return t.f.corrupt(addr, "B-tree nodes of %d bytes are too small", t.nodeSize)
		}
		t.maxRecords[d] = (t.nodeSize - tree2Overhead - pointer) / (uint64(t.recordSize) + pointer)
		hi, lo := bits.Mul64(t.maxRecords[d]+1, total)
		if hi != 0 || lo > 1<<62 {
			return t.f.corrupt(addr, "B-tree of depth %d cannot be so large", depth)
		}
		total = lo + t.maxRecords[d]
		t.totalSize[d] = bytesFor(total)
	}
	return nil
}

// bytesFor is the number of bytes that hold v, at least 1.
func bytesFor(v uint64) int { return max(1, (bits.Len64(v)+7)/8) }

func (t *tree2) node(addr uint64, n, depth int) error {
	f := t.f
	if uint64(n) > t.maxRecords[depth] {
		return f.corrupt(addr, "B-tree node of %d records; %d fit", n, t.maxRecords[depth])
	}
	if err := t.nodes.spend(addr, t.nodeSize, "nodes of a B-tree"); err != nil {
		return err
	}
	c, err := f.block(addr, t.nodeSize)
	if err != nil {
		return err
	}
	if depth == 0 {
		c.signature("BTLF")
	} else {
		c.signature("BTIN")
	}
	c.version("B-tree node", 0)
	if kind := c.u8(); c.err == nil && kind != t.kind {
		c.fail("node of type %d in a B-tree of type %d", kind, t.kind)
	}
	at := addr + uint64(c.pos)
	records := c.bytes(n * t.recordSize)
	pointers := *c
	if depth > 0 {
		c.skip((n + 1) * (f.offsetSize + t.countSize + t.totalSize[depth-1]))
	}
	c.checksum("B-tree node")
	if c.err != nil {
		return c.err
	}
	for i := range n + 1 {
		if depth > 0 {
			child := pointers.offset()
			count := int(pointers.uint(t.countSize))
			pointers.skip(t.totalSize[depth-1])
			if pointers.err != nil {
				return pointers.err
			}
			if err := t.node(child, count, depth-1); err != nil {
				return err
			}
		}
		if i < n {
			from := i * t.recordSize
			if err := t.fn(t.kind, &cursor{f: f, b: records[from : from+t.recordSize], addr: at + uint64(from)}); err != nil {
				return err
			}
		}
	}
	return nil
}
