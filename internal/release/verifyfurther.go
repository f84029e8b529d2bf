package release

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"astropile/internal/catalog"
)

// further checks margin and id index against the primary shards, release by release: that the margin of each pixel holds
// the rows that are near it and no other, as their own shards do; that the index holds each row's id and pixel.
func (v *verifier) further(ctx context.Context, p *published) error {
	d := &p.release.Dataset
	margin, index := false, false
	for n := 1; n <= p.release.Number && (d.Margin > 0 || d.Index != ""); n++ {
		q, err := v.root.load(d.Name, n)
		if err != nil {
			continue // found with the chain
		}
		sources := func(had bool) []source {
			var out []source
			for _, s := range q.manifest {
				if s.Role == catalog.Primary && (int(s.Release) == n || !had) {
					out = append(out, source{s, v.root.path(s.Path)})
				}
			}
			return out
		}
		check := func(what string, err error) error {
			if errors.Is(err, ErrDamaged) {
				v.find(addedTo(d.Name, what, n), "%v", err)
				return nil
			}
			return err
		}
		if q.release.Dataset.Margin > 0 {
			if err := check("margin", v.margins(ctx, q, sources(margin))); err != nil {
				return err
			}
			margin = true
		}
		if q.release.Dataset.Index != "" {
			if err := check("ids", v.index(ctx, q, sources(index))); err != nil {
				return err
			}
			index = true
		}
	}
	return nil
}

// addedTo names a part of what a release added to a further catalogue.
func addedTo(name, what string, release int) string {
	return name + "_" + what + " of release " + strconv.Itoa(release)
}

// added lists the shards of a role that a release added.
func (v *verifier) added(q *published, role string) []source {
	var out []source
	for _, s := range q.manifest {
		if s.Role == role && int(s.Release) == q.release.Number {
			out = append(out, source{s, v.root.path(s.Path)})
		}
	}
	return out
}

func (v *verifier) margins(ctx context.Context, q *published, sources []source) error {
	d := &q.release.Dataset
	plan, err := planMargin(ctx, d, sources, heldPixels(q.manifest), v.opt.Jobs, v.opt.Progress)
	if err != nil {
		return err
	}
	if len(plan.opened) > 0 {
		v.find(addedTo(d.Name, "margin", q.release.Number), "pixel %d of order %d is within %s arcsec of a row, and no pixel there is holds it", plan.opened[0].pix, plan.opened[0].order, arcsec(d.Margin))
	}
	there := map[pixel][]source{}
	for _, s := range v.added(q, catalog.Margin) {
		px := pixel{s.Order, s.Pix}
		there[px] = append(there[px], s)
	}
	groups := plan.groups()
	errs := make([]error, len(groups))
	err = parallel(ctx, v.opt.Jobs, len(groups), func(ctx context.Context, k int) error {
		errs[k] = sameMargin(ctx, d.Columns, sources, groups[k], there[plan.pixels[groups[k][0].pixel]])
		if errs[k] != nil && !errors.Is(errs[k], ErrDamaged) {
			return errs[k]
		}
		return nil
	})
	if err != nil {
		return err
	}
	for k, g := range groups {
		px := plan.pixels[g[0].pixel]
		delete(there, px)
		if errs[k] != nil {
			v.find(addedTo(d.Name, "margin", q.release.Number), "pixel %d of order %d: %v", px.pix, px.order, errs[k])
		}
	}
	for _, shards := range there {
		v.find(shards[0].Path, "no row that release %d added is within %s arcsec of the pixel", q.release.Number, arcsec(d.Margin))
	}
	return nil
}

