package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"astropile/internal/catalog"
)

// irregularWriter writes the column chunks of scalars, text and ragged columns. arrow-go encodes a row group of them
// as a Parquet file in memory; its pages are taken over as they are, with a checksum in each header.
type irregularWriter struct {
	cols   []catalog.Column
	schema *arrow.Schema
	leaves []leaf
	props  *parquet.WriterProperties
	arrow  pqarrow.ArrowWriterProperties
	buf    bytes.Buffer
}

func newIrregularWriter(cols []catalog.Column, leaves []leaf) (*irregularWriter, error) {
	schema, err := ArrowSchema(cols)
	if err != nil {
		return nil, err
	}
	opts := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1),
		parquet.WithDataPageVersion(parquet.DataPageV1), parquet.WithVersion(parquet.V2_LATEST),
		parquet.WithDataPageSize(PageBytes), parquet.WithMaxRowGroupLength(1 << 40),
		parquet.WithDictionaryDefault(false), parquet.WithStats(false), parquet.WithPageIndexEnabled(true), // for the first row of every page
	}
	k := 0
	for i := range cols {
		c := &cols[i]
		members := c.Members
		if c.Kind != catalog.Struct {
			members = []catalog.Column{*c}
		}
		for m := range members {
			path := strings.Join(leaves[k].path, ".")
			k++
			if useDictionary(members[m].DType) {
				opts = append(opts, parquet.WithDictionaryFor(path, true), parquet.WithDictionaryCostFallbackFor(path, true))
			}
			if c.Kind == catalog.Scalar {
				opts = append(opts, parquet.WithStatsFor(path, true))
			}
		}
	}
	return &irregularWriter{cols: cols, schema: schema, leaves: leaves, props: parquet.NewWriterProperties(opts...), arrow: pqarrow.NewArrowWriterProperties()}, nil
}

// useDictionary says for which types a dictionary helps: text and integers repeat, measured numbers do not.
func useDictionary(d catalog.DType) bool {
	switch d {
	case catalog.Bool, catalog.Float16, catalog.Float32, catalog.Float64:
		return false
	}
	return true
}

// writeGroup appends the column chunks of a row group to b, whose first byte stands at base in the file.
func (w *irregularWriter) writeGroup(b []byte, base int64, vs []*catalog.Vector, rows int) ([]byte, []*chunkPages, error) {
	arrs := make([]arrow.Array, len(vs))
	for i, v := range vs {
		a, err := arrowArray(&w.cols[i], v)
		if err != nil {
			return nil, nil, err
		}
		defer a.Release()
		arrs[i] = a
	}
	rec := array.NewRecordBatch(w.schema, arrs, int64(rows))
	defer rec.Release()
	w.buf.Reset()
	fw, err := pqarrow.NewFileWriter(w.schema, struct{ io.Writer }{&w.buf}, w.props, w.arrow)
	if err != nil {
		return nil, nil, fmt.Errorf("shard: encode scalars and ragged columns: %w", err)
	}
	if err := fw.Write(rec); err != nil {
		return nil, nil, fmt.Errorf("shard: encode scalars and ragged columns: %w", err)
	}
	if err := fw.Close(); err != nil {
		return nil, nil, fmt.Errorf("shard: encode scalars and ragged columns: %w", err)
	}
	return w.splice(b, base, w.buf.Bytes(), rows)
}

// splice appends the column chunks of the one row group of a Parquet file.
func (w *irregularWriter) splice(b []byte, base int64, file []byte, rows int) ([]byte, []*chunkPages, error) {
	bad := func(format string, args ...any) ([]byte, []*chunkPages, error) {
		return nil, nil, fmt.Errorf("shard: the encoder of scalars and ragged columns gave a file that was not expected: %s", fmt.Sprintf(format, args...))
	}
	n := len(file)
	if n < 12 {
		return bad("%d bytes", n)
	}
	size := int(binary.LittleEndian.Uint32(file[n-8:]))
	if size > n-12 {
		return bad("a footer of %d bytes in %d", size, n)
	}
	meta, err := DecodeFileMetaData(file[n-8-size : n-8])
	if err != nil {
		return nil, nil, err
	}
	if len(meta.RowGroups) != 1 || meta.NumRows != int64(rows) || len(meta.RowGroups[0].Columns) != len(w.leaves) {
		return bad("%d row groups, %d rows", len(meta.RowGroups), meta.NumRows)
	}
	out := make([]*chunkPages, len(w.leaves))
	for k := range w.leaves {
		c := &meta.RowGroups[0].Columns[k]
		if !slices.Equal(c.Meta.Path, w.leaves[k].path) || c.Meta.Type != w.leaves[k].elem.Type {
			return bad("leaf %d is %v, want %v", k, c.Meta.Path, w.leaves[k].path)
		}
		if c.OffsetIndexOffset+int64(c.OffsetIndexLength) > int64(n) {
			return bad("an offset index outside of the file")
		}
		index, err := DecodeOffsetIndex(file[c.OffsetIndexOffset : c.OffsetIndexOffset+int64(c.OffsetIndexLength)])
		if err != nil {
			return nil, nil, err
		}
		if b, out[k], err = spliceChunk(b, base, file, c, index); err != nil {
			return nil, nil, err
		}
	}
	return b, out, nil
}

