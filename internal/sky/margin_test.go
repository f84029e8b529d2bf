package sky

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// corner is where three base pixels meet.
var corner = degrees(Atan2(2.0/3, math.Sqrt(5)/3))

// hard are positions where pixels are bent or meet in unusual ways.
var hard = [][2]float64{{0, 90}, {123, -90}, {0, corner}, {90, -corner}, {270, corner}, {0, 0}, {45, 0}, {359.9999999, 41.8}, {45, 89.9999}, {90, 89.99}, {180, -89.999}, {0.00001, 60}, {315, -corner}}

// nearby draws a position within reach degrees of a hard one, or anywhere.
func nearby(t *rapid.T, reach float64) (ra, dec float64) {
	ra, dec = drawPosition(t)
	if k := rapid.IntRange(-3, len(hard)-1).Draw(t, "hard"); k >= 0 {
		ra, dec = offset(hard[k][0], hard[k][1], rapid.Float64Range(0, reach).Draw(t, "far"), rapid.Float64Range(0, 360).Draw(t, "angle"))
	}
	return ra, dec
}

// offset is the position at a distance and an angle (degrees, from north over east) from another.
func offset(ra, dec, far, angle float64) (float64, float64) {
	z := SinDeg(dec)*CosDeg(far) + CosDeg(dec)*SinDeg(far)*CosDeg(angle)
	y := SinDeg(angle) * SinDeg(far) * CosDeg(dec)
	x := CosDeg(far) - SinDeg(dec)*z
	r := math.Hypot(math.Hypot(CosDeg(dec)*CosDeg(far)-SinDeg(dec)*SinDeg(far)*CosDeg(angle), SinDeg(far)*SinDeg(angle)), 0)
	return wrap(ra + degrees(Atan2(y, x))), degrees(Atan2(z, r))
}

// outline samples the edges of a pixel, n points each.
func outline(order int, pix int64, n int64) [][2]float64 {
	face, x, y := split(order, pix)
	deep := order
	for m := int64(1); m < n; m *= 2 {
		deep++
	}
	side := int64(1) << uint(deep-order)
	var out [][2]float64
	for i := int64(0); i <= side; i++ {
		for _, at := range [4][2]int64{{i, 0}, {i, side}, {0, i}, {side, i}} {
			ra, dec := place(deep, face, 2*(x*side+at[0]), 2*(y*side+at[1]))
			out = append(out, [2]float64{ra, dec})
		}
	}
	return out
}

func TestTheDistanceToAPixelIsThatToTheNearestPointOfItsEdges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.IntRange(0, 14).Draw(t, "order")
		width := 58.6 / float64(int64(1)<<order)
		ra, dec := nearby(t, 2*width)
		near, dn := offset(ra, dec, rapid.Float64Range(0, 3*width).Draw(t, "away"), rapid.Float64Range(0, 360).Draw(t, "where"))
		pix, err := Pix(order, near, max(-90, min(90, dn)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Distance(order, pix, ra, dec)
		if err != nil {
			t.Fatal(err)
		}
		if at, _ := Pix(order, ra, dec); at == pix {
			if got != 0 {
				t.Fatalf("%v inside the pixel", got)
			}
			return
		}
		const steps = 2048
		least := 180.0
		for _, p := range outline(order, pix, steps) {
			least = min(least, Separation(ra, dec, p[0], p[1]))
		}
		// Between two samples the edge comes nearer by at most the square of their distance over twice the distance, and by half their distance.
		gap := 2 * width / steps
		if got > least*(1+1e-6)+1e-12 || got < least-min(gap, gap*gap/max(least, 1e-300))-1e-12 {
			t.Fatalf("order %d, pixel %d, position (%v, %v): distance %v, the nearest of its edges' points is at %v", order, pix, ra, dec, got, least)
		}
	})
}

