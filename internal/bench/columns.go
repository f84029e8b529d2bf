package bench

import (
	"context"
	"fmt"

	"astropile/internal/catalog"
)

// Columns measures a reader of whole rows in runs of step, in order, by one goroutine. read gives rows [lo, hi).
//
// Bytes are those of values: text without padding, lists without offsets. The digest is the sum over columns, members of
// structs for themselves, of what it is for one.
func Columns(ctx context.Context, o Options, rows, step int64, read func(ctx context.Context, lo, hi int64) (*catalog.Batch, error)) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if rows < 1 || step < 1 {
		return nil, fmt.Errorf("%w: %d rows in runs of %d", ErrCell, rows, step)
	}
	var d digest
	r, err := o.passes(func(int) (int64, int64, error) {
		bytes := int64(0)
		for lo := int64(0); lo < rows; lo += step {
			hi := min(lo+step, rows)
			b, err := read(ctx, lo, hi)
			if err != nil {
				return 0, 0, err
			}
			for i, v := range b.Vectors {
				if int64(v.Rows) != hi-lo {
					return 0, 0, fmt.Errorf("%w: %d rows of column %q, rows %d to %d were asked for", ErrCell, v.Rows, b.Columns[i].Name, lo, hi)
				}
				bytes += vectorBytes(v)
				if o.Check {
					d.vector(&b.Columns[i], v)
				}
			}
		}
		return rows, bytes, nil
	})
	if err == nil && o.Check {
		d.into(r)
	}
	return r, err
}

func vectorBytes(v *catalog.Vector) int64 {
	n := int64(len(v.Data))
	for _, m := range v.Members {
		n += vectorBytes(m)
	}
	return n
}

func (d *digest) vector(c *catalog.Column, v *catalog.Vector) {
	switch {
	case c.Kind == catalog.Struct:
		for k, m := range v.Members {
			d.vector(&c.Members[k], m)
		}
	case c.Fixed():
		d.add(v.Data, c.RowBytes())
	default:
		size := int64(1)
		at := func(i int) int64 { return v.Offsets[i] * size }
		if c.Kind == catalog.List && c.DType == catalog.String {
			at = func(i int) int64 { return v.StrOffsets[v.Offsets[i]] }
		} else if c.Kind == catalog.List {
			size = int64(c.DType.Size())
		}
		for i := range v.Rows {
			if row := v.Data[at(i):at(i+1)]; len(row) > 0 {
				d.add(row, len(row))
			}
		}
	}
}
