package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"

	"astropile/internal/shard"
)

// run is some pages of the column that stand one after another, at most blockBytes of them or one.
type run struct {
	place
	n     int
	pages []int32 // the bytes of each, header included
}

// Codec measures what a reader of compressed pages may reach: the same pages, read with one raw read for some 8 MiB of them,
// and decoded by the codec alone, one page after another into one buffer, every thread at its own run. GBs is
// 1/(1/read + 1/decode).
func Codec(ctx context.Context, o Options) (*Result, error) {
	d, err := openDataset(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer d.close()
	var runs []run
	for i, f := range d.files {
		r, err := columnRuns(f, i, o.Column)
		if err != nil {
			return nil, fmt.Errorf("shard %s: %w", d.set.Shards()[i].Path, err)
		}
		runs = append(runs, r...)
	}
	decoders := make([]*codecThread, o.Threads)
	for t := range decoders {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		decoders[t] = &codecThread{zstd: z, in: aligned(blockBytes)}
	}
	var reading, decoding time.Duration
	var mu sync.Mutex
	rows := d.set.Rows()
	r, err := o.passes(func(int) (int64, int64, error) {
		reading, decoding = 0, 0
		var next, bytes atomic.Int64
		err := parallel(ctx, o.Threads, func(ctx context.Context, t int) error {
			c := decoders[t]
			c.reading, c.decoding = 0, 0
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(runs) {
					break
				}
				n, err := c.run(d.files[runs[i].file], &runs[i])
				if err != nil {
					return err
				}
				bytes.Add(n)
			}
			mu.Lock()
			defer mu.Unlock()
			reading += c.reading
			decoding += c.decoding
			return ctx.Err()
		})
		return rows, bytes.Load(), err
	})
	if err != nil {
		return nil, err
	}
	if want := rows * int64(d.rowBytes); r.Bytes != want {
		return nil, fmt.Errorf("%w: the pages of %q hold %d bytes of values, rows make %d", ErrCell, o.Column, r.Bytes, want)
	}
	rate := func(t time.Duration) float64 { return float64(r.Bytes) * float64(o.Threads) / t.Seconds() / 1e9 }
	r.ReadGBs, r.DecodeGBs = rate(reading), rate(decoding)
	r.GBs = 1 / (1/r.ReadGBs + 1/r.DecodeGBs)
	return r, nil
}

// columnRuns finds the pages of a column by footer and offset index.
func columnRuns(f *os.File, file int, column string) ([]run, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	end := make([]byte, 8)
	if err := preadFull(f, end, st.Size()-8); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(end))
	if n > shard.MaxFooter || n > st.Size()-12 {
		return nil, fmt.Errorf("%w: a footer of %d bytes", ErrCell, n)
	}
	footer := make([]byte, n)
	if err := preadFull(f, footer, st.Size()-8-n); err != nil {
		return nil, err
	}
	meta, err := shard.DecodeFileMetaData(footer)
	if err != nil {
		return nil, err
	}
	var out []run
	for g := range meta.RowGroups {
		for k := range meta.RowGroups[g].Columns {
			c := &meta.RowGroups[g].Columns[k]
			if len(c.Meta.Path) == 0 || c.Meta.Path[0] != column {
				continue
			}
			if c.Meta.Codec != shard.CompressZstd || c.OffsetIndexLength <= 0 || c.OffsetIndexLength > shard.MaxOffsetIndex {
				return nil, fmt.Errorf("%w: column %q is not compressed with zstd, or has no offset index", ErrCell, column)
			}
			b := make([]byte, c.OffsetIndexLength)
			if err := preadFull(f, b, c.OffsetIndexOffset); err != nil {
				return nil, err
			}
			index, err := shard.DecodeOffsetIndex(b)
			if err != nil {
				return nil, err
			}
			out = append(out, groupRuns(index.Pages, file)...)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no pages of column %q", ErrCell, column)
	}
	return out, nil
}

