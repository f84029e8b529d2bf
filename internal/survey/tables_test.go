package survey

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// fakeTable gives vectors that a test made. Null elements are marked in nulls, by field; what was asked to stand for them
// is written there, as readers do.
type fakeTable struct {
	fields  []table.Field
	vectors []*catalog.Vector
	nulls   map[int][]int // field: elements that are null
	rows    int64
}

func (t *fakeTable) Rows() int64           { return t.rows }
func (t *fakeTable) Fields() []table.Field { return t.fields }
func (t *fakeTable) Grain() int64          { return 1 }
func (t *fakeTable) RowBytes() int64       { return 8 }
func (t *fakeTable) Close() error          { return nil }

func (t *fakeTable) Read(_ context.Context, lo, hi int64, want []table.Request) ([]*catalog.Vector, error) {
	var out []*catalog.Vector
	for _, w := range want {
		c := t.fields[w.Field].Column
		v := t.vectors[w.Field]
		if null := t.nulls[w.Field]; null != nil {
			if len(w.Fill) == 0 || w.Fill[0] == nil {
				return nil, errors.New("no fill was asked for")
			}
			class, bits := number(c.DType)
			one := make([]byte, c.DType.Size())
			if class == 'b' && w.Fill[0] != 0.0 && w.Fill[0] != 1.0 || class != 'b' && !putNumber(one, class, bits, w.Fill[0].(float64), false) {
				return nil, fmt.Errorf("fill %v does not fit %s", w.Fill[0], c.DType)
			}
			if class == 'b' {
				one[0] = byte(w.Fill[0].(float64))
			}
			x := *v
			x.Data = bytes.Clone(v.Data)
			for _, i := range null {
				copy(x.Data[i*len(one):], one)
			}
			v = &x
		}
		out = append(out, v.Slice(&c, int(lo), int(hi)))
	}
	return out, nil
}

func packed(values any) []byte {
	b, err := binary.Append(nil, le, values)
	if err != nil {
		panic(err)
	}
	return b
}

func textVector(list ...string) *catalog.Vector {
	v := &catalog.Vector{Offsets: []int64{0}}
	for _, s := range list {
		appendText(v, s)
	}
	return v
}

// readFake reads all rows of a table of one field by a recipe whose one column is m.
func readFake(f table.Field, v *catalog.Vector, nulls []int, m Mapping) (*catalog.Vector, error) {
	ids := textVector()
	for i := range v.Rows {
		appendText(ids, fmt.Sprint(i))
	}
	f.Source = "x"
	m.Name, m.Source, m.From = "x", "x", FromDataset
	if m.Kind == catalog.Struct {
		m.Source = ""
	}
	t := &fakeTable{rows: int64(v.Rows), fields: []table.Field{f, {Source: "id", Column: catalog.Column{Kind: catalog.Scalar, DType: catalog.String}}}, vectors: []*catalog.Vector{v, ids}, nulls: map[int][]int{0: nulls}}
	r := &Recipe{Family: Table, ID: "id", NoSky: true, Map: []Mapping{m, {Name: "id", Source: "id", From: FromDataset, Kind: catalog.Scalar, DType: catalog.String}}}
	if err := r.Check(); err != nil {
		return nil, err
	}
	b := base{in: Input{Path: "fake"}, recipe: r, maps: r.mappings(), cols: r.Columns(), opt: options{slab: 1}}
	rd, err := b.openTable(t)
	if err != nil {
		return nil, err
	}
	got, err := rd.Read(context.Background(), 0, rd.Rows())
	if err != nil {
		return nil, err
	}
	for i := range got.Columns {
		if got.Columns[i].Name == "x" {
			return got.Vectors[i], got.Vectors[i].Check(&got.Columns[i])
		}
	}
	return nil, errors.New("no column x")
}

