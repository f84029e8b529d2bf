package release

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sort"

	"astropile/internal/catalog"
)

// mark stands for the id of a row: what hashes alike is compared.
type mark struct {
	hash uint64
	row  int32
}

// gate looks for ids that occur twice, here or in earlier releases, and leaves rows out where the caller wants that.
func (im *importer) gate(ctx context.Context) error {
	seed := maphash.MakeSeed()
	marks, err := im.marks(ctx, seed)
	if err != nil || im.opt.Duplicates == DuplicatesAll {
		return err
	}
	drop, err := im.twins(marks)
	if err != nil {
		return err
	}
	if im.parent != nil {
		if err := im.known(ctx, seed, marks, drop); err != nil {
			return err
		}
	}
	k := -1
	before := len(im.rows)
	im.rows = slices.DeleteFunc(im.rows, func(row) bool { k++; return drop[k] })
	im.repeated = int64(before - len(im.rows))
	if len(im.rows) == 0 {
		return fmt.Errorf("%w: every id of the inputs is in an earlier release", ErrNothing)
	}
	return nil
}

// marks lists the ids of all rows by their hash, and refuses rows without one.
func (im *importer) marks(ctx context.Context, seed maphash.Seed) ([]mark, error) {
	const step = 1 << 16
	marks := make([]mark, len(im.rows))
	var done counter
	err := parallel(ctx, im.opt.Jobs, (len(im.rows)+step-1)/step, func(_ context.Context, k int) error {
		var buf []byte
		lo, hi := k*step, min((k+1)*step, len(im.rows))
		for i := lo; i < hi; i++ {
			r := &im.rows[i]
			if im.chunks[r.chunk].batch.Vectors[im.id].Null(int(r.at)) {
				return fmt.Errorf("%w: %s has no id", ErrRefused, im.where(r))
			}
			buf = im.rowID(buf[:0], r)
			marks[i] = mark{maphash.Bytes(seed, buf), int32(i)}
		}
		im.progress("check ids", done.add(int64(hi-lo)), int64(len(im.rows)))
		return nil
	})
	if err == nil && im.opt.Duplicates != DuplicatesAll {
		slices.SortFunc(marks, func(a, b mark) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.row, b.row)) })
	}
	return marks, err
}

// twins finds ids that occur more than once among the rows; all but the first are to be left out, or the import is refused.
func (im *importer) twins(marks []mark) (drop []bool, err error) {
	drop = make([]bool, len(im.rows))
	first, second := int32(-1), int32(-1)
	var a, b []byte
	for lo, hi := 0, 0; lo < len(marks); lo = hi {
		for hi = lo + 1; hi < len(marks) && marks[hi].hash == marks[lo].hash; hi++ {
		}
		for j := lo + 1; j < hi; j++ {
			b = im.rowID(b[:0], &im.rows[marks[j].row])
			for i := lo; i < j; i++ {
				if drop[marks[i].row] {
					continue
				}
				if a = im.rowID(a[:0], &im.rows[marks[i].row]); bytes.Equal(a, b) {
					drop[marks[j].row] = true
					if second < 0 || marks[j].row < second {
						first, second = marks[i].row, marks[j].row
					}
					break
				}
			}
		}
	}
	if second >= 0 && im.opt.Duplicates == DuplicatesError {
		return nil, fmt.Errorf("%w: the id %q occurs twice: in %s, and in %s%s; --duplicates first or all lets it pass",
			ErrRefused, im.rowID(nil, &im.rows[second]), im.where(&im.rows[first]), im.where(&im.rows[second]), im.untrimmed(&im.rows[first], &im.rows[second]))
	}
	return drop, nil
}

// known finds rows whose id is in an earlier release.
func (im *importer) known(ctx context.Context, seed maphash.Seed, marks []mark, drop []bool) error {
	d := im.ds.Column(im.ds.ID).DType
	var buf, other []byte
	return im.root.rows(ctx, im.parent, []string{im.ds.ID}, func(release int, vs []*catalog.Vector, rows int) error {
		for i := 0; i < rows; i++ {
			buf = idText(buf[:0], d, vs[0], i)
			h := maphash.Bytes(seed, buf)
			for k := sort.Search(len(marks), func(k int) bool { return marks[k].hash >= h }); k < len(marks) && marks[k].hash == h; k++ {
				r := &im.rows[marks[k].row]
				if other = im.rowID(other[:0], r); !bytes.Equal(buf, other) {
					continue
				}
				if im.opt.Duplicates == DuplicatesError {
					return fmt.Errorf("%w: the id %q of %s is in release %d already%s; --duplicates first leaves it out", ErrRefused, buf, im.where(r), release, im.untrimmed(r))
				}
				drop[marks[k].row] = true
			}
		}
		return nil
	})
}

// untrimmed says how the ids of rows stood in their inputs, where that differs: decoding and trimming may have made them
// equal.
func (im *importer) untrimmed(rows ...*row) string {
	if im.survey.RawID == "" {
		return ""
	}
	k := slices.IndexFunc(im.survey.Columns, func(c catalog.Column) bool { return c.Name == im.survey.RawID })
	var raw []string
	differs := false
	for _, r := range rows {
		s := string(im.chunks[r.chunk].batch.Vectors[k].Str(int(r.at)))
		differs = differs || s != string(im.rowID(nil, r)) && len(rows) == 1 || len(raw) > 0 && s != raw[0]
		raw = append(raw, s)
	}
	if !differs {
		return ""
	}
	return fmt.Sprintf(" (as %q in the inputs: decoding and trimming made them equal)", raw)
}
