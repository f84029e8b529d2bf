package order

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// drawLayout draws a layout of uneven and empty shards with odd numbers.
func drawLayout(t *rapid.T) ([]uint64, *Layout) {
	counts := rapid.SliceOfN(rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(0, 5), rapid.Uint64Range(0, 1500)), 0, 12).Draw(t, "counts")
	p := Params{
		Lanes:  rapid.Uint64Range(1, 300).Draw(t, "lanes"),
		Window: rapid.Uint64Range(1, 700).Draw(t, "window"),
		Block:  rapid.Uint64Range(1, 150).Draw(t, "block"),
		Seed:   rapid.Uint64().Draw(t, "seed"),
	}
	p = p.With(rapid.SampledFrom([]Mode{ShuffleBlocks, ShuffleBlocks, ShuffleBlocks, ShuffleRows, ShuffleOff}).Draw(t, "mode"))
	l, err := NewLayout(counts, p)
	if err != nil {
		t.Fatal(err)
	}
	return counts, l
}

func TestEveryRowStandsAtOnePositionOfAnEpoch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts, l := drawLayout(t)
		rows := l.Epoch(rapid.Uint64().Draw(t, "epoch")).Batch(nil, 0, math.MaxInt)
		if uint64(len(rows)) != l.Rows() {
			t.Fatalf("%d rows, want %d", len(rows), l.Rows())
		}
		seen := make([][]bool, len(counts))
		for s, c := range counts {
			seen[s] = make([]bool, c)
		}
		for p, r := range rows {
			if r.Shard >= len(counts) || r.Index >= counts[r.Shard] {
				t.Fatalf("position %d is %+v, of %v", p, r, counts)
			}
			if seen[r.Shard][r.Index] {
				t.Fatalf("position %d is %+v, which came before", p, r)
			}
			seen[r.Shard][r.Index] = true
		}
	})
}

// One answer whatever the batch size, the columns (they do not enter), and what is remembered.
func TestAPositionGivesTheSameRowHoweverItIsReached(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, l := drawLayout(t)
		if l.Rows() == 0 {
			return
		}
		e := l.Epoch(rapid.Uint64Range(0, 3).Draw(t, "epoch"))
		want := make([]Row, l.Rows())
		for p := range want {
			want[p] = e.At(uint64(p))
		}
		c := e.Cursor()
		for range 20 {
			p := rapid.Uint64Range(0, l.Rows()-1).Draw(t, "p")
			if got := c.At(p); got != want[p] {
				t.Fatalf("Cursor.At(%d) = %+v, want %+v", p, got, want[p])
			}
			n := rapid.IntRange(0, 1000).Draw(t, "n")
			got := c.Batch(nil, p, n)
			if !slices.Equal(got, want[p:min(p+uint64(n), l.Rows())]) {
				t.Fatalf("Cursor.Batch(%d, %d) differs", p, n)
			}
		}
		if rest := c.Batch(nil, l.Rows(), 5); len(rest) != 0 {
			t.Fatalf("%d rows beyond the end", len(rest))
		}
	})
}

func TestAnEpochServesManyGoroutines(t *testing.T) {
	l, err := NewLayout([]uint64{500, 0, 700, 33}, Params{Lanes: 16, Window: 20, Block: 5, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := l.Epoch(0)
	want := e.Batch(nil, 0, int(l.Rows()))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for p := uint64(g); p < l.Rows(); p += 3 {
				if e.At(p) != want[p] {
					t.Errorf("position %d differs", p)
				}
			}
		})
	}
	wg.Wait()
}

func TestWithoutShufflingBatchesAreContiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts, _ := drawLayout(t)
		l, err := NewLayout(counts, Defaults(100, 100, 100, false, 0).With(ShuffleOff))
		if err != nil {
			t.Fatal(err)
		}
		var want []Row
		for s, c := range counts {
			for x := range c {
				want = append(want, Row{s, x})
			}
		}
		if got := l.Epoch(rapid.Uint64().Draw(t, "epoch")).Batch(nil, 0, math.MaxInt); !slices.Equal(got, want) {
			t.Fatal("not the order of the release")
		}
	})
}

