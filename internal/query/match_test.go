package query

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

// positions are random, many near others, and some at the poles, at ra 0 and at the borders of zones.
func positions(g *rand.Rand, n int) (ra, dec []float64) {
	for range n {
		r, d := 360*g.Float64(), math.Asin(2*g.Float64()-1)*180/math.Pi
		switch g.IntN(8) {
		case 0:
			d = 90 - 3*g.Float64()*g.Float64()
		case 1:
			d = -90 + 3*g.Float64()*g.Float64()
		case 2:
			r = math.Mod(360+g.Float64()-0.5, 360)
		case 3:
			r, d = 45*float64(g.IntN(8)), float64(g.IntN(5)-2)*45
		}
		ra, dec = append(ra, r), append(dec, d)
	}
	return ra, dec
}

func TestMatchFindsTheNearestWithinTheRadiusEverywhere(t *testing.T) {
	g := rand.New(rand.NewPCG(21, 22))
	for _, radius := range []float64{1e-4, 0.01, 0.3, 2, 20, 89, 91, 180} {
		raA, decA := positions(g, 700)
		raB, decB := positions(g, 900)
		for i := range 300 { // close pairs
			raB[i] = math.Mod(360+raA[i]+radius*(g.Float64()-0.5)/max(1e-3, sky.CosDeg(decA[i])), 360)
			decB[i] = max(-90, min(90, decA[i]+radius*(g.Float64()-0.5)))
		}
		got, err := Match(context.Background(), raA, decA, raB, decB, radius, 2)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i := range raA {
			best, want := radius, int64(-1)
			for k := range raB {
				if d := sky.Separation(raA[i], decA[i], raB[k], decB[k]); d < best || d <= radius && want < 0 {
					best, want = d, int64(k)
				}
			}
			if got[i] != want {
				// Equal distances, but for the last digits, may be decided either way.
				if got[i] >= 0 && want >= 0 && math.Abs(sky.Separation(raA[i], decA[i], raB[got[i]], decB[got[i]])-best) < 1e-13 {
					continue
				}
				t.Fatalf("radius %v: position %d (%v, %v) matches %d, want %d at %v", radius, i, raA[i], decA[i], got[i], want, best)
			}
			if want >= 0 {
				found++
			}
		}
		if found < 100 {
			t.Fatalf("radius %v: only %d matches, the test shows little", radius, found)
		}
	}
}

func TestPositionsOfASelectionStandInItsOrder(t *testing.T) {
	r := skyRelease(t, 3000)
	rows := r.selected(t, Selection{Where: "dec > 10"}, Options{})
	ra, dec, err := Positions(context.Background(), r.table, rows, Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, va := r.column("ra")
	_, vd := r.column("dec")
	x := 0
	for row := range r.rows {
		if !rows.Has(int64(row)) {
			continue
		}
		if ra[x] != floatAt(catalog.Float64, va, row) || dec[x] != floatAt(catalog.Float64, vd, row) {
			t.Fatalf("selected row %d", x)
		}
		x++
	}
	if x != len(ra) {
		t.Fatalf("%d positions for %d rows", len(ra), x)
	}
	some, err := rows.Keep(func(x uint64) bool { return x%3 == 0 })
	if err != nil || some.Len() != (rows.Len()+2)/3 {
		t.Fatal(err, some.Len())
	}
	for x := range some.Len() {
		if some.selected(x) != rows.selected(3*x) {
			t.Fatalf("kept row %d", x)
		}
	}
}

func TestAMatchOfNothingOrByNothingIsRefused(t *testing.T) {
	for _, radius := range []float64{0, -1, math.NaN(), 181} {
		if _, err := Match(context.Background(), nil, nil, nil, nil, radius, 1); err == nil {
			t.Errorf("radius %v was taken", radius)
		}
	}
	got, err := Match(context.Background(), []float64{1}, []float64{2}, nil, nil, 1, 1)
	if err != nil || len(got) != 1 || got[0] != -1 {
		t.Error(got, err)
	}
}

// BenchmarkMatch matches 10^6 with 10^6 random positions within an arcsecond.
func BenchmarkMatch(b *testing.B) {
	g := rand.New(rand.NewPCG(1, 2))
	sky := func() (ra, dec []float64) {
		for range 1_000_000 {
			ra, dec = append(ra, 360*g.Float64()), append(dec, math.Asin(2*g.Float64()-1)*180/math.Pi)
		}
		return ra, dec
	}
	raA, decA := sky()
	raB, decB := sky()
	for b.Loop() {
		if _, err := Match(context.Background(), raA, decA, raB, decB, 1.0/3600, 2); err != nil {
			b.Fatal(err)
		}
	}
}
