package shard

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"astropile/internal/catalog"
)

// Metadata gathers the footers of shards of the same columns into one file without rows, Parquet's _metadata: a reader finds
// there which files and row groups there are, and their statistics, without opening any.
type Metadata struct {
	meta FileMetaData
}

// NewMetadata starts a _metadata for shards of the columns.
func NewMetadata(cols []catalog.Column, createdBy string) (*Metadata, error) {
	if err := checkFileColumns(cols); err != nil {
		return nil, err
	}
	s, err := ArrowSchema(cols)
	if err != nil {
		return nil, err
	}
	m := &Metadata{meta: FileMetaData{Version: parquetMajor, CreatedBy: createdBy, KeyValues: []KeyValue{{KeyArrowSchema, arrowSchemaValue(s)}}}}
	var leaves []leaf
	m.meta.Schema, leaves = parquetSchema(cols)
	m.meta.Orders = len(leaves)
	return m, nil
}

// Add takes in the row groups of a shard of size bytes that stands at path, relative to the folder of _metadata. The error wraps
// ErrFormat where its columns are others, or where all shards together have too many row groups or too large a footer.
func (m *Metadata) Add(ctx context.Context, path string, r io.ReaderAt, size int64) error {
	d, err := Open(ctx, r, size, OpenOptions{Own: true})
	if err != nil {
		return err
	}
	if !slices.Equal(d.meta.Schema, m.meta.Schema) {
		return fmt.Errorf("%w: %s has other columns than the shards it stands with", ErrFormat, path)
	}
	if len(m.meta.RowGroups)+len(d.meta.RowGroups) > maxGroups {
		return fmt.Errorf("%w: more than %d row groups in one _metadata", ErrFormat, maxGroups)
	}
	for _, g := range d.meta.RowGroups {
		g.Ordinal = int16(len(m.meta.RowGroups))
		g.Columns = slices.Clone(g.Columns)
		for i := range g.Columns {
			g.Columns[i].FilePath = path
		}
		m.meta.RowGroups = append(m.meta.RowGroups, g)
		m.meta.NumRows += g.NumRows
	}
	return nil
}

// Encode is the file.
func (m *Metadata) Encode() ([]byte, error) {
	footer := m.meta.Encode()
	if len(footer) > MaxFooter {
		return nil, fmt.Errorf("%w: a _metadata of %d bytes, at most %d", ErrFormat, len(footer), MaxFooter)
	}
	var b bytes.Buffer
	b.WriteString(magic)
	b.Write(closeFooter(footer))
	return b.Bytes(), nil
}
