package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"astropile/internal/catalog"
)

// writeForeign writes rows of a nested list column "x" and a struct "g" of two lists with the general writer.
// lengths gives the sides of row i.
func writeForeign(t testing.TB, rows, depth int, sides func(row, level int) int, value func(n int) float32, nullRow int, props ...parquet.WriterProperty) []byte {
	t.Helper()
	typ := arrow.DataType(arrow.PrimitiveTypes.Float32)
	for range depth {
		typ = arrow.ListOf(typ)
	}
	member := arrow.ListOf(arrow.PrimitiveTypes.Int16)
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: typ, Nullable: true},
		{Name: "g", Type: arrow.StructOf(arrow.Field{Name: "fixed", Type: member, Nullable: true}, arrow.Field{Name: "n", Type: arrow.PrimitiveTypes.Int32, Nullable: true}), Nullable: true}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	n := 0
	var fill func(bl array.Builder, row, level int)
	fill = func(bl array.Builder, row, level int) {
		if level == depth {
			bl.(*array.Float32Builder).Append(value(n))
			n++
			return
		}
		lb := bl.(*array.ListBuilder)
		if level == 0 && row == nullRow {
			lb.AppendNull()
			return
		}
		lb.Append(true)
		for range sides(row, level) {
			fill(lb.ValueBuilder(), row, level+1)
		}
	}
	for r := range rows {
		fill(b.Field(0), r, 0)
		s := b.Field(1).(*array.StructBuilder)
		s.Append(true)
		l := s.FieldBuilder(0).(*array.ListBuilder)
		l.Append(true)
		for k := range 3 {
			l.ValueBuilder().(*array.Int16Builder).Append(int16(r*3 + k))
		}
		s.FieldBuilder(1).(*array.Int32Builder).Append(int32(r))
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	var buf bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, struct{ *bytes.Buffer }{&buf}, parquet.NewWriterProperties(props...), pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestForeignTensorsGetTheirShapeFromTheLevels(t *testing.T) {
	box := []int{3, 4, 5}
	fixed := func(_, level int) int { return box[level] }
	r := rand.New(rand.NewPCG(1, 1))
	noise := make([]float32, 200*60)
	for i := range noise {
		noise[i] = r.Float32()
	}
	for _, c := range []struct {
		name  string
		props []parquet.WriterProperty
	}{
		{"dictionary and snappy", []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Snappy)}},
		{"plain", []parquet.WriterProperty{parquet.WithDictionaryDefault(false)}},
		{"plain, small pages, row groups", []parquet.WriterProperty{parquet.WithDictionaryDefault(false), parquet.WithDataPageSize(1000), parquet.WithBatchSize(16), parquet.WithMaxRowGroupLength(70)}},
		{"zstd, second version", []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDataPageVersion(parquet.DataPageV2), parquet.WithDataPageSize(4000), parquet.WithBatchSize(64)}},
		{"split streams", []parquet.WriterProperty{parquet.WithDictionaryDefault(false), parquet.WithEncoding(parquet.Encodings.ByteStreamSplit), parquet.WithCompression(compress.Codecs.Zstd)}},
		{"gzip", []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Gzip)}},
		{"brotli", []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Brotli)}},
		{"lz4", []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Lz4Raw)}},
		{"with a page index", []parquet.WriterProperty{parquet.WithDictionaryDefault(false), parquet.WithPageIndexEnabled(true), parquet.WithDataPageSize(1000), parquet.WithBatchSize(16)}},
		{"delta, by the general decoder", []parquet.WriterProperty{parquet.WithDictionaryDefault(false), parquet.WithEncodingFor("g.fixed.list.element", parquet.Encodings.DeltaBinaryPacked)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.HasPrefix(c.name, "split") {
				c.props = append(c.props, parquet.WithEncodingFor("g.n", parquet.Encodings.Plain), parquet.WithEncodingFor("g.fixed.list.element", parquet.Encodings.Plain))
			}
			b := writeForeign(t, 200, 3, fixed, func(n int) float32 { return noise[n] }, -1, c.props...)
			rd := openBytes(t, b, OpenOptions{}, true)
			want := []string{"x tensor [3 4 5] float32", "g_fixed tensor [3] int16", "g_n scalar [] int32"}
			for i, col := range rd.Columns() {
				if got := fmt.Sprintf("%s %s %v %s", col.Name, col.Kind, col.Shape, col.DType); i >= len(want) || got != want[i] {
					t.Errorf("column %d is %s", i, got)
				}
			}
			x, err := rd.Column("x")
			if err != nil {
				t.Fatal(err)
			}
			rows := picks(200, r)
			dst := make([]byte, len(rows)*240)
			if err := x.ReadRows(context.Background(), rows, dst); err != nil {
				t.Fatal(err)
			}
			for i, row := range rows {
				for k := range 60 {
					if got := math.Float32frombits(binary.LittleEndian.Uint32(dst[i*240+4*k:])); got != noise[row*60+int64(k)] {
						t.Fatalf("row %d, element %d is %v", row, k, got)
					}
				}
			}
			g, err := rd.Column("g_fixed")
			if err != nil {
				t.Fatal(err)
			}
			v, err := g.ReadVector(context.Background(), 10, 20)
			if err != nil || len(v.Data) != 60 || binary.LittleEndian.Uint16(v.Data) != 30 {
				t.Errorf("%v, %v", v, err)
			}
			n, err := rd.Column("g_n")
			if err != nil {
				t.Fatal(err)
			}
			if v, err = n.ReadVector(context.Background(), 5, 8); err != nil || v.Rows != 3 || v.Data[0] != 5 {
				t.Errorf("%v, %v", v, err)
			}
		})
	}
}

