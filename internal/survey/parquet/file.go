package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/parquet/metadata"

	"astropile/internal/catalog"
	"astropile/internal/shard"
	"astropile/internal/survey/table"
)

// Options say what the file alone does not.
type Options struct {
	// Cutout decodes an image that a binary value holds, of at most maxBytes once decoded. Nil: binary columns are refused.
	Cutout func(raw []byte, maxBytes int64) (dt catalog.DType, shape []int, data []byte, err error)
	// Shapes says, by source, what other inputs or a recipe know of lists: the shape of a row that is a tensor, or an
	// empty one for lists that vary in length, though here they may not. A struct's source says that its lists of numbers
	// are one struct of lists. The lengths of such sources are not searched, and checked when they are read.
	Shapes map[string][]int
	// Pad names binary sources whose images may be smaller than their column's shape, by source: they are filled up at the
	// end of each axis, with Request.Fill or NaN. Elsewhere images of several shapes are an error.
	Pad map[string]bool
}

// Table is an open Parquet file.
type Table struct {
	name   string
	file   io.ReaderAt
	close  func() error
	meta   *shard.FileMetaData
	first  []int64 // first row of each row group, and the number of rows
	rows   int64
	leaves []*leaf
	opt    Options
	fields []field
	known  []*lengths // by leaf
	open   []*cursor  // by leaf
	u      *unpacker
}

var _ table.Table = (*Table)(nil)

// Open opens the file and finds what it offers. ctx ends the search for shapes.
func Open(ctx context.Context, path string, opt Options) (table.Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = unsupported("not a regular file")
	}
	var t *Table
	if err == nil {
		t, err = open(ctx, f, info.Size(), path, opt)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	t.close = f.Close
	return t, nil
}

func open(ctx context.Context, r io.ReaderAt, size int64, name string, opt Options) (*Table, error) {
	t := &Table{name: name, file: r, opt: opt, close: func() error { return nil }, u: &unpacker{}}
	err := guarded(func() error {
		footer, err := readFooter(r, size)
		if err != nil {
			return err
		}
		if t.meta, err = shard.DecodeFileMetaData(footer); err != nil {
			return damaged("the footer: %v", err)
		}
		if t.meta.Encrypted {
			return unsupported("the file is encrypted")
		}
		md, err := metadata.NewFileMetaData(footer, nil)
		if err != nil {
			return damaged("the schema: %v", err)
		}
		nodes, leaves, err := schemaNodes(md.Schema.Root())
		if err != nil {
			return err
		}
		t.leaves = leaves
		addHints(t.meta, nodes)
		if err := t.checkGroups(size - int64(len(footer)) - 8); err != nil {
			return err
		}
		t.known, t.open = make([]*lengths, len(leaves)), make([]*cursor, len(leaves))
		return t.plan(ctx, nodes)
	})
	return t, err
}

const parMagic, encryptedMagic = "PAR1", "PARE"

func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	if size < 12 {
		return nil, damaged("%d bytes are no Parquet file", size)
	}
	var head [4]byte
	var tail [8]byte
	if _, err := r.ReadAt(head[:], 0); err != nil {
		return nil, err
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil {
		return nil, err
	}
	if m := string(tail[4:]); m == encryptedMagic || string(head[:]) == encryptedMagic {
		return nil, unsupported("the file is encrypted")
	} else if m != parMagic || string(head[:]) != parMagic {
		return nil, damaged("it does not begin and end with %s: cut short, or not Parquet", parMagic)
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if n > shard.MaxFooter {
		return nil, unsupported("a footer of %d bytes, at most %d MiB", n, shard.MaxFooter>>20)
	}
	if n > size-12 {
		return nil, damaged("a footer of %d bytes in a file of %d", n, size)
	}
	b := make([]byte, n)
	if _, err := r.ReadAt(b, size-8-n); err != nil {
		return nil, err
	}
	return b, nil
}

// checkGroups checks what the footer says of row groups against the schema and the file, whose data end at end.
func (t *Table) checkGroups(end int64) error {
	t.first = []int64{0}
	for g := range t.meta.RowGroups {
		rg := &t.meta.RowGroups[g]
		if rg.NumRows > 1<<40 {
			return damaged("row group %d: %d rows", g, rg.NumRows)
		}
		if len(rg.Columns) != len(t.leaves) {
			return damaged("row group %d: %d columns, the schema has %d", g, len(rg.Columns), len(t.leaves))
		}
		for i := range rg.Columns {
			c, l := &rg.Columns[i], t.leaves[i]
			lo, hi := chunkSpan(&c.Meta)
			switch {
			case c.Encrypted:
				return unsupported("row group %d, column %s: it is encrypted", g, l.path)
			case c.FilePath != "":
				return unsupported("row group %d, column %s: its data are in another file", g, l.path)
			case int32(c.Meta.Type) != int32(l.phys):
				return damaged("row group %d, column %s: physical type %d, the schema says %v", g, l.path, c.Meta.Type, l.phys)
			case rg.NumRows == 0 && c.Meta.NumValues == 0: // nothing is read of it
			case lo < 4 || hi < lo || hi > end:
				return damaged("row group %d, column %s: bytes %d to %d are not in the file's data, which end at %d", g, l.path, lo, hi, end)
			case c.Meta.NumValues < rg.NumRows || l.maxRep == 0 && c.Meta.NumValues != rg.NumRows:
				return damaged("row group %d, column %s: %d values in %d rows", g, l.path, c.Meta.NumValues, rg.NumRows)
			}
		}
		t.first = append(t.first, t.first[g]+rg.NumRows)
	}
	t.rows = t.first[len(t.first)-1]
	if t.rows != t.meta.NumRows {
		return damaged("%d rows in the row groups, the footer says %d", t.rows, t.meta.NumRows)
	}
	return nil
}

// Rows is the number of rows of all row groups.
func (t *Table) Rows() int64 { return t.rows }

// Fields lists what the file offers.
func (t *Table) Fields() []table.Field {
	out := make([]table.Field, len(t.fields))
	for i := range t.fields {
		out[i] = t.fields[i].Field
	}
	return out
}

// Grain is the rows of the first row group. Rows that are read front to back cost no more in smaller portions.
func (t *Table) Grain() int64 {
	if len(t.first) < 2 || t.first[1] == 0 {
		return 1
	}
	return t.first[1]
}

// RowBytes is what a row of all fields takes in memory, by the footer's counts.
func (t *Table) RowBytes() int64 {
	if t.rows == 0 {
		return 0
	}
	var total int64
	for i := range t.fields {
		f := &t.fields[i]
		if n := f.Column.RowBytes(); n > 0 {
			total += int64(n) * t.rows
			continue
		}
		for _, l := range f.leaves {
			for g := range t.meta.RowGroups {
				m := &t.meta.RowGroups[g].Columns[l.index].Meta
				if l.size > 0 {
					total += m.NumValues * int64(l.size)
				} else {
					total += m.TotalUncompressed + 8*m.NumValues
				}
			}
		}
	}
	return total/t.rows + 1
}

// Close closes the file.
func (t *Table) Close() error { return t.close() }

func (t *Table) newCursor(l *leaf) *cursor {
	return &cursor{r: t.file, meta: t.meta, first: t.first, l: l, u: t.u, group: -1, idle: *newSink(l)}
}
