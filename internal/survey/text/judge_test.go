package text_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
	"astropile/internal/survey/text"
	"astropile/internal/testkit"
)

// The judges write a file and say what is in it: a line a value, "column TAB row TAB value", floats as the bits of float64.
const judgeHead = `
import json, struct, sys, numpy as np
folder = sys.argv[1]
out = open(folder + "/expected", "w", encoding="utf-8")
def say(x):
    if x is None: return "null"
    if isinstance(x, (bool, np.bool_)): return str(bool(x)).lower()
    if isinstance(x, (int, np.integer)): return str(int(x))
    if isinstance(x, (complex, np.complexfloating)): return say(np.float64(x.real)) + "," + say(np.float64(x.imag))
    if isinstance(x, (float, np.floating)): return "f" + struct.pack(">d", float(x)).hex() if x == x else "nan"
    if isinstance(x, str): return "s" + x.encode().hex()
    return "[" + " ".join(say(y) for y in x) + "]"
def put(name, rows):
    for i, x in enumerate(rows): out.write(f"{name}\t{i}\t{say(x)}\n")
`

const judgePandas = judgeHead + `
import pandas as pd
rng = np.random.default_rng(1)
n = 5000
bits = rng.integers(0, 2**64, n, dtype=np.uint64)
f = bits.view(np.float64)
f = np.where(np.isfinite(f), f, 1.5)
words = ["", "a", "b,c", 'd"e', "f\ng", "  h ", "\u03b1\u03b2", "\U0001f600", "NA", "null", "x\r\ny", "'", "#"]
d = pd.DataFrame({
  "id": rng.integers(-2**63, 2**63 - 1, n),
  "u": rng.integers(2**63, 2**64 - 1, n, dtype=np.uint64),
  "f": f,
  "ra": rng.random(n) * 360,
  "small": (rng.random(n) * 100).round(3),
  "single": rng.random(n).astype("f4").astype("f8"),
  "b": rng.random(n) < 0.5,
  "s": [words[i % len(words)] for i in range(n)],
})
m = pd.Series([None if i % 3 == 0 else i for i in range(n)], dtype="Int64")
d["m"] = m
texts = [None if i % 5 == 0 else str(i) + "x" for i in range(n)]
d["t"] = pd.Series(texts, dtype=object)
import csv
for name, args in {"a.csv": {}, "b.tsv": {"sep": "\t"}, "c.csv.gz": {"sep": ";"}, "d.csv": {"lineterminator": "\r\n", "sep": "|"}}.items():
    # pandas quotes no empty text, so csv writes it: an empty text is quoted, a null is not.
    d.to_csv(folder + "/" + name, index=False, quoting=csv.QUOTE_NOTNULL if hasattr(csv, "QUOTE_NOTNULL") else csv.QUOTE_NONNUMERIC, **args)
quoted = hasattr(csv, "QUOTE_NOTNULL")
for c in d.columns:
    if c == "m": put(c, [None if x is pd.NA else int(x) for x in d[c]])
    elif c == "t": put(c, [("" if not quoted else None) if x is None else x for x in texts])
    else: put(c, list(d[c]))
# What pandas reads from the file it wrote is what it had; so the judge agrees with itself.
r = pd.read_csv(folder + "/a.csv", float_precision="round_trip", keep_default_na=False)
assert (r["f"].to_numpy().view("u8") == d["f"].to_numpy().view("u8")).all()
`

