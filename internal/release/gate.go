package release

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sort"

	"astropile/internal/catalog"
)

// mark stands for the id of a row: what hashes alike is compared.
type mark struct {
	hash uint64
	seq  int64
}

// dropped is a set of rows, by number.
type dropped struct {
	bits []uint64
	n    int64
}

func (d *dropped) add(seq, total int64) {
	if d.bits == nil {
		d.bits = make([]uint64, (total+63)/64)
	}
	if !d.has(seq) {
		d.bits[seq/64] |= 1 << (seq % 64)
		d.n++
	}
}

func (d *dropped) has(seq int64) bool { return d.bits != nil && d.bits[seq/64]&(1<<(seq%64)) != 0 }

// entries goes through the index of all rows in the order of their numbers.
func (im *importer) entries(ctx context.Context, do func(seq int64, e *entry) error) error {
	buf := make([]entry, entriesAtOnce)
	for _, i := range im.order {
		seq := im.state[i].base
		for k := range im.state[i].blocks {
			b := &im.state[i].blocks[k]
			for lo := int64(0); lo < b.Rows; lo += entriesAtOnce {
				if err := ctx.Err(); err != nil {
					return err
				}
				some := buf[:min(entriesAtOnce, b.Rows-lo)]
				if err := im.spool.entries(b, lo, some); err != nil {
					return err
				}
				for x := range some {
					if err := do(seq, &some[x]); err != nil {
						return err
					}
					seq++
				}
			}
		}
	}
	return nil
}

const entriesAtOnce = 8192

// gate looks for ids that occur twice, here or in earlier releases, and leaves rows out where the caller wants that.
func (im *importer) gate(ctx context.Context) error {
	if im.opt.Duplicates == DuplicatesAll {
		return ctx.Err()
	}
	s := newSorter(im.root.disk, im.spool.dir, "ids", im.budget.sort, func(a, b mark) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.seq, b.seq)) })
	defer s.close()
	done := int64(0)
	err := im.entries(ctx, func(seq int64, e *entry) error {
		if done++; done%readAtOnce == 0 || done == im.total {
			im.progress("check ids", done, im.total)
		}
		return s.add(mark{e.hash, seq})
	})
	if err != nil {
		return err
	}
	all := newTable[mark](im.root.disk, filepath.Join(im.spool.dir, "marks"), im.budget.table)
	defer all.close()
	t := twins{im: im, second: -1}
	err = s.each(ctx, func(m mark) error {
		if im.parent != nil {
			if err := all.add(m); err != nil {
				return err
			}
		}
		return t.add(m)
	})
	if err != nil {
		return err
	}
	if t.second >= 0 && im.opt.Duplicates == DuplicatesError {
		id, err := im.idOf(nil, t.second)
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: the id %q occurs twice: in %s, and in %s%s; --duplicates first or all lets it pass", ErrRefused, id, im.where(t.first), im.where(t.second), im.untrimmed(ctx, t.first, t.second))
	}
	if im.parent != nil {
		marks, err := all.whole()
		if err != nil {
			return err
		}
		if err := im.known(ctx, marks); err != nil {
			return err
		}
	}
	if im.repeated = im.drop.n; im.repeated == im.total {
		return fmt.Errorf("%w: every id of the inputs is in an earlier release", ErrNothing)
	}
	return nil
}

// twins finds ids that occur more than once among marks that come in order; all but the first are to be left out.
type twins struct {
	im            *importer
	hash          uint64
	same          []int64 // rows of that hash whose ids differ
	first, second int64   // of the twins whose second has the lowest number
}

func (t *twins) add(m mark) error {
	if len(t.same) == 0 || m.hash != t.hash {
		t.hash, t.same = m.hash, append(t.same[:0], m.seq)
		return nil
	}
	b, err := t.im.idOf(nil, m.seq)
	if err != nil {
		return err
	}
	for _, seq := range t.same {
		a, err := t.im.idOf(nil, seq)
		if err != nil {
			return err
		}
		if bytes.Equal(a, b) {
			t.im.drop.add(m.seq, t.im.total)
			if t.second < 0 || m.seq < t.second {
				t.first, t.second = seq, m.seq
			}
			return nil
		}
	}
	t.same = append(t.same, m.seq)
	return nil
}

