package shard

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"astropile/internal/catalog"
)

// Columns that are not regular are put together here from levels and values that the general decoder gives.

// leafData is a decoded column chunk: a level of each kind for every entry, and the values that are not null.
type leafData struct {
	defs, reps []int16
	data       []byte // packed little-endian elements, or text
	ends       []int64
	size       int
}

func (d *leafData) appendText(b []byte) {
	d.data = append(d.data, b...)
	d.ends = append(d.ends, int64(len(d.data)))
}

const foreignStep = 32 << 10

// batchReader is the part of the decoder's typed readers that is used.
type batchReader[T any] interface {
	ReadBatch(n int64, values []T, defs, reps []int16) (int64, int, error)
}

func drain[T any](ctx context.Context, r batchReader[T], entries int64, d *leafData, put func(v []T) error) error {
	vals := make([]T, foreignStep)
	defs, reps := make([]int16, foreignStep), make([]int16, foreignStep)
	for left := entries; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		// Columns without levels leave the buffers alone; they must not show what another batch left there.
		clear(defs)
		clear(reps)
		n, got, err := r.ReadBatch(min(left, foreignStep), vals, defs, reps)
		if err != nil {
			return fmt.Errorf("%w: %v", ErrFormat, err)
		}
		if n <= 0 || n > left || got < 0 || int64(got) > n {
			return fmt.Errorf("%w: pages hold %d values, the chunk %d", ErrFormat, entries-left, entries)
		}
		d.defs, d.reps = append(d.defs, defs[:n]...), append(d.reps, reps[:n]...)
		if err := put(vals[:got]); err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// readLeaf decodes a column chunk.
func readLeaf(ctx context.Context, pf *file.Reader, g, leaf int, entries int64, dt catalog.DType) (*leafData, error) {
	cr, err := pf.RowGroup(g).Column(leaf)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrFormat, err)
	}
	d := &leafData{size: dt.Component().Size()}
	switch r := cr.(type) {
	case *file.BooleanColumnChunkReader:
		err = drain(ctx, r, entries, d, func(v []bool) error {
			for _, x := range v {
				b := byte(0)
				if x {
					b = 1
				}
				d.data = append(d.data, b)
			}
			return nil
		})
	case *file.Int32ColumnChunkReader:
		err = drain(ctx, r, entries, d, func(v []int32) error {
			for _, x := range v {
				switch d.size {
				case 1:
					d.data = append(d.data, byte(x))
				case 2:
					d.data = binary.LittleEndian.AppendUint16(d.data, uint16(x))
				default:
					d.data = binary.LittleEndian.AppendUint32(d.data, uint32(x))
				}
			}
			return nil
		})
	case *file.Int64ColumnChunkReader:
		err = drain(ctx, r, entries, d, func(v []int64) error {
			for _, x := range v {
				d.data = binary.LittleEndian.AppendUint64(d.data, uint64(x))
			}
			return nil
		})
	case *file.Float32ColumnChunkReader:
		err = drain(ctx, r, entries, d, func(v []float32) error {
			for _, x := range v {
				d.data = binary.LittleEndian.AppendUint32(d.data, math.Float32bits(x))
			}
			return nil
		})
	case *file.Float64ColumnChunkReader:
		err = drain(ctx, r, entries, d, func(v []float64) error {
			for _, x := range v {
				d.data = binary.LittleEndian.AppendUint64(d.data, math.Float64bits(x))
			}
			return nil
		})
	case *file.ByteArrayColumnChunkReader:
		err = drain(ctx, r, entries, d, func(v []parquet.ByteArray) error {
			for _, x := range v {
				d.appendText(x)
			}
			return nil
		})
	case *file.FixedLenByteArrayColumnChunkReader:
		err = drain(ctx, r, entries, d, func(v []parquet.FixedLenByteArray) error {
			for _, x := range v {
				if len(x) != d.size {
					return fmt.Errorf("%w: an element of %d bytes, want %d", ErrFormat, len(x), d.size)
				}
				d.data = append(d.data, x...)
			}
			return nil
		})
	default:
		return nil, fmt.Errorf("%w: no element type for the chunk's physical type", ErrFormat)
	}
	if err != nil {
		return nil, err
	}
	present := len(d.ends)
	if dt != catalog.String {
		present = len(d.data) / d.size
	}
	want := 0
	maxDef := cr.Descriptor().MaxDefinitionLevel()
	for _, v := range d.defs {
		if v == maxDef {
			want++
		}
	}
	if present != want {
		return nil, fmt.Errorf("%w: %d values for %d levels that announce one", ErrFormat, present, want)
	}
	return d, nil
}

