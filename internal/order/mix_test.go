package order

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func mixOf(t interface{ Fatal(...any) }, rows []uint64, weights []uint64, lanes uint64, end End) *Mix {
	var parts []*Layout
	for i, n := range rows {
		l, err := NewLayout([]uint64{n / 3, 0, n - n/3}, Params{Lanes: lanes, Window: 8, Block: 2, Seed: uint64(i)})
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, l)
	}
	m, err := NewMix(parts, weights, end)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func drawMix(t *rapid.T, end End) *Mix {
	k := rapid.IntRange(1, 4).Draw(t, "sources")
	var rows, weights []uint64
	for range k {
		rows = append(rows, rapid.Uint64Range(1, 3000).Draw(t, "rows"))
		weights = append(weights, rapid.Uint64Range(1, 40).Draw(t, "weight"))
	}
	return mixOf(t, rows, weights, rapid.Uint64Range(1, 40).Draw(t, "lanes"), end)
}

func TestEverySourceComesAsOftenAsItsWeightInEveryCycleOfEveryLane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMix(t, EndNever)
		lane := rapid.Uint64Range(0, m.Lanes()-1).Draw(t, "lane")
		first := rapid.Uint64Range(0, 1000).Draw(t, "offset")
		count := make([]uint64, len(m.parts))
		for o := first; o < first+m.cycle; o++ {
			count[m.At(0, o*m.Lanes()+lane).Source]++
		}
		for i, n := range count {
			if n != m.weight[i] {
				t.Fatalf("source %d comes %d times in %d offsets, its weight is %d", i, n, m.cycle, m.weight[i])
			}
		}
	})
}

func TestEverySourceRowComesOnceASourceEpoch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMix(t, EndNever)
		// Walk until each source has given its first copies whole in every lane.
		need := uint64(0)
		for i := range m.parts {
			need = max(need, (m.length(i, 0)/m.weight[i]+2)*m.cycle)
		}
		if need*m.Lanes() > 400_000 {
			t.Skip("long")
		}
		c := m.Cursor(0)
		seen := make([]map[string]int, len(m.parts))
		for i := range seen {
			seen[i] = map[string]int{}
		}
		for p := range need * m.Lanes() {
			at := m.At(0, p)
			if at.Epoch >= m.copies[at.Source] {
				continue
			}
			source, row := c.At(p)
			if source != at.Source {
				t.Fatalf("position %d: the cursor says source %d, At says %d", p, source, at.Source)
			}
			if want := m.parts[source].Epoch(at.Epoch).At(at.Position); row != want {
				t.Fatalf("position %d: the cursor says %v, At %v", p, row, want)
			}
			seen[source][fmt.Sprint(at.Epoch, row)]++
		}
		for i, rows := range seen {
			if want := m.parts[i].rows * m.copies[i]; uint64(len(rows)) != want {
				t.Fatalf("source %d gave %d different rows in its first %d epochs of %d", i, len(rows), m.copies[i], m.parts[i].rows)
			}
			for r, n := range rows {
				if n != 1 {
					t.Fatalf("source %d gave %s %d times", i, r, n)
				}
			}
		}
	})
}

func TestStopFirstEndsBeforeAnySourceRepeatsAndNoLaterThanItMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMix(t, EndFirst)
		offsets := m.rows / m.Lanes()
		repeats := func(o uint64) bool {
			for lane := range m.Lanes() {
				from := m.place(lane)
				for i := range m.parts {
					if m.before(i, from+o)-m.before(i, from) > m.length(i, lane) {
						return true
					}
				}
			}
			return false
		}
		if repeats(offsets) {
			t.Fatalf("a source repeats before offset %d", offsets)
		}
		if !repeats(offsets + 1) {
			t.Fatalf("no source repeats at offset %d, and the epoch ends there", offsets)
		}
		epoch := rapid.Uint64Range(0, 5).Draw(t, "epoch")
		for p := uint64(0); p < m.rows; p += 1 + m.rows/50 {
			if at := m.At(epoch, p); at.Epoch != epoch {
				t.Fatalf("position %d of epoch %d is of epoch %d of source %d", p, epoch, at.Epoch, at.Source)
			}
		}
	})
}

