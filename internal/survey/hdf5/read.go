package hdf5

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// pieceBytes is how much of contiguous data one worker reads at a time.
const pieceBytes = 4 << 20

// ReadRows reads the rows [r0, r1) of axis 0 (of a scalar: 0, 1) into dst, row-major, in little-endian order, elements
// packed as in the file's type; len(dst) must be (r1-r0)*RowBytes(). Elements of variable length come as references for
// ReadVlen. What was never written reads as the fill value.
//
// At most workers goroutines (at least 1) decode chunks; each has buffers of up to three decoded chunks and one stored one,
// which the file keeps for the next call. All have ended when ReadRows returns, early if ctx ends. On error dst may be partly
// overwritten. The error wraps ErrUnsupported for what this package does not read, ErrCorrupt for damage.
func (d *Dataset) ReadRows(ctx context.Context, r0, r1 uint64, dst []byte, workers int) error {
	return d.o.in(d.readRows(ctx, r0, r1, dst, workers))
}

func (d *Dataset) readRows(ctx context.Context, r0, r1 uint64, dst []byte, workers int) error {
	if d.refused != nil {
		return d.Readable()
	}
	return d.readStored(ctx, r0, r1, dst, workers)
}

// readStored reads rows whatever their type.
func (d *Dataset) readStored(ctx context.Context, r0, r1 uint64, dst []byte, workers int) error {
	if r0 > r1 || r1 > d.Rows() {
		return fmt.Errorf("rows %d to %d of %d", r0, r1, d.Rows())
	}
	row := d.RowBytes()
	if want, ok := product(row, []uint64{r1 - r0}); !ok || uint64(len(dst)) != want {
		return fmt.Errorf("buffer of %d bytes for %d rows of %d", len(dst), r1-r0, row)
	}
	if err := ctx.Err(); err != nil || len(dst) == 0 {
		return err
	}
	if d.narrow != nil {
		return d.readNarrow(ctx, r0, r1, dst, workers)
	}
	switch d.class {
	case layoutCompact:
		if uint64(len(d.compact)) < r1*row {
			return d.o.f.corrupt(d.o.addr, "compact dataset holds %d bytes of %d", len(d.compact), d.Rows()*row)
		}
		copy(dst, d.compact[r0*row:])
		d.Type.toLittle(dst)
		return nil
	case layoutContiguous:
		return d.readContiguous(ctx, r0*row, r1*row, dst, workers)
	}
	return d.readChunks(ctx, r0, r1, dst, workers)
}

func (d *Dataset) readContiguous(ctx context.Context, from, to uint64, dst []byte, workers int) error {
	if d.addr == noAddress {
		d.fillWith(dst)
		return nil
	}
	f := d.o.f
	if to > d.stored {
		return f.corrupt(d.addr, "dataset of %d bytes, stored are %d", d.Rows()*d.RowBytes(), d.stored)
	}
	if err := f.inside(d.addr, to); err != nil {
		return err
	}
	element := uint64(d.Type.Size)
	piece := max(1, pieceBytes/element) * element
	total := uint64(len(dst))
	return d.parallel(ctx, (total+piece-1)/piece, workers, func(i uint64, _ *scratch) error {
		lo := i * piece
		b := dst[lo:min(lo+piece, total)]
		if err := f.readAt(b, d.addr+from+lo); err != nil {
			return err
		}
		d.Type.toLittle(b)
		return nil
	})
}

