package release

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"

	"astropile/internal/catalog"
	"astropile/internal/shard"
	"astropile/internal/sky"
)

// source is a primary shard and where its file is now.
type source struct {
	catalog.Shard
	file string
}

// openSource opens a shard for reading.
func openSource(ctx context.Context, s *source, cols []catalog.Column) (*os.File, *shard.Reader, error) {
	f, err := os.Open(s.file)
	if err != nil {
		return nil, nil, err
	}
	st, err := f.Stat()
	if err == nil {
		var r *shard.Reader
		if r, err = shard.Open(ctx, f, st.Size(), shard.OpenOptions{Own: true, Columns: cols, CheckCRC: true}); err == nil && r.Rows() != s.Rows {
			err = fmt.Errorf("%w: it holds %d rows, %d are said", shard.ErrFormat, r.Rows(), s.Rows)
		}
		if err == nil {
			return f, r, nil
		}
	}
	return nil, nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrDamaged, s.Path, err), f.Close())
}

// scanRows is how many rows of a few scalars are read at once.
const scanRows = 1 << 16

// scan reads columns of a shard, a run of rows at a time.
func scan(ctx context.Context, s *source, cols []catalog.Column, names []string, each func(first int64, vs []*catalog.Vector, rows int) error) (err error) {
	f, r, err := openSource(ctx, s, cols)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	readers := make([]*shard.ColumnReader, len(names))
	for i, name := range names {
		if readers[i], err = r.Column(name); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, s.Path, err)
		}
	}
	vs := make([]*catalog.Vector, len(names))
	for lo := int64(0); lo < s.Rows; lo += scanRows {
		hi := min(s.Rows, lo+scanRows)
		for i, c := range readers {
			if vs[i], err = c.ReadVector(ctx, lo, hi); err != nil {
				return fmt.Errorf("%w: %s: column %q: %w", ErrDamaged, s.Path, names[i], err)
			}
		}
		if err := each(lo, vs, int(hi-lo)); err != nil {
			return err
		}
	}
	return nil
}

// cover is a set of pixels that do not overlap, by their place on the sky.
type cover struct {
	pixels []pixel
	los    []int64
}

func newCover(pixels []pixel) *cover {
	c := &cover{pixels: slices.Clone(pixels)}
	slices.SortFunc(c.pixels, func(a, b pixel) int {
		x, _ := a.span()
		y, _ := b.span()
		return cmp.Compare(x, y)
	})
	for _, p := range c.pixels {
		lo, _ := p.span()
		c.los = append(c.los, lo)
	}
	return c
}

// find says which pixel of the set holds a cell, -1 where none does, and whether the cell holds some instead.
func (c *cover) find(at pixel) (k int, holds bool) {
	lo, hi := at.span()
	k = sort.Search(len(c.los), func(i int) bool { return c.los[i] > lo }) - 1
	if k >= 0 {
		if _, end := c.pixels[k].span(); end > lo {
			if c.pixels[k].order <= at.order {
				return k, false
			}
			return -1, true
		}
	}
	return -1, k+1 < len(c.los) && c.los[k+1] < hi
}

// marginRow is a row in the margin of a pixel.
type marginRow struct {
	hpx        int64
	shard, row int32 // among the sources, and in that one
	pixel      int32 // among the plan's
}

// marginPlan says which rows stand in the margin of which pixel.
type marginPlan struct {
	pixels []pixel
	opened []pixel     // those of pixels that hold no rows, and did not stand before
	rows   []marginRow // by pixel, _healpix_29, shard, row
}

// of gives the rows of each pixel that has any.
func (p *marginPlan) groups() [][]marginRow {
	var out [][]marginRow
	for lo, hi := 0, 0; lo < len(p.rows); lo = hi {
		for hi = lo + 1; hi < len(p.rows) && p.rows[hi].pixel == p.rows[lo].pixel; hi++ {
		}
		out = append(out, p.rows[lo:hi])
	}
	return out
}

// freeRow is a row that is within the radius of sky that no pixel holds.
type freeRow struct {
	marginRow
	ra, dec float64
	order   int8 // of the pixel that holds it
}

// planner finds the pixels that rows are near.
type planner struct {
	margin *sky.Margin
	cell   int // order of the cells that are looked up
	finest int8
	cover  *cover
}

func newPlanner(d *catalog.Dataset, pixels []pixel) (*planner, error) {
	m, err := sky.NewMargin(float64(d.Margin) / 3.6e6)
	if err != nil {
		return nil, err
	}
	// A pixel that is opened for a margin is at least as wide as about two radii.
	return &planner{margin: m, cell: m.Order(), finest: int8(max(0, min(maxOrder, m.Order()-1))), cover: newCover(pixels)}, nil
}

// near lists the pixels of the set within the radius of a row, but that of the row, and says whether sky is that no pixel holds.
func (p *planner) near(own pixel, hpx int64, ra, dec float64, out []int32) ([]int32, bool, error) {
	if c := hpx >> (2 * (sky.MaxOrder - p.cell)); int(own.order) < p.cell && !sky.OnRim(p.cell, c, int(own.order)) {
		return out, false, nil // its cell's neighbours are all inside its pixel
	}
	cells, err := p.margin.Pixels(p.cell, ra, dec)
	if err != nil {
		return out, false, err
	}
	free := false
	for _, c := range cells {
		out, free = p.look(pixel{int8(p.cell), c}, own, ra, dec, out, free)
	}
	return out, free, nil
}

