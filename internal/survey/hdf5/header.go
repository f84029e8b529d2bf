package hdf5

// Header message types this package reads or must refuse.
const (
	msgNil          = 0x00
	msgDataspace    = 0x01
	msgLinkInfo     = 0x02
	msgDatatype     = 0x03
	msgFillOld      = 0x04
	msgFill         = 0x05
	msgLink         = 0x06
	msgExternal     = 0x07
	msgLayout       = 0x08
	msgFilters      = 0x0b
	msgAttribute    = 0x0c
	msgSharedTable  = 0x0f
	msgContinuation = 0x10
	msgSymbolTable  = 0x11
	msgAttrInfo     = 0x15
	msgNewestKnown  = 0x17
)

const (
	flagShared      = 1 << 1 // the message's body is a pointer to where it really is
	flagMustKnow    = 1 << 7 // a reader that does not know the type must give up
	headerTimes     = 1 << 5
	headerPhase     = 1 << 4
	headerOrder     = 1 << 2
	maxHeaderBlocks = 4096
	headerPrefix    = 64
)

type message struct {
	kind  int
	flags int
	addr  uint64
	body  []byte
}

// Object is a group, a dataset or a committed type.
type Object struct {
	f        *File
	addr     uint64
	path     string
	messages []message
	size     uint64 // bytes of messages
	links    lazyLinks
}

// Path is the path under which the object was reached, "/" for the root.
func (o *Object) Path() string { return o.path }

// Addr is the byte address of the object's header: the same for every path that leads to the object, so that a walk can
// tell that it has been here.
func (o *Object) Addr() uint64 { return o.addr + o.f.base }

// IsGroup says whether the object holds links.
func (o *Object) IsGroup() bool {
	return o.find(msgSymbolTable) != nil || o.find(msgLinkInfo) != nil || o.find(msgLink) != nil
}

// IsDataset says whether the object holds elements.
func (o *Object) IsDataset() bool { return o.find(msgDataspace) != nil && o.find(msgLayout) != nil }

func (o *Object) find(kind int) *message {
	for i := range o.messages {
		if o.messages[i].kind == kind {
			return &o.messages[i]
		}
	}
	return nil
}

func (f *File) object(addr uint64, path string) (*Object, error) {
	o := &Object{f: f, addr: addr, path: path}
	if err := o.read(); err != nil {
		return nil, o.in(err)
	}
	return o, nil
}

// extent is a run of bytes in the file.
type extent struct{ addr, size uint64 }

func (o *Object) read() error {
	c, err := o.f.prefix(o.addr, headerPrefix)
	if err != nil {
		return err
	}
	if c.left() >= 4 && string(c.b[:4]) == "OHDR" {
		return o.readV2(c)
	}
	c.version("object header", 1)
	c.skip(1 + 2 + 4)
	size := c.u32()
	if c.err != nil {
		return c.err
	}
	const prefixV1 = 16
	return o.readBlocks(extent{o.addr + prefixV1, size}, func(b *cursor) (m message) {
		m.kind = b.u16()
		size := b.u16()
		m.flags = b.u8()
		b.skip(3)
		m.addr = b.addr + uint64(b.pos)
		m.body = b.bytes(size)
		return m
	}, false)
}

func (o *Object) readV2(c *cursor) error {
	c.skip(4)
	c.version("object header", 2)
	flags := c.u8()
	if flags&headerTimes != 0 {
		c.skip(4 * 4)
	}
	if flags&headerPhase != 0 {
		c.skip(2 * 2)
	}
	size := c.uint(1 << (flags & 3))
	if c.err != nil {
		return c.err
	}
	start := uint64(c.pos)
	const sum = 4
	if size > MaxMetadata {
		return o.f.corrupt(o.addr, "object header of %d bytes", size)
	}
	whole, err := o.f.block(o.addr, start+size+sum)
	if err != nil {
		return err
	}
	whole.pos = int(start + size)
	if whole.checksum("object header"); whole.err != nil {
		return whole.err
	}
	return o.readBlocks(extent{o.addr + start, size}, func(b *cursor) (m message) {
		m.kind = b.u8()
		size := b.u16()
		m.flags = b.u8()
		if flags&headerOrder != 0 {
			b.skip(2)
		}
		m.addr = b.addr + uint64(b.pos)
		m.body = b.bytes(size)
		return m
	}, true)
}

