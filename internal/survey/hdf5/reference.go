package hdf5

import (
	"context"
	"fmt"
)

// Kinds of reference, with the numbers of the file format.
const (
	refObject = 0
	refRegion = 1
	refNewest = 4 // 2 to 4: objects, regions and attributes, in the encoding of newer files
)

// maxNamed is how many objects are looked at to name what a reference leads to.
const maxNamed = 4096

// unreadableReference says why elements that are references are not read: a column of addresses inside the file means
// nothing outside it.
func unreadableReference(kind uint64) error {
	switch {
	case kind == refObject:
		return unsupportedf("references to objects of this file")
	case kind == refRegion:
		return unsupportedf("references to regions of datasets of this file")
	case kind <= refNewest:
		return unsupportedf("references of the newer encoding (to objects, regions or attributes, of any file)")
	}
	return unsupportedf("references of kind %d", kind)
}

// RefersTo gives the path of what the first element of a dataset of references leads to; "" if it leads nowhere or is no
// such dataset, if no hard link leads there, or if there is none among the first objects of the file.
func (d *Dataset) RefersTo() (string, error) {
	t := d.Type
	if t.Class != ClassReference || d.class == layoutVirtual || d.o.find(msgExternal) != nil || d.Rows() == 0 || d.RowBytes() == 0 || d.RowBytes() > MaxMetadata {
		return "", nil
	}
	row := make([]byte, d.RowBytes())
	if err := d.readStored(context.Background(), 0, 1, row, 1); err != nil {
		return "", d.o.in(err)
	}
	f := d.o.f
	c := &cursor{f: f, b: row[:t.Size], addr: noAddress}
	addr := c.offset()
	if t.refKind == refRegion && addr != 0 && c.err == nil {
		b, err := f.heapObject(addr, uint32(c.u32()))
		if err != nil {
			return "", d.o.in(err)
		}
		c = &cursor{f: f, b: b, addr: addr}
		addr = c.offset()
	}
	if c.err != nil || t.refKind > refRegion || addr == 0 || addr == noAddress {
		return "", d.o.in(c.err)
	}
	path, err := f.pathOf(addr)
	return path, d.o.in(err)
}

// pathOf finds a path of hard links to the object whose header is at addr, "" if there is none close to the root.
func (f *File) pathOf(addr uint64) (string, error) {
	root, err := f.Root()
	if err != nil {
		return "", err
	}
	if addr == root.addr {
		return "/", nil
	}
	queue, seen := []*Object{root}, map[uint64]bool{root.addr: true}
	for i := 0; i < len(queue); i++ {
		links, err := queue[i].Links()
		if err != nil {
			return "", err
		}
		for _, l := range links {
			if l.Kind != HardLink || seen[l.addr] {
				continue
			}
			if seen[l.addr] = true; len(seen) > maxNamed {
				return "", nil
			}
			child, err := queue[i].Child(l.Name)
			switch {
			case err != nil:
				return "", err
			case l.addr == addr:
				return child.path, nil
			case child.IsGroup():
				queue = append(queue, child)
			}
		}
	}
	return "", nil
}

// refusedReferences is why a dataset of references is not read: it names where the first leads, if that can be told.
func (d *Dataset) refusedReferences(err error) error {
	if path, bad := d.RefersTo(); bad == nil && path != "" {
		return fmt.Errorf("%w; the first leads to %s", err, path)
	}
	return err
}
