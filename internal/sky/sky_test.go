package sky

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawPosition(t *rapid.T) (ra, dec float64) {
	ra = rapid.Float64Range(0, 360).Draw(t, "ra")
	z := rapid.Float64Range(-1, 1).Draw(t, "z")
	return ra, degrees(Atan2(z, math.Sqrt(float64((1-z)*(1+z)))))
}

func TestWhatIsNotAPositionIsRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, p := range [][2]float64{{nan, 0}, {0, nan}, {inf, 0}, {-inf, 0}, {0, inf}, {0, -inf}, {0, 90.00000000000001}, {0, -90.00000000000001}} {
		if _, err := Pix(10, p[0], p[1]); !errors.Is(err, ErrPosition) {
			t.Errorf("Pix(10, %v, %v): error %v, want ErrPosition", p[0], p[1], err)
		}
		if _, err := Cone(p[0], p[1], 1, 5); !errors.Is(err, ErrPosition) {
			t.Errorf("Cone(%v, %v): error %v, want ErrPosition", p[0], p[1], err)
		}
	}
	for _, r := range []float64{nan, -1, 181, inf} {
		if _, err := Cone(0, 0, r, 5); !errors.Is(err, ErrPosition) {
			t.Errorf("a cone of radius %v: error %v, want ErrPosition", r, err)
		}
	}
	for _, order := range []int{-1, 30, math.MaxInt, math.MinInt} {
		if _, err := Pix(order, 0, 0); !errors.Is(err, ErrOrder) {
			t.Errorf("order %d: error %v, want ErrOrder", order, err)
		}
		if _, _, err := Center(order, 0); !errors.Is(err, ErrOrder) {
			t.Errorf("centre at order %d: error %v, want ErrOrder", order, err)
		}
	}
	for _, pix := range []int64{-1, 48, math.MaxInt64, math.MinInt64} {
		if _, _, err := Center(1, pix); !errors.Is(err, ErrPixel) {
			t.Errorf("pixel %d: error %v, want ErrPixel", pix, err)
		}
		if _, err := Neighbours(1, pix); !errors.Is(err, ErrPixel) {
			t.Errorf("neighbours of pixel %d: error %v, want ErrPixel", pix, err)
		}
		if lo, hi := Span(1, pix); lo != 0 || hi != 0 {
			t.Errorf("span of pixel %d: [%d, %d), want none", pix, lo, hi)
		}
	}
}

func TestEveryFinitePositionHasAPixel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ra := rapid.Float64().Filter(func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }).Draw(t, "ra")
		dec := rapid.Float64Range(-90, 90).Draw(t, "dec")
		order := rapid.IntRange(0, MaxOrder).Draw(t, "order")
		pix, err := Pix(order, ra, dec)
		if err != nil || pix < 0 || pix >= Pixels(order) {
			t.Fatalf("Pix(%d, %v, %v) = %d, %v", order, ra, dec, pix, err)
		}
		fine, _ := Healpix29(ra, dec)
		if parent, _ := Parent(MaxOrder, fine, order); parent != pix {
			t.Fatalf("the parent of the order-29 pixel is %d, the pixel itself %d", parent, pix)
		}
		if lo, hi := Span(order, pix); fine < lo || fine >= hi {
			t.Fatalf("%d is not in [%d, %d)", fine, lo, hi)
		}
	})
}

func TestAPixelHoldsItsCentreAndTouchesItsNeighbours(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.IntRange(0, MaxOrder).Draw(t, "order")
		pix := rapid.Int64Range(0, Pixels(order)-1).Draw(t, "pix")
		ra, dec, err := Center(order, pix)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Pix(order, ra, dec); got != pix || err != nil {
			t.Fatalf("the centre (%v, %v) of pixel %d lies in pixel %d (%v)", ra, dec, pix, got, err)
		}
		around, err := Neighbours(order, pix)
		if err != nil || len(around) < 6 || len(around) > 8 {
			t.Fatalf("neighbours %v, %v", around, err)
		}
		for i, n := range around {
			back, _ := Neighbours(order, n)
			if n == pix || slices.Contains(around[:i], n) || !slices.Contains(back, pix) {
				t.Fatalf("pixel %d has the neighbours %v, of which %d has %v", pix, around, n, back)
			}
		}
	})
}

