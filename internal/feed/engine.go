package feed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"astropile/internal/catalog"
	"astropile/internal/order"
	"astropile/internal/query"
	"astropile/internal/shard"
	"astropile/internal/source"
	"astropile/internal/stream"
)

// Description is what a client is told of an open dataset.
type Description struct {
	Version  int                  `json:"version"` // of the protocol
	Root     string               `json:"root"`    // absolute; the paths of map tables are relative to it
	Name     string               `json:"name"`
	Columns  []catalog.Column     `json:"columns"` // as selected and renamed, in that order
	Rows     int64                `json:"rows"`
	Bytes    int64                `json:"bytes"` // of all shards
	Release  int                  `json:"release"`
	ID       string               `json:"id"`
	Releases []stream.ReleaseInfo `json:"releases"` // ascending
	Threads  int                  `json:"threads"`
	Memory   int64                `json:"memory"` // bytes, slots included
	Hint     string               `json:"hint"`   // for the user, where the dataset will not be read well
	Epoch    uint64               `json:"epoch"`  // positions of an epoch; more than rows where a mix never ends
	Sources  []SourceInfo         `json:"sources"`
	Weights  []uint64             `json:"weights"` // of a mix
}

// SourceInfo is what a client is told of each dataset of a mix or a match.
type SourceInfo struct {
	Root    string `json:"root"`
	Name    string `json:"name"`
	Release int    `json:"release"`
	ID      string `json:"id"`
	Rows    int64  `json:"rows"`
}

// Batches gives filled slots in order; io.EOF ends it. Close waits until nothing writes to a slot any more.
type Batches interface {
	Next(ctx context.Context) (*stream.Batch, error)
	Close() error
}

// Engine is an open dataset as the feed uses it. All methods but Close may be called at the same time.
type Engine interface {
	Describe() *Description
	// ShardRows is the number of rows of every shard, in the order of the dense rows.
	ShardRows() []int64
	// Read fills the slot with the rows, dense row numbers from 0.
	Read(ctx context.Context, rows []int64, slot stream.Slot) (*stream.Layout, error)
	Map(ctx context.Context, column string, shard int) (*stream.MapTable, error)
	// Chosen lists the selected rows of a shard; nil where all are.
	Chosen(shard int) ([]int64, error)
	// State is the checkpoint of a stream of the options, where it begins.
	State(opt stream.StreamOptions) (stream.State, error)
	Start(ctx context.Context, opt stream.StreamOptions, pool stream.SlotPool) (Batches, error)
	// Memory is how the bytes for everything are divided.
	Memory() Memory
	Close() error
}

// Memory is how the bytes of a feed are divided; the process itself takes what is left.
type Memory struct {
	All     int64
	Slots   int64 // at most; what slots do not take may be pages of mapped files
	Decoded int64 // columns and tails, with what the collector has not collected yet
}

// Request is what a client wants opened: one dataset, several that are mixed, or two that are matched.
type Request struct {
	Sources []Source
	Mix     *Mix
	Match   *Match
	Threads int
	Memory  int64  // bytes for everything, slots included
	Most    int64  // bytes that Memory may grow to where the data want it; below Memory: it may not
	Cache   string // folder in which a host keeps what selections found; empty keeps nothing
}

// Source is one dataset of a request.
type Source struct {
	Root      string          `json:"root"`
	Columns   []stream.Select `json:"columns"`    // null is all
	Release   int             `json:"release"`    // 0 is the latest
	ReleaseID string          `json:"release_id"` // where it is known
	Selection query.Selection `json:"selection"`
	Share     float64         `json:"share"` // of a mix
}

// Mix says how sources are mixed.
type Mix struct {
	End string `json:"end"` // never, first
}

// Match says which objects of two sources are the same.
type Match struct {
	Radius float64 `json:"radius"` // arcsec
}

// Opener opens what a client asks for.
type Opener func(ctx context.Context, q Request) (Engine, error)

// mixCycle is the length of the cycle that shares are rounded to.
const mixCycle = 1000

