package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func testDataset() Dataset {
	return Dataset{Format: 1, Name: "legacy.dr10", ID: "object_id", RA: "ra", Dec: "dec", ShardSize: 512 << 20, Expect: 1, Piece: 1 << 20, Digest: "sha256", Licence: "CC-BY-4.0", Citation: "Someone \"et al.\"\n2026 <é>",
		Columns: []Column{{Name: "object_id", Kind: Scalar, DType: String}, {Name: "ra", Kind: Scalar, DType: Float64, Unit: "deg"}, {Name: "dec", Kind: Scalar, DType: Float64, Unit: "deg"},
			{Name: "image_array", Kind: Tensor, DType: Float32, Shape: []int{4, 96, 96}, Layout: Plain, Codec: None}}}
}

func testShards(n int) []Shard {
	out := make([]Shard, n)
	for i := range out {
		order := int8(i % 8)
		pix := int64(i) % (12 << (2 * order))
		lo := pix << (2 * (29 - order))
		out[i] = Shard{Path: fmt.Sprintf("legacy.dr10/dataset/Norder=%d/Dir=0/Npix=%d/%012x.parquet", order, pix, i), Role: []string{Primary, Margin, IDs}[i%3], Release: int32(1 + i%4), Order: order, Pix: pix,
			HpxMin: lo, HpxMax: lo + 5, Rows: int64(1 + i), Bytes: 1 << 20, TailOffset: 1 << 19, SHA256: [32]byte{byte(i), 1}, TailDigest: [32]byte{byte(i), 2}}
		if i%5 == 4 {
			out[i].Order, out[i].Pix, out[i].HpxMin, out[i].HpxMax = NoSky, NoSky, NoSky, NoSky
		}
	}
	return out
}

func TestReleaseIsCanonicalAndReadsBack(t *testing.T) {
	r := &Release{Number: 2, Parent: strings.Repeat("ab", 32), Time: "2026-12-01T00:00:00Z", Message: "second", Tool: "astropile test", Files: map[string]FileRef{"manifest.parquet": RefOf([]byte("x")), "../1/rows-00000.parquet": RefOf(nil)}, Rows: 3, Bytes: 9, Dataset: testDataset()}
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(b, []byte(`{"bytes":9,"dataset":{"citation":"Someone \"et al.\"\n2026 <é>","columns":[{"codec":"","dtype":"string","layout":"","name":"object_id"`)) {
		t.Fatalf("not canonical: %s", b)
	}
	got, err := DecodeRelease(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := got.Encode()
	if err != nil || !bytes.Equal(again, b) {
		t.Fatalf("encoding twice differs: %v\n%s\n%s", err, b, again)
	}
	for name, edit := range map[string]func(*Release){
		"number":   func(r *Release) { r.Number = 0 },
		"parent":   func(r *Release) { r.Parent = "" },
		"time":     func(r *Release) { r.Time = "yesterday" },
		"manifest": func(r *Release) { delete(r.Files, "manifest.parquet") },
		"escape":   func(r *Release) { r.Files["../../x"] = RefOf(nil) },
		"format":   func(r *Release) { r.Dataset.Format = 2 },
		"id":       func(r *Release) { r.Dataset.ID = "nothing" },
		"piece":    func(r *Release) { r.Dataset.Piece = 3 << 20 },
		"name":     func(r *Release) { r.Dataset.Name = "../x" },
	} {
		x, err := DecodeRelease(b)
		if err != nil {
			t.Fatal(err)
		}
		edit(x)
		if _, err := x.Encode(); !errors.Is(err, ErrDocument) {
			t.Errorf("%s: a release that breaks the format was written: %v", name, err)
		}
	}
}

func TestManifestReadsBackSorted(t *testing.T) {
	in := testShards(100)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
	b, err := EncodeManifest(in, "test")
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	SortManifest(in)
	if !reflect.DeepEqual(got, in) {
		t.Fatal("the manifest read back differs")
	}
	in[3].Path = "a/../../b"
	if _, err := EncodeManifest(in, "test"); !errors.Is(err, ErrDocument) {
		t.Fatalf("a path that leaves the root was written: %v", err)
	}
}

func TestManifestSurvivesDamage(t *testing.T) {
	b, err := EncodeManifest(testShards(50), "test")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for i := 0; i < 400; i++ {
		x := bytes.Clone(b)
		if i%2 == 0 {
			x = x[:rng.IntN(len(x))]
		} else {
			x[rng.IntN(len(x))] ^= 1 << rng.IntN(8)
		}
		if _, err := DecodeManifest(x); err != nil && !errors.Is(err, ErrDocument) {
			t.Fatalf("damage %d: %v", i, err)
		}
	}
}

func FuzzManifest(f *testing.F) {
	b, err := EncodeManifest(testShards(20), "test")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := DecodeManifest(b)
		if err == nil {
			if _, err := EncodeManifest(s, "x"); err != nil {
				t.Fatalf("read but cannot be written: %v", err)
			}
		}
	})
}

