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
