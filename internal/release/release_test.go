package release

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

var ctx = context.Background()

func TestAReleaseHoldsEveryRowThatWentIn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	a, b := &file{name: "a.h5", objects: objects("a", 300, 10, 20, 40)}, &file{name: "b.h5", objects: objects("b", 200, 200, -60, 40)}
	rep := mustImport(t, dir, sampleSurvey(a, b), smallShards)
	if rep.Rows != 500 || rep.Inputs != 2 || rep.Shards < 2 {
		t.Fatalf("report %+v", rep)
	}
	s := mustSeal(t, dir, 1)
	if s.Rows != 500 || s.Added.Rows != 500 || s.Shards != rep.Shards {
		t.Fatalf("report %+v", s)
	}
	v := mustVerify(t, dir)
	if v.Rows != 500 || v.Shards != rep.Shards || v.ID != s.ID {
		t.Fatalf("verified %+v", v)
	}
	rel, id, manifest, err := LoadDataset(dir)
	if err != nil || id != s.ID {
		t.Fatal(err, id)
	}
	if rel.Dataset.Columns[0].Name != healpixColumn || rel.Dataset.Licence != "CC-BY-4.0" {
		t.Fatalf("dataset %+v", rel.Dataset)
	}
	var ids []string
	p := &published{release: rel, manifest: manifest}
	err = root{dir, osDisk{}}.rows(ctx, p, []string{"object_id"}, func(_ int, vs []*catalog.Vector, rows int) error {
		for i := range rows {
			ids = append(ids, string(vs[0].Str(i)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, o := range append(a.objects, b.objects...) {
		want = append(want, o.id)
	}
	slices.Sort(ids)
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		t.Fatalf("%d ids came out, %d went in", len(ids), len(want))
	}
	if left, _ := os.ReadDir(filepath.Join(dir, stagingDir)); len(left) != 1 {
		t.Fatalf("left in staging: %v", left)
	}
}

func TestAnAppendChangesNothingThatIsPublished(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	mustImport(t, dir, sampleSurvey(&file{name: "a.h5", objects: objects("a", 300, 10, 20, 40)}), smallShards)
	first := mustSeal(t, dir, 1)
	before := tree(t, dir)
	rep := mustImport(t, dir, sampleSurvey(&file{name: "b.h5", objects: objects("b", 400, 15, 22, 60)}), ImportOptions{Jobs: 3, Tool: "astropile test"})
	if d := differences(before, tree(t, dir)); slices.ContainsFunc(d, func(p string) bool { return !strings.HasPrefix(p, stagingDir) }) {
		t.Fatalf("an import changed %v", d)
	}
	second := mustSeal(t, dir, 2)
	after := tree(t, dir)
	for p, h := range before {
		if after[p] != h && !top(p) {
			t.Errorf("%s changed", p)
		}
	}
	if second.Rows != 700 || second.Added.Rows != 400 || second.Added.Shards != rep.Shards {
		t.Fatalf("report %+v", second)
	}
	rel, _, manifest, err := LoadDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	if rel.Parent != first.ID || rel.Dataset.Licence != "CC-BY-4.0" || rel.Dataset.Citation != "Someone, 2026" {
		t.Fatalf("release %+v", rel)
	}
	added := 0
	for _, s := range manifest {
		if _, old := before[s.Path]; old != (s.Release == 1) {
			t.Errorf("%s is said to be of release %d", s.Path, s.Release)
		}
		if s.Release == 2 {
			added++
		}
	}
	if added != rep.Shards {
		t.Errorf("the release names %d new shards, the import wrote %d", added, rep.Shards)
	}
	v := mustVerify(t, dir)
	if v.Rows != 700 || v.Releases != 2 {
		t.Fatalf("verified %+v", v)
	}
}

func TestTheSameInputsGiveTheSameBytesAtAnyJobs(t *testing.T) {
	var want map[string]string
	for _, o := range []ImportOptions{{Jobs: 1}, {Jobs: 2}, {Jobs: 7}, {Jobs: 3, Memory: 64 << 20}, {Jobs: 2, sortMemory: 1}} {
		dir := filepath.Join(t.TempDir(), "sample")
		opt := smallShards
		opt.Jobs, opt.Memory, opt.sortMemory = o.Jobs, o.Memory, o.sortMemory
		files := []*file{{name: "z.h5", objects: objects("a", 150, 10, 20, 40)}, {name: "b.h5", objects: objects("b", 80, 30, 0, 80)}, {name: "c/d.h5", objects: objects("c", 33, 300, 80, 20)}}
		if o.Jobs == 7 {
			slices.Reverse(files)
		}
		mustImport(t, dir, sampleSurvey(files...), opt)
		mustSeal(t, dir, 1)
		got := tree(t, dir)
		if want == nil {
			want = got
		} else if d := differences(want, got); d != nil {
			t.Errorf("jobs %d, memory %d: these differ: %v", o.Jobs, o.Memory, d)
		}
	}
}

func TestDuplicatesAreRefusedByNameOrLeftOutOrKept(t *testing.T) {
	twin := object{"twin", 10, 10}
	one := &file{name: "one.h5", objects: append(objects("a", 20, 10, 10, 5), twin)}
	two := &file{name: "two.h5", objects: append([]object{{"twin", 40, 40}}, objects("b", 20, 10, 10, 5)...)}
	dir := filepath.Join(t.TempDir(), "sample")
	_, err := Import(ctx, dir, sampleSurvey(two, one), smallShards)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `"twin"`) || !strings.Contains(err.Error(), "one.h5, row 20") || !strings.Contains(err.Error(), "two.h5, row 0") {
		t.Fatalf("got %v", err)
	}
	opt := smallShards
	opt.Duplicates = DuplicatesAll
	all := filepath.Join(t.TempDir(), "sample")
	if rep := mustImport(t, all, sampleSurvey(two, one), opt); rep.Rows != 42 || rep.Repeated != 0 {
		t.Fatalf("all: %+v", rep)
	}
	mustSeal(t, all, 1)
	mustVerify(t, all)

	opt.Duplicates = DuplicatesFirst
	if rep := mustImport(t, dir, sampleSurvey(two, one), opt); rep.Rows != 41 || rep.Repeated != 1 {
		t.Fatalf("first: %+v", rep)
	}
	mustSeal(t, dir, 1)
	if ra := raOf(t, dir, "twin"); !slices.Equal(ra, []float64{10}) {
		t.Fatalf("the twin that was kept is at ra %v, want the one of one.h5", ra)
	}

	// Against an earlier release.
	again := &file{name: "three.h5", objects: []object{{"new", 1, 1}, {"twin", 2, 2}}}
	_, err = Import(ctx, dir, sampleSurvey(again), ImportOptions{Tool: "astropile test"})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "three.h5, row 1") || !strings.Contains(err.Error(), "release 1") {
		t.Fatalf("got %v", err)
	}
	if rep := mustImport(t, dir, sampleSurvey(again), ImportOptions{Duplicates: DuplicatesFirst, Tool: "astropile test"}); rep.Rows != 1 || rep.Repeated != 1 {
		t.Fatalf("first, append: %+v", rep)
	}
	mustSeal(t, dir, 2)
	only := &file{name: "four.h5", objects: []object{{"new", 1, 1}}}
	if _, err := Import(ctx, dir, sampleSurvey(only), ImportOptions{Duplicates: DuplicatesFirst}); !errors.Is(err, ErrNothing) {
		t.Fatalf("got %v", err)
	}
	if rep := mustImport(t, dir, sampleSurvey(again), ImportOptions{Duplicates: DuplicatesAll, Tool: "astropile test"}); rep.Rows != 2 {
		t.Fatalf("all, append: %+v", rep)
	}
	mustSeal(t, dir, 3)
	mustVerify(t, dir)
	if ra := raOf(t, dir, "twin"); !slices.Equal(ra, []float64{10, 2}) {
		t.Fatalf("twins at ra %v", ra)
	}
}

func raOf(t *testing.T, dir, id string) (out []float64) {
	t.Helper()
	rel, _, manifest, err := LoadDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = root{dir, osDisk{}}.rows(ctx, &published{release: rel, manifest: manifest}, []string{"object_id", "ra"}, func(_ int, vs []*catalog.Vector, rows int) error {
		for i := range rows {
			if string(vs[0].Str(i)) == id {
				ra, _ := number(catalog.Float64, vs[1], i)
				out = append(out, ra)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAShardThatIsPublishedIsNotPublishedTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	s := func() *Survey { return sampleSurvey(&file{name: "a.h5", objects: objects("a", 20, 10, 10, 1)}) }
	mustImport(t, dir, s(), smallShards)
	mustSeal(t, dir, 1)
	before := tree(t, dir)
	_, err := Import(ctx, dir, s(), ImportOptions{Duplicates: DuplicatesAll, Tool: "astropile test"})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "same to the byte") {
		t.Fatalf("got %v", err)
	}
	if d := differences(before, tree(t, dir)); d != nil {
		t.Fatalf("changed: %v", d)
	}
}

func TestRowsWithoutAPositionAreRefusedByFileAndRow(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	f := &file{name: "a.h5", objects: objects("a", 20, 10, 10, 1)}
	f.objects[9].ra, f.objects[17].dec = math.NaN(), 91
	_, err := Import(ctx, dir, sampleSurvey(f), smallShards)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "a.h5, rows 9, 17:") {
		t.Fatalf("got %v", err)
	}
	if left := tree(t, dir); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
	s := sampleSurvey(f)
	s.RA, s.Dec = "", ""
	mustImport(t, dir, s, smallShards)
	mustSeal(t, dir, 1)
	mustVerify(t, dir)
}

func TestInfoTellsWhatIsThere(t *testing.T) {
	base := t.TempDir()
	one, two := filepath.Join(base, "one"), filepath.Join(base, "two")
	mustImport(t, one, sampleSurvey(&file{name: "a.h5", objects: objects("a", 400, 30, 10, 20)}), smallShards)
	mustSeal(t, one, 1)
	mustImport(t, one, sampleSurvey(&file{name: "b.h5", objects: objects("b", 10, 30, 10, 20)}), ImportOptions{Tool: "astropile test"})
	mustSeal(t, one, 2)
	mustImport(t, one, sampleSurvey(&file{name: "c.h5", objects: objects("c", 10, 30, 10, 20)}), ImportOptions{Tool: "astropile test"})
	s := sampleSurvey(&file{name: "a.h5", objects: objects("a", 5, 30, 10, 20)})
	s.RA, s.Dec = "", ""
	mustImport(t, two, s, smallShards)
	mustSeal(t, two, 1)
	got, err := Info(ctx, []string{base})
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	a, b := got[0], got[1]
	if a.Rows != 410 || len(a.Releases) != 2 || a.Releases[0].Rows != 400 || a.Staged != 3 || a.Licence != "CC-BY-4.0" || a.Columns[0].Name != healpixColumn {
		t.Errorf("one: %+v", a)
	}
	// 20 by 20 degrees at the equator are a little under 400 square degrees; map pixels at the rim count whole.
	if a.SkyArea < 380 || a.SkyArea > 620 {
		t.Errorf("one: %v square degrees", a.SkyArea)
	}
	if b.Rows != 5 || b.SkyArea != 0 || b.Pixels != 0 || b.RA != "" {
		t.Errorf("two: %+v", b)
	}
}

func TestTheInputsOwnHealpixColumnIsTakenOnlyWhereItAgrees(t *testing.T) {
	f := &file{name: "a.h5", objects: objects("a", 20, 10, 10, 1)}
	with := func(shift int64) *Survey {
		s := sampleSurvey(f)
		s.Columns = append(s.Columns, catalog.Column{Name: healpixColumn, Kind: catalog.Scalar, DType: catalog.Int64})
		s.Inputs[0].Open = func(context.Context, int, int64) (Records, error) { return &placedFile{f, shift}, nil }
		return s
	}
	dir := filepath.Join(t.TempDir(), "sample")
	_, err := Import(ctx, dir, with(1<<40), smallShards)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "a.h5, rows 0, 1,") || !strings.Contains(err.Error(), "rename:") {
		t.Fatalf("got %v", err)
	}
	mustImport(t, dir, with(1), smallShards) // a neighbour: another program's edge
	mustSeal(t, dir, 1)
	plain := filepath.Join(t.TempDir(), "sample")
	mustImport(t, plain, sampleSurvey(f), smallShards)
	mustSeal(t, plain, 1)
	if d := differences(tree(t, dir), tree(t, plain)); d != nil {
		t.Fatalf("these differ from a release of the same rows without the column: %v", d)
	}
}

// placedFile has a _healpix_29 of its own, moved by some pixels.
type placedFile struct {
	*file
	shift int64
}

func (f *placedFile) Read(ctx context.Context, lo, hi int64) (*catalog.Batch, error) {
	b, err := f.file.Read(ctx, lo, hi)
	if err != nil {
		return nil, err
	}
	c := catalog.Column{Name: healpixColumn, Kind: catalog.Scalar, DType: catalog.Int64}
	v := &catalog.Vector{Rows: b.Rows}
	for _, o := range f.objects[lo:hi] {
		h, err := sky.Healpix29(o.ra, o.dec)
		if err != nil {
			return nil, err
		}
		v.Data = binary.LittleEndian.AppendUint64(v.Data, uint64(h^f.shift))
	}
	b.Columns, b.Vectors = append(b.Columns, c), append(b.Vectors, v)
	return b, nil
}

func TestAnImportThatIsCancelledLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	mustImport(t, dir, sampleSurvey(&file{name: "a.h5", objects: objects("a", 20, 10, 10, 1)}), smallShards)
	mustSeal(t, dir, 1)
	before := tree(t, dir)
	for _, phase := range []string{"read inputs", "check ids", "write shards"} {
		ctx, cancel := context.WithCancel(context.Background())
		opt := ImportOptions{Jobs: 2, Tool: "astropile test", Progress: func(p string, _, _ int64) {
			if p == phase {
				cancel()
			}
		}}
		_, err := Import(ctx, dir, sampleSurvey(&file{name: "b.h5", objects: objects("b", 400, 10, 10, 90)}), opt)
		if cancel(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", phase, err)
		}
		if d := differences(before, tree(t, dir)); d != nil {
			t.Errorf("%s: changed: %v", phase, d)
		}
	}
}

func TestAnInputThatChangesWhileItIsReadIsRefused(t *testing.T) {
	base := t.TempDir()
	dir, p := filepath.Join(base, "sample"), filepath.Join(base, "a.h5")
	if err := os.WriteFile(p, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := sampleSurvey(&file{name: "a.h5", objects: objects("a", 20, 10, 10, 1)})
	s.Inputs[0].Path = p
	open := s.Inputs[0].Open
	s.Inputs[0].Open = func(ctx context.Context, workers int, slab int64) (Records, error) {
		if err := os.WriteFile(p, []byte("and after"), 0o644); err != nil {
			return nil, err
		}
		return open(ctx, workers, slab)
	}
	if _, err := Import(ctx, dir, s, smallShards); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), p) {
		t.Fatalf("got %v", err)
	}
}

