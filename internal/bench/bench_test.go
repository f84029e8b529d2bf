package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/shard"
	"astropile/internal/stream"
)

const testRows = 300

// testRoot writes a dataset of two shards with a tensor column "x" of 64 KiB a row, and gives the digest of its values.
func testRoot(t *testing.T, dtype catalog.DType, codec catalog.Codec) (string, digest) {
	t.Helper()
	dir := t.TempDir()
	x := catalog.Column{Name: "x", Kind: catalog.Tensor, DType: dtype, Shape: []int{4, 64, 256 / dtype.Size()}, Codec: codec}
	x.Layout = shard.ChooseLayout(&x, shard.GroupRows(int64(x.RowBytes())))
	cols := catalog.FileOrder([]catalog.Column{{Name: "id", Kind: catalog.Scalar, DType: catalog.Int64, Codec: catalog.Zstd}, x})
	rng := rand.New(rand.NewPCG(1, 1))
	var sum digest
	var shards []catalog.Shard
	for i, rows := range []int{testRows / 3, testRows - testRows/3} {
		id := &catalog.Vector{Rows: rows, Data: make([]byte, 8*rows)}
		v := &catalog.Vector{Rows: rows, Data: make([]byte, rows*x.RowBytes())}
		for k := 0; k < len(v.Data); k += 4 {
			binary.LittleEndian.PutUint32(v.Data[k:], 0x3f800000|rng.Uint32()>>16)
		}
		sum.add(v.Data, x.RowBytes())
		name := []string{"sky/dataset/a/1.parquet", "sky/dataset/b/2.parquet"}[i]
		var file bytes.Buffer
		w, err := shard.NewWriter(&file, shard.Spec{Columns: cols, Piece: 64 << 10, CreatedBy: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), &catalog.Batch{Columns: cols, Rows: rows, Vectors: []*catalog.Vector{id, v}}); err != nil {
			t.Fatal(err)
		}
		info, err := w.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, name, file.Bytes())
		shards = append(shards, catalog.Shard{Path: name, Role: catalog.Primary, Release: 1, Order: catalog.NoSky, Pix: catalog.NoSky, HpxMin: catalog.NoSky, HpxMax: catalog.NoSky,
			Rows: info.Rows, Bytes: info.Bytes, SHA256: info.SHA256, TailOffset: info.TailOffset, TailDigest: info.TailDigest})
	}
	manifest, err := catalog.EncodeManifest(shards, "test")
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "sky/releases/1/manifest.parquet", manifest)
	rel := &catalog.Release{Number: 1, Time: "2026-01-01T00:00:00Z", Message: "m", Tool: "test", Rows: testRows,
		Files:   map[string]catalog.FileRef{"manifest.parquet": catalog.RefOf(manifest)},
		Dataset: catalog.Dataset{Format: catalog.FormatVersion, Name: "sky", Columns: cols, ID: "id", ShardSize: 64 << 20, Expect: 1, Piece: 64 << 10, Digest: shard.DefaultDigest}}
	b, err := rel.Encode()
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "sky/releases/1/release.json", b)
	latest, err := json.Marshal(catalog.Latest{Format: catalog.FormatVersion, Release: 1, ID: catalog.ReleaseID(b), Name: "sky"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "latest.json", latest)
	return dir, sum
}

