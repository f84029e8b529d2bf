package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"astropile/internal/catalog"
	"astropile/internal/testkit"
)

// night is a survey of many files in a folder.
func night(t testing.TB, dir string, files int) (*Survey, []*file) {
	t.Helper()
	var list []*file
	for k := range files {
		list = append(list, &file{name: fmt.Sprintf("n%02d.h5", k), objects: objects(fmt.Sprintf("n%02d-", k), 30, float64(17*k), float64(5*k)-40, 8)})
	}
	s := sampleSurvey(list...)
	if err := onDisk(s, dir); err != nil {
		t.Fatal(err)
	}
	return s, list
}

func opened(files []*file) (out []string) {
	for _, f := range files {
		if f.opened.Load() > 0 {
			out = append(out, f.name)
		}
	}
	return out
}

// interrupt imports the survey and stops when so many inputs were opened.
func interrupt(t testing.TB, dir string, s *Survey, files []*file, after int) {
	t.Helper()
	stopped, cancel := context.WithCancel(ctx)
	defer cancel()
	opt := smallShards
	opt.Jobs = 1
	opt.Progress = func(string, int64, int64) {
		if len(opened(files)) > after {
			cancel()
		}
	}
	if _, err := Import(stopped, dir, s, opt); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestAnInterruptedImportDoesNotReadAgainWhatItRead(t *testing.T) {
	const files, after = 10, 6
	inputs := t.TempDir()
	whole := filepath.Join(t.TempDir(), "sample")
	s, _ := night(t, inputs, files)
	mustImport(t, whole, s, smallShards)
	want := tree(t, whole)
	one := func(k int) string { return fmt.Sprintf("n%02d.h5", k) }
	rewrite := func(p string) {
		if err := os.WriteFile(p, []byte("n02.h5"), 0o644); err != nil { // the same bytes
			t.Fatal(err)
		}
	}
	flip := func(name string) func(t *testing.T, dir string, s *Survey, opt *ImportOptions) {
		return func(t *testing.T, dir string, _ *Survey, _ *ImportOptions) {
			p := filepath.Join(dir, stagingDir, "1"+spoolEnd, name)
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/2] ^= 1
			if err := os.WriteFile(p, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(name string, to float64) func(t *testing.T, dir string, s *Survey, opt *ImportOptions) {
		return func(t *testing.T, dir string, _ *Survey, _ *ImportOptions) {
			p := filepath.Join(dir, stagingDir, "1"+spoolEnd, name)
			st, err := os.Stat(p)
			if err == nil {
				err = os.Truncate(p, int64(to*float64(st.Size())))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string, s *Survey, opt *ImportOptions)
		read   int // inputs that are read again at least, and at most
		most   int
		other  bool // something else comes out
	}{
		"nothing":                  {func(*testing.T, string, *Survey, *ImportOptions) {}, files - after, files - after, false},
		"an input":                 {func(_ *testing.T, _ string, s *Survey, _ *ImportOptions) { rewrite(s.Inputs[2].Path) }, files - after + 1, files - after + 1, false},
		"the recipe":               {func(_ *testing.T, _ string, s *Survey, _ *ImportOptions) { s.Recipe = []byte("other") }, files, files, true},
		"the version":              {func(_ *testing.T, _ string, _ *Survey, o *ImportOptions) { o.Tool = "another" }, files, files, true},
		"the shard size":           {func(_ *testing.T, _ string, _ *Survey, o *ImportOptions) { o.ShardSize *= 2 }, files - after, files - after, true},
		"--discard":                {func(_ *testing.T, _ string, _ *Survey, o *ImportOptions) { o.Discard = true }, files, files, false},
		"a bit of the rows":        {flip("rows"), files - after + 1, files - after + 1, false},
		"a bit of the index":       {flip("index"), files - after + 1, files - after + 1, false},
		"a bit of the list":        {flip("inputs"), files - after + 1, files, false},
		"half of the rows gone":    {cut("rows", 0.5), files - after + 1, files, false},
		"all of the index gone":    {cut("index", 0), files, files, false},
		"the end of the list torn": {cut("inputs", 0.99), files - after + 1, files - after + 1, false},
		"an input gone":            {func(_ *testing.T, _ string, s *Survey, _ *ImportOptions) { s.Inputs = s.Inputs[1:] }, files - after, files - after, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "sample")
			s, list := night(t, inputs, files)
			interrupt(t, dir, s, list, after)
			if _, err := Seal(ctx, dir, seal(1)); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), fmt.Sprintf("%d of %d inputs", after, files)) {
				t.Errorf("release: %v", err)
			}
			if _, err := Info(ctx, []string{dir}); !errors.Is(err, ErrNothing) || !strings.Contains(err.Error(), fmt.Sprintf("interrupted when %d of %d", after, files)) {
				t.Errorf("info: %v", err)
			}
			s, list = night(t, inputs, files)
			opt := smallShards
			var said string
			opt.Notice = func(text string) { said += text }
			c.change(t, dir, s, &opt)
			rep := mustImport(t, dir, s, opt)
			got := opened(list)
			if len(got) < c.read || len(got) > c.most || rep.Continued != len(s.Inputs)-len(got) {
				t.Errorf("read %v again, want %d to %d; continued %d", got, c.read, c.most, rep.Continued)
			}
			if !slices.Contains(got, one(files-1)) {
				t.Errorf("read %v", got)
			}
			if n := len(s.Inputs) - len(got); n > 0 && said != fmt.Sprintf("continues: %d of %d inputs were read", n, len(s.Inputs)) || n == 0 && said != "" {
				t.Errorf("said %q", said)
			}
			mustSealed := tree(t, dir)
			if d := withoutJournal(differences(want, mustSealed)); !c.other && d != nil {
				t.Errorf("these differ from an import that was not interrupted: %v", d)
			}
			mustSeal(t, dir, 1)
			mustVerify(t, dir)
		})
	}
}

