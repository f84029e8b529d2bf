package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"astropile/internal/catalog"
)

// vectored offers ReadVectorAt over bytes in memory.
type vectored struct{ *bytes.Reader }

func (v vectored) ReadVectorAt(bufs [][]byte, off int64) (int, error) {
	n := 0
	for _, b := range bufs {
		k, err := v.ReadAt(b, off+int64(n))
		n += k
		if k < len(b) {
			return n, err
		}
	}
	return n, nil
}

// rowsOf picks rows of a vector.
func rowsOf(c *catalog.Column, v *catalog.Vector, rows []int64) *catalog.Vector {
	out := catalog.NewVector(c)
	for _, r := range rows {
		out.AppendRow(c, v, int(r))
	}
	return out
}

// sameVector compares rows, where no validity is the same as all valid.
func sameVector(c *catalog.Column, a, b *catalog.Vector) error {
	if a.Rows != b.Rows {
		return fmt.Errorf("%d rows, want %d", a.Rows, b.Rows)
	}
	if err := a.Check(c); err != nil {
		return err
	}
	for i := 0; i < a.Rows; i++ {
		if a.Null(i) != b.Null(i) {
			return fmt.Errorf("row %d: null is %v, want %v", i, a.Null(i), b.Null(i))
		}
	}
	if c.Kind == catalog.Struct {
		for k := range c.Members {
			if err := sameVector(&c.Members[k], a.Members[k], b.Members[k]); err != nil {
				return fmt.Errorf("member %q: %w", c.Members[k].Name, err)
			}
		}
		return nil
	}
	// Rebased copies differ in nothing if the rows do not.
	x, y := catalog.NewVector(c), catalog.NewVector(c)
	for i := 0; i < a.Rows; i++ {
		x.AppendRow(c, a, i)
		y.AppendRow(c, b, i)
	}
	if !bytes.Equal(x.Data, y.Data) || !slices.Equal(x.Offsets, y.Offsets) || !slices.Equal(x.StrOffsets, y.StrOffsets) {
		return errors.New("values differ")
	}
	return nil
}

