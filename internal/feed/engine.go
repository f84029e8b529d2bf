package feed

import (
	"context"
	"path/filepath"

	"astropile/internal/catalog"
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
	Start(ctx context.Context, opt stream.StreamOptions, pool stream.SlotPool) (Batches, error)
	Close() error
}

// Opener opens the dataset that a client names.
type Opener func(ctx context.Context, root string, opt stream.SetOptions) (Engine, error)

// OpenLocal is the Opener of a folder on this machine.
func OpenLocal(ctx context.Context, root string, opt stream.SetOptions) (Engine, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	src, err := source.NewFile(root)
	if err != nil {
		return nil, err
	}
	set, err := stream.OpenSet(ctx, src, opt)
	if err != nil {
		_ = src.Close()
		return nil, err
	}
	releases, err := set.Releases(ctx)
	if err != nil {
		_ = set.Close()
		_ = src.Close()
		return nil, err
	}
	return &local{root: root, src: src, set: set, releases: releases}, nil
}

type local struct {
	root     string
	src      *source.File
	set      *stream.Set
	releases []stream.ReleaseInfo
}

func (e *local) Describe() *Description {
	r := e.set.Release()
	d := &Description{Root: e.root, Name: r.Dataset.Name, Columns: e.set.Columns(), Rows: e.set.Rows(), Release: r.Number, ID: e.set.ReleaseID(), Releases: e.releases}
	for _, s := range e.set.Shards() {
		d.Bytes += s.Bytes
	}
	return d
}

func (e *local) ShardRows() []int64 {
	shards := e.set.Shards()
	rows := make([]int64, len(shards))
	for i := range shards {
		rows[i] = shards[i].Rows
	}
	return rows
}

func (e *local) Read(ctx context.Context, rows []int64, slot stream.Slot) (*stream.Layout, error) {
	return e.set.Read(ctx, rows, slot)
}

func (e *local) Map(ctx context.Context, column string, shard int) (*stream.MapTable, error) {
	return e.set.Map(ctx, column, shard)
}

func (e *local) Start(ctx context.Context, opt stream.StreamOptions, pool stream.SlotPool) (Batches, error) {
	return e.set.Stream(ctx, opt, pool), nil
}

func (e *local) Close() error {
	err := e.set.Close()
	if serr := e.src.Close(); err == nil {
		err = serr
	}
	return err
}