// withoutJournal leaves out the journal, which tells of inodes and times.
func withoutJournal(paths []string) []string {
	out := slices.DeleteFunc(paths, func(p string) bool { return p == stagingDir+"/1.json" })
	if len(out) == 0 {
		return nil
	}
	return out
}

func TestAnImportThatFailsKeepsWhatItRead(t *testing.T) {
	inputs, dir := t.TempDir(), filepath.Join(t.TempDir(), "sample")
	s, list := night(t, inputs, 6)
	list[5].objects[3].id = list[0].objects[0].id
	if _, err := Import(ctx, dir, s, smallShards); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "occurs twice") {
		t.Fatalf("got %v", err)
	}
	s, again := night(t, inputs, 6)
	again[5].objects = list[5].objects
	opt := smallShards
	opt.Duplicates = DuplicatesFirst
	if rep := mustImport(t, dir, s, opt); rep.Continued != 6 || rep.Repeated != 1 || len(opened(again)) != 0 {
		t.Fatalf("%+v, read %v", rep, opened(again))
	}
}

// TestHelperImport is the process that TestKilledAtAnyMomentAnImportGoesOn kills.
func TestHelperImport(t *testing.T) {
	dir, inputs := os.Getenv("ASTROPILE_TEST_ROOT"), os.Getenv("ASTROPILE_TEST_INPUTS")
	if dir == "" {
		t.Skip("the process of another test")
	}
	s, _ := night(t, inputs, 24)
	opt := smallShards
	opt.Jobs, opt.sortMemory = 2, 1
	mustImport(t, dir, s, opt)
}

func TestKilledAtAnyMomentAnImportGoesOn(t *testing.T) {
	base, inputs := t.TempDir(), t.TempDir()
	night(t, inputs, 24)
	command := func(root string) *exec.Cmd {
		c := exec.Command(os.Args[0], "-test.run=^TestHelperImport$", "-test.count=1")
		c.Env = append(os.Environ(), "ASTROPILE_TEST_ROOT="+root, "ASTROPILE_TEST_INPUTS="+inputs)
		return c
	}
	whole := filepath.Join(base, "whole", "sample")
	start := time.Now()
	if out, err := command(whole).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := int(time.Since(start) / time.Millisecond)
	want := tree(t, whole)
	points := 24
	if testing.Short() {
		points = 6
	}
	moments := []testkit.Moment{}
	root := filepath.Join(base, "work", "sample")
	for k := range points {
		moments = append(moments, looks(took*k/points))
	}
	for _, p := range []string{".staging/1.json", ".staging/1.spool/inputs", ".staging/1.spool/rows", ".staging/1.spool/sorted", ".staging/1.shards/*", ".staging/1.shards/sample", ".staging/1/rows-00000.parquet", ".staging/1/stats.parquet"} {
		moments = append(moments, testkit.File(filepath.Join(root, filepath.FromSlash(p))))
	}
	continued, killed := 0, 0
	for k, m := range moments {
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
		if testkit.KillAfter(t, command(root), m, time.Minute).Killed {
			killed++
		}
		continued += rootAt(root).inputsRead(1)
		if k%3 == 2 { // and again, while it goes on
			testkit.KillAfter(t, command(root), looks(took/3), time.Minute)
		}
		if out, err := command(root).CombinedOutput(); err != nil {
			t.Fatalf("moment %d: %v: %s", k, err, out)
		}
		if d := withoutJournal(differences(want, tree(t, root))); d != nil {
			t.Fatalf("moment %d: these differ from an import that was not killed: %v", k, d)
		}
	}
	t.Logf("%d of %d were killed, with %d inputs read in all", killed, len(moments), continued)
	if continued == 0 {
		t.Error("no process was killed that had read an input")
	}
}