func TestValuesOfTablesBecomeWhatTheRecipeSays(t *testing.T) {
	scalar := func(d catalog.DType) table.Field {
		return table.Field{Column: catalog.Column{Kind: catalog.Scalar, DType: d}}
	}
	tensor := func(d catalog.DType, shape ...int) table.Field {
		return table.Field{Column: catalog.Column{Kind: catalog.Tensor, DType: d, Shape: shape}}
	}
	list := func(d catalog.DType) table.Field {
		return table.Field{Column: catalog.Column{Kind: catalog.List, DType: d}}
	}
	valid := []bool{true, false}
	pad := -1.0
	for _, c := range []struct {
		name  string
		f     table.Field
		v     catalog.Vector
		nulls []int
		m     Mapping
		want  []byte // data
		off   []int64
		err   string
	}{
		{"kept", scalar(catalog.Int32), catalog.Vector{Rows: 2, Data: packed([]int32{1, -2})}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Int32}, packed([]int32{1, -2}), nil, ""},
		{"cast", scalar(catalog.Int32), catalog.Vector{Rows: 2, Data: packed([]int32{1, -2})}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Int8}, packed([]int8{1, -2}), nil, ""},
		{"a cast that loses", scalar(catalog.Int32), catalog.Vector{Rows: 2, Data: packed([]int32{1, 200})}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Int8}, nil, nil, `200 (int32) is not exact as int8`},
		{"the row of a cast that loses", tensor(catalog.Float64, 2), catalog.Vector{Rows: 2, Data: packed([]float64{1, 2, 3, 0.1})}, nil, Mapping{Kind: catalog.Tensor, Shape: []int{2}, DType: catalog.Float32}, nil, nil, `rows 1`},
		{"rounded", scalar(catalog.Float64), catalog.Vector{Rows: 2, Data: packed([]float64{0.1, 2})}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Float32, Round: true}, packed([]float32{0.1, 2}), nil, ""},
		{"not a bool", scalar(catalog.Bool), catalog.Vector{Rows: 2, Data: []byte{0, 2}}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Bool}, nil, nil, "rows 1"},
		{"integers as text", scalar(catalog.Int64), catalog.Vector{Rows: 2, Data: packed([]int64{7, -8})}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.String}, []byte("7-8"), []int64{0, 1, 3}, ""},
		{"scaled", scalar(catalog.Float64), catalog.Vector{Rows: 2, Data: packed([]float64{1, 23.5})}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Float64, Scale: 15}, packed([]float64{15, 352.5}), nil, ""},
		{"null and nullable", scalar(catalog.Int16), catalog.Vector{Rows: 2, Data: packed([]int16{5, 0}), Valid: valid}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Int16, Nullable: true}, packed([]int16{5, 0}), nil, ""},
		{"null and not nullable", scalar(catalog.Int16), catalog.Vector{Rows: 2, Data: packed([]int16{5, 0}), Valid: valid}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Int16}, nil, nil, "nullable: true lets it be"},
		{"null and filled", scalar(catalog.Int16), catalog.Vector{Rows: 2, Data: packed([]int16{5, 0}), Valid: valid}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Int16, Fill: -99.0}, packed([]int16{5, -99}), nil, ""},
		{"a value equal to its fill", scalar(catalog.Int16), catalog.Vector{Rows: 2, Data: packed([]int16{-99, 0}), Valid: valid}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Int16, Fill: -99.0}, nil, nil, "choose another"},
		{"a null tensor", tensor(catalog.Uint8, 2), catalog.Vector{Rows: 2, Data: []byte{1, 2, 0, 0}, Valid: valid}, nil, Mapping{Kind: catalog.Tensor, Shape: []int{2}, DType: catalog.Uint8}, nil, nil, "no tensor is; fill: VALUE"},
		{"a null tensor, filled", tensor(catalog.Uint8, 2), catalog.Vector{Rows: 2, Data: []byte{1, 2, 0, 0}, Valid: valid}, nil, Mapping{Kind: catalog.Tensor, Shape: []int{2}, DType: catalog.Uint8, Fill: 9.0}, []byte{1, 2, 9, 9}, nil, ""},
		{"null text, filled", scalar(catalog.String), catalog.Vector{Rows: 2, Data: []byte("a"), Offsets: []int64{0, 1, 1}, Valid: valid}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.String, Fill: "none"}, []byte("anone"), []int64{0, 1, 5}, ""},
		{"null elements", list(catalog.Int32), catalog.Vector{Rows: 2, Data: packed([]int32{1, 0, 3}), Offsets: []int64{0, 1, 3}}, []int{1}, Mapping{Kind: catalog.List, DType: catalog.Int32, Fill: -5.0}, packed([]int32{1, -5, 3}), []int64{0, 1, 3}, ""},
		{"null elements whose fill is of the wider type", list(catalog.Int32), catalog.Vector{Rows: 2, Data: packed([]int32{1, 0, 3}), Offsets: []int64{0, 1, 3}}, []int{1}, Mapping{Kind: catalog.List, DType: catalog.Int64, Fill: -math.Ldexp(1, 63)}, packed([]int64{1, math.MinInt64, 3}), []int64{0, 1, 3}, ""},
		{"null bools", tensor(catalog.Bool, 2), catalog.Vector{Rows: 2, Data: []byte{1, 0, 0, 1}}, []int{1, 3}, Mapping{Kind: catalog.Tensor, Shape: []int{2}, DType: catalog.Uint8, Fill: 255.0}, []byte{1, 255, 0, 255}, nil, ""},
		{"a fill that is no value of the type", list(catalog.Uint8), catalog.Vector{Rows: 1, Data: []byte{1}, Offsets: []int64{0, 1}}, nil, Mapping{Kind: catalog.List, DType: catalog.Uint8, Fill: 256.0}, nil, nil, "fill: 256 is no uint8"},
		{"reshaped", tensor(catalog.Uint8, 4), catalog.Vector{Rows: 1, Data: []byte{1, 2, 3, 4}}, nil, Mapping{Kind: catalog.Tensor, Shape: []int{2, 2}, DType: catalog.Uint8}, []byte{1, 2, 3, 4}, nil, ""},
		{"not transposed unasked", tensor(catalog.Uint8, 2, 3), catalog.Vector{Rows: 1, Data: make([]byte, 6)}, nil, Mapping{Kind: catalog.Tensor, Shape: []int{3, 2}, DType: catalog.Uint8}, nil, nil, "shape [2 3] a row, not [3 2]"},
		{"padded", tensor(catalog.Int8, 2, 1), catalog.Vector{Rows: 1, Data: []byte{1, 2}}, nil, Mapping{Kind: catalog.Tensor, Shape: []int{2, 2}, DType: catalog.Int16, Pad: &pad}, packed([]int16{1, -1, 2, -1}), nil, ""},
		{"a list of one length", list(catalog.Uint8), catalog.Vector{Rows: 2, Data: []byte{1, 2, 3, 4}, Offsets: []int64{0, 2, 4}}, nil, Mapping{Kind: catalog.Tensor, Shape: []int{2}, DType: catalog.Uint8}, []byte{1, 2, 3, 4}, nil, ""},
		{"a list of another length", list(catalog.Uint8), catalog.Vector{Rows: 2, Data: []byte{1, 2, 3}, Offsets: []int64{0, 2, 3}}, nil, Mapping{Kind: catalog.Tensor, Shape: []int{2}, DType: catalog.Uint8}, nil, nil, "1 elements, not 2: rows 1"},
		{"a list padded to a tensor", list(catalog.Uint8), catalog.Vector{Rows: 2, Data: []byte{1, 2, 3}, Offsets: []int64{0, 2, 3}}, nil, Mapping{Kind: catalog.Tensor, Shape: []int{2}, DType: catalog.Int16, Pad: &pad}, packed([]int16{1, 2, 3, -1}), nil, ""},
		{"a tensor as a list", tensor(catalog.Uint8, 2), catalog.Vector{Rows: 2, Data: []byte{1, 2, 3, 4}}, nil, Mapping{Kind: catalog.List, DType: catalog.Uint8}, []byte{1, 2, 3, 4}, []int64{0, 2, 4}, ""},
		{"parted text", scalar(catalog.String), catalog.Vector{Rows: 1, Data: []byte("g, r"), Offsets: []int64{0, 4}}, nil, Mapping{Kind: catalog.List, DType: catalog.String, Split: ","}, []byte("gr"), []int64{0, 2}, ""},
		{"padded text", table.Field{Padded: true, Column: catalog.Column{Kind: catalog.Scalar, DType: catalog.String}}, catalog.Vector{Rows: 1, Data: []byte("ab \x00"), Offsets: []int64{0, 4}}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.String, Text: TextPadded}, []byte("ab"), []int64{0, 2}, ""},
		{"not UTF-8", scalar(catalog.String), catalog.Vector{Rows: 1, Data: []byte{0xff}, Offsets: []int64{0, 1}}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.String}, nil, nil, "text: latin1"},
		{"latin1", scalar(catalog.String), catalog.Vector{Rows: 1, Data: []byte{0xe9}, Offsets: []int64{0, 1}}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.String, Text: TextLatin1}, []byte("é"), []int64{0, 2}, ""},
		{"numbers wanted, text there", scalar(catalog.String), catalog.Vector{Rows: 1, Data: []byte("1"), Offsets: []int64{0, 1}}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Int8}, nil, nil, "it holds string, not int8"},
		{"one value wanted, a list there", list(catalog.Int8), catalog.Vector{Rows: 1, Data: []byte{1}, Offsets: []int64{0, 1}}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Int8}, nil, nil, "not one value"},
		{"what the table cannot give", table.Field{Err: errors.New("it is a map of maps"), Column: catalog.Column{}}, catalog.Vector{Rows: 1}, nil, Mapping{Kind: catalog.Scalar, DType: catalog.Int8}, nil, nil, "map of maps"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := readFake(c.f, &c.v, c.nulls, c.m)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error is %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Data, c.want) || c.off != nil && !slices.Equal(got.Offsets, c.off) {
				t.Errorf("got %v %v, want %v %v", got.Data, got.Offsets, c.want, c.off)
			}
			if c.m.Nullable && !got.Null(1) {
				t.Error("the null is gone")
			}
		})
	}
}