const judgeAstropy = judgeHead + `
import warnings
from astropy.table import QTable, Table, MaskedColumn
from astropy.coordinates import SkyCoord
from astropy.time import Time
import astropy.units as u
rng = np.random.default_rng(2)
n = 300
def make(n):
    t = QTable()
    for d in "i1 i2 i4 i8 u1 u2 u4 u8".split():
        info = np.iinfo(d)
        t[d] = rng.integers(info.min, info.max, n, dtype=d, endpoint=True)
    with np.errstate(all="ignore"):
        t["f2"] = rng.integers(0, 2**16, n, dtype="u2").view("f2")
        t["f4"] = rng.integers(0, 2**32, n, dtype="u4").view("f4")
        t["f8"] = rng.integers(0, 2**64, n, dtype="u8").view("f8")
    t["c8"] = (rng.normal(size=n) + 1j * rng.normal(size=n)).astype("c8")
    c = rng.normal(size=n) - 1j * rng.normal(size=n)
    c[0], c[1], c[2] = complex(np.nan, np.inf), complex(-np.inf, -0.0), 3
    t["c16"] = c
    t["b"] = rng.random(n) < 0.5
    t["s"] = [["a b", 'c"d', "e,f", "g\nh", "\u03b1", "#", " x "][i % 7] for i in range(n)]
    t["t"] = rng.normal(size=(n, 2, 3)).astype("f4")
    t["ti"] = rng.integers(0, 255, (n, 4), dtype="u1")
    t["tb"] = rng.random((n, 2)) < 0.5
    v = np.empty(n, dtype=object)
    for i in range(n): v[i] = rng.normal(size=i % 5)
    t["v"] = v
    vi = np.empty(n, dtype=object)
    for i in range(n): vi[i] = rng.integers(-5, 5, i % 3).astype("i2")
    t["vi"] = vi
    t["m"] = MaskedColumn(np.arange(n), mask=np.arange(n) % 3 == 0)
    t["ms"] = MaskedColumn(["x%d" % i for i in range(n)], mask=np.arange(n) % 4 == 0)
    t["q"] = rng.normal(size=n) * u.Jy
    t["sc"] = SkyCoord(rng.random(n) * 360, rng.random(n) * 180 - 90, unit="deg")
    t["when"] = Time(2450000 + rng.random(n), format="jd", scale="tdb")
    return t
t = make(n)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    t.write(folder + "/a.ecsv", format="ascii.ecsv")
    t.write(folder + "/b.ecsv.gz", format="ascii.ecsv", delimiter=",")
    t.write(folder + "/c.csv", format="ascii.ecsv", delimiter=",")
back = Table.read(folder + "/a.ecsv", format="ascii.ecsv")
for name in t.colnames:
    if name == "sc":
        put("sc.ra", list(back["sc"].ra.deg)); put("sc.dec", list(back["sc"].dec.deg))
    elif name == "when": put(name, list(back[name].jd))
    elif name in ("m", "ms"): put(name, [None if k else x for x, k in zip(back[name].data.data, back[name].mask)])
    elif name == "ms": pass
    else:
        x = back[name]
        x = getattr(x, "value", x)
        mask = getattr(x, "mask", None)
        put(name, [list(np.asarray(y).ravel()) if getattr(y, "shape", ()) else (y.item() if y.dtype.kind not in "fc" else y) if hasattr(y, "item") else y for y in x])
for name in ["f2", "f4", "f8", "c8", "c16"]:
    a, b = np.asarray(t[name]), np.asarray(back[name])
    assert a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=True), name
`