func TestChildrenTileTheirParent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.IntRange(0, MaxOrder).Draw(t, "order")
		pix := rapid.Int64Range(0, Pixels(order)-1).Draw(t, "pix")
		finer := rapid.IntRange(order, min(MaxOrder, order+4)).Draw(t, "finer")
		lo, hi, err := Children(order, pix, finer)
		if err != nil || hi-lo != 1<<(2*(finer-order)) {
			t.Fatalf("children [%d, %d), %v", lo, hi, err)
		}
		for c := lo; c < hi; c++ {
			if p, err := Parent(finer, c, order); p != pix || err != nil {
				t.Fatalf("parent of %d is %d, %v", c, p, err)
			}
		}
		if got, want := float64(hi-lo)*Area(finer), Area(order); math.Abs(got-want) > 1e-12*want {
			t.Fatalf("areas %v and %v", got, want)
		}
	})
}

func TestNoPointOfAPixelLiesBeyondItsReach(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, order := range []int{0, 1, 2, 3, 5, 8, 12, 20, 29} {
		reach := pixelReach(order)
		var widest float64
		for i := range 4000 {
			pix := rng.Int64N(Pixels(order))
			if order <= 3 {
				pix = int64(i) % Pixels(order)
			}
			face, x, y := split(order, pix)
			cra, cdec := place(order, face, 2*x+1, 2*y+1)
			corners, err := Corners(order, pix)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range corners {
				widest = max(widest, Separation(cra, cdec, c[0], c[1]))
			}
			// Points along the rim, seen as corners of finer pixels.
			if fine := min(MaxOrder, order+6) - order; fine > 0 {
				k := order + fine
				s := int64(1) << fine
				at := rng.Int64N(s)
				for _, e := range [4][2]int64{{0, at}, {s, at}, {at, 0}, {at, s}} {
					ra, dec := place(k, face, 2*(x*s+e[0]), 2*(y*s+e[1]))
					widest = max(widest, Separation(cra, cdec, ra, dec))
				}
			}
		}
		if !(widest <= reach) {
			t.Errorf("order %d: a point lies %v degrees from its pixel's centre, beyond %v", order, widest, reach)
		}
		if order < 3 && widest < 0.9*reach {
			t.Errorf("order %d: the reach of %v is loose, the farthest point lies at %v", order, reach, widest)
		}
	}
}

func TestAConeCoversEveryPositionInIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ra, dec := drawPosition(t)
		if rapid.Bool().Draw(t, "special") {
			ra = rapid.SampledFrom([]float64{0, 45, 90, 359.9999999, 180, -30}).Draw(t, "ra0")
			dec = rapid.SampledFrom([]float64{90, -90, 0, 41.8103, -41.8103}).Draw(t, "dec0")
		}
		radius := math.Pow(10, rapid.Float64Range(-8, 2.25).Draw(t, "radius"))
		order := rapid.IntRange(0, MaxOrder).Draw(t, "order")
		region, err := Cone(ra, dec, radius, order)
		if err != nil {
			t.Fatal(err)
		}
		for i := range region {
			if region[i].Lo >= region[i].Hi || i > 0 && region[i].Lo <= region[i-1].Hi {
				t.Fatalf("ranges not sorted and apart: %v", region)
			}
		}
		for range 50 {
			// A point at a random distance up to the radius, in a random direction.
			d := radius * rapid.Float64Range(0, 1).Draw(t, "share")
			a := rapid.Float64Range(0, 360).Draw(t, "angle")
			y := SinDeg(d) * SinDeg(a)
			z := SinDeg(dec)*CosDeg(d) + CosDeg(dec)*SinDeg(d)*CosDeg(a)
			pra := ra + degrees(Atan2(y*CosDeg(dec), CosDeg(d)-SinDeg(dec)*z))
			pdec := degrees(Atan2(z, math.Sqrt(max(0, (1-z)*(1+z)))))
			if Separation(ra, dec, pra, pdec) > radius {
				continue
			}
			pix, err := Healpix29(pra, pdec)
			if err != nil {
				t.Fatal(err)
			}
			if !region.Contains(pix) {
				t.Fatalf("(%v, %v) lies %v from (%v, %v), its pixel %d is not covered", pra, pdec, Separation(ra, dec, pra, pdec), ra, dec, pix)
			}
		}
	})
}

