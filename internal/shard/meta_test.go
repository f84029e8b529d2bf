package shard

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func fullMetaData() *FileMetaData {
	leafOf := func(name string, e SchemaElement) SchemaElement { e.Name = name; return e }
	return &FileMetaData{
		Version: 2, NumRows: 1 << 40, CreatedBy: "somebody", Orders: 2,
		Schema: []SchemaElement{
			{Name: "schema", Children: 3, Converted: ConvertedNone},
			leafOf("a", elementType("uint16")), leafOf("b", elementType("float16")),
			{Name: "l", Repetition: Optional, Children: 1, Converted: ConvertedList, Logical: LogicalList},
			{Name: "list", Repetition: Repeated, Children: 1, Converted: ConvertedNone}, leafOf("element", elementType("string")),
		},
		KeyValues: []KeyValue{{"k", "v"}, {"empty", ""}},
		RowGroups: []RowGroup{{NumRows: 7, TotalByteSize: 100, TotalCompressed: 90, FileOffset: 4, Ordinal: 3, Columns: []ColumnChunk{{
			FilePath: "x", OffsetIndexOffset: 5000, OffsetIndexLength: 40, ColumnIndexOffset: 6000, ColumnIndexLength: 50,
			Meta: ColumnMetaData{Type: TypeDouble, Encodings: []Encoding{EncPlain, EncRLE}, Path: []string{"l", "list", "element"}, Codec: CompressZstd, NumValues: 7,
				TotalUncompressed: 100, TotalCompressed: 90, DataPageOffset: 30, DictPageOffset: 4,
				Statistics:    &Statistics{Min: []byte{1, 2}, Max: []byte{3}, NullCount: 5, MinExact: true},
				EncodingStats: []EncodingStat{{PageData, EncPlain, 12}}, KeyValues: []KeyValue{{"c", "d"}}},
		}}}, {NumRows: 0}},
	}
}