func rootAt(dir string) root { return root{dir, osDisk{}} }

func TestADamagedStagedShardIsNotSealed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	mustImport(t, dir, sampleSurvey(&file{name: "a.h5", objects: objects("a", 100, 10, 10, 1)}), smallShards)
	var shard string
	for p := range tree(t, dir) {
		if strings.HasSuffix(p, ".parquet") && strings.Contains(p, ".shards/") {
			shard = filepath.Join(dir, filepath.FromSlash(p))
		}
	}
	good, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(shard)
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(good)
	bad[len(bad)/3] ^= 1
	put := func(b []byte) {
		if err := os.WriteFile(shard, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(shard, st.ModTime(), st.ModTime()); err != nil { // no sign but the time of change
			t.Fatal(err)
		}
	}
	put(bad)
	if _, err := Seal(ctx, dir, seal(1)); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(shard)) {
		t.Fatalf("got %v", err)
	}
	put(good)
	mustSeal(t, dir, 1)
	mustVerify(t, dir)
}

func TestANullThatReleaseOneRulesOutIsRefusedAndAMissingColumnIsFilled(t *testing.T) {
	base := t.TempDir()
	first := func(nullable bool) string {
		dir := filepath.Join(base, fmt.Sprint(nullable), "sample")
		s := sampleSurvey(&file{name: "a.h5", objects: withZ(40)})
		s.Columns[3].Nullable = nullable
		mustImport(t, dir, s, smallShards)
		mustSeal(t, dir, 1)
		return dir
	}
	never, may := first(false), first(true)
	more := func() *Survey { return sampleSurvey(&file{name: "b.h5", objects: objects("b", 60, 10, 10, 1)}) } // z is null in a quarter
	if _, err := Import(ctx, never, more(), ImportOptions{Tool: "astropile test"}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "release 1 fixed z as never null") || !strings.Contains(err.Error(), "b.h5, row ") {
		t.Errorf("nulls: %v", err)
	}
	without := func() *Survey {
		s := more()
		s.Columns = slices.Delete(s.Columns, 3, 4)
		open := s.Inputs[0].Open
		s.Inputs[0].Open = func(ctx context.Context, workers int, slab int64) (Records, error) {
			r, err := open(ctx, workers, slab)
			return lacking{r, 3}, err
		}
		return s
	}
	if _, err := Import(ctx, never, without(), ImportOptions{Tool: "astropile test"}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `"z" as never null`) {
		t.Errorf("no column: %v", err)
	}
	mustImport(t, may, without(), ImportOptions{Tool: "astropile test"})
	mustSeal(t, may, 2)
	mustVerify(t, may)
	rel, _, manifest, err := LoadDataset(may)
	if err != nil {
		t.Fatal(err)
	}
	nulls := map[int]int{}
	err = rootAt(may).rows(ctx, &published{release: rel, manifest: manifest}, []string{"z"}, func(release int, vs []*catalog.Vector, rows int) error {
		for i := range rows {
			if vs[0].Null(i) {
				nulls[release]++
			}
		}
		return nil
	})
	if err != nil || nulls[1] != 0 || nulls[2] != 60 {
		t.Errorf("nulls %v, %v", nulls, err)
	}
}

// withZ gives objects whose z is not null.
func withZ(n int) (out []object) {
	all := (&file{objects: objects("a", 4*n, 10, 10, 1)})
	b, err := all.Read(ctx, 0, int64(4*n))
	if err != nil {
		panic(err)
	}
	for i, o := range all.objects {
		if !b.Vectors[3].Null(i) && len(out) < n {
			out = append(out, o)
		}
	}
	return out
}

// lacking is an input without one of its columns.
type lacking struct {
	Records
	column int
}

func (r lacking) Read(ctx context.Context, lo, hi int64) (*catalog.Batch, error) {
	b, err := r.Records.Read(ctx, lo, hi)
	if err != nil {
		return nil, err
	}
	b.Columns, b.Vectors = slices.Delete(b.Columns, r.column, r.column+1), slices.Delete(b.Vectors, r.column, r.column+1)
	return b, nil
}