// parallel runs job for 0 to n-1 on up to workers goroutines and waits for all; the first error stops the rest.
func (d *Dataset) parallel(ctx context.Context, n uint64, workers int, job func(i uint64, s *scratch) error) error {
	var next atomic.Uint64
	var stop atomic.Bool
	var once sync.Once
	var first error
	work := func() {
		s, _ := d.o.f.scratch.Get().(*scratch)
		if s == nil {
			s = &scratch{}
		}
		defer d.o.f.scratch.Put(s)
		for !stop.Load() {
			i := next.Add(1) - 1
			if i >= n {
				return
			}
			err := ctx.Err()
			if err == nil {
				err = job(i, s)
			}
			if err != nil {
				once.Do(func() { first = err })
				stop.Store(true)
			}
		}
	}
	others := int(min(uint64(max(workers, 1)), n)) - 1
	var wg sync.WaitGroup
	for range others {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return first
}

func (d *Dataset) fillWith(b []byte) {
	if d.Fill == nil {
		clear(b)
		return
	}
	for done := copy(b, d.Fill); done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
}

func (d *Dataset) readChunks(ctx context.Context, r0, r1 uint64, dst []byte, workers int) error {
	table, err := d.table()
	if err != nil {
		return err
	}
	perRow := uint64(1) // chunks of one index of the grid's axis 0
	for _, g := range d.grid[1:] {
		perRow *= g
	}
	first := r0 / d.Chunk[0] * perRow
	last := chunksOver(r1, d.Chunk[0]) * perRow
	return d.parallel(ctx, last-first, workers, func(i uint64, s *scratch) error {
		n := first + i
		w := &s.window
		d.place(w, n, r0, r1)
		ref, ok := d.chunk(table, n)
		if !ok {
			d.scatter(dst, nil, w)
			return nil
		}
		var direct []byte
		if w.whole {
			end := w.dstAt + d.chunkBytes
			direct = dst[w.dstAt:end:end] // what follows is another worker's
		}
		b, err := d.readChunk(ref, w, s, direct)
		if err != nil {
			return d.o.f.fail(ref.addr, fmt.Errorf("chunk at %v: %w", w.origin[:len(d.Dims)], err))
		}
		d.Type.toLittle(b)
		if !w.whole {
			d.scatter(dst, b, w)
		}
		return nil
	})
}

// window is the part of a chunk that lies in the rows asked for.
type window struct {
	origin  [maxRank]uint64 // of the chunk in the dataset
	count   [maxRank]uint64 // elements taken along each axis
	dstAt   uint64          // byte in the destination, and
	chunkAt uint64          // in the chunk, of the first element taken
	whole   bool            // the chunk is one run of the destination
	edge    bool            // the chunk reaches over the dataset's edge
}

// place works out the window of chunk n.
func (d *Dataset) place(w *window, n, r0, r1 uint64) {
	w.whole, w.edge, w.dstAt, w.chunkAt = true, false, 0, 0
	dstStride, chunkStride := uint64(d.Type.Size), uint64(d.Type.Size)
	for i := len(d.Dims) - 1; i >= 0; i-- {
		dim, chunk := d.Dims[i], d.Chunk[i]
		start := n % d.grid[i] * chunk
		n /= d.grid[i]
		w.origin[i] = start
		end := min(start+chunk, dim)
		w.edge = w.edge || end < start+chunk
		base, lo, hi := uint64(0), start, end
		if i == 0 {
			base, lo, hi = r0, max(start, r0), min(end, r1)
			w.whole = w.whole && hi-lo == chunk
		} else {
			w.whole = w.whole && chunk == dim
		}
		w.count[i] = hi - lo
		w.dstAt += (lo - base) * dstStride
		w.chunkAt += (lo - start) * chunkStride
		dstStride *= dim
		chunkStride *= chunk
	}
}

// scatter copies a window of a decoded chunk, or of fill values if chunk is nil, to its place in dst.
func (d *Dataset) scatter(dst, chunk []byte, w *window) {
	rank := len(d.Dims)
	var dstStride, chunkStride, at [maxRank]uint64
	ds, cs := uint64(d.Type.Size), uint64(d.Type.Size)
	for i := rank - 1; i >= 0; i-- {
		dstStride[i], chunkStride[i] = ds, cs
		ds *= d.Dims[i]
		cs *= d.Chunk[i]
	}
	// Axes that are whole in both make one run with the axis before them.
	last := rank - 1
	for last > 0 && w.count[last] == d.Dims[last] && w.count[last] == d.Chunk[last] {
		last--
	}
	run := w.count[last] * dstStride[last]
	to, from := w.dstAt, w.chunkAt
	for {
		if chunk == nil {
			d.fillWith(dst[to : to+run])
		} else {
			copy(dst[to:to+run], chunk[from:from+run])
		}
		k := last - 1
		for ; k >= 0; k-- {
			at[k]++
			to += dstStride[k]
			from += chunkStride[k]
			if at[k] < w.count[k] {
				break
			}
			to -= at[k] * dstStride[k]
			from -= at[k] * chunkStride[k]
			at[k] = 0
		}
		if k < 0 {
			return
		}
	}
}
