package hdf5

import "sync"

// heapID names a message in the heap of shared messages.
type heapID [8]byte

const (
	maxSharedIndexes = 8
	sharedIndexHead  = 1 + 1 + 2 + 4 + 2 + 2 + 2 // version to number of messages, of an index
)

// sharedMessages are messages that many objects have in common, which the file keeps once, in a heap (format
// specification, IV.A.2.p and III.H). What was read of the heaps is kept: the same message is asked for again and again.
type sharedMessages struct {
	mu      sync.Mutex
	read    bool
	err     error
	indexes []sharedIndex
	types   map[heapID]*Type
}

type sharedIndex struct {
	kinds int // 1 << message type, of each kind that it has
	heap  uint64
	open  *fractalHeap
}

// body gives a cursor over a message of the kind given.
func (s *sharedMessages) body(f *File, kind int, id heapID) (*cursor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(f, kind, id)
}

func (s *sharedMessages) datatype(f *File, id heapID) (*Type, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.types[id]; ok {
		return t, nil
	}
	c, err := s.find(f, msgDatatype, id)
	if err != nil {
		return nil, err
	}
	t, err := c.datatype(0)
	if err != nil {
		return nil, err
	}
	if s.types == nil {
		s.types = map[heapID]*Type{}
	}
	s.types[id] = t
	return t, nil
}

func (s *sharedMessages) find(f *File, kind int, id heapID) (*cursor, error) {
	if !s.read {
		s.indexes, s.err = f.sharedIndexes()
		s.read = true
	}
	if s.err != nil {
		return nil, s.err
	}
	bit := 1 << kind
	if kind == msgFillOld {
		bit = 1 << msgFill
	}
	for i := range s.indexes {
		x := &s.indexes[i]
		if x.kinds&bit == 0 {
			continue
		}
		if x.open == nil {
			h, err := f.fractalHeap(x.heap)
			if err != nil {
				return nil, err
			}
			if h.idSize > len(id) {
				return nil, f.corrupt(x.heap, "heap of shared messages with ids of %d bytes", h.idSize)
			}
			x.open = h
		}
		return x.open.find(&cursor{f: f, b: id[:], addr: noAddress})
	}
	return nil, f.corrupt(f.extension, "no heap of shared messages of type %#x", kind)
}

// sharedIndexes reads where the heaps are: the superblock's extension leads to a table.
func (f *File) sharedIndexes() ([]sharedIndex, error) {
	if f.extension == noAddress {
		return nil, f.corrupt(noAddress, "shared message in a file that has no table of them")
	}
	o := &Object{f: f, addr: f.extension}
	if err := o.read(); err != nil {
		return nil, err
	}
	m := o.find(msgSharedTable)
	if m == nil || m.flags&flagShared != 0 {
		return nil, f.corrupt(f.extension, "shared message in a file that has no table of them")
	}
	c := &cursor{f: f, b: m.body, addr: m.addr}
	c.version("table of shared messages", 0)
	table, n := c.offset(), c.u8()
	if c.err != nil {
		return nil, c.err
	}
	if n > maxSharedIndexes {
		return nil, f.corrupt(m.addr, "%d indexes of shared messages", n)
	}
	t, err := f.block(table, uint64(4+n*(sharedIndexHead+2*f.offsetSize)+sumSize))
	if err != nil {
		return nil, err
	}
	t.signature("SMTB")
	var out []sharedIndex
	for range n {
		t.version("index of shared messages", 0)
		t.skip(1)
		x := sharedIndex{kinds: t.u16()}
		t.skip(4 + 2 + 2 + 2)
		t.offset()
		x.heap = t.offset()
		out = append(out, x)
	}
	t.checksum("table of shared messages")
	return out, t.err
}
