package survey

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"astropile/internal/catalog"
)

type expected struct {
	Sources  []string
	Family   Family
	Rows     int64
	Columns  map[string]any // digest, or member to digest
	ID       string
	Units    map[string]string
	Shapes   map[string][]int
	Nullable []string
	Warnings []string
}

func loadExpected(t *testing.T) map[string]expected {
	t.Helper()
	text, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]expected{}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func under(sources []string) []string {
	out := make([]string, len(sources))
	for i, s := range sources {
		out[i] = filepath.Join("testdata", s)
	}
	return out
}

// readAll reads all rows of all inputs in slabs of step rows (0: as the reader likes).
func readAll(t *testing.T, inputs []Input, r *Recipe, step int64, opts ...Option) (*catalog.Batch, int64) {
	t.Helper()
	cols := r.Columns()
	out := &catalog.Batch{Columns: cols}
	for i := range cols {
		out.Vectors = append(out.Vectors, catalog.NewVector(&cols[i]))
	}
	rows := int64(0)
	for _, in := range inputs {
		rd, err := Open(context.Background(), in, r, opts...)
		if err != nil {
			t.Fatal(err)
		}
		n := step
		if n == 0 {
			n = rd.Slab()
		}
		rows += rd.Rows()
		for lo := int64(0); lo < rd.Rows(); lo += n {
			b, err := rd.Read(context.Background(), lo, min(rd.Rows(), lo+n))
			if err != nil {
				t.Fatal(err)
			}
			for k := range cols {
				if b.Columns[k].Name != cols[k].Name {
					t.Fatalf("column %d is %q, want %q", k, b.Columns[k].Name, cols[k].Name)
				}
				if err := b.Vectors[k].Check(&cols[k]); err != nil {
					t.Fatal(err)
				}
				if b.Vectors[k].Rows != b.Rows {
					t.Fatalf("%q has %d rows of %d", cols[k].Name, b.Vectors[k].Rows, b.Rows)
				}
				for i := range b.Rows {
					out.Vectors[k].AppendRow(&cols[k], b.Vectors[k], i)
				}
			}
			out.Rows += b.Rows
		}
		if err := rd.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out, rows
}

// digest is what make.py computes of a column: values, then the lengths of texts and lists as int64, then validity.
func digest(c *catalog.Column, v *catalog.Vector) string {
	h := sha256.New()
	h.Write(v.Data)
	for _, offsets := range [][]int64{v.StrOffsets, v.Offsets} {
		for i := 1; i < len(offsets); i++ {
			var b [8]byte
			le.PutUint64(b[:], uint64(offsets[i]-offsets[i-1]))
			h.Write(b[:])
		}
	}
	for _, ok := range v.Valid {
		b := byte(0)
		if ok {
			b = 1
		}
		h.Write([]byte{b})
	}
	return hex.EncodeToString(h.Sum(nil))
}

func compare(t *testing.T, want expected, got *catalog.Batch) {
	t.Helper()
	seen := 0
	for k := range got.Columns {
		c, v := &got.Columns[k], got.Vectors[k]
		w, ok := want.Columns[c.Name]
		if !ok {
			t.Errorf("column %q is not expected", c.Name)
			continue
		}
		seen++
		if c.Kind != catalog.Struct {
			if w != digest(c, v) {
				t.Errorf("column %q (%s of %s): values differ from what h5py reads", c.Name, c.Kind, c.DType)
			}
			continue
		}
		members, ok := w.(map[string]any)
		if !ok || len(members) != len(c.Members) {
			t.Errorf("struct %q has %d members, want %v", c.Name, len(c.Members), w)
			continue
		}
		for i := range c.Members {
			if members[c.Members[i].Name] != digest(&c.Members[i], v.Members[i]) {
				t.Errorf("member %q of %q: values differ from what h5py reads", c.Members[i].Name, c.Name)
			}
		}
	}
	if seen != len(want.Columns) {
		t.Errorf("%d columns of %d expected ones", seen, len(want.Columns))
	}
}

func TestValuesEqualWhatH5pyReadsInEveryFamily(t *testing.T) {
	for name, want := range loadExpected(t) {
		t.Run(name, func(t *testing.T) {
			r, warnings, err := Inspect(context.Background(), under(want.Sources), InspectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if r.Family != want.Family || r.ID != want.ID || r.RA != "ra" || r.Dec != "dec" || r.NoSky {
				t.Errorf("family %s, id %q, ra %q, dec %q", r.Family, r.ID, r.RA, r.Dec)
			}
			for col, shape := range want.Shapes {
				if m := r.find(col); m == nil || m.Kind != catalog.Tensor || !slices.Equal(m.Shape, shape) {
					t.Errorf("%q is %+v, want a tensor of %v", col, m, shape)
				}
			}
			for _, m := range r.Map {
				if m.Unit != want.Units[m.Name] {
					t.Errorf("%q has unit %q, want %q", m.Name, m.Unit, want.Units[m.Name])
				}
				if m.Nullable != slices.Contains(want.Nullable, m.Name) {
					t.Errorf("%q: nullable is %v", m.Name, m.Nullable)
				}
			}
			for _, w := range want.Warnings {
				code, col, _ := strings.Cut(w, ":")
				if !slices.ContainsFunc(warnings, func(x Warning) bool { return string(x.Code) == code && x.Column == col }) {
					t.Errorf("no warning %s; there are %v", w, warnings)
				}
			}
			inputs, err := Discover(under(want.Sources))
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []int64{0, 1, 3, 1000} {
				for _, workers := range []int{1, 4} {
					got, rows := readAll(t, inputs, r, step, Workers(workers))
					if rows != want.Rows || int64(got.Rows) != want.Rows {
						t.Fatalf("step %d: %d rows, %d read, want %d", step, rows, got.Rows, want.Rows)
					}
					compare(t, want, got)
				}
			}
		})
	}
}

func TestRecipeOfEveryFixtureComesBackFromItsTextAndReadsTheSame(t *testing.T) {
	for name, want := range loadExpected(t) {
		t.Run(name, func(t *testing.T) {
			sources := under(want.Sources)
			r, _, err := Inspect(context.Background(), sources, InspectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			text, err := r.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			back, err := LoadRecipe(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			again, err := back.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if a, b := withoutNotes(t, r), string(again); a != b {
				t.Errorf("round trip changed the recipe:\n%s\n%s", a, b)
			}
			got, _, err := Inspect(context.Background(), sources, InspectOptions{Recipe: back})
			if err != nil {
				t.Fatal(err)
			}
			inputs, err := Discover(sources)
			if err != nil {
				t.Fatal(err)
			}
			batch, _ := readAll(t, inputs, got, 0)
			compare(t, want, batch)
		})
	}
}

func withoutNotes(t *testing.T, r *Recipe) string {
	t.Helper()
	c := r.clone()
	for i := range c.Map {
		c.Map[i].Note = ""
	}
	text, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
