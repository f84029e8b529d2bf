package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"astropile/internal/catalog"
	"astropile/internal/shard"
	"astropile/internal/stream"
)

// Stream is the project's stream of the column, in order or shuffled, without anyone reading the batches.
func Stream(ctx context.Context, o Options, mode stream.Mode) (*Result, error) {
	d, err := openDataset(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer d.close()
	pool := stream.NewPool(o.Slots)
	var sum digest
	r, err := o.passes(func(k int) (rows, bytes int64, err error) {
		st := d.set.Stream(ctx, stream.StreamOptions{Batch: o.Batch, Shuffle: mode, Seed: o.Seed, Epoch: uint64(k), Epochs: 1}, pool)
		defer func() { err = errors.Join(err, st.Close()) }()
		for {
			b, err := st.Next(ctx)
			if err == io.EOF {
				return rows, bytes, nil
			}
			if err != nil {
				return 0, 0, err
			}
			s := &b.Layout.Columns[0]
			if s.Constant || s.Values.Len != int64(s.Rows)*int64(d.rowBytes) {
				return 0, 0, fmt.Errorf("%w: a batch of %d rows has %d bytes of values", ErrCell, s.Rows, s.Values.Len)
			}
			if o.Check {
				sum.add(b.Slot.Bytes()[s.Values.Off:s.Values.Off+s.Values.Len], d.rowBytes)
			}
			rows += int64(s.Rows)
			bytes += s.Values.Len
			pool.Release(b.Slot)
		}
	})
	if err == nil && o.Check {
		sum.into(r)
	}
	return r, err
}

// Singles reads random rows one by one through the shard reader, as many goroutines as there are threads.
func Singles(ctx context.Context, o Options) (*Result, error) {
	d, err := openDataset(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer d.close()
	dec, err := shard.NewDecoder(o.Threads)
	if err != nil {
		return nil, err
	}
	columns := make([]*shard.ColumnReader, len(d.files))
	for i, s := range d.set.Shards() {
		h, err := d.src.Open(ctx, s.Path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = h.Close() }()
		r, err := shard.Open(ctx, h, h.Size(), shard.OpenOptions{Own: true, Columns: d.set.Columns(), Decoder: dec})
		if err != nil {
			return nil, err
		}
		if columns[i], err = r.Column(o.Column); err != nil {
			return nil, err
		}
		// The page table is read once, as opening a dataset does.
		if _, err := columns[i].Locate(ctx); err != nil && !errors.Is(err, shard.ErrNotMapped) {
			return nil, err
		}
	}
	before, rows := d.starts(), d.singles(&o)
	bufs := make([][]byte, o.Threads)
	for t := range bufs {
		bufs[t] = aligned(d.rowBytes)
	}
	var mu sync.Mutex
	var all digest
	r, err := o.passes(func(k int) (int64, int64, error) {
		var next atomic.Int64
		list := rows[k]
		err := parallel(ctx, o.Threads, func(ctx context.Context, t int) error {
			var sum digest
			one := make([]int64, 1)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(list) {
					break
				}
				var s int
				s, one[0] = locate(before, list[i])
				if err := columns[s].ReadRows(ctx, one, bufs[t]); err != nil {
					return err
				}
				if o.Check {
					sum.add(bufs[t], d.rowBytes)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.merge(sum)
			return nil
		})
		return int64(len(list)), int64(len(list)) * int64(d.rowBytes), err
	})
	if err == nil && o.Check {
		all.into(r)
	}
	return r, err
}

// Payload weighs the values of all columns against the bytes of the shards. Of text and ragged columns only what the
// format fixes is counted, which is nothing: the share is a lower bound.
func Payload(ctx context.Context, o Options) (*Result, error) {
	o.Column, o.Passes = "", 1
	d, err := openDataset(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer d.close()
	row := int64(0)
	for _, c := range d.set.Columns() {
		if c.Kind == catalog.Scalar || c.Kind == catalog.Tensor {
			row += int64(c.RowBytes())
		}
	}
	r := &Result{Rows: d.set.Rows()}
	for _, s := range d.set.Shards() {
		r.Payload += s.Rows * row
		r.Stored += s.Bytes
	}
	r.Bytes = r.Payload
	r.Peak, err = peak()
	return r, err
}