// known finds rows whose id is in an earlier release.
func (im *importer) known(ctx context.Context, marks []mark) error {
	d := im.ds.Column(im.ds.ID).DType
	var buf, other []byte
	return im.root.rows(ctx, im.parent, []string{im.ds.ID}, func(release int, vs []*catalog.Vector, rows int) error {
		for i := 0; i < rows; i++ {
			buf = vs[0].AppendText(buf[:0], d, i)
			h := idHash(buf)
			for k := sort.Search(len(marks), func(k int) bool { return marks[k].hash >= h }); k < len(marks) && marks[k].hash == h; k++ {
				var err error
				if other, err = im.idOf(other[:0], marks[k].seq); err != nil {
					return err
				}
				if !bytes.Equal(buf, other) {
					continue
				}
				if im.opt.Duplicates == DuplicatesError {
					return fmt.Errorf("%w: the id %q of %s is in release %d already%s; --duplicates first leaves it out", ErrRefused, buf, im.where(marks[k].seq), release, im.untrimmed(ctx, marks[k].seq))
				}
				im.drop.add(marks[k].seq, im.total)
			}
		}
		return nil
	})
}

// untrimmed says how the ids of rows stood in their inputs, where that differs: decoding and trimming may have made them
// equal.
func (im *importer) untrimmed(ctx context.Context, seqs ...int64) string {
	if im.survey.RawID == "" {
		return ""
	}
	var raw []string
	differs := false
	for _, seq := range seqs {
		e, err := im.entryOf(seq)
		if err != nil {
			return ""
		}
		w := window{im: im, room: windowLeast, whole: true}
		b, err := w.batch(ctx, im.codec.gather(1, func(c *catalog.Column) bool { return c.Name == im.survey.RawID }), []row{{off: e.off, length: e.length}})
		if err != nil || len(b.Vectors) != 1 {
			return ""
		}
		id, err := im.idAt(nil, e.off, e.length)
		if err != nil {
			return ""
		}
		s := string(b.Vectors[0].Str(0))
		differs = differs || s != string(id) && len(seqs) == 1 || len(raw) > 0 && s != raw[0]
		raw = append(raw, s)
	}
	if !differs {
		return ""
	}
	return fmt.Sprintf(" (as %q in the inputs: decoding and trimming made them equal)", raw)
}

// sort brings the rows into the order of a shard: place, id as text, input, row.
func (im *importer) sort(ctx context.Context) error {
	s := newSorter(im.root.disk, im.spool.dir, "order", im.budget.sort, func(a, b row) int { return cmp.Or(cmp.Compare(a.hpx, b.hpx), cmp.Compare(a.seq, b.seq)) })
	defer s.close()
	im.counts = make([]int64, len(im.survey.Inputs))
	at := 0 // of im.order: where seq is
	done := int64(0)
	err := im.entries(ctx, func(seq int64, e *entry) error {
		if done++; done%readAtOnce == 0 || done == im.total {
			im.progress("sort rows", done, im.total)
		}
		if im.drop.has(seq) {
			return nil
		}
		for at+1 < len(im.order) && im.state[im.order[at+1]].base <= seq {
			at++
		}
		im.counts[im.order[at]]++
		r := row{hpx: e.hpx, off: e.off, seq: seq, payload: e.payload, length: e.length}
		if im.ra < 0 {
			r.hpx = seq
		}
		im.longest = max(im.longest, int64(e.payload), int64(e.length))
		return s.add(r)
	})
	if err != nil {
		return err
	}
	im.sorted = newTable[row](im.root.disk, filepath.Join(im.spool.dir, "sorted"), im.budget.table)
	var here []row // rows in one place
	sum := int64(0)
	flush := func() error {
		if len(here) > 1 {
			if err := im.byID(here); err != nil {
				return err
			}
		}
		for _, r := range here {
			r.sum = sum
			sum += int64(r.payload)
			if err := im.sorted.add(r); err != nil {
				return err
			}
		}
		here = here[:0]
		return nil
	}
	err = s.each(ctx, func(r row) error {
		if len(here) > 0 && here[0].hpx != r.hpx {
			if err := flush(); err != nil {
				return err
			}
		}
		here = append(here, r)
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	im.rows, err = im.sorted.whole()
	return err
}

// byID sorts rows in one place by id as text; they come by number.
func (im *importer) byID(rows []row) error {
	type named struct {
		id string
		row
	}
	list := make([]named, len(rows))
	for i, r := range rows {
		id, err := im.idAt(nil, r.off, r.length)
		if err != nil {
			return err
		}
		list[i] = named{string(id), r}
	}
	slices.SortStableFunc(list, func(a, b named) int { return cmp.Compare(a.id, b.id) })
	for i := range list {
		rows[i] = list[i].row
	}
	return nil
}
