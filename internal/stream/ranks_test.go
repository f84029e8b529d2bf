package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/order"
	"astropile/internal/source"
)

// counting counts the bytes that are read of opened files. It offers ReadAt alone, so that every read is seen.
type counting struct {
	source.Source
	bytes *atomic.Int64
	files *sync.Map // paths that were opened
}

type countingHandle struct {
	source.Handle
	bytes *atomic.Int64
}

func (c counting) Open(ctx context.Context, path string) (source.Handle, error) {
	h, err := c.Source.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	c.files.Store(path, true)
	return countingHandle{h, c.bytes}, nil
}

func (h countingHandle) ReadAt(b []byte, off int64) (int, error) {
	n, err := h.Handle.ReadAt(b, off)
	h.bytes.Add(int64(n))
	return n, err
}

// What all ranks read of local files is what they are given, once, and page headers: whether their number divides the
// lanes or not, for rows of a lane that is not theirs are read by themselves.
func TestTheRanksOfAJobReadEveryRowOnceBetweenThem(t *testing.T) {
	cols := []catalog.Column{scalar("id", catalog.Int64), tensor("image", catalog.Float32, 4, 64, 64)}
	var parts []part
	rows := 0
	for i, n := range []int{170, 1, 83, 200, 275, 18} {
		parts = append(parts, randomPart(catalog.FileOrder(cols), n, rows, uint64(i)))
		rows += n
	}
	tr := newRoot(t, cols, false, parts)
	src, err := source.NewFile(tr.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = src.Close() })
	rowBytes := int64(cols[1].RowBytes())
	// A row is a page of its own; its header and levels are read with it.
	s := tr.open(t, SetOptions{})
	pages := int64(0)
	for i := range s.shards {
		pages += s.shards[i].TailOffset
	}
	page := float64(pages) / float64(rows)
	for _, world := range []int{1, 2, 3, 12, 60, 7, 11, 50} {
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			var values, read, tails, steps int64
			for rank := range world {
				var bytes atomic.Int64
				var files sync.Map
				s, err := OpenSet(context.Background(), counting{src, &bytes, &files}, SetOptions{Threads: 1, Columns: []Select{{As: "image", Name: "image"}}})
				if err != nil {
					t.Fatal(err)
				}
				st := s.Stream(context.Background(), StreamOptions{Batch: max(1, 64/world), Params: &order.Params{Lanes: 60, Window: 28, Block: 7, Seed: 3}, Epochs: 1, Rank: rank, World: world}, NewPool(3))
				n := int64(0)
				for {
					b, err := st.Next(context.Background())
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					values += int64(b.Layout.Rows) * rowBytes
					st.pool.Release(b.Slot)
					n++
				}
				if rank > 0 && n != steps {
					t.Errorf("rank %d has %d steps, rank 0 %d", rank, n, steps)
				}
				steps = n
				_ = st.Close()
				_ = s.Close()
				read += bytes.Load()
				// What a rank reads once, before any row: the tail of each shard it meets.
				for i := range s.shards {
					if _, opened := files.Load(s.shards[i].Path); opened {
						tails += s.shards[i].Bytes - s.shards[i].TailOffset
					}
				}
			}
			ratio := float64(read-tails) / (float64(values/rowBytes) * page)
			t.Logf("%d ranks read %d bytes, and %d of tails, for %d of rows: %.3f times their pages", world, read-tails, tails, values, ratio)
			if ratio > 1.001 || read-tails < values {
				t.Errorf("more, or less, than once")
			}
			if whole := int64(rows) * rowBytes; values < whole || values > whole+64*rowBytes {
				t.Errorf("%d bytes of rows were delivered, the set has %d", values, whole)
			}
		})
	}
}