// assemble fills v with the column's rows of one row group.
func (c *ColumnReader) assemble(ctx context.Context, pf *file.Reader, g int, v *catalog.Vector) error {
	read := func(n *schemaNode, dt catalog.DType) (*leafData, *schemaNode, error) {
		l := n.onlyLeaf()
		if l == nil {
			return nil, nil, fmt.Errorf("%w: a group where one leaf belongs", ErrFormat)
		}
		d, err := readLeaf(ctx, pf, g, l.leaf, c.r.meta.RowGroups[g].Columns[l.leaf].Meta.NumValues, dt)
		return d, l, err
	}
	if c.col.Kind == catalog.Struct {
		for i := range c.col.Members {
			d, l, err := read(&c.f.node.children[i], c.col.Members[i].DType)
			if err != nil {
				return err
			}
			m := v.Members[i]
			if err := d.lists(m, &c.col.Members[i], &c.f.node.children[i], l); err != nil {
				return fmt.Errorf("member %q: %w", c.col.Members[i].Name, err)
			}
			m.Valid = nil // a group is null or all its members are there
			if i == 0 {
				v.Rows = m.Rows
				d.validity(v, c.f.node.def)
			}
		}
		return nil
	}
	d, l, err := read(c.f.node, c.col.DType)
	if err != nil {
		return err
	}
	switch c.col.Kind {
	case catalog.List:
		return d.lists(v, &c.col, c.f.node, l)
	case catalog.Tensor:
		return d.tensors(v, &c.levels)
	}
	return d.scalars(v, &c.col, l)
}

// validity marks rows whose definition level is below def as null.
func (d *leafData) validity(v *catalog.Vector, def int) {
	row, nulls := 0, false
	valid := make([]bool, v.Rows)
	for i, r := range d.reps {
		if r == 0 && row < v.Rows {
			valid[row] = int(d.defs[i]) >= def
			nulls = nulls || !valid[row]
			row++
		}
	}
	if nulls {
		v.Valid = valid
	}
}

func (d *leafData) scalars(v *catalog.Vector, col *catalog.Column, l *schemaNode) error {
	v.Rows = len(d.defs)
	nulls := false
	for _, def := range d.defs {
		nulls = nulls || int(def) < l.def
	}
	if !nulls {
		v.Data = d.data
		v.Offsets = append(v.Offsets, d.ends...)
		return nil
	}
	v.Valid = make([]bool, v.Rows)
	if col.DType == catalog.String {
		v.Data = d.data
	} else {
		v.Data = make([]byte, v.Rows*d.size)
	}
	k := 0
	for i, def := range d.defs {
		v.Valid[i] = int(def) == l.def
		switch {
		case col.DType == catalog.String:
			end := v.Offsets[i]
			if v.Valid[i] {
				end = d.ends[k]
			}
			v.Offsets = append(v.Offsets, end)
		case v.Valid[i]:
			copy(v.Data[i*d.size:(i+1)*d.size], d.data[k*d.size:])
		}
		if v.Valid[i] {
			k++
		}
	}
	return nil
}

// lists cuts the elements at repetition level 0. n is the list's own node.
func (d *leafData) lists(v *catalog.Vector, col *catalog.Column, n, l *schemaNode) error {
	exists := 0 // definition level from which on an element stands there
	for k := n; ; k = &k.children[0] {
		if k.Repetition == Repeated {
			exists = k.def
			break
		}
		if k.Leaf {
			return fmt.Errorf("%w: no list where one belongs", ErrFormat)
		}
	}
	elems := int64(0)
	for i, def := range d.defs {
		if d.reps[i] == 0 {
			if i > 0 {
				v.Offsets = append(v.Offsets, elems)
			}
			v.Rows++
		} else if i == 0 || int(def) < exists {
			return fmt.Errorf("%w: entry %d continues a list that is not there", ErrFormat, i)
		}
		if int(def) >= exists {
			if int(def) < l.def {
				return fmt.Errorf("%w: row %d of the row group holds a null element; only whole rows can be null", ErrFormat, v.Rows-1)
			}
			elems++
		}
	}
	if v.Rows > 0 {
		v.Offsets = append(v.Offsets, elems)
	}
	v.Data = d.data
	if col.DType == catalog.String {
		v.StrOffsets = append(v.StrOffsets, d.ends...)
	}
	d.validity(v, exists-1)
	return nil
}

// tensors demands that every row nests exactly the shape.
func (d *leafData) tensors(v *catalog.Vector, s *shapeLevels) error {
	for i, def := range d.defs {
		if int(def) != s.maxDef || int(d.reps[i]) != s.repAt(i%s.elems) {
			return fmt.Errorf("%w: rows do not all have the shape without nulls (row %d of the row group)", ErrFormat, i/s.elems)
		}
	}
	if len(d.defs)%s.elems != 0 {
		return fmt.Errorf("%w: the last row of the row group is short", ErrFormat)
	}
	v.Rows, v.Data = len(d.defs)/s.elems, d.data
	return nil
}
