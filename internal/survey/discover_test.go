package survey

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDiscoverWalksFoldersInTheOrderOfNames(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"b/healpix=0583/001.HDF5", "a/train_1.h5", "b/healpix=12/val/x.hdf", ".hidden/y.h5", "b/._z.h5", "notes.txt", "c.hdf5"} {
		touch(t, filepath.Join(dir, f))
	}
	touch(t, filepath.Join(t.TempDir(), "elsewhere.h5"))
	if err := os.Symlink("c.hdf5", filepath.Join(dir, "d.hdf5")); err != nil {
		t.Fatal(err)
	}
	got, err := Discover([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	want := []Input{
		{Rel: "a/train_1.h5", Split: "train", Healpix: -1},
		{Rel: "b/healpix=0583/001.HDF5", Healpix: 583},
		{Rel: "b/healpix=12/val/x.hdf", Split: "val", Healpix: 12},
		{Rel: "c.hdf5", Healpix: -1},
		{Rel: "d.hdf5", Healpix: -1, Link: "c.hdf5"},
	}
	if len(got) != len(want) {
		t.Fatalf("found %+v", got)
	}
	for i, w := range want {
		w.Path, w.Bytes = filepath.Join(dir, w.Rel), 1
		w.known = got[i].known
		if got[i] != w {
			t.Errorf("input %d is %+v, want %+v", i, got[i], w)
		}
	}
	// A file by itself keeps what its folder says, and a linked folder may be a source.
	one, err := Discover([]string{filepath.Join(dir, "b/healpix=0583/001.HDF5")})
	if err != nil || one[0].Healpix != 583 || one[0].Rel != "001.HDF5" {
		t.Errorf("%v %+v", err, one)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if linked, err := Discover([]string{link}); err != nil || len(linked) != len(want) || linked[0].Rel != want[0].Rel {
		t.Errorf("%v: through a link %+v", err, linked)
	}
	two, err := Discover([]string{filepath.Join(dir, "a"), filepath.Join(dir, "b")})
	if err != nil || two[0].Rel != "a/train_1.h5" || two[1].Rel != "b/healpix=0583/001.HDF5" {
		t.Errorf("%v: two sources are %+v", err, two)
	}
}

func TestDiscoverRefusesByName(t *testing.T) {
	dir := t.TempDir()
	touch(t, filepath.Join(dir, "p/x/a.h5"))
	touch(t, filepath.Join(dir, "q/x/a.h5"))
	touch(t, filepath.Join(dir, "none/a.txt"))
	for _, l := range [][2]string{{"nowhere.h5", "broken/a.h5"}, {"../p", "loop/sub"}} {
		path := filepath.Join(dir, l[1])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(l[0], path); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ sources, text string }{
		{"", "no sources"},
		{"absent", "absent"},
		{"none", "none: no file"},
		{"none/a.txt", ".hdf5"},
		{"broken", "a.h5 leads nowhere"},
		{"loop", "loop/sub is a symbolic link to a folder"},
		{"p/x q/x", "both be called \"x/a.h5\""},
		{"p p", "both be called"},
	} {
		var sources []string
		for _, s := range strings.Fields(c.sources) {
			sources = append(sources, filepath.Join(dir, s))
		}
		if _, err := Discover(sources); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%q: error is %v, want one that says %q", c.sources, err, c.text)
		}
	}
}

func TestSplitAndPixelAreReadOffPaths(t *testing.T) {
	for _, c := range []struct {
		rel, split string
		healpix    int64
	}{
		{"train_001-of-001.hdf5", "train", -1},
		{"data/healpix=0007/test_01.hdf5", "test", 7},
		{"validation/healpix=3/a.h5", "val", 3},
		{"train/test.h5", "test", -1},
		{"training/a.h5", "", -1},
		{"train_set/a.h5", "", -1},
		{"contest.h5", "", -1},
		{"healpix=x/healpix=-1/healpix=5.h5", "", -1},
		{"healpix=99999999999999999999/a.h5", "", -1},
	} {
		if s, n := readPath(c.rel); s != c.split || n != c.healpix {
			t.Errorf("%s: %q, %d; want %q, %d", c.rel, s, n, c.split, c.healpix)
		}
	}
}
