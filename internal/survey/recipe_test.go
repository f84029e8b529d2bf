package survey

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

const goodRecipe = `# why
family: object
id: object_id
ra: ra
dec: dec
drop: [junk, "a b"]
columns:
  - {name: object_id, source: oid, kind: scalar, dtype: string, text: id}
  - {name: ra, source: ra, kind: scalar, dtype: float64, unit: deg}
  - {name: dec, source: dec, kind: scalar, dtype: float64, unit: deg}
  - {name: "no", source: "yes", kind: scalar, dtype: int8, nullable: true}
  - {name: image, source: img, member: a/b, kind: tensor, dtype: float32, shape: [2, 3], pad: .nan, round: true}
  - {name: bands, source: bands, kind: list, dtype: string, split: ","}
  - name: lightcurve
    kind: struct
    trim: time
    members:
      - {name: band, source: bands, dtype: string}
      - {name: time, source: mjd, dtype: float64, unit: d}
  - {name: split, from: split, kind: scalar, dtype: string}
`

const tableRecipe = `family: table
hdu: TARGETS
id: id
ra: ra
dec: dec
drop: [junk]
columns:
  - {name: id, source: id, kind: scalar, dtype: int64}
  - {name: ra, source: c.ra, kind: scalar, dtype: float64, unit: deg, scale: 15, wrap: true}
  - {name: dec, source: c.dec, kind: scalar, dtype: float64, scale: 57.29577951308232}
  - {name: flags, source: flags, kind: tensor, dtype: uint8, shape: [3], fill: 255}
  - {name: n, source: n, kind: list, dtype: int64, nullable: true, fill: -9223372036854775808}
  - {name: u, source: u, kind: list, dtype: uint64, fill: 9223372036854775808}
  - {name: x, source: x, kind: list, dtype: float32, fill: nan}
  - {name: t, source: t, kind: list, dtype: string, fill: "1"}
  - name: lc
    kind: struct
    members:
      - {name: fid, source: lc, member: fid, dtype: int32, fill: -99}
      - {name: mag, source: lc, member: mag, dtype: float64, scale: 2.5}
`