func spliceChunk(b []byte, base int64, file []byte, c *ColumnChunk, index *OffsetIndex) ([]byte, *chunkPages, error) {
	out := &chunkPages{}
	m := &out.chunk.Meta
	*m = c.Meta
	m.KeyValues, m.DataPageOffset, m.DictPageOffset = nil, 0, 0
	if s := c.Meta.Statistics; s != nil {
		kept := *s
		kept.Min, kept.Max = bytes.Clone(s.Min), bytes.Clone(s.Max)
		m.Statistics = &kept
	}
	from := c.Meta.DataPageOffset
	if d := c.Meta.DictPageOffset; d > 0 && d < from {
		from = d
	}
	end := from + c.Meta.TotalCompressed
	if from < 4 || end > int64(len(file)) {
		return nil, nil, fmt.Errorf("%w: a column chunk from byte %d to %d of %d", ErrFormat, from, end, len(file))
	}
	start, dict := len(b), 0
	for pos := from; pos < end; {
		h, size, err := DecodePageHeader(file[pos:end])
		if err != nil {
			return nil, nil, err
		}
		body := file[pos+int64(size) : end]
		if int64(h.CompressedSize) > int64(len(body)) {
			return nil, nil, fmt.Errorf("%w: a page of %d bytes, %d left", ErrFormat, h.CompressedSize, len(body))
		}
		body = body[:h.CompressedSize]
		h.CRC, h.HasCRC = crc32.ChecksumIEEE(body), true
		at := len(b)
		b = h.Append(b)
		m.TotalUncompressed += int64(len(b) - at - size)
		b = append(b, body...)
		fileAt := base + int64(at)
		switch {
		case h.Type == PageDictionary && at == start:
			m.DictPageOffset, dict = fileAt, len(b)-at
		case h.Type == PageData && len(out.pages) < len(index.Pages) && index.Pages[len(out.pages)].Offset == pos:
			if len(out.pages) == 0 {
				m.DataPageOffset = fileAt
			}
			out.pages = append(out.pages, PageLocation{Offset: fileAt, Size: int32(len(b) - at), FirstRow: index.Pages[len(out.pages)].FirstRow})
			out.items = append(out.items, len(b)-at+dict)
			dict = 0
		default:
			return nil, nil, fmt.Errorf("%w: a page of type %d that the offset index does not have", ErrFormat, h.Type)
		}
		pos += int64(size) + int64(len(body))
	}
	if len(out.pages) == 0 || len(out.pages) != len(index.Pages) {
		return nil, nil, fmt.Errorf("%w: %d pages, %d in the offset index", ErrFormat, len(out.pages), len(index.Pages))
	}
	m.TotalCompressed = int64(len(b) - start)
	return b, out, nil
}

// arrowArray shows rows of a scalar, text or ragged column as an Arrow array of its type in ArrowSchema.
func arrowArray(c *catalog.Column, v *catalog.Vector) (arrow.Array, error) {
	switch c.Kind {
	case catalog.Scalar:
		return catalog.ArrowScalar(c, v)
	case catalog.List:
		return arrowList(c, v)
	}
	field, err := arrowField(c)
	if err != nil {
		return nil, err
	}
	children := make([]arrow.ArrayData, len(c.Members))
	for k := range c.Members {
		member := *v.Members[k]
		member.Valid = nil // checked: null only where the group is, and empty there
		a, err := arrowList(&c.Members[k], &member)
		if err != nil {
			return nil, err
		}
		defer a.Release()
		children[k] = a.Data()
	}
	valid, nulls := catalog.ArrowValidity(v)
	d := array.NewData(field.Type, v.Rows, []*memory.Buffer{valid}, children, nulls, 0)
	defer d.Release()
	return array.MakeFromData(d), nil
}

// arrowList makes the array of a ragged column. Its elements are those of a scalar column whose rows are the elements.
func arrowList(c *catalog.Column, v *catalog.Vector) (arrow.Array, error) {
	field, err := arrowField(c)
	if err != nil {
		return nil, err
	}
	lo, hi := v.Offsets[0], v.Offsets[v.Rows]
	if hi-lo > 1<<31-1 {
		return nil, fmt.Errorf("%w: column %q has %d elements in a row group, at most 2^31-1", catalog.ErrVector, c.Name, hi-lo)
	}
	elems := &catalog.Vector{Rows: int(hi - lo)}
	if c.DType == catalog.String {
		elems.Data, elems.Offsets = v.Data, v.StrOffsets[lo:hi+1]
	} else {
		es := int64(c.DType.Size())
		elems.Data = v.Data[lo*es : hi*es]
	}
	child, err := catalog.ArrowScalar(&catalog.Column{Name: c.Name, Kind: catalog.Scalar, DType: c.DType}, elems)
	if err != nil {
		return nil, err
	}
	defer child.Release()
	offs := make([]byte, 0, 4*(v.Rows+1))
	for _, o := range v.Offsets[:v.Rows+1] {
		offs = binary.LittleEndian.AppendUint32(offs, uint32(o-lo))
	}
	valid, nulls := catalog.ArrowValidity(v)
	d := array.NewData(field.Type, v.Rows, []*memory.Buffer{valid, memory.NewBufferBytes(offs)}, []arrow.ArrayData{child.Data()}, nulls, 0)
	defer d.Release()
	return array.MakeFromData(d), nil
}

// writeContext ends an operation early where its context has ended.
func writeContext(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("shard: write: %w", err)
	}
	return nil
}