const judgeJSON = judgeHead + `
import random
random.seed(3)
rows = []
words = ["", "a", '"', "\\", "\u03b1", "\U0001f600", "\n\t", "\x7f", "/", "\u2028", "a" * 500]
for i in range(2000):
    r = {"id": random.randrange(-2**63, 2**63), "u": random.randrange(2**63, 2**64),
         "f": struct.unpack("<d", struct.pack("<Q", random.randrange(2**62)))[0],
         "s": words[i % len(words)], "b": i % 2 == 0,
         "list": [random.random() for _ in range(i % 4)], "ints": [random.randrange(2**60) for _ in range(i % 3)],
         "words": [random.choice(words) for _ in range(i % 4)],
         "image": [[random.random() for _ in range(3)] for _ in range(2)],
         "deep": {"x": {"y": i, "z": words[-1 - i % len(words)]}}}
    if i % 3: r["some"] = i * 0.1
    if i % 4 == 0: r["some"] = None
    r["lc"] = [{"mjd": random.random(), "band": random.choice("ugr")} for _ in range(i % 5)]
    rows.append(r)
for name, args in {"a.jsonl": {}, "b.ndjson.gz": {"ensure_ascii": False, "separators": (",", ":")}, "c.jsonl": {"ensure_ascii": False}}.items():
    text = "".join(json.dumps(r, **args) + "\n" for r in rows).encode()
    if name.endswith(".gz"):
        import gzip
        text = gzip.compress(text)
    open(folder + "/" + name, "wb").write(text)
back = [json.loads(line) for line in open(folder + "/a.jsonl")]
for name in ["id", "u", "f", "s", "b", "list", "ints", "words", "some"]: put(name, [r.get(name) for r in back])
put("image", [[x for line in r["image"] for x in line] for r in back])
put("deep.x.y", [r["deep"]["x"]["y"] for r in back]); put("deep.x.z", [r["deep"]["x"]["z"] for r in back])
put("lc", [[[e[k] for e in r["lc"]] for k in ("mjd", "band")] for r in back])
# pyarrow reads the same, where it can.
import pyarrow.json as pj
a = pj.read_json(folder + "/a.jsonl")
assert a["list"].to_pylist() == [r["list"] for r in back] and a["s"].to_pylist() == [r["s"] for r in back]
`

// said writes a value as the judges do.
func said(c *catalog.Column, v *catalog.Vector, row int) string {
	if v.Null(row) {
		return "null"
	}
	one := func(d catalog.DType, b []byte) string {
		f := math.NaN()
		switch d {
		case catalog.Float16:
			f = fromHalf(uint16(b[0]) | uint16(b[1])<<8)
		case catalog.Float32, catalog.Float64:
			if _, err := fmt.Sscan(number(d, b), &f); err != nil {
				return err.Error()
			}
			if d == catalog.Float32 {
				f = float64(float32(f))
			}
		default:
			return number(d, b)
		}
		if f != f {
			return "nan"
		}
		return fmt.Sprintf("f%016x", math.Float64bits(f))
	}
	elements := func(d catalog.DType, data []byte) string {
		var parts []string
		for n := d.Size(); len(data) >= n; data = data[n:] {
			parts = append(parts, one(d, data[:n]))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	switch {
	case c.Kind == catalog.Struct:
		var parts []string
		for k, m := range v.Members {
			parts = append(parts, said(&c.Members[k], m, row))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case c.Kind == catalog.List && c.DType == catalog.String:
		var parts []string
		for e := v.Offsets[row]; e < v.Offsets[row+1]; e++ {
			parts = append(parts, fmt.Sprintf("s%x", v.Data[v.StrOffsets[e]:v.StrOffsets[e+1]]))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case c.Kind == catalog.List:
		n := int64(c.DType.Size())
		return elements(c.DType, v.Data[v.Offsets[row]*n:v.Offsets[row+1]*n])
	case c.DType == catalog.String:
		return fmt.Sprintf("s%x", v.Str(row))
	}
	n := c.RowBytes()
	data := v.Data[row*n : (row+1)*n]
	switch {
	case c.DType.Complex():
		d := c.DType.Component()
		return one(d, data[:n/2]) + "," + one(d, data[n/2:])
	case c.Kind == catalog.Tensor:
		return elements(c.DType, data)
	}
	return one(c.DType, data)
}

func fromHalf(h uint16) float64 {
	sign, exp, man := 1-2*float64(h>>15), int(h>>10&31), float64(h&1023)
	switch exp {
	case 0:
		return math.Copysign(math.Ldexp(man, -24), sign)
	case 31:
		if man != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+man, exp-25)
}

// judged lets a judge write files and compares every value of every one of them.
func judged(t *testing.T, script string) (folder string, files []string) {
	python := testkit.Python(t)
	folder = t.TempDir()
	cmd := exec.Command(python, "-c", script, folder)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the judge: %v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(folder, "expected"))
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]string{}
	columns := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		row, value, _ := strings.Cut(rest, "\t")
		expected[name+"\t"+row] = value
		columns[name] = true
	}
	paths, err := filepath.Glob(filepath.Join(folder, "[a-z].*"))
	if err != nil || len(paths) < 3 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			tab := open(t, path, text.Options{})
			values := all(t, tab, 97)
			compared, wrong := 0, 0
			for i, f := range tab.Fields() {
				if f.Err != nil {
					t.Errorf("%s: %v", f.Source, f.Err)
					continue
				}
				if !columns[f.Source] {
					t.Errorf("the judge has no %q", f.Source)
				}
				for row := range values[i].Rows {
					compared++
					want := expected[fmt.Sprintf("%s\t%d", f.Source, row)]
					if got := said(&f.Column, values[i], row); got != want && wrong < 10 {
						wrong++
						t.Errorf("%s, row %d: got %s, want %s", f.Source, row, got, want)
					}
				}
			}
			if compared != len(expected) {
				t.Errorf("%d values, the judge has %d", compared, len(expected))
			}
		})
	}
	return folder, paths
}

