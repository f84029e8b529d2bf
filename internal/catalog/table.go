package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/apache/arrow-go/v18/arrow/array"
)

// ErrDocument marks a document of a release that does not obey the format.
var ErrDocument = errors.New("catalog: document does not obey the format")

const (
	maxDocumentBytes = 4 << 30  // a table document is refused above this
	maxTableRows     = 64 << 20 // and above this many rows
	maxTablePage     = 64 << 20
	rowGroupRows     = 131072
	tableAllocFactor = 64 // decoded bytes at once, in multiples of the file's size, over a floor
	tableAllocFloor  = 64 << 20
	tableBatchRows   = 65536
)

func writerProps(created string, stats bool) *parquet.WriterProperties {
	return parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1),
		// No dictionaries: the encoder lists the encodings of a column that outgrew its dictionary in random order, and zstd does as well.
		parquet.WithDictionaryDefault(false), parquet.WithStats(stats), parquet.WithPageIndexEnabled(stats),
		parquet.WithMaxRowGroupLength(rowGroupRows), parquet.WithVersion(parquet.V2_LATEST), parquet.WithCreatedBy(created))
}

// tableSchema is the Arrow schema of scalar columns.
func tableSchema(cols []Column) (*arrow.Schema, error) {
	fields := make([]arrow.Field, len(cols))
	for i := range cols {
		t, err := ArrowElem(cols[i].DType)
		if err != nil {
			return nil, err
		}
		fields[i] = arrow.Field{Name: cols[i].Name, Type: t, Nullable: cols[i].Nullable}
		if cols[i].Unit != "" {
			fields[i].Metadata = arrow.NewMetadata([]string{"unit"}, []string{cols[i].Unit})
		}
	}
	return arrow.NewSchema(fields, nil), nil
}

// tableWriter writes batches of scalar columns as one Parquet file.
type tableWriter struct {
	cols   []Column
	schema *arrow.Schema
	w      *pqarrow.FileWriter
}

func newTableWriter(w io.Writer, cols []Column, schema *arrow.Schema, created string) (*tableWriter, error) {
	// The writer closes what it can close; the caller's file is the caller's.
	fw, err := pqarrow.NewFileWriter(schema, struct{ io.Writer }{w}, writerProps(created, true), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return nil, err
	}
	return &tableWriter{cols: cols, schema: schema, w: fw}, nil
}

func (t *tableWriter) writeArrays(arrs []arrow.Array, rows int) error {
	rec := array.NewRecordBatch(t.schema, arrs, int64(rows))
	defer rec.Release()
	return t.w.WriteBuffered(rec)
}

func (t *tableWriter) write(vs []*Vector, rows int) error {
	arrs := make([]arrow.Array, len(vs))
	for i, v := range vs {
		a, err := ArrowScalar(&t.cols[i], v)
		if err != nil {
			return err
		}
		defer a.Release()
		arrs[i] = a
	}
	return t.writeArrays(arrs, rows)
}

// writeColumn writes a column of the open row group, in arrays that text of any length fits.
func (t *tableWriter) writeColumn(i int, v *Vector) error {
	const step = 8192
	c := &t.cols[i]
	var arrs []arrow.Array
	defer func() {
		for _, a := range arrs {
			a.Release()
		}
	}()
	for lo := 0; lo < v.Rows; lo += step {
		a, err := ArrowScalar(c, v.Slice(c, lo, min(lo+step, v.Rows)))
		if err != nil {
			return err
		}
		arrs = append(arrs, a)
	}
	all := arrow.NewChunked(t.schema.Field(i).Type, arrs)
	defer all.Release()
	return t.w.WriteColumnChunked(all, 0, int64(v.Rows))
}

func (t *tableWriter) close() error { return t.w.Close() }

// boundedAlloc refuses what a document of its size cannot need.
type boundedAlloc struct {
	memory.Allocator
	limit int
}

var errAlloc = errors.New("asks for more memory than its size allows")

func (b boundedAlloc) Allocate(n int) []byte {
	if n > b.limit {
		panic(errAlloc)
	}
	return b.Allocator.Allocate(n)
}

func (b boundedAlloc) Reallocate(n int, p []byte) []byte {
	if n > b.limit {
		panic(errAlloc)
	}
	return b.Allocator.Reallocate(n, p)
}

// readTable reads the columns of the indexes given (nil: all) of a Parquet file of scalars, in batches. check sees the file's schema before any row is read.
func readTable(doc string, b []byte, cols []int, check func(*arrow.Schema) error, each func(arrow.RecordBatch) error) (err error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrDocument, doc, fmt.Sprintf(format, args...))
	}
	if len(b) > maxDocumentBytes {
		return bad("%d bytes, at most %d", len(b), int64(maxDocumentBytes))
	}
	if len(b) < 12 || string(b[:4]) != "PAR1" || string(b[len(b)-4:]) != "PAR1" {
		return bad("not a Parquet file (%d bytes)", len(b))
	}
	// The decoder is foreign and panics on some corrupt files.
	defer func() {
		if r := recover(); r != nil {
			err = bad("the Parquet decoder gave up: %v", r)
		}
	}()
	limit := max(tableAllocFloor, min(len(b)*tableAllocFactor, 1<<31-1))
	mem := boundedAlloc{memory.NewGoAllocator(), limit}
	props := parquet.NewReaderProperties(mem)
	props.MaxCompressedPageSize, props.MaxUncompressedPageSize = maxTablePage, maxTablePage
	pf, err := file.NewParquetReader(bytes.NewReader(b), file.WithReadProps(props))
	if err != nil {
		return bad("%v", err)
	}
	defer func() { _ = pf.Close() }()
	if n := pf.NumRows(); n < 0 || n > maxTableRows {
		return bad("%d rows, at most %d", n, maxTableRows)
	}
	fr, err := pqarrow.NewFileReader(pf, pqarrow.ArrowReadProperties{BatchSize: tableBatchRows}, mem)
	if err != nil {
		return bad("%v", err)
	}
	schema, err := fr.Schema()
	if err != nil {
		return bad("%v", err)
	}
	if err := check(schema); err != nil {
		return err
	}
	rr, err := fr.GetRecordReader(context.Background(), cols, nil)
	if err != nil {
		return bad("%v", err)
	}
	defer rr.Release()
	for rr.Next() {
		if err := each(rr.RecordBatch()); err != nil {
			return err
		}
	}
	if err := rr.Err(); err != nil && !errors.Is(err, io.EOF) {
		return bad("%v", err)
	}
	return nil
}

// sameSchema demands exactly the named columns, in order, of the types given.
func sameSchema(doc string, want *arrow.Schema) func(*arrow.Schema) error {
	return func(got *arrow.Schema) error {
		if got.NumFields() != want.NumFields() {
			return fmt.Errorf("%w: %s: %d columns, want %d", ErrDocument, doc, got.NumFields(), want.NumFields())
		}
		for i, f := range want.Fields() {
			g := got.Field(i)
			if g.Name != f.Name || !arrow.TypeEqual(g.Type, f.Type) {
				return fmt.Errorf("%w: %s: column %d is %s %s, want %s %s", ErrDocument, doc, i, g.Name, g.Type, f.Name, f.Type)
			}
		}
		return nil
	}
}