func TestAMarginTouchesExactlyThePixelsWithinItsRadius(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.IntRange(0, 20).Draw(t, "order")
		width := 58.6 / float64(int64(1)<<order)
		radius := min(10, width*rapid.Float64Range(0.001, 2).Draw(t, "radius"))
		m, err := NewMargin(radius)
		if err != nil {
			t.Fatal(err)
		}
		ra, dec := nearby(t, 2*width)
		got, err := m.Pixels(order, ra, dec)
		if err != nil {
			t.Fatal(err)
		}
		for _, pix := range got[:min(2, len(got))] {
			if d, _ := Distance(order, pix, ra, dec); d > radius*(1+4*marginSlack)+1e-12 {
				t.Fatalf("pixel %d of order %d is %v away, over %v", pix, order, d, radius)
			}
		}
		// Every position of the disc is in one of them.
		for k := range 200 {
			far := radius * math.Sqrt(float64(k%20)/19) * (1 - 1e-9)
			pra, pdec := offset(ra, dec, far, float64(k)*137.5)
			pix, err := Pix(order, pra, max(-90, min(90, pdec)))
			if err != nil {
				t.Fatal(err)
			}
			if Separation(ra, dec, pra, pdec) <= radius && !slices.Contains(got, pix) {
				t.Fatalf("order %d: (%v, %v) is %v from (%v, %v), but its pixel %d is not among %v", order, pra, pdec, far, ra, dec, pix, got)
			}
		}
		// And no neighbour that is left out comes nearer.
		var left []int64
		for _, pix := range got {
			around, _ := Neighbours(order, pix)
			for _, n := range around {
				if !slices.Contains(got, n) && !slices.Contains(left, n) {
					left = append(left, n)
				}
			}
		}
		for i := range min(3, len(left)) {
			n := left[(i*7)%len(left)]
			if d, _ := Distance(order, n, ra, dec); d <= radius*(1-4e-6)-1e-12 {
				t.Fatalf("pixel %d of order %d is %v away and left out of %v", n, order, d, radius)
			}
		}
	})
}

func TestAtAMarginsOrderOnlyNeighboursAreWithinItsRadius(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, radius := range []float64{10.0 / 3600, 1.0 / 3600, 0.1, 2, 0.7} {
		m, err := NewMargin(radius)
		if err != nil {
			t.Fatal(err)
		}
		order := m.Order()
		if order == 0 || order == MaxOrder {
			t.Fatalf("%v degrees: order %d", radius, order)
		}
		width := 58.6 / float64(int64(1)<<order)
		for k := range 3000 {
			ra, dec := 360*r.Float64(), degrees(Atan2(2*r.Float64()-1, 1))
			if k%3 > 0 {
				h := hard[k%len(hard)]
				ra, dec = offset(h[0], h[1], 2*width*r.Float64(), 360*r.Float64())
			}
			dec = max(-90, min(90, dec))
			pix, err := Pix(order, ra, dec)
			if err != nil {
				t.Fatal(err)
			}
			around, _ := Neighbours(order, pix)
			got, err := m.Pixels(order, ra, dec)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range got {
				if p != pix && !slices.Contains(around, p) {
					t.Fatalf("radius %v, order %d: (%v, %v) in pixel %d touches pixel %d, no neighbour of it", radius, order, ra, dec, pix, p)
				}
			}
		}
	}
}

func TestAMarginOfNothingSensibleIsRefused(t *testing.T) {
	for _, r := range []float64{-1, 10.1, math.NaN(), math.Inf(1)} {
		if _, err := NewMargin(r); !errors.Is(err, ErrPosition) {
			t.Errorf("radius %v: %v", r, err)
		}
	}
	m, err := NewMargin(0)
	if err != nil {
		t.Fatal(err)
	}
	if m.Order() != MaxOrder {
		t.Errorf("a margin of no width has order %d", m.Order())
	}
	if m.Touches(30, 0, 0, 0) || m.Touches(1, 48, 0, 0) || m.Touches(1, 0, math.NaN(), 0) {
		t.Error("it touches what does not exist")
	}
	if _, err := m.Pixels(2, 0, 91); !errors.Is(err, ErrPosition) {
		t.Error(err)
	}
	if _, err := Distance(1, 48, 0, 0); !errors.Is(err, ErrPixel) {
		t.Error(err)
	}
	if _, err := Distance(1, 4, 0, math.NaN()); !errors.Is(err, ErrPosition) {
		t.Error(err)
	}
}

func TestARimIsThePixelsWithANeighbourOutside(t *testing.T) {
	for coarser := range 3 {
		for order := coarser; order < coarser+4; order++ {
			for pix := range Pixels(order) {
				around, _ := Neighbours(order, pix)
				parent, _ := Parent(order, pix, coarser)
				want := order == coarser
				for _, n := range around {
					if p, _ := Parent(order, n, coarser); p != parent {
						want = true
					}
				}
				if got := OnRim(order, pix, coarser); got != want {
					t.Fatalf("pixel %d of order %d in order %d: %t", pix, order, coarser, got)
				}
			}
		}
	}
}

func BenchmarkMarginPixels(b *testing.B) {
	m, _ := NewMargin(10.0 / 3600)
	for i := range b.N {
		_, _ = m.Pixels(m.Order(), float64(i%36000)/100, float64(i%17000)/100-85)
	}
}
