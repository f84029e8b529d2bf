package release

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"astropile/internal/catalog"
	"astropile/internal/shard"
)

// fetchRows bounds the rows of a batch that is gathered from shards.
const fetchRows = 8192

// fetcher gathers scattered rows of shards. It is used by one goroutine.
type fetcher struct {
	cols    []catalog.Column
	sources []source
	open    map[int32]*openShard
}

type openShard struct {
	file    *os.File
	r       *shard.Reader
	columns []*shard.ColumnReader
}

const maxFetched = 64 // shards that are open at once

func newFetcher(cols []catalog.Column, sources []source) *fetcher {
	return &fetcher{cols: cols, sources: sources, open: map[int32]*openShard{}}
}

func (f *fetcher) close() error {
	var err error
	for k, o := range f.open {
		err = errors.Join(err, o.file.Close())
		delete(f.open, k)
	}
	return err
}

func (f *fetcher) shard(ctx context.Context, k int32) (*openShard, error) {
	if o := f.open[k]; o != nil {
		return o, nil
	}
	if len(f.open) == maxFetched {
		if err := f.close(); err != nil {
			return nil, err
		}
	}
	file, r, err := openSource(ctx, &f.sources[k], f.cols)
	if err != nil {
		return nil, err
	}
	o := &openShard{file: file, r: r, columns: make([]*shard.ColumnReader, len(f.cols))}
	f.open[k] = o
	return o, nil
}

// column reads rows, ascending, of one column of a shard.
func (f *fetcher) column(ctx context.Context, k int32, col int, rows []int64, dst *catalog.Vector) error {
	c := &f.cols[col]
	damaged := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %s: column %q: %w", ErrDamaged, f.sources[k].Path, c.Name, err)
	}
	o, err := f.shard(ctx, k)
	if err != nil {
		return err
	}
	r := o.columns[col]
	if r == nil {
		if r, err = o.r.Column(c.Name); err != nil {
			return damaged(err)
		}
		o.columns[col] = r
	}
	if c.Kind == catalog.Tensor {
		n := len(dst.Data)
		dst.Data = append(dst.Data, make([]byte, len(rows)*c.RowBytes())...)
		dst.Rows += len(rows)
		if err := r.ReadRows(ctx, rows, dst.Data[n:]); err != nil {
			return damaged(err)
		}
		return nil
	}
	// Pages of small columns hold many rows: what lies between two rows of a row group is read with them.
	for lo, hi := 0, 0; lo < len(rows); lo = hi {
		g := o.r.Groups()[o.r.GroupOf(rows[lo])]
		for hi = lo + 1; hi < len(rows) && rows[hi] < g.First+g.Rows; hi++ {
		}
		v, err := r.ReadVector(ctx, rows[lo], rows[hi-1]+1)
		if err != nil {
			return damaged(err)
		}
		for _, row := range rows[lo:hi] {
			dst.AppendRow(c, v, int(row-rows[lo]))
		}
	}
	return nil
}

// batch gathers rows in the order given; only leaves columns out, and may be nil.
func (f *fetcher) batch(ctx context.Context, rows []marginRow, only func(*catalog.Column) bool) (*catalog.Batch, error) {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rows[a].shard, rows[b].shard), cmp.Compare(rows[a].row, rows[b].row))
	})
	at := make([]int, len(rows)) // of each row among those read
	numbers := make([]int64, len(rows))
	for i, k := range order {
		at[k], numbers[i] = i, int64(rows[k].row)
	}
	b := &catalog.Batch{Rows: len(rows)}
	for col := range f.cols {
		c := &f.cols[col]
		if only != nil && !only(c) {
			continue
		}
		read := catalog.NewVector(c)
		for lo, hi := 0, 0; lo < len(order); lo = hi {
			k := rows[order[lo]].shard
			for hi = lo + 1; hi < len(order) && rows[order[hi]].shard == k; hi++ {
			}
			if err := f.column(ctx, k, col, numbers[lo:hi], read); err != nil {
				return nil, err
			}
		}
		v := read
		if !slices.IsSorted(at) {
			v = catalog.NewVector(c)
			for _, i := range at {
				v.AppendRow(c, read, i)
			}
		}
		b.Columns, b.Vectors = append(b.Columns, *c), append(b.Vectors, v)
	}
	return b, nil
}

// run is how many of the rows to gather at once.
func (f *fetcher) run(rows []marginRow) int {
	var fixed, n int64
	for i := range f.cols {
		fixed += int64(f.cols[i].RowBytes())
	}
	for i := range rows {
		s := &f.sources[rows[i].shard]
		if n += max(fixed, s.Bytes/s.Rows); i == fetchRows || i > 0 && n > shard.GroupPayload {
			return i
		}
	}
	return len(rows)
}

