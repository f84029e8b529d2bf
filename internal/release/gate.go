package release

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"astropile/internal/catalog"
)

// gate looks for ids that occur twice, here or in earlier releases, and leaves rows out where the caller wants that.
// It notes each id by a keyed hash; what hashes alike is compared.
func (im *importer) gate(ctx context.Context) error {
	seed := maphash.MakeSeed()
	seen := make(map[uint64]int32, len(im.rows)) // the first row of this import of a hash
	more := map[uint64][]int32{}                 // further rows of other ids with that hash
	var old map[uint64]bool                      // ids of earlier releases
	var buf, other []byte
	if im.parent != nil && im.opt.Duplicates != DuplicatesAll {
		old = map[uint64]bool{}
		d := im.ds.Column(im.ds.ID).DType
		err := im.root.rows(ctx, im.parent, []string{im.ds.ID}, func(_ int, vs []*catalog.Vector, rows int) error {
			for i := 0; i < rows; i++ {
				buf = idText(buf[:0], d, vs[0], i)
				old[maphash.Bytes(seed, buf)] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	var suspects map[string]int // ids that may be in an earlier release
	out := im.rows[:0]
	for k := range im.rows {
		if k%65536 == 0 {
			im.progress("check ids", int64(k), int64(len(im.rows)))
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		r := im.rows[k]
		v := im.chunks[r.chunk].batch.Vectors[im.id]
		if v.Null(int(r.at)) {
			return fmt.Errorf("%w: %s has no id", ErrRefused, im.where(&r))
		}
		buf = im.rowID(buf[:0], &r)
		if im.opt.Duplicates == DuplicatesAll {
			out = append(out, r)
			continue
		}
		h := maphash.Bytes(seed, buf)
		twin := -1
		first, ok := seen[h]
		if ok {
			for _, x := range append([]int32{first}, more[h]...) {
				if other = im.rowID(other[:0], &out[x]); bytes.Equal(buf, other) {
					twin = int(x)
					break
				}
			}
		}
		if twin >= 0 {
			if im.opt.Duplicates == DuplicatesError {
				return fmt.Errorf("%w: the id %q occurs twice: in %s, and in %s; --duplicates first or all lets it pass", ErrRefused, buf, im.where(&out[twin]), im.where(&r))
			}
			im.repeated++
			continue
		}
		if old[h] {
			if suspects == nil {
				suspects = map[string]int{}
			}
			suspects[string(buf)] = len(out)
		}
		if ok {
			more[h] = append(more[h], int32(len(out)))
		} else {
			seen[h] = int32(len(out))
		}
		out = append(out, r)
	}
	im.rows = out
	if len(suspects) > 0 {
		if err := im.known(ctx, suspects); err != nil {
			return err
		}
	}
	if len(im.rows) == 0 {
		return fmt.Errorf("%w: every id of the inputs is in an earlier release", ErrNothing)
	}
	return nil
}

// known settles which of the suspects earlier releases really have, and leaves them out or refuses them.
func (im *importer) known(ctx context.Context, suspects map[string]int) error {
	d := im.ds.Column(im.ds.ID).DType
	var buf []byte
	drop := map[int]bool{}
	err := im.root.rows(ctx, im.parent, []string{im.ds.ID}, func(release int, vs []*catalog.Vector, rows int) error {
		for i := 0; i < rows; i++ {
			buf = idText(buf[:0], d, vs[0], i)
			k, ok := suspects[string(buf)]
			if !ok {
				continue
			}
			if im.opt.Duplicates == DuplicatesError {
				return fmt.Errorf("%w: the id %q of %s is in release %d already; --duplicates first leaves it out", ErrRefused, buf, im.where(&im.rows[k]), release)
			}
			drop[k] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	k := -1
	im.rows = slices.DeleteFunc(im.rows, func(row) bool { k++; return drop[k] })
	im.repeated += int64(len(drop))
	return nil
}
