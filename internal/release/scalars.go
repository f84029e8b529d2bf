package release

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"astropile/internal/catalog"
	"astropile/internal/shard"
)

const maxTail = 1 << 30 // bytes of a shard's tail: offset indexes and footer

func int32At(v *catalog.Vector, i int) int32 { return int32(binary.LittleEndian.Uint32(v.Data[4*i:])) }

// shardScalars reads the scalars of one shard for comparison.
type shardScalars struct {
	path string
	file *os.File
	r    *shard.Reader
}

func openScalars(ctx context.Context, name, path string) (*shardScalars, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil {
		var r *shard.Reader
		if r, err = shard.Open(ctx, f, st.Size(), shard.OpenOptions{Own: true}); err == nil {
			return &shardScalars{path, f, r}, nil
		}
	}
	_ = f.Close()
	return nil, err
}

func (s *shardScalars) close() {
	if s != nil {
		_ = s.file.Close()
	}
}

// compare compares n rows of the rows file, from row i of the vectors on, with the shard's own from row first on.
func (s *shardScalars) compare(ctx context.Context, cols []catalog.Column, vs []*catalog.Vector, i, n int, first int64) error {
	for k := range cols {
		c := &cols[k]
		col, err := s.r.Column(c.Name)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, s.path, err)
		}
		got, err := col.ReadVector(ctx, first, first+int64(n))
		if err != nil {
			return fmt.Errorf("%w: %s: column %q: %w", ErrDamaged, s.path, c.Name, err)
		}
		if !equalRows(c, got, vs[k].Slice(c, i, i+n)) {
			return fmt.Errorf("%w: %s: column %q differs from the rows file between rows %d and %d", ErrDamaged, s.path, c.Name, first, first+int64(n))
		}
	}
	return nil
}

// equalRows says whether two scalar vectors hold the same rows, bit for bit; what stands under a null does not count.
func equalRows(c *catalog.Column, a, b *catalog.Vector) bool {
	if a.Rows != b.Rows {
		return false
	}
	if a.Valid == nil && b.Valid == nil && c.Fixed() {
		return bytes.Equal(a.Data, b.Data)
	}
	n := c.RowBytes()
	for i := 0; i < a.Rows; i++ {
		if a.Null(i) != b.Null(i) {
			return false
		}
		if a.Null(i) {
			continue
		}
		if n > 0 && !slices.Equal(a.Data[i*n:(i+1)*n], b.Data[i*n:(i+1)*n]) || n == 0 && !bytes.Equal(a.Str(i), b.Str(i)) {
			return false
		}
	}
	return true
}

// inPlace checks that rows [first, first+n) of a shard, from i on in v, stand in order and inside the range that the manifest
// gives.
func inPlace(s *catalog.Shard, v *catalog.Vector, i, n int, first int64) error {
	at := func(k int) int64 { return int64(binary.LittleEndian.Uint64(v.Data[8*k:])) }
	for k := i; k < i+n; k++ {
		row := first + int64(k-i)
		if h := at(k); v.Null(k) || h < s.HpxMin || h > s.HpxMax || row == 0 && h != s.HpxMin || row == s.Rows-1 && h != s.HpxMax || k > i && h < at(k-1) {
			return fmt.Errorf("%w: %s: row %d is at %s %d: out of order, or not within %d to %d as the manifest says", ErrDamaged, s.Path, row, healpixColumn, h, s.HpxMin, s.HpxMax)
		}
	}
	return nil
}

// statistics checks row k of a release's statistics against rows [i, i+n) of the vectors, which are those of shard k.
func (v *verifier) statistics(name string, release, k int, cols []catalog.Column, vs []*catalog.Vector, i, n int) error {
	if v.stats == nil || v.statsOf != release {
		v.stats, v.statsOf = nil, release
		q, err := v.root.load(name, release)
		if err != nil {
			return nil //nolint:nilerr // found with the chain
		}
		b, err := v.root.document(releaseDir(q.release), "stats.parquet", q.release)
		if err != nil {
			return nil //nolint:nilerr // found with the chain
		}
		if v.stats, _, err = catalog.DecodeScalars("stats", b, catalog.StatColumns(cols)); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	part := make([]*catalog.Vector, len(vs))
	for x := range vs {
		part[x] = vs[x].Slice(&cols[x], i, i+n)
	}
	stat := catalog.StatColumns(cols)
	for x, want := range catalog.Stats(cols, part) {
		if got := v.stats[x]; k >= got.Rows || !equalRows(&stat[x], got.Slice(&stat[x], k, k+1), want) {
			return fmt.Errorf("%w: row %d of the statistics of release %d: %s is not that of the shard", ErrDamaged, k, release, stat[x].Name)
		}
	}
	return nil
}

// checkTail checks a shard's length and tail against its line of the manifest.
func checkTail(name string, s *catalog.Shard, digest string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() != s.Bytes {
		return fmt.Errorf("%w: %s has %d bytes, the manifest says %d", ErrDamaged, s.Path, st.Size(), s.Bytes)
	}
	if s.Bytes-s.TailOffset > maxTail {
		return fmt.Errorf("%w: %s: a tail of %d bytes, at most %d", ErrDamaged, s.Path, s.Bytes-s.TailOffset, int64(maxTail))
	}
	tail := make([]byte, s.Bytes-s.TailOffset)
	if _, err := f.ReadAt(tail, s.TailOffset); err != nil {
		return err
	}
	sum, err := shard.DigestFunc(digest)
	if err != nil {
		return err
	}
	if got := sum(tail); got != s.TailDigest {
		return fmt.Errorf("%w: the tail of %s has digest %x, the manifest says %x", ErrDamaged, s.Path, got, s.TailDigest)
	}
	return nil
}
