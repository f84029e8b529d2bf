package text_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
	"astropile/internal/survey/text"
)

// write makes a file for a test.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	b := []byte(content)
	if strings.HasSuffix(name, ".gz") {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write(b)
		w.Close()
		b = z.Bytes()
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, path string, opt text.Options) table.Table {
	t.Helper()
	tab, err := text.Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tab.Close() })
	return tab
}

// all reads all fields without an error, row by row in slabs.
func all(t testing.TB, tab table.Table, slab int64) []*catalog.Vector {
	t.Helper()
	out, err := tryAll(t.Context(), tab, slab)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func tryAll(ctx context.Context, tab table.Table, slab int64) ([]*catalog.Vector, error) {
	fields := tab.Fields()
	out := make([]*catalog.Vector, len(fields))
	var want []table.Request
	for i := range fields {
		if fields[i].Err == nil {
			want = append(want, table.Request{Field: i})
			out[i] = catalog.NewVector(&fields[i].Column)
		}
	}
	for lo := int64(0); lo < tab.Rows(); lo += slab {
		hi := min(lo+slab, tab.Rows())
		got, err := tab.Read(ctx, lo, hi, want)
		if err != nil {
			return nil, err
		}
		for k, q := range want {
			c := &fields[q.Field].Column
			if err := got[k].Check(c); err != nil {
				return nil, err
			}
			if int64(got[k].Rows) != hi-lo {
				return nil, fmt.Errorf("%d rows, want %d", got[k].Rows, hi-lo)
			}
			for r := range got[k].Rows {
				if got[k].Null(r) && !c.Nullable {
					return nil, fmt.Errorf("column %s: row %d is null and the field is not", c.Name, lo+int64(r))
				}
				out[q.Field].AppendRow(c, got[k], r)
			}
		}
	}
	return out, nil
}

// show writes a value for a comparison: floats by their bits where they are not short, nulls as null.
func show(c *catalog.Column, v *catalog.Vector, row int) string {
	if v.Null(row) {
		return "null"
	}
	switch c.Kind {
	case catalog.Struct:
		parts := make([]string, len(v.Members))
		for k, m := range v.Members {
			parts[k] = c.Members[k].Name + "=" + show(&c.Members[k], m, row)
		}
		return "{" + strings.Join(parts, " ") + "}"
	case catalog.List:
		var parts []string
		for e := v.Offsets[row]; e < v.Offsets[row+1]; e++ {
			if c.DType == catalog.String {
				parts = append(parts, fmt.Sprintf("%q", v.Data[v.StrOffsets[e]:v.StrOffsets[e+1]]))
			} else {
				n := int64(c.DType.Size())
				parts = append(parts, number(c.DType, v.Data[e*n:(e+1)*n]))
			}
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	if c.DType == catalog.String {
		return fmt.Sprintf("%q", v.Str(row))
	}
	n := c.DType.Size()
	var parts []string
	for e := range c.Elems() {
		at := (row*c.Elems() + e) * n
		parts = append(parts, number(c.DType, v.Data[at:at+n]))
	}
	if c.Kind == catalog.Tensor {
		return fmt.Sprintf("%v%v", c.Shape, parts)
	}
	return parts[0]
}

func number(d catalog.DType, b []byte) string {
	switch d {
	case catalog.Bool:
		return fmt.Sprint(b[0] == 1)
	case catalog.Int8:
		return fmt.Sprint(int8(b[0]))
	case catalog.Uint8:
		return fmt.Sprint(b[0])
	case catalog.Int16:
		return fmt.Sprint(int16(binary.LittleEndian.Uint16(b)))
	case catalog.Uint16:
		return fmt.Sprint(binary.LittleEndian.Uint16(b))
	case catalog.Int32:
		return fmt.Sprint(int32(binary.LittleEndian.Uint32(b)))
	case catalog.Uint32:
		return fmt.Sprint(binary.LittleEndian.Uint32(b))
	case catalog.Int64:
		return fmt.Sprint(int64(binary.LittleEndian.Uint64(b)))
	case catalog.Uint64:
		return fmt.Sprint(binary.LittleEndian.Uint64(b))
	case catalog.Float32:
		return fmt.Sprint(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case catalog.Float64:
		return fmt.Sprint(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return fmt.Sprintf("%x", b)
}

// describe says what a table is and holds: a line a field.
func describe(t testing.TB, tab table.Table, slab int64) []string {
	t.Helper()
	var out []string
	values := all(t, tab, slab)
	for i, f := range tab.Fields() {
		c := f.Column
		if f.Err != nil {
			out = append(out, fmt.Sprintf("%s refused", f.Source))
			continue
		}
		null := ""
		if c.Nullable {
			null = "?"
		}
		d := string(c.DType)
		if c.Kind != catalog.Scalar {
			d = string(c.Kind) + " " + d
		}
		line := fmt.Sprintf("%s %s%s:", f.Source, d, null)
		for row := range values[i].Rows {
			line += " " + show(&c, values[i], row)
		}
		out = append(out, line)
	}
	return out
}

func TestTypesLoseNothing(t *testing.T) {
	for _, c := range []struct{ name, column, want string }{
		{"bool", "true\nFalse\nTRUE", "bool: true false true"},
		{"int64", "1\n-5\n9223372036854775807\n-9223372036854775808", "int64: 1 -5 9223372036854775807 -9223372036854775808"},
		{"uint64", "1\n18446744073709551615", "uint64: 1 18446744073709551615"},
		{"beyond 64 bits", "1\n18446744073709551616", `string: "1" "18446744073709551616"`},
		{"below 0 and above 2^63", "-1\n9223372036854775808", `string: "-1" "9223372036854775808"`},
		{"least of 64 bits", "-9223372036854775809\n1", `string: "-9223372036854775809" "1"`},
		{"leading zeros", "007\n12", `string: "007" "12"`},
		{"plus signs", "+7\n12", `string: "+7" "12"`},
		{"minus zero", "-0\n12", `string: "-0" "12"`},
		{"floats", "1.5\n1e5\n-2\n.5\n5.\n+3", "float64: 1.5 100000 -2 0.5 5 3"},
		{"hexadecimal names", "1.5\n0x10", `string: "1.5" "0x10"`},
		{"underscores", "1.5\n1_0", `string: "1.5" "1_0"`},
		{"not numbers", "nan\ninf\n-Infinity\nNaN\n-inf", "float64: NaN +Inf -Inf NaN -Inf"},
		{"beyond float64", "1.5\n1e999", `string: "1.5" "1e999"`},
		{"17 digits and floats", "1.5\n90071992547409931", `string: "1.5" "90071992547409931"`},
		{"exact integers and floats", "1.5\n9007199254740992", "float64: 1.5 9.007199254740992e+15"},
		{"null", "1\n\n", "int64: 1"},
		{"quoted empty among numbers", "1\n\"\"\n2", "int64?: 1 null 2"},
		{"quoted empty among texts", "a\n\"\"\nb", `string: "a" "" "b"`},
		{"NA", "1\nNA", `string: "1" "NA"`},
		{"null by name", "1\nnull", `string: "1" "null"`},
		{"dashes", "1\n--", `string: "1" "--"`},
		{"Fortran", "1.0D+05\n2.5", `string: "1.0D+05" "2.5"`},
		{"bool and number", "true\n1", `string: "true" "1"`},
		{"sexagesimal", "12:30:45.5\n01:02:03", `string: "12:30:45.5" "01:02:03"`},
		{"blanks around numbers", " 1\n2 ", "int64: 1 2"},
		{"blanks around text", " a\nb ", `string: " a" "b "`},
		{"quotes", "\"a \"\"b\"\", c\"\n\"two\nlines\"\n\"\"\"\"", `string: "a \"b\", c" "two\nlines" "\""`},
		{"quoted numbers", "\"1.5\"\n\"2\"", "float64: 1.5 2"},
		{"a quote inside", "5\" dish\nx", `string: "5\" dish" "x"`},
		{"other letters", "αβ\n☉", `string: "αβ" "☉"`},
		{"decimal zeros", "00.5\n1.25", "float64: 0.5 1.25"},
		{"zeros among decimals", "00\n1.25", `string: "00" "1.25"`},
		{"a digit, e, a digit", "1e5\n007", `string: "1e5" "007"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := describe(t, open(t, write(t, "a.csv", "x\n"+c.column+"\n"), text.Options{}), 2)
			if len(got) != 1 || got[0] != "x "+c.want {
				t.Errorf("got  %q\nwant %q", got, "x "+c.want)
			}
		})
	}
}

func TestTheWayAFileIsWrittenDoesNotMatter(t *testing.T) {
	want := []string{"id int64: 1 2 3", "ra float64?: 10.5 null 30.5", `name string?: "M 31" "" null`}
	for name, content := range map[string]string{
		"a.csv":      "id,ra,name\n1,10.5,M 31\n2,,\"\"\n3,30.5,\n",
		"b.csv":      "id,ra,name\r\n1,10.5,M 31\r\n2,,\"\"\r\n3,30.5,\r\n",
		"c.csv":      "\xef\xbb\xbfid,ra,name\n1,10.5,M 31\n2,,\"\"\n3,30.5,",
		"d.csv":      "# a note, with commas\n#\nid, ra ,name\n\n1,10.5,M 31\n\n2,,\"\"\n3,30.5,\n",
		"e.csv":      "id;ra;name\n1;10.5;M 31\n2;;\"\"\n3;30.5;\n",
		"f.csv":      "id|ra|name\n1|10.5|M 31\n2||\"\"\n3|30.5|\n",
		"g.tsv":      "id\tra\tname\n1\t10.5\tM 31\n2\t\t\"\"\n3\t30.5\t\n",
		"h.csv":      "id\tra\tname\n1\t10.5\tM 31\n2\t\t\"\"\n3\t30.5\t\n",
		"i.tsv":      "id,ra,name\n1,10.5,M 31\n2,,\"\"\n3,30.5,\n",
		"j.CSV":      "\"id\",\"ra\",\"name\"\n\"1\",\"10.5\",\"M 31\"\n\"2\",,\"\"\n\"3\",\"30.5\",\n",
		"k.csv.gz":   "id,ra,name\n1,10.5,M 31\n2,,\"\"\n3,30.5,\n",
		"l.jsonl":    "{\"id\":1,\"ra\":10.5,\"name\":\"M 31\"}\n{\"ra\":null,\"name\":\"\",\"id\":2}\n\n{\"id\":3,\"ra\":30.5}",
		"m.ndjson":   "{\"id\":1,\"ra\":10.5,\"name\":\"M 31\"}\r\n{\"id\":2,\"name\":\"\"}\r\n {\"id\" : 3 , \"ra\":30.5 , \"name\":null } \r\n",
		"n.jsonl.gz": "{\"id\":1,\"ra\":10.5,\"name\":\"M 31\"}\n{\"ra\":null,\"name\":\"\",\"id\":2}\n{\"id\":3,\"ra\":30.5}",
	} {
		t.Run(name, func(t *testing.T) {
			for _, slab := range []int64{1, 2, 100} {
				got := describe(t, open(t, write(t, name, content), text.Options{}), slab)
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("got  %q\nwant %q", got, want)
				}
			}
		})
	}
}

func TestNullsAreNamedByOptions(t *testing.T) {
	path := write(t, "a.csv", "x,s\n1,NA\nNA,b\n--,\"NA\"\n")
	got := describe(t, open(t, path, text.Options{Null: []string{"NA", "--"}}), 10)
	want := []string{"x int64?: 1 null null", `s string?: null "b" "NA"`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestANoteSaysWhyAColumnOfNumbersIsText(t *testing.T) {
	tab := open(t, write(t, "a.csv", "x,y,z\n1,1,a\n2,007,b\nN/A,2,c\n"), text.Options{})
	for i, want := range []string{`text because of "N/A" in line 4`, `text because of "007" in line 3`, ""} {
		if got := tab.Fields()[i].Note; got != want {
			t.Errorf("field %d: note %q, want %q", i, got, want)
		}
	}
}

func TestHostileFilesAreRefusedByLine(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"a.csv", "", "there is no header"},
		{"a.csv", "# only\n# notes\n", "there is no header"},
		{"a.csv", "1.5,2.5\n3.5,4.5\n", "line 1: there is no header"},
		{"a.csv", "#ra,dec\n1.5,2.5\n", "if line 1 is the header, remove its #"},
		{"a.csv", "1,2\n3,4\n", "line 1: there is no header"},
		{"a.csv", "M31,10.5\nM32,10.6\n", "line 1: there is no header"},
		{"a.csv", "a,b,a\n1,2,3\n", `line 1: columns 1 and 3 are both called "a"`},
		{"a.csv", "a,b\n1,2\n3\n", "line 3: 1 fields, and the header has 2"},
		{"a.csv", "a,b\n1,2\n3,4,5\n", "line 3: 3 fields"},
		{"a.csv", "a,b\n\"x\ny\",2\n3,4,5\n", "line 4: 3 fields"},
		{"a.csv", "a,b\n1,\xff\n", "line 2: byte 3: byte 0xff is not UTF-8"},
		{"a.csv", "a,b\n\"x\ny\xff\",2\n", "line 3: byte 2: byte 0xff is not UTF-8"},
		{"a.csv", "a,b\n1,\x00\n", "line 2: byte 3: a NUL"},
		{"a.csv", "a,b\n1,\"2\n3,4\n", "line 2: field 2 opens a quote that nothing closes"},
		{"a.csv", "a,b\n1,\"2\"x\n", "line 2: byte 6: text after the quote"},
		{"a.csv", "a,b\r1,2\r3,4\r", "line 1: byte 4: a carriage return"},
		{"a.csv", "\xff\xfea\x00,\x00", "UTF-16"},
		{"a.csv", strings.Repeat("a,", 5000) + "b\n", "line 1: over 4096 fields"},
		{"a.csv", strings.Repeat("\"a\",", 5000) + "b\n", "line 1: over 4096 fields"},
		{"a.csv", "a,b\n1," + strings.Repeat("x", 65<<20) + "\n", "line 2: a"},
		{"a.csv", "a,b\n1,\"" + strings.Repeat("x\n", 33<<20), "line 2: a record of over 64 MiB"},
		{"a.jsonl", "{\"a\":1}\n[1]\n", "line 2: an array, and every line has to be an object; a JSON array"},
		{"a.jsonl", "{\"a\":1}\n7\n", "line 2: a number"},
		{"a.jsonl", "{\"a\":1}\n{\"a\":1,}\n", "line 2: byte 8: a key in quotes"},
		{"a.jsonl", "{\"a\":1\n}\n", "line 1: byte 7: a comma or the end of the object"},
		{"a.jsonl", "{\"a\":01}\n", "line 1: byte 6: no JSON value"},
		{"a.jsonl", "{\"a\":+1}\n", "line 1: byte 6: no JSON value"},
		{"a.jsonl", "{\"a\":.5}\n", "line 1: byte 6: no JSON value"},
		{"a.jsonl", "{\"a\":1} {\"a\":2}\n", "line 1: byte 9: something after the value"},
		{"a.jsonl", "{\"a\":1,\"a\":2}\n", `line 1: the key "a" stands twice`},
		{"a.jsonl", "{\"a\":1,\"\\u0061\":2}\n", `line 1: the key "a" stands twice`},
		{"a.jsonl", "{\"b\":{\"a\":1,\"a\":2}}\n", `line 1: the key "a" stands twice`},
		{"a.jsonl", "{\"b\":[{\"a\":1,\"a\":2}]}\n", `line 1: the key "a" stands twice`},
		{"a.jsonl", "{\"a\":\"\\ud800\"}\n", "line 1: byte 7: a lone surrogate"},
		{"a.jsonl", "{\"a\":\"\\ud800\\u0041\"}\n", "a lone surrogate"},
		{"a.jsonl", "{\"a\":\"\\udc00\"}\n", "a lone surrogate"},
		{"a.jsonl", "{\"a\":\"\\x\"}\n", "an escape that JSON does not have"},
		{"a.jsonl", "{\"a\":\"\t\"}\n", "control character 0x09"},
		{"a.jsonl", "{\"a\":" + strings.Repeat("[", 100) + "\n", "nested over 32 deep"},
		{"a.jsonl", strings.Repeat("{\"a\":", 100) + "\n", "nested over 32 deep"},
		{"a.jsonl", "{\"a\":\"x", "the line ends inside a text"},
		{"a.jsonl", "{\"a.b\":1,\"a\":{\"b\":2}}\n", `"a.b" is a key with a dot`},
		{"a.ecsv", "a b\n1 2\n", "does not begin with # %ECSV"},
		{"a.ecsv", "# %ECSV 1.0\n# ---\n# datatype:\n# - {name: a, datatype: int8}\na\n300\n", `line 6: column "a": row 0: "300" is no int8`},
		{"a.ecsv", "# %ECSV 1.0\n# ---\n# datatype:\n# - {name: a, datatype: int8}\nb\n3\n", `line 5: the names of the columns differ`},
		{"a.ecsv", "# %ECSV 1.0\n# ---\n# datatype: [\na\n3\n", "ECSV header"},
		{"a.ecsv", "# %ECSV 1.0\n# ---\n# a: &a [*a]\n# datatype: *a\na\n3\n", "ECSV header"},
		{"a.ecsv", "# %ECSV 2.0\n# ---\na\n3\n", "ECSV version"},
		{"a.ecsv", "# %ECSV 1.0\n# ---\n# datatype:\n# - {name: a, datatype: string, subtype: 'float64[2]'}\na\n[1]\n", "an array of 1 elements, where the shape says 2"},
		{"a.ecsv", "# %ECSV 1.0\n# ---\n# delimiter: ';'\n# datatype:\n# - {name: a, datatype: int8}\na\n3\n", `delimiter ";"`},
	} {
		t.Run(c.want, func(t *testing.T) {
			_, err := text.Open(t.Context(), write(t, c.name, c.content), text.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v\nwant %s", err, c.want)
			}
			if !errors.Is(err, text.ErrCorrupt) && !errors.Is(err, text.ErrUnsupported) && !errors.Is(err, text.ErrTooLarge) {
				t.Errorf("%v wraps none of the errors of the package", err)
			}
		})
	}
}

func TestCutAndDamagedGzipIsRefused(t *testing.T) {
	path := write(t, "a.csv.gz", "a,b\n"+strings.Repeat("1,2\n3,4444\n", 1000))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 12, len(whole) / 2, len(whole) - 9, len(whole) - 1} {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := text.Open(t.Context(), path, text.Options{}); !errors.Is(err, text.ErrCorrupt) {
			t.Errorf("cut at %d of %d: %v", n, len(whole), err)
		}
	}
	for _, at := range []int{len(whole) / 2, len(whole) - 8, len(whole) - 2} {
		bad := bytes.Clone(whole)
		bad[at] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := text.Open(t.Context(), path, text.Options{}); !errors.Is(err, text.ErrCorrupt) {
			t.Errorf("a bit of byte %d: %v", at, err)
		}
	}
}

func TestJSONValuesBecomeColumns(t *testing.T) {
	for _, c := range []struct{ name, lines, want string }{
		{"exact integers", `{"a":9007199254740993}` + "\n" + `{"a":-1}`, "a int64: 9007199254740993 -1"},
		{"unsigned", `{"a":18446744073709551615}`, "a uint64: 18446744073709551615"},
		{"beyond 64 bits", `{"a":18446744073709551616}`, "a refused"},
		{"beyond float64", `{"a":1e999}`, "a refused"},
		{"integers and floats", `{"a":1}` + "\n" + `{"a":1.5}`, "a float64: 1 1.5"},
		{"an integer no float holds", `{"a":9007199254740993}` + "\n" + `{"a":1.5}`, "a refused"},
		{"Python's NaN", `{"a":NaN}` + "\n" + `{"a":-Infinity}`, "a float64: NaN -Inf"},
		{"bools", `{"a":true}` + "\n{}\n" + `{"a":false}`, "a bool?: true null false"},
		{"escapes", `{"a":"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00"}`, `a string: "\"\\/\b\f\n\r\tAé😀"`},
		{"nested", `{"a":{"b":{"c":1}},"d":2}` + "\n" + `{"d":3}` + "\n" + `{"a":null,"d":4}` + "\n" + `{"a":{"b":{}},"d":5}`, "a.b.c int64?: 1 null null null|d int64: 2 3 4 5"},
		{"list", `{"a":[1,2]}` + "\n" + `{"a":[]}` + "\n" + `{"a":[3.5]}`, "a list float64: [1,2] [] [3.5]"},
		{"null elements", `{"a":[1.5,null]}`, "a list float64: [1.5,NaN]"},
		{"null list", `{"a":[1]}` + "\n" + `{"a":null}`, "a list int64?: [1] null"},
		{"list of text", `{"a":["x","\u00e9"]}` + "\n" + `{"a":[""]}`, `a list string: ["x","é"] [""]`},
		{"empty lists", `{"a":[]}`, "a list float64: []"},
		{"tensor", `{"a":[[1,2],[3,4]]}` + "\n" + `{"a":[[5,6],[7,8]]}`, "a tensor int64: [2 2][1 2 3 4] [2 2][5 6 7 8]"},
		{"three axes", `{"a":[[[1.5],[2]],[[3],[4]],[[5],[6]]]}`, "a tensor float64: [3 2 1][1.5 2 3 4 5 6]"},
		{"null tensor", `{"a":[[1,2]]}` + "\n" + `{}`, "a tensor int64?: [1 2][1 2] null"},
		{"shapes that differ", `{"a":[[1,2]]}` + "\n" + `{"a":[[1]]}`, "a refused"},
		{"ragged rows", `{"a":[[1,2],[3]]}`, "a refused"},
		{"texts in arrays of arrays", `{"a":[["x"]]}`, "a refused"},
		{"kinds that differ", `{"a":1}` + "\n" + `{"a":"x"}`, "a refused"},
		{"an object and a number", `{"a":1}` + "\n" + `{"a":{"b":1}}`, "a refused"},
		{"a bool and a number", `{"a":[1,true]}`, "a refused"},
		{"light curve", `{"lc":[{"t":1,"b":"g"},{"t":2.5,"b":"r"}]}` + "\n" + `{"lc":[]}` + "\n{}\n" + `{"lc":[{"b":"i","t":3}]}`, `lc struct ?: {t=[1,2.5] b=["g","r"]} {t=[] b=[]} null {t=[3] b=["i"]}`},
		{"members that are missing", `{"lc":[{"t":1.5},{"b":"r"},null]}`, `lc struct : {t=[1.5,NaN,NaN] b=["","r",""]}`},
		{"objects in objects in arrays", `{"lc":[{"t":1,"x":{"y":2}}]}`, `lc struct : {t=[1] x.y=[2]}`},
		{"arrays in objects in arrays", `{"lc":[{"t":[1]}]}`, "lc refused"},
		{"no value at all", `{"a":null}`, "a float64?: null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(describe(t, open(t, write(t, "a.jsonl", c.lines+"\n"), text.Options{}), 2), "|")
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestNullElementsAreFilledOrRefused(t *testing.T) {
	tab := open(t, write(t, "a.jsonl", `{"i":[1,null],"t":[[1,null]],"s":[{"n":1},{"m":"x"}]}`+"\n"), text.Options{})
	if _, err := tab.Read(t.Context(), 0, 1, []table.Request{{Field: 0}}); err == nil || !strings.Contains(err.Error(), `line 1: column "i": row 0`) {
		t.Errorf("a null integer without a fill: %v", err)
	}
	got, err := tab.Read(t.Context(), 0, 1, []table.Request{{Field: 0, Fill: []any{-99.0}}, {Field: 1, Fill: []any{7.0}}, {Field: 2, Fill: []any{5.0, "none"}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"[1,-99]", "[1 2][1 7]", `{n=[1,5] m=["none","x"]}`} {
		f := tab.Fields()[i]
		if s := show(&f.Column, got[i], 0); s != want {
			t.Errorf("%s: got %s, want %s", f.Source, s, want)
		}
		for k, missing := range f.Missing {
			if !missing {
				t.Errorf("%s: member %d is not marked as missing", f.Source, k)
			}
		}
	}
}

func TestRowsAreFoundInAnyOrder(t *testing.T) {
	var csv, lines strings.Builder
	csv.WriteString("id,s\n")
	const rows = 10000
	for i := range rows {
		fmt.Fprintf(&csv, "%d,\"a\n%d\"\n", i, i*i)
		fmt.Fprintf(&lines, "{\"id\":%d,\"s\":\"a\\n%d\"}\n", i, i*i)
		if i%1000 == 999 {
			csv.WriteString("\n")
			lines.WriteString("\n")
		}
	}
	for name, content := range map[string]string{"a.csv": csv.String(), "a.csv.gz": csv.String(), "a.jsonl": lines.String(), "a.jsonl.gz": lines.String()} {
		t.Run(name, func(t *testing.T) {
			path := write(t, name, content)
			first := open(t, path, text.Options{})
			again := open(t, path, text.Options{Scan: text.ScanOf(first)})
			for _, tab := range []table.Table{first, again} {
				if tab.Rows() != rows {
					t.Fatalf("%d rows", tab.Rows())
				}
				for _, r := range [][2]int64{{0, 3}, {9000, 9002}, {4095, 4097}, {4096, 4097}, {1, 2}, {8192, 8193}, {9999, 10000}, {5, 5}, {0, 1}, {3, 4}} {
					got, err := tab.Read(t.Context(), r[0], r[1], []table.Request{{Field: 1}, {Field: 0}})
					if err != nil {
						t.Fatal(err)
					}
					for k := range int(r[1] - r[0]) {
						n := r[0] + int64(k)
						if s := string(got[0].Str(k)); s != fmt.Sprintf("a\n%d", n*n) {
							t.Errorf("row %d: %q", n, s)
						}
						if id := binary.LittleEndian.Uint64(got[1].Data[8*k:]); int64(id) != n {
							t.Errorf("row %d: id %d", n, id)
						}
					}
				}
			}
		})
	}
}

func TestAFileThatChangesIsRefused(t *testing.T) {
	for name, change := range map[string][2]string{
		"a.csv":   {"a\n" + strings.Repeat("1\n", 9000), "a\n1\n"},
		"b.csv":   {"a\n1\n2\n", "a\n1\nx\n"},
		"a.jsonl": {"{\"a\":1}\n{\"a\":2}\n", "{\"a\":1}\n{\"b\":2}\n"},
	} {
		path := write(t, name, change[0])
		tab := open(t, path, text.Options{})
		if err := os.WriteFile(path, []byte(change[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := tab.Read(t.Context(), 0, tab.Rows(), []table.Request{{Field: 0}}); err == nil {
			t.Errorf("%s: read as if nothing had happened", name)
		}
	}
}

func TestReadingStopsWhenAsked(t *testing.T) {
	path := write(t, "a.csv", "a\n"+strings.Repeat("1\n", 5<<20))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := text.Open(ctx, path, text.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestTablesShareAScan(t *testing.T) {
	for name, content := range map[string]string{"a.csv": "a,b\n" + strings.Repeat("1,x\n2,y\n", 500), "a.jsonl": strings.Repeat(`{"a":{"b":1},"c":[{"d":1}]}`+"\n"+`{"c":[],"a":{"b":2}}`+"\n", 500)} {
		path := write(t, name, content)
		scan := text.ScanOf(open(t, path, text.Options{}))
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				tab, err := text.Open(t.Context(), path, text.Options{Scan: scan})
				if err != nil {
					t.Error(err)
					return
				}
				defer tab.Close()
				if _, err := tryAll(t.Context(), tab, 100); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
}
