package stream

import (
	"context"
	"fmt"

	"astropile/internal/shard"
)

// MapTable says where the values of a tensor column stand in the file of a shard: those of row r of page p, counted
// from First[p], start at Offsets[p] + (r-First[p]) x row bytes, as they are in memory, little-endian.
type MapTable struct {
	Path    string  `json:"path"`    // relative to the dataset's root
	Rows    int64   `json:"rows"`    // of the shard
	First   []int64 `json:"first"`   // first row of each page, and Rows at the end; with Constant 0 and Rows
	Offsets []int64 `json:"offsets"` // of each page's values in the file; not of constant columns, which are compressed
	// Value is the one row's bytes where all rows of the shard are equal; it stands for all (stride 0).
	Constant bool   `json:"constant"`
	Value    []byte `json:"value,omitempty"`
}

// Map gives the places of a column (by its selected name) in a shard, numbered as in Shards. A column that does not
// map is refused with shard.ErrNotMapped, which says why.
func (s *Set) Map(ctx context.Context, column string, index int) (*MapTable, error) {
	k := -1
	for i := range s.columns {
		if s.columns[i].Name == column {
			k = i
		}
	}
	if k < 0 {
		return nil, fmt.Errorf("%w: column %q is not selected", ErrSelect, column)
	}
	if s.changes[k] != nil {
		return nil, fmt.Errorf("%w: %q is changed on the way (bands, crop, dtype); map it as it is stored", shard.ErrNotMapped, column)
	}
	if index < 0 || index >= len(s.shards) {
		return nil, fmt.Errorf("%w: shard %d; there are %d", ErrSelect, index, len(s.shards))
	}
	o, err := s.open.acquire(ctx, index)
	if err != nil {
		return nil, err
	}
	defer s.open.release(o)
	t := &MapTable{Path: o.path, Rows: s.shards[index].Rows}
	if s.class[k] != nil {
		class, err := s.classIn(ctx, k, index)
		if err != nil {
			return nil, err
		}
		if class > 0 {
			t.Constant, t.Value, t.First = true, s.values.of(class), []int64{0, t.Rows}
			return t, nil
		}
	}
	l, err := o.cols[k].Locate(ctx)
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", t.Path, err)
	}
	t.First, t.Offsets = l.First, l.Offsets
	return t, nil
}
