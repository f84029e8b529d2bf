package fits

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"astropile/internal/testkit"
)

func TestTheMiddleOfAnImageIsWhereAstropySeesIt(t *testing.T) {
	python := testkit.Python(t)
	dir := t.TempDir()
	if out, err := exec.Command(python, "testdata/sky.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("sky.py: %v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "sky.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want []*[2]float64
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	f, err := Open(filepath.Join(dir, "sky.fits"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.HDUs()) != len(want) || len(want) < 700 {
		t.Fatalf("%d HDUs, %d directions", len(f.HDUs()), len(want))
	}
	for i, w := range want {
		if w == nil {
			continue
		}
		h := f.HDUs()[i]
		at, found, err := h.centre(h.imageAxes())
		if err != nil || !found {
			t.Errorf("HDU %d: found %v, %v", i, found, err)
			continue
		}
		// At the poles a right ascension says less.
		dra := math.Remainder(at.ra-w[0], 360) * math.Cos(w[1]*math.Pi/180)
		if math.Abs(dra) > 1e-9 || math.Abs(at.dec-w[1]) > 1e-9 {
			var cards []string
			for _, c := range h.Header().Cards() {
				cards = append(cards, c.Keyword+"="+c.Text)
			}
			t.Errorf("HDU %d: %v %v, want %v: %s", i, at.ra, at.dec, *w, strings.Join(cards[8:], " "))
		}
	}
}
