package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"astropile/internal/catalog"
)

// ErrColumn marks a column that the file does not have or that cannot be read; the text says which and why.
var ErrColumn = errors.New("shard: no such column")

// VectorReaderAt reads one run of a file into several buffers. A reader that offers it gets the rows of neighbouring
// pages with one call; it fills all buffers or gives an error.
type VectorReaderAt interface {
	ReadVectorAt(bufs [][]byte, off int64) (int, error)
}

// OpenOptions say what is known of a file before it is opened.
type OpenOptions struct {
	Tail     []byte           // the last bytes of the file, where they are at hand; saves reading them
	Own      bool             // reached through a manifest: astropile.* keys of the footer count
	Columns  []catalog.Column // what the release says the columns are; nil takes them from the file
	Decoder  *Decoder         // shared with other readers; nil makes one
	CheckCRC bool             // compare every page read with its CRC, where it has one
}

// Decoder holds what decoding needs beside the data, and may serve any number of readers at once.
type Decoder struct {
	zstd *zstd.Decoder
	pool sync.Pool // of *scratch
}

// NewDecoder makes a decoder for up to threads goroutines at once.
func NewDecoder(threads int) (*Decoder, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(max(threads, 1)), zstd.WithDecoderMaxMemory(maxPageBytes),
		zstd.WithDecodeAllCapLimit(true), zstd.IgnoreChecksum(false))
	if err != nil {
		return nil, err
	}
	return &Decoder{zstd: z, pool: sync.Pool{New: func() any { return new(scratch) }}}, nil
}

// scratch is the memory that one read needs beside its destination.
type scratch struct {
	head  pageHead
	bufs  [][]byte
	small []byte // headers and levels
	page  []byte // stored pages
	raw   []byte // decompressed pages
	vals  []byte // decoded values of a page that is taken in part
}

func grown(b *[]byte, n int) []byte {
	if cap(*b) < n {
		*b = make([]byte, n+n/4)
	}
	return (*b)[:n]
}

// GroupInfo is one row group.
type GroupInfo struct {
	First, Rows int64 // rows of the file
}

// Reader reads one shard, ours or anyone's Parquet file. It may be used from any number of goroutines, and owns
// nothing that needs closing.
type Reader struct {
	r        io.ReaderAt
	vec      VectorReaderAt
	size     int64
	meta     *FileMetaData
	groups   []GroupInfo
	fields   map[string]*field
	order    []string
	skipped  []Skipped
	constant map[string]bool
	tail     []byte
	tailAt   int64
	dec      *Decoder
	checkCRC bool
	own      bool

	foreign foreign
}

// maxFileRows bounds the rows of a file, so that counts of values fit 64 bits.
const maxFileRows = 1 << 36

// firstTail is how much of a file's end is read before anything is known of it.
const firstTail = 64 << 10

// Open reads the footer of a file of size bytes.
func Open(ctx context.Context, r io.ReaderAt, size int64, opt OpenOptions) (*Reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := &Reader{r: r, size: size, dec: opt.Decoder, checkCRC: opt.CheckCRC, own: opt.Own, fields: map[string]*field{}, constant: map[string]bool{}}
	d.vec, _ = r.(VectorReaderAt)
	if d.dec == nil {
		dec, err := NewDecoder(4)
		if err != nil {
			return nil, err
		}
		d.dec = dec
	}
	footer, err := d.readFooter(opt.Tail)
	if err != nil {
		return nil, err
	}
	if d.meta, err = DecodeFileMetaData(footer); err != nil {
		return nil, err
	}
	if d.meta.Encrypted {
		return nil, fmt.Errorf("%w: the file is encrypted", ErrFormat)
	}
	top, err := d.checkMeta()
	if err != nil {
		return nil, err
	}
	if d.own {
		if v, ok := d.meta.Value(KeyConstant); ok {
			names, err := DecodeConstant(v)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				d.constant[name] = true
			}
		}
	}
	cols := opt.Columns
	if cols == nil {
		cols = describedColumns(d.meta, top)
	}
	if cols == nil {
		inf := inferFields(top, d.guessDims)
		d.skipped = inf.skipped
		for _, f := range inf.fields {
			if d.fields[f.col.Name] != nil {
				d.skipped = append(d.skipped, Skipped{f.col.Name, "the name stands twice"})
				continue
			}
			d.fields[f.col.Name] = f
			d.order = append(d.order, f.col.Name)
		}
		return d, nil
	}
	byName := map[string]int{}
	for i := range top {
		byName[top[i].Name] = i
	}
	for i := range cols {
		k, ok := byName[cols[i].Name]
		if !ok {
			return nil, fmt.Errorf("%w: %q is not in the file", ErrColumn, cols[i].Name)
		}
		f, err := bindColumn(&cols[i], k, &top[k])
		if err != nil {
			return nil, err
		}
		d.fields[cols[i].Name] = f
		d.order = append(d.order, cols[i].Name)
	}
	return d, nil
}

