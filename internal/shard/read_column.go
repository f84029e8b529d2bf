package shard

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync/atomic"

	"astropile/internal/catalog"
)

// ErrNotMapped marks a column whose values do not stand in the file as they stand in memory; the text says why.
var ErrNotMapped = errors.New("shard: column does not map")

// ErrRows marks row numbers that the file does not have.
var ErrRows = errors.New("shard: no such row")

// ColumnReader reads one column. It may be used from any number of goroutines.
type ColumnReader struct {
	r   *Reader
	f   *field
	col catalog.Column

	// Of fixed columns that are never null:
	form     elemForm
	signed   bool
	levels   shapeLevels
	rowBytes int
	chunks   []chunk
	template atomic.Pointer[levelTemplate]
}

// Column gives the reader of a column.
func (d *Reader) Column(name string) (*ColumnReader, error) {
	f := d.fields[name]
	if f == nil {
		for _, s := range d.skipped {
			if s.Name == name {
				return nil, fmt.Errorf("%w: %q is not read: %s", ErrColumn, name, s.Why)
			}
		}
		return nil, fmt.Errorf("%w: %q; the file has %s", ErrColumn, name, strings.Join(d.order, ", "))
	}
	c := &ColumnReader{r: d, f: f, col: f.col}
	if l := f.node.onlyLeaf(); f.col.Fixed() && l != nil && !(f.col.Kind == catalog.Scalar && f.col.DType == catalog.String) {
		comp := f.col.DType.Component()
		c.form = formOf(comp)
		c.signed = comp == catalog.Int8 || comp == catalog.Int16
		c.levels = newShapeLevels(storedDims(&f.col), l.rep, l.def)
		c.rowBytes = f.col.RowBytes()
		c.chunks = make([]chunk, len(d.groups))
		for g := range d.groups {
			k := &c.chunks[g]
			k.first, k.rows, k.meta = d.groups[g].First, d.groups[g].Rows, &d.meta.RowGroups[g].Columns[l.leaf]
			k.where = fmt.Sprintf("column %q, row group %d", name, g)
		}
	}
	return c, nil
}

// Description is what the column is.
func (c *ColumnReader) Description() catalog.Column { return c.col }

// Footprint estimates the memory of the page tables, in bytes, once all are read.
func (c *ColumnReader) Footprint() int64 {
	n := int64(512)
	for i := range c.chunks {
		m := &c.chunks[i].meta.Meta
		n += 192 + int64(c.chunks[i].meta.OffsetIndexLength)*2
		if m.DictPageOffset > 0 && c.form.widened() {
			n += int64(identityEntries(c.form.size) * c.form.size)
		}
	}
	return n
}

// GroupOf is the row group that holds a row of the file.
func (d *Reader) GroupOf(row int64) int {
	return sort.Search(len(d.groups), func(i int) bool { return d.groups[i].First > row }) - 1
}

// ReadRows reads rows of a fixed column, numbered in the file, into dst: len(rows) x RowBytes bytes, packed, in the
// order of rows. A null is an error. Neighbouring rows are read with one call.
func (c *ColumnReader) ReadRows(ctx context.Context, rows []int64, dst []byte) error {
	if c.rowBytes == 0 {
		return fmt.Errorf("%w: column %q has no fixed bytes a row", ErrColumn, c.col.Name)
	}
	if len(dst) != len(rows)*c.rowBytes {
		return fmt.Errorf("%w: column %q: %d bytes for %d rows of %d", ErrRows, c.col.Name, len(dst), len(rows), c.rowBytes)
	}
	sc := c.r.dec.pool.Get().(*scratch)
	defer c.r.dec.pool.Put(sc)
	for i := 0; i < len(rows); {
		if err := ctx.Err(); err != nil {
			return err
		}
		first := rows[i]
		if first < 0 || first >= c.r.meta.NumRows {
			return fmt.Errorf("%w: column %q: row %d of %d", ErrRows, c.col.Name, first, c.r.meta.NumRows)
		}
		k := &c.chunks[c.r.GroupOf(first)]
		j := i + 1
		for j < len(rows) && rows[j] == rows[j-1]+1 && rows[j] < k.first+k.rows {
			j++
		}
		if err := c.readRun(ctx, sc, k, first-k.first, int64(j-i), dst[i*c.rowBytes:j*c.rowBytes]); err != nil {
			return fmt.Errorf("%s, rows %d to %d: %w", k.where, first, rows[j-1], err)
		}
		i = j
	}
	return nil
}