func TestWhatIsOfTheRightTypeIsNotCopied(t *testing.T) {
	v := &catalog.Vector{Rows: 2, Data: packed([]float32{1, 2, 3, 4})}
	got, err := readFake(table.Field{Column: catalog.Column{Kind: catalog.Tensor, DType: catalog.Float32, Shape: []int{2}}}, v, nil, Mapping{Kind: catalog.Tensor, Shape: []int{2}, DType: catalog.Float32})
	if err != nil || &got.Data[0] != &v.Data[0] {
		t.Errorf("%v: a copy was made", err)
	}
}

func TestRightAscensionsAreWrapped(t *testing.T) {
	v := &catalog.Vector{Data: packed([]float64{-180, -1e-20, 0, 359, 360, 361, -361, math.NaN()})}
	scale(v, &Mapping{Wrap: true})
	want := []float64{180, 0, 0, 359, 0, 361, -361}
	for i, w := range want {
		if got := math.Float64frombits(le.Uint64(v.Data[8*i:])); got != w {
			t.Errorf("%d: %v, want %v", i, got, w)
		}
	}
}

// inspectText inspects files given as text, and reads them.
func inspectText(t *testing.T, files map[string]string, recipe string) (*Recipe, []Warning, []Input, error) {
	t.Helper()
	dir := t.TempDir()
	for name, s := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, w, err := Inspect(context.Background(), []string{dir}, InspectOptions{Recipe: hints(t, recipe)})
	in, discover := Discover([]string{dir})
	if discover != nil && err == nil {
		t.Fatal(discover)
	}
	return r, w, in, err
}