// readFooter finds the footer and keeps the end of the file that was read on the way.
func (d *Reader) readFooter(tail []byte) ([]byte, error) {
	if d.size < 12 {
		return nil, fmt.Errorf("%w: %d bytes are no Parquet file", ErrFormat, d.size)
	}
	if int64(len(tail)) > d.size {
		return nil, fmt.Errorf("%w: a tail of %d bytes for a file of %d", ErrFormat, len(tail), d.size)
	}
	if len(tail) < 8 {
		tail = make([]byte, min(d.size, firstTail))
		if err := d.readAt(tail, d.size-int64(len(tail))); err != nil {
			return nil, err
		}
	}
	end := tail[len(tail)-8:]
	if !bytes.Equal(end[4:], []byte("PAR1")) {
		return nil, fmt.Errorf("%w: the file does not end as Parquet does (truncated?)", ErrFormat)
	}
	n := int64(binary.LittleEndian.Uint32(end))
	if n > MaxFooter || n+12 > d.size {
		return nil, fmt.Errorf("%w: a footer of %d bytes in a file of %d", ErrFormat, n, d.size)
	}
	if n+8 > int64(len(tail)) {
		tail = make([]byte, n+8)
		if err := d.readAt(tail, d.size-n-8); err != nil {
			return nil, err
		}
	}
	d.tail, d.tailAt = tail, d.size-int64(len(tail))
	return tail[int64(len(tail))-8-n : len(tail)-8], nil
}

// checkMeta checks that the footer fits itself and the file.
func (d *Reader) checkMeta() ([]schemaNode, error) {
	top, leaves, err := schemaTree(d.meta.Schema)
	if err != nil {
		return nil, err
	}
	if d.meta.NumRows > maxFileRows {
		return nil, fmt.Errorf("%w: %d rows in a file, at most %d", ErrFormat, d.meta.NumRows, int64(maxFileRows))
	}
	rows := int64(0)
	for g := range d.meta.RowGroups {
		rg := &d.meta.RowGroups[g]
		if len(rg.Columns) != leaves {
			return nil, fmt.Errorf("%w: row group %d has %d column chunks for %d leaves", ErrFormat, g, len(rg.Columns), leaves)
		}
		if rg.NumRows > d.meta.NumRows-rows {
			return nil, fmt.Errorf("%w: row groups hold more than the file's %d rows", ErrFormat, d.meta.NumRows)
		}
		for k := range rg.Columns {
			if err := d.checkChunk(&rg.Columns[k]); err != nil {
				return nil, fmt.Errorf("row group %d, leaf %d: %w", g, k, err)
			}
		}
		if rg.NumRows > 0 {
			d.groups = append(d.groups, GroupInfo{First: rows, Rows: rg.NumRows})
		} else if g < len(d.meta.RowGroups)-1 || rows > 0 {
			return nil, fmt.Errorf("%w: row group %d is empty", ErrFormat, g)
		}
		rows += rg.NumRows
	}
	if rows != d.meta.NumRows {
		return nil, fmt.Errorf("%w: row groups hold %d rows, the file says %d", ErrFormat, rows, d.meta.NumRows)
	}
	return top, nil
}