// sameMargin compares the margin of a pixel with the rows that have to be in it.
func sameMargin(ctx context.Context, cols []catalog.Column, sources []source, rows []marginRow, shards []source) (err error) {
	var total int64
	for i := range shards {
		total += shards[i].Rows
	}
	if total != int64(len(rows)) {
		return fmt.Errorf("%w: its margin holds %d rows, %d are near it", ErrDamaged, total, len(rows))
	}
	f := newFetcher(cols, sources)
	defer func() { err = errors.Join(err, f.close()) }()
	for len(shards) > 0 {
		// Shards that begin at one place stand in the manifest by their content, not by their rows.
		var tried error
		for k := range shards {
			if shards[k].HpxMin != shards[0].HpxMin {
				break
			}
			n := int(shards[k].Rows)
			if tried = sameRows(ctx, cols, f, rows[:n], &shards[k]); tried == nil {
				rows = rows[n:]
				shards = append(shards[:k:k], shards[k+1:]...)
				break
			}
			if !errors.Is(tried, ErrDamaged) {
				return tried
			}
		}
		if tried != nil {
			return tried
		}
	}
	return nil
}

func sameRows(ctx context.Context, cols []catalog.Column, f *fetcher, rows []marginRow, s *source) (err error) {
	if rows[0].hpx != s.HpxMin || rows[len(rows)-1].hpx != s.HpxMax {
		return fmt.Errorf("%w: %s: the manifest says %s %d to %d, its rows have %d to %d", ErrDamaged, s.Path, healpixColumn, s.HpxMin, s.HpxMax, rows[0].hpx, rows[len(rows)-1].hpx)
	}
	file, r, err := openSource(ctx, s, cols)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return f.each(ctx, rows, nil, func(lo int, b *catalog.Batch) (bool, error) {
		for i := range cols {
			c, err := r.Column(cols[i].Name)
			if err != nil {
				return false, fmt.Errorf("%w: %s: %w", ErrDamaged, s.Path, err)
			}
			got, err := c.ReadVector(ctx, int64(lo), int64(lo+b.Rows))
			if err != nil {
				return false, fmt.Errorf("%w: %s: column %q: %w", ErrDamaged, s.Path, cols[i].Name, err)
			}
			if !equalVectors(&cols[i], got, b.Vectors[i]) {
				return false, fmt.Errorf("%w: %s: column %q differs from the rows' own shards between rows %d and %d", ErrDamaged, s.Path, cols[i].Name, lo, lo+b.Rows)
			}
		}
		return true, nil
	})
}

// equalVectors says whether two vectors of any column hold the same rows, bit for bit; what stands under a null does not count.
func equalVectors(c *catalog.Column, a, b *catalog.Vector) bool {
	switch {
	case a.Rows != b.Rows:
		return false
	case c.Kind == catalog.Scalar:
		return equalRows(c, a, b)
	case c.Kind == catalog.Tensor:
		return bytes.Equal(a.Data, b.Data)
	}
	for i := range a.Rows {
		if a.Null(i) != b.Null(i) {
			return false
		}
	}
	if c.Kind == catalog.Struct {
		for k := range c.Members {
			if !equalVectors(&c.Members[k], a.Members[k], b.Members[k]) {
				return false
			}
		}
		return true
	}
	part := func(v *catalog.Vector, i int) ([]byte, int64) {
		lo, hi := v.Offsets[i], v.Offsets[i+1]
		if c.DType == catalog.String {
			return v.Data[v.StrOffsets[lo]:v.StrOffsets[hi]], hi - lo
		}
		n := int64(c.DType.Size())
		return v.Data[lo*n : hi*n], hi - lo
	}
	for i := range a.Rows {
		x, n := part(a, i)
		y, m := part(b, i)
		if n != m || !bytes.Equal(x, y) {
			return false
		}
		if c.DType == catalog.String {
			for k := range n {
				if p, q := a.Offsets[i]+k, b.Offsets[i]+k; a.StrOffsets[p+1]-a.StrOffsets[p] != b.StrOffsets[q+1]-b.StrOffsets[q] {
					return false
				}
			}
		}
	}
	return true
}

