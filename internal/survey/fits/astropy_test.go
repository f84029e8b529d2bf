package fits

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
	"astropile/internal/testkit"
)

// wantHDU is what astropy reads of an HDU.
type wantHDU struct {
	Name    string       `json:"name"`
	Cards   [][4]string  `json:"cards"`
	Image   *wantImage   `json:"image"`
	Rows    *int64       `json:"rows"`
	Columns []wantColumn `json:"columns"`
}

type wantImage struct {
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Data  string `json:"data"`
}

type wantColumn struct {
	Name  string   `json:"name"`
	Unit  string   `json:"unit"`
	Kind  string   `json:"kind"`
	DType string   `json:"dtype"`
	Shape []int    `json:"shape"`
	Data  string   `json:"data"`
	Valid string   `json:"valid"`
	Lens  []int64  `json:"lens"`
	Text  []string `json:"text"`
}

// corpus makes the files of testdata/corpus.py in a temporary folder, and gives what astropy reads from them.
func corpus(t *testing.T) (string, map[string][]wantHDU) {
	t.Helper()
	python := testkit.Python(t)
	dir := t.TempDir()
	out, err := exec.Command(python, "testdata/corpus.py", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("corpus.py: %v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]wantHDU
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	return dir, want
}

func TestEveryValueIsWhatAstropyReads(t *testing.T) {
	dir, want := corpus(t)
	images, columns := 0, 0
	for name, hdus := range want {
		t.Run(name, func(t *testing.T) {
			f, err := Open(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if len(f.HDUs()) != len(hdus) {
				t.Fatalf("%d HDUs, want %d", len(f.HDUs()), len(hdus))
			}
			if err := f.VerifyChecksums(t.Context()); err != nil {
				t.Error(err)
			}
			for i, w := range hdus {
				h := f.HDUs()[i]
				if h.Name() != w.Name {
					t.Errorf("HDU %d is %q, want %q", i, h.Name(), w.Name)
				}
				compareCards(t, h, w.Cards)
				if w.Image != nil {
					images++
					compareImage(t, dir, h, w.Image)
				}
				if w.Rows != nil {
					columns += len(w.Columns)
					compareTable(t, dir, h, &w)
				}
			}
		})
	}
	if images < 200 || columns < 150 {
		t.Errorf("%d images and %d columns compared: the corpus is not what it was", images, columns)
	}
}

func compareCards(t *testing.T, h *HDU, want [][4]string) {
	t.Helper()
	got := h.Header().Cards()
	// astropy joins no commentary, but drops blanks at the end of the header.
	if len(got) != len(want) {
		t.Errorf("HDU %d: %d cards, want %d", h.Index(), len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		c, w := got[i], want[i]
		kind, value := "text", c.Text
		switch c.Kind {
		case NoValue:
			kind = "none"
		case Undefined:
			kind = "undefined"
		case Bool:
			kind, value = "bool", strings.ToUpper(value)
			if w[2] == "True" {
				w[2] = "T"
			} else {
				w[2] = "F"
			}
		case Int:
			kind, value = "int", strconv.FormatInt(c.Int, 10)
		case BigInt:
			kind = "int"
		case Float:
			kind, value = "float", pythonHex(c.Float)
		case Complex:
			kind, value = "complex", pythonHex(c.Float)+" "+pythonHex(c.Imag)
		case Invalid:
			kind = "invalid"
		}
		if w[1] == "text" && strings.HasPrefix(w[0], "NOVALUE") {
			w[1] = "none"
		}
		if c.Keyword != w[0] || kind != w[1] || value != w[2] || kind != "none" && c.Comment != strings.TrimSpace(w[3]) {
			t.Errorf("HDU %d: card %d is %s %s %q / %q, want %q", h.Index(), i, c.Keyword, kind, value, c.Comment, w)
		}
	}
}

// pythonHex writes a float as Python's float.hex does.
func pythonHex(v float64) string {
	s := strconv.FormatFloat(v, 'x', 13, 64)
	mantissa, exponent, _ := strings.Cut(s, "p")
	e, _ := strconv.Atoi(exponent)
	if v == 0 {
		return strings.TrimSuffix(mantissa, ".0000000000000") + ".0p+0"
	}
	return fmt.Sprintf("%sp%+d", mantissa, e)
}

func bin(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// firstDifference says where two arrays of elements differ.
func firstDifference(got, want []byte, width int) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d bytes, want %d", len(got), len(want))
	}
	for i := 0; i < len(got); i += width {
		if !bytes.Equal(got[i:i+width], want[i:i+width]) {
			return fmt.Sprintf("element %d of %d is %x, want %x", i/width, len(got)/width, got[i:i+width], want[i:i+width])
		}
	}
	return ""
}

func compareImage(t *testing.T, dir string, h *HDU, want *wantImage) {
	t.Helper()
	im, err := h.Image()
	if err != nil {
		t.Error(err)
		return
	}
	if string(im.DType) != want.DType || !slices.Equal(im.Shape, want.Shape) {
		t.Errorf("HDU %d: %s %v, want %s %v", h.Index(), im.DType, im.Shape, want.DType, want.Shape)
		return
	}
	got := make([]byte, im.Bytes())
	if err := im.Read(t.Context(), got); err != nil {
		t.Error(err)
		return
	}
	if d := firstDifference(got, bin(t, dir, want.Data), im.DType.Size()); d != "" {
		t.Errorf("HDU %d: %s %v: %s", h.Index(), im.DType, im.Shape, d)
	}
}

func compareTable(t *testing.T, dir string, h *HDU, want *wantHDU) {
	t.Helper()
	tab, err := h.Table()
	if err != nil {
		t.Error(err)
		return
	}
	defer tab.Close()
	if tab.Rows() != *want.Rows {
		t.Errorf("HDU %d: %d rows, want %d", h.Index(), tab.Rows(), *want.Rows)
		return
	}
	fields := tab.Fields()
	if *want.Rows > 0 && len(fields) != len(want.Columns) {
		t.Errorf("HDU %d: %d fields, want %d", h.Index(), len(fields), len(want.Columns))
		return
	}
	rows := tab.Rows()
	for _, parts := range [][]int64{{0, rows}, {0, rows / 3, rows - rows/4, rows}} {
		for i := range fields {
			if fields[i].Err != nil {
				t.Errorf("%s: %v", fields[i].Source, fields[i].Err)
				continue
			}
			whole := catalog.NewVector(&fields[i].Column)
			for k := 1; k < len(parts); k++ {
				v, err := tab.Read(t.Context(), parts[k-1], parts[k], []table.Request{{Field: i, Fill: []any{nil}}})
				if err != nil {
					t.Error(err)
					return
				}
				if err := v[0].Check(&fields[i].Column); err != nil {
					t.Error(err)
					return
				}
				for r := range v[0].Rows {
					whole.AppendRow(&fields[i].Column, v[0], r)
				}
			}
			if rows > 0 {
				compareColumn(t, dir, &fields[i], whole, &want.Columns[i])
			}
		}
	}
}

func compareColumn(t *testing.T, dir string, f *table.Field, v *catalog.Vector, want *wantColumn) {
	t.Helper()
	c := &f.Column
	if f.Source != want.Name || c.Unit != want.Unit || string(c.Kind) != want.Kind {
		t.Errorf("field %s %q %s, want %s %q %s", f.Source, c.Unit, c.Kind, want.Name, want.Unit, want.Kind)
		return
	}
	if want.Text != nil {
		var got []string
		switch {
		case c.Kind == catalog.List:
			for i := 1; i < len(v.StrOffsets); i++ {
				got = append(got, strings.TrimRight(string(v.Data[v.StrOffsets[i-1]:v.StrOffsets[i]]), " "))
			}
		default:
			for i := range v.Rows {
				got = append(got, strings.TrimRight(string(v.Str(i)), " "))
			}
		}
		if !slices.Equal(got, want.Text) {
			t.Errorf("%s: %q, want %q", f.Source, got, want.Text)
		}
		return
	}
	if string(c.DType) != want.DType || c.Kind == catalog.Tensor && !slices.Equal(c.Shape, want.Shape) {
		t.Errorf("%s: %s %v, want %s %v", f.Source, c.DType, c.Shape, want.DType, want.Shape)
		return
	}
	if c.Kind == catalog.List {
		for i, n := range want.Lens {
			if v.Offsets[i+1]-v.Offsets[i] != n {
				t.Errorf("%s: row %d has %d elements, want %d", f.Source, i, v.Offsets[i+1]-v.Offsets[i], n)
				return
			}
		}
	}
	expected := bin(t, dir, want.Data)
	if want.Valid != "" {
		valid := bin(t, dir, want.Valid)
		size := c.RowBytes()
		for i := range v.Rows {
			if v.Null(i) == (valid[i] != 0) {
				t.Errorf("%s: row %d: null is %v", f.Source, i, v.Null(i))
				return
			}
			if v.Null(i) {
				clear(expected[i*size : (i+1)*size])
			}
		}
	}
	if d := firstDifference(v.Data, expected, c.DType.Size()); d != "" {
		t.Errorf("%s %s: %s", f.Source, c.DType, d)
	}
}