func TestPandasWritesCSVAndEveryValueIsRead(t *testing.T) { judged(t, judgePandas) }

func TestPythonWritesJSONLAndEveryValueIsRead(t *testing.T) { judged(t, judgeJSON) }

func TestAstropyWritesECSVAndEveryValueIsRead(t *testing.T) {
	_, files := judged(t, judgeAstropy)
	tab := open(t, files[0], text.Options{})
	by := map[string]table.Field{}
	for _, f := range tab.Fields() {
		by[f.Source] = f
	}
	for name, want := range map[string]string{"i1": "scalar int8 []", "u8": "scalar uint64 []", "f2": "scalar float16 []", "c8": "tensor complex64 []", "t": "tensor float32 [2 3]", "v": "list float64 []", "vi": "list int16 []", "tb": "tensor bool [2]"} {
		c := by[name].Column
		if got := fmt.Sprintf("%s %s %v", c.Kind, c.DType, c.Shape); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if u := by["q"].Column.Unit; u != "Jy" {
		t.Errorf("unit of q: %q", u)
	}
	if n := by["sc.ra"].Note; !strings.Contains(n, `SkyCoord "sc" (frame icrs)`) {
		t.Errorf("note of sc.ra: %q", n)
	}
	if n := by["when"].Note; !strings.Contains(n, `Time "when" (format jd, scale tdb)`) {
		t.Errorf("note of when: %q", n)
	}
}

func TestECSVRefusesByNameWhatItDoesNotRead(t *testing.T) {
	path := write(t, "a.ecsv", `# %ECSV 0.9
# ---
# datatype:
# - {name: ok, datatype: int64}
# - {name: long, datatype: float128}
# - {name: obj, datatype: string, subtype: json}
# - {name: var2, datatype: string, subtype: 'float64[2,null]'}
# - {name: when, datatype: datetime64}
# - {name: masked, datatype: string, subtype: 'float64[2]'}
# - {name: s, datatype: string}
# - {name: s.mask, datatype: bool}
# - {name: gaia, datatype: float32}
ok long obj var2 when masked s s.mask gaia
1 1.5 {} [] x [1.5,null] "" False null
2 1.5 {} [] x "" "" True 2.5
`)
	got := strings.Join(describe(t, open(t, path, text.Options{}), 10), "|")
	want := `ok int64: 1 2|long refused|obj refused|var2 refused|when refused|masked tensor float64?: [2][1.5 NaN] null|s string: "" ""|s.mask bool: false true|gaia float32?: null 2.5`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
