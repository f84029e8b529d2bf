package survey

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"astropile/internal/catalog"
)

func TestSlabIsWholeChunksWithinMemory(t *testing.T) {
	set := func(rowBytes, tall int64) *rowSet { return &rowSet{rowBytes: rowBytes, tall: tall} }
	const target = 32 << 20
	for _, c := range []struct {
		name       string
		sets       []*rowSet
		rows, heap int64
		want       int64
	}{
		{"no chunks", []*rowSet{set(1<<20, 1)}, 1000, 0, 31},
		{"chunks of 5 rows", []*rowSet{set(1<<20, 5), set(8, 1024)}, 1000, 0, 30},
		{"chunks of 5 and 4 rows", []*rowSet{set(1<<20, 5), set(1<<19, 4)}, 1000, 0, 20},
		{"chunks taller than the target", []*rowSet{set(1<<20, 188)}, 1000, 0, 188},
		{"chunks too tall for memory", []*rowSet{set(1<<20, 4096)}, 10000, 0, 31},
		{"few rows in a tall chunk", []*rowSet{set(1<<20, 4096)}, 100, 0, 100},
		{"a huge row", []*rowSet{set(256<<20, 1)}, 100, 0, 1},
		{"a table", []*rowSet{set(8, 1000), set(8, 1000)}, 1 << 40, 0, 1973000},
		{"lists in the heap", []*rowSet{set(16, 1)}, 1000, 1 << 20, 31},
	} {
		if got := slabRows(c.sets, c.rows, c.heap, target); got != c.want {
			t.Errorf("%s: %d rows, want %d", c.name, got, c.want)
		}
	}
	small, tall, low := set(8, 1<<20), set(64, 1<<30), set(8, 10)
	keepTall([]*rowSet{tall, small, low}, 100)
	if !small.keep || tall.keep || low.keep {
		t.Errorf("kept: %v %v %v", small.keep, tall.keep, low.keep)
	}
}

func TestReadRefusesRowsThatAreNotThereAndStopsWithItsContext(t *testing.T) {
	for _, file := range []string{"nan.h5", "bands.h5"} {
		r, inputs := inspected(t, "", file)
		rd, err := Open(context.Background(), inputs[0], r)
		if err != nil {
			t.Fatal(err)
		}
		defer rd.Close()
		for _, x := range [][2]int64{{-1, 1}, {1, 0}, {0, rd.Rows() + 1}, {1 << 62, 1<<62 + 1}} {
			if _, err := rd.Read(context.Background(), x[0], x[1]); !errors.Is(err, ErrValue) {
				t.Errorf("rows %v: %v", x, err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := rd.Read(ctx, 0, rd.Rows()); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end of its context: %v", err)
		}
		if _, err := Open(ctx, inputs[0], r); !errors.Is(err, context.Canceled) {
			t.Errorf("open after the end of its context: %v", err)
		}
		if _, _, err := InspectInputs(ctx, inputs, InspectOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("inspect after the end of its context: %v", err)
		}
	}
}

func TestAGroupThatDoesNotFitIsRefusedByName(t *testing.T) {
	r := hints(t, `
family: group
id: object_id
ra: ra
dec: dec
drop: [t/s]
columns:
- {name: object_id, from: group, kind: scalar, dtype: string}
- {name: ra, from: attribute, source: ra, kind: scalar, dtype: float64}
- {name: dec, from: attribute, source: dec, kind: scalar, dtype: float64}
- {name: t_x, source: t, member: x, kind: tensor, shape: [2], dtype: float32}
`)
	rd, err := Open(context.Background(), Input{Path: oddFiles("ragged_arrays.h5")[0]}, r)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	if b, err := rd.Read(context.Background(), 0, 1); err != nil || string(b.Vectors[0].Data) != "o0" {
		t.Errorf("the group that fits: %v", err)
	}
	if _, err := rd.Read(context.Background(), 0, 2); !errors.Is(err, ErrMapping) || !strings.Contains(err.Error(), `object "o1"`) || !strings.Contains(err.Error(), `"t/x"`) {
		t.Errorf("the group that does not: %v", err)
	}
}

// readBytes does all that can be done with a file of these bytes; only panics, hangs and ill-formed batches matter.
func readBytes(t *testing.T, path string, b []byte) {
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	inputs := []Input{{Path: path, Rel: "x.h5", Bytes: int64(len(b)), Healpix: -1}}
	r, _, err := InspectInputs(context.Background(), inputs, InspectOptions{Workers: 1})
	if err != nil {
		return
	}
	rd, err := Open(context.Background(), inputs[0], r, Workers(1), SlabBytes(1<<16))
	if err != nil {
		return
	}
	defer rd.Close()
	for lo, k := int64(0), 0; lo < rd.Rows() && k < 4; lo, k = lo+rd.Slab(), k+1 {
		batch, err := rd.Read(context.Background(), lo, min(rd.Rows(), lo+rd.Slab()))
		if err != nil {
			return
		}
		for i := range batch.Columns {
			if err := batch.Vectors[i].Check(&batch.Columns[i]); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

func fixtureFiles(t testing.TB, most int64) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir("testdata", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !readable(path) {
			return err
		}
		b, err := os.ReadFile(path)
		if int64(len(b)) <= most {
			out[path] = b
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestDamagedFilesDoNoHarm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.h5")
	rng := rand.New(rand.NewPCG(1, 2))
	rounds := 12
	if testing.Short() {
		rounds = 2
	}
	for _, b := range fixtureFiles(t, 1<<20) {
		readBytes(t, path, b[:rng.IntN(len(b))])
		for range rounds {
			damaged := append([]byte(nil), b...)
			for range 1 + rng.IntN(3) {
				damaged[rng.IntN(min(len(b), 4096))] ^= byte(1 << rng.IntN(8))
			}
			readBytes(t, path, damaged)
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, b := range fixtureFiles(f, 6<<10) {
		f.Add(b)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		readBytes(t, filepath.Join(dir, "x.h5"), b)
	})
}

func TestColumnsComeInFileOrder(t *testing.T) {
	r, inputs := inspected(t, "", "half_lists.h5")
	rd, err := Open(context.Background(), inputs[0], r)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	b, err := rd.Read(context.Background(), 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	rank := map[catalog.Kind]int{catalog.Scalar: 0, catalog.List: 1, catalog.Struct: 1, catalog.Tensor: 2}
	for i := 1; i < len(b.Columns); i++ {
		if rank[b.Columns[i].Kind] < rank[b.Columns[i-1].Kind] {
			t.Errorf("%q stands after %q", b.Columns[i].Name, b.Columns[i-1].Name)
		}
	}
}
