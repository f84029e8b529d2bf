package survey

import (
	"math"
	"strings"
	"testing"

	"astropile/internal/catalog"
)

func TestHalfFloatsGoBothWays(t *testing.T) {
	for h := range 1 << 16 {
		f := catalog.HalfToFloat(uint16(h))
		exp, mant := h>>10&31, float64(h&1023)
		want := math.Ldexp(1024+mant, exp-25)
		switch {
		case exp == 0:
			want = math.Ldexp(mant, -24)
		case exp == 31 && mant == 0:
			want = math.Inf(1)
		case exp == 31:
			want = math.NaN()
		}
		if h>>15 == 1 {
			want = -want
		}
		if math.Float64bits(f) != math.Float64bits(want) && !(math.IsNaN(f) && math.IsNaN(want)) {
			t.Fatalf("%#04x is %v, want %v", h, f, want)
		}
		if back := catalog.FloatToHalf(f); back != uint16(h) && !math.IsNaN(f) {
			t.Fatalf("%v is %#04x, want %#04x", f, back, h)
		}
	}
	for _, c := range []struct {
		f    float64
		want uint16
	}{{65519.999, 0x7bff}, {65520, 0x7c00}, {1 + 1.0/2048, 0x3c00}, {1 + 3.0/2048, 0x3c02}, {0x1p-25, 0}, {0x1.8p-24, 2}, {-0x1p-14, 0x8400}, {2047.5 / 1024, 0x4000}, {math.Inf(-1), 0xfc00}} {
		if got := catalog.FloatToHalf(c.f); got != c.want {
			t.Errorf("%v rounds to %#04x, want %#04x", c.f, got, c.want)
		}
	}
}

func TestCommonTypeHoldsBothExactlyAndIsTheSameEitherWay(t *testing.T) {
	for _, a := range widening {
		for _, b := range widening {
			x, xc, xok := common(a, b)
			y, yc, yok := common(b, a)
			if x != y || xc != yc || xok != yok {
				t.Errorf("%s and %s give %s, the other way %s", a, b, x, y)
			}
			if xok && !xc && !(holds(x, a) && holds(x, b)) {
				t.Errorf("%s does not hold %s and %s", x, a, b)
			}
			if a == b && x != a {
				t.Errorf("%s and itself give %s", a, x)
			}
		}
	}
	for _, c := range []struct{ a, b, want catalog.DType }{
		{catalog.Uint8, catalog.Int8, catalog.Int16}, {catalog.Uint32, catalog.Int8, catalog.Int64}, {catalog.Uint64, catalog.Int64, ""},
		{catalog.Int16, catalog.Float16, catalog.Float32}, {catalog.Int32, catalog.Float32, catalog.Float64}, {catalog.Int8, catalog.Float16, catalog.Float16},
		{catalog.Int64, catalog.Float32, catalog.Float64}, {catalog.Float64, catalog.Complex64, catalog.Complex128}, {catalog.Bool, catalog.Float32, catalog.Float32},
		{catalog.String, catalog.Int8, ""}, {catalog.Bool, catalog.String, ""}, {catalog.Int64, catalog.Complex128, ""},
	} {
		if got, _, _ := common(c.a, c.b); got != c.want {
			t.Errorf("%s and %s give %q, want %q", c.a, c.b, got, c.want)
		}
	}
}

