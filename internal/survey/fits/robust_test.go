package fits

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"astropile/internal/survey/table"
)

// testLimit bounds what tests let a hostile file ask of them.
const testLimit = 8 << 20

// everything reads all that a file offers, and gives a checksum of the values and the first error.
func everything(f *File) (sum uint32, err error) {
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	for _, h := range f.HDUs() {
		switch h.Kind {
		case ImageHDU, Compressed:
			if !h.HasImage() {
				continue
			}
			im, e := h.Image()
			if e != nil {
				keep(e)
				continue
			}
			if im.Bytes() > testLimit {
				continue
			}
			b := make([]byte, im.Bytes())
			keep(im.Read(context.Background(), b))
			sum = crc32.Update(sum, crc32.IEEETable, b)
		case BinTable, ASCIITable:
			t, e := h.Table()
			if e != nil {
				keep(e)
				continue
			}
			for i, field := range t.Fields() {
				if field.Err != nil || t.RowBytes() > testLimit {
					continue
				}
				rows := min(t.Rows(), testLimit/t.RowBytes())
				v, e := t.Read(context.Background(), 0, rows, []table.Request{{Field: i, Fill: []any{0.0}}})
				if e != nil {
					keep(e)
					continue
				}
				if e := v[0].Check(&field.Column); e != nil {
					panic(e)
				}
				sum = crc32.Update(sum, crc32.IEEETable, v[0].Data)
			}
		}
	}
	if t, e := Images(f); e == nil {
		for i, field := range t.Fields() {
			if field.Err == nil && t.RowBytes() <= testLimit {
				_, e := t.Read(context.Background(), 0, 1, []table.Request{{Field: i}})
				keep(e)
			}
		}
	}
	return sum, err
}

// known says whether an error is one that this package promises.
func known(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupported) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrNotFITS)
}

func goldens(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/golden/*.fits")
	if err != nil || len(names) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	out := map[string][]byte{}
	for _, n := range names {
		if out[filepath.Base(n)], err = os.ReadFile(n); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// The sums were written when these files, of testdata/corpus.py, gave what astropy reads.
func TestGoldenFilesKeepTheirValues(t *testing.T) {
	b, err := os.ReadFile("testdata/golden/sums.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]uint32
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	got := map[string]uint32{}
	for name, raw := range goldens(t) {
		f, err := New(bytes.NewReader(raw), int64(len(raw)), name)
		if err != nil {
			t.Fatal(err)
		}
		if got[name], err = everything(f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
	for name, sum := range got {
		if sum != want[name] {
			t.Errorf("%q: %d, want %d", name, sum, want[name])
		}
	}
}

func TestAFileCutAnywhereIsAnErrorThatNamesIt(t *testing.T) {
	for name, raw := range goldens(t) {
		whole, err := New(bytes.NewReader(raw), int64(len(raw)), name)
		if err != nil {
			t.Fatal(err)
		}
		for cut := 0; cut < len(raw); cut += 97 {
			f, err := New(bytes.NewReader(raw[:cut]), int64(cut), name)
			padding := slices.ContainsFunc(whole.HDUs(), func(h *HDU) bool {
				return int64(cut) >= h.data+h.size && int64(cut) <= h.data+padded(h.size)
			})
			switch {
			case err == nil && padding:
				if _, err := everything(f); err != nil {
					t.Errorf("%s cut at %d, in its padding: %v", name, cut, err)
				}
			case err == nil:
				t.Errorf("%s cut at %d opens", name, cut)
			case !known(err) || !strings.Contains(err.Error(), name):
				t.Errorf("%s cut at %d: %v", name, cut, err)
			}
		}
	}
}

// shrinking loses its end once the headers were read.
type shrinking struct {
	*bytes.Reader
	left int64
}

func (s *shrinking) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > s.left {
		return 0, fmt.Errorf("reading: %w", errors.ErrUnsupported)
	}
	return s.Reader.ReadAt(b, at)
}

func TestAFailingDiskIsReportedAsItself(t *testing.T) {
	for name, raw := range goldens(t) {
		r := &shrinking{bytes.NewReader(raw), int64(len(raw))}
		f, err := New(r, int64(len(raw)), name)
		if err != nil {
			t.Fatal(err)
		}
		r.left = 100
		if _, err := everything(f); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAFlippedBitIsAnErrorOrHarmless(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for name, raw := range goldens(t) {
		for range 300 {
			b := bytes.Clone(raw)
			at := rng.IntN(len(b))
			b[at] ^= 1 << rng.IntN(8)
			f, err := New(bytes.NewReader(b), int64(len(b)), name)
			if err == nil {
				f.unverified = true
				_, err = everything(f)
			}
			if err != nil && (!known(err) || !strings.Contains(err.Error(), name)) {
				t.Errorf("%s, bit flipped at %d: %v", name, at, err)
			}
		}
	}
}

func TestAFlippedBitUnderAChecksumIsAlwaysFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	found := 0
	for name, raw := range goldens(t) {
		whole, err := New(bytes.NewReader(raw), int64(len(raw)), name)
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range whole.HDUs() {
			if _, ok := h.Header().Get("DATASUM"); !ok || h.size == 0 {
				continue
			}
			for range 100 {
				b := bytes.Clone(raw)
				at := h.head + rng.Int64N(h.data+h.size-h.head)
				b[at] ^= 1 << rng.IntN(8)
				f, err := New(bytes.NewReader(b), int64(len(b)), name)
				if err == nil {
					err = f.VerifyChecksums(t.Context())
				}
				keyword := at < h.data && (bytes.Contains(raw[at/80*80:at/80*80+80], []byte("CHECKSUM")) || bytes.Contains(raw[at/80*80:at/80*80+80], []byte("DATASUM")))
				if err == nil && !keyword {
					t.Errorf("%s: HDU %d: a bit flipped at %d is not seen", name, i, at)
				}
				if at >= h.data {
					found++
					if _, err := everything(f); !errors.Is(err, ErrChecksum) || !strings.Contains(err.Error(), fmt.Sprintf("HDU %d", i)) {
						t.Errorf("%s: HDU %d: a bit flipped at %d is read: %v", name, i, at, err)
					}
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("%d bits flipped in data: the golden files have no checksums", found)
	}
}
