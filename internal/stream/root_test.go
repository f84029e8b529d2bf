package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/shard"
	"astropile/internal/source"
)

// testRoot is a dataset on disk and all its rows in memory, in dense order.
type testRoot struct {
	dir     string
	cols    []catalog.Column
	vectors []*catalog.Vector // nil where the rows are not kept
	shards  []catalog.Shard
	rows    int
	ids     []string // of the releases
}

// part is the rows of one shard.
type part struct {
	vectors  []*catalog.Vector
	constant []string
	rows     int
}

func tensor(name string, d catalog.DType, shape ...int) catalog.Column {
	c := catalog.Column{Name: name, Kind: catalog.Tensor, DType: d, Shape: shape, Codec: catalog.None}
	c.Layout = shard.ChooseLayout(&c, shard.GroupRows(int64(c.RowBytes())))
	return c
}

func scalar(name string, d catalog.DType) catalog.Column {
	return catalog.Column{Name: name, Kind: catalog.Scalar, DType: d, Codec: catalog.Zstd}
}

// newRoot writes releases of the given shards, every release adding its own.
func newRoot(t testing.TB, cols []catalog.Column, keep bool, releases ...[]part) *testRoot {
	t.Helper()
	tr := &testRoot{dir: t.TempDir(), cols: catalog.FileOrder(cols)}
	if keep {
		for i := range tr.cols {
			tr.vectors = append(tr.vectors, catalog.NewVector(&tr.cols[i]))
		}
	}
	put := func(name string, b []byte) {
		p := filepath.Join(tr.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	parent := ""
	for n, parts := range releases {
		for i, p := range parts {
			tr.addShard(t, n+1, i, p)
			if keep {
				for k := range tr.cols {
					for r := 0; r < p.rows; r++ {
						tr.vectors[k].AppendRow(&tr.cols[k], p.vectors[k], r)
					}
				}
			}
		}
		man, err := catalog.EncodeManifest(tr.shards, "test")
		if err != nil {
			t.Fatal(err)
		}
		put(fmt.Sprintf("sky/releases/%d/manifest.parquet", n+1), man)
		rel := &catalog.Release{Number: n + 1, Parent: parent, Time: "2026-01-01T00:00:00Z", Message: "m", Tool: "test", Rows: int64(tr.rows),
			Files:   map[string]catalog.FileRef{"manifest.parquet": catalog.RefOf(man)},
			Dataset: catalog.Dataset{Format: catalog.FormatVersion, Name: "sky", Columns: tr.cols, ID: "id", ShardSize: 64 << 20, Expect: 1, Piece: 64 << 10, Digest: shard.DefaultDigest}}
		b, err := rel.Encode()
		if err != nil {
			t.Fatal(err)
		}
		put(fmt.Sprintf("sky/releases/%d/release.json", n+1), b)
		parent = catalog.ReleaseID(b)
		tr.ids = append(tr.ids, parent)
		latest, err := json.Marshal(catalog.Latest{Format: catalog.FormatVersion, Release: n + 1, ID: parent, Name: "sky"})
		if err != nil {
			t.Fatal(err)
		}
		put("latest.json", latest)
	}
	return tr
}

func (tr *testRoot) addShard(t testing.TB, release, i int, p part) {
	t.Helper()
	name := fmt.Sprintf("sky/dataset/part/%03d/%d.parquet", release, 1000+i)
	full := filepath.Join(tr.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(full)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	w, err := shard.NewWriter(f, shard.Spec{Columns: tr.cols, Constant: p.constant, Piece: 64 << 10, CreatedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	const step = 64
	for lo := 0; lo < p.rows; lo += step {
		hi := min(lo+step, p.rows)
		b := &catalog.Batch{Columns: tr.cols, Rows: hi - lo}
		for k := range tr.cols {
			b.Vectors = append(b.Vectors, p.vectors[k].Slice(&tr.cols[k], lo, hi))
		}
		if err := w.Write(context.Background(), b); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	tr.rows += p.rows
	tr.shards = append(tr.shards, catalog.Shard{Path: name, Role: catalog.Primary, Release: int32(release), Order: catalog.NoSky, Pix: catalog.NoSky, HpxMin: catalog.NoSky, HpxMax: catalog.NoSky,
		Rows: info.Rows, Bytes: info.Bytes, SHA256: info.SHA256, TailOffset: info.TailOffset, TailDigest: info.TailDigest})
}

func (tr *testRoot) open(t testing.TB, opt SetOptions) *Set {
	t.Helper()
	src, err := source.NewFile(tr.dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenSet(context.Background(), src, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// randomPart makes rows of any columns; first numbers the id.
func randomPart(cols []catalog.Column, rows, first int, seed uint64) part {
	r := rand.New(rand.NewPCG(seed, uint64(first)))
	p := part{rows: rows}
	for i := range cols {
		c := &cols[i]
		v := catalog.NewVector(c)
		for k := 0; k < rows; k++ {
			v.AppendRow(c, randomRow(c, r, first+k), 0)
		}
		p.vectors = append(p.vectors, v)
	}
	return p
}

func randomBytes(d catalog.DType, n int, r *rand.Rand) []byte {
	b := make([]byte, n*d.Size())
	for i := range b {
		if b[i] = byte(r.Uint32()); d == catalog.Bool {
			b[i] &= 1
		}
	}
	return b
}

func randomRow(c *catalog.Column, r *rand.Rand, id int) *catalog.Vector {
	v := &catalog.Vector{Rows: 1}
	null := c.Nullable && r.IntN(4) == 0
	if c.Nullable {
		v.Valid = []bool{!null}
	}
	list := func(c *catalog.Column, n int) *catalog.Vector {
		m := &catalog.Vector{Rows: 1, Offsets: []int64{0, int64(n)}}
		if c.DType != catalog.String {
			m.Data = randomBytes(c.DType, n, r)
			return m
		}
		m.StrOffsets = []int64{0}
		for range n {
			m.Data = append(m.Data, "héllo"[:1+r.IntN(2)*2]...)
			m.StrOffsets = append(m.StrOffsets, int64(len(m.Data)))
		}
		return m
	}
	n := r.IntN(5)
	if null {
		n = 0
	}
	switch {
	case c.Kind == catalog.Struct:
		for k := range c.Members {
			v.Members = append(v.Members, list(&c.Members[k], n))
		}
	case c.Kind == catalog.List:
		l := list(c, n)
		l.Valid = v.Valid
		return l
	case c.DType == catalog.String:
		if !null {
			v.Data = fmt.Appendf(nil, "%s-%d", c.Name, r.IntN(1000))
		}
		v.Offsets = []int64{0, int64(len(v.Data))}
	case c.Name == "id":
		v.Data = binary.LittleEndian.AppendUint64(nil, uint64(id))
	case null:
		v.Data = make([]byte, c.RowBytes())
	default:
		v.Data = randomBytes(c.DType, c.RowBytes()/c.DType.Size(), r)
	}
	return v
}

// vectorOf reads a section back out of a slot.
func vectorOf(c *catalog.Column, sec *Section, b []byte) *catalog.Vector {
	v := &catalog.Vector{Rows: sec.Rows}
	part := func(s Span) []byte { return b[s.Off : s.Off+s.Len] }
	ints := func(s Span) []int64 {
		var out []int64
		for p := part(s); len(p) > 0; p = p[8:] {
			out = append(out, int64(binary.LittleEndian.Uint64(p)))
		}
		return out
	}
	for _, x := range part(sec.Valid) {
		v.Valid = append(v.Valid, x == 1)
	}
	v.Data, v.Offsets, v.StrOffsets = part(sec.Values), ints(sec.Offsets), ints(sec.StrOffsets)
	if sec.Constant {
		v.Data = bytes.Repeat(v.Data, sec.Rows)
	}
	for k := range sec.Members {
		v.Members = append(v.Members, vectorOf(&c.Members[k], &sec.Members[k], b))
	}
	return v
}

// checkRows compares a filled slot with the rows it should hold.
func (tr *testRoot) checkRows(l *Layout, b []byte, rows []int64) error {
	if l.Rows != len(rows) || len(l.Columns) != len(tr.cols) {
		return fmt.Errorf("%d rows of %d columns, want %d of %d", l.Rows, len(l.Columns), len(rows), len(tr.cols))
	}
	for k := range tr.cols {
		c := &tr.cols[k]
		got := vectorOf(c, &l.Columns[k], b)
		if err := got.Check(c); err != nil {
			return err
		}
		x, y := catalog.NewVector(c), catalog.NewVector(c)
		for i, r := range rows {
			x.AppendRow(c, got, i)
			y.AppendRow(c, tr.vectors[k], int(r))
		}
		if err := sameRows(c, x, y); err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
	}
	return nil
}

func sameRows(c *catalog.Column, x, y *catalog.Vector) error {
	for i := 0; i < y.Rows; i++ {
		if x.Null(i) != y.Null(i) {
			return fmt.Errorf("row %d: null is %v", i, x.Null(i))
		}
	}
	if !bytes.Equal(x.Data, y.Data) || fmt.Sprint(x.Offsets, x.StrOffsets) != fmt.Sprint(y.Offsets, y.StrOffsets) {
		return fmt.Errorf("values differ")
	}
	for k := range x.Members {
		if err := sameRows(&c.Members[k], x.Members[k], y.Members[k]); err != nil {
			return fmt.Errorf("member %q: %w", c.Members[k].Name, err)
		}
	}
	return nil
}

// slots is a pool of a fixed number of slots that counts what is out.
type slots struct {
	free chan *Memory
	all  int
}

func newSlots(n int) *slots {
	p := &slots{free: make(chan *Memory, n), all: n}
	for range n {
		p.free <- &Memory{}
	}
	return p
}

func (p *slots) Acquire(ctx context.Context) (Slot, error) {
	select {
	case m := <-p.free:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *slots) Release(s Slot) { p.free <- s.(*Memory) }

func (p *slots) allBack() bool { return len(p.free) == p.all }
