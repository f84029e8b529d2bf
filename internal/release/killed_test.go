package release

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"astropile/internal/testkit"
)

// looks is the moment after so many looks at the process, about a millisecond each.
func looks(n int) testkit.Moment {
	return func([]byte) bool { n--; return n < 0 }
}

// undated leaves out files that hold the time of their release, or follow from such.
func undated(files map[string]string) map[string]string {
	out := map[string]string{}
	for p, h := range files {
		if !slices.Contains([]string{"release.json", "SHA256SUMS", "README.md", "hats.properties", "properties", "collection.properties", "latest.json"}, filepath.Base(p)) {
			out[p] = h
		}
	}
	return out
}

func TestKilledAtManyPointsTheNextCommandGoesBackOrOn(t *testing.T) {
	bin, base := testkit.Binary(t), t.TempDir()
	command := func(root string) *exec.Cmd {
		return exec.Command(bin, "synth", root, "--name", "sample", "--kind", "spectra", "--size", "2MiB", "--shard-size", "256KiB", "--seed", "5", "--jobs", "2")
	}
	whole := filepath.Join(base, "whole")
	start := time.Now()
	if out, err := command(whole).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := int(time.Since(start) / time.Millisecond)
	want := undated(tree(t, whole))

	moments := map[string]func(root string) testkit.Moment{}
	for _, pattern := range []string{".staging/1.json", ".staging/1.shards/*", ".staging/1.shards/sample", ".staging/1/stats.parquet", ".staging/1/rows-00000.parquet", ".staging/1/meta/README.md", ".staging/1/release.json",
		"sample/dataset/Norder=*", "sample/releases", "sample/releases/1", "sample/skymap.fits", "sample/hats.properties", "README.md", "latest.json"} {
		moments[pattern] = func(root string) testkit.Moment {
			return testkit.File(filepath.Join(root, filepath.FromSlash(pattern)))
		}
	}
	points := 8
	if testing.Short() {
		points = 2
	}
	for k := range points {
		moments[fmt.Sprintf("%d of %d", k, points)] = func(string) testkit.Moment { return looks(took * k / points) }
	}
	var back, on, whenDone int
	for name, moment := range moments {
		root := filepath.Join(base, "work")
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
		killed := testkit.KillAfter(t, command(root), moment(root), time.Minute)
		if !killed.Killed {
			whenDone++
			if killed.Code != 0 {
				t.Fatalf("%s: exit code %d: %s", name, killed.Code, killed.Stderr)
			}
		}
		committed := false
		if _, err := os.Stat(filepath.Join(root, "sample", "releases", "1", "release.json")); err == nil {
			committed = true
		}
		out, err := command(root).CombinedOutput()
		switch {
		case !committed && err != nil:
			t.Fatalf("%s: rerun: %v: %s", name, err, out)
		case !committed:
			back++
		case err == nil || !strings.Contains(string(out), "refused"): // its rows are published
			t.Fatalf("%s: rerun after the commit: %v: %s", name, err, out)
		default:
			on++
		}
		if d := differences(want, undated(tree(t, root))); d != nil {
			t.Fatalf("%s: these differ from a release that was not killed: %v", name, d)
		}
		if _, err := Verify(ctx, root, VerifyOptions{Deep: true}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	t.Logf("%d went back, %d went on, %d were done before the moment came", back, on, whenDone)
	if back == 0 {
		t.Error("no moment came before the commit")
	}
}

func TestNothingIsReadableOfARootWithoutARelease(t *testing.T) {
	dir := t.TempDir()
	if _, err := Verify(ctx, dir, VerifyOptions{}); !errors.Is(err, ErrNothing) {
		t.Errorf("verify: %v", err)
	}
	if _, err := Info(ctx, []string{dir}); !errors.Is(err, ErrNothing) {
		t.Errorf("info: %v", err)
	}
	if _, _, _, err := LoadDataset(dir); !errors.Is(err, ErrNothing) {
		t.Errorf("load: %v", err)
	}
	if err := Recover(ctx, dir); err != nil {
		t.Errorf("recover: %v", err)
	}
	if left := tree(t, dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
