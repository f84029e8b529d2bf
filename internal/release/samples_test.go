package release

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"astropile/internal/catalog"
)

// object is one row of a survey made for a test; the rest of its values follows from the id.
type object struct {
	id      string
	ra, dec float64
}

// file is one input of a survey made for a test. bad is what reading it fails with.
type file struct {
	name    string
	objects []object
	bad     error
	opened  atomic.Int32
}

const sampleSide = 8 // of the image of a row

func sampleColumns() []catalog.Column {
	return []catalog.Column{
		{Name: "object_id", Kind: catalog.Scalar, DType: catalog.String},
		{Name: "ra", Kind: catalog.Scalar, DType: catalog.Float64, Unit: "deg"},
		{Name: "dec", Kind: catalog.Scalar, DType: catalog.Float64, Unit: "deg"},
		{Name: "z", Kind: catalog.Scalar, DType: catalog.Float32, Nullable: true},
		{Name: "lightcurve", Kind: catalog.Struct, Members: []catalog.Column{
			{Name: "band", Kind: catalog.List, DType: catalog.String}, {Name: "flux", Kind: catalog.List, DType: catalog.Float32}}},
		{Name: "image", Kind: catalog.Tensor, DType: catalog.Float32, Shape: []int{sampleSide, sampleSide}, Unit: "nanomaggy"},
		{Name: "rgb", Kind: catalog.Tensor, DType: catalog.Uint8, Shape: []int{3, 4}},
		{Name: "wave", Kind: catalog.Tensor, DType: catalog.Float32, Shape: []int{16}},
	}
}

// sampleRow is about what a row weighs before encoding.
const sampleRow = sampleSide*sampleSide*4 + 12 + 64 + 36

func (f *file) Rows() int64  { return int64(len(f.objects)) }
func (f *file) Slab() int64  { return 7 }
func (f *file) Close() error { return nil }

func (f *file) Read(ctx context.Context, lo, hi int64) (*catalog.Batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.bad != nil && hi > 0 {
		return nil, fmt.Errorf("%s: %w", f.name, f.bad)
	}
	cols := sampleColumns()
	b := &catalog.Batch{Columns: cols, Rows: int(hi - lo)}
	for i := range cols {
		b.Vectors = append(b.Vectors, catalog.NewVector(&cols[i]))
	}
	le := binary.LittleEndian
	text := func(v *catalog.Vector, s string) {
		v.Data = append(v.Data, s...)
		v.Offsets = append(v.Offsets, int64(len(v.Data)))
	}
	for _, o := range f.objects[lo:hi] {
		h := sha256.Sum256([]byte(o.id))
		r := rand.New(rand.NewPCG(le.Uint64(h[:]), 0))
		text(b.Vectors[0], o.id)
		b.Vectors[1].Data = le.AppendUint64(b.Vectors[1].Data, math.Float64bits(o.ra))
		b.Vectors[2].Data = le.AppendUint64(b.Vectors[2].Data, math.Float64bits(o.dec))
		b.Vectors[3].Data = le.AppendUint32(b.Vectors[3].Data, math.Float32bits(r.Float32()))
		b.Vectors[3].Valid = append(b.Vectors[3].Valid, h[0]%4 != 0)
		if h[0]%4 == 0 {
			clear(b.Vectors[3].Data[len(b.Vectors[3].Data)-4:])
		}
		m := b.Vectors[4].Members
		for range h[1] % 4 {
			m[0].Data = append(m[0].Data, "gri"[r.IntN(3)])
			m[0].StrOffsets = append(m[0].StrOffsets, int64(len(m[0].Data)))
			m[1].Data = le.AppendUint32(m[1].Data, math.Float32bits(r.Float32()))
		}
		m[0].Offsets = append(m[0].Offsets, int64(len(m[0].StrOffsets)-1))
		m[1].Offsets = append(m[1].Offsets, int64(len(m[1].Data)/4))
		for range sampleSide * sampleSide {
			b.Vectors[5].Data = le.AppendUint32(b.Vectors[5].Data, math.Float32bits(float32(r.NormFloat64())))
		}
		for range 12 {
			b.Vectors[6].Data = append(b.Vectors[6].Data, byte(r.Uint32()))
		}
		for k := range 16 {
			b.Vectors[7].Data = le.AppendUint32(b.Vectors[7].Data, math.Float32bits(float32(4000+k)))
		}
	}
	for _, v := range b.Vectors {
		v.Rows = b.Rows
		for _, m := range v.Members {
			m.Rows = b.Rows
		}
	}
	return b, nil
}

func sampleSurvey(files ...*file) *Survey {
	s := &Survey{Columns: sampleColumns(), ID: "object_id", RA: "ra", Dec: "dec"}
	for _, f := range files {
		s.Inputs = append(s.Inputs, Input{Rel: f.name, Bytes: int64(len(f.objects)) * sampleRow, Open: func(context.Context, int, int64) (Records, error) {
			f.opened.Add(1)
			return f, nil
		}})
	}
	return s
}

// objects scatters n objects over a patch of the sky around (ra, dec).
func objects(prefix string, n int, ra, dec, size float64) []object {
	r := rand.New(rand.NewPCG(uint64(n), uint64(len(prefix))))
	out := make([]object, n)
	for i := range out {
		out[i] = object{fmt.Sprintf("%s%05d", prefix, i), math.Mod(ra+size*r.Float64()+360, 360), max(-90, min(90, dec+size*(r.Float64()-0.5)))}
	}
	return out
}

func moment(n int) time.Time { return time.Date(2026, 12, 1, 0, n, 0, 0, time.UTC) }

func seal(n int) SealOptions {
	o := SealOptions{Message: fmt.Sprintf("number %d", n), Tool: "astropile test", Now: moment(n)}
	if n == 1 {
		o.Licence, o.Citation = "CC-BY-4.0", "Someone, 2026"
	}
	return o
}

var smallShards = ImportOptions{Name: "sample", ShardSize: 64 << 10, Jobs: 2, Tool: "astropile test"}

func mustImport(t testing.TB, dir string, s *Survey, opt ImportOptions) *ImportReport {
	t.Helper()
	rep, err := Import(context.Background(), dir, s, opt)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func mustSeal(t testing.TB, dir string, n int) *SealReport {
	t.Helper()
	rep, err := Seal(context.Background(), dir, seal(n))
	if err != nil {
		t.Fatal(err)
	}
	if rep.Release != n {
		t.Fatalf("sealed release %d, want %d", rep.Release, n)
	}
	return rep
}

func mustVerify(t testing.TB, dir string) *VerifyReport {
	t.Helper()
	rep, err := Verify(context.Background(), dir, VerifyOptions{Deep: true, Jobs: 2})
	if err != nil {
		t.Fatal(err, rep)
	}
	return rep
}

// tree is the SHA-256 of every file below a folder, by its path; the lock is none.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && p == dir {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == filepath.Join(stagingDir, "lock") {
			return err
		}
		b, err := os.ReadFile(p)
		sum := sha256.Sum256(b)
		out[filepath.ToSlash(rel)] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// differences lists files that two trees do not share.
func differences(a, b map[string]string) []string {
	var out []string
	for p, h := range a {
		if b[p] != h {
			out = append(out, p)
		}
	}
	for p := range b {
		if _, ok := a[p]; !ok {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// top says whether a file is one that each release writes anew.
func top(p string) bool {
	return !strings.Contains(p, "/releases/") && !strings.HasSuffix(p, ".parquet")
}
