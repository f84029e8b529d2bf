package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"astropile/internal/catalog"
)

// foreign is the general Parquet decoder, opened when a column needs it.
type foreign struct {
	mu   sync.Mutex
	file *file.Reader

	cacheMu  sync.Mutex // the last row group of a fixed column that was decoded the general way
	cacheKey *chunk
	cache    *catalog.Vector
}

var errTooLarge = errors.New("it asks for more memory than the file allows")

// boundedMemory refuses single allocations that no page of the format needs.
type boundedMemory struct{ memory.Allocator }

// Limits of what one column chunk may take when it is decoded the general way.
const (
	maxForeignAlloc  = 1 << 30
	maxForeignValues = 64 << 20
)

func (m boundedMemory) Allocate(n int) []byte {
	if n > maxForeignAlloc {
		panic(errTooLarge)
	}
	return m.Allocator.Allocate(n)
}

func (m boundedMemory) Reallocate(n int, b []byte) []byte {
	if n > maxForeignAlloc {
		panic(errTooLarge)
	}
	return m.Allocator.Reallocate(n, b)
}

// section shows the file as the decoder wants it.
type section struct {
	*io.SectionReader
}

// guarded turns panics of the foreign decoder into errors.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: the general Parquet decoder gave up: %v", ErrFormat, r)
		}
	}()
	return f()
}

func (d *Reader) generalReader() (*file.Reader, error) {
	d.foreign.mu.Lock()
	defer d.foreign.mu.Unlock()
	if d.foreign.file != nil {
		return d.foreign.file, nil
	}
	err := guarded(func() error {
		mem := boundedMemory{memory.NewGoAllocator()}
		props := parquet.NewReaderProperties(mem)
		props.MaxCompressedPageSize, props.MaxUncompressedPageSize = maxPageBytes, maxPageBytes
		pf, err := file.NewParquetReader(section{io.NewSectionReader(readerAtFunc(d.readAtN), 0, d.size)}, file.WithReadProps(props))
		if err != nil {
			return fmt.Errorf("%w: %v", ErrFormat, err)
		}
		d.foreign.file = pf
		return nil
	})
	return d.foreign.file, err
}

type readerAtFunc func(b []byte, off int64) (int, error)

func (f readerAtFunc) ReadAt(b []byte, off int64) (int, error) { return f(b, off) }

