package hdf5

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	// fileBound is what reading all of a damaged golden file (each under 200 KiB) may allocate in total, however often its
	// structures are read.
	fileBound = 16 << 20
	// datasetBound is the largest dataset that readEverything asks for.
	datasetBound = 1 << 20
	visitBound   = 3000
)

// readEverything calls all there is on a file, as long as it is not asked for too much, and gives the errors.
func readEverything(r io.ReaderAt, size int64, unverified bool) (errs []error) {
	f, err := newFile(&File{r: r, name: "test", size: size, unverified: unverified})
	if err != nil {
		return []error{err}
	}
	root, err := f.Root()
	if err != nil {
		return []error{err}
	}
	note := func(err error) {
		if err != nil && len(errs) < 64 {
			errs = append(errs, err)
		}
	}
	visits := 0
	note(walk(root, func(o *Object) error {
		if visits++; visits > visitBound {
			return errors.New("enough")
		}
		attrs, err := o.Attrs()
		note(err)
		for _, a := range attrs {
			_, err := a.Value()
			note(err)
			_, err = canonical(f, nil, a.Type, a.Data)
			note(err)
		}
		links, err := o.Links()
		note(err)
		for i, l := range links {
			if l.Kind != HardLink && i < 64 {
				_, err := o.Child(l.Name)
				note(err)
			}
		}
		if !o.IsDataset() {
			return nil
		}
		d, err := o.Dataset()
		note(err)
		if err != nil {
			return nil
		}
		note(d.Readable())
		if d.RowBytes() == 0 || d.Rows() > datasetBound/d.RowBytes() {
			return nil
		}
		b, err := readAll(d, max(1, d.Rows()), 1)
		note(err)
		if err == nil && d.Type.Readable() == nil && len(b) < 1<<16 {
			_, err = canonical(f, nil, d.Type, b)
			note(err)
		}
		return nil
	}))
	return errs
}

// bounded fails the test when reading b takes too much memory or time; a panic fails it anyway.
func bounded(t *testing.T, what string, b []byte, unverified bool) []error {
	t.Helper()
	return within(t, what, b, unverified, fileBound)
}

func within(t *testing.T, what string, b []byte, unverified bool, bound uint64) []error {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	errs := readEverything(bytes.NewReader(b), int64(len(b)), unverified)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > bound {
		t.Errorf("%s: %d bytes allocated for a file of %d", what, n, len(b))
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("%s: took %v", what, d)
	}
	return errs
}

func goldenFiles(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.h5")
	if err != nil || len(paths) < 12 {
		t.Fatalf("golden files: %v (%v)", paths, err)
	}
	out := map[string][]byte{}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(p), ".h5")] = b
	}
	return out
}

// The larger set of files (see golden_test.go) has damaged ones too.
func TestDamagedFilesOfACorpusNeitherPanicNorHangNorAllocateWithoutBound(t *testing.T) {
	dir := os.Getenv("ASTROPILE_HDF5_CORPUS")
	paths, err := filepath.Glob(filepath.Join(dir, "corrupt", "*.h5"))
	if dir == "" || err != nil || len(paths) == 0 {
		t.Skip("ASTROPILE_HDF5_CORPUS names no folder with damaged files")
	}
	refused := 0
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if len(within(t, p, b, false, fileBound+uint64(32*len(b)))) > 0 {
			refused++
		}
	}
	t.Logf("%d files, %d with errors", len(paths), refused)
}

func TestATruncatedFileIsRefused(t *testing.T) {
	for name, b := range goldenFiles(t) {
		for i := range 40 {
			n := len(b) * i / 40
			if errs := bounded(t, fmt.Sprintf("%s cut to %d", name, n), b[:n], false); len(errs) == 0 {
				t.Errorf("%s cut from %d to %d bytes reads without an error", name, len(b), n)
			}
		}
	}
}