func groupRuns(pages []shard.PageLocation, file int) []run {
	var out []run
	for _, p := range pages {
		last := len(out) - 1
		if last < 0 || out[last].off+int64(out[last].n) != p.Offset || out[last].n+int(p.Size) > blockBytes {
			out = append(out, run{place: place{file, p.Offset}})
			last++
		}
		out[last].n += int(p.Size)
		out[last].pages = append(out[last].pages, p.Size)
	}
	return out
}

// codecThread is what one thread needs to decode, and the time it spent.
type codecThread struct {
	zstd              *zstd.Decoder
	in, out, joined   []byte
	reading, decoding time.Duration
}

// run reads and decodes a run and gives the bytes of its values.
func (c *codecThread) run(f *os.File, r *run) (int64, error) {
	if r.n > len(c.in) {
		c.in = aligned(r.n)
	}
	start := time.Now()
	if err := preadFull(f, c.in[:r.n], r.off); err != nil {
		return 0, err
	}
	read := time.Now()
	c.reading += read.Sub(start)
	total := int64(0)
	b := c.in[:r.n]
	for _, size := range r.pages {
		n, err := c.page(b[:size])
		if err != nil {
			return 0, fmt.Errorf("page at byte %d: %w", r.off+int64(r.n-len(b)), err)
		}
		total += n
		b = b[size:]
	}
	c.decoding += time.Since(read)
	return total, nil
}

func (c *codecThread) page(page []byte) (int64, error) {
	h, n, err := shard.DecodePageHeader(page)
	if err != nil {
		return 0, err
	}
	v2 := h.DataV2
	if v2 == nil {
		return 0, fmt.Errorf("%w: a page that is no data page of version 2", ErrCell)
	}
	skip := n + int(v2.DefBytes) + int(v2.RepBytes)
	if v2.DefBytes < 0 || v2.RepBytes < 0 || skip > len(page) || skip > math.MaxInt32 {
		return 0, fmt.Errorf("%w: levels longer than the page", ErrCell)
	}
	values := page[skip:]
	if v2.Compressed {
		if c.out, err = c.zstd.DecodeAll(values, c.out[:0]); err != nil {
			return 0, err
		}
		values = c.out
	}
	if v2.Encoding == shard.EncByteStreamSplit {
		if len(values)%4 != 0 || len(values) != 4*int(v2.NumValues) {
			return 0, fmt.Errorf("%w: byte streams of values that have not four bytes", ErrCell)
		}
		c.joined = joinFour(c.joined, values)
	}
	return int64(len(values)), nil
}

// joinFour undoes BYTE_STREAM_SPLIT of values of four bytes, eight values at a time.
func joinFour(dst, src []byte) []byte {
	if cap(dst) < len(src) {
		dst = make([]byte, len(src))
	}
	dst = dst[:len(src)]
	n := len(src) / 4
	a, b, c, d := src[:n], src[n:2*n], src[2*n:3*n], src[3*n:4*n]
	i := 0
	for ; i+8 <= n; i += 8 {
		w, x := binary.LittleEndian.Uint64(a[i:]), binary.LittleEndian.Uint64(b[i:])
		y, z := binary.LittleEndian.Uint64(c[i:]), binary.LittleEndian.Uint64(d[i:])
		out := dst[4*i : 4*i+32]
		for k := 0; k < 64; k += 16 {
			lo := w>>k&0xff | x>>k&0xff<<8 | y>>k&0xff<<16 | z>>k&0xff<<24
			hi := w>>(k+8)&0xff | x>>(k+8)&0xff<<8 | y>>(k+8)&0xff<<16 | z>>(k+8)&0xff<<24
			binary.LittleEndian.PutUint64(out[k/2:], lo|hi<<32)
		}
	}
	for ; i < n; i++ {
		dst[4*i], dst[4*i+1], dst[4*i+2], dst[4*i+3] = a[i], b[i], c[i], d[i]
	}
	return dst
}