// look takes a cell that is within the radius.
func (p *planner) look(at, own pixel, ra, dec float64, out []int32, free bool) ([]int32, bool) {
	k, holds := p.cover.find(at)
	switch {
	case k >= 0:
		if p.cover.pixels[k] != own && !slices.Contains(out, int32(k)) {
			out = append(out, int32(k))
		}
	case holds:
		for c := range int64(4) {
			if below := (pixel{at.order + 1, at.pix<<2 | c}); p.margin.Touches(int(below.order), below.pix, ra, dec) {
				out, free = p.look(below, own, ra, dec, out, free)
			}
		}
	default:
		free = true
	}
	return out, free
}

// open finds the pixels that hold the free sky near rows: from order 0 down, those that overlap no pixel there is and are no coarser
// than the finest pixel of a row near them.
func (p *planner) open(at pixel, rows []freeRow, out []pixel) []pixel {
	var near []freeRow
	order := int8(0)
	for i := range rows {
		if p.margin.Touches(int(at.order), at.pix, rows[i].ra, rows[i].dec) {
			near = append(near, rows[i])
			order = max(order, min(rows[i].order, p.finest))
		}
	}
	k, holds := p.cover.find(at)
	switch {
	case len(near) == 0 || k >= 0:
		return out
	case !holds && at.order >= order:
		return append(out, at)
	}
	for c := range int64(4) {
		out = p.open(pixel{at.order + 1, at.pix<<2 | c}, near, out)
	}
	return out
}

// planMargin finds which rows of the sources stand in which margins. pixels are those that there are: of all primary shards,
// and of the margins so far. It holds 24 bytes a row of a margin, and 56 a row near sky that no pixel holds.
func planMargin(ctx context.Context, d *catalog.Dataset, sources []source, pixels []pixel, jobs int, progress Progress) (*marginPlan, error) {
	p, err := newPlanner(d, pixels)
	if err != nil {
		return nil, err
	}
	var total int64
	for i := range sources {
		total += sources[i].Rows
	}
	ra, dec := d.Column(d.RA).DType, d.Column(d.Dec).DType
	rows, free := make([][]marginRow, len(sources)), make([][]freeRow, len(sources))
	var done counter
	err = parallel(ctx, jobs, len(sources), func(ctx context.Context, k int) error {
		s := &sources[k]
		own := pixel{s.Order, s.Pix}
		var near []int32
		return scan(ctx, s, d.Columns, []string{d.RA, d.Dec, healpixColumn}, func(first int64, vs []*catalog.Vector, n int) error {
			for i := range n {
				x, ok1 := number(ra, vs[0], i)
				y, ok2 := number(dec, vs[1], i)
				if !ok1 || !ok2 || vs[2].Null(i) {
					return fmt.Errorf("%w: %s: row %d has no position", ErrDamaged, s.Path, first+int64(i))
				}
				at := marginRow{hpx: int64(binary.LittleEndian.Uint64(vs[2].Data[8*i:])), shard: int32(k), row: int32(first) + int32(i)}
				var open bool
				var err error
				if near, open, err = p.near(own, at.hpx, x, y, near[:0]); err != nil {
					return fmt.Errorf("%w: %s: row %d: %w", ErrDamaged, s.Path, at.row, err)
				}
				for _, at.pixel = range near {
					rows[k] = append(rows[k], at)
				}
				if open {
					free[k] = append(free[k], freeRow{at, x, y, own.order})
				}
			}
			if progress != nil {
				progress("find margins", done.add(int64(n)), total)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	plan := &marginPlan{pixels: p.cover.pixels, rows: slices.Concat(rows...)}
	if all := slices.Concat(free...); len(all) > 0 {
		for base := range int64(12) {
			plan.opened = p.open(pixel{0, base}, all, plan.opened)
		}
		q := *p
		q.cover = newCover(plan.opened)
		for i := range all {
			f := &all[i]
			near, _, err := q.near(pixel{catalog.NoSky, catalog.NoSky}, f.hpx, f.ra, f.dec, nil)
			if err != nil {
				return nil, err
			}
			for _, k := range near {
				f.pixel = int32(len(plan.pixels)) + k
				plan.rows = append(plan.rows, f.marginRow)
			}
		}
		plan.pixels = append(slices.Clone(plan.pixels), q.cover.pixels...)
	}
	slices.SortFunc(plan.rows, func(a, b marginRow) int {
		return cmp.Or(cmp.Compare(a.pixel, b.pixel), cmp.Compare(a.hpx, b.hpx), cmp.Compare(a.shard, b.shard), cmp.Compare(a.row, b.row))
	})
	return plan, nil
}

// heldPixels are the pixels that no later pixel may overlap: those of primary shards and of margins.
func heldPixels(shards []catalog.Shard) []pixel {
	seen := map[pixel]bool{}
	var out []pixel
	for i := range shards {
		if p := (pixel{shards[i].Order, shards[i].Pix}); shards[i].Role != catalog.IDs && p.order != catalog.NoSky && !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}