func drawDeal(t *rapid.T) Deal {
	d := Deal{World: rapid.IntRange(1, 20).Draw(t, "world"), Batch: rapid.IntRange(1, 30).Draw(t, "batch"), DropLast: rapid.Bool().Draw(t, "drop")}
	return d
}

// The rows of a step are [position, position+global) whatever the number of ranks, every rank has as many steps and rows as any other, and nothing is dealt twice.
func TestAStepIsTheSameRowsAtAnyNumberOfRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDeal(t)
		if err := d.Check(); err != nil {
			t.Fatal(err)
		}
		lanes := rapid.Uint64Range(1, 60).Draw(t, "lanes")
		rows := rapid.Uint64Range(0, 3000).Draw(t, "rows")
		first := rapid.Uint64Range(0, rows).Draw(t, "position")
		steps := d.Steps(rows, first)
		position := first
		for k := uint64(0); ; k++ {
			var valid, wrapped []uint64
			next := uint64(0)
			for r := range d.World {
				d.Rank = r
				places, n := d.Step(nil, lanes, rows, position)
				if r == 0 {
					next = n
				} else if n != next {
					t.Fatalf("rank %d goes on at %d, rank 0 at %d", r, n, next)
				}
				if k == steps {
					if len(places) != 0 || n != rows {
						t.Fatalf("after the last step: %v, %d", places, n)
					}
					continue
				}
				if len(places) != d.Batch {
					t.Fatalf("rank %d has %d rows, want %d", r, len(places), d.Batch)
				}
				for _, p := range places {
					if p.Valid {
						valid = append(valid, p.Position)
					} else {
						wrapped = append(wrapped, p.Position)
					}
				}
			}
			if k == steps {
				break
			}
			slices.Sort(valid)
			if uint64(len(valid)) != min(rows-position, d.Global()) || valid[0] != position || next != position+uint64(len(valid)) {
				t.Fatalf("step at %d of %d rows: %v", position, rows, valid)
			}
			for i, p := range valid {
				if p != position+uint64(i) {
					t.Fatalf("step at %d: %v", position, valid)
				}
			}
			if d.DropLast && len(wrapped) > 0 {
				t.Fatalf("%d rows came again although the last step is dropped", len(wrapped))
			}
			for _, p := range wrapped {
				if p >= rows {
					t.Fatalf("position %d of %d rows", p, rows)
				}
			}
			position = next
		}
		if left := rows - position; d.DropLast && left >= d.Global() || !d.DropLast && left != 0 {
			t.Fatalf("%d rows left of %d", left, rows)
		}
	})
}

func TestARankReadsOnlyItsLanesWhereRanksDivideLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := rapid.SampledFrom([]uint64{1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 16, 20, 24, 30, 32, 64, 96, 480, 960}).Draw(t, "world")
		batch := rapid.Uint64Range(1, 9).Draw(t, "batch")
		position := rapid.Uint64Range(0, 1<<40).Draw(t, "position")
		for rank := range world {
			got := RankPositions(nil, DefaultLanes, position, batch, rank, world)
			if uint64(len(got)) != batch {
				t.Fatalf("rank %d has %d positions", rank, len(got))
			}
			for _, p := range got {
				if p%DefaultLanes%world != rank {
					t.Fatalf("rank %d of %d reads position %d, of lane %d", rank, world, p, p%DefaultLanes)
				}
			}
		}
	})
}

