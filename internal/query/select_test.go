package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

// everyType is a release with a column of every type, with and without nulls.
func everyType(t testing.TB) *release {
	cols := []catalog.Column{scalarColumn("id", catalog.Int64, false)}
	for _, d := range []catalog.DType{catalog.Bool, catalog.Int8, catalog.Int16, catalog.Int32, catalog.Int64, catalog.Uint8, catalog.Uint16, catalog.Uint32, catalog.Uint64,
		catalog.Float16, catalog.Float32, catalog.Float64, catalog.String} {
		cols = append(cols, scalarColumn("a_"+string(d), d, false), scalarColumn("n_"+string(d), d, true))
	}
	g := rand.New(rand.NewPCG(3, 4))
	return newRelease(t, cols, func(c *catalog.Column, v *catalog.Vector, row int) {
		if c.Name == "id" {
			put(c, v, uint64(row), "", false)
			return
		}
		null := c.Nullable && g.IntN(5) == 0
		small := uint64(int64(g.IntN(9) - 4))
		bits := small
		switch c.DType {
		case catalog.Bool:
			bits = uint64(g.IntN(2))
		case catalog.Float16:
			bits = []uint64{0, 0x8000, 0x3c00, 0xbc00, 0x3800, 0x7e00, 0x7c00, 0xfc00, 0x2e66}[g.IntN(9)]
		case catalog.Float32:
			bits = uint64(math.Float32bits([]float32{0, -1, 1, 0.5, 0.1, float32(math.NaN()), float32(math.Inf(1)), 3e38}[g.IntN(8)]))
		case catalog.Float64:
			bits = math.Float64bits([]float64{0, -1, 1, 0.5, 0.1, math.NaN(), math.Inf(-1), 1 << 53}[g.IntN(8)])
		default:
			if g.IntN(4) == 0 {
				bits = []uint64{1<<63 - 1, 1 << 63, ^uint64(0), 1<<53 + 1}[g.IntN(4)]
			}
		}
		put(c, v, bits, []string{"", "a", "ab", "b", "é"}[g.IntN(5)], null)
	}, []int{700, 0, 41, 64}, []int{1, 900})
}

// exact is a number without rounding, or nil where there is none to compare.
func (r *release) exact(name string, row int) *big.Float {
	c, v := r.column(name)
	if v.Null(row) {
		return nil
	}
	n := c.DType.Size()
	var bits uint64
	for k := n - 1; k >= 0; k-- {
		bits = bits<<8 | uint64(v.Data[row*n+k])
	}
	switch class(c.DType) {
	case 'f':
		f := floatAt(c.DType, v, row)
		if math.IsNaN(f) {
			return nil
		}
		return new(big.Float).SetFloat64(f)
	case 'i':
		return new(big.Float).SetPrec(80).SetInt64(int64(bits<<(64-8*n)) >> (64 - 8*n))
	}
	return new(big.Float).SetPrec(80).SetUint64(bits)
}

// truth is SQL's: 1 true, 0 unknown, -1 false.
type truth int

func truthOf(b bool) truth {
	if b {
		return 1
	}
	return -1
}

