package stream

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"astropile/internal/catalog"
)

// benchBytes is the payload of the benchmarks' datasets.
const benchBytes = 1 << 30

// benchThreads and benchBatch: three slots of 64 images stay in the last-level cache, as the control's buffers do.
const (
	benchThreads = 2
	benchBatch   = 64
)

// benchRoot writes a dataset of one tensor column.
func benchRoot(b *testing.B, c catalog.Column, noise func(p []byte, r *rand.Rand)) *testRoot {
	b.Helper()
	cols := []catalog.Column{scalar("id", catalog.Int64), c}
	rb := c.RowBytes()
	rows := benchBytes / rb
	const shards = 2
	var parts []part
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, (rows/shards+1)*rb)
	for s := range shards {
		n := rows*(s+1)/shards - rows*s/shards
		noise(data[:n*rb], r)
		id := &catalog.Vector{Rows: n, Data: make([]byte, 8*n)}
		// The rows are written before the next shard's are made, so one buffer serves all.
		parts = append(parts, part{rows: n, vectors: []*catalog.Vector{id, {Rows: n, Data: data[:n*rb]}}})
	}
	return newRoot(b, cols, false, parts)
}

func floatNoise(p []byte, r *rand.Rand) {
	f := unsafe.Slice((*float32)(unsafe.Pointer(&p[0])), len(p)/4)
	for i := range f {
		f[i] = r.Float32()
	}
}

func byteNoise(p []byte, r *rand.Rand) {
	w := unsafe.Slice((*uint64)(unsafe.Pointer(&p[0])), len(p)/8)
	for i := range w {
		w[i] = r.Uint64()
	}
}

// rawBlocks reads all shards in blocks of 8 MiB into reused page-aligned buffers.
func rawBlocks(b *testing.B, tr *testRoot) int64 {
	const block = 8 << 20
	type at struct {
		fd  int
		off int64
	}
	var todo []at
	for _, s := range tr.shards {
		f, err := os.Open(filepath.Join(tr.dir, s.Path))
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		for off := int64(0); off < s.Bytes; off += block {
			todo = append(todo, at{int(f.Fd()), off})
		}
	}
	var next, total atomic.Int64
	var wg sync.WaitGroup
	for t := range benchThreads {
		wg.Go(func() {
			buf := controlBuffer(t, block)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(todo) {
					return
				}
				n, err := unix.Pread(todo[i].fd, buf, todo[i].off)
				if err != nil {
					b.Error(err)
					return
				}
				total.Add(int64(n))
			}
		})
	}
	wg.Wait()
	return total.Load()
}

var controls [16][]byte

func controlBuffer(t, n int) []byte {
	if len(controls[t]) < n {
		controls[t] = alignedBytes(n)
	}
	return controls[t][:n]
}

// rowReader reads the values of rows, one a page, into a reused page-aligned buffer.
type rowReader struct {
	fds  []int
	offs []int64
	rb   int
}

func newRowReader(b *testing.B, tr *testRoot, s *Set, rows []ref, rb int) *rowReader {
	b.Helper()
	r := &rowReader{rb: rb}
	tables, fds := make([]*MapTable, len(tr.shards)), make([]int, len(tr.shards))
	for i := range tr.shards {
		f, err := os.Open(filepath.Join(tr.dir, tr.shards[i].Path))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = f.Close() })
		fds[i] = int(f.Fd())
		if tables[i], err = s.Map(context.Background(), "image", i); err != nil {
			b.Fatal(err)
		}
		if len(tables[i].Offsets) != int(tr.shards[i].Rows) {
			b.Fatal("pages of several rows")
		}
	}
	for _, x := range rows {
		r.fds, r.offs = append(r.fds, fds[x.shard]), append(r.offs, tables[x.shard].Offsets[x.row])
	}
	return r
}

func (r *rowReader) read(b *testing.B) int64 {
	var next, total atomic.Int64
	var wg sync.WaitGroup
	const step = 14
	for t := range benchThreads {
		wg.Go(func() {
			buf := controlBuffer(t, benchBatch*r.rb)
			for {
				lo := int(next.Add(step)) - step
				if lo >= len(r.offs) {
					return
				}
				for i := lo; i < min(lo+step, len(r.offs)); i++ {
					n, err := unix.Pread(r.fds[i], buf[i%benchBatch*r.rb:(i%benchBatch+1)*r.rb], r.offs[i])
					if err != nil || n != r.rb {
						b.Error(n, err)
						return
					}
					total.Add(int64(n))
				}
			}
		})
	}
	wg.Wait()
	return total.Load()
}

