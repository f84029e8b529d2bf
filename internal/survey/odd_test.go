package survey

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"astropile/internal/catalog"
)

func oddFiles(names ...string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = filepath.Join("testdata", "odd", n)
	}
	return out
}

func hints(t *testing.T, text string) *Recipe {
	t.Helper()
	if text == "" {
		return nil
	}
	r, err := LoadRecipe([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestInspectRefusesByNameAndSaysWhatDecides(t *testing.T) {
	for _, c := range []struct {
		name, files, recipe string
		is                  error
		text                []string
	}{
		{"axes of different length", "ambiguous_lengths.h5", "", ErrMapping, []string{"ambiguous_lengths.h5", `"dec"`, `"x"`, "family: columnar"}},
		{"the same, decided", "ambiguous_lengths.h5", "family: columnar", ErrMapping, []string{`"dec" has 3 rows`, `"x" has 4`, "drop: [x]"}},
		{"a scalar among columns", "ambiguous_scalar.h5", "", ErrMapping, []string{"family: columnar", "family: object", `"version"`}},
		{"a scalar among columns, decided", "ambiguous_scalar.h5", "family: columnar", ErrMapping, []string{"drop: [version]"}},
		{"groups beside datasets", "groups_beside.h5", "", ErrMapping, []string{`"history"`, "family: columnar"}},
		{"groups beside datasets, decided", "groups_beside.h5", "family: columnar", ErrMapping, []string{"drop: [history]"}},
		{"groups wanted, datasets there", "groups_beside.h5", "family: group", ErrMapping, []string{"family group"}},
		{"nothing in the file", "empty.h5", "", ErrMapping, []string{"empty.h5", "neither datasets nor groups"}},
		{"families that differ", "two_ids.h5 bands.h5", "", ErrMapping, []string{"two_ids.h5", "bands.h5", "family: columnar"}},
		{"two ids", "two_ids.h5", "", ErrMapping, []string{"source_id, target_id", "id: source_id"}},
		{"no id", "no_id.h5", "", ErrMapping, []string{"id: COLUMN"}},
		{"an id that is not there", "no_id.h5", "id: oid", ErrRecipe, []string{`no column "oid"`}},
		{"no position", "no_position.h5", "", ErrMapping, []string{"ra: COLUMN", "dec: COLUMN", "no_sky: true"}},
		{"positions off the sky", "off.h5", "", ErrPosition, []string{"off.h5", "rows 1 2", "360"}},
		{"shapes", "shape_a.h5 shape_b.h5", "", ErrMapping, []string{"[5] in testdata/odd/shape_a.h5 and [7] in testdata/odd/shape_b.h5", "kind: list", "pad: VALUE and shape: [7]", `"t" has shape [2 2]`, "pad: VALUE and shape: [2 3]"}},
		{"types", "clash_a.h5 clash_b.h5", "", ErrMapping, []string{"int64 in testdata/odd/clash_a.h5, uint64 in testdata/odd/clash_b.h5", `"y" is int64`, "string in"}},
		{"a missing text and tensor", "missing_a.h5 missing_c.h5", "", ErrMapping, []string{`"flux" is in testdata/odd/missing_a.h5 and missing in testdata/odd/missing_c.h5`}},
		{"a tensor missing first", "missing_c.h5 missing_a.h5", "", ErrMapping, []string{`"flux" is in testdata/odd/missing_a.h5 and missing in testdata/odd/missing_c.h5`}},
		{"a missing id", "missing_b.h5 two_ids.h5", "drop: [flux, source_id, target_id]", ErrMapping, []string{`"object_id" looks like the id`, "two_ids.h5"}},
		{"a missing position", "missing_b.h5 no_position.h5", "drop: [flux, x]", ErrMapping, []string{`"ra" looks like ra`, "no_position.h5"}},
		{"units", "unit_a.h5 unit_b.h5", "", ErrMapping, []string{`"Jy" in testdata/odd/unit_a.h5, "mJy" in testdata/odd/unit_b.h5`}},
		{"references", "reference.h5", "", ErrMapping, []string{`"ref"`, "references", "drop: [ref]"}},
		{"text of two axes", "text_table.h5", "", ErrMapping, []string{`"t" has text of shape [2 2]`, "drop: [t]"}},
		{"an empty side", "zero_side.h5", "", ErrMapping, []string{`"t"`, "[0] a row", "drop: [t]"}},
		{"a reserved name", "reserved.h5", "", ErrRecipe, []string{"rename: {Norder"}},
		{"a name with a dot", "dotted.h5", "", ErrRecipe, []string{"mag.g", "rename"}},
		{"a rename of nothing", "no_position.h5", "no_sky: true\nrename: {y: z}", ErrMapping, []string{`no column "y"`}},
		{"ragged arrays", "ragged_arrays.h5", "", ErrMapping, []string{`"t/s"`, "drop: [t/s]"}},
		{"no such file", "nothing.h5", "", ErrInput, []string{"nothing.h5"}},
		{"not HDF5", "../make.py", "", ErrInput, []string{"make.py", ".hdf5"}},
		{"a complete recipe and another column", "no_position.h5", `
family: columnar
id: object_id
no_sky: true
columns: [{name: object_id, source: object_id, kind: scalar, dtype: int32}]
`, ErrMapping, []string{`"x" is in no column`, "drop: [x]"}},
		{"a complete recipe and a missing one", "no_position.h5", `
family: columnar
id: object_id
no_sky: true
columns: 
- {name: object_id, source: object_id, kind: scalar, dtype: int32}
- {name: x, source: x, kind: scalar, dtype: float64}
- {name: y, source: y, kind: scalar, dtype: float64}
`, ErrMapping, []string{`there is no dataset "y"`, "nullable: true"}},
		{"a complete recipe and other shapes", "no_position.h5", `
family: columnar
id: object_id
no_sky: true
columns: 
- {name: object_id, source: object_id, kind: scalar, dtype: string}
- {name: x, source: x, kind: tensor, shape: [2], dtype: float64}
`, ErrMapping, []string{`"x" does not fit column "x"`, "shape"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Inspect(context.Background(), oddFiles(strings.Fields(c.files)...), InspectOptions{Recipe: hints(t, c.recipe)})
			if !errors.Is(err, c.is) {
				t.Fatalf("error is %v, want %v", err, c.is)
			}
			for _, want := range c.text {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not say %q: %v", want, err)
				}
			}
		})
	}
}

func TestInspectWarnsOfWhatAPersonShouldLookAt(t *testing.T) {
	for _, c := range []struct {
		files string
		code  Code
		col   string
		text  string
	}{
		{"guessed_id.h5", WarnID, "SOURCE_ID", "no object_id"},
		{"repeated_id.h5", WarnID, "target_id", "its values"},
		{"duplicate_ids.h5", WarnID, "object_id", `"1"`},
		{"nan.h5", WarnPosition, "ra", "NaN"},
		{"radians.h5", WarnUnits, "ra", "radians"},
		{"hours.h5", WarnUnits, "ra", "hours"},
		{"missing_a.h5 missing_b.h5", WarnNullable, "z", "null"},
		{"widen_a.h5 widen_b.h5", WarnDType, "m", "float64"},
		{"fixed_a.h5 fixed_b.h5", WarnRagged, "spectrum", "a list"},
	} {
		t.Run(string(c.code)+" "+c.files, func(t *testing.T) {
			r, warnings, err := Inspect(context.Background(), oddFiles(strings.Fields(c.files)...), InspectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(warnings, func(w Warning) bool {
				return w.Code == c.code && w.Column == c.col && strings.Contains(w.Text, c.text)
			}) {
				t.Errorf("no such warning; there are %v", warnings)
			}
			text, err := r.Marshal()
			if err != nil || !strings.Contains(string(text), "# look at "+string(c.code)) {
				t.Errorf("the recipe does not say so (%v):\n%s", err, text)
			}
		})
	}
}

// inspected infers a recipe and opens the files with it.
func inspected(t *testing.T, recipe string, files ...string) (*Recipe, []Input) {
	t.Helper()
	sources := oddFiles(files...)
	r, _, err := Inspect(context.Background(), sources, InspectOptions{Recipe: hints(t, recipe)})
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := Discover(sources)
	if err != nil {
		t.Fatal(err)
	}
	return r, inputs
}

func vectorOf(t *testing.T, b *catalog.Batch, name string) (*catalog.Column, *catalog.Vector) {
	t.Helper()
	for i := range b.Columns {
		if b.Columns[i].Name == name {
			return &b.Columns[i], b.Vectors[i]
		}
	}
	t.Fatalf("no column %q", name)
	return nil, nil
}

func floatsOf(c *catalog.Column, v *catalog.Vector) []float64 {
	var out []float64
	class, _ := number(c.DType)
	size := c.DType.Size()
	for at := 0; at < len(v.Data); at += size {
		switch b := v.Data[at : at+size]; class {
		case 'f':
			out = append(out, getFloat(b))
		case 'i':
			out = append(out, float64(int64(getInt(b, true))))
		default:
			out = append(out, float64(getInt(b, false)))
		}
	}
	return out
}

func TestTypesOfInputsAreWidenedToTheNarrowestThatHoldsAll(t *testing.T) {
	r, inputs := inspected(t, "", "widen_a.h5", "widen_b.h5")
	b, _ := readAll(t, inputs, r, 0)
	for _, c := range []struct {
		name string
		dt   catalog.DType
		want []float64
	}{
		{"p", catalog.Int32, []float64{-5, 0, 32767, 5, 0, 65535}},
		{"q", catalog.Float32, []float64{0, 1, 2, 1, 2, 3}},
		{"r", catalog.Int8, []float64{1, 0, 1, -1, 0, 5}},
		{"h", catalog.Float32, []float64{1.5, -2, 3, float64(float32(1e30)), 0, 1}},
		{"m", catalog.Float64, []float64{1, 2, 1 << 53, 0.5, 1, 2}},
	} {
		col, v := vectorOf(t, b, c.name)
		if col.DType != c.dt || !slices.Equal(floatsOf(col, v), c.want) {
			t.Errorf("%s is %s %v, want %s %v", c.name, col.DType, floatsOf(col, v), c.dt, c.want)
		}
	}
}

func TestAValueThatItsColumnDoesNotHoldIsRefusedWithItsRow(t *testing.T) {
	r, _ := inspected(t, "", "widen_a.h5", "widen_b.h5")
	rowError(t, r, "widen_c.h5", ErrValue, []int64{1}, "9007199254740993", "float64")

	narrow := `
family: columnar
id: object_id
no_sky: true
drop: [ra, dec]
columns:
- {name: object_id, source: object_id, kind: scalar, dtype: int32}
- {name: z, source: z, kind: scalar, dtype: float32%s}
`
	rowError(t, hints(t, strings.ReplaceAll(narrow, "%s", "")), "float64.h5", ErrValue, []int64{1}, "0.1", "round: true")
	b, _ := readAll(t, []Input{{Path: oddFiles("float64.h5")[0]}}, hints(t, strings.ReplaceAll(narrow, "%s", ", round: true")), 0)
	if c, v := vectorOf(t, b, "z"); !slices.Equal(floatsOf(c, v), []float64{0.5, float64(float32(0.1)), 1}) {
		t.Errorf("rounded to %v", floatsOf(c, v))
	}
}

// rowError opens a file with a recipe and demands that reading it names the rows.
func rowError(t *testing.T, r *Recipe, file string, is error, rows []int64, text ...string) {
	t.Helper()
	rd, err := Open(context.Background(), Input{Path: oddFiles(file)[0], Healpix: -1}, r)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	_, err = rd.Read(context.Background(), 0, rd.Rows())
	var re *RowsError
	if !errors.Is(err, is) || !errors.As(err, &re) || !slices.Equal(re.Rows, rows) || re.File != oddFiles(file)[0] {
		t.Fatalf("error is %v, want %v with rows %v", err, is, rows)
	}
	for _, s := range text {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error does not say %q: %v", s, err)
		}
	}
}

func TestRowsThatCannotBeImportedAreNamed(t *testing.T) {
	for _, c := range []struct {
		file string
		is   error
		rows []int64
		text string
	}{
		{"nan.h5", ErrPosition, []int64{1, 3}, "missing or NaN"},
		{"id_empty.h5", ErrValue, []int64{1, 2}, "is empty"},
		{"latin1.h5", ErrValue, []int64{0}, "text: latin1"},
		{"not_bool.h5", ErrValue, []int64{1}, "bool"},
		{"bands.h5", ErrValue, []int64{0}, "names 2 bands"},
	} {
		t.Run(c.file, func(t *testing.T) {
			// A sample would stumble as the reader does, so the recipe comes from the metadata alone.
			sources := oddFiles(c.file)
			inputs, err := Discover(sources)
			if err != nil {
				t.Fatal(err)
			}
			n := &inference{recipe: &Recipe{}}
			g := newMerger()
			if _, _, err := survey(context.Background(), inputs, n.recipe, false, g, newTableMerger(), InspectOptions{}); err != nil {
				t.Fatal(err)
			}
			n.columns(g)
			n.keys(func(string) bool { return true })
			if err := n.finish(); err != nil {
				t.Fatal(err)
			}
			rowError(t, n.recipe, c.file, c.is, c.rows, c.text)
		})
	}
}

func TestAnIDThatTrimmingChangesIsRefusedWhereNoColumnKeepsIt(t *testing.T) {
	r, _ := inspected(t, "", "id_plain.h5")
	if r.find("object_id_raw") != nil {
		t.Fatal("plain ids have a raw column")
	}
	rowError(t, r, "id_spaces.h5", ErrValue, []int64{1}, "object_id_raw")
	r, inputs := inspected(t, "", "id_spaces.h5")
	b, _ := readAll(t, inputs, r, 0)
	_, id := vectorOf(t, b, "object_id")
	_, raw := vectorOf(t, b, "object_id_raw")
	if string(id.Str(1)) != "b" || string(raw.Str(1)) != " b" {
		t.Errorf("id %q, raw %q", id.Str(1), raw.Str(1))
	}
}

func TestAMissingScalarIsNullOnlyWhereTheRecipeSaysSo(t *testing.T) {
	r, inputs := inspected(t, "", "missing_a.h5", "missing_b.h5")
	b, _ := readAll(t, inputs, r, 0)
	for _, name := range []string{"z", "name"} {
		if _, v := vectorOf(t, b, name); !slices.Equal(v.Valid, []bool{true, true, true, false, false, false}) {
			t.Errorf("%s: validity is %v", name, v.Valid)
		}
	}
	r, _ = inspected(t, "", "missing_a.h5")
	_, err := Open(context.Background(), inputs[1], r)
	if !errors.Is(err, ErrMapping) || !strings.Contains(err.Error(), `"z"`) || !strings.Contains(err.Error(), `"name"`) {
		t.Errorf("error is %v", err)
	}
}

func TestRecipesDecideWhatInspectCouldNot(t *testing.T) {
	ok := func(recipe string, files ...string) (*Recipe, *catalog.Batch) {
		t.Helper()
		r, inputs := inspected(t, recipe, files...)
		b, _ := readAll(t, inputs, r, 0)
		return r, b
	}
	ok("family: columnar\ndrop: [x]", "ambiguous_lengths.h5")
	ok("drop: [version]", "ambiguous_scalar.h5")
	ok("drop: [history]", "groups_beside.h5")
	ok("drop: [ref]", "reference.h5")
	ok("drop: [t/s]", "ragged_arrays.h5")
	if r, _ := ok("id: target_id", "two_ids.h5"); r.ID != "target_id" {
		t.Errorf("id is %q", r.ID)
	}
	if r, _ := ok("no_sky: true", "no_position.h5"); !r.NoSky || r.RA != "" {
		t.Errorf("no_sky %v, ra %q", r.NoSky, r.RA)
	}
	if r, _ := ok("", "other_position.h5"); r.RA != "RAJ2000" || r.Dec != "DEJ2000" {
		t.Errorf("ra %q, dec %q", r.RA, r.Dec)
	}
	if r, _ := ok("rename: {Norder: order}", "reserved.h5"); r.find("order") == nil || r.find("order").Source != "Norder" {
		t.Error("Norder is not renamed")
	}
	if r, _ := ok("rename: {object_id: oid, ra: alpha}", "no_rows.h5"); r.ID != "oid" || r.RA != "alpha" || r.Dec != "dec" {
		t.Errorf("renamed keys are %q, %q", r.ID, r.RA)
	}

	const head = `
family: columnar
id: object_id
ra: ra
dec: dec
columns:
- {name: object_id, source: object_id, kind: scalar, dtype: string}
- {name: ra, source: ra, kind: scalar, dtype: float64}
- {name: dec, source: dec, kind: scalar, dtype: float64}
`
	_, b := ok(head+`
- {name: s, source: s, kind: list, dtype: float32}
- {name: t, source: t, kind: tensor, dtype: int16, shape: [2, 3], pad: -1}
`, "shape_a.h5", "shape_b.h5")
	_, v := vectorOf(t, b, "s")
	if !slices.Equal(v.Offsets, []int64{0, 5, 10, 15, 22, 29, 36}) {
		t.Errorf("list offsets are %v", v.Offsets)
	}
	c, v := vectorOf(t, b, "t")
	if got := floatsOf(c, v)[:12]; !slices.Equal(got, []float64{0, 1, -1, 2, 3, -1, 4, 5, -1, 6, 7, -1}) {
		t.Errorf("padded to %v", got)
	}
	if got := floatsOf(c, v)[18:]; !slices.Equal(got[:6], []float64{0, 1, 2, 3, 4, 5}) {
		t.Errorf("what fits became %v", got)
	}
	if _, id := vectorOf(t, b, "object_id"); string(id.Data) != "101112012" {
		t.Errorf("integers as text are %q", id.Data)
	}
	_, b = ok(head+"- {name: name, source: name, kind: scalar, dtype: string, text: latin1}", "latin1.h5")
	if _, v := vectorOf(t, b, "name"); string(v.Str(0)) != "café" {
		t.Errorf("latin1 is %q", v.Str(0))
	}
}

func TestListsBesideATimeBecomeOneStructOnlyIfLengthsAgree(t *testing.T) {
	r, inputs := inspected(t, "", "half_lists.h5")
	m := r.find("lc")
	if m == nil || len(m.Members) != 2 || m.Members[0].Name != "time" || m.Members[1].Name != "flux" || r.find("lc_note") == nil {
		t.Fatalf("mapping is %+v", r.Map)
	}
	readAll(t, inputs, r, 0)
	m.Members = append(m.Members, Mapping{Name: "note", From: FromDataset, Source: "lc_note", Kind: catalog.List, DType: catalog.Float32})
	r.Map = slices.DeleteFunc(r.Map, func(m Mapping) bool { return m.Name == "lc_note" })
	rowError(t, r, "half_lists.h5", ErrValue, []int64{1}, `"note" has 2`)
}

func TestSplitIsAColumnOnlyWhereEveryInputTellsOne(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"train/a.h5", "test/b.h5", "c.h5"} {
		copyFile(t, oddFiles("no_rows.h5")[0], filepath.Join(dir, name))
	}
	r, warnings, err := Inspect(context.Background(), []string{dir}, InspectOptions{})
	if err != nil || r.find("split") != nil || !slices.ContainsFunc(warnings, func(w Warning) bool { return w.Code == WarnSplit && strings.HasSuffix(w.File, "c.h5") }) {
		t.Errorf("%v: split is %+v, warnings %v", err, r.find("split"), warnings)
	}
	if err := os.Remove(filepath.Join(dir, "c.h5")); err != nil {
		t.Fatal(err)
	}
	r, _, err = Inspect(context.Background(), []string{dir}, InspectOptions{})
	if err != nil || r.find("split") == nil {
		t.Fatalf("%v: there is no split", err)
	}
	if _, err := Open(context.Background(), Input{Path: oddFiles("no_rows.h5")[0]}, r); !errors.Is(err, ErrMapping) || !strings.Contains(err.Error(), "split") {
		t.Errorf("an input without a split: %v", err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestContentsOfVaryingLengthHaveABudget(t *testing.T) {
	r, _, err := Inspect(context.Background(), []string{"testdata/vlen"}, InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := Discover([]string{"testdata/vlen"})
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[uint64]string{20: "over the limit", 1 << 20: ""} {
		rd, err := Open(context.Background(), inputs[0], r, func(o *options) { o.vlen = limit })
		if err != nil {
			t.Fatal(err)
		}
		defer rd.Close()
		for range 2 { // the budget is that of one Read
			_, err = rd.Read(context.Background(), 0, rd.Rows())
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("limit %d: %v", limit, err)
			}
		}
	}
}

func TestWhatTheSystemRefusesIsNotDamaged(t *testing.T) {
	for _, err := range []error{fs.ErrPermission, fs.ErrNotExist, syscall.EMFILE} {
		o := InspectOptions{Bad: func(Input, error) bool { return true }}
		if o.leaveOut(context.Background(), Input{}, fmt.Errorf("%w: %w", ErrInput, &fs.PathError{Op: "open", Path: "x", Err: err})) {
			t.Errorf("%v: an input is left out that may be sound", err)
		}
		if !o.leaveOut(context.Background(), Input{}, fmt.Errorf("%w: damaged", ErrInput)) {
			t.Error("a damaged input is not left out")
		}
	}
}

func TestABadInputStopsInspectOrIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	whole, err := os.ReadFile(oddFiles("id_plain.h5")[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"a.h5": whole[:len(whole)/2], "b.h5": whole, "c.h5": []byte("no HDF5"), "d.h5": {}} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, oddFiles("id_spaces.h5")[0], filepath.Join(dir, "e", "e.h5"))
	_, _, err = Inspect(context.Background(), []string{dir}, InspectOptions{})
	if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), "a.h5") {
		t.Errorf("error is %v", err)
	}
	var bad []string
	keep := func(in Input, err error) bool {
		bad = append(bad, in.Rel)
		return true
	}
	r, _, err := Inspect(context.Background(), []string{dir}, InspectOptions{Bad: keep})
	if err != nil || r.find("object_id") == nil || !slices.Equal(bad, []string{"a.h5", "c.h5", "d.h5"}) {
		t.Errorf("%v: left out %v", err, bad)
	}
	bad = nil
	copyFile(t, oddFiles("off.h5")[0], filepath.Join(dir, "b.h5"))
	if _, _, err = Inspect(context.Background(), []string{filepath.Join(dir, "b.h5")}, InspectOptions{Bad: keep}); err != nil || !slices.Equal(bad, []string{"b.h5"}) {
		t.Errorf("%v: left out %v", err, bad)
	}
	if _, _, err = Inspect(context.Background(), []string{filepath.Join(dir, "c.h5")}, InspectOptions{Bad: keep}); !errors.Is(err, ErrInput) {
		t.Errorf("nothing but bad inputs: %v", err)
	}
}