func TestTablesOfTextBecomeColumns(t *testing.T) {
	r, _, in, err := inspectText(t, map[string]string{
		"a.csv": "object_id,ra,dec,mag,name\n1,10,20,,x\n2,11.5,21,3,y\n",
		"b.csv": "object_id,ra,dec,mag,name,extra\n3,12,22,4.5,z,1\n",
	}, "rename: {mag: m}")
	if err != nil {
		t.Fatal(err)
	}
	b, _ := readAll(t, in, r, 0)
	var names []string
	for _, c := range b.Columns {
		names = append(names, fmt.Sprintf("%s %s %v", c.Name, c.DType, c.Nullable))
	}
	if want := []string{"object_id int64 false", "ra float64 false", "dec float64 false", "m float64 true", "name string false", "extra int64 true"}; !slices.Equal(names, want) {
		t.Errorf("columns are %v, want %v", names, want)
	}
	_, m := vectorOf(t, b, "m")
	if !m.Null(0) || m.Null(1) || m.Null(2) || math.Float64frombits(le.Uint64(m.Data[16:])) != 4.5 {
		t.Errorf("m is %v %v", m.Data, m.Valid)
	}
}

func TestInspectOfTablesRefusesByName(t *testing.T) {
	const head = "object_id,ra,dec\n1,1,1\n"
	for _, c := range []struct {
		name   string
		files  map[string]string
		recipe string
		is     error
		text   []string
	}{
		{"formats that differ", map[string]string{"a.csv": head, "b.jsonl": `{"object_id": 2, "ra": 1, "dec": 1}`}, "", ErrMapping, []string{"a.csv is CSV", "b.jsonl is JSONL"}},
		{"HDF5 beside text", map[string]string{"a.csv": head, "b.h5": "\x89HDF\r\n\x1a\n"}, "", ErrInput, []string{"b.h5"}},
		{"a wrong ending", map[string]string{"a.csv": "PAR1xxxxxxxxxxxxPAR1"}, "", ErrInput, []string{"its bytes are Parquet and its name says CSV"}},
		{"an encrypted file", map[string]string{"a.parquet": "PARExxxxxxxxxxxxPARE"}, "", ErrInput, []string{"encrypted"}},
		{"names that collide", map[string]string{"a.jsonl": `{"object_id": 2, "ra": 1, "dec": 1, "a": {"b": 1}, "a_b": 2}`}, "", ErrMapping, []string{`"a.b" and "a_b"`, "drop:"}},
		{"a part of another format", map[string]string{"a.csv": head}, "hdu: 1", ErrMapping, []string{"hdu: 1", "FITS"}},
		{"a family of another format", map[string]string{"a.csv": head}, "family: group", ErrMapping, []string{"CSV", "family group"}},
		{"a null position", map[string]string{"a.csv": "object_id,ra,dec\n1,1,1\n2,,1\n"}, "", nil, nil},
		{"a padding of nothing", map[string]string{"a.csv": head}, "pad: {ra: 0}", ErrMapping, []string{`pad: "ra" is no source of tensors`}},
		{"a hint that names nothing", map[string]string{"a.csv": head}, "id: nothing", ErrRecipe, []string{`"nothing"`}},
		{"right ascensions from -180", map[string]string{"a.csv": "object_id,ra,dec\n1,-10,1\n"}, "", ErrPosition, []string{"wrap: true"}},
		{"another fault of positions", map[string]string{"a.csv": "object_id,ra,dec\n1,-10,100\n"}, "", ErrPosition, []string{"dec"}},
		{"text whose rows differ", map[string]string{"a.csv": head + "2,2\n"}, "", ErrInput, []string{"a.csv", "line 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, _, err := inspectText(t, c.files, c.recipe)
			if !errors.Is(err, c.is) {
				t.Fatalf("error is %v, want %v", err, c.is)
			}
			for _, want := range c.text {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not say %q: %v", want, err)
				}
			}
			if c.name == "another fault of positions" && strings.Contains(err.Error(), "wrap: true") {
				t.Errorf("wrap: true is no remedy: %v", err)
			}
		})
	}
}

