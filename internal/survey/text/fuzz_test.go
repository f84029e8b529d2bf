package text_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"astropile/internal/survey/table"
	"astropile/internal/survey/text"
)

// survives opens and reads a file twice: whatever its bytes are, that is an error or rows that agree with themselves.
func survives(t *testing.T, name string, content []byte) (rows int64, opened bool) {
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	tab, err := text.Open(t.Context(), path, text.Options{})
	if err != nil {
		return 0, false
	}
	defer tab.Close()
	first, err := tryAll(t.Context(), tab, 3)
	if err != nil {
		if !strings.Contains(err.Error(), "null") {
			t.Fatalf("opened, and then: %v", err)
		}
		return tab.Rows(), true
	}
	again, err := text.Open(t.Context(), path, text.Options{Scan: text.ScanOf(tab)})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	second, err := tryAll(t.Context(), again, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range tab.Fields() {
		if f.Err != nil {
			continue
		}
		for row := range first[i].Rows {
			if a, b := said(&f.Column, first[i], row), said(&f.Column, second[i], row); a != b {
				t.Fatalf("%s, row %d: %s and %s", f.Source, row, a, b)
			}
		}
	}
	return tab.Rows(), true
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "a;b\r\n1;\"x\"\"\n\"\r\n", "a\tb\n\n,\n", "# c\na,b\n\"\",nan\n1e5,\n", "a,b\n\"1", "\xef\xbb\xbfa\n007\n", ",\n1,2\n", "a\n\"\n\"\n", "a|b\n1|2\n\"|\"|\r"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) { survives(t, "a.csv", content) })
}

func FuzzECSV(f *testing.F) {
	head := "# %ECSV 1.0\n# ---\n# datatype:\n"
	for _, s := range []string{
		head + "# - {name: a, datatype: int8}\n# - {name: b, datatype: string, subtype: 'float64[2,2]'}\na b\n1 [[1,2],[3,null]]\n\"\" \"\"\n",
		head + "# - {name: a, unit: m, datatype: complex64}\n# - {name: s, datatype: string, subtype: 'string[null]'}\na s\n(1+2j) \"[\"\"x\"\",null]\"\n",
		head + "# - {name: a, datatype: string}\n# delimiter: ','\n# meta: !!omap\n# - __serialized_columns__:\n#     a: {__class__: x.Time, jd1: !astropy.table.SerializedColumn {name: a}}\na\n\"x\"\n",
		head + "# - &x {name: a, datatype: bool}\n# - *x\na a\nTrue False\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) { survives(t, "a.ecsv", content) })
}

func FuzzJSONL(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":{"c":"x\u00e9\ud83d\ude00"},"d":[1,2.5,null],"e":[[1,2],[3,4]],"f":[{"g":1},{"h":null}]}` + "\n{}\n",
		`{"a":NaN}` + "\n" + `{"a":-Infinity}`, `{"a":[]}` + "\n" + `{"a":[{}]}`, `{"a":true,"b":"\\"}`, `[]`, `{"a":18446744073709551615}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		_, opened := survives(t, "a.jsonl", content)
		// encoding/json accepts every line that was accepted, but for the numbers that only Python writes.
		s := string(content)
		if !opened || strings.Contains(s, "NaN") || strings.Contains(s, "Infinity") {
			return
		}
		for line := range strings.Lines(strings.TrimPrefix(s, "\ufeff")) {
			if line = strings.TrimSuffix(line, "\n"); strings.TrimSuffix(line, "\r") != "" && !json.Valid([]byte(line)) {
				t.Fatalf("accepted %q", line)
			}
		}
		if !utf8.ValidString(s) {
			t.Fatal("accepted bytes that are not UTF-8")
		}
	})
}

func BenchmarkText(b *testing.B) {
	row := map[string]string{
		"a.csv":   "123456789012,%d.123456789,-12.987654321,17.25,0.013,True,\"M 31\",abc\n",
		"a.jsonl": `{"id":123456789012,"ra":%d.123456789,"dec":-12.987654321,"mag":17.25,"err":0.013,"ok":true,"name":"M 31","t":"abc"}` + "\n",
	}
	for name, line := range row {
		var s strings.Builder
		if name == "a.csv" {
			s.WriteString("id,ra,dec,mag,err,ok,name,t\n")
		}
		for i := range 400000 {
			s.WriteString(strings.Replace(line, "%d", string(rune('1'+i%9))+string(rune('0'+i%10)), 1))
		}
		path := write(b, name, s.String())
		b.Run("open "+name, func(b *testing.B) {
			b.SetBytes(int64(s.Len()))
			for b.Loop() {
				tab, err := text.Open(b.Context(), path, text.Options{})
				if err != nil {
					b.Fatal(err)
				}
				tab.Close()
			}
		})
		b.Run("read "+name, func(b *testing.B) {
			tab := open(b, path, text.Options{})
			b.SetBytes(int64(s.Len()))
			for b.Loop() {
				read(b, tab)
			}
		})
	}
}

// read reads all rows in slabs.
func read(b *testing.B, tab table.Table) {
	b.Helper()
	var want []table.Request
	for i := range tab.Fields() {
		want = append(want, table.Request{Field: i})
	}
	for lo := int64(0); lo < tab.Rows(); lo += 65536 {
		if _, err := tab.Read(b.Context(), lo, min(lo+65536, tab.Rows()), want); err != nil {
			b.Fatal(err)
		}
	}
}