func TestAConeIsNotMuchLargerThanItMustBe(t *testing.T) {
	for _, c := range []struct {
		radius float64
		order  int
	}{{10, 7}, {1, 11}, {30, 6}, {0.01, 18}, {100, 6}} {
		region, err := Cone(123, 37, c.radius, c.order)
		if err != nil {
			t.Fatal(err)
		}
		want := (1 - CosDeg(c.radius)) / 2
		if got := region.Fraction(); got < want || got > 1.1*want {
			t.Errorf("a cone of %v degrees at order %d covers %v of the sky, its own share is %v", c.radius, c.order, got, want)
		}
	}
	whole, err := Cone(0, 0, 180, 3)
	if err != nil || !slices.Equal(whole, Ranges{{0, Pixels(MaxOrder)}}) {
		t.Errorf("the whole sky is %v, %v", whole, err)
	}
}

func TestAWideConeAtAFineOrderStaysSmall(t *testing.T) {
	region, err := Cone(10, 10, 60, MaxOrder)
	if err != nil {
		t.Fatal(err)
	}
	if len(region) > 2*maxFrontier {
		t.Errorf("%d ranges", len(region))
	}
}

func TestSeparationIsAccurateAtEveryDistance(t *testing.T) {
	for _, c := range []struct{ ra1, dec1, ra2, dec2, want float64 }{
		{0, 0, 180, 0, 180}, {0, 90, 77, -90, 180}, {10, 90, 200, 90, 0}, {0, 0, 90, 0, 90}, {359.5, 0, 0.5, 0, 1},
		{12, 34, 12, 34 + 0x1p-40, 0x1p-40}, {0, 60, 0x1p-40, 60, 0x1p-41}, {0, 0, 179.99999999, 0, 179.99999999},
	} {
		got := Separation(c.ra1, c.dec1, c.ra2, c.dec2)
		if !(math.Abs(got-c.want) <= 1e-15*c.want) {
			t.Errorf("Separation(%v, %v, %v, %v) = %v, want %v", c.ra1, c.dec1, c.ra2, c.dec2, got, c.want)
		}
	}
}

func TestRangesKeepTheSetTheyWereMadeFrom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in []Range
		want := make([]bool, 64)
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			lo := rapid.Int64Range(0, 60).Draw(t, "lo")
			hi := min(64, lo+rapid.Int64Range(-1, 9).Draw(t, "len"))
			in = append(in, Range{lo, hi})
			for i := lo; i < hi; i++ {
				want[i] = true
			}
		}
		got := NewRanges(in)
		for i := range want {
			if got.Contains(int64(i)) != want[i] {
				t.Fatalf("%v: Contains(%d) is %v", got, i, !want[i])
			}
			for j := i; j <= 64; j++ {
				if got.Overlaps(int64(i), int64(j)) != slices.Contains(want[i:j], true) {
					t.Fatalf("%v: Overlaps(%d, %d) is wrong", got, i, j)
				}
			}
		}
	})
}

func TestStreamAnswersInOrderAndNamesWhatIsWrong(t *testing.T) {
	pack := func(v ...float64) []byte {
		var b []byte
		for _, x := range v {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		return b
	}
	var out bytes.Buffer
	if err := Stream(bytes.NewReader(pack(10, 20, 359, -89)), &out, 29); err != nil {
		t.Fatal(err)
	}
	var want []byte
	for _, p := range [][2]float64{{10, 20}, {359, -89}} {
		pix, _ := Healpix29(p[0], p[1])
		want = binary.LittleEndian.AppendUint64(want, uint64(pix))
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("got %x, want %x", out.Bytes(), want)
	}
	out.Reset()
	err := Stream(bytes.NewReader(pack(10, 20, 0, 91, 1, 1)), &out, 29)
	if !errors.Is(err, ErrPosition) || out.Len() != 8 {
		t.Errorf("a wrong position: %v, %d bytes written", err, out.Len())
	}
	if err := Stream(bytes.NewReader(pack(10)), io.Discard, 29); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a pair: %v", err)
	}
	if err := Stream(bytes.NewReader(nil), io.Discard, 30); !errors.Is(err, ErrOrder) {
		t.Errorf("order 30: %v", err)
	}
}

