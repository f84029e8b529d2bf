package parquet

import (
	"bytes"
	"context"
	"math/rand/v2"
	"reflect"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/shard"
	"astropile/internal/survey/table"
)

// ours is a shard with a column of each kind and type, and its rows.
func ours(t testing.TB, rows int) ([]byte, []catalog.Column, []*catalog.Vector) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	types := []catalog.DType{catalog.Bool, catalog.Int8, catalog.Int16, catalog.Int32, catalog.Int64, catalog.Uint8, catalog.Uint16, catalog.Uint32,
		catalog.Uint64, catalog.Float16, catalog.Float32, catalog.Float64, catalog.Complex64, catalog.Complex128}
	random := func(d catalog.DType, n int) []byte {
		b := make([]byte, n*d.Size())
		for i := range b {
			if b[i] = byte(r.Uint32()); d == catalog.Bool {
				b[i] &= 1
			}
		}
		return b
	}
	var cols []catalog.Column
	var vectors []*catalog.Vector
	add := func(c catalog.Column, v *catalog.Vector) {
		cols, vectors = append(cols, c), append(vectors, v)
	}
	list := func(d catalog.DType, size func(i int) int) *catalog.Vector {
		v := &catalog.Vector{Rows: rows, Offsets: []int64{0}}
		for i := range rows {
			v.Offsets = append(v.Offsets, v.Offsets[i]+int64(size(i)))
		}
		v.Data = random(d, int(v.Offsets[rows]))
		return v
	}
	for _, d := range types {
		if !d.Complex() {
			add(catalog.Column{Name: "s_" + string(d), Kind: catalog.Scalar, DType: d, Unit: "mag", Nullable: true, Codec: catalog.Zstd}, &catalog.Vector{Rows: rows, Data: random(d, rows)})
		}
	}
	text := &catalog.Vector{Rows: rows, Offsets: []int64{0}}
	for i := range rows {
		text.Data = append(text.Data, "object é"[:i%6]...)
		text.Offsets = append(text.Offsets, int64(len(text.Data)))
	}
	add(catalog.Column{Name: "text", Kind: catalog.Scalar, DType: catalog.String, Nullable: true, Codec: catalog.Zstd}, text)
	add(catalog.Column{Name: "list", Kind: catalog.List, DType: catalog.Int16, Nullable: true, Codec: catalog.Zstd}, list(catalog.Int16, func(i int) int { return i % 4 }))
	three := func(i int) int { return i % 3 }
	add(catalog.Column{Name: "curve", Kind: catalog.Struct, Nullable: true, Codec: catalog.Zstd, Members: []catalog.Column{
		{Name: "time", Kind: catalog.List, DType: catalog.Float64, Unit: "d", Codec: catalog.Zstd}, {Name: "flux", Kind: catalog.List, DType: catalog.Float32, Codec: catalog.Zstd}}},
		&catalog.Vector{Rows: rows, Members: []*catalog.Vector{list(catalog.Float64, three), list(catalog.Float32, three)}})
	for i, d := range types {
		shape := [][]int{{3}, {2, 3}, {2, 1, 4}}[i%3]
		c := catalog.Column{Name: "t_" + string(d), Kind: catalog.Tensor, DType: d, Shape: shape, Unit: "nJy", Codec: catalog.None}
		switch d {
		case catalog.Bool:
			c.Layout = catalog.RLE
			c.Codec = catalog.Zstd
		case catalog.Int8, catalog.Uint8:
			c.Layout = catalog.Identity
		case catalog.Int16, catalog.Uint16:
			c.Layout = catalog.Widened
			c.Codec = catalog.Zstd
		default:
			c.Layout = catalog.Plain
		}
		add(c, &catalog.Vector{Rows: rows, Data: random(d, rows*c.Elems())})
	}
	add(catalog.Column{Name: "t_scalar", Kind: catalog.Tensor, DType: catalog.Complex64, Shape: []int{}, Layout: catalog.Plain, Codec: catalog.BSSZstd}, &catalog.Vector{Rows: rows, Data: random(catalog.Complex64, rows)})
	var buf bytes.Buffer
	w, err := shard.NewWriter(&buf, shard.Spec{Columns: cols, Piece: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(context.Background(), &catalog.Batch{Columns: cols, Vectors: vectors, Rows: rows}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), cols, vectors
}

func TestShardsOfOurOwnComeBackAsTheyWere(t *testing.T) {
	for _, rows := range []int{1, 700} {
		file, cols, vectors := ours(t, rows)
		tab, err := open(context.Background(), bytes.NewReader(file), int64(len(file)), "shard", Options{Shapes: map[string][]int{"list": nil, "curve": nil}})
		if err != nil {
			t.Fatal(err)
		}
		fields := tab.Fields()
		if len(fields) != len(cols) {
			t.Fatalf("%d fields of %d", len(fields), len(cols))
		}
		for i := range cols {
			want, got := cols[i], fields[i].Column
			if fields[i].Err != nil {
				t.Fatal(fields[i].Err)
			}
			want.Layout, want.Codec = "", ""
			for k := range want.Members {
				want.Members[k].Codec = ""
			}
			if len(want.Shape) == 0 {
				want.Shape, got.Shape = nil, nil
			}
			if !reflect.DeepEqual(want, got) {
				t.Errorf("field %+v, want %+v", got, want)
				continue
			}
			v, err := tab.Read(context.Background(), 0, int64(rows), []table.Request{{Field: i}})
			if err != nil {
				t.Fatal(err)
			}
			if !sameVector(v[0], vectors[i]) {
				t.Errorf("%s: other values", got.Name)
			}
		}
	}
}
