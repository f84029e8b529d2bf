package hdf5

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"astropile/internal/catalog"
)

func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func dataset(t testing.TB, f *File, path string) *Dataset {
	t.Helper()
	o, err := f.Object(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := o.Dataset()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWhatIsNotReadIsRefusedByName(t *testing.T) {
	for _, file := range []string{"testdata/refused_earliest.h5", "testdata/refused_latest.h5"} {
		f := open(t, file)
		for name, want := range map[string]string{
			"external_storage":    "external storage",
			"virtual":             "virtual dataset",
			"objects":             "references to objects of this file; the first leads to /group/target",
			"regions":             "references to regions of datasets of this file; the first leads to /group/target",
			"nowhere":             "references to objects of this file",
			"row_of_references":   `member "to": unsupported HDF5 feature: references to objects`,
			"lists_of_references": "references to objects of this file",
			"row_of_bfloat16":     `member "x": unsupported HDF5 feature: bfloat16`,
			"float8":              "float of 8 bits",
			"long_double":         "x86 long double",
			"time":                "time type",
			"blosc2":              "blosc2 (32026)",
			"zfp":                 "zfp (32013)",
		} {
			d := dataset(t, f, "/"+name)
			if err := d.Readable(); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "/"+name) {
				t.Errorf("%s: %s: Readable says %v, want %q", file, name, err, want)
			}
			if name == "nowhere" && strings.Contains(d.Readable().Error(), "leads") {
				t.Errorf("%s: %s: %v", file, name, d.Readable())
			}
			err := d.ReadRows(context.Background(), 0, d.Rows(), make([]byte, d.Rows()*d.RowBytes()), 1)
			if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s: ReadRows says %v, want %q", file, name, err, want)
			}
		}
		_, err := f.Object("/external_link")
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), `"/x" in the file "elsewhere.h5"`) {
			t.Errorf("%s: external link: %v", file, err)
		}
	}
}

