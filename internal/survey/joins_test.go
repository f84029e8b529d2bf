package survey

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"astropile/internal/catalog"
)

// folder writes files and gives the folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// inspectAndRead inspects a folder and reads every file of it.
func inspectAndRead(t *testing.T, dir string, hints *Recipe) (*Recipe, []Warning, map[string]*catalog.Batch, error) {
	t.Helper()
	r, warnings, err := Inspect(context.Background(), []string{dir}, InspectOptions{Recipe: hints})
	if err != nil {
		return r, warnings, nil, err
	}
	inputs, err := Discover([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*catalog.Batch{}
	for _, in := range inputs {
		rd, err := Open(context.Background(), in, r)
		if err != nil {
			return r, warnings, nil, err
		}
		b, err := rd.Read(context.Background(), 0, rd.Rows())
		if e := rd.Close(); e != nil {
			t.Fatal(e)
		}
		if err != nil {
			return r, warnings, nil, err
		}
		out[in.Rel] = b
	}
	return r, warnings, out, nil
}

func columnOf(b *catalog.Batch, name string) *catalog.Vector {
	for i := range b.Columns {
		if b.Columns[i].Name == name {
			return b.Vectors[i]
		}
	}
	return nil
}

func TestAColumnWithoutAValueInOneFileGoesWithAnyType(t *testing.T) {
	for name, second := range map[string]string{"text": "abc", "integer": "9007199254740993", "bool": "true", "decimal": "1.5"} {
		dir := folder(t, map[string]string{"a.csv": "id,ra,dec,code\n1,10.5,20.5,\n2,11.5,21.5,\n", "b.csv": "id,ra,dec,code\n3,12.5,22.5," + second + "\n"})
		r, _, got, err := inspectAndRead(t, dir, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if v := columnOf(got["a.csv"], "code"); !v.Null(0) || !v.Null(1) || !r.find("code").Nullable {
			t.Errorf("%s: rows without a value are not null", name)
		}
		if v := columnOf(got["b.csv"], "code"); v.Null(0) {
			t.Errorf("%s: the value is null", name)
		}
	}
	dir := folder(t, map[string]string{"a.csv": "id,ra,dec\n", "b.csv": "id,ra,dec\n3,12.5,22.5\n"})
	if _, _, got, err := inspectAndRead(t, dir, nil); err != nil || got["a.csv"].Rows != 0 || got["b.csv"].Rows != 1 {
		t.Errorf("a table of no rows: %v", err)
	}
	dir = folder(t, map[string]string{"a.jsonl": `{"id":1,"ra":1.5,"dec":2,"n":null,"l":[]}` + "\n", "b.jsonl": `{"id":2,"ra":1.5,"dec":2,"n":"x","l":["y"]}` + "\n"})
	if _, _, got, err := inspectAndRead(t, dir, &Recipe{Drop: []string{"l"}}); err != nil || string(columnOf(got["b.jsonl"], "n").Str(0)) != "x" {
		t.Errorf("null beside text in JSONL: %v", err)
	}
}

func TestIntegersBesideTextsAreTheirDecimalText(t *testing.T) {
	dir := folder(t, map[string]string{"a.csv": "id,ra,dec,code\nA1,10.5,20.5,007\n", "b.csv": "id,ra,dec,code\n123,12.5,22.5,12\n"})
	r, _, got, err := inspectAndRead(t, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.find("code").DType != catalog.String || string(columnOf(got["a.csv"], "code").Str(0)) != "007" || string(columnOf(got["b.csv"], "code").Str(0)) != "12" {
		t.Error("codes are not as they stood")
	}
	if string(columnOf(got["b.csv"], "id").Str(0)) != "123" {
		t.Error("an id is not as it stood")
	}
}

func TestWholePositionsAreFloats(t *testing.T) {
	r, _, _, err := inspectAndRead(t, folder(t, map[string]string{"a.csv": "id,ra,dec\n1,10,20\n"}), nil)
	if err != nil || r.find("ra").DType != catalog.Float64 || r.find("dec").DType != catalog.Float64 {
		t.Error(err)
	}
}

func TestAnIntegerThatEqualsTheFillStopsTheReading(t *testing.T) {
	line := func(id, v string) string { return `{"id":` + id + `,"ra":1.5,"dec":2.5,"v":` + v + "}\n" }
	r, _, got, err := inspectAndRead(t, folder(t, map[string]string{"a.jsonl": line("1", "[1,null]") + line("2", "[]")}), nil)
	if err != nil {
		t.Fatal(err)
	}
	v := columnOf(got["a.jsonl"], "v")
	if x := int64(binary.LittleEndian.Uint64(v.Data[8:])); x != -1<<63 || r.find("v").Fill == nil {
		t.Errorf("null became %d", x)
	}
	for name, text := range map[string]string{
		"beside a null":  line("1", "[-9223372036854775808,null]"),
		"in another row": line("1", "[1,null]") + line("2", "[-9223372036854775808]"),
	} {
		if _, _, _, err := inspectAndRead(t, folder(t, map[string]string{"a.jsonl": text}), nil); err == nil || !strings.Contains(err.Error(), "equals fill") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The greatest of unsigned integers is data, its fill another.
	if _, _, got, err = inspectAndRead(t, folder(t, map[string]string{"a.jsonl": line("1", "[18446744073709551615,null]")}), nil); err != nil {
		t.Fatal(err)
	}
	if v := columnOf(got["a.jsonl"], "v"); binary.LittleEndian.Uint64(v.Data) != 1<<64-1 || binary.LittleEndian.Uint64(v.Data[8:]) != 1<<63 {
		t.Errorf("values %x", v.Data)
	}
	if _, err := LoadRecipe([]byte("family: table\nid: id\nno_sky: true\ncolumns:\n  - {name: id, source: id, kind: scalar, dtype: int64}\n  - {name: v, source: v, kind: list, dtype: int64, fill: 9007199254740993}\n")); err == nil || !strings.Contains(err.Error(), "not exact") {
		t.Errorf("a fill that float64 rounds: %v", err)
	}
}

func TestUnitsOfPositionsAreReadHoweverFewTheRows(t *testing.T) {
	ecsv := "# %ECSV 1.0\n# ---\n# datatype:\n# - {name: id, datatype: int64}\n# - {name: ra, unit: hourangle, datatype: float64}\n# - {name: dec, unit: arcsec, datatype: float64}\nid ra dec\n1 5.5 20.0\n"
	_, warnings, _, err := inspectAndRead(t, folder(t, map[string]string{"a.ecsv": ecsv}), nil)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, w := range warnings {
		if w.Code == WarnUnits {
			said[w.Column] = true
		}
	}
	if !said["ra"] || !said["dec"] {
		t.Errorf("warnings %v", warnings)
	}
}
