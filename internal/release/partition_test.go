package release

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"astropile/internal/sky"
)

// rowsOf makes rows of places and payloads.
func rowsOf(hpx, payload []int64) []row {
	out := make([]row, len(hpx))
	sum := int64(0)
	for i := range out {
		out[i] = row{hpx: hpx[i], payload: uint32(payload[i]), sum: sum}
		sum += payload[i]
	}
	return out
}

type placed struct{ hpx, payload int64 }

// drawRows draws rows that gather in clumps, as surveys do, some in one place exactly.
func drawRows(t *rapid.T, most int) (hpx, payload []int64) {
	all := sky.Pixels(sky.MaxOrder)
	var rows []placed
	for range rapid.IntRange(1, 5).Draw(t, "clumps") {
		order := rapid.IntRange(0, sky.MaxOrder).Draw(t, "order")
		lo, hi := sky.Span(order, rapid.Int64Range(0, sky.Pixels(order)-1).Draw(t, "pixel"))
		for range rapid.IntRange(0, most).Draw(t, "rows") {
			rows = append(rows, placed{rapid.Int64Range(lo, hi-1).Draw(t, "hpx"), rapid.Int64Range(1, 300).Draw(t, "payload")})
		}
	}
	rows = append(rows, placed{rapid.Int64Range(0, all-1).Draw(t, "hpx"), 10})
	slices.SortFunc(rows, func(a, b placed) int { return cmp.Compare(a.hpx, b.hpx) })
	for _, r := range rows {
		hpx, payload = append(hpx, r.hpx), append(payload, r.payload)
	}
	return hpx, payload
}

func overlap(a, b pixel) bool {
	alo, ahi := a.span()
	blo, bhi := b.span()
	return alo < bhi && blo < ahi
}

func TestPartitionCoversEveryRowOnceInPixelsThatNeverOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shardSize := rapid.Int64Range(50, 2000).Draw(t, "shard size")
		expect := rapid.IntRange(1, 20).Draw(t, "expect")
		limit := max(1, shardSize/int64(expect))
		var existing []pixel
		for range rapid.IntRange(1, 4).Draw(t, "releases") {
			hpx, payload := drawRows(t, 60)
			parts, err := partition(rowsOf(hpx, payload), existing, shardSize, expect)
			if err != nil {
				t.Fatal(err)
			}
			checkCover(t, hpx, parts)
			totals, cuts := map[pixel]int64{}, map[pixel]int{}
			for _, p := range parts {
				cuts[p.pixel]++
				for _, n := range payload[p.lo:p.hi] {
					totals[p.pixel] += n
				}
			}
			for px, total := range totals {
				if want := (total + shardSize - 1) / shardSize; int64(cuts[px]) != max(1, want) && cuts[px] < int(want) && int64(cuts[px]) != rowsIn(parts, px) {
					t.Fatalf("%v holds %d bytes in %d shards of %d", px, total, cuts[px], shardSize)
				}
				if slices.Contains(existing, px) {
					continue
				}
				if px.order < maxOrder && total > limit {
					t.Fatalf("new %v holds %d bytes and was not split; the limit is %d", px, total, limit)
				}
				checkLowest(t, px, hpx, payload, existing, limit)
			}
			for px := range totals {
				if !slices.Contains(existing, px) {
					existing = append(existing, px)
				}
			}
			for i, a := range existing {
				for _, b := range existing[:i] {
					if overlap(a, b) {
						t.Fatalf("%v and %v overlap", a, b)
					}
				}
			}
		}
	})
}

func rowsIn(parts []part, px pixel) (n int64) {
	for _, p := range parts {
		if p.pixel == px {
			n += int64(p.hi - p.lo)
		}
	}
	return n
}

func checkCover(t *rapid.T, hpx []int64, parts []part) {
	next := 0
	for _, p := range parts {
		if p.lo != next || p.hi <= p.lo {
			t.Fatalf("part %v follows row %d", p, next)
		}
		next = p.hi
		lo, hi := p.span()
		for _, h := range hpx[p.lo:p.hi] {
			if h < lo || h >= hi {
				t.Fatalf("row at %d is outside of %v", h, p.pixel)
			}
		}
	}
	if next != len(hpx) {
		t.Fatalf("parts end at row %d of %d", next, len(hpx))
	}
}

// checkLowest checks that a new pixel is not finer than it has to be: its parent overlaps a pixel there was, or is too heavy.
func checkLowest(t *rapid.T, px pixel, hpx, payload []int64, existing []pixel, limit int64) {
	if px.order == 0 {
		return
	}
	parent := pixel{px.order - 1, px.pix >> 2}
	for _, e := range existing {
		if overlap(parent, e) {
			return
		}
	}
	lo, hi := parent.span()
	var total int64
	for i, h := range hpx {
		if h >= lo && h < hi {
			total += payload[i]
		}
	}
	if total <= limit {
		t.Fatalf("new %v: its parent holds %d bytes, no more than %d, and overlaps nothing", px, total, limit)
	}
}

func TestPartitionOfOverlappingPixelsIsRefused(t *testing.T) {
	_, err := partition(nil, []pixel{{0, 3}, {2, 3 << 4}}, 100, 1)
	if !errors.Is(err, ErrDamaged) {
		t.Fatalf("got %v", err)
	}
}

func TestRowsInOnePlaceAreCutByRowsAtTheFinestOrder(t *testing.T) {
	hpx, payload := make([]int64, 100), make([]int64, 100)
	for i := range hpx {
		hpx[i], payload[i] = 12345, 100
	}
	parts, err := partition(rowsOf(hpx, payload), nil, 1000, 4)
	if err != nil {
		t.Fatal(err)
	}
	if len(parts) != 10 || parts[0].order != maxOrder {
		t.Fatalf("got %d parts, the first %v", len(parts), parts[0])
	}
	for _, p := range parts {
		if p.hi-p.lo != 10 {
			t.Fatalf("part %v has %d rows, want 10", p, p.hi-p.lo)
		}
	}
}

func TestGrowthIsToldFromFourTimesAndRefusedAboveSixteen(t *testing.T) {
	px := pixel{3, 7}
	parts := []part{{px, 0, 1}}
	for _, c := range []struct {
		times  int64
		order  int8
		warn   bool
		refuse bool
	}{{3, 3, false, false}, {4, 3, true, false}, {16, 3, true, false}, {17, 3, false, true}, {40, maxOrder, true, false}} {
		parts[0].order = c.order
		const shardSize = 1000
		g, err := grown(parts, rowsOf([]int64{0}, []int64{shardSize}), map[pixel]int64{{c.order, 7}: (c.times - 1) * shardSize}, shardSize)
		if c.refuse != errors.Is(err, ErrRefused) || c.warn != (len(g) == 1) {
			t.Errorf("%d times at order %d: %v, %v", c.times, c.order, g, err)
		}
	}
}
