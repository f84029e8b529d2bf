package stream

import (
	"context"
	"errors"

	"astropile/internal/catalog"
	"astropile/internal/source"
)

var errNotBuilt = errors.New("stream: not built yet")

type Select struct{ As, Name string }
type SetOptions struct {
	Columns []Select // nil selects all
	Release int      // 0 is the latest
	Threads int      // 0 is as many as the process may use
	Memory  int64    // bytes for decoded columns and tails; 0 is a default
}
type Set struct{}

func OpenSet(ctx context.Context, src source.Source, opt SetOptions) (*Set, error) {
	return nil, errNotBuilt
}
func (s *Set) Close() error              { return nil }
func (s *Set) Columns() []catalog.Column { return nil }
func (s *Set) Rows() int64               { return 0 }
func (s *Set) ReleaseID() string         { return "" }
func (s *Set) Shards() []catalog.Shard   { return nil }
func (s *Set) Read(ctx context.Context, rows []int64, slot Slot) (*Layout, error) {
	return nil, errNotBuilt
}

type MapTable struct {
	Path    string  `json:"path"`
	Rows    int64   `json:"rows"`
	First   []int64 `json:"first"`   // first row of each page, and Rows at the end
	Offsets []int64 `json:"offsets"` // where the values of each page start in the file
}

func (s *Set) Map(ctx context.Context, column string, shard int) (*MapTable, error) {
	return nil, errNotBuilt
}

// Mode names how rows are shuffled.
type Mode string

const (
	Off   Mode = "off"
	Block Mode = "block"
	Rows  Mode = "rows"
)

type StreamOptions struct {
	Batch       int
	Shuffle     Mode
	Seed        uint64
	Epoch       uint64
	Position    uint64
	Epochs      int // 0 is endless
	DropLast    bool
	Rank, World int
}
type Batch struct {
	Slot            Slot
	Layout          *Layout
	Epoch, Position uint64
	Last            bool
}
type Stream struct{}

func (s *Set) Stream(ctx context.Context, opt StreamOptions, pool SlotPool) *Stream { return nil }
func (s *Stream) Next(ctx context.Context) (*Batch, error)                          { return nil, errNotBuilt }
func (s *Stream) Close() error                                                      { return nil }