func TestMetaDataComesBackAsItWasWritten(t *testing.T) {
	want := fullMetaData()
	got, err := DecodeFileMetaData(want.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	headers := []*PageHeader{
		{Type: PageData, UncompressedSize: 1 << 30, CompressedSize: 77, CRC: 0xdeadbeef, HasCRC: true, Data: &DataPageHeader{NumValues: 5, Encoding: EncRLEDictionary, DefEncoding: EncRLE, RepEncoding: EncRLE}},
		{Type: PageDataV2, UncompressedSize: 50, CompressedSize: 40, DataV2: &DataPageHeaderV2{NumValues: 9, NumNulls: 1, NumRows: 3, DefBytes: 4, RepBytes: 5}},
		{Type: PageDictionary, UncompressedSize: 8, CompressedSize: 8, HasCRC: true, Dictionary: &DictionaryPageHeader{NumValues: 2}},
	}
	for _, h := range headers {
		b := append(h.Append(nil), 1, 2, 3)
		got, n, err := DecodePageHeader(b)
		if err != nil || n != len(b)-3 || !reflect.DeepEqual(got, h) {
			t.Errorf("got %+v (%d bytes, %v), want %+v", got, n, err, h)
		}
	}
	x := &OffsetIndex{}
	for i := range 40 {
		x.Pages = append(x.Pages, PageLocation{Offset: int64(100 + 10*i), Size: 10, FirstRow: int64(i)})
	}
	if got, err := DecodeOffsetIndex(x.Encode()); err != nil || !reflect.DeepEqual(got, x) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestTruncatedMetaDataIsAnError(t *testing.T) {
	b := fullMetaData().Encode()
	for n := range len(b) {
		if _, err := DecodeFileMetaData(b[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("%d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := DecodeFileMetaData(append(b, 0)); !errors.Is(err, ErrFormat) {
		t.Fatalf("a byte too many: %v", err)
	}
}

func TestUnknownFieldsArePassedOver(t *testing.T) {
	w := &thriftWriter{}
	w.body(func() {
		w.field(-5, wireMap)
		w.b = append(w.b, 2, wireBinary<<4|wireTrue, 1, 'k', wireTrue, 0, wireFalse)
		w.list(1, wireStruct, 0)
		w.bool(40, true)
		w.field(41, wireDouble)
		w.b = append(w.b, make([]byte, 8)...)
		w.field(42, wireUUID)
		w.b = append(w.b, make([]byte, 16)...)
		w.list(43, wireTrue, 3)
		w.b = append(w.b, 1, 2, 1)
		w.structure(1000, func() { w.i16(3, -7); w.structure(9, func() { w.i8(1, 5) }) })
	})
	if x, err := DecodeOffsetIndex(w.b); err != nil || len(x.Pages) != 0 {
		t.Fatalf("%v, %v", x, err)
	}
}

func TestHostileMetaDataIsRefused(t *testing.T) {
	deep := func(n int) []byte { return append(bytes.Repeat([]byte{0x9c}, n), make([]byte, n+1)...) }
	for _, c := range []struct {
		name string
		b    []byte
		says string
	}{
		{"a list longer than its bytes", []byte{0x29, 0xfc, 0xff, 0xff, 0x03}, "elements"},
		{"a list of 2^63 elements", []byte{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, "elements"},
		{"text longer than its bytes", []byte{0x68, 0xff, 0xff, 0xff, 0xff, 0x0f, 'a'}, "announced"},
		{"an integer without an end", []byte{0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, "integer"},
		{"structs in structs", deep(1000), "nested"},
		{"lists in lists", append([]byte{0x99}, bytes.Repeat([]byte{0x19}, 1000)...), "nested"},
		{"a negative row count", []byte{0x36, 0x01, 0}, "size"},
		{"rows that are text", []byte{0x38, 0x01, 'a', 0}, "wire type"},
		{"nothing", nil, "ends early"},
		{"an empty struct", []byte{0}, "lacks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := DecodeFileMetaData(c.b)
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want an error that says %q", err, c.says)
			}
		})
	}
	back := &OffsetIndex{Pages: []PageLocation{{100, 10, 5}, {105, 10, 6}}}
	if _, err := DecodeOffsetIndex(back.Encode()); !errors.Is(err, ErrFormat) {
		t.Errorf("pages that overlap: %v", err)
	}
}

// A decoder takes memory in proportion to what it reads: the smallest element of a list that is accepted has the
// fields it must have.
func TestMetaDataTakesMemoryInProportion(t *testing.T) {
	w := &thriftWriter{}
	w.body(func() {
		w.i32(1, 1)
		w.list(2, wireStruct, 0)
		w.i64(3, 0)
		w.list(4, wireStruct, 1)
		w.body(func() {
			w.list(1, wireStruct, 60000)
			w.b = append(w.b, make([]byte, 60000)...) // 60,000 empty column chunks
		})
	})
	if _, err := DecodeFileMetaData(w.b); !errors.Is(err, ErrFormat) {
		t.Fatal(err)
	}
	n := testing.AllocsPerRun(3, func() { _, _ = DecodeFileMetaData(w.b) })
	if n > 100 {
		t.Errorf("%v allocations for a footer that is refused at its first column chunk", n)
	}
}

func FuzzFileMetaData(f *testing.F) {
	f.Add(fullMetaData().Encode())
	f.Add([]byte{0x15, 0x04, 0x19, 0x0c, 0x16, 0x00, 0x19, 0x0c, 0x00})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m *FileMetaData
		var err error
		boundAlloc(t, len(b), func() { m, err = DecodeFileMetaData(b) })
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatalf("%v", err)
			}
			return
		}
		again, err := DecodeFileMetaData(m.Encode())
		if err != nil {
			t.Fatalf("what was accepted and written again is refused: %v", err)
		}
		if fmt.Sprint(len(again.RowGroups), again.NumRows, len(again.Schema)) != fmt.Sprint(len(m.RowGroups), m.NumRows, len(m.Schema)) {
			t.Fatal("what was accepted changed when it was written again")
		}
	})
}

func FuzzOffsetIndex(f *testing.F) {
	f.Add((&OffsetIndex{Pages: []PageLocation{{4, 10, 0}, {14, 10, 3}}}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		var x *OffsetIndex
		var err error
		boundAlloc(t, len(b), func() { x, err = DecodeOffsetIndex(b) })
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if again, err := DecodeOffsetIndex(x.Encode()); err != nil || !reflect.DeepEqual(again, x) {
			t.Fatalf("%v, %v", again, err)
		}
	})
}

func FuzzPageHeader(f *testing.F) {
	f.Add((&PageHeader{Type: PageData, UncompressedSize: 9, CompressedSize: 9, HasCRC: true, Data: &DataPageHeader{NumValues: 5}}).Append(nil))
	f.Add((&PageHeader{Type: PageDataV2, UncompressedSize: 9, CompressedSize: 9, DataV2: &DataPageHeaderV2{NumValues: 5, NumRows: 2, DefBytes: 2, RepBytes: 3}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h *PageHeader
		var n int
		var err error
		boundAlloc(t, len(b), func() { h, n, err = DecodePageHeader(b) })
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if n > len(b) {
			t.Fatalf("a header of %d bytes in %d", n, len(b))
		}
		if again, _, err := DecodePageHeader(h.Append(nil)); err != nil || !reflect.DeepEqual(again, h) {
			t.Fatalf("%+v, %v, want %+v", again, err, h)
		}
	})
}

func FuzzUnits(f *testing.F) {
	f.Add(EncodeUnits([]Unit{{0, 100, [32]byte{1}}, {100, 250, [32]byte{2}}}), int64(250))
	f.Add("", int64(0))
	f.Fuzz(func(t *testing.T, s string, end int64) {
		var units []Unit
		var err error
		boundAlloc(t, len(s), func() { units, err = DecodeUnits(s, end) })
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		at := int64(0)
		for _, u := range units {
			if u.Start != at || u.End <= at || u.End > end {
				t.Fatalf("unit %+v follows byte %d; the tail begins at %d", u, at, end)
			}
			at = u.End
		}
		// A decoder of base64 passes over line breaks, which this encoder never writes.
		if got := EncodeUnits(units); got != strings.NewReplacer("\n", "", "\r", "").Replace(s) {
			t.Fatalf("%q comes back as %q", s, got)
		}
	})
}