func TestConversionIsExactOrRefused(t *testing.T) {
	u64 := func(x uint64) []byte { return le.AppendUint64(nil, x) }
	f64 := func(x float64) []byte { return u64(math.Float64bits(x)) }
	i64 := func(x int64) []byte { return u64(uint64(x)) }
	for _, c := range []struct {
		name string
		src  []byte
		from catalog.DType
		to   catalog.DType
		want []byte // nil: refused
	}{
		{"negative to unsigned", i64(-1), catalog.Int64, catalog.Uint64, nil},
		{"large to signed", u64(1 << 63), catalog.Uint64, catalog.Int64, nil},
		{"large to float", u64(1 << 63), catalog.Uint64, catalog.Float64, f64(1 << 63)},
		{"largest to float", u64(math.MaxUint64), catalog.Uint64, catalog.Float64, nil},
		{"largest signed to float", i64(math.MaxInt64), catalog.Int64, catalog.Float64, nil},
		{"least to float", i64(math.MinInt64), catalog.Int64, catalog.Float64, f64(-1 << 63)},
		{"least to int32", i64(math.MinInt64), catalog.Int64, catalog.Int32, nil},
		{"negative narrowed", i64(-128), catalog.Int64, catalog.Int8, []byte{0x80}},
		{"negative not narrowed", i64(-129), catalog.Int64, catalog.Int8, nil},
		{"float that is an integer", f64(-3), catalog.Float64, catalog.Int16, []byte{0xfd, 0xff}},
		{"float that is none", f64(0.5), catalog.Float64, catalog.Int16, nil},
		{"minus zero to integer", f64(math.Copysign(0, -1)), catalog.Float64, catalog.Int16, nil},
		{"NaN to integer", f64(math.NaN()), catalog.Float64, catalog.Int64, nil},
		{"infinity to integer", f64(math.Inf(1)), catalog.Float64, catalog.Uint64, nil},
		{"infinity narrowed", f64(math.Inf(-1)), catalog.Float64, catalog.Float16, []byte{0, 0xfc}},
		{"too large a float", f64(1e300), catalog.Float64, catalog.Float32, nil},
		{"bool", []byte{1}, catalog.Bool, catalog.Int16, []byte{1, 0}},
		{"no bool", []byte{2}, catalog.Bool, catalog.Int16, nil},
		{"no bool, kept", []byte{2}, catalog.Bool, catalog.Bool, nil},
		{"real to complex", f64(2), catalog.Float64, catalog.Complex128, append(f64(2), f64(0)...)},
		{"complex narrowed", append(f64(2), f64(-1)...), catalog.Complex128, catalog.Complex64, []byte{0, 0, 0, 0x40, 0, 0, 0x80, 0xbf}},
		{"complex to real", append(f64(2), f64(0)...), catalog.Complex128, catalog.Float64, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := make([]byte, c.to.Size())
			bad := convert(dst, c.to, c.src, &elem{dt: c.from, size: c.from.Size()}, 1, false)
			if (bad >= 0) != (c.want == nil) || c.want != nil && string(dst) != string(c.want) {
				t.Errorf("first inexact %d, value %x, want %x", bad, dst, c.want)
			}
		})
	}
	// Integers of three bytes, signed.
	dst := make([]byte, 4)
	if bad := convert(dst, catalog.Int32, []byte{0xfe, 0xff, 0xff}, &elem{dt: catalog.Int32, size: 3}, 1, false); bad >= 0 || int32(le.Uint32(dst)) != -2 {
		t.Errorf("three bytes give %d (%d)", int32(le.Uint32(dst)), bad)
	}
	flags := []byte(strings.Repeat("\x00\x01", 20))
	if notBool(flags) != -1 {
		t.Error("booleans refused")
	}
	for i := range flags {
		was := flags[i]
		if flags[i] = 2; notBool(flags) != i {
			t.Errorf("a 2 at %d is found at %d", i, notBool(flags))
		}
		flags[i] = was
	}
}

func TestTextOfIDsIsDecodedAndTrimmed(t *testing.T) {
	for _, c := range [][2]string{
		{"b'   2575025233207519232'", "2575025233207519232"},
		{"  b\"it's\"\x00\x00", "it's"},
		{`b'a\x41\\\'\t'`, `aA\'`},
		{"b'", "b'"}, {"b''", ""}, {"b'a", "b'a"}, {"b'a'b'", "b'a'b'"}, {`b'\q'`, `b'\q'`}, {`b'\x4'`, `b'\x4'`}, {`b'\'`, `b'\'`},
		{"b1", "b1"}, {" \t a b \n", "a b"}, {"", ""},
	} {
		if got, ok := TextID.decode([]byte(c[0])); string(got) != c[1] || !ok {
			t.Errorf("%q gives %q (%v), want %q", c[0], got, ok, c[1])
		}
	}
	if _, ok := TextID.decode([]byte(`b'\xff'`)); ok {
		t.Error("bytes that are no UTF-8 pass")
	}
}

func FuzzTextOfIDs(f *testing.F) {
	f.Add([]byte("b'   2575025233207519232'"))
	f.Add([]byte(`b"\x41\\"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		out := idText(b)
		if len(out) > len(b) || len(out) > 0 && (strings.ContainsRune(idSpace, rune(out[0])) || strings.ContainsRune(idSpace, rune(out[len(out)-1]))) {
			t.Errorf("%q gives %q", b, out)
		}
	})
}
