package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"astropile/internal/catalog"
	"astropile/internal/shard"
	"astropile/internal/survey/table"
)

// assorted is a small file with columns of many kinds, written in one of several ways.
func assorted(tb testing.TB, way int) []byte {
	tb.Helper()
	text := arrow.BinaryTypes.String
	f32 := arrow.PrimitiveTypes.Float32
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64},
		{Name: "x", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
		{Name: "name", Type: text, Nullable: true},
		{Name: "flag", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "small", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "img", Type: arrow.ListOf(arrow.ListOf(f32))},
		{Name: "obs", Type: arrow.ListOf(arrow.StructOf(arrow.Field{Name: "t", Type: f32, Nullable: true}, arrow.Field{Name: "w", Type: text})), Nullable: true},
		{Name: "raw", Type: arrow.BinaryTypes.Binary, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	doc := `[`
	for i := range 40 {
		if i > 0 {
			doc += ","
		}
		obs := strings.TrimSuffix(strings.Repeat(`{"t": 1.5, "w": "ab"},`, i%4), ",")
		doc += `{"id": ` + string(rune('0'+i%10)) + `, "x": ` + []string{"null", "2.5"}[i%2] + `, "name": "n` + string(rune('a'+i%5)) + `", "flag": ` + []string{"null", "true", "false"}[i%3] +
			`, "small": 7, "img": [[1, 2], [3, 4]], "obs": ` + map[bool]string{true: "null", false: "[" + obs + "]"}[i%7 == 6] + `, "raw": "U0lNUExFICA9"}`
	}
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(doc+"]"))
	if err != nil {
		tb.Fatal(err)
	}
	defer rec.Release()
	codec := []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Zstd, compress.Codecs.Gzip, compress.Codecs.Brotli, compress.Codecs.Lz4Raw}[way%6]
	props := []pq.WriterProperty{pq.WithCompression(codec), pq.WithDataPageSize(64), pq.WithBatchSize(8), pq.WithMaxRowGroupLength(25)}
	if way%2 == 1 {
		props = append(props, pq.WithDataPageVersion(pq.DataPageV2))
	}
	if way%4 >= 2 {
		props = append(props, pq.WithDictionaryDefault(false), pq.WithEncodingFor("id", pq.Encodings.DeltaBinaryPacked), pq.WithEncodingFor("name", pq.Encodings.DeltaByteArray),
			pq.WithEncodingFor("x", pq.Encodings.ByteStreamSplit), pq.WithEncodingFor("raw", pq.Encodings.DeltaLengthByteArray))
	}
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &out, pq.NewWriterProperties(props...), pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		tb.Fatal(err)
	}
	if err := w.Write(rec); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

const assortedWays = 12

// fakeCutout stands in for the decoder of images.
func fakeCutout(raw []byte, _ int64) (catalog.DType, []int, []byte, error) {
	if len(raw) < 9 {
		return "", nil, nil, errors.New("short")
	}
	return catalog.Uint8, []int{3, 3}, raw[:9], nil
}

// tryAll opens a file and reads all of it; every vector has to keep its promises.
func tryAll(tb testing.TB, file []byte) error {
	tab, err := open(context.Background(), bytes.NewReader(file), int64(len(file)), "file", Options{Cutout: fakeCutout, Pad: map[string]bool{"raw": true}})
	if err != nil {
		return err
	}
	var errs []error
	fields := tab.Fields()
	rows := min(tab.Rows(), 5000)
	for i := range fields {
		if fields[i].Err != nil {
			errs = append(errs, fields[i].Err)
			continue
		}
		for lo := int64(0); lo < rows; lo += 1000 {
			hi := min(rows, lo+1000)
			v, err := tab.Read(context.Background(), lo, hi, []table.Request{{Field: i, Fill: fills(&fields[i])}})
			if err != nil {
				errs = append(errs, err)
				break
			}
			if err := v[0].Check(&fields[i].Column); err != nil {
				tb.Fatalf("%s: %v", fields[i].Source, err)
			}
			if v[0].Rows != int(hi-lo) {
				tb.Fatalf("%s: %d rows of %d", fields[i].Source, v[0].Rows, hi-lo)
			}
		}
	}
	return errors.Join(errs...)
}

func TestWholeFilesOfEveryWayRead(t *testing.T) {
	for way := range assortedWays {
		if err := tryAll(t, assorted(t, way)); err != nil {
			t.Errorf("way %d: %v", way, err)
		}
	}
}

