package release

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"astropile/internal/catalog"
)

func TestIDsComeSortedByValueHoweverLittleMemoryThereIs(t *testing.T) {
	for _, d := range []catalog.DType{catalog.Int64, catalog.Int8, catalog.Uint32, catalog.String} {
		for _, budget := range []int{1 << 20, 4000, 1} {
			r := rand.New(rand.NewPCG(1, uint64(budget)))
			c := catalog.Column{Name: "id", Kind: catalog.Scalar, DType: d}
			v := catalog.NewVector(&c)
			const rows = 500
			for range rows {
				var b [8]byte
				binary.LittleEndian.PutUint64(b[:], r.Uint64())
				if d == catalog.String {
					v.Data = append(v.Data, b[:r.IntN(9)]...)
					v.Offsets = append(v.Offsets, int64(len(v.Data)))
				} else {
					v.Data = append(v.Data, b[:d.Size()]...)
				}
				v.Rows++
			}
			folder := t.TempDir()
			s := &idSorter{budget: budget, folder: folder}
			for i := range rows {
				if err := s.add(idKey(nil, d, v, i), int8(i%3), int64(i)); err != nil {
					t.Fatal(err)
				}
			}
			if (len(s.runs) > 0) != (budget < 1<<20) {
				t.Fatalf("%d runs at a budget of %d", len(s.runs), budget)
			}
			out := catalog.NewVector(&c)
			seen := map[uint64]bool{}
			var last idEntry
			if err := s.each(context.Background(), func(e *idEntry) error {
				if compareIDs(&last, e) > 0 {
					t.Fatalf("%s, budget %d: %v after %v", d, budget, *e, last)
				}
				last = idEntry{bytes.Clone(e.key), e.order, e.pix}
				if seen[e.pix] || e.order != uint8(e.pix%3) {
					t.Fatalf("%s, budget %d: %v", d, budget, *e)
				}
				seen[e.pix] = true
				appendKey(out, d, e.key)
				if !bytes.Equal(idKey(nil, d, out, out.Rows-1), idKey(nil, d, v, int(e.pix))) {
					t.Fatalf("%s: row %d came back as another value", d, e.pix)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			s.close()
			if len(seen) != rows {
				t.Fatalf("%d of %d", len(seen), rows)
			}
			for i := 1; d == catalog.Int64 && i < out.Rows; i++ {
				if a, b := int64(binary.LittleEndian.Uint64(out.Data[8*i-8:])), int64(binary.LittleEndian.Uint64(out.Data[8*i:])); a > b {
					t.Fatalf("%d before %d", a, b)
				}
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Fatalf("%v is left (%v)", left, err)
			}
		}
	}
}

func TestSortingOfIDsEndsWithTheFirstError(t *testing.T) {
	stop := errors.New("enough")
	for _, budget := range []int{1 << 20, 100} {
		s := &idSorter{budget: budget, folder: t.TempDir()}
		for i := range 10 {
			if err := s.add([]byte{byte(i)}, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.each(context.Background(), func(*idEntry) error { return stop }); !errors.Is(err, stop) {
			t.Error(err)
		}
		s.close()
	}
}
