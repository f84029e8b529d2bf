package survey

import (
	"errors"
	"fmt"
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
	s := fmt.Sprintf("%v %v %v %v %v %v %q\n", r.Family, r.ID, r.RA, r.Dec, r.NoSky, r.Rename, r.Drop)
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
