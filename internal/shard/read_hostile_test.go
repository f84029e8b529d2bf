package shard

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"astropile/internal/catalog"
)

// readAll reads every column of a file, as far as it goes.
func readAll(b []byte, opt OpenOptions, each func(c *catalog.Column, v *catalog.Vector)) error {
	ctx := context.Background()
	r, err := Open(ctx, vectored{bytes.NewReader(b)}, int64(len(b)), opt)
	if err != nil {
		return err
	}
	var first error
	for _, col := range r.Columns() {
		c, err := r.Column(col.Name)
		if err != nil {
			return err
		}
		v, err := c.ReadVector(ctx, 0, min(r.Rows(), 4096))
		if err == nil {
			err = v.Check(&col)
		}
		if err == nil && each != nil {
			each(&col, v)
		}
		if _, lerr := c.Locate(ctx); lerr != nil && !errors.Is(lerr, ErrNotMapped) {
			err = errors.Join(err, lerr)
		}
		if err != nil && first == nil {
			first = err
		}
	}
	return first
}

// hostileSamples are small files of every layout.
func hostileSamples(t testing.TB) map[string][]byte {
	packed, split := tensor("z", catalog.Float32, 5, 4), tensor("b", catalog.Float64, 6)
	packed.Codec, split.Codec = catalog.Zstd, catalog.BSSZstd
	s := newSample("h", 25, 3, scalar("id", catalog.Int64, false), scalar("s", catalog.String, true), list("l", catalog.Float32, true), lightcurve("lc", true),
		tensor("t", catalog.Float32, 4, 20), tensor("u", catalog.Uint8, 3, 3), tensor("m", catalog.Bool, 9), packed, split, tensor("h", catalog.Float16, 2))
	b, _ := s.write(t, s.spec(), 25)
	out := map[string][]byte{"ours": b}
	out["foreign"] = writeForeign(t, 20, 2, func(_, level int) int { return 2 + level }, func(n int) float32 { return float32(n % 7) }, -1)
	out["ragged"] = writeForeign(t, 20, 1, func(row, _ int) int { return row % 3 }, func(n int) float32 { return float32(n) }, 5)
	return out
}

// maxHostileAlloc is what reading a small hostile file may take at most, all in all.
const maxHostileAlloc = 3 << 30

func withinMemory(t testing.TB, what string, f func()) {
	t.Helper()
	var a, z runtime.MemStats
	runtime.ReadMemStats(&a)
	f()
	runtime.ReadMemStats(&z)
	if n := z.TotalAlloc - a.TotalAlloc; n > maxHostileAlloc {
		t.Fatalf("%s: took %d MiB", what, n>>20)
	}
}

func TestTruncatedFilesAreErrors(t *testing.T) {
	for name, b := range hostileSamples(t) {
		step := max(1, len(b)/400)
		for n := 0; n < len(b); n += step {
			withinMemory(t, name, func() {
				if err := readAll(b[:n], OpenOptions{}, nil); err == nil {
					t.Errorf("%s: %d of %d bytes are read without an error", name, n, len(b))
				}
			})
		}
	}
}

func TestFlippedBitsGiveErrorsOrOtherValuesButNoPanic(t *testing.T) {
	for name, b := range hostileSamples(t) {
		used := len(bytes.TrimRight(b, "\x00"))
		r := rand.New(rand.NewPCG(9, 9))
		for n := 0; n < 1500; n++ {
			x := slices.Clone(b)
			// The end of the file, where the structures are, is flipped as often as all the rest.
			at := r.IntN(used)
			if n%2 == 0 {
				at = used - 1 - r.IntN(min(used, 6000))
			}
			for range 1 + r.IntN(3) {
				x[min(at+r.IntN(4), len(x)-1)] ^= 1 << r.IntN(8)
			}
			withinMemory(t, name, func() { _ = readAll(x, OpenOptions{}, nil) })
		}
	}
}