func drain(b *testing.B, s *Set, opt StreamOptions, pool *slots) int64 {
	st := s.Stream(context.Background(), opt, pool)
	defer func() { _ = st.Close() }()
	total := int64(0)
	for {
		x, err := st.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return total
		}
		if err != nil {
			b.Fatal(err)
		}
		total += int64(x.Layout.Bytes)
		pool.Release(x.Slot)
	}
}

func BenchmarkStream(b *testing.B) {
	if testing.Short() {
		b.Skip("writes 1 GiB a case")
	}
	for _, c := range []struct {
		name  string
		col   catalog.Column
		noise func([]byte, *rand.Rand)
	}{
		{"float32_4x96x96", tensor("image", catalog.Float32, 4, 96, 96), floatNoise},
		{"uint8_3x160x160", tensor("image", catalog.Uint8, 3, 160, 160), byteNoise},
	} {
		b.Run(c.name, func(b *testing.B) {
			tr := benchRoot(b, c.col, c.noise)
			s := tr.open(b, SetOptions{Threads: benchThreads, Columns: []Select{{Name: "image"}}})
			pool := newSlots(3)
			blocks := mustLayout(b, s).Epoch(0).Cursor()
			var shuffled, single []ref
			for p := uint64(0); p < uint64(s.Rows()); p++ {
				r := blocks.At(p)
				shuffled = append(shuffled, ref{r.Shard, int64(r.Index)})
			}
			r := rand.New(rand.NewPCG(5, 6))
			for range 4000 {
				i := r.IntN(len(tr.shards))
				single = append(single, ref{i, r.Int64N(tr.shards[i].Rows)})
			}
			rb := c.col.RowBytes()
			rows, singles := newRowReader(b, tr, s, shuffled, rb), newRowReader(b, tr, s, single, rb)
			interleave(b, []pair{
				{"in_order/pread_8MiB",
					func() int64 { return drain(b, s, StreamOptions{Batch: benchBatch, Shuffle: Off, Epochs: 1}, pool) },
					func() int64 { return rawBlocks(b, tr) }},
				{"shuffled/pread_rows",
					func() int64 {
						return drain(b, s, StreamOptions{Batch: benchBatch, Shuffle: Blocks, Epochs: 1}, pool)
					},
					func() int64 { return rows.read(b) }},
				{"single/pread_rows",
					func() int64 { return readSingle(b, s, single) },
					func() int64 { return singles.read(b) }},
			})
		})
	}
}

// pair is what is measured and its control; both say how many bytes they moved.
type pair struct {
	name    string
	of, raw func() int64
}

// interleave runs each pair at least nine times in turn and reports the median of the paired ratios of their rates.
func interleave(b *testing.B, pairs []pair) {
	b.Helper()
	rate := func(f func() int64) float64 {
		t := time.Now()
		n := f()
		return float64(n) / time.Since(t).Seconds() / 1e9
	}
	ratios := make([][]float64, len(pairs))
	rates := make([][]float64, 2*len(pairs))
	for range max(b.N, 9) {
		for k, p := range pairs {
			x, y := rate(p.of), rate(p.raw)
			ratios[k] = append(ratios[k], x/y)
			rates[2*k], rates[2*k+1] = append(rates[2*k], x), append(rates[2*k+1], y)
		}
	}
	for k, p := range pairs {
		b.ReportMetric(median(ratios[k]), p.name)
		b.Logf("%-20s %.3f   %.2f and %.2f GB/s", p.name, median(ratios[k]), median(rates[2*k]), median(rates[2*k+1]))
	}
	b.ReportMetric(0, "ns/op")
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

func readSingle(b *testing.B, s *Set, rows []ref) int64 {
	var next, total atomic.Int64
	var wg sync.WaitGroup
	for range benchThreads {
		wg.Go(func() {
			var slot Memory
			for {
				i := int(next.Add(1)) - 1
				if i >= len(rows) {
					return
				}
				l, err := s.Read(context.Background(), []int64{s.before[rows[i].shard] + rows[i].row}, &slot)
				if err != nil {
					b.Error(err)
					return
				}
				total.Add(int64(l.Bytes))
			}
		})
	}
	wg.Wait()
	return total.Load()
}