// The walk written out as the definition has it.
func dealByHand(lanes, position, batch, world uint64) [][]uint64 {
	ranks := make([][]uint64, world)
	var over []uint64
	for p := position; p < position+batch*world; p++ {
		if r := p % lanes % world; uint64(len(ranks[r])) < batch {
			ranks[r] = append(ranks[r], p)
		} else {
			over = append(over, p)
		}
	}
	for r := range ranks {
		n := batch - uint64(len(ranks[r]))
		ranks[r] = append(ranks[r], over[:n]...)
		over = over[n:]
	}
	return ranks
}

func TestOverflowFillsRanksFromTheFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lanes := rapid.Uint64Range(1, 40).Draw(t, "lanes")
		world := rapid.Uint64Range(1, 50).Draw(t, "world")
		batch := rapid.Uint64Range(1, 12).Draw(t, "batch")
		position := rapid.Uint64Range(0, 1000).Draw(t, "position")
		want := dealByHand(lanes, position, batch, world)
		for r := range want {
			if got := RankPositions(nil, lanes, position, batch, uint64(r), world); !slices.Equal(got, want[r]) {
				t.Fatalf("rank %d: %v, want %v", r, got, want[r])
			}
		}
	})
}

func TestImpossibleDealsAreRefused(t *testing.T) {
	for _, d := range []Deal{{}, {World: 1}, {World: 2, Rank: 2, Batch: 1}, {World: 2, Rank: -1, Batch: 1}, {World: 1, Batch: -5}, {World: 1 << 20, Batch: 1 << 20}} {
		if err := d.Check(); !errors.Is(err, ErrDeal) {
			t.Errorf("%+v: error %v, want ErrDeal", d, err)
		}
	}
}

func TestSetUpGrowsWithShardsAndNotWithRows(t *testing.T) {
	cost := func(shards int, rows uint64) (bytes uint64) {
		counts := slices.Repeat([]uint64{rows}, shards)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		l, err := NewLayout(counts, Params{Lanes: 960, Window: 28, Block: 7})
		if err != nil {
			t.Fatal(err)
		}
		l.Epoch(1)
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(l)
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := cost(100000, 10000), cost(100000, 100_000_000)
	if limit := uint64(64*100000 + 1<<20); few > limit || many > limit {
		t.Errorf("%d and %d bytes for 100,000 shards of 10^4 and 10^8 rows, want at most %d", few, many, limit)
	}
}

func TestParametersThatDefineNoOrderAreRefused(t *testing.T) {
	good := Params{Lanes: 4, Window: 4, Block: 4}
	for name, c := range map[string]struct {
		counts []uint64
		change func(*Params)
	}{
		"no lanes":        {nil, func(p *Params) { p.Lanes = 0 }},
		"too many lanes":  {nil, func(p *Params) { p.Lanes = 1<<20 + 1 }},
		"no window":       {nil, func(p *Params) { p.Window = 0 }},
		"huge window":     {nil, func(p *Params) { p.Window = math.MaxUint64 }},
		"no block":        {nil, func(p *Params) { p.Block = 0 }},
		"unknown mode":    {nil, func(p *Params) { p.Shuffle = 3 }},
		"off with lanes":  {nil, func(p *Params) { p.Shuffle = ShuffleOff }},
		"rows with block": {nil, func(p *Params) { p.Shuffle = ShuffleRows }},
		"too many rows":   {[]uint64{1 << 56, 1}, func(*Params) {}},
		"rows overflow":   {[]uint64{math.MaxUint64, 2}, func(*Params) {}},
	} {
		p := good
		c.change(&p)
		if _, err := NewLayout(c.counts, p); !errors.Is(err, ErrParams) {
			t.Errorf("%s: error %v, want ErrParams", name, err)
		}
	}
}

func TestDefaultsFollowTheSizeOfRows(t *testing.T) {
	for _, c := range []struct {
		name         string
		rows, stored uint64
		scalar       bool
		group        uint64
		want         Params
	}{
		{"images of 147 KB", 14_000_000, 14_000_000 * 147456, false, 0, Params{Lanes: 960, Window: 28, Block: 7}},
		{"spectra", 10_000_000, 10_000_000 * 32000, false, 0, Params{Lanes: 960, Window: 128, Block: 32}},
		{"small rows", 1_000_000_000, 1_000_000_000 * 100, false, 0, Params{Lanes: 960, Window: 1024, Block: 256}},
		{"rows beyond a block", 1000, 1000 << 30, false, 0, Params{Lanes: 960, Window: 4, Block: 1}},
		{"a small set", 300_000, 300_000 * 1000, false, 0, Params{Lanes: 960, Window: 16, Block: 4}},
		{"a tiny set", 64, 64, false, 0, Params{Lanes: 960, Window: 4, Block: 1}},
		{"nothing", 0, 0, false, 0, Params{Lanes: 960, Window: 4, Block: 1}},
		{"no bytes known", 1 << 40, 0, false, 0, Params{Lanes: 960, Window: 1024, Block: 256}},
		{"scalars", 100_000_000, 1, true, 40_000, Params{Lanes: 960, Window: 40_000, Block: 40_000}},
		{"few scalars", 1_000_000, 1, true, 40_000, Params{Lanes: 960, Window: 16, Block: 16}},
		{"fewest scalars", 500, 1, true, 40_000, Params{Lanes: 960, Window: 1, Block: 1}},
	} {
		if got := Defaults(c.rows, c.rows, c.stored, c.scalar, c.group); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestThePermutationIsOneAndInverts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Uint64().Draw(t, "key")
		small := rapid.Uint64Range(1, 2000).Draw(t, "m")
		p := newPerm(nil, small, key)
		for x := range small {
			if y := p.at(x); y >= small || p.inverse(y) != x {
				t.Fatalf("m = %d: %d goes to %d and comes back as %d", small, x, y, p.inverse(y))
			}
		}
		wide := rapid.Uint64Range(maxTable+1, 1<<56).Draw(t, "wide")
		f := newPerm(nil, wide, key)
		for range 50 {
			x := rapid.Uint64Range(0, wide-1).Draw(t, "x")
			if y := f.at(x); y >= wide || f.inverse(y) != x {
				t.Fatalf("m = %d: %d goes to %d and comes back as %d", wide, x, y, f.inverse(y))
			}
		}
	})
}