func TestInspectFindsHoursAndRadians(t *testing.T) {
	rows := func(f func(i int) (ra, dec float64)) string {
		s := "object_id,ra,dec\n"
		for i := range 200 {
			ra, dec := f(i)
			s += fmt.Sprintf("%d,%v,%v\n", i, ra, dec)
		}
		return s
	}
	for _, c := range []struct {
		name, text, want string
	}{
		{"hours over a sky", rows(func(i int) (float64, float64) { return float64(i) * 0.119, float64(i%100) - 50 }), "scale: 15"},
		{"hours along a strip", rows(func(i int) (float64, float64) { return float64(i) * 0.119, float64(i%10) / 10 }), "scale: 15"},
		{"radians", rows(func(i int) (float64, float64) { return float64(i) * 0.031, float64(i%100)/40 - 1.2 }), "scale: 57.29577951308232"},
		{"degrees", rows(func(i int) (float64, float64) { return float64(i) * 1.79, float64(i%100) - 50 }), ""},
		{"degrees of a small field", rows(func(i int) (float64, float64) { return 10 + float64(i)*0.001, 5 + float64(i%10)/100 }), ""},
	} {
		_, warnings, _, err := inspectText(t, map[string]string{"a.csv": c.text}, "")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		i := slices.IndexFunc(warnings, func(w Warning) bool { return w.Code == WarnUnits })
		if (i >= 0) != (c.want != "") || i >= 0 && !strings.Contains(warnings[i].Text, c.want) {
			t.Errorf("%s: warnings are %v, want %q", c.name, warnings, c.want)
		}
	}
}

