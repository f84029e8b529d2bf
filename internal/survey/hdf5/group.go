package hdf5

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
)

// LinkKind says how a group names an object.
type LinkKind int

// Kinds of links, with the numbers of the file format.
const (
	HardLink     LinkKind = 0
	SoftLink     LinkKind = 1
	ExternalLink LinkKind = 64
)

// Link is one name in a group.
type Link struct {
	Name   string
	Kind   LinkKind
	Target string // path a soft or external link leads to; "" otherwise
	File   string // the other file that an external link leads into; "" otherwise
	addr   uint64
}

const (
	maxLinksFollowed = 32 // soft links in one resolution
	maxTreeDepth     = 64
	symbolIsSoft     = 2 // cache type of a symbol table entry
	linkHasKind      = 1 << 3
	linkHasOrder     = 1 << 2
	linkHasCharset   = 1 << 4
	infoHasOrder     = 1 << 0
	treeGroup        = 0 // node type of a version 1 B-tree
	treeChunks       = 1
	recordLinkName   = 5 // record types of a version 2 B-tree
	recordLinkOrder  = 6
	symbolNodes      = "nodes of a group's B-tree"
)

type lazyLinks struct {
	once  sync.Once
	links []Link
	err   error
}

// Links lists the group's links by name. An object that is no group has none.
func (o *Object) Links() ([]Link, error) {
	o.links.once.Do(func() {
		links, err := o.readLinks()
		if err == nil {
			sort.Slice(links, func(i, j int) bool { return links[i].Name < links[j].Name })
			for i := 1; i < len(links); i++ {
				if links[i].Name == links[i-1].Name {
					err = o.f.corrupt(o.addr, "two links are called %q", links[i].Name)
				}
			}
		}
		o.links.links, o.links.err = links, o.in(err)
	})
	if o.links.err != nil {
		return nil, o.links.err
	}
	return append([]Link(nil), o.links.links...), nil
}

// Child gives the object that the link called name leads to; soft links are followed. The error wraps ErrNotFound when
// there is no such name or a soft link leads nowhere, ErrUnsupported for an external link.
func (o *Object) Child(name string) (*Object, error) {
	budget := maxLinksFollowed
	child, err := o.child(name, &budget)
	return child, o.in(err)
}

// Object gives the object at an absolute path.
func (f *File) Object(path string) (*Object, error) {
	root, err := f.Root()
	if err != nil {
		return nil, err
	}
	budget := maxLinksFollowed
	found, err := root.walk(path, &budget)
	return found, root.in(err)
}

func (o *Object) walk(path string, budget *int) (*Object, error) {
	at := o
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." {
			continue
		}
		next, err := at.child(part, budget)
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

func (o *Object) child(name string, budget *int) (*Object, error) {
	if _, err := o.Links(); err != nil {
		return nil, err
	}
	links := o.links.links
	i := sort.Search(len(links), func(i int) bool { return links[i].Name >= name })
	if i == len(links) || links[i].Name != name {
		return nil, o.f.fail(noAddress, fmt.Errorf("%w: no link %q", ErrNotFound, name))
	}
	path := strings.TrimSuffix(o.path, "/") + "/" + name
	switch l := links[i]; l.Kind {
	case HardLink:
		return o.f.object(l.addr, path)
	case SoftLink:
		if *budget--; *budget < 0 {
			return nil, o.f.corrupt(noAddress, "soft link %q: more than %d links followed; they lead in a circle", path, maxLinksFollowed)
		}
		from := o
		if strings.HasPrefix(l.Target, "/") {
			root, err := o.f.Root()
			if err != nil {
				return nil, err
			}
			from = root
		}
		found, err := from.walk(l.Target, budget)
		if err != nil {
			var located *Error
			if *budget < 0 || !errors.As(err, &located) { // a circle names itself
				return nil, err
			}
			return nil, &Error{File: located.File, Addr: located.Addr, Err: fmt.Errorf("soft link %q to %q: %w", path, l.Target, located.Err)}
		}
		// The target may be shared with another path: what the caller asked for keeps the name the caller used.
		return o.f.object(found.addr, path)
	case ExternalLink:
		return nil, o.f.unsupported(noAddress, "external link %q, to %q in the file %q", path, l.Target, l.File)
	default:
		return nil, o.f.unsupported(noAddress, "user-defined link %q of kind %d", path, l.Kind)
	}
}