func TestForeignListsThatDifferInLengthAreRagged(t *testing.T) {
	b := writeForeign(t, 50, 1, func(row, _ int) int { return row % 4 }, func(n int) float32 { return float32(n) }, 7)
	r := openBytes(t, b, OpenOptions{}, false)
	c, err := r.Column("x")
	if err != nil {
		t.Fatal(err)
	}
	if c.Description().Kind != catalog.List {
		t.Fatalf("%+v", c.Description())
	}
	v, err := c.ReadVector(context.Background(), 4, 12)
	if err != nil {
		t.Fatal(err)
	}
	col := c.Description()
	if err := v.Check(&col); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range 12 {
		if i >= 4 {
			k := i - 4
			want := i % 4
			if i == 7 {
				want = 0
			}
			if v.Null(k) != (i == 7) || int(v.Offsets[k+1]-v.Offsets[k]) != want {
				t.Errorf("row %d: %d elements, null %v", i, v.Offsets[k+1]-v.Offsets[k], v.Null(k))
			}
			for e := v.Offsets[k]; e < v.Offsets[k+1]; e++ {
				if got := math.Float32frombits(binary.LittleEndian.Uint32(v.Data[4*e:])); got != float32(n+int(e-v.Offsets[k])) {
					t.Errorf("row %d holds %v", i, got)
				}
			}
		}
		if i != 7 {
			n += i % 4
		}
	}
}

func TestAShapeThatBreaksLaterIsAnErrorNotAValue(t *testing.T) {
	// As many elements in all as a box of 2 x 3 has, but rows 30 and 31 are 3 x 2 and 2 x 3 with other splits.
	sides := func(row, level int) int {
		if row == 30 {
			return []int{3, 2}[level]
		}
		return []int{2, 3}[level]
	}
	b := writeForeign(t, 60, 2, sides, func(n int) float32 { return float32(n) }, -1, parquet.WithDictionaryDefault(false), parquet.WithDataPageSize(100), parquet.WithBatchSize(6))
	r := openBytes(t, b, OpenOptions{}, false)
	c, err := r.Column("x")
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 24)
	if err := c.ReadRows(context.Background(), []int64{3}, dst); err != nil {
		t.Error(err)
	}
	if err := c.ReadRows(context.Background(), []int64{30}, dst); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("a row of another shape: %v", err)
	}
}

func TestNestedListsThatDifferAreSkippedByName(t *testing.T) {
	b := writeForeign(t, 20, 2, func(row, level int) int { return 1 + row%3 }, func(n int) float32 { return 1 }, -1)
	r := openBytes(t, b, OpenOptions{}, false)
	if _, err := r.Column("x"); !errors.Is(err, ErrColumn) || !strings.Contains(err.Error(), "differ in length") {
		t.Error(err)
	}
}

// sharedData is the folder of real files beside the project.
func sharedData(t *testing.T) string {
	if d := os.Getenv("ASTROPILE_SHARED"); d != "" {
		return d
	}
	d, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		if p := filepath.Join(d, "..", "shared", "data"); func() bool { _, err := os.Stat(p); return err == nil }() {
			return p
		}
		d = filepath.Dir(d)
	}
	t.Skip("no shared/data beside the project and ASTROPILE_SHARED is not set")
	return ""
}

func TestRealParquetFilesOpenAndRead(t *testing.T) {
	files, columns := 0, 0
	err := filepath.WalkDir(sharedData(t), func(p string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(p) != ".parquet" {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		r := openBytes(t, b, OpenOptions{}, true)
		files++
		for _, s := range r.Skipped() {
			if !strings.Contains(s.Why, "lists of groups") && !strings.Contains(s.Why, "physical type 3") {
				t.Errorf("%s: %s is skipped: %s", filepath.Base(p), s.Name, s.Why)
			}
		}
		for _, col := range r.Columns() {
			c, err := r.Column(col.Name)
			if err != nil {
				t.Errorf("%s: %v", p, err)
				continue
			}
			v, err := c.ReadVector(context.Background(), 0, min(r.Rows(), 2000))
			if err != nil {
				t.Errorf("%s: %s: %v", p, col.Name, err)
				continue
			}
			if err := v.Check(&col); err != nil {
				t.Errorf("%s: %v", p, err)
			}
			columns++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d columns of %d files", columns, files)
}