// readAtN reads as io.ReaderAt does.
func (d *Reader) readAtN(b []byte, off int64) (int, error) {
	if off < 0 || off >= d.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), d.size-off))
	if err := d.readAt(b[:n], off); err != nil {
		return 0, err
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// ReadVector reads rows [lo, hi) of any column.
func (c *ColumnReader) ReadVector(ctx context.Context, lo, hi int64) (*catalog.Vector, error) {
	if lo < 0 || hi < lo || hi > c.r.meta.NumRows {
		return nil, fmt.Errorf("%w: column %q: rows %d to %d of %d", ErrRows, c.col.Name, lo, hi, c.r.meta.NumRows)
	}
	if lo == hi {
		return catalog.NewVector(&c.col), nil
	}
	if c.rowBytes > 0 && hi-lo > maxVectorBytes/int64(c.rowBytes) {
		return nil, fmt.Errorf("%w: column %q: %d rows of %d bytes at once; ask for fewer", ErrRows, c.col.Name, hi-lo, c.rowBytes)
	}
	if c.PageWise() && c.col.Nullable {
		v, err := c.readNullable(ctx, lo, hi)
		if !errors.Is(err, errForeign) {
			return v, err
		}
	} else if c.rowBytes > 0 && !c.col.Nullable {
		rows := make([]int64, hi-lo)
		for i := range rows {
			rows[i] = lo + int64(i)
		}
		v := &catalog.Vector{Rows: len(rows), Data: make([]byte, len(rows)*c.rowBytes)}
		return v, c.ReadRows(ctx, rows, v.Data)
	}
	var out *catalog.Vector
	for g := c.r.GroupOf(lo); g < len(c.r.groups) && c.r.groups[g].First < hi; g++ {
		info := c.r.groups[g]
		v, err := c.decodeGroup(ctx, g)
		if err != nil {
			return nil, fmt.Errorf("column %q, row group %d: %w", c.col.Name, g, err)
		}
		a, z := max(lo, info.First)-info.First, min(hi, info.First+info.Rows)-info.First
		if a == 0 && z == info.Rows && lo >= info.First && hi <= info.First+info.Rows {
			return v, nil
		}
		if out == nil {
			out = catalog.NewVector(&c.col)
		}
		for i := a; i < z; i++ {
			out.AppendRow(&c.col, v, int(i))
		}
	}
	return out, nil
}

// PageWise says whether ReadVector decodes only the pages that hold the rows; of other columns it decodes whole row groups.
func (c *ColumnReader) PageWise() bool {
	return c.rowBytes > 0 && (!c.col.Nullable || c.levels.maxRep == 0 && c.levels.maxDef == 1)
}

// readNullable reads rows of a scalar column that may be null. The error is errForeign where only the general decoder
// knows the pages.
func (c *ColumnReader) readNullable(ctx context.Context, lo, hi int64) (*catalog.Vector, error) {
	size := int64(c.rowBytes)
	v := &catalog.Vector{Rows: int(hi - lo), Data: make([]byte, (hi-lo)*size), Valid: make([]bool, hi-lo)}
	sc := c.r.dec.pool.Get().(*scratch)
	defer c.r.dec.pool.Put(sc)
	for at := lo; at < hi; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		k := &c.chunks[c.r.GroupOf(at)]
		end := min(hi, k.first+k.rows)
		state, err := c.load(k)
		if err == nil && state == chunkForeign {
			err = errForeign
		}
		if err == nil {
			err = c.readDecode(sc, k, at-k.first, end-at, v.Data[(at-lo)*size:(end-lo)*size], v.Valid[at-lo:end-lo])
		}
		if err != nil {
			return nil, fmt.Errorf("%s, rows %d to %d: %w", k.where, at, end-1, err)
		}
		at = end
	}
	if !slices.Contains(v.Valid, false) {
		v.Valid = nil
	}
	return v, nil
}

// maxVectorBytes bounds what ReadVector gives at once.
const maxVectorBytes = 4 << 30

// decodeGroup decodes a whole column chunk (all leaves of the column) the general way.
func (c *ColumnReader) decodeGroup(ctx context.Context, g int) (*catalog.Vector, error) {
	rows := c.r.groups[g].Rows
	for _, l := range c.f.leafs {
		m := &c.r.meta.RowGroups[g].Columns[l].Meta
		if m.TotalUncompressed > maxForeignAlloc || m.NumValues > maxForeignValues || m.TotalUncompressed > m.TotalCompressed*maxRatio+1<<20 {
			return nil, fmt.Errorf("%w: a column chunk of %d values and %d bytes (%d stored)", ErrFormat, m.NumValues, m.TotalUncompressed, m.TotalCompressed)
		}
		if m.NumValues < rows {
			return nil, fmt.Errorf("%w: %d values for %d rows", ErrFormat, m.NumValues, rows)
		}
	}
	pf, err := c.r.generalReader()
	if err != nil {
		return nil, err
	}
	v := catalog.NewVector(&c.col)
	err = guarded(func() error { return c.assemble(ctx, pf, g, v) })
	if err != nil {
		return nil, err
	}
	if int64(v.Rows) != rows {
		return nil, fmt.Errorf("%w: %d rows decoded of %d", ErrFormat, v.Rows, rows)
	}
	return v, v.Check(&c.col)
}

// readForeign reads rows of a fixed column whose pages only the general decoder knows. The last row group is kept.
func (c *ColumnReader) readForeign(ctx context.Context, k *chunk, lo, n int64, dst []byte) error {
	f := &c.r.foreign
	f.cacheMu.Lock()
	defer f.cacheMu.Unlock()
	if f.cacheKey != k {
		v, err := c.decodeGroup(ctx, c.r.GroupOf(k.first))
		if err != nil {
			return err
		}
		f.cacheKey, f.cache = k, v
	}
	for i := lo; i < lo+n; i++ {
		if f.cache.Null(int(i)) {
			return fmt.Errorf("%w: row %d is null", ErrFormat, k.first+i)
		}
	}
	copy(dst, f.cache.Data[lo*int64(c.rowBytes):(lo+n)*int64(c.rowBytes)])
	return nil
}
