package release

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"astropile/internal/catalog"
)

// window reads records back, some at a time.
type window struct {
	im    *importer
	room  int64
	whole bool // with their tensors
	buf   []byte
	recs  [][]byte
	order []int
}

const nearBy = 4 << 10 // bytes between two records that are read rather than passed over

// length is how much of a row's record is read.
func (w *window) length(r *row) int64 {
	if w.whole {
		return int64(r.length)
	}
	return int64(r.length) - int64(w.im.codec.tail)
}

// each reads the records of rows, checks them, and gives them in order, some at a time.
func (w *window) each(ctx context.Context, rows []row, do func(rows []row, recs [][]byte)) error {
	for lo := 0; lo < len(rows); {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi, n := lo, int64(0)
		for hi < len(rows) && (hi == lo || n+w.length(&rows[hi]) <= w.room) && hi-lo < entriesAtOnce {
			n += w.length(&rows[hi])
			hi++
		}
		if err := w.read(rows[lo:hi]); err != nil {
			return err
		}
		do(rows[lo:hi], w.recs)
		lo = hi
	}
	return nil
}

// read reads the records of rows in the order in which they stand in the file, neighbours together.
func (w *window) read(rows []row) error {
	w.order = w.order[:0]
	for i := range rows {
		w.order = append(w.order, i)
	}
	slices.SortFunc(w.order, func(a, b int) int { return cmp.Compare(rows[a].off, rows[b].off) })
	w.recs = slices.Grow(w.recs[:0], len(rows))[:len(rows)]
	need := int64(0)
	for k := 0; k < len(w.order); {
		end := w.together(rows, k)
		need += w.end(rows, end-1) - rows[w.order[k]].off
		k = end
	}
	if int64(cap(w.buf)) < need {
		w.buf = make([]byte, need)
	}
	w.buf = w.buf[:need]
	at := int64(0)
	for k := 0; k < len(w.order); {
		end := w.together(rows, k)
		start := rows[w.order[k]].off
		part := w.buf[at : at+w.end(rows, end-1)-start]
		if err := readWhole(w.im.spool.rows, part, start); err != nil {
			return err
		}
		for _, i := range w.order[k:end] {
			r := &rows[i]
			rec := part[r.off-start : r.off-start+w.length(r)]
			if err := w.im.codec.check(rec, w.whole); err != nil {
				return err
			}
			w.recs[i] = rec
		}
		at += int64(len(part))
		k = end
	}
	return nil
}

func (w *window) end(rows []row, k int) int64 {
	r := &rows[w.order[k]]
	return r.off + w.length(r)
}

// together is the end of the run of neighbours that begins with the k-th row in the order of the file.
func (w *window) together(rows []row, k int) int {
	k++
	for k < len(w.order) && rows[w.order[k]].off-w.end(rows, k-1) <= nearBy {
		k++
	}
	return k
}

// batch brings the rows together as a batch of the columns that g is for.
func (w *window) batch(ctx context.Context, g *gathering, rows []row) (*catalog.Batch, error) {
	g.reset(len(rows))
	err := w.each(ctx, rows, func(rows []row, recs [][]byte) {
		const some = 64 // records that stay in a processor's cache while their columns are taken
		for lo := 0; lo < len(recs); lo += some {
			part := rows[lo:min(lo+some, len(recs))]
			g.add(recs[lo:lo+len(part)], func(i int) int64 { return part[i].hpx })
		}
	})
	if err != nil {
		return nil, err
	}
	b := &catalog.Batch{Rows: len(rows)}
	for k, v := range g.vs {
		if v != nil {
			v.Rows = len(rows)
			b.Columns, b.Vectors = append(b.Columns, w.im.cols[k]), append(b.Vectors, v)
		}
	}
	return b, nil
}

// constant lists the tensor columns whose rows are all bit-equal.
func (im *importer) constant(ctx context.Context, rows []row) ([]string, error) {
	var out []string
	if len(rows) < 2 {
		return nil, nil
	}
	for k := range im.codec.tensors {
		p := &im.codec.tensors[k]
		n := p.n
		value := func(dst []byte, r *row) error {
			return readWhole(im.spool.rows, dst, r.off+int64(r.length)-int64(im.codec.tail-p.at))
		}
		// What differs mostly differs at once, and in its first bytes.
		first, next := make([]byte, n), make([]byte, n)
		if err := value(first, &rows[0]); err != nil {
			return nil, err
		}
		same := true
		for i := 1; i < len(rows) && same; i++ {
			if i%256 == 0 && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			head := next[:min(n, nearBy)]
			if err := value(head, &rows[i]); err != nil {
				return nil, err
			}
			if same = bytes.Equal(head, first[:len(head)]); same && n > len(head) {
				if err := value(next, &rows[i]); err != nil {
					return nil, err
				}
				same = bytes.Equal(next, first)
			}
		}
		if same {
			out = append(out, im.cols[p.k].Name)
		}
	}
	return out, nil
}