// TestFlippedPagesAreSeenByTheirSums flips each byte of the pages of tensor columns: with CheckCRC none is read as it is.
func TestFlippedPagesAreSeenByTheirSums(t *testing.T) {
	packed := tensor("z", catalog.Float32, 5, 4)
	packed.Codec = catalog.Zstd
	s := newSample("h", 6, 3, tensor("t", catalog.Float32, 4, 20), tensor("u", catalog.Uint8, 3, 3), tensor("m", catalog.Bool, 9), packed)
	b, _ := s.write(t, s.spec(), 6)
	want := map[string][]byte{}
	if err := readAll(b, OpenOptions{CheckCRC: true}, func(c *catalog.Column, v *catalog.Vector) { want[c.Name] = v.Data }); err != nil {
		t.Fatal(err)
	}
	r := openBytes(t, b, OpenOptions{}, false)
	for k := range r.meta.RowGroups[0].Columns {
		lo, hi := chunkSpan(&r.meta.RowGroups[0].Columns[k].Meta)
		for at := lo; at < hi; at++ {
			x := slices.Clone(b)
			x[at] ^= 0x10
			wrong := false
			err := readAll(x, OpenOptions{CheckCRC: true}, func(c *catalog.Column, v *catalog.Vector) { wrong = wrong || !bytes.Equal(v.Data, want[c.Name]) })
			if wrong {
				t.Fatalf("column chunk %d: byte %d flipped gives other values (%v)", k, at-lo, err)
			}
		}
	}
}

func TestManyGoroutinesReadOneColumn(t *testing.T) {
	s := newSample("x", 300, 1, tensor("t", catalog.Float32, 40, 20), tensor("u", catalog.Uint8, 3, 3), scalar("id", catalog.Int64, false))
	b, _ := s.write(t, s.spec(), 300)
	r := openBytes(t, b, OpenOptions{}, true)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for k := range s.cols {
				col := &s.cols[k]
				c, err := r.Column(col.Name)
				if err != nil {
					t.Error(err)
					return
				}
				lo := rng.IntN(300)
				v, err := c.ReadVector(context.Background(), int64(lo), 300)
				if err == nil {
					err = sameVector(col, v, s.vectors[k].Slice(col, lo, 300))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzReadFile(f *testing.F) {
	for _, b := range hostileSamples(f) {
		f.Add(bytes.TrimRight(b, "\x00"))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		withinMemory(t, "fuzz", func() {
			_ = readAll(b, OpenOptions{}, nil)
			_ = readAll(b, OpenOptions{CheckCRC: true, Own: true}, nil)
		})
	})
}

func FuzzPageHead(f *testing.F) {
	h := PageHeader{Type: PageDataV2, UncompressedSize: 9, CompressedSize: 9, CRC: 7, HasCRC: true, DataV2: &DataPageHeaderV2{NumValues: 3, NumRows: 3, DefBytes: 2, RepBytes: 3}}
	f.Add(h.Append(nil))
	h = PageHeader{Type: PageData, UncompressedSize: 9, CompressedSize: 9, Data: &DataPageHeader{NumValues: 3, Encoding: EncPlain, DefEncoding: EncRLE, RepEncoding: EncRLE}}
	f.Add(h.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var fast pageHead
		err := fast.parse(b)
		slow, n, slowErr := DecodePageHeader(b)
		if err != nil {
			return // the fast one refuses more: sizes above its bound
		}
		if slowErr != nil {
			// The general reader refuses counts that do not fit, which the fast one checks against the shape instead.
			return
		}
		if n != fast.size || int(slow.CompressedSize) != fast.stored || int(slow.UncompressedSize) != fast.raw || int(slow.Type) != int(fast.typ) || slow.CRC != fast.crc {
			t.Fatalf("%+v and %+v", fast, slow)
		}
		if slow.Data != nil && slow.DataV2 == nil && slow.Dictionary == nil && int(slow.Data.NumValues) != fast.values {
			t.Fatalf("%d values and %d", fast.values, slow.Data.NumValues)
		}
	})
}

func FuzzLevels(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	f.Add(encodeLevels(naiveRep([]int{2, 3, 4}, 48, 0), 2, r), 48, 0)
	f.Fuzz(func(t *testing.T, b []byte, n, phase int) {
		if n < 0 || n > 1<<16 || phase < 0 || phase > 23 {
			return
		}
		s := newShapeLevels([]int{2, 3, 4}, 3, 3)
		if s.checkRep(b, n, phase) == nil {
			// What is accepted is exactly the shape: expanded by the definition it is the same.
			got := expand(t, b, 2, n)
			if !slices.Equal(got, naiveRep([]int{2, 3, 4}, n, phase)) {
				t.Fatalf("%v", got)
			}
		}
		_ = s.checkDef(b, n)
		_, _ = inferDims(b, n, 3, 24)
	})
}

func expand(t *testing.T, b []byte, w, n int) []int {
	var out []int
	err := hybridValues(b, w, n, func(_, c, v int, packed []byte) error {
		for i := range c {
			if packed != nil {
				v = int(bitsAt(packed, i*w, w))
			}
			out = append(out, v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