func (o *Object) readBlocks(first extent, next func(*cursor) message, v2 bool) error {
	f := o.f
	queue := []extent{first}
	smallest := 8 // bytes of a message's head
	if v2 {
		smallest = 4
	}
	for i := 0; i < len(queue); i++ {
		q := queue[i]
		if o.size += q.size; i >= maxHeaderBlocks || o.size > f.room() {
			return f.corrupt(q.addr, "object header continues for ever (%d blocks, %d bytes)", i+1, o.size)
		}
		c, err := f.block(q.addr, q.size)
		if err != nil {
			return err
		}
		if v2 && i > 0 {
			if len(c.b) < 8 {
				return f.corrupt(q.addr, "continuation of %d bytes", len(c.b))
			}
			c.signature("OCHK")
			c.pos = len(c.b) - 4
			c.checksum("object header continuation")
			c.pos, c.b = 4, c.b[:len(c.b)-4]
		}
		for c.err == nil && c.left() >= smallest {
			m := next(c)
			if c.err != nil {
				break
			}
			switch {
			case m.kind == msgNil:
			case m.kind == msgContinuation:
				k := &cursor{f: f, b: m.body, addr: m.addr}
				q := extent{k.offset(), k.length()}
				if k.err != nil {
					return k.err
				}
				queue = append(queue, q)
			case m.kind > msgNewestKnown && m.flags&flagMustKnow != 0:
				return f.unsupported(m.addr, "header message of type %#x", m.kind)
			default:
				o.messages = append(o.messages, m)
			}
		}
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

// open gives a cursor over a message's body, which may be in the heap of shared messages.
func (f *File) open(m *message) (*cursor, error) {
	c := &cursor{f: f, b: m.body, addr: m.addr}
	if m.flags&flagShared == 0 {
		return c, nil
	}
	return f.sharedBody(c, m.kind)
}

// sharedBody gives a cursor over the message of the kind given to which the pointer at the cursor leads.
func (f *File) sharedBody(c *cursor, kind int) (*cursor, error) {
	at, err := c.shared()
	switch {
	case err != nil:
		return nil, err
	case !at.inHeap:
		return nil, f.corrupt(c.addr, "message of type %#x in another object's header; types alone can be shared so", kind)
	}
	return f.shared.body(f, kind, at.id)
}

// datatype gives the type in a message, or the committed or shared one that it points to.
func (f *File) datatype(m *message) (*Type, error) {
	c := &cursor{f: f, b: m.body, addr: m.addr}
	if m.flags&flagShared != 0 {
		return f.sharedType(c)
	}
	return c.datatype(0)
}

// Kinds of shared message, versions 2 and 3 of the pointer.
const (
	sharedInHeap = 1
	sharedHere   = 3
)

// sharedAt says where a shared message is: in another object's header, or in the heap of shared messages.
type sharedAt struct {
	addr   uint64
	inHeap bool
	id     heapID
}

// shared reads a pointer to a shared message.
func (c *cursor) shared() (at sharedAt, err error) {
	f, from := c.f, c.addr
	version, where := c.u8(), c.u8()
	switch {
	case c.err != nil:
		return at, c.err
	case version < 1 || version > 3:
		return at, f.corrupt(from, "shared message version %d", version)
	case version == 3 && where == sharedInHeap:
		at.inHeap = true
		copy(at.id[:], c.bytes(len(at.id)))
		return at, c.err
	case version == 3 && where == sharedHere:
		return at, f.corrupt(from, "shared message that points to itself")
	}
	if version == 1 {
		c.skip(6)
	}
	at.addr = c.offset()
	return at, c.err
}

// sharedType gives the committed or shared type to which the pointer at the cursor leads. Many attributes and datasets
// may have one type: it is kept.
func (f *File) sharedType(c *cursor) (*Type, error) {
	at, err := c.shared()
	if err != nil {
		return nil, err
	}
	if at.inHeap {
		return f.shared.datatype(f, at.id)
	}
	addr := at.addr
	f.typesMu.Lock()
	defer f.typesMu.Unlock()
	if t, ok := f.types[addr]; ok {
		return t, nil
	}
	o := &Object{f: f, addr: addr}
	if err := o.read(); err != nil {
		return nil, err
	}
	if err := f.typesSpent.spend(addr, o.size, "headers of committed types"); err != nil {
		return nil, err
	}
	m := o.find(msgDatatype)
	if m == nil || m.flags&flagShared != 0 {
		return nil, f.corrupt(addr, "no committed type in this object header")
	}
	t, err := (&cursor{f: f, b: m.body, addr: m.addr}).datatype(0)
	if err != nil {
		return nil, err
	}
	f.types[addr] = t
	return t, nil
}