func put(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func options(root string) Options {
	return Options{Root: root, Column: "x", Threads: 2, Batch: 32, Slots: 3, Passes: 2}
}

type cell func(context.Context, Options) (*Result, error)

func streamed(mode stream.Mode) cell {
	return func(ctx context.Context, o Options) (*Result, error) { return Stream(ctx, o, mode) }
}

func TestCellsThatReadEveryRowAgreeOnItsValues(t *testing.T) {
	for name, c := range map[string]struct {
		dtype catalog.DType
		codec catalog.Codec
		cells map[string]cell
	}{
		"float32 as it is":  {catalog.Float32, catalog.None, map[string]cell{"rows": Rows, "in order": streamed(stream.Off), "shuffled": streamed(stream.Blocks)}},
		"uint8 as it is":    {catalog.Uint8, catalog.None, map[string]cell{"rows": Rows, "in order": streamed(stream.Off)}},
		"float32 with zstd": {catalog.Float32, catalog.Zstd, map[string]cell{"in order": streamed(stream.Off)}},
	} {
		t.Run(name, func(t *testing.T) {
			root, want := testRoot(t, c.dtype, c.codec)
			for name, run := range c.cells {
				o := options(root)
				o.Check = true
				r, err := run(t.Context(), o)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if r.Rows != testRows || *r.Sum != want.sum || *r.Digest != want.rows {
					t.Errorf("%s: %d rows, sum %x, digest %x; want %d, %x, %x", name, r.Rows, *r.Sum, *r.Digest, testRows, want.sum, want.rows)
				}
			}
		})
	}
}

func TestSingleRowsAreTheSameReadRawAndThroughTheReader(t *testing.T) {
	root, _ := testRoot(t, catalog.Float32, catalog.None)
	o := options(root)
	o.Check, o.Seed = true, 5
	raw, err := RawSingles(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	own, err := Singles(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if raw.Rows != testRows || own.Rows != raw.Rows || *own.Digest != *raw.Digest || *own.Sum != *raw.Sum {
		t.Errorf("raw: %d rows, digest %x; reader: %d rows, digest %x", raw.Rows, *raw.Digest, own.Rows, *own.Digest)
	}
}

func TestTheDigestSeesARowWhoseValuesStandElsewhere(t *testing.T) {
	row := []byte("0123456789abcdefghijklmnopqrstuv")
	swapped := append(append([]byte{}, row[8:]...), row[:8]...)
	var a, b, c digest
	a.add(append(append([]byte{}, row...), swapped...), len(row))
	b.add(append(append([]byte{}, swapped...), row...), len(row))
	c.add(append(append([]byte{}, row...), row...), len(row))
	if a != b {
		t.Errorf("the order of rows counts: %v, %v", a, b)
	}
	if a.sum != c.sum || a.rows == c.rows {
		t.Errorf("the order inside a row does not count: %v, %v", a, c)
	}
}

func TestRatesComeFromAllPasses(t *testing.T) {
	root, _ := testRoot(t, catalog.Float32, catalog.Zstd)
	for name, run := range map[string]cell{"blocks": Blocks, "codec": Codec} {
		r, err := run(t.Context(), options(root))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(r.Seconds) != 2 || r.GBs <= 0 || r.Peak <= 0 || r.Sum != nil {
			t.Errorf("%s: %+v", name, r)
		}
		if name == "codec" && (r.Bytes != testRows*64<<10 || r.GBs >= r.DecodeGBs || r.GBs >= r.ReadGBs) {
			t.Errorf("codec: %+v", r)
		}
	}
}

func TestPayloadCountsFixedColumns(t *testing.T) {
	root, _ := testRoot(t, catalog.Float32, catalog.None)
	r, err := Payload(t.Context(), options(root))
	if err != nil {
		t.Fatal(err)
	}
	if r.Payload != testRows*(64<<10+8) || r.Stored <= r.Payload {
		t.Errorf("payload %d of %d bytes", r.Payload, r.Stored)
	}
}

func TestCellsRefuseWhatTheyCannotMeasure(t *testing.T) {
	root, _ := testRoot(t, catalog.Float32, catalog.None)
	for name, f := range map[string]func() error{
		"a scalar":             func() error { o := options(root); o.Column = "id"; _, err := Blocks(t.Context(), o); return err },
		"no threads":           func() error { o := options(root); o.Threads = 0; _, err := Blocks(t.Context(), o); return err },
		"no compression":       func() error { _, err := Codec(t.Context(), options(root)); return err },
		"slabs without height": func() error { _, err := Slabs(t.Context(), options(root), 5, 0, 8, nil); return err },
	} {
		if err := f(); !errors.Is(err, ErrCell) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// everyVector is five rows of every kind of column, the same for every call.
func everyVector(lo, hi int64) *catalog.Batch {
	cols := []catalog.Column{
		{Name: "t", Kind: catalog.Tensor, DType: catalog.Float32, Shape: []int{2}},
		{Name: "s", Kind: catalog.Scalar, DType: catalog.String},
		{Name: "l", Kind: catalog.List, DType: catalog.Int16},
		{Name: "w", Kind: catalog.List, DType: catalog.String},
		{Name: "g", Kind: catalog.Struct, Members: []catalog.Column{{Name: "m", Kind: catalog.List, DType: catalog.Float64}}},
	}
	n := int(hi - lo)
	t, s, l, w, m := &catalog.Vector{Rows: n}, &catalog.Vector{Rows: n, Offsets: []int64{0}}, &catalog.Vector{Rows: n, Offsets: []int64{0}}, &catalog.Vector{Rows: n, Offsets: []int64{0}, StrOffsets: []int64{0}}, &catalog.Vector{Rows: n, Offsets: []int64{0}}
	for i := lo; i < hi; i++ {
		text := strings.Repeat("x", int(i))
		t.Data = binary.LittleEndian.AppendUint64(t.Data, uint64(i)*77)
		s.Data = append(s.Data, text...)
		s.Offsets = append(s.Offsets, int64(len(s.Data)))
		for k := range i {
			l.Data = append(l.Data, byte(k), byte(i))
			w.Data = append(w.Data, text...)
			w.StrOffsets = append(w.StrOffsets, int64(len(w.Data)))
			m.Data = binary.LittleEndian.AppendUint64(m.Data, uint64(k+i))
		}
		l.Offsets = append(l.Offsets, int64(len(l.Data)/2))
		w.Offsets = append(w.Offsets, int64(len(w.StrOffsets)-1))
		m.Offsets = append(m.Offsets, int64(len(m.Data)/8))
	}
	return &catalog.Batch{Columns: cols, Vectors: []*catalog.Vector{t, s, l, w, {Rows: n, Members: []*catalog.Vector{m}}}, Rows: n}
}

func TestAColumnsDigestDoesNotDependOnItsRuns(t *testing.T) {
	o := Options{Threads: 1, Batch: 1, Slots: 1, Passes: 2, Check: true}
	var want digest
	for i := range 7 {
		// What a program that reads one row at a time would do.
		b := everyVector(int64(i), int64(i)+1)
		for _, data := range [][]byte{b.Vectors[0].Data, b.Vectors[1].Data, b.Vectors[2].Data, b.Vectors[3].Data, b.Vectors[4].Members[0].Data} {
			want.rows += uint64(crc32.ChecksumIEEE(data))
		}
	}
	for step := int64(1); step < 9; step++ {
		r, err := Columns(t.Context(), o, 7, step, func(_ context.Context, lo, hi int64) (*catalog.Batch, error) { return everyVector(lo, hi), nil })
		if err != nil {
			t.Fatal(err)
		}
		if r.Rows != 7 || r.Bytes != 7*8+21+2*21+91+8*21 || *r.Digest != want.rows {
			t.Errorf("runs of %d: %+v, digest %d, want %d", step, r, *r.Digest, want.rows)
		}
	}
	short := func(_ context.Context, lo, hi int64) (*catalog.Batch, error) { return everyVector(lo, hi-1), nil }
	if _, err := Columns(t.Context(), o, 7, 2, short); !errors.Is(err, ErrCell) {
		t.Errorf("a row too few: %v", err)
	}
}

func TestTheDefaultsMixAsWellAsRandomRows(t *testing.T) {
	if testing.Short() {
		t.Skip("walks eight million positions")
	}
	r, err := ShuffleQuality(context.Background(), Options{Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	if r.H256 < 1 || r.H256 > 1.1 || r.H1024 < 1 || r.H1024 > 1.1 {
		t.Errorf("variance over that of random rows: %.3f over 256 rows and %.3f over 1,024, at most 1.1", r.H256, r.H1024)
	}
	if r.H16384 < r.H4096 || r.H4096 < r.H1024 {
		t.Errorf("%.3f, %.3f, %.3f: longer runs see more of a block", r.H1024, r.H4096, r.H16384)
	}
}

func TestAReleaseOfABillionRowsOpensByItsDocumentsAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a manifest of 100,000 shards")
	}
	r, err := Seek(context.Background(), Options{Root: t.TempDir(), Threads: 1, Batch: 256})
	if err != nil {
		t.Fatal(err)
	}
	if r.Rows != 1e9 {
		t.Errorf("%d rows", r.Rows)
	}
}

func TestTheFilterWantsTheShareThatItsPredicateKeeps(t *testing.T) {
	o := Options{Root: t.TempDir(), Threads: 2, Batch: 1, Slots: 1, Passes: 3}
	for _, share := range []float64{0.0760, 0.5} {
		var asked []string
		r, err := filter(context.Background(), o, 300_000, func(_ context.Context, root string, rel *catalog.Release, shards []catalog.Shard, where, kept string, threads int) (uint64, error) {
			asked = append(asked, where)
			if _, err := os.Stat(filepath.Join(root, "sky", "releases", "1", "rows-00000.parquet")); err != nil || rel.Rows != 300_000 || shards[0].Rows != rel.Rows || threads != 2 {
				t.Errorf("%v, %+v", err, rel)
			}
			return uint64(share * 300_000), nil
		})
		if share == 0.5 {
			if !errors.Is(err, ErrCell) {
				t.Errorf("half of the rows: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Rows != 300_000 || len(r.Seconds) != 3 || len(asked) != 3 || asked[0] == asked[1] {
			t.Errorf("%+v, %q", r, asked)
		}
	}
}
