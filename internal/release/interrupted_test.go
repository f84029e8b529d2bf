package release

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var errDisk = errors.New("no space left on device")

// failingDisk fails the operation number at, and all that follow if dead: then the process might as well have been killed
// before it. It does not sync, because what it stands on is thrown away.
type failingDisk struct {
	osDisk
	mu   sync.Mutex
	n    int
	at   int
	dead bool
}

func (d *failingDisk) next() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.n++
	if d.n == d.at || d.dead && d.at > 0 && d.n > d.at {
		return errDisk
	}
	return nil
}

func (d *failingDisk) Create(name string) (diskFile, error) {
	if err := d.next(); err != nil {
		return nil, err
	}
	f, err := d.osDisk.Create(name)
	return failingFile{f, d}, err
}

func (d *failingDisk) Open(name string) (spoolFile, error) {
	if err := d.next(); err != nil {
		return nil, err
	}
	f, err := d.osDisk.Open(name)
	return failingSpool{f, d}, err
}

type failingSpool struct {
	spoolFile
	d *failingDisk
}

func (f failingSpool) WriteAt(b []byte, at int64) (int, error) {
	if err := f.d.next(); err != nil {
		n, _ := f.spoolFile.WriteAt(b[:len(b)/2], at)
		return n, err
	}
	return f.spoolFile.WriteAt(b, at)
}

func (f failingSpool) Truncate(n int64) error {
	if err := f.d.next(); err != nil {
		return err
	}
	return f.spoolFile.Truncate(n)
}

func (d *failingDisk) Rename(from, to string) error {
	if err := d.next(); err != nil {
		return err
	}
	return d.osDisk.Rename(from, to)
}

func (d *failingDisk) Remove(name string) error {
	if err := d.next(); err != nil {
		return err
	}
	return d.osDisk.Remove(name)
}

func (d *failingDisk) Sync(string) error { return d.next() }

type failingFile struct {
	diskFile
	d *failingDisk
}

func (f failingFile) Write(b []byte) (int, error) {
	if err := f.d.next(); err != nil {
		n, _ := f.diskFile.Write(b[:len(b)/2])
		return n, err
	}
	return f.diskFile.Write(b)
}

func (f failingFile) Sync() error { return f.d.next() }

func (f failingFile) Close() error {
	return errors.Join(f.diskFile.Close(), f.d.next())
}

// publish imports the survey of a release and seals it.
func publish(r root, n int, inputs string) error {
	if _, err := importInto(context.Background(), r, chapter(n, inputs), ImportOptions{Name: "sample", ShardSize: 64 << 10, Jobs: 1, Tool: "astropile test"}); err != nil {
		return err
	}
	_, err := sealInto(context.Background(), r, seal(n))
	return err
}

// chapter is what release n adds, from files in a folder: two pixels, of which the second release shares one with the first.
func chapter(n int, inputs string) *Survey {
	s := sampleSurvey(&file{name: string(rune('a'+n)) + ".h5", objects: objects(string(rune('a'+n)), 12, 45, 5, 2)},
		&file{name: string(rune('m'+n)) + ".h5", objects: objects(string(rune('m'+n)), 5, 100+50*float64(n), 5, 2)})
	if err := onDisk(s, inputs); err != nil {
		panic(err)
	}
	return s
}

// onDisk makes the inputs of a survey files, which hold nothing but their names: a file that is there stays as it is.
func onDisk(s *Survey, dir string) error {
	for i := range s.Inputs {
		in := &s.Inputs[i]
		in.Path = filepath.Join(dir, in.Rel)
		if _, err := os.Stat(in.Path); err == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(in.Path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(in.Path, []byte(in.Rel), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func TestAFailureAtAnyOperationLeavesARootThatGoesOn(t *testing.T) {
	base, inputs := t.TempDir(), t.TempDir()
	plain := func(dir string) root { return root{dir, &failingDisk{}} }
	var states []string // with 0, 1 and 2 releases
	for n := range 3 {
		dir := filepath.Join(base, "state", string(rune('0'+n)))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			copyTree(t, states[n-1], dir)
			if err := publish(plain(dir), n, inputs); err != nil {
				t.Fatal(err)
			}
		}
		states = append(states, dir)
	}
	for n := 1; n <= 2; n++ {
		before, want := tree(t, states[n-1]), tree(t, states[n])
		for _, dead := range []bool{false, true} {
			step := 4
			if n == 2 && dead {
				step = 1 // every operation of an append
			}
			if testing.Short() {
				step = 16
			}
			for at := 1; ; at += step {
				if at > 2000 {
					t.Fatal("the operations do not end")
				}
				dir := filepath.Join(base, "work")
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				copyTree(t, states[n-1], dir)
				d := &failingDisk{at: at, dead: dead}
				failed := publish(root{dir, d}, n, inputs)
				if d.n < at {
					if failed != nil {
						t.Fatal(failed)
					}
					t.Logf("release %d, dead %t: %d operations", n, dead, d.n)
					break
				}
				if failed != nil && !errors.Is(failed, errDisk) {
					t.Fatalf("release %d, operation %d, dead %t: %v", n, at, dead, failed)
				}
				if failed == nil && dead {
					t.Fatalf("release %d, operation %d: no error from a dead disk", n, at)
				}
				if err := recoverRoot(plain(dir)); err != nil {
					t.Fatalf("release %d, operation %d, dead %t: recover: %v", n, at, dead, err)
				}
				after := tree(t, dir)
				for p := range after {
					if strings.HasSuffix(p, unfinished) && !strings.HasPrefix(p, stagingDir) {
						t.Fatalf("release %d, operation %d, dead %t: %s is left", n, at, dead, p)
					}
				}
				for p, h := range before {
					if after[p] != h && !top(p) {
						t.Fatalf("release %d, operation %d, dead %t: %s changed", n, at, dead, p)
					}
				}
				if _, done := after["sample/releases/"+string(rune('0'+n))+"/release.json"]; !done {
					for p, h := range after {
						if !strings.HasPrefix(p, stagingDir) && before[p] != h {
							t.Fatalf("release %d, operation %d, dead %t: %s was not rolled back", n, at, dead, p)
						}
					}
					if err := publish(plain(dir), n, inputs); err != nil {
						t.Fatalf("release %d, operation %d, dead %t: rerun: %v", n, at, dead, err)
					}
				}
				if diff := differences(want, tree(t, dir)); diff != nil {
					t.Fatalf("release %d, operation %d, dead %t: %v differ", n, at, dead, diff)
				}
			}
		}
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