// readRun reads n rows of a chunk from row lo on.
func (c *ColumnReader) readRun(ctx context.Context, sc *scratch, k *chunk, lo, n int64, dst []byte) error {
	state, err := c.load(k)
	if err != nil {
		return err
	}
	if state == chunkDirect {
		err := c.readDirect(sc, k, lo, n, dst)
		if !errors.Is(err, errForeign) && !errors.Is(err, errIrregular) {
			return err
		}
		k.state.CompareAndSwap(int32(chunkDirect), int32(chunkDecode))
		state = chunkDecode
	}
	if state == chunkDecode {
		err := c.readDecode(sc, k, lo, n, dst, nil)
		if !errors.Is(err, errForeign) {
			return err
		}
		k.state.Store(int32(chunkForeign))
	}
	return c.readForeign(ctx, k, lo, n, dst)
}

// Limits of one vectored read.
const (
	maxReadBytes = 8 << 20
	maxReadBufs  = 512
)

// readDirect reads values straight into dst, headers and levels into scratch.
func (c *ColumnReader) readDirect(sc *scratch, k *chunk, lo, n int64, dst []byte) error {
	total := k.meta.Meta.NumValues
	elems := int64(c.levels.elems)
	rb := int64(c.rowBytes)
	p := k.pageOf(lo*elems, c.levels.elems)
	for n > 0 {
		sc.bufs = sc.bufs[:0]
		start, small, bytes, used := int64(-1), 0, int64(0), int64(0)
		firstPage := p
		// The prefixes go one after another; their sum is known only on the way, so room is made beforehand.
		room := 0
		for q, left := p, n; q < len(k.pages) && left > 0 && q-p < maxReadBufs/2; q++ {
			v := k.values(q, total)
			room += int(int64(k.pages[q].size) - c.storedBytes(k, v) + 16)
			left -= v / elems
		}
		sc.small = grown(&sc.small, room)
		for p < len(k.pages) && used < n && len(sc.bufs)+3 <= maxReadBufs && (bytes == 0 || bytes < maxReadBytes) {
			loc := &k.pages[p]
			v := k.values(p, total)
			rows := v / elems
			prefix := int64(loc.size) - c.storedBytes(k, v)
			skip := lo + used - loc.first/elems // rows of this page before the first wanted
			take := min(rows-skip, n-used)
			if start >= 0 && (skip > 0 || loc.off != start+bytes) {
				break
			}
			switch {
			case start < 0 && k.wasSeen(p):
				start = loc.off + prefix + skip*rb
			case start < 0 && skip > 0:
				b := grown(&sc.page, int(prefix))
				if err := c.r.readAt(b, loc.off); err != nil {
					return err
				}
				if err := c.checkPrefix(sc, k, b, int(v)); err != nil {
					return err
				}
				k.setSeen(p)
				start = loc.off + prefix + skip*rb
			default:
				if start < 0 {
					start = loc.off
				}
				b := sc.small[small : small+int(prefix)]
				small += int(prefix)
				sc.bufs = append(sc.bufs, b)
				bytes += prefix
			}
			sc.bufs = append(sc.bufs, dst[used*rb:(used+take)*rb])
			bytes += take * rb
			used += take
			if skip+take < rows {
				break
			}
			p++
			if pad := c.storedBytes(k, v) - v*int64(c.form.size); pad > 0 && used < n {
				sc.bufs = append(sc.bufs, sc.small[small:small+int(pad)])
				small += int(pad)
				bytes += pad
			}
		}
		if used == 0 {
			return fmt.Errorf("%w: the pages end before row %d of the row group", ErrFormat, lo)
		}
		if err := c.r.readVec(sc.bufs, start); err != nil {
			return err
		}
		if err := c.checkRead(sc, k, firstPage, start, used, lo); err != nil {
			return err
		}
		lo += used
		n -= used
		dst = dst[used*rb:]
	}
	return nil
}

// checkRead checks the prefixes that a vectored read brought along.
func (c *ColumnReader) checkRead(sc *scratch, k *chunk, p int, start, used, lo int64) error {
	total, elems := k.meta.Meta.NumValues, int64(c.levels.elems)
	small := 0
	for end := lo + used; p < len(k.pages) && k.pages[p].first < end*elems; p++ {
		v := k.values(p, total)
		stored := c.storedBytes(k, v)
		prefix := int(int64(k.pages[p].size) - stored)
		if k.pages[p].off >= start {
			if !k.wasSeen(p) {
				if err := c.checkPrefix(sc, k, sc.small[small:small+prefix], int(v)); err != nil {
					return err
				}
				k.setSeen(p)
			}
			small += prefix
		}
		if pad := stored - v*int64(c.form.size); pad > 0 {
			small += int(pad)
		}
	}
	return nil
}