func TestAStepHasTheProportionsOfTheWeights(t *testing.T) {
	m := mixOf(t, []uint64{5_000_000, 900_000, 200_000}, []uint64{70, 25, 5}, DefaultLanes, EndNever)
	count := make([]uint64, 3)
	for step := range uint64(400) {
		inStep := make([]uint64, 3)
		for p := step * 256; p < (step+1)*256; p++ {
			inStep[m.At(0, p).Source]++
		}
		for i, n := range inStep {
			count[i] += n
			share := float64(m.weight[i]) / float64(m.cycle)
			if off := math.Abs(float64(n) - 256*share); off > 4 {
				t.Errorf("step %d: source %d comes %d times, %.1f of %.2f expected", step, i, n, off, 256*share)
			}
			if off := math.Abs(float64(count[i]) - float64(step+1)*256*share); off > 32 {
				t.Errorf("after step %d source %d is off by %.1f rows", step, i, off)
			}
		}
	}
}

func TestARankOfAMixReadsItsOwnLanesOfEverySource(t *testing.T) {
	m := mixOf(t, []uint64{50_000, 30_000}, []uint64{3, 2}, 60, EndNever)
	for p := range uint64(20_000) {
		if at := m.At(0, p); m.copies[at.Source] == 1 && at.Position%60 != p%60 {
			t.Fatalf("position %d is in lane %d and reads lane %d of source %d", p, p%60, at.Position%60, at.Source)
		}
	}
}

func TestLanesOfASmallMixLeaveFewRowsOut(t *testing.T) {
	for _, n := range []uint64{1, 63, 64, 500, 5000, 61_439, 61_440, 1 << 30} {
		l := LanesFor(n)
		if DefaultLanes%l != 0 || l > 1 && n/l < 64 || n >= 64*DefaultLanes && l != DefaultLanes {
			t.Errorf("%d rows: %d lanes", n, l)
		}
		if n > 100_000 || n < 64 {
			continue
		}
		if m := mixOf(t, []uint64{n, 4 * n}, []uint64{1, 1}, l, EndFirst); float64(m.Rows()) < 2*float64(n)*0.95 {
			t.Errorf("an epoch has %d rows, the smaller source %d", m.Rows(), n)
		}
	}
}

func TestWeightsRoundSharesByTheLargestRemainder(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		total  int
		want   []uint64
	}{
		{[]float64{0.7, 0.3}, 10, []uint64{7, 3}},
		{[]float64{1, 1, 1}, 10, []uint64{4, 3, 3}},
		{[]float64{1e-9, 1}, 100, []uint64{1, 99}},
		{[]float64{1e-9, 1e-9, 1}, 3, []uint64{1, 1, 1}},
		{[]float64{2}, 1, []uint64{1}},
	} {
		got, err := Weights(c.shares, c.total)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("Weights(%v, %d) = %v, %v, want %v", c.shares, c.total, got, err, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.Float64Range(1e-6, 1e6), 1, 20).Draw(t, "shares")
		total := rapid.IntRange(len(shares), MaxWeight).Draw(t, "total")
		got, err := Weights(shares, total)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, s := range shares {
			sum += s
		}
		all := uint64(0)
		for i, w := range got {
			all += w
			if w < 1 || float64(w) > math.Max(1, shares[i]/sum*float64(total)+1) {
				t.Fatalf("share %v of %v became %d of %d", shares[i], sum, w, total)
			}
		}
		if all != uint64(total) {
			t.Fatalf("weights sum to %d, not %d", all, total)
		}
	})
}

func TestWhatCannotBeMixedIsRefused(t *testing.T) {
	one, _ := NewLayout([]uint64{5}, Params{Lanes: 4, Window: 1, Block: 1})
	other, _ := NewLayout([]uint64{5}, Params{Lanes: 5, Window: 1, Block: 1})
	none, _ := NewLayout([]uint64{0}, Params{Lanes: 4, Window: 1, Block: 1})
	for _, c := range []struct {
		parts   []*Layout
		weights []uint64
	}{
		{nil, nil},
		{[]*Layout{one}, []uint64{1, 2}},
		{[]*Layout{one, one}, []uint64{1, 0}},
		{[]*Layout{one, one}, []uint64{4096, 4095}},
		{[]*Layout{one, one}, []uint64{1 << 63, 1 << 63}},
		{[]*Layout{one, other}, []uint64{1, 1}},
		{[]*Layout{one, none}, []uint64{1, 1}},
	} {
		if _, err := NewMix(c.parts, c.weights, EndNever); !errors.Is(err, ErrMix) {
			t.Errorf("%d sources with weights %v: %v", len(c.parts), c.weights, err)
		}
	}
	for _, shares := range [][]float64{nil, {0, 1}, {-1, 1}, {math.NaN()}, {math.Inf(1)}, {math.MaxFloat64, math.MaxFloat64}} {
		if _, err := Weights(shares, 100); !errors.Is(err, ErrMix) {
			t.Errorf("shares %v: %v", shares, err)
		}
	}
}
