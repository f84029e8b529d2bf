package parquet

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/survey/fits"
	"astropile/internal/survey/table"
	"astropile/internal/testkit"
)

var withImages = Options{Cutout: fits.DecodeImage}

// oracleFiles makes the files of testdata/oracle.py.
func oracleFiles(t testing.TB) (python, dir string) {
	t.Helper()
	python, dir = testkit.Python(t), t.TempDir()
	run(t, python, "make", dir)
	return python, dir
}

func run(t testing.TB, python string, args ...string) {
	t.Helper()
	out, err := exec.Command(python, append([]string{"testdata/oracle.py"}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("oracle.py %s: %v\n%s", args[0], err, out)
	}
}

type dumpVector struct {
	Data       *[2]int      `json:"data,omitempty"`
	Offsets    *[2]int      `json:"offsets,omitempty"`
	StrOffsets *[2]int      `json:"stroffsets,omitempty"`
	Valid      *[2]int      `json:"valid,omitempty"`
	Members    []dumpVector `json:"members,omitempty"`
}

type dumpField struct {
	Source  string           `json:"source"`
	Kind    catalog.Kind     `json:"kind"`
	DType   catalog.DType    `json:"dtype"`
	Shape   []int            `json:"shape"`
	Members []catalog.Column `json:"members"`
	Err     string           `json:"err"`
	Vector  dumpVector       `json:"vector"`
}

// fills asks for zeros where there is no usual value.
func fills(f *table.Field) []any {
	one := func(d catalog.DType) any {
		switch d {
		case catalog.String, catalog.Float16, catalog.Float32, catalog.Float64:
			return nil
		}
		return 0.0
	}
	if f.Column.Kind != catalog.Struct {
		return []any{one(f.Column.DType)}
	}
	var out []any
	for _, m := range f.Column.Members {
		out = append(out, one(m.DType))
	}
	return out
}

// readAll reads all that a table offers, in portions of step rows.
func readAll(t testing.TB, tab table.Table, step int64) []*catalog.Vector {
	t.Helper()
	fields := tab.Fields()
	out := make([]*catalog.Vector, len(fields))
	var want []table.Request
	var at []int
	for i := range fields {
		if fields[i].Err == nil {
			want = append(want, table.Request{Field: i, Fill: fills(&fields[i])})
			at = append(at, i)
			out[i] = catalog.NewVector(&fields[i].Column)
		}
	}
	for lo := int64(0); lo < tab.Rows(); lo += step {
		hi := min(tab.Rows(), lo+step)
		got, err := tab.Read(context.Background(), lo, hi, want)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range got {
			c := &fields[at[k]].Column
			if err := v.Check(c); err != nil {
				t.Fatal(err)
			}
			if v.Rows != int(hi-lo) {
				t.Fatalf("%s: %d rows of %d", c.Name, v.Rows, hi-lo)
			}
			for r := range v.Rows {
				out[at[k]].AppendRow(c, v, r)
			}
		}
	}
	return out
}

// dump writes what the judge of oracle.py reads.
func dump(t testing.TB, path, to string, opt Options, step int64) {
	t.Helper()
	tab, err := Open(context.Background(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tab.Close() }()
	vectors := readAll(t, tab, step)
	var blob []byte
	put := func(b []byte) *[2]int {
		blob = append(blob, make([]byte, (8-len(blob)%8)%8)...)
		at := &[2]int{len(blob), len(b)}
		blob = append(blob, b...)
		return at
	}
	ints := func(x []int64) *[2]int {
		if x == nil {
			return nil
		}
		b := make([]byte, 0, 8*len(x))
		for _, v := range x {
			for k := range 8 {
				b = append(b, byte(v>>(8*k)))
			}
		}
		return put(b)
	}
	var vector func(v *catalog.Vector) dumpVector
	vector = func(v *catalog.Vector) dumpVector {
		d := dumpVector{Data: put(v.Data), Offsets: ints(v.Offsets), StrOffsets: ints(v.StrOffsets)}
		if v.Valid != nil {
			b := make([]byte, len(v.Valid))
			for i, ok := range v.Valid {
				if ok {
					b[i] = 1
				}
			}
			d.Valid = put(b)
		}
		for _, m := range v.Members {
			d.Members = append(d.Members, vector(m))
		}
		return d
	}
	doc := struct {
		File   string      `json:"file"`
		Rows   int64       `json:"rows"`
		Fields []dumpField `json:"fields"`
	}{File: path, Rows: tab.Rows()}
	for i, f := range tab.Fields() {
		d := dumpField{Source: f.Source, Kind: f.Column.Kind, DType: f.Column.DType, Shape: f.Column.Shape, Members: f.Column.Members}
		if f.Err != nil {
			d.Err = f.Err.Error()
		} else {
			d.Vector = vector(vectors[i])
		}
		doc.Fields = append(doc.Fields, d)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to+".json", b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to+".bin", blob, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFilesOfEveryKindReadAsPyarrowReadsThem(t *testing.T) {
	python, dir := oracleFiles(t)
	t.Run("every value", func(t *testing.T) { everyValue(t, python, dir) })
	t.Run("every mapping", func(t *testing.T) { everyMapping(t, dir) })
	t.Run("units", func(t *testing.T) { units(t, filepath.Join(dir, "scalars.parquet")) })
	t.Run("text that is not UTF-8 is refused", func(t *testing.T) { utf8Refused(t, filepath.Join(dir, "not_utf8.parquet")) })
	t.Run("rows in any order", func(t *testing.T) { anyOrder(t, dir) })
}

func everyValue(t *testing.T, python, dir string) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.parquet"))
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	var dumps []string
	for i, p := range paths {
		name := strings.TrimSuffix(filepath.Base(p), ".parquet")
		if name == "not_utf8" {
			continue
		}
		opt := withImages
		if name == "scalars_one" || i%3 == 0 {
			opt.Shapes = map[string][]int{"curve": nil, "objects": nil}
		}
		step := []int64{1 << 40, 7, 301}[i%3]
		if name == "large_group" {
			step = 1 << 15
		}
		to := filepath.Join(dir, name)
		t.Run(name, func(t *testing.T) { dump(t, p, to, opt, step) })
		dumps = append(dumps, to+".json")
	}
	run(t, python, append([]string{"judge"}, dumps...)...)
}

// everyMapping holds what becomes of which source.
func everyMapping(t *testing.T, dir string) {
	for file, want := range map[string]string{
		"nested": `s.ra scalar float64 null; s.name scalar string null; s.deep.x scalar int32 null; s.deep.deeper.y scalar float32 null;
			curve struct null t:float64 f:float32! band:string; unequal.a list float64 null; unequal.b list int32 null;
			objects struct null jd:float64! id:float32! who:string! in_q:float16!; inside struct null ok:int64; inside.bad refused;
			map struct null key:string value:string; map_of struct null key:int32 value_m:float64 value_n:int64;
			ragged list float32 null; ragged_null list float64 null!; words list string null!; large list uint16 null;
			in_struct.l list int64 null; in_struct.x scalar int8 null`,
		"tensors": `image.band list string null; image.flux tensor float32 [2 3 4]; image.mask tensor bool [2 3 4]; image.scale tensor float32 [2];
			spectrum.flux tensor float32 [5]; spectrum.ivar tensor float64 [5]; coeff tensor float64 [7]; coeff_null tensor float32 [6]!;
			rows_null tensor float32 [3 2] null; fixed tensor int16 [2 3]; fixed_null tensor uint8 [4] null; ext tensor float64 [2 3]; uneven refused; texts refused`,
		"tensors_one": `image.band list string null; image.flux tensor float32 [2 3 4]; image.mask tensor bool [2 3 4]; image.scale tensor float32 [2];
			spectrum struct null flux:float32 ivar:float64; coeff list float64 null; coeff_null list float32 null!;
			rows_null tensor float32 [3 2]; fixed tensor int16 [2 3]; fixed_null tensor uint8 [4]; ext tensor float64 [2 3]; uneven tensor float32 [2 1]; texts refused`,
		"cutouts":     `plain tensor float32 [3 4] null; s.name scalar string null; s.data tensor float32 [3 4]; other refused; void refused`,
		"refused":     `cents refused; null refused; bytes4 refused; good scalar int32 null; lists refused`,
		"int96":       `t scalar int64 null; x scalar int64 null`,
		"uuid":        `u scalar string null`,
		"huggingface": `img tensor float32 [2 3]; s.a tensor uint8 [1 2 2]; s.c tensor float32 [1]; d tensor float32 [1 3]`,
	} {
		tab, err := Open(context.Background(), filepath.Join(dir, file+".parquet"), withImages)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range tab.Fields() {
			got = append(got, spell(&f))
		}
		words := strings.Split(want, ";")
		for i := range words {
			words[i] = strings.Join(strings.Fields(words[i]), " ")
		}
		if !slices.Equal(got, words) {
			t.Errorf("%s:\n got %s\nwant %s", file, strings.Join(got, "; "), strings.Join(words, "; "))
		}
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	}
}

// spell is a field in short; an exclamation mark says that elements may be null.
func spell(f *table.Field) string {
	if f.Err != nil {
		return f.Source + " refused"
	}
	c := &f.Column
	out := f.Source + " " + string(c.Kind)
	if c.Kind != catalog.Struct {
		out += " " + string(c.DType)
	}
	if c.Kind == catalog.Tensor {
		out += " " + fmt.Sprint(c.Shape)
	}
	if c.Nullable {
		out += " null"
	}
	if c.Kind != catalog.Struct && len(f.Missing) > 0 {
		out += "!"
	}
	for i, m := range c.Members {
		out += " " + m.Name + ":" + string(m.DType)
		if f.Missing != nil && f.Missing[i] {
			out += "!"
		}
	}
	return out
}

func units(t *testing.T, path string) {
	tab, err := Open(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tab.Close() }()
	want := map[string]string{"f32": "Jy", "f64": "", "date": "days since 1970-01-01", "time_us": "us since midnight",
		"stamp_ms": "ms since 1970-01-01T00:00:00", "stamp_us": "us since 1970-01-01T00:00:00 UTC", "duration": "us"}
	for _, f := range tab.Fields() {
		if u, ok := want[f.Source]; ok && f.Column.Unit != u {
			t.Errorf("unit of %s is %q, want %q", f.Source, f.Column.Unit, u)
		}
	}
}

func utf8Refused(t *testing.T, path string) {
	tab, err := Open(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tab.Close() }()
	for i, want := range map[int]string{1: "text: parquet: value not usable: row 2", 2: "list: parquet: value not usable: row 2"} {
		if _, err := tab.Read(context.Background(), 0, 4, []table.Request{{Field: i}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if v, err := tab.Read(context.Background(), 0, 2, []table.Request{{Field: 1}}); err != nil || string(v[0].Data) != "okfine" {
		t.Errorf("the rows before: %v", err)
	}
}

func TestRealFilesReadAsPyarrowReadsThem(t *testing.T) {
	python, shared, dir := testkit.Python(t), testkit.Shared(t), t.TempDir()
	var paths []string
	for _, pattern := range []string{"alerts/*.parquet", "hats/*/dataset/*/*/*.parquet", "hats/*/dataset/*/*/*/*.parquet", "hats/*/*/dataset/*/*/*.parquet", "hats/*/*/dataset/*/*.parquet"} {
		more, err := filepath.Glob(filepath.Join(shared, pattern))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, more...)
	}
	if len(paths) < 20 {
		t.Fatalf("%d files", len(paths))
	}
	var dumps []string
	padding := withImages
	padding.Pad = map[string]bool{}
	for _, c := range []string{"Science", "Template", "Difference"} {
		padding.Pad["cutout"+c], padding.Pad["cutout"+c+".stampData"] = true, true
	}
	for i, p := range paths {
		to := filepath.Join(dir, fmt.Sprint(i))
		dump(t, p, to, padding, []int64{1 << 40, 5}[i%2])
		dumps = append(dumps, to+".json")
	}
	run(t, python, append([]string{"judge"}, dumps...)...)
	for name, want := range map[string][]string{
		"ztf.parquet":   {"candidate.ra scalar float64 null", "cutoutScience.stampData tensor float32 [63 63]", "timestamp scalar int64 null"},
		"rubin.parquet": {"diaSource.ra scalar float64 null", "cutoutDifference tensor float32 [", "brokerStartProcessTimestamp scalar int64 null"},
	} {
		tab, err := Open(context.Background(), filepath.Join(shared, "alerts", name), padding)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range tab.Fields() {
			got = append(got, spell(&f))
		}
		for _, w := range want {
			if !slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, w) }) {
				t.Errorf("%s: %q is not among %s", name, w, strings.Join(got, "; "))
			}
		}
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	}
}

func anyOrder(t *testing.T, dir string) {
	for _, name := range []string{"scalars_zstd", "nested_v2", "tensors_snappy"} {
		tab, err := Open(context.Background(), filepath.Join(dir, name+".parquet"), withImages)
		if err != nil {
			t.Fatal(err)
		}
		whole := readAll(t, tab, math.MaxInt32)
		fields := tab.Fields()
		for k := range int64(60) {
			lo := (k * 7919) % tab.Rows()
			hi := min(tab.Rows(), lo+k%13)
			for i := range fields {
				if fields[i].Err != nil || (i+int(k))%3 != 0 {
					continue
				}
				got, err := tab.Read(context.Background(), lo, hi, []table.Request{{Field: i, Fill: fills(&fields[i])}})
				if err != nil {
					t.Fatal(err)
				}
				c := &fields[i].Column
				a, b := catalog.NewVector(c), catalog.NewVector(c)
				for r := range got[0].Rows {
					a.AppendRow(c, got[0], r)
					b.AppendRow(c, whole[i], int(lo)+r)
				}
				if fmt.Sprint(a.Offsets, a.Data, a.Members) == "" || !sameVector(a, b) {
					t.Errorf("%s, %s: rows %d to %d differ from those of the whole", name, c.Name, lo, hi)
				}
			}
		}
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	}
}

func sameVector(a, b *catalog.Vector) bool {
	if a.Rows != b.Rows || string(a.Data) != string(b.Data) || !slices.Equal(a.Offsets, b.Offsets) || !slices.Equal(a.StrOffsets, b.StrOffsets) {
		return false
	}
	for i := range a.Rows {
		if a.Null(i) != b.Null(i) {
			return false
		}
	}
	for k := range a.Members {
		if !sameVector(a.Members[k], b.Members[k]) {
			return false
		}
	}
	return true
}