func TestInspectWarnsOfSentinelsAndHoursByName(t *testing.T) {
	s := "object_id,ra_hours,dec,mag_g,size\n"
	for i := range 20 {
		s += fmt.Sprintf("%d,%d.5,%d,%d,%d\n", i, i, i, 15+84*(i%2), 15+84*(i%2))
	}
	_, warnings, _, err := inspectText(t, map[string]string{"a.csv": s}, "ra: ra_hours")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		if w.Code == WarnSentinel || w.Code == WarnUnits && strings.Contains(w.Text, "name") {
			got = append(got, w.Column)
		}
	}
	if !slices.Equal(got, []string{"mag_g", "ra_hours"}) {
		t.Errorf("warnings are %v", warnings)
	}
}

func TestStructsListsAndNullsOfParquet(t *testing.T) {
	sources := []string{"testdata/tables/alerts.parquet"}
	r, warnings, err := Inspect(context.Background(), sources, InspectOptions{Recipe: hints(t, "id: alertId\nra: candidate.ra\nrename: {candidate.mag: mag}\ndrop: [candidate.rb]")})
	if err != nil {
		t.Fatal(err)
	}
	if r.RA != "candidate_ra" || r.find("candidate_rb_drb") != nil || r.find("mag") == nil {
		t.Errorf("recipe is %+v", r)
	}
	for _, m := range r.Map {
		if m.Note == "" {
			t.Errorf("nothing says why of %q", m.Name)
		}
	}
	var codes []Code
	for _, w := range warnings {
		codes = append(codes, w.Code)
	}
	if !reflect.DeepEqual(codes, []Code{WarnNullable, WarnFill, WarnFill}) {
		t.Errorf("warnings are %v", warnings)
	}
	text, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if r, err = LoadRecipe(text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	in, err := Discover(sources)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []int64{0, 7} {
		b, rows := readAll(t, in, r, step)
		_, flags := vectorOf(t, b, "flags")
		_, history := vectorOf(t, b, "history")
		_, mag := vectorOf(t, b, "mag")
		_, stamp := vectorOf(t, b, "stamp")
		if rows != 40 || !bytes.Equal(flags.Data[6:12], []byte{1, 0, 1, 1, 255, 0}) {
			t.Errorf("flags are %v", flags.Data[:15])
		}
		if want := []int64{0, 0, 1, 3, 6, 6, 6, 8}; !slices.Equal(history.Members[1].Offsets[:8], want) {
			t.Errorf("history has %v, want %v", history.Members[1].Offsets[:8], want)
		}
		// Rows 1, 2 and 3 have the events 0, 0 1 and 0 1 2, and the last is null.
		if want := packed([]int64{0, 0, 1, 0, 1, math.MinInt64}); !bytes.Equal(history.Members[1].Data[:48], want) {
			t.Errorf("fid is %v", history.Members[1].Data[:48])
		}
		if !mag.Null(0) || !mag.Null(7) || mag.Null(1) {
			t.Errorf("mag is null in %v", mag.Valid)
		}
		if want := packed([]float64{1, 2, 3, 2, 3, 4}); !bytes.Equal(stamp.Data[48:96], want) {
			t.Errorf("stamp is %v", stamp.Data[48:96])
		}
	}
}

func TestFITSFilesAreTablesOrImages(t *testing.T) {
	inspect := func(file, recipe string) (*Recipe, error) {
		r, _, err := Inspect(context.Background(), []string{filepath.Join("testdata/tables", file)}, InspectOptions{Recipe: hints(t, recipe)})
		return r, err
	}
	if _, err := inspect("two.fits", ""); !errors.Is(err, ErrMapping) || !strings.Contains(err.Error(), "1 (TARGETS), 2 (EXTRA)") || !strings.Contains(err.Error(), "hdu: 1") {
		t.Errorf("two tables: %v", err)
	}
	if _, err := inspect("two.fits", "hdu: MAIN"); !errors.Is(err, ErrMapping) || !strings.Contains(err.Error(), "2 (EXTRA)") {
		t.Errorf("a table that is not there: %v", err)
	}
	for _, hdu := range []string{"EXTRA", "extra", "2"} {
		if r, err := inspect("two.fits", "hdu: "+hdu+"\nno_sky: true"); err != nil || r.Family != Table || r.HDU != hdu {
			t.Errorf("hdu: %s: %v", hdu, err)
		}
	}
	r, err := inspect("targets.fits", "")
	if !errors.Is(err, ErrPosition) || !strings.Contains(err.Error(), "wrap: true") {
		t.Fatalf("right ascensions from -180: %v", err)
	}
	r.find("RA").Wrap = true
	in, err := Discover([]string{"testdata/tables/targets.fits"})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := readAll(t, in, r, 0)
	_, kind := vectorOf(t, b, "TYPE")
	if b.Rows != 40 || string(kind.Str(0)) != "GALAXY" || string(kind.Str(1)) != "STAR" {
		t.Errorf("TYPE is %q %q of %d rows", kind.Str(0), kind.Str(1), b.Rows)
	}
	if r, err = inspect("images", ""); err != nil || r.Family != Image || r.ID != "file" {
		t.Fatalf("%v: %+v", err, r)
	}
	if in, err = Discover([]string{"testdata/tables/images"}); err != nil {
		t.Fatal(err)
	}
	b, rows := readAll(t, in, r, 0)
	_, id := vectorOf(t, b, "file")
	col, exposure := vectorOf(t, b, "header_EXPTIME")
	_, ra := vectorOf(t, b, "ra")
	if rows != 3 || string(id.Str(2)) != "galaxy_2" || !slices.Equal(floatsOf(col, exposure), []float64{30, 31, 32}) {
		t.Errorf("%d rows, %q", rows, id.Data)
	}
	if got := math.Float64frombits(le.Uint64(ra.Data[8:])); math.Abs(got-30) > 1e-9 {
		t.Errorf("ra of the second image is %v", got)
	}
	if mask := r.find("MASK"); mask.DType != catalog.Int16 || !slices.Equal(mask.Shape, []int{8, 8}) {
		t.Errorf("MASK is %+v", mask)
	}
}