func openBytes(t testing.TB, b []byte, opt OpenOptions, vec bool) *Reader {
	t.Helper()
	var src io.ReaderAt = bytes.NewReader(b)
	if vec {
		src = vectored{bytes.NewReader(b)}
	}
	r, err := Open(context.Background(), src, int64(len(b)), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// picks are row numbers as readers ask for them: alone, in runs, repeated, backwards.
func picks(rows int, r *rand.Rand) []int64 {
	var out []int64
	for len(out) < 40 {
		at := r.IntN(rows)
		for k := 0; k < 1+r.IntN(9) && at+k < rows; k++ {
			out = append(out, int64(at+k))
		}
	}
	return append(out, out[0], out[len(out)-1], int64(rows-1), 0)
}

func TestEveryColumnReadsBackAsWritten(t *testing.T) {
	ctx := context.Background()
	for _, s := range samples() {
		t.Run(s.name, func(t *testing.T) {
			b, info := s.write(t, s.spec(), max(1, s.rows/3))
			for _, c := range []struct {
				name string
				opt  OpenOptions
				vec  bool
			}{
				{"described by the file", OpenOptions{}, false},
				{"described by the release", OpenOptions{Columns: s.cols, Own: true, Tail: b[info.TailOffset:]}, true},
				{"with page sums", OpenOptions{Columns: s.cols, CheckCRC: true}, true},
			} {
				r := openBytes(t, b, c.opt, c.vec)
				if r.Rows() != int64(s.rows) || len(r.Columns()) != len(s.cols) {
					t.Fatalf("%s: %d rows of %d columns", c.name, r.Rows(), len(r.Columns()))
				}
				rng := rand.New(rand.NewPCG(3, 4))
				for k := range s.cols {
					col := &s.cols[k]
					if got := r.Columns()[k]; got.Name != col.Name || got.Kind != col.Kind || got.DType != col.DType || fmt.Sprint(got.Shape) != fmt.Sprint(col.Shape) || got.Unit != col.Unit {
						t.Fatalf("%s: column %+v, want %+v", c.name, got, *col)
					}
					cr, err := r.Column(col.Name)
					if err != nil {
						t.Fatal(err)
					}
					if col.Kind == catalog.Tensor {
						rows := picks(s.rows, rng)
						dst := make([]byte, len(rows)*col.RowBytes())
						if err := cr.ReadRows(ctx, rows, dst); err != nil {
							t.Fatalf("%s: %v", c.name, err)
						}
						if !bytes.Equal(dst, rowsOf(col, s.vectors[k], rows).Data) {
							t.Fatalf("%s: column %q: picked rows differ", c.name, col.Name)
						}
					}
					lo := rng.IntN(s.rows)
					hi := lo + 1 + rng.IntN(s.rows-lo)
					for _, x := range [][2]int{{0, s.rows}, {lo, hi}} {
						v, err := cr.ReadVector(ctx, int64(x[0]), int64(x[1]))
						if err != nil {
							t.Fatalf("%s: %v", c.name, err)
						}
						if err := sameVector(col, v, s.vectors[k].Slice(col, x[0], x[1])); err != nil {
							t.Fatalf("%s: column %q, rows %v: %v", c.name, col.Name, x, err)
						}
					}
				}
			}
		})
	}
}

func TestWhatMapsIsWhereTheTableSays(t *testing.T) {
	ctx := context.Background()
	for _, s := range samples() {
		b, _ := s.write(t, s.spec(), s.rows)
		r := openBytes(t, b, OpenOptions{Columns: s.cols, Own: true}, true)
		for k := range s.cols {
			col := &s.cols[k]
			cr, err := r.Column(col.Name)
			if err != nil {
				t.Fatal(err)
			}
			l, err := cr.Locate(ctx)
			maps := col.Kind == catalog.Tensor && col.Codec == catalog.None && (col.Layout == catalog.Plain || col.Layout == catalog.Identity) && !r.Constant(col.Name)
			if maps != (err == nil) || err != nil && !errors.Is(err, ErrNotMapped) {
				t.Fatalf("%s: column %q (%s, %s): %v", s.name, col.Name, col.Layout, col.Codec, err)
			}
			if err != nil {
				continue
			}
			rb := int64(col.RowBytes())
			for p := range l.Offsets {
				n := (l.First[p+1] - l.First[p]) * rb
				if !bytes.Equal(b[l.Offsets[p]:l.Offsets[p]+n], s.vectors[k].Data[l.First[p]*rb:l.First[p]*rb+n]) {
					t.Fatalf("%s: column %q: page %d is not at byte %d", s.name, col.Name, p, l.Offsets[p])
				}
			}
			if l.First[len(l.First)-1] != int64(s.rows) {
				t.Fatalf("%s: column %q: the table ends at row %d", s.name, col.Name, l.First[len(l.First)-1])
			}
		}
	}
}

func TestAConstantColumnIsNamedOnlyThroughAManifest(t *testing.T) {
	for _, s := range samples() {
		if len(s.constant) == 0 {
			continue
		}
		b, _ := s.write(t, s.spec(), s.rows)
		for _, name := range s.constant {
			if !openBytes(t, b, OpenOptions{Own: true}, false).Constant(name) || openBytes(t, b, OpenOptions{}, false).Constant(name) {
				t.Errorf("%q", name)
			}
		}
	}
}

func TestRowsOutsideTheFileAreRefused(t *testing.T) {
	s := newSample("x", 10, 1, tensor("t", catalog.Float32, 3), scalar("id", catalog.Int64, false))
	b, _ := s.write(t, s.spec(), 10)
	r := openBytes(t, b, OpenOptions{}, false)
	c, err := r.Column("t")
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 12)
	for _, row := range []int64{-1, 10, 1 << 62} {
		if err := c.ReadRows(context.Background(), []int64{row}, dst); !errors.Is(err, ErrRows) {
			t.Errorf("row %d: %v", row, err)
		}
	}
	if err := c.ReadRows(context.Background(), []int64{0}, dst[:4]); !errors.Is(err, ErrRows) {
		t.Error(err)
	}
	if _, err := c.ReadVector(context.Background(), 3, 11); !errors.Is(err, ErrRows) {
		t.Error(err)
	}
	if _, err := r.Column("nope"); !errors.Is(err, ErrColumn) {
		t.Error(err)
	}
}