func TestFilesThatAreCutShortAreRefused(t *testing.T) {
	for way := range assortedWays {
		file := assorted(t, way)
		for n := 0; n < len(file); n += 1 + n/40 {
			if err := tryAll(t, file[:n]); err == nil {
				t.Errorf("way %d: %d bytes of %d read without an error", way, n, len(file))
			}
			// A hole: the end is whole, and bytes before it are gone.
			if n > 4 {
				_ = tryAll(t, append(bytes.Clone(file[:4]), file[n:]...))
			}
		}
	}
}

func TestFlippedBytesGiveAnErrorOrValuesButNeverAPanic(t *testing.T) {
	for way := range assortedWays {
		file := assorted(t, way)
		for at := way; at < len(file); at += 23 {
			bad := bytes.Clone(file)
			bad[at] ^= byte(1 << (at % 8))
			_ = tryAll(t, bad)
			bad[at] = 0xff
			_ = tryAll(t, bad)
		}
	}
}

// edit decodes the footer of a file, changes it, and puts the file together again.
func edit(tb testing.TB, file []byte, change func(m *shard.FileMetaData)) []byte {
	tb.Helper()
	n := int(binary.LittleEndian.Uint32(file[len(file)-8:]))
	m, err := shard.DecodeFileMetaData(file[len(file)-8-n : len(file)-8])
	if err != nil {
		tb.Fatal(err)
	}
	change(m)
	footer := m.Encode()
	out := append(bytes.Clone(file[:len(file)-8-n]), footer...)
	return append(binary.LittleEndian.AppendUint32(out, uint32(len(footer))), parMagic...)
}

