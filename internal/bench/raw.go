package bench

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"astropile/internal/catalog"
	"astropile/internal/order"
	"astropile/internal/source"
	"astropile/internal/stream"
)

// blockBytes is what one raw read of the control takes.
const blockBytes = 8 << 20

// dataset is the column under test: the set, its shards as open files, and the bytes of a row.
type dataset struct {
	src      *source.File
	set      *stream.Set
	files    []*os.File
	rowBytes int
}

func openDataset(ctx context.Context, o *Options) (*dataset, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	src, err := source.NewFile(o.Root)
	if err != nil {
		return nil, err
	}
	d := &dataset{src: src}
	opt := stream.SetOptions{Threads: o.Threads}
	if o.Column != "" {
		opt.Columns = []stream.Select{{Name: o.Column}}
	}
	if d.set, err = stream.OpenSet(ctx, src, opt); err != nil {
		d.close()
		return nil, err
	}
	if o.Column != "" {
		c := d.set.Columns()[0]
		if c.Kind != catalog.Tensor {
			d.close()
			return nil, fmt.Errorf("%w: column %q is a %s; tensors are measured", ErrCell, c.Name, c.Kind)
		}
		d.rowBytes = c.RowBytes()
	}
	for _, s := range d.set.Shards() {
		f, err := os.Open(filepath.Join(o.Root, filepath.FromSlash(s.Path)))
		if err != nil {
			d.close()
			return nil, err
		}
		d.files = append(d.files, f)
	}
	return d, nil
}

// close ends what only reads; there is nothing to lose, so its errors say nothing.
func (d *dataset) close() {
	if d.set != nil {
		_ = d.set.Close()
	}
	for _, f := range d.files {
		_ = f.Close()
	}
	_ = d.src.Close()
}

// place is where some bytes stand: which file, and from where on.
type place struct {
	file int
	off  int64
}