func (d *Reader) checkChunk(c *ColumnChunk) error {
	if c.Encrypted || c.FilePath != "" {
		return fmt.Errorf("%w: a column chunk that is encrypted or stands in another file", ErrFormat)
	}
	m := &c.Meta
	lo, hi := chunkSpan(m)
	if lo < 4 || hi < lo || hi > d.size {
		return fmt.Errorf("%w: a column chunk from byte %d to %d in a file of %d", ErrFormat, lo, hi, d.size)
	}
	if c.OffsetIndexOffset != 0 && (int64(c.OffsetIndexLength) > MaxOffsetIndex || c.OffsetIndexOffset > d.size-int64(c.OffsetIndexLength)) {
		return fmt.Errorf("%w: an offset index of %d bytes at byte %d in a file of %d", ErrFormat, c.OffsetIndexLength, c.OffsetIndexOffset, d.size)
	}
	return nil
}

// chunkSpan is where the pages of a column chunk stand.
func chunkSpan(m *ColumnMetaData) (lo, hi int64) {
	lo = m.DataPageOffset
	if m.DictPageOffset > 0 && m.DictPageOffset < lo {
		lo = m.DictPageOffset
	}
	if m.TotalCompressed > 1<<62 || lo > 1<<62 {
		return lo, -1
	}
	return lo, lo + m.TotalCompressed
}

// readAt fills b from the file or from the part of its end that is known.
func (d *Reader) readAt(b []byte, off int64) error {
	if off < 0 || off > d.size-int64(len(b)) {
		return fmt.Errorf("%w: bytes %d to %d are outside the file of %d", ErrFormat, off, off+int64(len(b)), d.size)
	}
	if off >= d.tailAt && d.tail != nil {
		copy(b, d.tail[off-d.tailAt:])
		return nil
	}
	if n, err := d.r.ReadAt(b, off); n < len(b) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("shard: %d bytes at byte %d: %w", len(b), off, err)
	}
	return nil
}

// readVec fills the buffers one after another from off on.
func (d *Reader) readVec(bufs [][]byte, off int64) error {
	if len(bufs) == 1 && (d.vec == nil || off >= d.tailAt) {
		return d.readAt(bufs[0], off)
	}
	if d.vec != nil {
		want := 0
		for _, b := range bufs {
			want += len(b)
		}
		if n, err := d.vec.ReadVectorAt(bufs, off); n < want {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("shard: %d bytes at byte %d: %w", want, off, err)
		}
		return nil
	}
	for _, b := range bufs {
		if err := d.readAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return nil
}

// Rows is the number of rows of the file.
func (d *Reader) Rows() int64 { return d.meta.NumRows }

// Groups are the row groups, none of them empty.
func (d *Reader) Groups() []GroupInfo { return d.groups }

// Columns describes the columns in file order.
func (d *Reader) Columns() []catalog.Column {
	out := make([]catalog.Column, len(d.order))
	for i, n := range d.order {
		out[i] = d.fields[n].col
	}
	return out
}

// Skipped lists the columns of a foreign file that are not read, and why.
func (d *Reader) Skipped() []Skipped { return d.skipped }

// Constant says whether all rows of the column are equal bit for bit, as the shard's own footer states.
func (d *Reader) Constant(name string) bool { return d.constant[name] }

// Footprint estimates the memory the reader holds, in bytes, without the page tables of its columns.
func (d *Reader) Footprint() int64 {
	n := int64(len(d.tail)) + 4096
	for i := range d.meta.RowGroups {
		n += 64 + 400*int64(len(d.meta.RowGroups[i].Columns))
	}
	return n
}
