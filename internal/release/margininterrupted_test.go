package release

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"astropile/internal/testkit"
)

// verge is what release n adds: objects on both sides of borders, in few pixels.
func verge(n int) *Survey {
	var out []object
	for i := range 12 {
		out = append(out, object{fmt.Sprintf("%c%02d", 'a'+n, i), 45 + float64(i+n-6)/3600, float64(i%5-2) / 3600})
	}
	return sampleSurvey(&file{name: string(rune('a'+n)) + ".h5", objects: out})
}

func TestAFailureWhileAMarginIsReleasedLeavesARootThatGoesOn(t *testing.T) {
	base := t.TempDir()
	plain := func(dir string) root { return root{dir, &failingDisk{}} }
	options := func(n int) SealOptions {
		o := seal(n)
		if n == 2 { // with the rows of release 1 in it
			o = furtherSeal(n)
		}
		o.Jobs = 1
		return o
	}
	stage := func(r root, n int) error {
		_, err := importInto(ctx, r, verge(n), ImportOptions{Name: "sample", ShardSize: 64 << 10, Jobs: 1, Tool: "astropile test"})
		return err
	}
	at := func(k string) string { return filepath.Join(base, k) }
	if err := os.MkdirAll(at("0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := stage(plain(at("0")), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := sealInto(ctx, plain(at("0")), options(1)); err != nil {
		t.Fatal(err)
	}
	for n := 2; n <= 3; n++ {
		staged := at("staged")
		for _, p := range []string{staged, at("done")} {
			if err := os.RemoveAll(p); err != nil {
				t.Fatal(err)
			}
		}
		copyTree(t, at("0"), staged)
		before := tree(t, staged)
		if err := stage(plain(staged), n); err != nil {
			t.Fatal(err)
		}
		copyTree(t, staged, at("done"))
		if _, err := sealInto(ctx, plain(at("done")), options(n)); err != nil {
			t.Fatal(err)
		}
		want := tree(t, at("done"))
		for _, dead := range []bool{false, true} {
			step := 12
			if n == 2 && dead {
				step = 4
			}
			if testing.Short() {
				step = 60
			}
			for op := 1; ; op += step {
				dir := at("work")
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				copyTree(t, staged, dir)
				d := &failingDisk{at: op, dead: dead}
				_, failed := sealInto(ctx, root{dir, d}, options(n))
				if d.n < op {
					if failed != nil {
						t.Fatal(failed)
					}
					t.Logf("release %d, dead %t: %d operations", n, dead, d.n)
					break
				}
				if failed != nil && !errors.Is(failed, errDisk) || failed == nil && dead {
					t.Fatalf("release %d, operation %d, dead %t: %v", n, op, dead, failed)
				}
				if err := recoverRoot(plain(dir)); err != nil {
					t.Fatalf("release %d, operation %d, dead %t: recover: %v", n, op, dead, err)
				}
				after := tree(t, dir)
				if _, done := after["sample/releases/"+string(rune('0'+n))+"/release.json"]; !done {
					for p, h := range after {
						if !strings.HasPrefix(p, stagingDir) && before[p] != h {
							t.Fatalf("release %d, operation %d, dead %t: %s was not rolled back", n, op, dead, p)
						}
					}
					if _, err := sealInto(ctx, plain(dir), options(n)); err != nil {
						t.Fatalf("release %d, operation %d, dead %t: rerun: %v", n, op, dead, err)
					}
				}
				if diff := differences(want, tree(t, dir)); diff != nil {
					t.Fatalf("release %d, operation %d, dead %t: %v differ", n, op, dead, diff)
				}
			}
		}
		if err := os.RemoveAll(at("0")); err != nil {
			t.Fatal(err)
		}
		copyTree(t, at("done"), at("0"))
	}
	mustVerify(t, at("0"))
}

func TestKilledWhileAMarginIsReleasedTheNextCommandGoesBackOrOn(t *testing.T) {
	bin, base := testkit.Binary(t), t.TempDir()
	staged, whole := filepath.Join(base, "staged"), filepath.Join(base, "whole")
	mustImport(t, staged, sampleSurvey(&file{name: "a", objects: bordered("a", 300, 3)}), smallShards)
	mustSeal(t, staged, 1)
	mustImport(t, staged, sampleSurvey(&file{name: "b", objects: bordered("b", 300, 4)}), smallShards)
	command := func(root string) *exec.Cmd {
		return exec.Command(bin, "release", root, "-m", "x", "--margin", "10", "--index", "object_id", "--jobs", "2")
	}
	copyTree(t, staged, whole)
	start := time.Now()
	if out, err := command(whole).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := int(time.Since(start) / time.Millisecond)
	want := undated(tree(t, whole))
	work := filepath.Join(base, "work")
	moments := map[string]testkit.Moment{}
	for _, pattern := range []string{".staging/2.shards/sample_margin", ".staging/2.shards/sample_ids", ".staging/2/meta/ids/_metadata", ".staging/2/release.json", "sample_margin/dataset", "sample_ids/dataset/index/2", "sample/releases/2", "sample_margin/hats.properties"} {
		moments[pattern] = testkit.File(filepath.Join(work, filepath.FromSlash(pattern)))
	}
	points := 6
	if testing.Short() {
		points = 1
	}
	for k := range points {
		moments[string(rune('0'+k))] = looks(took * k / points)
	}
	for name, moment := range moments {
		if err := os.RemoveAll(work); err != nil {
			t.Fatal(err)
		}
		copyTree(t, staged, work)
		testkit.KillAfter(t, command(work), moment, time.Minute)
		_, err := os.Stat(filepath.Join(work, "sample", "releases", "2", "release.json"))
		committed := err == nil
		out, err := command(work).CombinedOutput()
		if !committed && err != nil || committed && err != nil && !strings.Contains(string(out), "nothing is staged") {
			t.Fatalf("%s: committed %t: rerun: %v: %s", name, committed, err, out)
		}
		if d := differences(want, undated(tree(t, work))); d != nil {
			t.Fatalf("%s: these differ from a release that was not killed: %v", name, d)
		}
		mustVerify(t, work)
	}
}
