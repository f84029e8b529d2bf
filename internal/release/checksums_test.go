package release

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRepairWritesEveryChecksumFileAnewAndNothingThatIsPinned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sample")
	for n, name := range []string{"a.h5", "b.h5"} {
		mustImport(t, dir, sampleSurvey(&file{name: name, objects: objects(name, 30, 10, 10, 30)}), smallShards)
		mustSeal(t, dir, n+1)
	}
	want := tree(t, dir)
	list := func(n string) string { return filepath.Join(dir, "sample", "releases", n, "SHA256SUMS") }
	if err := os.Remove(list("1")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(list("2"), []byte("none\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	rep, err := Verify(ctx, dir, VerifyOptions{})
	if !errors.Is(err, ErrDamaged) || len(rep.Findings) != 2 || !strings.Contains(rep.Findings[0].What, "--repair") || rep.Findings[1].Path != "sample/releases/2/SHA256SUMS" {
		t.Fatalf("%v: %+v", err, rep)
	}
	if err := Repair(ctx, dir); err != nil {
		t.Fatal(err)
	}
	if got := tree(t, dir); !maps.Equal(got, want) {
		t.Error("repair did not bring back what there was")
	}
	// A release that is damaged itself keeps what it has.
	name := filepath.Join(dir, "sample", "releases", "1", "release.json")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b[:len(b)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(list("1")); err != nil {
		t.Fatal(err)
	}
	if err := Repair(ctx, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(list("1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a checksum file was made of a damaged release: %v", err)
	}
}