func FuzzRelease(f *testing.F) {
	r := &Release{Number: 1, Time: "2026-12-01T00:00:00Z", Files: map[string]FileRef{"manifest.parquet": RefOf([]byte("x"))}, Dataset: testDataset()}
	b, err := r.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := DecodeRelease(b); err == nil {
			if _, err := r.Encode(); err != nil {
				t.Fatalf("read but cannot be written: %v", err)
			}
		}
	})
}

func TestRowsReadBackWithNullsAndStatsSkipNaN(t *testing.T) {
	cols := []Column{{Name: "id", Kind: Scalar, DType: String}, {Name: "z", Kind: Scalar, DType: Float32, Nullable: true}, {Name: "ok", Kind: Scalar, DType: Bool, Nullable: true}, {Name: "n", Kind: Scalar, DType: Uint64}, {Name: "h", Kind: Scalar, DType: Float16}}
	const rows = 1000
	vs := make([]*Vector, len(cols))
	for i := range cols {
		vs[i] = NewVector(&cols[i])
	}
	for i := 0; i < rows; i++ {
		vs[0].Data = append(vs[0].Data, fmt.Sprintf("obj-%d", i*i)...)
		vs[0].Offsets = append(vs[0].Offsets, int64(len(vs[0].Data)))
		z := float32(i) / 7
		if i%10 == 3 {
			z = float32(math.NaN())
		}
		vs[1].Data = le.AppendUint32(vs[1].Data, math.Float32bits(z))
		vs[1].Valid = append(vs[1].Valid, i%4 != 0)
		vs[2].Data = append(vs[2].Data, byte(i&1))
		vs[2].Valid = append(vs[2].Valid, i%3 != 0)
		vs[3].Data = le.AppendUint64(vs[3].Data, math.MaxUint64-uint64(i))
		vs[4].Data = le.AppendUint16(vs[4].Data, uint16(0x8000+i))
	}
	for i, v := range vs {
		v.Rows = rows
		for k, ok := range v.Valid {
			if !ok {
				clear(v.Data[k*cols[i].RowBytes() : (k+1)*cols[i].RowBytes()])
			}
		}
		if err := v.Check(&cols[i]); err != nil {
			t.Fatal(err)
		}
	}
	b, err := EncodeScalars(cols, vs, rows, "test")
	if err != nil {
		t.Fatal(err)
	}
	got, n, err := DecodeScalars("rows", b, cols)
	if err != nil || n != rows {
		t.Fatal(n, err)
	}
	for i := range vs {
		if !bytes.Equal(got[i].Data, vs[i].Data) || !reflect.DeepEqual(got[i].Valid, vs[i].Valid) || !reflect.DeepEqual(got[i].Offsets, vs[i].Offsets) {
			t.Errorf("column %s read back differs", cols[i].Name)
		}
	}
	st := Stats(cols, vs)
	sc := StatColumns(cols)
	if len(st) != len(sc) {
		t.Fatal(len(st), len(sc))
	}
	at := func(name string) *Vector {
		for i := range sc {
			if sc[i].Name == name {
				return st[i]
			}
		}
		t.Fatal(name)
		return nil
	}
	if got := string(at("id.max").Data); got != "obj-99856" {
		t.Error("id.max", got)
	}
	if got := math.Float32frombits(le.Uint32(at("z.max").Data)); got != float32(999)/7 {
		t.Error("z.max", got)
	}
	if n := le.Uint64(at("z.nulls").Data); n != 250 {
		t.Error("z.nulls", n)
	}
	if n := le.Uint64(at("z.nans").Data); n != 100 {
		t.Error("z.nans", n) // rows 3, 13, ...: odd, so none of them is null
	}
	if h := le.Uint16(at("h.min").Data); h != 0x8000+999 {
		t.Errorf("h.min %#x", h)
	}
	if v := at("n.min"); le.Uint64(v.Data) != math.MaxUint64-999 {
		t.Error("n.min", v.Data)
	}
}