// chiSquare returns how many standard deviations counts of equally likely outcomes lie from even ones.
func chiSquare(counts []int) float64 {
	total := 0
	for _, c := range counts {
		total += c
	}
	want := float64(total) / float64(len(counts))
	var x float64
	for _, c := range counts {
		x += (float64(c) - want) * (float64(c) - want) / want
	}
	free := float64(len(counts) - 1)
	return (x - free) / math.Sqrt(2*free)
}

func TestOrderedPairsAreEvenlySpread(t *testing.T) {
	const limit = 4.5
	// Small permutations: every ordered pair of images of two neighbours, over keys.
	for _, m := range []uint64{3, 5, 8, 13} {
		for _, x := range []uint64{0, m - 2} {
			counts := make([]int, m*(m-1))
			for k := range uint64(40000) {
				p := newPerm(nil, m, subKey(epochKey(k, 0), tagWindow, 3, 9))
				a, b := p.at(x), p.at(x+1)
				if b > a {
					b--
				}
				counts[a*(m-1)+b]++
			}
			if z := chiSquare(counts); math.Abs(z) > limit {
				t.Errorf("m = %d: pairs at %d lie %.1f standard deviations from even", m, x, z)
			}
		}
	}
	// Computed permutations: neighbours, and elements that differ in one bit, in 16 x 16 bins.
	for _, m := range []uint64{65537, 100_000, 1 << 17, 1<<20 + 1, 142_857_143} {
		for _, step := range []uint64{1, 2, 256, 4096, 32768} {
			counts := make([]int, 256)
			for k := range uint64(40) {
				p := newPerm(nil, m, subKey(epochKey(1, k), tagBlocks, 0, 0))
				for i := range uint64(2000) {
					x := mix(i) % (m - step)
					counts[p.at(x)*16/m*16+p.at(x+step)*16/m]++
				}
			}
			if z := chiSquare(counts); math.Abs(z) > limit {
				t.Errorf("m = %d, %d apart: pairs lie %.1f standard deviations from even", m, step, z)
			}
		}
	}
	// The whole order of a small set, over seeds and over epochs.
	for _, over := range []string{"seeds", "epochs"} {
		counts := make([]int, 20*19)
		for k := range uint64(60000) {
			p := Params{Lanes: 960, Window: 4, Block: 1}
			epoch := uint64(0)
			if over == "seeds" {
				p.Seed = k
			} else {
				epoch = k
			}
			l, err := NewLayout([]uint64{20}, p)
			if err != nil {
				t.Fatal(err)
			}
			e := l.Epoch(epoch)
			a, b := e.At(0).Index, e.At(1).Index
			if b > a {
				b--
			}
			counts[a*19+b]++
		}
		if z := chiSquare(counts); math.Abs(z) > limit {
			t.Errorf("first two rows over %s: %.1f standard deviations from even", over, z)
		}
	}
}

