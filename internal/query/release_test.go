package query

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

// memoryFile is a file of a release in memory.
type memoryFile struct{ *bytes.Reader }

func (m memoryFile) Close() error { return nil }

// release is a release in memory and its rows as they went in.
type release struct {
	table Table
	cols  []catalog.Column
	vs    []*catalog.Vector // all rows, in order
	rows  int
	reads map[string]int
}

// newRelease writes the documents of releases: shards[k] holds the rows of each shard that release k+1 adds.
func newRelease(t testing.TB, cols []catalog.Column, value func(c *catalog.Column, v *catalog.Vector, row int), shards ...[]int) *release {
	t.Helper()
	r := &release{cols: cols, reads: map[string]int{}}
	files := map[string][]byte{}
	rel := &catalog.Release{Number: len(shards), Files: map[string]catalog.FileRef{},
		Dataset: catalog.Dataset{Format: catalog.FormatVersion, Name: "sky", Columns: cols, ID: cols[0].Name}}
	for i := range cols {
		r.vs = append(r.vs, catalog.NewVector(&cols[i]))
		switch cols[i].Name {
		case "ra":
			rel.Dataset.RA = "ra"
		case "dec":
			rel.Dataset.Dec = "dec"
		}
	}
	for k, sizes := range shards {
		first := r.rows
		var stats []*catalog.Vector
		sc := catalog.StatColumns(cols)
		for i := range sc {
			stats = append(stats, catalog.NewVector(&sc[i]))
		}
		at, row := &catalog.Vector{}, &catalog.Vector{}
		for s, n := range sizes {
			lo := r.rows
			for range n {
				for i := range cols {
					value(&cols[i], r.vs[i], r.rows)
				}
				at.Data = le32(at.Data, int32(s))
				row.Data = le32(row.Data, int32(r.rows-lo))
				r.rows++
			}
			var slices []*catalog.Vector
			for i := range cols {
				slices = append(slices, r.vs[i].Slice(&cols[i], lo, r.rows))
			}
			for i, v := range catalog.Stats(cols, slices) {
				stats[i].AppendRow(&sc[i], v, 0)
			}
			sh := catalog.Shard{Path: fmt.Sprint(k, s), Role: catalog.Primary, Release: int32(k + 1), Rows: int64(n), HpxMin: 0, HpxMax: sky.Pixels(sky.MaxOrder) - 1}
			r.table.Shards = append(r.table.Shards, sh)
		}
		at.Rows, row.Rows = r.rows-first, r.rows-first
		all := []*catalog.Vector{at, row}
		for i := range cols {
			all = append(all, r.vs[i].Slice(&cols[i], first, r.rows))
		}
		put := func(name string, b []byte, err error) {
			if err != nil {
				t.Fatal(err)
			}
			files[fmt.Sprintf("sky/releases/%d/%s", k+1, name)] = b
			if k+1 < len(shards) {
				name = fmt.Sprintf("../%d/%s", k+1, name)
			}
			rel.Files[name] = catalog.RefOf(b)
		}
		// Several files, as large releases have.
		half := (r.rows - first) / 3
		for f, span := range [][2]int{{0, half}, {half, r.rows - first}} {
			var part []*catalog.Vector
			rc := catalog.RowColumns(cols)
			for i, v := range all {
				part = append(part, v.Slice(&rc[i], span[0], span[1]))
			}
			b, err := catalog.EncodeScalars(rc, part, span[1]-span[0], "test")
			put(fmt.Sprintf("rows-%05d.parquet", f), b, err)
		}
		b, err := catalog.EncodeScalars(sc, stats, len(sizes), "test")
		put("stats.parquet", b, err)
	}
	r.table.Release, r.table.ID = rel, fmt.Sprintf("%x", rand.Uint64())
	r.table.Open = func(_ context.Context, name string) (File, error) {
		b, ok := files[cleaned(name)]
		if !ok {
			return nil, fmt.Errorf("no file %s", name)
		}
		r.reads[name]++
		return memoryFile{bytes.NewReader(b)}, nil
	}
	return r
}

func cleaned(name string) string {
	var a, b int
	var rest string
	if n, _ := fmt.Sscanf(name, "sky/releases/%d/../%d/%s", &a, &b, &rest); n == 3 {
		return fmt.Sprintf("sky/releases/%d/%s", b, rest)
	}
	return name
}

func le32(b []byte, x int32) []byte { return append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24)) }

func scalarColumn(name string, d catalog.DType, nullable bool) catalog.Column {
	return catalog.Column{Name: name, Kind: catalog.Scalar, DType: d, Nullable: nullable}
}

// put appends one value, given as bits or text.
func put(c *catalog.Column, v *catalog.Vector, bits uint64, s string, null bool) {
	one := catalog.NewVector(c)
	one.Rows = 1
	if null {
		one.Valid = []bool{false}
		bits, s = 0, ""
	}
	if c.DType == catalog.String {
		one.Data, one.Offsets = []byte(s), []int64{0, int64(len(s))}
	} else {
		for i := range c.DType.Size() {
			one.Data = append(one.Data, byte(bits>>(8*i)))
		}
	}
	v.AppendRow(c, one, 0)
}

func (r *release) selected(t testing.TB, s Selection, opt Options) *Rows {
	t.Helper()
	got, err := Select(context.Background(), r.table, s, opt)
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return got
}

// check compares what is selected with a function of the row.
func (r *release) check(t testing.TB, s Selection, want func(row int) bool) {
	t.Helper()
	got := r.selected(t, s, Options{Threads: 2})
	n := uint64(0)
	for row := range r.rows {
		w := want(row)
		if w {
			n++
		}
		if got.Has(int64(row)) != w {
			t.Fatalf("%+v: row %d: selected %v, want %v", s, row, !w, w)
		}
	}
	if got.Len() != n {
		t.Fatalf("%+v: %d rows, want %d", s, got.Len(), n)
	}
	// The x-th selected row of a shard.
	first := 0
	for k, sh := range r.table.Shards {
		x := uint64(0)
		for row := first; row < first+int(sh.Rows); row++ {
			if want(row) {
				if at := got.Row(k, x); at != int64(row-first) {
					t.Fatalf("%+v: selected row %d of shard %d is row %d, want %d", s, x, k, at, row-first)
				}
				x++
			}
		}
		if got.Counts()[k] != x {
			t.Fatalf("%+v: shard %d has %d rows, want %d", s, k, got.Counts()[k], x)
		}
		first += int(sh.Rows)
	}
}

func (r *release) column(name string) (*catalog.Column, *catalog.Vector) {
	for i := range r.cols {
		if r.cols[i].Name == name {
			return &r.cols[i], r.vs[i]
		}
	}
	panic(name)
}

// float is a value as float64, with what stands for no value.
func (r *release) float(name string, row int) (x float64, null bool) {
	c, v := r.column(name)
	return floatAt(c.DType, v, row), v.Null(row) || math.IsNaN(floatAt(c.DType, v, row))
}
