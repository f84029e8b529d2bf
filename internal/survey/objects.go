package survey

import (
	"context"
	"fmt"

	"astropile/internal/catalog"
	"astropile/internal/survey/hdf5"
)

// objects reads files of one object, and files of a group for every object, in the order of the groups' names.
type objects struct {
	base
	root  *hdf5.Object
	names []string // of the groups; one empty name for a file of one object
	slab  int64
}

// objectSlab is the most groups that Slab asks for.
const objectSlab = 1024

// pieceBytes is how much of an object's dataset is decoded at a time.
const pieceBytes = 8 << 20

func (b *base) openObjects(root *hdf5.Object) (Reader, error) {
	o := &objects{base: *b, root: root, names: []string{""}}
	if b.recipe.Family == Grouped {
		sets, groups, err := children(root, b.recipe)
		if err != nil {
			return nil, err
		}
		if len(sets) > 0 {
			return nil, fmt.Errorf("%w: %s: dataset %q stands beside the groups of the objects; leave it out (drop: [%s])", ErrMapping, b.in.Path, sets[0].name, sets[0].name)
		}
		o.names = groups
	}
	if len(o.names) > 0 {
		desc, err := o.describe(0)
		if err != nil {
			return nil, err
		}
		all, err := bind(desc, b.recipe, b.maps, b.cols)
		if err != nil {
			return nil, err
		}
		// The first object stands for all: sizes are known one by one only.
		one := int64(1)
		for _, x := range b.narrow(all) {
			for _, f := range append([]*field{x.f}, x.members...) {
				if f != nil {
					one += f.bytes
				}
			}
		}
		o.slab = min(objectSlab, max(1, b.opt.slab/one))
	}
	return o, nil
}

func (o *objects) Rows() int64 { return int64(len(o.names)) }
func (o *objects) Slab() int64 { return max(1, o.slab) }

func (o *objects) describe(i int64) (*object, error) {
	at, where := o.root, o.in.Path
	if name := o.names[i]; name != "" {
		var err error
		if at, err = o.root.Child(name); err != nil {
			return nil, err
		}
		where = fmt.Sprintf("%s, object %q", where, name)
	}
	return describe(at, where, o.recipe)
}

func (o *objects) Read(ctx context.Context, lo, hi int64) (*catalog.Batch, error) {
	if err := o.rangeError(lo, hi, o.Rows()); err != nil {
		return nil, err
	}
	o.begin()
	var binds []binding
	for i := range o.maps {
		binds = append(binds, binding{m: o.maps[i], col: o.cols[i]})
	}
	binds = o.narrow(binds)
	vectors := make([]*catalog.Vector, len(binds))
	for i := range binds {
		vectors[i] = catalog.NewVector(&binds[i].col)
	}
	for row := lo; row < hi; row++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		desc, err := o.describe(row)
		if err != nil {
			return nil, err
		}
		all, err := bind(desc, o.recipe, o.maps, o.cols)
		if err != nil {
			return nil, err
		}
		binds = o.narrow(all)
		if err := o.row(ctx, desc, binds, vectors, row); err != nil {
			return nil, err
		}
	}
	return o.finish(binds, vectors, lo, int(hi-lo))
}

// row appends one object to the vectors.
func (o *objects) row(ctx context.Context, desc *object, binds []binding, vectors []*catalog.Vector, row int64) error {
	wanted := map[string][]*field{}
	data := map[fieldKey][]byte{}
	want := func(f *field) {
		if _, ok := data[f.key]; ok {
			return
		}
		data[f.key] = nil
		if f.attr != nil {
			data[f.key] = f.attr.Data
		} else {
			wanted[f.key.path] = append(wanted[f.key.path], f)
		}
	}
	for i := range binds {
		if binds[i].f != nil {
			want(binds[i].f)
		}
		for _, f := range binds[i].members {
			want(f)
		}
	}
	for path, fields := range wanted {
		if err := o.fetch(ctx, desc.sets[path], fields, data); err != nil {
			return err
		}
	}
	for i := range binds {
		x, v := &binds[i], vectors[i]
		switch {
		case x.m.From == FromGroup:
			appendText(v, o.names[row])
		case x.m.From == FromSplit && o.in.Split != "":
			appendText(v, o.in.Split)
		case x.f == nil && x.m.Kind != catalog.Struct:
			appendNull(v, x.m)
		default:
			cells := make([]*cell, max(1, len(x.members)))
			for k := range cells {
				f := x.f
				if x.members != nil {
					f = x.members[k]
				}
				cells[k] = &cell{vlen: o.vlen, f: f, data: data[f.key]}
			}
			if err := o.append(v, x, cells, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch reads the fields of one dataset, a piece at a time, so that parts nobody asked for cost no memory.
func (o *objects) fetch(ctx context.Context, d *hdf5.Dataset, fields []*field, data map[fieldKey][]byte) error {
	rows, rowBytes := d.Rows(), d.RowBytes()
	if rows == 0 || rowBytes == 0 {
		return nil
	}
	if rowBytes > maxRowBytes {
		return fmt.Errorf("%w: %s: a row of %q takes %d bytes, at most %d", ErrMapping, o.in.Path, fields[0].key.path, rowBytes, maxRowBytes)
	}
	// A field of more would not fit a column: its shape was judged, and a list is bounded here.
	for _, f := range fields {
		if f.bytes >= maxRowBytes {
			return fmt.Errorf("%w: %s: %q takes %d bytes or more, at most %d", ErrMapping, o.in.Path, f.key, f.bytes, maxRowBytes)
		}
	}
	tall := max(1, d.SlabRows())
	step := max(1, pieceBytes/rowBytes)
	if step >= tall {
		step -= step % tall
	} else if tall <= maxRowBytes/rowBytes {
		step = tall
	}
	step = min(step, rows)
	buf := make([]byte, step*rowBytes)
	for lo := uint64(0); lo < rows; lo += step {
		hi := min(rows, lo+step)
		piece := buf[:(hi-lo)*rowBytes]
		if err := d.ReadRows(ctx, lo, hi, piece, o.opt.workers); err != nil {
			return err
		}
		for _, f := range fields {
			if data[f.key] == nil {
				data[f.key] = make([]byte, 0, int(rows*rowBytes/uint64(d.Type.Size))*f.width)
			}
			data[f.key] = pick(data[f.key], piece, d.Type.Size, f)
		}
	}
	return nil
}