// index compares what a release added to the id index with the rows it has to list.
func (v *verifier) index(ctx context.Context, q *published, sources []source) error {
	d := &q.release.Dataset
	s, err := sortIDs(ctx, d, sources, "", v.opt.Progress)
	if err != nil {
		return err
	}
	defer s.close()
	cols := catalog.IndexColumns(d.Column(d.Index))
	shards := v.added(q, catalog.IDs)
	var total int64
	for i := range shards {
		total += shards[i].Rows
	}
	if total != s.rows {
		return fmt.Errorf("%w: it lists %d rows, the release added %d", ErrDamaged, total, s.rows)
	}
	// The entries go beside the shards' rows, which are read a run at a time.
	rows, stop := make(chan *catalog.Batch), make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		defer close(rows)
		var err error
		for i := range shards {
			if err = scan(ctx, &shards[i], cols, []string{cols[0].Name, cols[1].Name, cols[2].Name}, func(_ int64, vs []*catalog.Vector, n int) error {
				select {
				case rows <- &catalog.Batch{Vectors: slices.Clone(vs), Rows: n}:
					return nil
				case <-stop:
					return context.Canceled
				}
			}); err != nil {
				break
			}
		}
		failed <- err
	}()
	var b *catalog.Batch
	at, listed := 0, int64(0)
	var key []byte
	err = s.each(ctx, func(e *idEntry) error {
		if b == nil || at == b.Rows {
			var ok bool
			if b, ok = <-rows; !ok {
				return fmt.Errorf("%w: it ends after %d rows", ErrDamaged, listed)
			}
			at = 0
		}
		if b.Vectors[0].Null(at) || b.Vectors[1].Null(at) || b.Vectors[2].Null(at) {
			return fmt.Errorf("%w: its row %d holds a null", ErrDamaged, listed)
		}
		key = idKey(key[:0], cols[0].DType, b.Vectors[0], at)
		if pix := binary.LittleEndian.Uint64(b.Vectors[2].Data[8*at:]); !bytes.Equal(key, e.key) || b.Vectors[1].Data[at] != e.order || pix != e.pix {
			return fmt.Errorf("%w: its row %d is not the one that follows from the rows of the release: pixel %d of order %d, expected %d of %d", ErrDamaged, listed, pix, b.Vectors[1].Data[at], e.pix, e.order)
		}
		at++
		listed++
		return nil
	})
	close(stop)
	for range rows { // the other side ends
	}
	if e := <-failed; e != nil && !errors.Is(e, context.Canceled) {
		err = e
	}
	if err != nil {
		return err
	}
	return v.metadata(ctx, q)
}

// metadata compares the index's _metadata with the footers of its shards.
func (v *verifier) metadata(ctx context.Context, q *published) error {
	want, err := v.root.document(releaseDir(q.release), "meta/ids/_metadata", q.release)
	if err != nil {
		return nil //nolint:nilerr // found with the chain
	}
	var all []source
	for _, s := range q.manifest {
		if s.Role == catalog.IDs {
			all = append(all, source{s, v.root.path(s.Path)})
		}
	}
	got, err := idsMetadata(ctx, &q.release.Dataset, q.release.Tool, all)
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%w: its _metadata is not made of the footers of its shards", ErrDamaged)
	}
	return err
}

// roles checks that a manifest has margins and an index only where the release says so, each in its folder.
func (v *verifier) roles(p *published) {
	d := &p.release.Dataset
	folder := map[string]string{catalog.Primary: d.Name + "/dataset/", catalog.Margin: marginName(d.Name) + "/dataset/", catalog.IDs: idsName(d.Name) + "/dataset/index/"}
	for i := range p.manifest {
		s := &p.manifest[i]
		if s.Role == catalog.Margin && d.Margin == 0 || s.Role == catalog.IDs && d.Index == "" {
			v.find(s.Path, "release %d lists it as %s and says that it has none", p.release.Number, s.Role)
		}
		if !strings.HasPrefix(s.Path, folder[s.Role]) {
			v.find(s.Path, "release %d lists it as %s, which stand in %s", p.release.Number, s.Role, folder[s.Role])
		}
	}
}