// preadFull fills b by the plain system call.
func preadFull(f *os.File, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pread(int(f.Fd()), b, off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("pread of %d bytes at byte %d: %w", len(b), off, err)
		}
		if n == 0 {
			return fmt.Errorf("pread at byte %d: %w", off, io.ErrUnexpectedEOF)
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// Blocks is the control: the shards, whole, in blocks of 8 MiB.
func Blocks(ctx context.Context, o Options) (*Result, error) {
	d, err := openDataset(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer d.close()
	type block struct {
		place
		n int
	}
	var blocks []block
	total, rows := int64(0), d.set.Rows()
	for i, s := range d.set.Shards() {
		for off := int64(0); off < s.Bytes; off += blockBytes {
			blocks = append(blocks, block{place{i, off}, int(min(blockBytes, s.Bytes-off))})
		}
		total += s.Bytes
	}
	bufs := make([][]byte, o.Threads)
	for t := range bufs {
		bufs[t] = aligned(blockBytes)
	}
	return o.passes(func(int) (int64, int64, error) {
		var next atomic.Int64
		err := parallel(ctx, o.Threads, func(ctx context.Context, t int) error {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(blocks) {
					return nil
				}
				b := blocks[i]
				if err := preadFull(d.files[b.file], bufs[t][:b.n], b.off); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
		return rows, total, err
	})
}

// places finds where every row of the column stands, by dense row number.
func (d *dataset) places(ctx context.Context, column string) ([][]int64, error) {
	out := make([][]int64, len(d.files))
	for i, s := range d.set.Shards() {
		t, err := d.set.Map(ctx, column, i)
		if err != nil {
			return nil, err
		}
		if t.Constant {
			return nil, fmt.Errorf("%w: column %q is constant in shard %s", ErrCell, column, s.Path)
		}
		out[i] = make([]int64, t.Rows)
		for p := range t.Offsets {
			for r := t.First[p]; r < t.First[p+1]; r++ {
				out[i][r] = t.Offsets[p] + (r-t.First[p])*int64(d.rowBytes)
			}
		}
	}
	return out, nil
}

// Rows is the control of a shuffled stream: the values of the same rows in the same order, one read a row.
func Rows(ctx context.Context, o Options) (*Result, error) {
	d, err := openDataset(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer d.close()
	at, err := d.places(ctx, o.Column)
	if err != nil {
		return nil, err
	}
	layout, err := order.NewLayout(d.set.Counts(), d.set.Params(stream.Blocks, o.Seed))
	if err != nil {
		return nil, err
	}
	// The orders of all passes are computed beforehand: only reading is timed.
	orders := make([][]place, o.Passes)
	for k := range orders {
		for _, r := range layout.Epoch(uint64(k)).Batch(nil, 0, int(layout.Rows())) {
			orders[k] = append(orders[k], place{r.Shard, at[r.Shard][r.Index]})
		}
	}
	return d.rawRows(ctx, &o, max(1, blockBytes/d.rowBytes), func(k int) []place { return orders[k] })
}

// rawRows reads rows with one call each; a thread takes so many neighbours of the order at a time, into a buffer that
// holds them.
func (d *dataset) rawRows(ctx context.Context, o *Options, chunk int, rows func(k int) []place) (*Result, error) {
	bufs := make([][]byte, o.Threads)
	for t := range bufs {
		bufs[t] = aligned(chunk * d.rowBytes)
	}
	var mu sync.Mutex
	var all digest
	r, err := o.passes(func(k int) (int64, int64, error) {
		var next atomic.Int64
		list := rows(k)
		err := parallel(ctx, o.Threads, func(ctx context.Context, t int) error {
			var sum digest
			for ctx.Err() == nil {
				lo := int(next.Add(int64(chunk))) - chunk
				if lo >= len(list) {
					break
				}
				for i, p := range list[lo:min(lo+chunk, len(list))] {
					b := bufs[t][i*d.rowBytes : (i+1)*d.rowBytes]
					if err := preadFull(d.files[p.file], b, p.off); err != nil {
						return err
					}
					if o.Check {
						sum.add(b, d.rowBytes)
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.merge(sum)
			return ctx.Err()
		})
		return int64(len(list)), int64(len(list)) * int64(d.rowBytes), err
	})
	if err == nil && o.Check {
		all.into(r)
	}
	return r, err
}

// maxSingles bounds the rows that the cells of single rows read in a pass.
const maxSingles = 1 << 14

// singles are random rows by dense number, of every pass.
func (d *dataset) singles(o *Options) [][]int64 {
	out := make([][]int64, o.Passes)
	n := d.set.Rows()
	for k := range out {
		rng := rand.New(rand.NewPCG(o.Seed, uint64(k)))
		for range min(n, maxSingles) {
			out[k] = append(out[k], rng.Int64N(n))
		}
	}
	return out
}

// locate turns a dense row into its shard and row there.
func locate(before []int64, row int64) (shard int, at int64) {
	shard = sort.Search(len(before), func(i int) bool { return before[i] > row }) - 1
	return shard, row - before[shard]
}

// starts are the dense rows that the shards start with.
func (d *dataset) starts() []int64 {
	out := []int64{}
	n := int64(0)
	for _, s := range d.set.Shards() {
		out = append(out, n)
		n += s.Rows
	}
	return out
}

// RawSingles is the control of single rows: random rows, one read each, into a buffer of one row.
func RawSingles(ctx context.Context, o Options) (*Result, error) {
	d, err := openDataset(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer d.close()
	at, err := d.places(ctx, o.Column)
	if err != nil {
		return nil, err
	}
	before := d.starts()
	rows := make([][]place, o.Passes)
	for k, list := range d.singles(&o) {
		for _, row := range list {
			s, r := locate(before, row)
			rows[k] = append(rows[k], place{s, at[s][r]})
		}
	}
	return d.rawRows(ctx, &o, 1, func(k int) []place { return rows[k] })
}
