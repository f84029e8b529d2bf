package parquet

import (
	"bytes"
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"astropile/internal/survey/table"
)

// gaiaLike is a file of rows of about 1.5 kB: 130 scalars, most of them nullable, and two lists of 110 floats.
func gaiaLike(tb testing.TB, rows int, codec compress.Compression) []byte {
	tb.Helper()
	var fields []arrow.Field
	for i := range 130 {
		t := []arrow.DataType{arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float32, arrow.PrimitiveTypes.Int64, arrow.FixedWidthTypes.Boolean, arrow.PrimitiveTypes.Int16}[i%5]
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%03d", i), Type: t, Nullable: i > 1})
	}
	for _, name := range []string{"coeff", "coeff_error"} {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	x := uint64(1)
	next := func() uint64 { x = x*6364136223846793005 + 1442695040888963407; return x >> 33 }
	for i := range rows {
		for k := range 130 {
			null := k > 1 && k%4 == 0 && next()%20 == 0
			switch f := b.Field(k).(type) {
			case *array.Float64Builder:
				if null {
					f.AppendNull()
				} else {
					f.Append(float64(next()) / 7)
				}
			case *array.Float32Builder:
				f.Append(float32(next()) / 7)
			case *array.Int64Builder:
				f.Append(int64(next() % 1000))
			case *array.BooleanBuilder:
				f.Append(next()%3 == 0)
			case *array.Int16Builder:
				f.Append(int16(i))
			}
		}
		for k := 130; k < 132; k++ {
			l := b.Field(k).(*array.ListBuilder)
			l.Append(true)
			for range 110 {
				l.ValueBuilder().(*array.Float32Builder).Append(float32(next()) / 3)
			}
		}
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(rec.Schema(), &out, pq.NewWriterProperties(pq.WithCompression(codec)), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		tb.Fatal(err)
	}
	if err := w.WriteBuffered(rec); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// BenchmarkCatalogue reads rows as a catalogue of stars has them; bytes are those in memory.
func BenchmarkCatalogue(b *testing.B) {
	for _, codec := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Zstd} {
		file := gaiaLike(b, 20_000, codec)
		for _, step := range []int64{1024, 20_000} {
			b.Run(fmt.Sprintf("%v/%d rows", codec, step), func(b *testing.B) {
				before, total := processor(b), int64(0)
				for b.Loop() {
					t, err := open(context.Background(), bytes.NewReader(file), int64(len(file)), "bench", Options{Shapes: map[string][]int{"coeff": {110}, "coeff_error": {110}}})
					if err != nil {
						b.Fatal(err)
					}
					var want []table.Request
					size := int64(0)
					for i, f := range t.Fields() {
						want = append(want, table.Request{Field: i})
						size += int64(f.Column.RowBytes())
					}
					total += size * t.Rows()
					for lo := int64(0); lo < t.Rows(); lo += step {
						if _, err := t.Read(context.Background(), lo, min(t.Rows(), lo+step), want); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(total)/1e6/(processor(b)-before).Seconds(), "MB/cpu-s")
			})
		}
	}
}

// processor is the time that the process has spent on processors: others share the machine.
func processor(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