func TestAppendRowKeepsEveryKind(t *testing.T) {
	cols := []Column{{Name: "s", Kind: Scalar, DType: String, Nullable: true}, {Name: "b", Kind: List, DType: String}, {Name: "lc", Kind: Struct, Members: []Column{{Name: "band", Kind: List, DType: String}, {Name: "t", Kind: List, DType: Float32}}}, {Name: "x", Kind: Tensor, DType: Int16, Shape: []int{2, 3}}}
	src := []*Vector{
		{Rows: 2, Data: []byte("abc"), Offsets: []int64{0, 3, 3}, Valid: []bool{true, false}},
		{Rows: 2, Data: []byte("grz"), Offsets: []int64{0, 1, 3}, StrOffsets: []int64{0, 1, 2, 3}},
		{Rows: 2, Members: []*Vector{{Rows: 2, Data: []byte("gri"), Offsets: []int64{0, 3, 3}, StrOffsets: []int64{0, 1, 2, 3}}, {Rows: 2, Data: make([]byte, 12), Offsets: []int64{0, 3, 3}}}},
		{Rows: 2, Data: bytes.Repeat([]byte{1, 2}, 12)},
	}
	for k := range cols {
		if err := src[k].Check(&cols[k]); err != nil {
			t.Fatal(err)
		}
		dst := NewVector(&cols[k])
		for _, i := range []int{1, 0, 1} {
			dst.AppendRow(&cols[k], src[k], i)
		}
		if err := dst.Check(&cols[k]); err != nil || dst.Rows != 3 {
			t.Fatalf("%s: %v", cols[k].Name, err)
		}
		if p, q := dst.Payload(&cols[k], 1), src[k].Payload(&cols[k], 0); p != q || p == 0 {
			t.Errorf("%s: payload %d, want %d", cols[k].Name, p, q)
		}
		one := dst.Slice(&cols[k], 1, 2)
		if one.Rows != 1 || one.Payload(&cols[k], 0) != src[k].Payload(&cols[k], 0) {
			t.Errorf("%s: a slice of a row differs", cols[k].Name)
		}
	}
}

func TestColumnsOutsideTheFormatAreRefusedByName(t *testing.T) {
	for name, c := range map[string]Column{
		"reserved":       {Name: "Npix", Kind: Scalar, DType: Int64},
		"dot":            {Name: "a.b", Kind: Scalar, DType: Int64},
		"null tensor":    {Name: "x", Kind: Tensor, DType: Float32, Shape: []int{3}, Nullable: true},
		"huge tensor":    {Name: "x", Kind: Tensor, DType: Float32, Shape: []int{1 << 13, 1 << 13}},
		"overflow":       {Name: "x", Kind: Tensor, DType: Float32, Shape: []int{1 << 26, 1 << 26, 1 << 26}},
		"text tensor":    {Name: "x", Kind: Tensor, DType: String, Shape: []int{3}},
		"unknown dtype":  {Name: "x", Kind: Scalar, DType: "float80"},
		"empty struct":   {Name: "x", Kind: Struct},
		"scalar members": {Name: "x", Kind: Struct, Members: []Column{{Name: "y", Kind: Scalar, DType: Int8}}},
	} {
		if err := c.Check(); !errors.Is(err, ErrColumn) || !strings.Contains(err.Error(), fmt.Sprintf("%q", c.Name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPieceSizeFollowsTheShardSize(t *testing.T) {
	for _, c := range []struct {
		size   int64
		expect int
		want   int64
	}{{512 << 20, 1, 1 << 20}, {512 << 20, 20, 64 << 10}, {1 << 20, 1, 64 << 10}, {8 << 30, 1, 4 << 20}, {512<<20 - 1, 1, 512 << 10}} {
		if got := PieceSize(c.size, c.expect); got != c.want {
			t.Errorf("PieceSize(%d, %d) = %d, want %d", c.size, c.expect, got, c.want)
		}
	}
}
