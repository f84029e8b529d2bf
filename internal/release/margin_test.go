package release

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/shard"
	"astropile/internal/sky"
)

// bordered scatters objects within a few arcseconds of places where pixels meet, and some over the sky.
func bordered(prefix string, n int, seed uint64) []object {
	r := rand.New(rand.NewPCG(seed, 1))
	three := 180 / math.Pi * math.Asin(2.0/3) // where three base pixels meet
	at := [][2]float64{{0, 90}, {0, -90}, {0, three}, {90, three}, {180, -three}, {45, 0}, {0, 0}, {90, 0}, {270, 0}, {22.5, 19.4712206344907}, {11.25, 9.594068226860461}, {0, 60}}
	out := make([]object, n)
	for i := range out {
		o := object{id: fmt.Sprintf("%s%05d", prefix, i), ra: 360 * r.Float64(), dec: 180 / math.Pi * math.Asin(2*r.Float64()-1)}
		if k := r.IntN(len(at) + 1); k < len(at) {
			far, angle := 40.0/3600*r.Float64(), 2*math.Pi*r.Float64()
			o.ra, o.dec = at[k][0]+far*math.Sin(angle)/math.Max(1e-3, math.Cos(at[k][1]*math.Pi/180)), at[k][1]+far*math.Cos(angle)
			if math.Abs(at[k][1]) == 90 {
				o.ra, o.dec = 360*r.Float64(), math.Copysign(90-far, at[k][1])
			}
			o.ra = math.Mod(o.ra+360, 360)
		}
		out[i] = o
	}
	return out
}

func furtherSeal(n int) SealOptions {
	o := seal(n)
	o.Margin, o.Index, o.Jobs = 10_000, "object_id", 2
	return o
}

