package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

// maxMatched bounds the rows that are matched with each other.
const maxMatched = 1 << 31

// Positions reads right ascension and declination, in degrees, of the selected rows in their order. rows is nil where all
// rows are selected.
func Positions(ctx context.Context, t Table, rows *Rows, opt Options) (ra, dec []float64, err error) {
	ds := &t.Release.Dataset
	if !ds.HasSky() {
		return nil, nil, fmt.Errorf("%w: %s has no positions to match", ErrQuery, ds.Name)
	}
	if rows == nil {
		if rows, err = Select(ctx, t, Selection{}, Options{Threads: opt.Threads}); err != nil {
			return nil, nil, err
		}
	}
	if rows.Len() > maxMatched {
		return nil, nil, fmt.Errorf("%w: %d rows to match, at most %d; select fewer", ErrQuery, rows.Len(), int64(maxMatched))
	}
	p := &plan{where: all{}, id: -1, ra: 0, dec: 1, hpx: -1, columns: []catalog.Column{*ds.Column(ds.RA), *ds.Column(ds.Dec)}}
	kept, err := openCache(opt.Cache)
	if err != nil {
		return nil, nil, err
	}
	ra, dec = make([]float64, rows.Len()), make([]float64, rows.Len())
	sc := &scan{table: t, plan: p, opt: opt, cache: kept, each: func(w *worker, t *task) error {
		if rows.rank(t.first) == rows.rank(t.first+t.rows) {
			return nil
		}
		a, d := w.chunk.numbers(), w.chunk.numbers()
		defer func() { w.chunk.giveNumbers(a); w.chunk.giveNumbers(d) }()
		if err := (columnNumber{0, p.columns[0].DType}).eval(&w.chunk, a); err != nil {
			return err
		}
		if err := (columnNumber{1, p.columns[1].DType}).eval(&w.chunk, d); err != nil {
			return err
		}
		at := rows.rank(t.first)
		for i := range a {
			if rows.Has(t.first + int64(i)) {
				ra[at], dec[at] = a[i], d[i]
				at++
			}
		}
		return nil
	}}
	if _, err := sc.run(ctx); err != nil {
		return nil, nil, err
	}
	return ra, dec, nil
}

// Match finds for every position of a the nearest of b within radius degrees, and gives its index, or -1. Of several at the same distance it
// is the first. Distances are exact to about 1e-15 rad everywhere, at the poles and where right ascension begins included.
//
// Positions of b are sorted into zones of declination as high as the radius, and by right ascension there, so that those near a position
// stand in a few runs (Gray, Nieto-Santisteban & Szalay 2006, "The zones algorithm for finding points-near-a-point").
func Match(ctx context.Context, raA, decA, raB, decB []float64, radius float64, threads int) ([]int64, error) {
	if !(radius > 0 && radius <= 180) {
		return nil, fmt.Errorf("%w: a radius of %v degrees is not above 0 and at most 180", ErrQuery, radius)
	}
	z := newZones(raB, decB, radius)
	out := make([]int64, len(raA))
	const step = 1 << 14
	var wg sync.WaitGroup
	work := make(chan int)
	for range max(1, threads) {
		wg.Go(func() {
			for lo := range work {
				for i := lo; i < min(lo+step, len(out)); i++ {
					out[i] = z.nearest(raA[i], decA[i])
				}
			}
		})
	}
	for lo := 0; lo < len(out) && ctx.Err() == nil; lo += step {
		work <- lo
	}
	close(work)
	wg.Wait()
	return out, ctx.Err()
}

type zones struct {
	radius, height float64
	chord          float64 // squared, of the radius
	start          []int   // first point of each zone, and all at the end
	ra             []float64
	at             []vector
	index          []int32
}

func newZones(ra, dec []float64, radius float64) *zones {
	z := &zones{radius: radius, height: max(radius, 180.0/(1<<16))}
	n := int(180/z.height) + 1
	s := sky.SinDeg(radius / 2)
	z.chord = 4 * s * s
	zone := make([]int32, len(ra))
	z.start = make([]int, n+1)
	for i, d := range dec {
		zone[i] = int32(z.of(d))
		z.start[zone[i]+1]++
	}
	for k := range n {
		z.start[k+1] += z.start[k]
	}
	type point struct {
		ra    float64
		index int32
	}
	points := make([]point, len(ra))
	next := slices.Clone(z.start)
	for i := range ra {
		points[next[zone[i]]] = point{modulo(ra[i]), int32(i)}
		next[zone[i]]++
	}
	for k := range n {
		slices.SortFunc(points[z.start[k]:z.start[k+1]], func(a, b point) int {
			return cmp.Or(cmp.Compare(a.ra, b.ra), cmp.Compare(a.index, b.index))
		})
	}
	z.index, z.ra, z.at = make([]int32, len(ra)), make([]float64, len(ra)), make([]vector, len(ra))
	for k, p := range points {
		z.index[k], z.ra[k], z.at[k] = p.index, p.ra, unit(ra[p.index], dec[p.index])
	}
	return z
}

// of is the zone of a declination.
func (z *zones) of(dec float64) int {
	return max(0, min(len(z.start)-2, int((dec+90)/z.height)))
}

func (z *zones) nearest(ra, dec float64) int64 {
	p := unit(ra, dec)
	ra = modulo(ra)
	best, found := math.Nextafter(z.chord, 5), int64(-1)
	look := func(lo, hi int) {
		for k := lo; k < hi; k++ {
			d0, d1, d2 := p[0]-z.at[k][0], p[1]-z.at[k][1], p[2]-z.at[k][2]
			d := d0*d0 + d1*d1 + d2*d2
			if d < best || d == best && found >= 0 && int64(z.index[k]) < found {
				best, found = d, int64(z.index[k])
			}
		}
	}
	// A little is added to the window for rounding; distances decide.
	reach := z.radius + 1e-9
	width := 360.0
	if far := max(math.Abs(dec-reach), math.Abs(dec+reach)); far < 89.9 {
		// The meridians that touch a circle around (ra, dec): sin(width) = sin(reach)/cos(dec).
		if s := sky.SinDeg(reach) / sky.CosDeg(dec); s < 1 && reach < 90 {
			width = math.Asin(s)*180/math.Pi + 1e-9
		}
	}
	for zone := z.of(dec - reach); zone <= z.of(dec+reach); zone++ {
		lo, hi := z.start[zone], z.start[zone+1]
		if width >= 180 {
			look(lo, hi)
			continue
		}
		from := func(x float64) int { return lo + sort.SearchFloat64s(z.ra[lo:hi], x) }
		west, east := ra-width, ra+width
		look(from(west), from(math.Nextafter(east, 1e9)))
		if west < 0 {
			look(from(west+360), hi)
		}
		if east >= 360 {
			look(lo, from(math.Nextafter(east-360, 1e9)))
		}
	}
	return found
}

// Keep gives the selected rows for which keep says true, by their order among the selected. What is given stands by itself.
func (r *Rows) Keep(keep func(x uint64) bool) (*Rows, error) {
	out := make([]uint64, len(r.words))
	x := uint64(0)
	for i, w := range r.words {
		for left := w; left != 0; x++ {
			j := nth(left, 0)
			left &^= 1 << j
			if keep(x) {
				out[i] |= 1 << j
			}
		}
	}
	sizes := make([]int64, len(r.starts)-1)
	for i := range sizes {
		sizes[i] = r.starts[i+1] - r.starts[i]
	}
	return newRows(out, sizes)
}