// OpenLocal is the Opener of folders on this machine.
func OpenLocal(ctx context.Context, q Request) (_ Engine, err error) {
	e := &local{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	switch n := len(q.Sources); {
	case n == 0, n > 1 && q.Mix == nil && q.Match == nil, q.Mix != nil && q.Match != nil, q.Match != nil && n != 2:
		return nil, fmt.Errorf("%w: %d sources", ErrProtocol, n)
	}
	for i := range q.Sources {
		if err := e.open(ctx, &q.Sources[i], q); err != nil {
			if len(q.Sources) > 1 {
				return nil, fmt.Errorf("%s: %w", q.Sources[i].Root, err)
			}
			return nil, err
		}
	}
	switch {
	case q.Mix != nil:
		e.view, err = e.mix(q)
	case q.Match != nil:
		e.view, err = e.match(ctx, q)
	default:
		e.view = e.sets[0].View()
	}
	e.share(q)
	return e, err
}

// ownMemory is what a feed's process takes by itself, in bytes: its program, stacks and buffers.
const ownMemory = 32 << 20

// share divides the memory. Decoded columns get a quarter of it, or up to three where shuffling wants more; where the data
// want more than that and the memory is a default, it grows.
func (e *local) share(q Request) {
	wanted := int64(0)
	for _, s := range e.sets {
		wanted += s.Wanted()
	}
	wanted += wanted / 2 // tails, batches that are being filled, garbage
	m := &e.memory
	m.All = max(q.Memory, min(ownMemory+wanted/3*4, q.Most))
	left := max(m.All-ownMemory, 0)
	m.Decoded = min(max(wanted, left/4), left/4*3)
	m.Slots = left - m.Decoded
	for _, s := range e.sets {
		s.SetMemory(m.Decoded / 5 * 4 / int64(len(e.sets)))
	}
	if wanted > m.Decoded {
		e.hint = fmt.Sprintf("shuffling these columns well takes memory= of %d MiB, there are %d: what does not fit is decoded again and again. Give more, choose fewer columns, or read in order",
			(ownMemory+wanted/3*4)>>20+1, m.All>>20)
	}
	for _, src := range e.sources {
		src.BoundMapped(m.Slots) // slots are among these pages
	}
}

func (e *local) Memory() Memory { return e.memory }

func (e *local) open(ctx context.Context, s *Source, q Request) error {
	root, err := filepath.Abs(s.Root)
	if err != nil {
		return err
	}
	src, err := source.NewFile(root)
	if err != nil {
		return err
	}
	e.roots, e.sources = append(e.roots, root), append(e.sources, src)
	set, err := stream.OpenSet(ctx, src, stream.SetOptions{Columns: s.Columns, Release: s.Release, ReleaseID: s.ReleaseID, Threads: q.Threads,
		Memory: q.Memory / 4 / int64(len(q.Sources)), Selection: s.Selection, Cache: q.Cache})
	if err != nil {
		return err
	}
	e.sets = append(e.sets, set)
	releases, err := set.Releases(ctx)
	if err != nil {
		return err
	}
	e.releases = append(e.releases, releases)
	return nil
}

// mix rounds the shares to whole numbers, unless they are such.
func (e *local) mix(q Request) (*stream.View, error) {
	end, ok := map[string]order.End{"never": order.EndNever, "first": order.EndFirst}[q.Mix.End]
	if !ok {
		return nil, fmt.Errorf("%w: a mix that ends %q", ErrProtocol, q.Mix.End)
	}
	shares := make([]float64, len(q.Sources))
	for i := range q.Sources {
		shares[i] = q.Sources[i].Share
	}
	weights, err := order.ShareWeights(shares, max(mixCycle, min(order.MaxWeight, 10*len(shares))))
	if err != nil {
		return nil, err
	}
	sources := make([]stream.Source, len(e.sets))
	for i, s := range e.sets {
		sources[i] = stream.Source{Set: s, Weight: weights[i], Name: fmt.Sprintf("source %d (%s)", i, e.roots[i])}
	}
	return stream.Mix(sources, end)
}

// match pairs every object of the first source with the nearest of the second.
func (e *local) match(ctx context.Context, q Request) (*stream.View, error) {
	return stream.Matched(ctx, e.sets[0], e.sets[1], q.Match.Radius/3600, q.Cache)
}

type local struct {
	roots    []string
	sources  []*source.File
	sets     []*stream.Set
	releases [][]stream.ReleaseInfo
	view     *stream.View
	memory   Memory
	hint     string
}

func (e *local) Describe() *Description {
	r := e.sets[0].Release()
	d := &Description{Root: e.roots[0], Name: r.Dataset.Name, Columns: e.view.Columns(), Rows: e.view.Rows(), Release: r.Number, ID: e.sets[0].ReleaseID(), Releases: e.releases[0], Epoch: e.view.EpochRows(),
		Weights: e.view.Weights(), Hint: e.hint}
	for i, set := range e.sets {
		r := set.Release()
		d.Sources = append(d.Sources, SourceInfo{Root: e.roots[i], Name: r.Dataset.Name, Release: r.Number, ID: set.ReleaseID(), Rows: set.Rows()})
		for _, s := range set.Shards() {
			d.Bytes += s.Bytes
		}
	}
	return d
}

func (e *local) ShardRows() []int64 {
	var rows []int64
	for _, set := range e.sets {
		for _, n := range set.Counts() {
			rows = append(rows, int64(n))
		}
	}
	return rows
}

func (e *local) Read(ctx context.Context, rows []int64, slot stream.Slot) (*stream.Layout, error) {
	return e.view.Read(ctx, rows, slot)
}

func (e *local) Map(ctx context.Context, column string, index int) (*stream.MapTable, error) {
	if len(e.sets) > 1 {
		return nil, fmt.Errorf("%w: rows of several datasets are not mapped; map each dataset by itself", shard.ErrNotMapped)
	}
	return e.sets[0].Map(ctx, column, index)
}

func (e *local) Chosen(index int) ([]int64, error) {
	if len(e.sets) > 1 || index < 0 || index >= len(e.sets[0].Shards()) {
		return nil, fmt.Errorf("%w: shard %d of %d datasets", ErrProtocol, index, len(e.sets))
	}
	return e.sets[0].Selected(index), nil
}

func (e *local) State(opt stream.StreamOptions) (stream.State, error) { return e.view.State(opt) }

func (e *local) Start(ctx context.Context, opt stream.StreamOptions, pool stream.SlotPool) (Batches, error) {
	return e.view.Stream(ctx, opt, pool), nil
}

func (e *local) Close() error {
	var errs []error
	for _, s := range e.sets {
		errs = append(errs, s.Close())
	}
	for _, s := range e.sources {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