func TestDataWithoutSkyKeepsTheOrderOfItsInput(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	f := &file{name: "a.h5", objects: objects("a", 600, 10, 10, 100)}
	for n := 1; n <= 2; n++ {
		s := sampleSurvey(f)
		s.RA, s.Dec = "", ""
		mustImport(t, dir, s, smallShards)
		mustSeal(t, dir, n)
		mustVerify(t, dir)
		for i := range f.objects {
			f.objects[i].id = "x" + f.objects[i].id
		}
	}
	rel, _, manifest, err := LoadDataset(dir)
	if err != nil {
		t.Fatal(err)
	}
	if rel.Dataset.Column(healpixColumn) != nil || len(manifest) < 6 {
		t.Fatalf("%d shards, columns %v", len(manifest), rel.Dataset.Columns)
	}
	for i, s := range manifest {
		if s.Order != catalog.NoSky || !strings.HasPrefix(s.Path, fmt.Sprintf("sample/dataset/part/%03d/", i)) {
			t.Fatalf("shard %d: %+v", i, s)
		}
	}
	got := map[int][]string{}
	err = root{dir, osDisk{}}.rows(ctx, &published{release: rel, manifest: manifest}, []string{"object_id"}, func(release int, vs []*catalog.Vector, n int) error {
		for i := range n {
			got[release] = append(got[release], string(vs[0].Str(i)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for release, ids := range got {
		if len(ids) != 600 || !slices.IsSorted(ids) {
			t.Errorf("release %d: %d rows, in the order of the input: %t", release, len(ids), slices.IsSorted(ids))
		}
	}
}

func TestFoldersWithoutSkyKeepTheOrderOfManyShards(t *testing.T) {
	for _, c := range []struct{ before, shards, first, each int }{
		{0, 1, 0, 1}, {0, 1000, 0, 1}, {0, 1001, 0, 2}, {0, 5500, 0, 6}, {990, 10, 990, 1}, {990, 11, 1000, 1}, {1500, 700, 1500, 1}, {9500, 600, 10000, 1},
	} {
		im := &importer{}
		if c.before > 0 {
			im.parent = &published{manifest: []catalog.Shard{{Path: fmt.Sprintf("a/dataset/part/%03d/x.parquet", c.before-1)}, {Path: "a/dataset/part/000/y.parquet"}}}
		}
		first, each := im.partFolders(c.shards)
		if first != c.first || each != c.each {
			t.Errorf("%d shards after %d folders: from %d on, %d each; want %d, %d", c.shards, c.before, first, each, c.first, c.each)
		}
		last := fmt.Sprintf("%03d", first+(c.shards-1)/each)
		if a := fmt.Sprintf("%03d", first); len(a) != len(last) {
			t.Errorf("%d shards after %d folders: %s to %s are not sorted as text", c.shards, c.before, a, last)
		}
	}
}

func TestADamagedInputStopsTheImportOrIsLeftOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	broken := errors.New("chunk 3 does not inflate")
	files := func() *Survey {
		return sampleSurvey(&file{name: "a.h5", objects: objects("a", 20, 10, 10, 1)}, &file{name: "bad.h5", objects: objects("b", 20, 10, 10, 1), bad: broken})
	}
	_, err := Import(ctx, dir, files(), smallShards)
	if !errors.Is(err, ErrDamaged) || !errors.Is(err, broken) || !strings.Contains(err.Error(), "bad.h5") {
		t.Fatalf("got %v", err)
	}
	opt := smallShards
	opt.SkipBad = true
	rep := mustImport(t, dir, files(), opt)
	if rep.Rows != 20 || rep.Inputs != 1 || len(rep.Skipped) != 1 || !strings.Contains(rep.Skipped[0], "bad.h5") || !strings.Contains(rep.Skipped[0], broken.Error()) {
		t.Fatalf("report %+v", rep)
	}
	if s := mustSeal(t, dir, 1); len(s.Skipped) != 1 {
		t.Fatalf("sealed %+v", s)
	}
}

func TestWhatDoesNotFitTheDatasetIsRefusedByName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	mustImport(t, dir, sampleSurvey(&file{name: "a.h5", objects: objects("a", 20, 10, 10, 1)}), smallShards)
	mustSeal(t, dir, 1)
	before := tree(t, dir)
	change := func(f func(s *Survey)) *Survey {
		s := sampleSurvey(&file{name: "b.h5", objects: objects("b", 20, 10, 10, 1)})
		f(s)
		return s
	}
	for name, c := range map[string]struct {
		s    *Survey
		opt  ImportOptions
		says string
	}{
		"dtype":  {change(func(s *Survey) { s.Columns[3].DType = catalog.Float64 }), ImportOptions{}, `"z"`},
		"unit":   {change(func(s *Survey) { s.Columns[5].Unit = "Jy" }), ImportOptions{}, `"image"`},
		"shape":  {change(func(s *Survey) { s.Columns[5].Shape = []int{8, 9} }), ImportOptions{}, `"image"`},
		"member": {change(func(s *Survey) { s.Columns[4].Members[1].DType = catalog.Float64 }), ImportOptions{}, `"lightcurve"`},
		"extra": {change(func(s *Survey) {
			s.Columns = append(s.Columns, catalog.Column{Name: "extra", Kind: catalog.Scalar, DType: catalog.Int32})
		}), ImportOptions{}, `"extra"`},
		"missing":    {change(func(s *Survey) { s.Columns = slices.Delete(s.Columns, 5, 6) }), ImportOptions{}, `"image"`},
		"name":       {change(func(*Survey) {}), ImportOptions{Name: "other"}, `"other"`},
		"shard size": {change(func(*Survey) {}), ImportOptions{ShardSize: 1 << 20}, "shard size"},
		"expect":     {change(func(*Survey) {}), ImportOptions{Expect: 7}, "7x"},
		"no sky":     {change(func(s *Survey) { s.RA, s.Dec = "", "" }), ImportOptions{}, "position"},
	} {
		if _, err := Import(ctx, dir, c.s, c.opt); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if d := differences(before, tree(t, dir)); d != nil {
		t.Errorf("changed: %v", d)
	}
}

func TestNoReleaseWithoutLicenceAndCitation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	if _, err := Seal(ctx, dir, seal(1)); !errors.Is(err, ErrNothing) {
		t.Fatalf("nothing staged: %v", err)
	}
	mustImport(t, dir, sampleSurvey(&file{name: "a.h5", objects: objects("a", 20, 10, 10, 1)}), smallShards)
	for _, o := range []SealOptions{{Citation: "x"}, {Licence: "CC-BY-4.0"}, {Licence: "CC-BY-4.0", Citation: " \n"}, {Licence: "CC BY 4", Citation: "x"}, {Licence: "CC-BY-4", Citation: "x"}, {Licence: "mine", Citation: "x"}} {
		o.Now = moment(1)
		if _, err := Seal(ctx, dir, o); !errors.Is(err, ErrRefused) {
			t.Errorf("%+v: got %v", o, err)
		}
	}
	o := seal(1)
	o.Licence = "cc-by-4.0"
	if _, err := Seal(ctx, dir, o); err != nil {
		t.Fatal(err)
	}
	rel, _, _, err := LoadDataset(dir)
	if err != nil || rel.Dataset.Licence != "CC-BY-4.0" {
		t.Fatalf("licence %q, %v", rel.Dataset.Licence, err)
	}
	if _, err := Seal(ctx, dir, seal(2)); !errors.Is(err, ErrNothing) {
		t.Fatalf("nothing staged: %v", err)
	}
}

func TestASecondCommandOnARootIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	var inner, sealed error
	f := &file{name: "a.h5", objects: objects("a", 20, 10, 10, 1)}
	s := sampleSurvey(f)
	open := s.Inputs[0].Open
	s.Inputs[0].Open = func(ctx context.Context, workers int, slab int64) (Records, error) {
		_, inner = Import(ctx, dir, sampleSurvey(f), smallShards)
		_, sealed = Seal(ctx, dir, seal(1))
		return open(ctx, workers, slab)
	}
	mustImport(t, dir, s, smallShards)
	if !errors.Is(inner, ErrBusy) || !errors.Is(sealed, ErrBusy) {
		t.Fatalf("import: %v; seal: %v", inner, sealed)
	}
	mustSeal(t, dir, 1)
}

func TestAStagedImportIsKeptUntilItIsSealedOrDiscarded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	a := sampleSurvey(&file{name: "a.h5", objects: objects("a", 20, 10, 10, 1)})
	b := sampleSurvey(&file{name: "b.h5", objects: objects("b", 30, 10, 10, 1)})
	first := mustImport(t, dir, a, smallShards)
	staged := tree(t, dir)
	again := mustImport(t, dir, a, smallShards)
	if !again.Again || again.Rows != first.Rows || again.Bytes != first.Bytes || differences(staged, tree(t, dir)) != nil {
		t.Fatalf("again: %+v, first: %+v", again, first)
	}
	if _, err := Import(ctx, dir, b, smallShards); !errors.Is(err, ErrRefused) {
		t.Fatalf("got %v", err)
	}
	if d := differences(staged, tree(t, dir)); d != nil {
		t.Fatalf("a refused import changed %v", d)
	}
	opt := smallShards
	opt.Discard = true
	if rep := mustImport(t, dir, b, opt); rep.Rows != 30 {
		t.Fatalf("%+v", rep)
	}
	if s := mustSeal(t, dir, 1); s.Rows != 30 {
		t.Fatalf("%+v", s)
	}
}

func TestVerifyNamesWhatIsWrong(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	mustImport(t, dir, sampleSurvey(&file{name: "a.h5", objects: objects("a", 200, 10, 10, 30)}), smallShards)
	mustSeal(t, dir, 1)
	mustImport(t, dir, sampleSurvey(&file{name: "b.h5", objects: objects("b", 100, 15, 10, 30)}), smallShards)
	mustSeal(t, dir, 2)
	for p := range tree(t, dir) {
		full := filepath.Join(dir, filepath.FromSlash(p))
		good, err := os.ReadFile(full)
		if err != nil {
			t.Fatal(err)
		}
		flipped := bytes.Clone(good)
		flipped[len(flipped)/2] ^= 4
		for what, bad := range map[string][]byte{"flipped": flipped, "cut": good[:len(good)/2], "gone": nil} {
			if bad == nil {
				err = os.Remove(full)
			} else {
				err = os.WriteFile(full, bad, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			rep, err := Verify(ctx, dir, VerifyOptions{Deep: true, Jobs: 2})
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%s %s: got %v", p, what, err)
			} else if !strings.Contains(fmt.Sprint(rep, err), strings.TrimPrefix(filepath.Dir(p)+"/", "./")) {
				t.Errorf("%s %s: found %v, %v", p, what, rep, err)
			}
		}
		if err := os.WriteFile(full, good, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mustVerify(t, dir)
	stray := filepath.Join(dir, "sample", "dataset", "Norder=0", "Dir=0", "Npix=0", "stray.parquet")
	if err := os.MkdirAll(filepath.Dir(stray), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(stray, []byte("PAR1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(ctx, dir, VerifyOptions{}); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "stray.parquet") {
		t.Errorf("a stray shard: %v", err)
	}
}

// TestAppendsOfAHundredTimesTheFirstRelease appends until a pixel has outgrown its shard size; expecting growth prevents it.
func TestAppendsOfAHundredTimesTheFirstRelease(t *testing.T) {
	const rows = 60
	times := []int{5, 15, 30, 50} // the first release
	grow := func(dir string, expect int) (warned bool, err error) {
		opt := smallShards
		opt.Expect = expect
		mustImport(t, dir, sampleSurvey(&file{name: "0.h5", objects: objects("first", rows, 40, 5, 8)}), opt)
		mustSeal(t, dir, 1)
		for k, n := range times {
			f := &file{name: fmt.Sprintf("%d.h5", k+1), objects: objects(fmt.Sprintf("%02d-", k), n*rows, 40, 5, 8)}
			rep, err := Import(ctx, dir, sampleSurvey(f), ImportOptions{Jobs: 2, Tool: "astropile test"})
			if err != nil {
				return warned, err
			}
			for _, g := range rep.Growth {
				if g.Times < warnTimes || g.Times > refuseTimes {
					t.Errorf("expect %d: warned of %+v", expect, g)
				}
			}
			warned = warned || len(rep.Growth) > 0
			mustSeal(t, dir, k+2)
		}
		return warned, nil
	}
	one := filepath.Join(t.TempDir(), "sample")
	warned, err := grow(one, 1)
	if !warned || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--expect") {
		t.Errorf("warned %t, then %v", warned, err)
	}
	mustVerify(t, one)
	many := filepath.Join(t.TempDir(), "sample")
	if warned, err := grow(many, 32); warned || err != nil {
		t.Errorf("with --expect 32x: warned %t, then %v", warned, err)
	}
	if v := mustVerify(t, many); v.Rows != 101*rows {
		t.Errorf("%d rows", v.Rows)
	}
}

func TestIdsThatTrimmingMadeEqualAreToldAsTheyWere(t *testing.T) {
	s := &Survey{Columns: []catalog.Column{{Name: "id", Kind: catalog.Scalar, DType: catalog.String}, {Name: "id_raw", Kind: catalog.Scalar, DType: catalog.String}}, ID: "id", RawID: "id_raw"}
	text := func(list ...string) *catalog.Vector {
		v := &catalog.Vector{Rows: len(list), Offsets: []int64{0}}
		for _, x := range list {
			v.Data = append(v.Data, x...)
			v.Offsets = append(v.Offsets, int64(len(v.Data)))
		}
		return v
	}
	with := func(raw ...string) *Survey {
		c := *s
		ids := make([]string, len(raw))
		for i := range ids {
			ids[i] = "7"
		}
		b := &catalog.Batch{Columns: s.Columns, Rows: len(raw), Vectors: []*catalog.Vector{text(ids...), text(raw...)}}
		c.Inputs = []Input{{Rel: "a.h5", Bytes: 1, Open: func(context.Context, int, int64) (Records, error) { return oneBatch{b}, nil }}}
		return &c
	}
	dir := filepath.Join(t.TempDir(), "sample")
	_, err := Import(ctx, dir, with("7 ", "b' 7'"), smallShards)
	if got := fmt.Sprint(err); !strings.Contains(got, `"7 "`) || !strings.Contains(got, `"b' 7'"`) || !strings.Contains(got, "trimming made them equal") {
		t.Errorf("two rows: %s", got)
	}
	if _, err = Import(ctx, dir, with("7 ", "7 "), smallShards); !errors.Is(err, ErrRefused) || strings.Contains(err.Error(), "trimming") {
		t.Errorf("ids that were equal before: %v", err)
	}
	mustImport(t, dir, with("7"), smallShards)
	mustSeal(t, dir, 1)
	if _, err = Import(ctx, dir, with("b' 7'"), ImportOptions{Tool: "astropile test"}); !strings.Contains(fmt.Sprint(err), `"b' 7'"`) {
		t.Errorf("beside an earlier release: %v", err)
	}
	s.RawID = ""
	if _, err = Import(ctx, dir, with("7 ", "b' 7'"), ImportOptions{Tool: "astropile test"}); !errors.Is(err, ErrRefused) || strings.Contains(err.Error(), "trimming") {
		t.Errorf("nothing kept raw: %v", err)
	}
}

// oneBatch is an input of one batch.
type oneBatch struct{ b *catalog.Batch }

func (r oneBatch) Rows() int64                                                { return int64(r.b.Rows) }
func (r oneBatch) Slab() int64                                                { return int64(r.b.Rows) }
func (r oneBatch) Close() error                                               { return nil }
func (r oneBatch) Read(context.Context, int64, int64) (*catalog.Batch, error) { return r.b, nil }