func TestHostileFootersAreRefusedByWhatIsWrong(t *testing.T) {
	file := assorted(t, 0)
	col := func(m *shard.FileMetaData) *shard.ColumnMetaData { return &m.RowGroups[0].Columns[0].Meta }
	for name, c := range map[string]struct {
		change func(m *shard.FileMetaData)
		want   string
	}{
		"rows that are not there":      {func(m *shard.FileMetaData) { m.NumRows = 1 << 50 }, "rows in the row groups"},
		"a row group of 2^60 rows":     {func(m *shard.FileMetaData) { m.RowGroups[0].NumRows = 1 << 60 }, "row group 0"},
		"values that are not there":    {func(m *shard.FileMetaData) { m.RowGroups[1].Columns[5].Meta.NumValues = 1 << 40 }, "row group 1"},
		"a chunk beyond the file":      {func(m *shard.FileMetaData) { col(m).DataPageOffset, col(m).DictPageOffset = 1<<40, 0 }, "column id"},
		"a chunk longer than the file": {func(m *shard.FileMetaData) { col(m).TotalCompressed = 1 << 50 }, "column id"},
		"an unknown codec":             {func(m *shard.FileMetaData) { col(m).Codec = 77 }, "codec"},
		"LZO":                          {func(m *shard.FileMetaData) { col(m).Codec = shard.CompressLZO }, "LZO"},
		"another file":                 {func(m *shard.FileMetaData) { m.RowGroups[0].Columns[0].FilePath = "../x" }, "another file"},
		"another type":                 {func(m *shard.FileMetaData) { col(m).Type = shard.TypeDouble }, "physical type"},
		"a column too few":             {func(m *shard.FileMetaData) { m.RowGroups[0].Columns = m.RowGroups[0].Columns[1:] }, "columns"},
		"no schema":                    {func(m *shard.FileMetaData) { m.Schema = m.Schema[:1] }, ""},
		"a schema without an end":      {func(m *shard.FileMetaData) { m.Schema[0].Children = 1 << 30 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := tryAll(t, edit(t, file, c.change))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	deep := edit(t, file, func(m *shard.FileMetaData) {
		top := m.Schema[0]
		top.Children = 1
		m.Schema = []shard.SchemaElement{top}
		for range 5000 {
			m.Schema = append(m.Schema, shard.SchemaElement{Name: "g", Children: 1, Converted: shard.ConvertedNone})
		}
		m.Schema = append(m.Schema, shard.SchemaElement{Name: "l", Leaf: true, Type: shard.TypeInt32, Converted: shard.ConvertedNone})
	})
	if err := tryAll(t, deep); err == nil {
		t.Error("a schema of 5000 levels reads")
	}
	if err := tryAll(t, append(bytes.Clone(file[:len(file)-4]), encryptedMagic...)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("an encrypted footer: %v", err)
	}
}

// TestDamagedPagesNameColumnAndRowGroup holds that what is wrong in a page is told with its place.
func TestDamagedPagesNameColumnAndRowGroup(t *testing.T) {
	for way := range assortedWays {
		file := assorted(t, way)
		bad := edit(t, file, func(m *shard.FileMetaData) {
			lo, hi := chunkSpan(&m.RowGroups[1].Columns[0].Meta)
			for i := lo; i < hi; i++ {
				file[i] = 0xee
			}
		})
		copy(bad, file[:len(file)/2])
		n := int(binary.LittleEndian.Uint32(file[len(file)-8:]))
		copy(bad[:len(file)-8-n], file)
		err := tryAll(t, bad)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "column id, row group 1") {
			t.Errorf("way %d: %v", way, err)
		}
	}
}

func TestChecksumsOfPagesAreVerified(t *testing.T) {
	file, _, _ := ours(t, 300)
	tab, err := open(context.Background(), bytes.NewReader(file), int64(len(file)), "shard", Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &tab.meta.RowGroups[0].Columns[len(tab.leaves)-3].Meta // floats, uncompressed: any bits are values
	_, hi := chunkSpan(m)
	if m.Codec != shard.CompressNone {
		t.Fatalf("codec %d", m.Codec)
	}
	file[hi-1] ^= 1
	if err := tryAll(t, file); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("error %v, want one about a checksum", err)
	}
}

// TestMemoryStaysWithTheBytesThatAreThere holds that no length alone makes the reader take memory.
func TestMemoryStaysWithTheBytesThatAreThere(t *testing.T) {
	file := assorted(t, 2)
	huge := edit(t, file, func(m *shard.FileMetaData) {
		m.RowGroups = m.RowGroups[:1]
		rg := &m.RowGroups[0]
		rg.NumRows = 1 << 39
		m.NumRows = rg.NumRows
		for i := range rg.Columns {
			rg.Columns[i].Meta.NumValues = 4 << 39
			if i < 5 || i == 8 {
				rg.Columns[i].Meta.NumValues = 1 << 39
			}
		}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tab, err := open(context.Background(), bytes.NewReader(huge), int64(len(huge)), "huge", Options{Shapes: map[string][]int{"img": {2, 2}, "obs": nil}})
	if err == nil {
		for i := range tab.Fields() {
			if _, err := tab.Read(context.Background(), 0, 1<<30, []table.Request{{Field: i}}); err == nil {
				t.Errorf("field %d reads", i)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 16*maxAhead {
		t.Errorf("%d MiB were taken for a file of %d bytes", n>>20, len(huge))
	}
}

func FuzzFile(f *testing.F) {
	for way := range assortedWays {
		f.Add(assorted(f, way))
	}
	file, _, _ := ours(f, 3)
	f.Add(file)
	f.Fuzz(func(t *testing.T, file []byte) {
		if len(file) < 1<<20 {
			_ = tryAll(t, file)
		}
	})
}

// FuzzPage decodes one page of values and levels: footers keep the fuzzer of whole files from getting this far often.
func FuzzPage(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 4}, byte(0), byte(4), uint16(8))
	f.Add(binary.AppendUvarint(nil, 128), byte(5), byte(0), uint16(8))
	f.Add([]byte("\x80\x01\x04\x05\x02\x00\x01\x00\x00\x00\x07\x07"), byte(6), byte(1), uint16(5))
	f.Add([]byte("\x80\x01\x04\x03\x00\x00\x00\x00\x00\x00\x80\x01\x04\x03\x02\x00\x00\x00\x00\x00abc"), byte(7), byte(1), uint16(3))
	f.Fuzz(func(t *testing.T, b []byte, enc, kind byte, n uint16) {
		l := []*leaf{{phys: pq.Types.Int32, width: 4, size: 4}, {phys: pq.Types.ByteArray}, {phys: pq.Types.Boolean, width: 1, size: 1},
			{phys: pq.Types.FixedLenByteArray, width: 3, size: 8, conv: bigEndian}, {phys: pq.Types.Int64, width: 8, size: 8}}[kind%5]
		var d dictionary
		if kind >= 128 {
			var err error
			if d, err = loadDictionary(l, b[:len(b)/2], int(n%64)); err != nil {
				return
			}
		}
		v, err := openValues(l, b, shard.Encoding(enc%10), int(n), &d)
		if err != nil {
			return
		}
		s := newSink(l)
		if err := v.take(s, int(n), &d); err != nil {
			return
		}
		if l.size > 0 && len(s.data) != int(n)*l.size || l.size == 0 && len(s.off) != int(n)+1 {
			t.Errorf("%d bytes, %d texts, of %d values", len(s.data), len(s.off)-1, n)
		}
	})
}