func (o *Object) readLinks() ([]Link, error) {
	var out []Link
	for i := range o.messages {
		m := &o.messages[i]
		var err error
		switch m.kind {
		case msgLink:
			var c *cursor
			var l Link
			if c, err = o.f.open(m); err == nil {
				if l, err = c.link(); err == nil {
					out = append(out, l)
				}
			}
		case msgSymbolTable:
			out, err = o.f.symbolTable(m, out)
		case msgLinkInfo:
			out, err = o.f.denseLinks(m, out)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// link reads a link message.
func (c *cursor) link() (l Link, err error) {
	c.version("link", 1)
	flags := c.u8()
	if flags&linkHasKind != 0 {
		l.Kind = LinkKind(c.u8())
	}
	if flags&linkHasOrder != 0 {
		c.skip(8)
	}
	if flags&linkHasCharset != 0 {
		c.skip(1)
	}
	n := c.uint(1 << (flags & 3))
	if n > uint64(c.left()) {
		c.fail("link name of %d bytes", n)
	}
	l.Name = string(c.bytes(int(n)))
	switch l.Kind {
	case HardLink:
		l.addr = c.offset()
	case SoftLink:
		l.Target = string(c.bytes(c.u16()))
	case ExternalLink:
		value := &cursor{f: c.f, addr: c.addr + uint64(c.pos), b: c.bytes(c.u16())}
		value.skip(1) // version and flags
		l.File, l.Target = value.text(1), value.text(1)
		if c.err == nil {
			return l, value.err
		}
	}
	return l, c.err
}

func (f *File) denseLinks(m *message, out []Link) ([]Link, error) {
	c := &cursor{f: f, b: m.body, addr: m.addr}
	c.version("link info", 0)
	if c.u8()&infoHasOrder != 0 {
		c.skip(8)
	}
	heapAt, treeAt := c.offset(), c.offset()
	if c.err != nil {
		return nil, c.err
	}
	if heapAt == noAddress || treeAt == noAddress {
		return out, nil
	}
	heap, err := f.fractalHeap(heapAt)
	if err != nil {
		return nil, err
	}
	err = f.tree2(treeAt, func(kind int, rec *cursor) error {
		switch kind {
		case recordLinkName:
			rec.skip(4)
		case recordLinkOrder:
			rec.skip(8)
		default:
			return f.corrupt(treeAt, "B-tree of record type %d where links belong", kind)
		}
		body, err := heap.object(rec)
		if err != nil {
			return err
		}
		l, err := body.link()
		out = append(out, l)
		return err
	})
	return out, err
}

// symbolTable reads a group of the old kind: a B-tree of symbol nodes, names in a local heap.
func (f *File) symbolTable(m *message, out []Link) ([]Link, error) {
	c := &cursor{f: f, b: m.body, addr: m.addr}
	treeAt, heapAt := c.offset(), c.offset()
	if c.err != nil {
		return nil, c.err
	}
	names, err := f.localHeap(heapAt)
	if err != nil {
		return nil, err
	}
	t := symbolTree{f: f, names: names, out: out, nodes: budget{f: f}}
	if err := t.node(treeAt, 0); err != nil {
		return nil, err
	}
	return t.out, nil
}

type localHeap struct {
	f     *File
	addr  uint64
	b     []byte
	given int // bytes of strings given so far: none stands there twice
}

func (f *File) localHeap(addr uint64) (*localHeap, error) {
	c, err := f.block(addr, uint64(8+2*f.lengthSize+f.offsetSize))
	if err != nil {
		return nil, err
	}
	c.signature("HEAP")
	c.skip(4)
	size := c.length()
	c.length()
	data := c.offset()
	if c.err != nil {
		return nil, c.err
	}
	d, err := f.block(data, size)
	if err != nil {
		return nil, err
	}
	return &localHeap{f: f, addr: data, b: d.b}, nil
}

func (h *localHeap) text(at uint64) (string, error) {
	if at < uint64(len(h.b)) {
		if n := bytes.IndexByte(h.b[at:], 0); n >= 0 {
			if h.given += n; h.given > len(h.b) {
				return "", h.f.corrupt(h.addr, "strings overlap in a local heap of %d bytes", len(h.b))
			}
			return string(h.b[at : at+uint64(n)]), nil
		}
	}
	return "", h.f.corrupt(h.addr, "no string at %d of a local heap of %d bytes", at, len(h.b))
}

type symbolTree struct {
	f     *File
	names *localHeap
	out   []Link
	nodes budget
}

func (t *symbolTree) node(addr uint64, depth int) error {
	f := t.f
	if depth > maxTreeDepth {
		return f.corrupt(addr, "the group's B-tree leads back to itself")
	}
	c, err := f.prefix(addr, uint64(8+2*f.offsetSize))
	if err != nil {
		return err
	}
	if c.left() >= 8 && string(c.b[:4]) == "SNOD" {
		return t.leaf(c)
	}
	c.signature("TREE")
	kind := c.u8()
	c.skip(1)
	n := c.u16()
	if c.err != nil {
		return c.err
	}
	if kind != treeGroup {
		return f.corrupt(addr, "B-tree node of type %d in a group", kind)
	}
	head, size := uint64(8+2*f.offsetSize), uint64(n*(f.lengthSize+f.offsetSize))
	if err := t.nodes.spend(addr, head+size, symbolNodes); err != nil {
		return err
	}
	if c, err = f.block(addr+head, size); err != nil {
		return err
	}
	for range n {
		c.skip(f.lengthSize)
		if err := t.node(c.offset(), depth+1); err != nil {
			return err
		}
	}
	return c.err
}

func (t *symbolTree) leaf(head *cursor) error {
	f := t.f
	head.skip(4)
	head.version("symbol node", 1)
	head.skip(1)
	n := head.u16()
	if head.err != nil {
		return head.err
	}
	const leafHead = 8
	size := uint64(n * (2*f.offsetSize + 24))
	if err := t.nodes.spend(head.addr, leafHead+size, symbolNodes); err != nil {
		return err
	}
	c, err := f.block(head.addr+leafHead, size)
	if err != nil {
		return err
	}
	for range n {
		nameAt, addr := c.uint(f.offsetSize), c.offset()
		cache := c.u32()
		c.skip(4)
		scratch := c.bytes(16)
		if c.err != nil {
			return c.err
		}
		l := Link{addr: addr}
		if l.Name, err = t.names.text(nameAt); err != nil {
			return err
		}
		if cache == symbolIsSoft {
			l.Kind = SoftLink
			if l.Target, err = t.names.text(uint64(le.Uint32(scratch))); err != nil {
				return err
			}
		}
		t.out = append(t.out, l)
	}
	return nil
}
