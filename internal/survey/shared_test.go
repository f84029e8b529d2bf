package survey

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"astropile/internal/catalog"
)

// sharedData finds the folder of real files: named by ASTROPILE_SHARED, or beside the project.
func sharedData(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("ASTROPILE_SHARED"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		for _, found := range []string{filepath.Join(dir, "shared", "data"), filepath.Join(dir, "..", "shared", "data")} {
			if st, err := os.Stat(filepath.Join(found, "mmu")); err == nil && st.IsDir() {
				return found
			}
		}
	}
	t.Skip("no real files: neither ASTROPILE_SHARED nor a folder shared/data beside the project")
	return ""
}

func TestPublishedSupernovaeHaveTheirKnownValues(t *testing.T) {
	dir := sharedData(t)
	for _, c := range []struct {
		file, id      string
		ra, dec       float64
		bands, epochs int
		healpix       float64
		redshift      float64
		first         float64
		perBand       []int
	}{
		{"mmu/cfa/SN2007bc.hdf5", "SN2007bc", 169.81071, 20.809029, 7, 60, 1772, 0, 54197.254, []int{19, 0, 0, 0, 17, 9, 15}},
		{"mmu/csp/example_SN2004dt.hdf5", "SN2004dt", 30.553207, -0.097639, 12, 269, 1113, 0.0197, 249.79, []int{46, 0, 0, 0, 0, 46, 0, 0, 46, 43, 45, 43}},
	} {
		t.Run(c.id, func(t *testing.T) {
			sources := []string{filepath.Join(dir, c.file)}
			r, _, err := Inspect(context.Background(), sources, InspectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			inputs, err := Discover(sources)
			if err != nil {
				t.Fatal(err)
			}
			b, rows := readAll(t, inputs, r, 0)
			if rows != 1 || r.Family != OneObject {
				t.Fatalf("%d rows, family %s", rows, r.Family)
			}
			if _, v := vectorOf(t, b, "object_id"); string(v.Str(0)) != c.id {
				t.Errorf("id is %q", v.Str(0))
			}
			for name, want := range map[string]float64{"ra": c.ra, "dec": c.dec, "healpix": c.healpix, "redshift": c.redshift} {
				col, v := vectorOf(t, b, name)
				if col.DType == catalog.Float32 {
					want = float64(float32(want))
				}
				if got := floatsOf(col, v); got[0] != want {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
			_, bands := vectorOf(t, b, "bands")
			if int(bands.Offsets[1]) != c.bands {
				t.Errorf("%d bands, want %d", bands.Offsets[1], c.bands)
			}
			col, lc := vectorOf(t, b, "lightcurve")
			var names []string
			for _, m := range col.Members {
				names = append(names, m.Name)
			}
			if !slices.Equal(names, []string{"band", "time", "mag", "mag_err"}) {
				t.Errorf("members are %v", names)
			}
			if n := lc.Members[1].Offsets[1]; int(n) != c.epochs {
				t.Errorf("%d epochs, want %d", n, c.epochs)
			}
			if got := floatsOf(&col.Members[1], lc.Members[1]); got[0] != float64(float32(c.first)) {
				t.Errorf("first epoch is %v", got[0])
			}
			// Bands stand one after another, in the order of the list of bands.
			at := int64(0)
			text := func(v *catalog.Vector, i int64) string { return string(v.Data[v.StrOffsets[i]:v.StrOffsets[i+1]]) }
			for i, n := range c.perBand {
				for range n {
					if got, want := text(lc.Members[0], at), text(bands, int64(i)); got != want {
						t.Fatalf("epoch %d is of band %q, want %q", at, got, want)
					}
					at++
				}
			}
		})
	}
}
