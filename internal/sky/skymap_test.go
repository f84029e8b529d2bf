package sky

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"astropile/internal/testkit"
)

// cards reads the header that begins at an offset and returns its fields and where the data begin.
func cards(t *testing.T, file []byte, at int) (map[string]string, int) {
	t.Helper()
	fields := map[string]string{}
	for i := at; i+80 <= len(file); i += 80 {
		line := string(file[i : i+80])
		if strings.TrimSpace(line) == "END" {
			return fields, (i + 80 + fitsBlock - 1) / fitsBlock * fitsBlock
		}
		key, value, ok := strings.Cut(line, "= ")
		if !ok {
			t.Fatalf("card %q", line)
		}
		fields[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	t.Fatal("a header does not end")
	return nil, 0
}

func TestAMapIsAFullSkyTableOfCounts(t *testing.T) {
	for order := 0; order <= 5; order++ {
		counts := make([]int64, Pixels(order))
		for i := range counts {
			counts[i] = int64(i) << 33
		}
		var a, b bytes.Buffer
		if err := errors.Join(WriteMap(&a, order, counts), WriteMap(&b, order, counts)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) || a.Len()%fitsBlock != 0 {
			t.Fatalf("order %d: bytes differ, or %d is no number of blocks", order, a.Len())
		}
		_, at := cards(t, a.Bytes(), 0)
		_, data := cards(t, a.Bytes(), at)
		for i, n := range counts {
			if got := int64(binary.BigEndian.Uint64(a.Bytes()[data+8*i:])); got != n {
				t.Fatalf("order %d, pixel %d: %d, want %d", order, i, got, n)
			}
		}
	}
}

// The fields that readers go by are those of maps written by the HATS tools.
func TestAMapHasTheFieldsOfAPublishedOne(t *testing.T) {
	published, err := os.ReadFile(filepath.Join(testkit.Shared(t), "hats", "small_sky_o1_collection", "small_sky_order1", "skymap.fits"))
	if err != nil {
		t.Fatal(err)
	}
	_, at := cards(t, published, 0)
	want, data := cards(t, published, at)
	counts := make([]int64, 48)
	for i := range counts {
		counts[i] = int64(binary.BigEndian.Uint64(published[data+8*i:]))
	}
	var ours bytes.Buffer
	if err := WriteMap(&ours, 1, counts); err != nil {
		t.Fatal(err)
	}
	_, at = cards(t, ours.Bytes(), 0)
	got, begin := cards(t, ours.Bytes(), at)
	for _, free := range []string{"TTYPE1", "EXTNAME", "CREATOR"} {
		if got[free] == "" {
			t.Errorf("no %s", free)
		}
		delete(want, free)
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %q, want %q", key, got[key], value)
		}
	}
	if !bytes.Equal(ours.Bytes()[begin:], published[data:]) {
		t.Error("the counts are written otherwise")
	}
}

func TestCountsThatMakeNoMapAreRefused(t *testing.T) {
	for _, c := range []struct {
		order  int
		counts []int64
		want   error
	}{{1, make([]int64, 47), ErrMap}, {1, nil, ErrMap}, {0, []int64{0, 0, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0}, ErrMap}, {-1, nil, ErrOrder}, {30, nil, ErrOrder}} {
		var out bytes.Buffer
		if err := WriteMap(&out, c.order, c.counts); !errors.Is(err, c.want) || out.Len() != 0 {
			t.Errorf("order %d, %d counts: error %v, %d bytes written", c.order, len(c.counts), err, out.Len())
		}
	}
}

func TestTheMapStaysSmallBesideItsRows(t *testing.T) {
	for rows, want := range map[int64]int{-1: 4, 0: 4, 64: 4, 49151: 4, 49152: 5, 1_000_000: 7, 50_331_648: 10, 1 << 60: 10} {
		if got := MapOrder(rows); got != want {
			t.Errorf("%d rows: order %d, want %d", rows, got, want)
		}
	}
	if bytes := 8 * Pixels(MapOrder(64)); bytes > 1<<15 {
		t.Errorf("a map of 64 rows takes %d bytes", bytes)
	}
}
