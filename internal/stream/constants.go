package stream

import (
	"context"
	"fmt"
	"sync"
)

// A column that is constant in a shard has a class there: the number of its value among all values seen. Rows of
// shards of one class share one row in the slot.

const (
	classUnknown = 0
	classVaries  = -1
)

// maxConstantBytes bounds the values that are kept; further ones are read as ordinary rows.
const maxConstantBytes = 64 << 20

// constantValues are the values seen, by class - 1.
type constantValues struct {
	mu    sync.Mutex
	ids   map[string]int32 // column number and bytes
	list  [][]byte
	bytes int
}

func (v *constantValues) of(class int32) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.list[class-1]
}

func (v *constantValues) classOf(column int, value []byte) int32 {
	key := fmt.Sprintf("%d:%s", column, value)
	v.mu.Lock()
	defer v.mu.Unlock()
	if id, ok := v.ids[key]; ok {
		return id
	}
	if v.bytes += 2 * len(value); v.bytes > maxConstantBytes {
		v.bytes -= 2 * len(value)
		return classVaries
	}
	v.list = append(v.list, value)
	id := int32(len(v.list))
	v.ids[key] = id
	return id
}

// classIn is the class of a tensor column in a shard.
func (s *Set) classIn(ctx context.Context, column, shard int) (int32, error) {
	if s.changes[column] != nil {
		return classVaries, nil // what it becomes may differ between the sources of a mix
	}
	slot := &s.class[column][shard]
	if c := slot.Load(); c != classUnknown {
		return c, nil
	}
	o, err := s.open.acquire(ctx, shard)
	if err != nil {
		return 0, err
	}
	defer s.open.release(o)
	class := int32(classVaries)
	if o.r.Constant(s.stored[column].Name) {
		value := make([]byte, s.stored[column].RowBytes())
		if err := o.cols[column].ReadRows(ctx, []int64{0}, value); err != nil {
			return 0, fmt.Errorf("shard %s: %w", s.shards[shard].Path, err)
		}
		class = s.values.classOf(column, value)
	}
	slot.Store(class)
	return class, nil
}