func mustFurther(t testing.TB, dir string, o SealOptions) *SealReport {
	t.Helper()
	rep, err := Seal(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// read gives the ids and places of the rows of a shard.
func readRows(t testing.TB, dir string, s *catalog.Shard) (ids []string, hpx []int64) {
	t.Helper()
	src := source{*s, filepath.Join(dir, filepath.FromSlash(s.Path))}
	err := scan(ctx, &src, nil, []string{"object_id", healpixColumn}, func(_ int64, vs []*catalog.Vector, n int) error {
		for i := range n {
			ids = append(ids, string(vs[0].Str(i)))
			hpx = append(hpx, int64(binary.LittleEndian.Uint64(vs[1].Data[8*i:])))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids, hpx
}

// checkMargin compares the margin of the newest release with what every object and every pixel say of each other.
func checkMargin(t *testing.T, dir string, all []object, radius float64) {
	t.Helper()
	_, _, shards, err := LoadDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[pixel]map[string]int{}
	held := heldPixels(shards)
	for _, p := range held {
		got[p] = map[string]int{}
	}
	for i := range shards {
		if s := &shards[i]; s.Role == catalog.Margin {
			ids, hpx := readRows(t, dir, s)
			if !slices.IsSorted(hpx) || hpx[0] != s.HpxMin || hpx[len(hpx)-1] != s.HpxMax {
				t.Errorf("%s: its places are %v, the manifest says %d to %d", s.Path, hpx, s.HpxMin, s.HpxMax)
			}
			for _, id := range ids {
				got[pixel{s.Order, s.Pix}][id]++
			}
		}
	}
	held29 := sky.Ranges{}
	for _, p := range held {
		lo, hi := p.span()
		held29 = append(held29, sky.Range{Lo: lo, Hi: hi})
	}
	held29 = sky.NewRanges(held29)
	rows, near := 0, 0
	inner, err1 := sky.NewMargin(radius * (1 - 1e-5))
	outer, err2 := sky.NewMargin(radius * (1 + 1e-5))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		for _, p := range held {
			surely, hardly := inner.Touches(int(p.order), p.pix, o.ra, o.dec), outer.Touches(int(p.order), p.pix, o.ra, o.dec)
			own, _ := sky.Pix(int(p.order), o.ra, o.dec)
			switch n := got[p][o.id]; {
			case own == p.pix && n > 0:
				t.Errorf("%s is in pixel %v and in its margin", o.id, p)
			case own == p.pix:
			case surely && n != 1:
				t.Errorf("%s at (%v, %v) is near pixel %v, and %d times in its margin", o.id, o.ra, o.dec, p, n)
			case !hardly && n != 0:
				t.Errorf("%s at (%v, %v) is not near pixel %v, and in its margin", o.id, o.ra, o.dec, p)
			case surely:
				near++
			}
		}
		// No sky near a row is without a pixel, so that whatever another catalogue has there finds the row.
		for k := range 12 {
			a := float64(k) * math.Pi / 6
			dec := o.dec + 0.999*radius*math.Cos(a)
			ra := o.ra + 0.999*radius*math.Sin(a)/math.Max(1e-9, math.Cos(o.dec*math.Pi/180))
			if math.Abs(dec) > 90 || sky.Separation(ra, dec, o.ra, o.dec) > radius {
				continue
			}
			if h, err := sky.Healpix29(ra, dec); err != nil || !held29.Contains(h) {
				t.Errorf("(%v, %v) is within the radius of %s, and in no pixel (%v)", ra, dec, o.id, err)
			}
		}
	}
	for _, m := range got {
		rows += len(m)
	}
	t.Logf("%d objects, %d pixels, %d rows in margins", len(all), len(held), rows)
	if near == 0 {
		t.Error("no object is near another pixel: the test tests nothing")
	}
}

func TestAMarginHoldsExactlyTheRowsNearEachPixelAfterAppendsToo(t *testing.T) {
	for _, first := range []int{1, 2} { // release that asks for it
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			dir := t.TempDir()
			var all []object
			for n := 1; n <= 3; n++ {
				some := bordered(string(rune('a'+n)), 240, uint64(n))
				if n < 3 { // the last opens pixels everywhere
					some = slices.DeleteFunc(some, func(o object) bool { return o.ra > 60*float64(n) && o.ra < 359 })
				}
				all = append(all, some...)
				mustImport(t, dir, sampleSurvey(&file{name: fmt.Sprint(n), objects: some}), ImportOptions{Name: "sample", ShardSize: 64 << 10, Expect: 4, Jobs: 2, Tool: "astropile test"})
				o := seal(n)
				if n == first {
					o = furtherSeal(n)
				}
				rep := mustFurther(t, dir, o)
				if n < first {
					if rep.Margin != nil {
						t.Fatal("a margin that nobody asked for")
					}
					continue
				}
				if m := rep.Margin; m.Rows == 0 || m.Bytes < 64<<10 || m.First != (n == first) {
					t.Errorf("release %d: %+v", n, m)
				}
				mustVerify(t, dir)
				checkMargin(t, dir, all, 10.0/3600)
				checkIndex(t, dir)
				if rep.Rows != int64(len(all)) {
					t.Errorf("the release has %d rows, %d went in", rep.Rows, len(all))
				}
			}
			infos, err := Info(ctx, []string{dir})
			if err != nil || infos[0].Margin.Radius != 10 || infos[0].Margin.Rows == 0 || infos[0].Index.Rows != int64(len(all)) || infos[0].Index.Column != "object_id" {
				t.Errorf("%v, %+v", err, infos)
			}
		})
	}
}

// checkIndex compares the index with the primary shards.
func checkIndex(t *testing.T, dir string) {
	t.Helper()
	_, _, shards, err := LoadDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		id string
		pixel
	}
	count := map[entry]int{}
	for i := range shards {
		switch s := &shards[i]; s.Role {
		case catalog.Primary:
			ids, _ := readRows(t, dir, s)
			for _, id := range ids {
				count[entry{id, pixel{s.Order, s.Pix}}]++
			}
		case catalog.IDs:
			src := source{*s, filepath.Join(dir, filepath.FromSlash(s.Path))}
			last := ""
			err := scan(ctx, &src, nil, []string{"object_id", "Norder", "Npix"}, func(_ int64, vs []*catalog.Vector, n int) error {
				for i := range n {
					id := string(vs[0].Str(i))
					if id < last {
						t.Errorf("%s: %q after %q", s.Path, id, last)
					}
					last = id
					count[entry{id, pixel{int8(vs[1].Data[i]), int64(binary.LittleEndian.Uint64(vs[2].Data[8*i:]))}}]--
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for e, n := range count {
		if n != 0 {
			t.Errorf("%v: %d more rows than entries", e, n)
		}
	}
}

func TestTheMarginIsSaidBeforeItIsWrittenAndMayBeRefused(t *testing.T) {
	dir := t.TempDir()
	mustImport(t, dir, sampleSurvey(&file{name: "a", objects: bordered("a", 200, 4)}), smallShards)
	before := tree(t, filepath.Join(dir, stagingDir, "1.shards"))
	o := furtherSeal(1)
	no := errors.New("too large")
	o.Announce = func(m MarginSize) error {
		if m.Rows == 0 || m.Bytes == 0 || m.Pixels == 0 || !m.First || m.Radius != 10 {
			t.Errorf("%+v", m)
		}
		if d := differences(before, tree(t, filepath.Join(dir, stagingDir, "1.shards"))); d != nil {
			t.Errorf("written already: %v", d)
		}
		return no
	}
	if _, err := Seal(ctx, dir, o); !errors.Is(err, no) {
		t.Fatal(err)
	}
	// Then it is released without, and nothing is left of the attempt.
	rep := mustFurther(t, dir, seal(1))
	if rep.Margin != nil {
		t.Error(rep.Margin)
	}
	mustVerify(t, dir)
	for p := range tree(t, dir) {
		if strings.HasPrefix(p, "sample_") || strings.Contains(p, "meta/margin") || strings.Contains(p, "meta/ids") {
			t.Errorf("%s is left", p)
		}
	}
}

func TestAMarginAndAnIndexAreFixedByTheFirstReleaseThatAsks(t *testing.T) {
	dir := t.TempDir()
	mustImport(t, dir, sampleSurvey(&file{name: "a", objects: bordered("a", 60, 5)}), smallShards)
	for what, o := range map[string]SealOptions{
		"over \"z\"":      {Index: "z"},
		"column of text":  {Index: "nothing"},
		"up to 7200":      {Margin: 7_200_001},
		"text or whole n": {Index: "image"},
	} {
		p := seal(1)
		p.Margin, p.Index = o.Margin, o.Index
		if _, err := Seal(ctx, dir, p); !errors.Is(err, ErrRefused) || what != "over \"z\"" && !strings.Contains(err.Error(), what) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	mustFurther(t, dir, furtherSeal(1))
	mustImport(t, dir, sampleSurvey(&file{name: "b", objects: bordered("b", 60, 6)}), smallShards)
	for what, o := range map[string]SealOptions{
		"fixed a margin of 10 arcsec, not 5":             {Margin: 5000},
		`fixed an index over "object_id", not "lightcu"`: {Index: "lightcu"},
	} {
		p := seal(2)
		p.Margin, p.Index = o.Margin, o.Index
		if _, err := Seal(ctx, dir, p); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), what) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	mustFurther(t, dir, furtherSeal(2)) // the same again is no other
	mustVerify(t, dir)

	flat := t.TempDir()
	s := sampleSurvey(&file{name: "a", objects: bordered("a", 10, 5)})
	s.RA, s.Dec = "", ""
	mustImport(t, flat, s, smallShards)
	if _, err := Seal(ctx, flat, furtherSeal(1)); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no positions") {
		t.Error(err)
	}
}

func TestThePixelsOfAMarginAreNeverOverlappedByLaterOnes(t *testing.T) {
	dir := t.TempDir()
	// A dense field in one pixel beside the border of another, which holds nothing yet.
	var dense []object
	for i := range 200 {
		dense = append(dense, object{fmt.Sprintf("d%04d", i), 45 + float64(i%20)/7200, 41.8103148957786 - float64(i)/36000})
	}
	mustImport(t, dir, sampleSurvey(&file{name: "a", objects: dense}), smallShards)
	rep := mustFurther(t, dir, furtherSeal(1))
	if rep.Margin.Opened == 0 {
		t.Fatal("no pixel was opened for the margin")
	}
	_, _, shards, err := LoadDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	primary := pixels(shards)
	opened := slices.DeleteFunc(pixelsOf(shards, catalog.Margin), func(p pixel) bool { return slices.Contains(primary, p) })
	var into []object
	for k, p := range opened {
		ra, dec, err := sky.Center(int(p.order), p.pix)
		if err != nil {
			t.Fatal(err)
		}
		into = append(into, object{fmt.Sprintf("n%04d", k), ra, dec})
	}
	mustImport(t, dir, sampleSurvey(&file{name: "b", objects: append(into, objects("o", 50, 100, 10, 20)...)}), smallShards)
	mustSeal(t, dir, 2)
	mustVerify(t, dir)
	if _, _, shards, err = LoadDataset(dir); err != nil {
		t.Fatal(err)
	}
	for _, p := range opened {
		if !slices.Contains(pixels(shards), p) {
			t.Errorf("the rows in pixel %v, which has a margin, went elsewhere", p)
		}
	}
}

func TestAPixelsMarginIsCutAsItsRowsAre(t *testing.T) {
	dir := t.TempDir()
	// 700 rows of some 370 bytes within the margin of a neighbour: four shards of 64 KiB.
	var some []object
	for i := range 700 {
		some = append(some, object{fmt.Sprintf("c%04d", i), 10 + float64(i)/1e5, -0.0000001})
	}
	mustImport(t, dir, sampleSurvey(&file{name: "a", objects: some}), ImportOptions{Name: "sample", ShardSize: 64 << 10, Jobs: 2, Tool: "astropile test"})
	mustFurther(t, dir, furtherSeal(1))
	mustVerify(t, dir)
	_, _, shards, err := LoadDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	most := map[pixel]int{}
	for i := range shards {
		if s := &shards[i]; s.Role == catalog.Margin {
			most[pixel{s.Order, s.Pix}]++
		}
	}
	if n := slices.Max(slices.Collect(func(yield func(int) bool) {
		for _, k := range most {
			if !yield(k) {
				return
			}
		}
	})); n < 2 {
		t.Errorf("no margin has more than %d shard", n)
	}
}

func TestADeepLookFindsAMarginOrAnIndexThatDoesNotFollowFromTheRows(t *testing.T) {
	for _, role := range []string{catalog.Margin, catalog.IDs} {
		t.Run(role, func(t *testing.T) {
			dir := t.TempDir()
			mustImport(t, dir, sampleSurvey(&file{name: "a", objects: bordered("a", 200, 9)}), smallShards)
			mustFurther(t, dir, furtherSeal(1))
			rel, _, shards, err := LoadDataset(dir)
			if err != nil {
				t.Fatal(err)
			}
			k := slices.IndexFunc(shards, func(s catalog.Shard) bool { return s.Role == role && s.Rows > 1 })
			s := &shards[k]
			forgeShard(t, dir, rel, s)
			reseal(t, dir, rel, shards)
			rep, err := Verify(ctx, dir, VerifyOptions{Deep: true, Jobs: 2})
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("%v", err)
			}
			if !slices.ContainsFunc(rep.Findings, func(f Finding) bool { return strings.Contains(f.Path, "sample_"+role+" of release 1") }) {
				t.Errorf("%+v", rep.Findings)
			}
		})
	}
}

// forgeShard writes a shard anew with its second row in the place of its first.
func forgeShard(t *testing.T, dir string, rel *catalog.Release, s *catalog.Shard) {
	t.Helper()
	name := filepath.Join(dir, filepath.FromSlash(s.Path))
	raw, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	cols := rel.Dataset.Columns
	if s.Role == catalog.IDs {
		cols = catalog.IndexColumns(rel.Dataset.Column(rel.Dataset.Index))
	}
	r, err := shard.Open(ctx, raw, s.Bytes, shard.OpenOptions{Own: true, Columns: cols})
	if err != nil {
		t.Fatal(err)
	}
	b := &catalog.Batch{Columns: cols, Rows: int(s.Rows)}
	var constant []string
	for i := range cols {
		c, err := r.Column(cols[i].Name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.ReadVector(ctx, 0, s.Rows)
		if err != nil {
			t.Fatal(err)
		}
		out := catalog.NewVector(&cols[i])
		for k := range b.Rows {
			if k == 0 && cols[i].Name != healpixColumn {
				k = 1
			}
			out.AppendRow(&cols[i], v, k)
		}
		b.Vectors = append(b.Vectors, out)
		if r.Constant(cols[i].Name) {
			constant = append(constant, cols[i].Name)
		}
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := shard.NewWriter(f, shard.Spec{Columns: cols, Constant: constant, Piece: rel.Dataset.Piece, Digest: rel.Dataset.Digest, CreatedBy: "astropile test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(ctx, b); err != nil {
		t.Fatal(err)
	}
	info, err := w.Close(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.Bytes, s.SHA256, s.TailOffset, s.TailDigest = info.Bytes, info.SHA256, info.TailOffset, info.TailDigest
}

// reseal writes manifest and release.json anew, as one would who forges shards with care.
func reseal(t *testing.T, dir string, rel *catalog.Release, shards []catalog.Shard) {
	t.Helper()
	put := func(p string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(p)), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := catalog.EncodeManifest(shards, "forger")
	if err != nil {
		t.Fatal(err)
	}
	put(releaseDir(rel)+"/manifest.parquet", m)
	rel.Files["manifest.parquet"] = catalog.RefOf(m)
	raw, err := rel.Encode()
	if err != nil {
		t.Fatal(err)
	}
	put(releaseDir(rel)+"/release.json", raw)
	latest, err := catalog.Canonical(catalog.Latest{Format: catalog.FormatVersion, Release: rel.Number, ID: catalog.ReleaseID(raw), Name: rel.Dataset.Name})
	if err != nil {
		t.Fatal(err)
	}
	put("latest.json", latest)
}