// The digest was made on amd64; running this test on another architecture (arm64 under qemu) shows that the bits are the same there.
func TestBitsAreTheSameOnEveryMachine(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 42))
	h := sha256.New()
	put := func(vs ...float64) {
		for _, v := range vs {
			h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
		}
	}
	for range 20000 {
		ra, dec := 360*rng.Float64(), float64(180*rng.Float64())-90
		pix, err := Healpix29(ra, dec)
		if err != nil {
			t.Fatal(err)
		}
		cra, cdec, err := Center(MaxOrder, pix)
		if err != nil {
			t.Fatal(err)
		}
		put(float64(pix), cra, cdec, Separation(ra, dec, cra+1, -cdec))
		x, y := float64(2000*rng.Float64())-1000, float64(40*rng.Float64())-20
		put(Sin(x), Cos(x), Sin(x*1e9), Exp(x/2), Log(math.Abs(x)), Pow(math.Abs(x), y), Atan2(x, y), SinDeg(x), CosDeg(x))
	}
	const want = "9091e0381a0760b81eff7261d418176a0b39a5df464f51349da99b388cc7cfe6"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestElementaryFunctionsAtTheirEdges(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	special := []float64{0, math.Copysign(0, -1), 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1e300, -1e300, 1e-300, inf, -inf, nan, math.Ldexp(1, 53) + 2, 5e-324}
	same := func(a, b float64) bool { return math.IsNaN(a) && math.IsNaN(b) || a == b || ulps(a, b) <= 2 }
	for _, x := range special {
		if got, want := Exp(x), math.Exp(x); !same(got, want) {
			t.Errorf("Exp(%v) = %v, want %v", x, got, want)
		}
		if got, want := Log(x), math.Log(x); !same(got, want) && x != 5e-324 { // math's own is wrong by 5% there on amd64
			t.Errorf("Log(%v) = %v, want %v", x, got, want)
		}
		for _, y := range special {
			if got, want := Pow(x, y), math.Pow(x, y); !same(got, want) || math.Signbit(got) != math.Signbit(want) && !math.IsNaN(want) {
				t.Errorf("Pow(%v, %v) = %v, want %v", x, y, got, want)
			}
			if got, want := Atan2(x, y), math.Atan2(x, y); !same(got, want) && (x != 0 || y != 0) {
				t.Errorf("Atan2(%v, %v) = %v, want %v", x, y, got, want)
			}
		}
		if finite := !math.IsInf(x, 0) && !math.IsNaN(x); !finite && !math.IsNaN(Sin(x)+Cos(x)+SinDeg(x)+CosDeg(x)) {
			t.Errorf("sines of %v are numbers", x)
		}
	}
	for q := -8; q <= 8; q++ {
		want := [4][2]float64{{0, 1}, {1, 0}, {0, -1}, {-1, 0}}[q&3]
		if s, c := SinDeg(float64(90*q)), CosDeg(float64(90*q)); s != want[0] || c != want[1] {
			t.Errorf("at %d degrees: %v, %v", 90*q, s, c)
		}
	}
}

func BenchmarkHealpix29(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	var pts [1024][2]float64
	for i := range pts {
		pts[i] = [2]float64{360 * rng.Float64(), degrees(math.Asin(2*rng.Float64() - 1))}
	}
	var sum int64
	for i := 0; b.Loop(); i++ {
		p := pts[i%len(pts)]
		pix, err := Healpix29(p[0], p[1])
		if err != nil {
			b.Fatal(err)
		}
		sum += pix
	}
	_ = sum
}

func BenchmarkElementary(b *testing.B) {
	for name, f := range map[string]func(float64) float64{
		"Sin": Sin, "Exp": Exp, "Log": Log, "Pow": func(x float64) float64 { return Pow(x, 0.25) },
	} {
		b.Run(name, func(b *testing.B) {
			x, sum := 0.0, 0.0
			for b.Loop() {
				x += 0.01
				if x > 20 {
					x = 0.01
				}
				sum += f(x)
			}
			_ = sum
		})
	}
}

func BenchmarkCone(b *testing.B) {
	for b.Loop() {
		if _, err := Cone(150, 2, 1, 12); err != nil {
			b.Fatal(err)
		}
	}
}
