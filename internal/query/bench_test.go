package query

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

// diskFile is a file of a release on disk.
type diskFile struct {
	*os.File
	size int64
}

func (f diskFile) Size() int64 { return f.size }

// BenchmarkWhere filters rows by three scalar columns, two float32 and one int64. cold decodes them; warm maps what an
// earlier selection decoded; the control adds up the same bytes.
func BenchmarkWhere(b *testing.B) {
	const rows = 8 << 20
	cols := []catalog.Column{scalarColumn("id", catalog.Int64, false), scalarColumn("z", catalog.Float32, true), scalarColumn("mag", catalog.Float32, false), scalarColumn("flags", catalog.Int64, false)}
	g := rand.New(rand.NewPCG(1, 2))
	dir := b.TempDir()
	name := dir + "/rows.parquet"
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	rc := catalog.RowColumns(cols)
	w, err := catalog.NewScalarsWriter(f, rc, "bench")
	if err != nil {
		b.Fatal(err)
	}
	const step = 131072
	vs := make([]*catalog.Vector, len(rc))
	for lo := 0; lo < rows; lo += step {
		for i := range rc {
			v := &catalog.Vector{Rows: step, Data: make([]byte, step*rc[i].DType.Size())}
			for k := range step {
				switch rc[i].Name {
				case "z", "mag":
					view[float32](v.Data)[k] = 25 * g.Float32()
				case "flags":
					view[int64](v.Data)[k] = g.Int64N(1000)
				case "id":
					view[int64](v.Data)[k] = int64(lo + k)
				}
			}
			vs[i] = v
		}
		if err := w.Write(vs, step); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	stats, err := catalog.EncodeScalars(catalog.StatColumns(cols), statsOf(cols), 1, "bench")
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(dir+"/stats.parquet", stats, 0o600); err != nil {
		b.Fatal(err)
	}
	t := Table{ID: "bench", Shards: []catalog.Shard{{Release: 1, Rows: rows, HpxMin: 0, HpxMax: sky.Pixels(29) - 1}},
		Release: &catalog.Release{Number: 1, Files: map[string]catalog.FileRef{"rows-00000.parquet": {Bytes: st.Size(), SHA256: "x"}}, Dataset: catalog.Dataset{Name: "sky", ID: "id", Columns: cols}},
		Open: func(_ context.Context, p string) (File, error) {
			n := name
			if p == "sky/releases/1/stats.parquet" {
				n = dir + "/stats.parquet"
			}
			f, err := os.Open(n)
			if err != nil {
				return nil, err
			}
			st, err := f.Stat()
			return diskFile{f, st.Size()}, err
		}}
	const where = "z < 0.5 and mag < 19 and flags != 7"
	run := func(b *testing.B, kept string) {
		b.Helper()
		for b.Loop() {
			p, err := (&Selection{Where: where}).check(&t.Release.Dataset)
			if err != nil {
				b.Fatal(err)
			}
			sc := &scan{table: t, plan: p, cache: &cache{kept}, opt: Options{Threads: 2}}
			if _, err := sc.run(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
	}
	b.Run("cold", func(b *testing.B) { run(b, "") })
	kept := b.TempDir()
	run(b, kept)
	b.Run("warm", func(b *testing.B) { run(b, kept) })
	b.Run("control", func(b *testing.B) {
		data := make([]uint64, rows*2)
		sum := uint64(0)
		for b.Loop() {
			for _, x := range data {
				sum += x
			}
		}
		b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6+math.Min(0, float64(sum)), "Mrows/s")
	})
}

func statsOf(cols []catalog.Column) []*catalog.Vector {
	var vs []*catalog.Vector
	for i := range cols {
		vs = append(vs, &catalog.Vector{Rows: 2, Data: make([]byte, 2*cols[i].DType.Size())})
		for k := range vs[i].Data[len(vs[i].Data)/2:] {
			vs[i].Data[len(vs[i].Data)/2+k] = 0x42
		}
	}
	return catalog.Stats(cols, vs)
}