// readDecode reads whole pages into scratch and decodes them. valid is nil, or told which of the n rows are not null.
func (c *ColumnReader) readDecode(sc *scratch, k *chunk, lo, n int64, dst []byte, valid []bool) error {
	total, elems, size := k.meta.Meta.NumValues, int64(c.levels.elems), int64(c.form.size)
	v0, v1 := lo*elems, (lo+n)*elems
	for p := k.pageOf(v0, c.levels.elems); p < len(k.pages) && k.pages[p].first < v1; {
		// Neighbouring pages are read together.
		q, bytes := p+1, int64(k.pages[p].size)
		for q < len(k.pages) && k.pages[q].first < v1 && k.pages[q].off == k.pages[p].off+bytes && bytes+int64(k.pages[q].size) <= maxReadBytes/8 {
			bytes += int64(k.pages[q].size)
			q++
		}
		b := grown(&sc.page, int(bytes))
		if err := c.r.readAt(b, k.pages[p].off); err != nil {
			return err
		}
		for ; p < q; p++ {
			page := b[:k.pages[p].size]
			b = b[k.pages[p].size:]
			first, v := k.pages[p].first, k.values(p, total)
			a, z := max(first, v0), min(first+v, v1)
			out := dst[(a-v0)*size : (z-v0)*size]
			var there []bool
			if valid != nil {
				there = valid[a-v0 : z-v0]
			}
			// Of a page with nulls all is decoded: where a value stands depends on those before it.
			whole := valid == nil || a == first && z == first+v
			lo, hi := int(a-first), int(z-first)
			if !whole {
				out, there = make([]byte, int(v*size)), make([]bool, v)
				lo, hi = 0, int(v)
			}
			if err := c.decodePage(sc, k, page, int(v), int(first%elems), lo, hi, out, there); err != nil {
				if errors.Is(err, errIrregular) {
					return fmt.Errorf("%w: %w: rows do not all have the shape %v without nulls", ErrFormat, err, c.col.Shape)
				}
				return err
			}
			if !whole {
				copy(dst[(a-v0)*size:(z-v0)*size], out[(a-first)*size:(z-first)*size])
				copy(valid[a-v0:z-v0], there[a-first:z-first])
			}
		}
	}
	return nil
}

// Locations say where the rows of a column stand in the file.
type Locations struct {
	First   []int64 // first row of each page, and the number of rows at the end
	Offsets []int64 // where the values of each page start
}

// Locate gives the places of all rows of a column that maps. Header and levels of every page are checked first.
func (c *ColumnReader) Locate(ctx context.Context) (*Locations, error) {
	not := func(format string, args ...any) error {
		return fmt.Errorf("%w: %q: %s", ErrNotMapped, c.col.Name, fmt.Sprintf(format, args...))
	}
	switch {
	case c.col.Kind == catalog.Scalar && c.col.DType == catalog.String, c.col.Kind == catalog.List, c.col.Kind == catalog.Struct:
		return nil, not("text and ragged columns have no fixed bytes a row; read them in batches")
	case c.col.Kind == catalog.Scalar:
		return nil, not("scalars are compressed; read them in batches")
	case c.col.DType == catalog.Bool:
		return nil, not("bool is stored as runs; read it in batches")
	}
	sc := c.r.dec.pool.Get().(*scratch)
	defer c.r.dec.pool.Put(sc)
	out := &Locations{}
	for g := range c.chunks {
		k := &c.chunks[g]
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		state, err := c.load(k)
		if err != nil {
			return nil, err
		}
		if state != chunkDirect {
			m := &k.meta.Meta
			switch {
			case m.Codec != CompressNone:
				return nil, not("row group %d is compressed; read it in batches, or import with --compression none", g)
			case c.form.widened() && !k.identity:
				return nil, not("%s is stored as int32 in row group %d; import with layout: mapped", c.col.DType, g)
			}
			return nil, not("the pages of row group %d do not hold the values as they are in memory", g)
		}
		for p := range k.pages {
			v := k.values(p, k.meta.Meta.NumValues)
			prefix := int64(k.pages[p].size) - c.storedBytes(k, v)
			if !k.wasSeen(p) {
				b := grown(&sc.page, int(prefix))
				if err := c.r.readAt(b, k.pages[p].off); err != nil {
					return nil, err
				}
				if err := c.checkPrefix(sc, k, b, int(v)); err != nil {
					if errors.Is(err, errForeign) || errors.Is(err, errIrregular) {
						return nil, not("page %d of row group %d: %v", p, g, err)
					}
					return nil, fmt.Errorf("%s, page %d: %w", k.where, p, err)
				}
				k.setSeen(p)
			}
			out.First = append(out.First, k.first+k.pages[p].first/int64(c.levels.elems))
			out.Offsets = append(out.Offsets, k.pages[p].off+prefix)
		}
	}
	out.First = append(out.First, c.r.meta.NumRows)
	return out, nil
}