func TestAReleaseThatWasCommittedIsReportedAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	mustImport(t, dir, sampleSurvey(&file{name: "a.h5", objects: objects("a", 100, 10, 10, 1)}), smallShards)
	want := tree(t, dir)
	if len(want) == 0 {
		t.Fatal("nothing is staged")
	}
	for at := 1; ; at++ {
		work := filepath.Join(t.TempDir(), "sample")
		copyTree(t, dir, work)
		d := &failingDisk{at: at, dead: true}
		_, err := sealInto(ctx, root{work, d}, seal(1))
		if err == nil {
			t.Fatal("no operation after the commit fails")
		}
		if _, e := os.Stat(filepath.Join(work, "sample", "releases", "1", "release.json")); e != nil {
			continue
		}
		rep, err := Seal(ctx, work, seal(1))
		if err != nil || !rep.Before || rep.Release != 1 || rep.Rows != 100 || rep.Added.Rows != 100 || rep.Shards != rep.Added.Shards {
			t.Fatalf("%+v, %v", rep, err)
		}
		mustVerify(t, work)
		if _, err := Seal(ctx, work, seal(1)); !errors.Is(err, ErrNothing) {
			t.Fatalf("once more: %v", err)
		}
		return
	}
}

func TestWhatIsStagedAndInTheWayIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	s := func() *Survey { return sampleSurvey(&file{name: "a.h5", objects: objects("a", 20, 10, 10, 1)}) }
	mustImport(t, dir, s(), smallShards)
	recipe := s()
	recipe.Recipe = []byte("# another")
	opt := smallShards
	opt.ShardSize *= 2
	for _, c := range []struct {
		s    *Survey
		opt  ImportOptions
		says string
	}{{sampleSurvey(&file{name: "b.h5", objects: objects("b", 20, 10, 10, 1)}), smallShards, "an import of other inputs is"}, {recipe, smallShards, "another recipe"}, {s(), opt, "other options (--name sample --shard-size 65536 "}} {
		if _, err := Import(ctx, dir, c.s, c.opt); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want %q: %v", c.says, err)
		}
	}
}

func TestRowsInOnePlaceAndAtThePolesAreCutIntoShards(t *testing.T) {
	for _, at := range [][2]float64{{123.456, 7.89}, {0, 90}, {359.9, 90}, {10, -90}} {
		dir := filepath.Join(t.TempDir(), "sample")
		f := &file{name: "a.h5", objects: objects("a", 1000, 0, 0, 1)}
		for i := range f.objects {
			f.objects[i].ra, f.objects[i].dec = at[0], at[1]
		}
		slices.Reverse(f.objects)
		opt := smallShards
		opt.ShardSize, opt.sortMemory = 64<<10, 1
		rep := mustImport(t, dir, sampleSurvey(f), opt)
		if rep.Rows != 1000 || int64(rep.Shards) < rep.Payload/opt.ShardSize {
			t.Fatalf("%v: %+v", at, rep)
		}
		mustSeal(t, dir, 1)
		mustVerify(t, dir)
		rel, _, manifest, err := LoadDataset(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i := range manifest {
			if manifest[i].Order != maxOrder || manifest[i].HpxMin != manifest[0].HpxMin {
				t.Fatalf("%v: shard %+v", at, manifest[i])
			}
		}
		ids := 0
		err = rootAt(dir).rows(ctx, &published{release: rel, manifest: manifest}, []string{"object_id"}, func(_ int, vs []*catalog.Vector, rows int) error {
			ids += rows
			return nil
		})
		if err != nil || ids != 1000 {
			t.Fatalf("%d ids, %v", ids, err)
		}
	}
}

func TestABudgetThatCannotWorkIsRefusedWithTheLeastThatDoes(t *testing.T) {
	opt := smallShards
	opt.Memory = 10 << 20
	_, err := Import(ctx, filepath.Join(t.TempDir(), "sample"), sampleSurvey(&file{name: "a.h5", objects: objects("a", 3, 0, 0, 1)}), opt)
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("got %v", err)
	}
	for _, row := range []int{1 << 10, 40 << 20} {
		cols := []catalog.Column{{Name: "t", Kind: catalog.Tensor, DType: catalog.Uint8, Shape: []int{row}}}
		_, err := newBudget(memoryLeast, 1, cols)
		if (err != nil) != (row > 10<<20) {
			t.Errorf("rows of %d bytes: %v", row, err)
		}
	}
	b := &budget{memory: memoryLeast}
	if err := b.fits(9<<20, 9<<20); err != nil {
		t.Error(err)
	}
	if err := b.fits(30<<20, 30<<20); err == nil || !strings.Contains(err.Error(), "--memory 166MiB") {
		t.Error(err)
	}
	if err := (&budget{memory: math.MaxInt64}).fits(1<<31, 0); err == nil {
		t.Error("a row of 2 GiB is let pass")
	}
}

func TestAJournalOfAnOlderKindIsRolledBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	r := rootAt(dir)
	b, err := json.Marshal(map[string]any{"state": "importing", "release": 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.writeFile(r.journalPath(1), b); err != nil {
		t.Fatal(err)
	}
	if err := Recover(ctx, dir); err != nil {
		t.Fatal(err)
	}
	if left := tree(t, dir); len(left) != 0 {
		t.Fatalf("left: %v", left)
	}
}