// each gathers rows a run at a time.
func (f *fetcher) each(ctx context.Context, rows []marginRow, only func(*catalog.Column) bool, each func(lo int, b *catalog.Batch) (more bool, err error)) error {
	for lo := 0; lo < len(rows); {
		n := f.run(rows[lo:])
		b, err := f.batch(ctx, rows[lo:lo+n], only)
		if err != nil {
			return err
		}
		if more, err := each(lo, b); err != nil || !more {
			return err
		}
		lo += n
	}
	return nil
}

// constants lists the tensor columns whose rows are all bit-equal.
func (f *fetcher) constants(ctx context.Context, rows []marginRow, held *catalog.Batch) ([]string, error) {
	if len(rows) < 2 {
		return nil, nil
	}
	first := map[string][]byte{}
	for i := range f.cols {
		if f.cols[i].Kind == catalog.Tensor {
			first[f.cols[i].Name] = nil
		}
	}
	look := func(_ int, b *catalog.Batch) (bool, error) {
		for k := range b.Columns {
			c := &b.Columns[k]
			value, still := first[c.Name]
			if !still {
				continue
			}
			n, data := c.RowBytes(), b.Vectors[k].Data
			if value == nil {
				value = bytes.Clone(data[:n])
				first[c.Name] = value
			}
			for i := range b.Rows {
				if !bytes.Equal(data[i*n:(i+1)*n], value) {
					delete(first, c.Name)
					break
				}
			}
		}
		return len(first) > 0, nil
	}
	var err error
	if held != nil {
		_, err = look(0, held)
	} else if len(first) > 0 {
		// Most columns are out after two rows.
		var two *catalog.Batch
		if two, err = f.batch(ctx, rows[:2], func(c *catalog.Column) bool { return c.Kind == catalog.Tensor }); err == nil {
			if more, _ := look(0, two); more {
				err = f.each(ctx, rows, func(c *catalog.Column) bool { _, still := first[c.Name]; return still }, look)
			}
		}
	}
	var out []string
	for i := range f.cols {
		if _, ok := first[f.cols[i].Name]; ok {
			out = append(out, f.cols[i].Name)
		}
	}
	return out, err
}

// writeMargin writes the margin of one pixel: one shard, or several where its rows weigh more than one may.
func (x *extension) writeMargin(ctx context.Context, px pixel, rows []marginRow) (shards []stagedShard, pieces [][]byte, err error) {
	f := newFetcher(x.ds.Columns, x.sources)
	defer func() { err = errors.Join(err, f.close()) }()
	var held *catalog.Batch // where all rows fit
	payload := make([]int64, 0, len(rows))
	var total int64
	weigh := func(_ int, b *catalog.Batch) (bool, error) {
		for i := range b.Rows {
			n := b.Payload(i)
			total += n
			payload = append(payload, n)
		}
		return true, nil
	}
	if f.run(rows) == len(rows) {
		if held, err = f.batch(ctx, rows, nil); err != nil {
			return nil, nil, err
		}
		_, _ = weigh(0, held)
	} else {
		var fixed int64
		ragged := false
		for i := range f.cols {
			fixed += int64(f.cols[i].RowBytes())
			ragged = ragged || !f.cols[i].Fixed()
		}
		total = fixed * int64(len(rows))
		if ragged {
			if err := f.each(ctx, rows, func(c *catalog.Column) bool { return !c.Fixed() }, weigh); err != nil {
				return nil, nil, err
			}
		}
	}
	n := shardsFor(total, x.ds.ShardSize, len(rows))
	for k := range n {
		lo, hi := k*len(rows)/n, (k+1)*len(rows)/n
		part := held
		if n > 1 {
			part = nil
		}
		constant, err := f.constants(ctx, rows[lo:hi], part)
		if err != nil {
			return nil, nil, err
		}
		info, tmp, err := x.write(ctx, shard.Spec{Columns: x.ds.Columns, Constant: constant}, func(w *shard.Writer) error {
			if part != nil {
				return w.Write(ctx, part)
			}
			return f.each(ctx, rows[lo:hi], nil, func(_ int, b *catalog.Batch) (bool, error) { return true, w.Write(ctx, b) })
		})
		if err != nil {
			return nil, nil, fmt.Errorf("release: write a margin of %s: %w", x.ds.Name, err)
		}
		s := staged1(catalog.Margin, info)
		s.Order, s.Pix, s.HpxMin, s.HpxMax = px.order, px.pix, rows[lo].hpx, rows[hi-1].hpx
		s.Path = marginPath(x.ds.Name, px, info.SHA256)
		if err := x.keep(tmp, s.Path); err != nil {
			return nil, nil, err
		}
		shards, pieces = append(shards, s), append(pieces, info.Pieces)
	}
	return shards, pieces, nil
}