// The short block has a place like any other, so that dropping the last step does not always drop the same rows.
func TestTheShortBlockMovesFromEpochToEpoch(t *testing.T) {
	l, err := NewLayout([]uint64{1003}, Params{Lanes: 1, Window: 1, Block: 10, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	slots := map[uint64]bool{}
	for e := range uint64(50) {
		slots[l.Epoch(e).slot] = true
	}
	if len(slots) < 25 {
		t.Errorf("in 50 epochs the short block stood in only %d of 101 slots", len(slots))
	}
}

func benchLayout(b *testing.B, p Params) *Layout {
	b.Helper()
	l, err := NewLayout(slices.Repeat([]uint64{10000}, 100000), p)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

var benchModes = []struct {
	name string
	p    Params
}{
	{"images", Params{Lanes: 960, Window: 28, Block: 7}},
	{"smallRows", Params{Lanes: 960, Window: 1024, Block: 256}},
	{"scalars", Params{Lanes: 960, Window: 40000, Block: 40000}},
	{"byRows", Params{Lanes: 960, Window: 4, Block: 1, Shuffle: ShuffleRows}},
	{"off", Params{Lanes: 1, Window: 1, Block: 1, Shuffle: ShuffleOff}},
}

func BenchmarkSetUpOfABillionRowsIn100000Shards(b *testing.B) {
	counts := slices.Repeat([]uint64{10000}, 100000)
	for b.Loop() {
		l, err := NewLayout(counts, benchModes[0].p)
		if err != nil {
			b.Fatal(err)
		}
		l.Epoch(0)
	}
}

func BenchmarkSeek(b *testing.B) {
	for _, m := range benchModes {
		b.Run(m.name, func(b *testing.B) {
			e := benchLayout(b, m.p).Epoch(0)
			p := uint64(0)
			for b.Loop() {
				e.At(p)
				p = (p + 123456789) % 1_000_000_000
			}
		})
	}
}

func BenchmarkPositionsInOrder(b *testing.B) {
	for _, m := range benchModes {
		b.Run(m.name, func(b *testing.B) {
			c := benchLayout(b, m.p).Epoch(0).Cursor()
			const batch = 256
			rows := make([]Row, 0, batch)
			p := uint64(500_000_000)
			for b.Loop() {
				rows = c.Batch(rows[:0], p, batch)
				if p += batch; p > 900_000_000 {
					p = 0
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/position")
		})
	}
}

func BenchmarkRankPositions(b *testing.B) {
	for _, world := range []uint64{1, 64, 7, 256} {
		b.Run(fmt.Sprint(world), func(b *testing.B) {
			var dst []uint64
			for b.Loop() {
				dst = RankPositions(dst[:0], DefaultLanes, 12345, 256, world/2, world)
			}
		})
	}
}