func TestSoftLinksAreFollowedAndCirclesEnd(t *testing.T) {
	for _, file := range []string{"testdata/groups_earliest.h5", "testdata/groups_latest.h5"} {
		f := open(t, file)
		for _, path := range []string{"/soft", "/chain", "/level0/relative"} {
			o, err := f.Object(path)
			if err != nil || o.Path() != path {
				t.Errorf("%s: %s: %v", file, path, err)
			}
		}
		for path, want := range map[string]error{"/circle_a": ErrCorrupt, "/circle_b": ErrCorrupt, "/dangling": ErrNotFound, "/external": ErrUnsupported} {
			if _, err := f.Object(path); !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %s: %v, want %v", file, path, err, want)
			}
		}
		// A group may hold itself: the path goes on, the object is the same.
		up, err := f.Object("/level0/up/up/up/d")
		if err != nil {
			t.Fatal(err)
		}
		if d, err := f.Object("/level0/d"); err != nil || d.Addr() != up.Addr() {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestReferencesInDamagedFilesLeadNowhere(t *testing.T) {
	golden := goldenFiles(t)["refused_latest"]
	f := open(t, "testdata/refused_latest.h5")
	at := dataset(t, f, "/objects").addr
	for _, addr := range []uint64{1, 48, uint64(len(golden)) - 3, uint64(len(golden)) + 9, 1 << 60, noAddress} {
		b := bytes.Clone(golden)
		le.PutUint64(b[at:], addr)
		g, err := New(bytes.NewReader(b), int64(len(b)), "test")
		if err != nil {
			t.Fatal(err)
		}
		d := dataset(t, g, "/objects")
		if path, err := d.RefersTo(); path != "" && addr != 48 || err != nil {
			t.Errorf("reference to byte %d leads to %q, error %v", addr, path, err)
		}
		if err := d.Readable(); !errors.Is(err, ErrUnsupported) {
			t.Errorf("reference to byte %d: %v", addr, err)
		}
	}
}

func TestLinksInAFilteredHeapAreRead(t *testing.T) {
	f := open(t, "testdata/heap_filtered.h5")
	for name, count := range map[string]int{"packed": 20, "wide": 900} {
		o, err := f.Object("/" + name)
		if err != nil {
			t.Fatal(err)
		}
		links, err := o.Links()
		if err != nil {
			t.Fatal(err)
		}
		if len(links) != count+2 {
			t.Errorf("%s: %d links, want %d", name, len(links), count+2)
		}
		soft := 0
		for _, l := range links {
			if l.Kind == SoftLink && strings.HasPrefix(l.Name, "a link with a name that is long, number ") && strings.HasPrefix(l.Target, "/target") {
				soft++
			}
		}
		if soft != count {
			t.Errorf("%s: %d soft links as written, want %d", name, soft, count)
		}
		for _, last := range []string{"last", "huge" + strings.Repeat("x", 5000)} {
			child, err := o.Child(last)
			if err != nil || !child.IsDataset() {
				t.Errorf("%s: %.10s: %v", name, last, err)
			}
		}
	}
}

func TestContentsOfVariableLengthStopAtTheirReadersLimit(t *testing.T) {
	f := open(t, "testdata/types_latest.h5")
	d := dataset(t, f, "/ragged")
	b, err := readAll(d, d.Rows(), 1)
	if err != nil {
		t.Fatal(err)
	}
	var total uint64
	size := d.Type.Size
	for at := 0; at < len(b); at += size {
		n, err := f.VlenBytes(d.Type, b[at:at+size])
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := f.ReadVlen(d.Type, b[at:at+size])
		if err != nil || uint64(len(got)) != n {
			t.Errorf("%d bytes announced, %d read, error %v", n, len(got), err)
		}
		total += n
	}
	if total != 4*(1+4+9+16+25) {
		t.Errorf("%d bytes in all", total)
	}
	for _, c := range []struct {
		limit uint64
		want  error
	}{{total, nil}, {total - 1, ErrLimit}, {0, ErrLimit}} {
		r := f.NewVlenReader(c.limit)
		var err error
		for at := 0; at < len(b) && err == nil; at += size {
			_, _, err = r.Read(d.Type, b[at:at+size])
		}
		if !errors.Is(err, c.want) {
			t.Errorf("limit %d: error %v, want %v", c.limit, err, c.want)
		}
	}
	if _, err := f.VlenBytes(d.Type, b[:3]); !errors.Is(err, ErrUnsupported) {
		t.Errorf("error %v for a part of an element", err)
	}
}

func TestFloatsOfOddShapeKeepTheirValues(t *testing.T) {
	twenty := floatLayout{7, 20, 20, 6, 7, 13, 31, 26, impliedBit}
	single, _ := ieee(4)
	double, _ := ieee(8)
	half, _ := ieee(2)
	if !twenty.within(single, 32) || single.within(half, 16) || !half.within(half, 16) {
		t.Fatal("what fits into what is wrong")
	}
	for _, bad := range []floatLayout{
		{7, 26, 20, 6, 7, 13, 31, 26, impliedBit},  // more bits than there are
		{7, 20, 20, 6, 7, 14, 31, 26, impliedBit},  // mantissa under exponent
		{7, 20, 20, 6, 7, 13, 31, 25, impliedBit},  // sign under exponent
		{7, 20, 20, 6, 7, 13, 31, 27, impliedBit},  // sign outside
		{7, 20, 20, 6, 7, 13, 500, 26, impliedBit}, // values too small
		{7, 20, 20, 6, 7, 13, -900, 26, impliedBit},
		{7, 20, 20, 6, 7, 13, 31, 26, 0}, // no implied bit
	} {
		if bad.within(single, 32) {
			t.Errorf("%+v is said to be within float32", bad)
		}
	}
	for _, c := range []struct {
		sign, exp, mant uint64
		want            float64
	}{
		{0, 31, 0, 1}, {1, 31, 0, -1}, {0, 32, 1 << 12, 3}, {0, 1, 0, 0x1p-30}, {0, 0, 1, 0x1p-43}, {1, 0, 0, math.Copysign(0, -1)},
		{0, 62, 1<<13 - 1, 0x1.fff8p31}, {0, 63, 0, math.Inf(1)}, {1, 63, 0, math.Inf(-1)}, {0, 63, 5, math.NaN()},
	} {
		v := c.sign<<26 | c.exp<<20 | c.mant<<7
		want32, want64 := float32(c.want), c.want
		got32, got64 := math.Float32frombits(uint32(twenty.ieee(v, 4))), math.Float64frombits(twenty.ieee(v, 8))
		if c.want != c.want {
			if got32 == got32 || got64 == got64 {
				t.Errorf("not a number reads as %v and %v", got32, got64)
			}
			continue
		}
		if math.Float32bits(got32) != math.Float32bits(want32) || math.Float64bits(got64) != math.Float64bits(want64) {
			t.Errorf("%+v: %v and %v", c, got32, got64)
		}
	}
	for h := range uint64(1 << 16) {
		want := catalog.HalfToFloat(uint16(h))
		if got := half.ieee(h, 2); want == want && got != h {
			t.Errorf("half %04x comes back as %04x", h, got)
		}
		if got := math.Float64frombits(half.ieee(h, 8)); want == want && got != want {
			t.Errorf("half %04x is %v, not %v", h, got, want)
		}
	}
	if !single.within(double, 64) {
		t.Error("float32 is not within float64")
	}
}