func TestDamagedFilesNeitherPanicNorHangNorAllocateWithoutBound(t *testing.T) {
	flips := 120
	if testing.Short() {
		flips = 15
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for name, golden := range goldenFiles(t) {
		for i := range flips {
			b := bytes.Clone(golden)
			// Sometimes one bit, sometimes many bytes; checksums of metadata are ignored in two
			// of three cases, to get behind them.
			for range 1 + i%4*5 {
				at := rng.IntN(len(b))
				if i%2 == 0 {
					b[at] ^= 1 << rng.IntN(8)
				} else {
					b[at] = byte(rng.IntN(256))
				}
			}
			bounded(t, fmt.Sprintf("%s damage %d", name, i), b, i%3 != 0)
		}
	}
}

func TestADamagedMetadataBlockOfEveryKindFailsItsChecksum(t *testing.T) {
	kinds := []string{"OHDR", "OCHK", "BTHD", "BTLF", "BTIN", "FRHP", "FHDB", "FHIB", "FAHD", "FADB", "EAHD", "EAIB", "EASB", "EADB"}
	files := goldenFiles(t)
	for _, kind := range kinds {
		caught := 0
		for name, golden := range files {
			if !strings.HasSuffix(name, "_latest") || strings.HasPrefix(name, "refused") {
				continue
			}
			for at := 0; caught < 3; {
				next := bytes.Index(golden[at:], []byte(kind))
				if next < 0 {
					break
				}
				at += next + 1
				b := bytes.Clone(golden)
				b[at+6] ^= 0x10 // behind signature and version
				for _, err := range readEverything(bytes.NewReader(b), int64(len(b)), false) {
					if errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), "checksum") {
						caught++
						break
					}
				}
			}
		}
		if caught == 0 {
			t.Errorf("no damaged %s was found out by its checksum", kind)
		}
	}
}

func TestADamagedChunkIsNeverAWrongValue(t *testing.T) {
	f, err := Open("testdata/filters_latest.h5")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	golden := goldenFiles(t)["filters_latest"]
	for _, name := range []string{"gzip", "gzip_all", "fletcher", "lzf_all"} {
		o, err := f.Object("/" + name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := o.Dataset()
		if err != nil {
			t.Fatal(err)
		}
		want, err := readAll(d, d.Rows(), 1)
		if err != nil {
			t.Fatal(err)
		}
		table, err := d.table()
		if err != nil || len(table) == 0 {
			t.Fatal(table, err)
		}
		for at := range table[0].size {
			b := bytes.Clone(golden)
			b[table[0].addr+at] ^= 4
			g, err := New(bytes.NewReader(b), int64(len(b)), "test")
			if err != nil {
				t.Fatal(err)
			}
			if o, err = g.Object("/" + name); err != nil {
				t.Fatal(err)
			}
			if d, err = o.Dataset(); err != nil {
				t.Fatal(err)
			}
			got, err := readAll(d, d.Rows(), 1)
			if err == nil && !bytes.Equal(got, want) {
				t.Fatalf("%s: byte %d of a chunk flipped: other values, no error", name, at)
			}
			if err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%s: %v does not wrap ErrCorrupt", name, err)
			}
		}
	}
}

// cancelling ends a context at the nth read.
type cancelling struct {
	io.ReaderAt
	left   int
	cancel func()
}

func (c *cancelling) ReadAt(b []byte, at int64) (int, error) {
	if c.left--; c.left == 0 {
		c.cancel()
	}
	return c.ReaderAt.ReadAt(b, at)
}

func TestReadRowsEndsWithItsContext(t *testing.T) {
	golden := goldenFiles(t)["chunks_latest"]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &cancelling{ReaderAt: bytes.NewReader(golden), cancel: cancel}
	f, err := New(r, int64(len(golden)), "test")
	if err != nil {
		t.Fatal(err)
	}
	o, err := f.Object("/extensible_gz")
	if err != nil {
		t.Fatal(err)
	}
	d, err := o.Dataset()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.table(); err != nil {
		t.Fatal(err)
	}
	r.left = 5
	err = d.ReadRows(ctx, 0, d.Rows(), make([]byte, d.Rows()*d.RowBytes()), 1)
	if !errors.Is(err, context.Canceled) || r.left < -1 {
		t.Errorf("error %v after %d reads too many", err, -r.left)
	}
}

func FuzzFile(f *testing.F) {
	for name, b := range goldenFiles(f) {
		if len(b) < 60<<10 {
			f.Add(b, strings.HasSuffix(name, "latest"))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, unverified bool) {
		if len(b) > 1<<18 {
			return
		}
		// A fuzzer may find its way to chunks of freeChunk bytes.
		within(t, "fuzzed", b, unverified, fileBound+16*freeChunk)
	})
}