// randomWhere makes a predicate and, independently, what it means for a row.
func randomWhere(g *rand.Rand, r *release, depth int) (string, func(row int) truth) {
	if depth > 0 {
		a, fa := randomWhere(g, r, depth-1)
		b, fb := randomWhere(g, r, depth-1)
		switch g.IntN(4) {
		case 0:
			return "(" + a + ") and (" + b + ")", func(row int) truth { return min(fa(row), fb(row)) }
		case 1:
			return "(" + a + ") or (" + b + ")", func(row int) truth { return max(fa(row), fb(row)) }
		case 2:
			return "not (" + a + ")", func(row int) truth { return -fa(row) }
		default:
			c, fc := randomWhere(g, r, 0)
			return "(" + c + ") ? (" + a + ") : (" + b + ")", func(row int) truth {
				switch fc(row) {
				case 1:
					return fa(row)
				case -1:
					return fb(row)
				}
				return 0
			}
		}
	}
	c := &r.cols[1+g.IntN(len(r.cols)-1)]
	name := c.Name
	_, v := r.column(name)
	if g.IntN(6) == 0 && c.Nullable {
		return name + " == nil", func(row int) truth { return truthOf(v.Null(row)) }
	}
	o := []string{"<", "<=", ">", ">=", "==", "!="}[g.IntN(6)]
	is := func(k int) bool {
		return map[string]bool{"<": k < 0, "<=": k <= 0, ">": k > 0, ">=": k >= 0, "==": k == 0, "!=": k != 0}[o]
	}
	switch class(c.DType) {
	case 'b':
		return name, func(row int) truth {
			if v.Null(row) {
				return 0
			}
			return truthOf(v.Data[row] == 1)
		}
	case 't':
		want := []string{"", "a", "b", "c", "é"}[g.IntN(5)]
		known := func(f func(s string) bool) func(row int) truth {
			return func(row int) truth {
				if v.Null(row) {
					return 0
				}
				return truthOf(f(string(v.Str(row))))
			}
		}
		switch g.IntN(4) {
		case 0:
			return fmt.Sprintf("%s startsWith %q", name, want), known(func(s string) bool { return strings.HasPrefix(s, want) })
		case 1:
			return fmt.Sprintf("%s in [%q, \"ab\"]", name, want), known(func(s string) bool { return s == want || s == "ab" })
		}
		return fmt.Sprintf("%s %s %q", name, o, want), known(func(s string) bool { return is(strings.Compare(s, want)) })
	}
	if g.IntN(4) == 0 && class(c.DType) != 'f' {
		var list []string
		for range 1 + g.IntN(8) {
			list = append(list, fmt.Sprint(g.IntN(12)-6))
		}
		return name + " in [" + strings.Join(list, ", ") + "]", func(row int) truth {
			x := r.exact(name, row)
			if x == nil {
				return 0
			}
			return truthOf(slices.ContainsFunc(list, func(s string) bool {
				y, _, _ := big.ParseFloat(s, 10, 80, big.ToNearestEven)
				return x.Cmp(y) == 0
			}))
		}
	}
	lit := []string{"0", "1", "-1", "0.5", "-2.5", "0.1", "3", "9223372036854775807", "1e30", "-1e30", "9007199254740993", "200", "-200"}[g.IntN(13)]
	want, _, err := big.ParseFloat(strings.TrimSuffix(lit, ".0"), 10, 80, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	if class(c.DType) == 'f' { // rounded to the column's type
		f, _ := want.Float64()
		switch c.DType {
		case catalog.Float32:
			f = float64(float32(f))
		case catalog.Float16:
			f = catalog.HalfToFloat(catalog.FloatToHalf(f))
		}
		want = new(big.Float).SetFloat64(f)
	}
	return fmt.Sprintf("%s %s %s", name, o, lit), func(row int) truth {
		x := r.exact(name, row)
		if x == nil {
			return 0
		}
		return truthOf(is(x.Cmp(want)))
	}
}

func TestAPredicateSelectsWhatSQLsThreeValuesSay(t *testing.T) {
	r := everyType(t)
	g := rand.New(rand.NewPCG(7, 8))
	for i := range 600 {
		where, want := randomWhere(g, r, i%4)
		r.check(t, Selection{Where: where}, func(row int) bool { return want(row) == 1 })
	}
}

func TestPredicatesOverTwoColumnsArithmeticAndFlags(t *testing.T) {
	r := everyType(t)
	num := func(name string) func(row int) float64 {
		return func(row int) float64 {
			if x, null := r.float(name, row); !null {
				return x
			}
			return math.NaN()
		}
	}
	i32, f64, u8 := num("n_int32"), num("n_float64"), num("a_uint8")
	big := func(a, b string, is func(k int) bool) func(int) bool {
		return func(row int) bool {
			x, y := r.exact(a, row), r.exact(b, row)
			return x != nil && y != nil && is(x.Cmp(y))
		}
	}
	for where, want := range map[string]func(row int) bool{
		"n_int64 < a_uint64":            big("n_int64", "a_uint64", func(k int) bool { return k < 0 }),
		"a_int64 == n_int64":            big("a_int64", "n_int64", func(k int) bool { return k == 0 }),
		"a_uint64 >= a_int8":            big("a_uint64", "a_int8", func(k int) bool { return k >= 0 }),
		"n_int32 + n_float64 > 0.5":     func(row int) bool { return i32(row)+f64(row) > 0.5 },
		"abs(n_float64) * 2 <= a_uint8": func(row int) bool { return math.Abs(f64(row))*2 <= u8(row) },
		"not (n_int32 - n_float64 > 0)": func(row int) bool { return i32(row)-f64(row) <= 0 },
		"(n_float64 ?? 7) == 7":         func(row int) bool { return math.IsNaN(f64(row)) },
		"isnan(a_float64)":              func(row int) bool { return math.IsNaN(num("a_float64")(row)) },
		"not isnan(a_float64)":          func(row int) bool { return !math.IsNaN(num("a_float64")(row)) },
		"bitand(a_uint8, 3) == 1":       func(row int) bool { return int(u8(row))&3 == 1 },
		"not (bitand(a_uint8, 3) != 0)": func(row int) bool { return int(u8(row))&3 == 0 },
		"n_int32 in 0..2":               func(row int) bool { return i32(row) >= 0 && i32(row) <= 2 },
		"n_int32 not in 0..2":           func(row int) bool { return i32(row) < 0 || i32(row) > 2 },
		"min(n_int32, n_float64) < 0":   func(row int) bool { return math.Min(i32(row), f64(row)) < 0 },
		`$env["a_bool"] == a_bool`:      func(int) bool { return true },
		"true":                          func(int) bool { return true },
		"0 < a_int8 < 3":                func(row int) bool { x := num("a_int8")(row); return 0 < x && x < 3 },
		"false or n_float64 == 2 ** 53": func(row int) bool { return f64(row) == 1<<53 },
		"1 > a_int8 and -1 < a_int8":    func(row int) bool { return num("a_int8")(row) == 0 },
		`a_string matches "^a.?$"`: func(row int) bool {
			_, v := r.column("a_string")
			s := string(v.Str(row))
			return s == "a" || s == "ab"
		},
		"n_int32 != n_int32": func(int) bool { return false },
		"isnull(n_string) and not a_bool": func(row int) bool {
			_, v := r.column("n_string")
			_, b := r.column("a_bool")
			return v.Null(row) && b.Data[row] == 0
		},
	} {
		r.check(t, Selection{Where: where}, want)
	}
}

func TestWhatMakesNoSenseIsRefusedBeforeAnythingIsRead(t *testing.T) {
	r := everyType(t)
	r.cols = append(r.cols, catalog.Column{Name: "image", Kind: catalog.Tensor, DType: catalog.Float32, Shape: []int{2}})
	r.table.Release.Dataset.Columns = r.cols
	for where, say := range map[string]string{
		"zz < 1":                          `no column "zz"`,
		"A_INT8 < 1":                      "did you mean a_int8",
		"a_int8 <":                        "",
		"a_int8 = 1":                      "equality is ==",
		"a_int8 < 1 AND a_int16 > 2":      "lower case",
		"n_int8 IS NULL":                  "x == nil",
		"a_string < 1":                    "quoted",
		`a_int8 == "1"`:                   "does not compare",
		"a_int8":                          "condition",
		"image < 1":                       "scalars",
		"a_float32 in 1..5":               "two comparisons",
		"a_bool == 1":                     "does not compare",
		"a_string + 1 > 2":                "number",
		"frobnicate(a_int8) > 1":          "isnull(x)",
		"a_int8 in a_int16":               "list",
		`a_string matches "("`:            "missing closing",
		"bitand(a_float32, 1) == 1":       "integers",
		"a_int8.b > 1":                    "column",
		"all([1], # > 0)":                 "",
		"1 < 2":                           "",
		strings.Repeat("(", 70000) + "1":  "bytes",
		strings.Repeat("not ", 600) + "a": "",
	} {
		_, err := Select(context.Background(), r.table, Selection{Where: where}, Options{})
		if where == "1 < 2" {
			if err != nil {
				t.Errorf("%s: %v", where, err)
			}
			continue
		}
		if !errors.Is(err, ErrQuery) || !strings.Contains(err.Error(), say) {
			t.Errorf("%.60s: %v; it should say %q", where, err, say)
		}
	}
	for _, s := range []Selection{
		{Limit: -1}, {Sample: 1.5}, {Sample: math.NaN()}, {Split: "nosuch"}, {Splits: []Share{{"a", 1}}}, {Split: "a", Splits: []Share{{"a", 0.7}, {"b", 0.7}}},
		{Region: &Region{}}, {Region: &Region{Cone: &Cone{1, 2, 3}}},
	} {
		if _, err := Select(context.Background(), r.table, s, Options{}); !errors.Is(err, ErrQuery) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if len(r.reads) > 0 {
		t.Errorf("files were opened: %v", r.reads)
	}
}

func TestStatisticsSpareFilesThatHoldNoSuchRow(t *testing.T) {
	cols := []catalog.Column{scalarColumn("id", catalog.Int64, false), scalarColumn("z", catalog.Float32, true)}
	looked := int64(0)
	r := newRelease(t, cols, func(c *catalog.Column, v *catalog.Vector, row int) {
		if c.Name == "id" {
			put(c, v, uint64(row), "", false)
		} else {
			put(c, v, uint64(math.Float32bits(float32(row))), "", row%7 == 0)
		}
	}, []int{1000, 1000}, []int{1000})
	r.check(t, Selection{Where: "z >= 2500"}, func(row int) bool { return row >= 2500 && row%7 != 0 })
	var tasks []task
	p, err := (&Selection{Where: "z >= 2500"}).check(&r.table.Release.Dataset)
	if err != nil {
		t.Fatal(err)
	}
	sc := &scan{table: r.table, plan: p, cache: &cache{}, starts: []int64{0, 1000, 2000, 3000}, opt: Options{Threads: 1}}
	if _, tasks, err = sc.open(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, x := range tasks {
		looked += x.rows
	}
	if looked != 1000 {
		t.Errorf("%d rows are looked at, of the one shard that can hold any there are 1000", looked)
	}
}

// skyRelease has random positions, some at poles, borders and where right ascension begins.
func skyRelease(t testing.TB, n int) *release {
	cols := []catalog.Column{scalarColumn("id", catalog.String, false), scalarColumn("ra", catalog.Float64, false), scalarColumn("dec", catalog.Float64, false), scalarColumn(healpixColumn, catalog.Int64, false)}
	g := rand.New(rand.NewPCG(11, 12))
	var ra, dec float64
	return newRelease(t, cols, func(c *catalog.Column, v *catalog.Vector, row int) {
		switch c.Name {
		case "id":
			ra, dec = 360*g.Float64(), math.Asin(2*g.Float64()-1)*180/math.Pi
			switch g.IntN(12) {
			case 0:
				ra = math.Mod(359.99+0.02*g.Float64(), 360)
			case 1:
				dec = 90 - 0.01*g.Float64()
			case 2:
				ra, dec = 45*float64(g.IntN(8)), float64(g.IntN(3)-1)*90
			}
			put(c, v, 0, fmt.Sprintf("obj-%d", row), false)
		case "ra":
			put(c, v, math.Float64bits(ra), "", false)
		case "dec":
			put(c, v, math.Float64bits(dec), "", false)
		default:
			p, err := sky.Healpix29(ra, dec)
			if err != nil {
				t.Fatal(err)
			}
			put(c, v, uint64(p), "", false)
		}
	}, []int{n / 2, n / 4}, []int{n - n/2 - n/4})
}

func TestRegionsHoldExactlyThePositionsInside(t *testing.T) {
	r := skyRelease(t, 4000)
	at := func(row int) (float64, float64) {
		_, ra := r.column("ra")
		_, dec := r.column("dec")
		return floatAt(catalog.Float64, ra, row), floatAt(catalog.Float64, dec, row)
	}
	g := rand.New(rand.NewPCG(13, 14))
	for range 60 {
		c := Cone{360 * g.Float64(), 180*g.Float64() - 90, math.Pow(10, 4*g.Float64()-2)}
		r.check(t, Selection{Region: &Region{Cone: &c}}, func(row int) bool {
			ra, dec := at(row)
			return sky.Separation(c.RA, c.Dec, ra, dec) <= c.Radius
		})
		b := Box{RA: [2]float64{720*g.Float64() - 360, 720*g.Float64() - 360}, Dec: [2]float64{-90 * g.Float64(), 90 * g.Float64()}}
		r.check(t, Selection{Region: &Region{Box: &b}}, func(row int) bool {
			ra, dec := at(row)
			width := math.Mod(math.Mod(b.RA[1]-b.RA[0], 360)+360, 360)
			if b.RA[1]-b.RA[0] >= 360 {
				width = 360
			}
			east := math.Mod(math.Mod(ra-b.RA[0], 360)+360, 360)
			return east <= width && dec >= b.Dec[0] && dec <= b.Dec[1]
		})
		// A convex polygon is where all half-spaces of its sides meet.
		ra0, dec0 := 360*g.Float64(), 180*g.Float64()-90
		var corners [][2]float64
		m := unit(ra0, dec0)
		east := vector{-math.Sin(ra0 * math.Pi / 180), math.Cos(ra0 * math.Pi / 180), 0}
		north := m.cross(east)
		size := 0.9 * g.Float64()
		for k := range 5 {
			a := 2 * math.Pi * (float64(k) + 0.6*g.Float64()) / 5
			var p vector
			for i := range p {
				p[i] = m[i] + size*(math.Cos(a)*east[i]+math.Sin(a)*north[i])
			}
			corners = append(corners, [2]float64{math.Atan2(p[1], p[0]) * 180 / math.Pi, math.Asin(p[2]/p.norm()) * 180 / math.Pi})
		}
		r.check(t, Selection{Region: &Region{Polygon: corners}}, func(row int) bool {
			ra, dec := at(row)
			v := unit(ra, dec)
			for k := range corners {
				a, b := unit(corners[k][0], corners[k][1]), unit(corners[(k+1)%5][0], corners[(k+1)%5][1])
				if a.cross(b).dot(v) < 0 {
					return false
				}
			}
			return true
		})
		p := Pixels{Order: g.IntN(6)}
		for range 5 {
			p.Pix = append(p.Pix, g.Int64N(sky.Pixels(p.Order)))
		}
		r.check(t, Selection{Region: &Region{Pixels: &p}}, func(row int) bool {
			ra, dec := at(row)
			x, err := sky.Pix(p.Order, ra, dec)
			return err == nil && slices.Contains(p.Pix, x)
		})
	}
}

func TestSplitsAndSamplesDependOnTheIdAlone(t *testing.T) {
	r := skyRelease(t, 4000)
	_, ids := r.column("id")
	n := map[string]uint64{}
	in := map[int]string{}
	for _, s := range []string{"train", "val", "test"} {
		got := r.selected(t, Selection{Split: s, Key: 5}, Options{})
		n[s] = got.Len()
		for row := range r.rows {
			if got.Has(int64(row)) {
				if other, ok := in[row]; ok {
					t.Fatalf("row %d is in %s and %s", row, other, s)
				}
				in[row] = s
			}
		}
	}
	if len(in) != r.rows {
		t.Fatalf("%d of %d rows are in a split", len(in), r.rows)
	}
	if math.Abs(float64(n["train"])-3200) > 120 || math.Abs(float64(n["val"])-400) > 80 {
		t.Errorf("splits have %v rows", n)
	}
	half := r.selected(t, Selection{Sample: 0.5, Key: 5}, Options{})
	tenth := r.selected(t, Selection{Sample: 0.1, Key: 5}, Options{})
	other := r.selected(t, Selection{Sample: 0.5, Key: 6}, Options{})
	same := 0
	for row := range int64(r.rows) {
		if tenth.Has(row) && !half.Has(row) {
			t.Fatalf("row %d is in a sample of a tenth and not in one of a half", row)
		}
		if half.Has(row) == other.Has(row) {
			same++
		}
		if want := drawn("sample", 5, 0, 0.5)(ids.Str(int(row))); half.Has(row) != want {
			t.Fatalf("row %d: the sample is no function of its id", row)
		}
	}
	if math.Abs(float64(half.Len())-2000) > 150 || math.Abs(float64(same)-2000) > 150 {
		t.Errorf("half has %d rows, of which %d agree with another key", half.Len(), same)
	}
	// The published vectors of the draw.
	for id, want := range map[string]bool{"obj-0": false, "obj-1": true, "42": true} {
		if got := drawn("sample", 5, 0, 0.5)([]byte(id)); got != want {
			t.Errorf("id %s: %v", id, got)
		}
	}
}

func TestIdsAreFoundAndMissingOnesNamed(t *testing.T) {
	r := skyRelease(t, 1000)
	r.check(t, Selection{IDs: []string{"obj-3", "obj-999", "obj-3"}}, func(row int) bool { return row == 3 || row == 999 })
	r.check(t, Selection{IDs: []string{"obj-3", "obj-999"}, Where: "dec > 200"}, func(int) bool { return false })
	r.check(t, Selection{IDs: []string{}}, func(int) bool { return false })
	_, err := Select(context.Background(), r.table, Selection{IDs: []string{"obj-3", "nova", "quasar"}}, Options{})
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "2 of 3: nova, quasar") {
		t.Error(err)
	}
}

func TestLimitKeepsTheFirstRowsOfWhatIsSelected(t *testing.T) {
	r := everyType(t)
	for _, limit := range []int64{1, 63, 64, 65, 700, 5000} {
		want := r.selected(t, Selection{Where: "a_int8 > 0"}, Options{})
		r.check(t, Selection{Where: "a_int8 > 0", Limit: limit}, func(row int) bool {
			return want.Has(int64(row)) && want.rank(int64(row)) < uint64(limit)
		})
		r.check(t, Selection{Limit: limit}, func(row int) bool { return int64(row) < limit })
	}
}

func TestProcessesShareWhatOneFound(t *testing.T) {
	r := everyType(t)
	dir := t.TempDir()
	s := Selection{Where: "n_int32 > 0 and a_float32 < 2 and n_string != \"a\""}
	want := r.selected(t, s, Options{})
	clear(r.reads)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := Select(context.Background(), r.table, s, Options{Cache: dir, Threads: 1})
			if err != nil {
				t.Error(err)
				return
			}
			if !slices.Equal(got.words, want.words) || got.mapped == nil {
				t.Error("another bitmap, or one that is not shared")
			}
			if err := got.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for name, n := range r.reads {
		if n != 1 {
			t.Errorf("%s was opened %d times for 8 equal selections", name, n)
		}
	}
	// Columns that were decoded whole serve other predicates, nulls included.
	for range 2 {
		got := r.selected(t, Selection{Where: "n_int32 == nil or a_float32 >= 0.5"}, Options{Cache: dir})
		plain := r.selected(t, Selection{Where: "n_int32 == nil or a_float32 >= 0.5"}, Options{})
		if !slices.Equal(got.words, plain.words) {
			t.Fatal("columns from the cache select other rows")
		}
		if _, err := os.Stat(dir); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, e := range entries {
		name := e.Name()
		kinds[filepath.Ext(name)]++
		// A file that was cut or changed is not believed.
		if strings.HasSuffix(name, ".rows") {
			b, err := os.ReadFile(dir + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)-1] ^= 1
			if err := os.WriteFile(dir+"/"+name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kinds[".rows"] != 2 || kinds[".column"] == 0 || kinds[""] != 1 || len(kinds) != 3 { // and the file of locks
		t.Errorf("the cache holds %v", kinds)
	}
	if got := r.selected(t, s, Options{Cache: dir}); !slices.Equal(got.words, want.words) {
		t.Error("a damaged bitmap was believed")
	}
}

func TestADigestNamesTheRowsAndNotTheQuestion(t *testing.T) {
	r := everyType(t)
	a := r.selected(t, Selection{Where: "a_int8 > 0"}, Options{})
	b := r.selected(t, Selection{Where: "not (a_int8 <= 0)"}, Options{})
	c := r.selected(t, Selection{Where: "a_int8 > 1"}, Options{})
	if a.Digest() != b.Digest() || a.Digest() == c.Digest() {
		t.Error(a.Digest(), b.Digest(), c.Digest())
	}
}

func FuzzParseWhere(f *testing.F) {
	for _, s := range []string{"z < 0.5 and mag_r < 19", "not (a in [1,2]) or b == nil", `s matches "a+"`, "bitand(f, 4) != 0", "x ? y : z", `$env["a"] > 1`, "1..2", "-z > 1e400"} {
		f.Add(s)
	}
	cols := []catalog.Column{scalarColumn("z", catalog.Float32, true), scalarColumn("a", catalog.Int64, false), scalarColumn("b", catalog.Bool, false), scalarColumn("s", catalog.String, false), scalarColumn("f", catalog.Uint16, false)}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := ParseWhere(s, cols)
		if err != nil {
			if !errors.Is(err, ErrQuery) {
				t.Fatal(err)
			}
			return
		}
		c := &chunk{rows: 3, columns: make([]*catalog.Vector, len(w.Columns)), load: func(i int) (*catalog.Vector, error) {
			if w.Columns[i].DType == catalog.String {
				return &catalog.Vector{Rows: 3, Data: []byte("abc"), Offsets: []int64{0, 1, 1, 3}}, nil
			}
			return &catalog.Vector{Rows: 3, Data: make([]byte, 3*w.Columns[i].DType.Size()), Valid: []bool{true, false, true}}, nil
		}}
		out := make([]uint64, 1)
		if err := w.root.eval(c, out); err != nil {
			t.Fatal(err)
		}
		if out[0]>>3 != 0 {
			t.Fatalf("%q sets bits beyond the rows", s)
		}
	})
}