func TestRecipeOfTablesComesBackFromItsText(t *testing.T) {
	r, err := LoadRecipe([]byte(tableRecipe))
	if err != nil {
		t.Fatal(err)
	}
	if m := r.find("n"); m.Fill != -math.Ldexp(1, 63) {
		t.Errorf("the fill of n is %v", m.Fill)
	}
	if m := r.find("t"); m.Fill != "1" {
		t.Errorf("the fill of t is %v", m.Fill)
	}
	text, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := LoadRecipe(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if a, b := dump(r), dump(back); a != b {
		t.Errorf("%s\n%s\n%s", a, b, text)
	}
	h, err := LoadRecipe([]byte("hdu: 1\npad: {a.b: .nan, c: -1}\n"))
	if err != nil || h.HDU != "1" || h.Pad["c"] != -1 || !math.IsNaN(h.Pad["a.b"]) {
		t.Fatalf("%v: %+v", err, h)
	}
	if text, err = h.Marshal(); err != nil {
		t.Fatal(err)
	}
	if back, err = LoadRecipe(text); err != nil || dump(h) != dump(back) {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestRecipeOfTablesIsRefusedWithTheLine(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"hdu: TARGETS", "hdu: [1]", "line 2: one value"},
		{"family: table", "family: group", "line 11: "},
		{"family: table", "family: columnar", "fill: needs family: table"},
		{"drop: [junk]", "drop: [c.ra]", `line 6: column "ra" is read from "c.ra"`},
		{"drop: [junk]", "drop: [c]", `line 6: column "ra" is read from "c.ra"`},
		{"drop: [junk]", "drop: [lc]", `line 6: column "lc" is read from "lc/fid"`},
		{"drop: [junk]", "drop: [lc.mag]", `line 6: column "lc" is read from "lc/mag"`},
		{"drop: [junk]", "pad: {c: 1}", "line 6: pad: is a hint"},
		{"drop: [junk]", "pad: {c: one}", `line 6: "one" is no float64`},
		{"drop: [junk]", "pad: 3", "line 6: keys and values"},
		{"scale: 15", "scale: fifteen", `line 9: "fifteen" is no float64`},
		{"scale: 15", "scale: .nan", "line 9: "},
		{"scale: 15", "scale: .inf", "line 9: "},
		{"scale: 15", "scale: 0", "line 9: "},
		{"float64, unit: deg, scale: 15", "float32, scale: 15", "line 9: "},
		{"wrap: true", "wrap: perhaps", `line 9: "perhaps" is no bool`},
		{"float64, unit: deg, scale: 15, wrap: true", "float32, wrap: true", "line 9: "},
		{"scale: 57.29577951308232", "wrap: true", `line 10: survey: recipe not usable: column "dec": wrap: belongs to the right ascension`},
		{"fill: 255", "fill: 256", "line 11: "},
		{"fill: 255", "fill: 1.5", "line 11: "},
		{"fill: 255", "fill: none", "line 11: "},
		{"fill: 255", "fill: [1]", "line 11: one value"},
		{"fill: 255", "fill: null", "line 11: one value"},
		{"fill: -9223372036854775808", "fill: -9223372036854775808, scale: 2", "line 12: "},
		{"fill: 9223372036854775808", "fill: -1", "line 13: "},
		{"fill: nan", "fill: text", "line 14: "},
		{"fill: \"1\"", "fill: 1", "line 15: "},
		{"kind: struct", "kind: struct\n    fill: 3", "line 16: "},
		{"kind: struct", "kind: struct\n    scale: 3", "line 16: "},
		{"fill: -99", "fill: 1e10", "line 16: "},
		{"scale: 2.5", "wrap: true", `line 20: key "wrap" is unknown`},
		{"member: mag, dtype: float64", "member: mag, dtype: int8", "line 16: "},
	} {
		if !strings.Contains(tableRecipe, c.old) {
			t.Fatalf("no %q", c.old)
		}
		text := strings.Replace(tableRecipe, c.old, c.new, 1)
		if _, err := LoadRecipe([]byte(text)); !errors.Is(err, ErrRecipe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error is %v, want %q", c.new, err, c.want)
		}
	}
}

func TestRecipeComesBackFromItsText(t *testing.T) {
	r, err := LoadRecipe([]byte(goodRecipe))
	if err != nil {
		t.Fatal(err)
	}
	r.Notes, r.Map[0].Note = []string{"a\nb: \"c\""}, "line\ntwo # \x01"
	text, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := LoadRecipe(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	r.Notes, r.Map[0].Note = nil, ""
	if a, b := dump(r), dump(back); a != b {
		t.Errorf("%s\n%s", a, b)
	}
	cols := back.Columns()
	var names []string
	for _, c := range cols {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "object_id ra dec no split bands lightcurve image" {
		t.Errorf("file order is %s", got)
	}
}

func dump(r *Recipe) string {
	s := fmt.Sprintf("%v %v %v %v %v %v %q %q %v\n", r.Family, r.ID, r.RA, r.Dec, r.NoSky, r.Rename, r.Drop, r.HDU, r.Pad)
	for _, m := range r.Map {
		if m.Pad != nil {
			s += fmt.Sprintf("pad %v ", *m.Pad)
			m.Pad = nil
		}
		s += fmt.Sprintf("%+v\n", m)
	}
	return s
}

func TestRecipeIsRefusedWithTheLine(t *testing.T) {
	edit := func(old, new string) string {
		if !strings.Contains(goodRecipe, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(goodRecipe, old, new, 1)
	}
	for _, c := range []struct{ text, want string }{
		{"", "empty"},
		{"# nothing\n", "empty"},
		{"[a]", "line 1: keys and values"},
		{"a: b: c", "mapping values"},
		{"family: columnar\n---\nfamily: object\n", "more than one document"},
		{"family: columnar\nfoo: 1\n", `line 2: key "foo" is unknown`},
		{"family: columnar\nfamily: group\n", `"family" stands twice`},
		{"family: cube\n", `line 1: family: "cube"`},
		{"no_sky: perhaps\n", `line 1: "perhaps" is no bool`},
		{"id: [a]\n", "line 1: one value"},
		{"id: x\nid2: &a x\n", "line 2"},
		{"id: &a x\nra: *a\n", "line 2: one value"},
		{"no_sky: true\nra: ra\n", "line 1: no_sky: true contradicts"},
		{"columns: []\n", "line 1: columns: is empty"},
		{"columns: {a: b}\n", "line 1: a list of columns"},
		{"columns:\n- {kind: scalar}\n", "line 2: a column needs name:"},
		{"columns:\n- {name: x}\n", "line 2: a column needs kind:"},
		{"columns:\n- {name: x, kind: scalar}\n", `line 2: column "x" needs source:`},
		{edit("kind: scalar, dtype: string, text: id", "kind: scaler, dtype: string"), "line 8: "},
		{edit("text: id", "text: rot13"), `line 8: survey: recipe not usable: column "object_id": text: "rot13"`},
		{edit("dtype: int8", "dtype: int9"), "line 11: "},
		{edit("nullable: true", "nullable: true, text: id"), "line 11: "},
		{edit("nullable: true", "nullable: true, members: []"), ""},
		{edit("nullable: true", "nullable: true, members: [{name: a, source: b, dtype: int8}]"), "line 11: "},
		{edit("nullable: true", "nullable: true, trim: time"), "line 11: "},
		{edit("nullable: true", "nullable: true, pad: 3"), "line 11: "},
		{edit("nullable: true", "nullable: true, shape: [3]"), "line 11: "},
		{edit("nullable: true", "nullable: true, split: x"), "line 11: "},
		{edit("nullable: true", "nullable: true, from: group"), "line 11: "},
		{edit("nullable: true", "nullable: true, from: moon"), "line 11: "},
		{edit("shape: [2, 3]", "shape: [2, -3]"), "line 12: "},
		{edit("shape: [2, 3]", "shape: [2, three]"), `line 12: "three"`},
		{edit("shape: [2, 3]", "shape: [20000, 30000]"), "line 12: "},
		{edit("pad: .nan", "nullable: true"), "line 12: "},
		{edit("dtype: float32, shape", "dtype: int16, shape"), "line 12: "},
		{edit("trim: time", "trim: band"), "line 14: "},
		{edit("trim: time", "dtype: float32"), "line 14: "},
		{edit("trim: time", "source: x"), "line 14: "},
		{edit("trim: time", "nullable: true"), "line 14: "},
		{edit("family: object", "family: columnar"), "line 14: "},
		{edit("unit: d}", "unit: d, shape: [3]}"), `line 19: key "shape" is unknown`},
		{edit("unit: d}", "unit: d, kind: scalar}"), "line 14: "},
		{edit("from: split,", "from: split, source: x,"), "line 20: "},
		{edit("from: split, kind: scalar, dtype: string", "from: split, kind: scalar, dtype: int8"), "line 20: "},
		{edit("[junk,", "[img/a/b,"), "line 6: "},
		{edit("id: object_id", "id: nothing"), `no column "nothing"`},
		{edit("ra: ra\n", "ra: image\n"), "has to be a number"},
		{edit("ra: ra\n", "ra: dec\n"), "both"},
		{edit("id: object_id", "id: \"no\""), "in every row"},
		{edit("name: split", "name: ra"), "twice"},
		{edit("drop:", "rename: {zzz: y}\ndrop:"), "line 6: "},
		{edit("drop:", "rename: {dec: ra}\ndrop:"), "twice"},
		{edit("name: split", "name: Npix"), "rename: {Npix"},
		{strings.Repeat("# x\n", MaxRecipe/4+1), "at most"},
	} {
		_, err := LoadRecipe([]byte(c.text))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s\n%v", c.text, err)
			}
			continue
		}
		if !errors.Is(err, ErrRecipe) || !strings.Contains(err.Error(), c.want) {
			if len(c.text) > 2000 {
				c.text = "(long)"
			}
			t.Errorf("error is %v, want one that says %q of\n%s", err, c.want, c.text)
		}
	}
}

func TestRenameOfACompleteRecipeIsApplied(t *testing.T) {
	r, err := LoadRecipe([]byte(strings.Replace(goodRecipe, "drop:", "rename: {object_id: name, dec: delta}\ndrop:", 1)))
	if err != nil || r.ID != "name" || r.Dec != "delta" || r.find("name").Source != "oid" || r.find("delta") == nil {
		t.Errorf("%v: %+v", err, r)
	}
}

func FuzzLoadRecipe(f *testing.F) {
	f.Add([]byte(goodRecipe))
	f.Add([]byte("family: columnar\nid: x\nrename: {a: b}\ndrop: [c]\nno_sky: true\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte(tableRecipe))
	f.Add([]byte("family: image\nhdu: 1\npad: {a.b: .nan, c: -1}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := LoadRecipe(text)
		if err != nil {
			return
		}
		again, err := r.Marshal()
		if err != nil {
			if len(r.Map) == 0 {
				return // an empty set of hints has no text
			}
			t.Fatal(err)
		}
		back, err := LoadRecipe(again)
		if err != nil {
			t.Fatalf("%v\n%q", err, again)
		}
		if a, b := dump(r), dump(back); a != b {
			t.Fatalf("%s\n%s\n%q", a, b, again)
		}
	})
}
