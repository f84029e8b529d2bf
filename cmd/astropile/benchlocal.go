package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"astropile/internal/bench"
	"astropile/internal/catalog"
	"astropile/internal/query"
	"astropile/internal/source"
	"astropile/internal/stream"
)

// benchCells are the cells by name. Those of formats take a file, the others a dataset's root.
func benchCells() map[string]func(context.Context, bench.Options) (*bench.Result, error) {
	return map[string]func(context.Context, bench.Options) (*bench.Result, error){
		"blocks":      bench.Blocks,
		"rows":        bench.Rows,
		"raw-singles": bench.RawSingles,
		"singles":     bench.Singles,
		"codec":       bench.Codec,
		"payload":     bench.Payload,
		"stream": func(ctx context.Context, o bench.Options) (*bench.Result, error) {
			return bench.Stream(ctx, o, stream.Off)
		},
		"stream-shuffled": func(ctx context.Context, o bench.Options) (*bench.Result, error) {
			return bench.Stream(ctx, o, stream.Blocks)
		},
		"hdf5":        benchHDF5,
		"fits-table":  benchFITSTable,
		"fits-images": benchFITSImages,

		"shuffle-quality": bench.ShuffleQuality,
		"seek":            bench.Seek,
		"filter": func(ctx context.Context, o bench.Options) (*bench.Result, error) {
			return bench.Filter(ctx, o, benchFind)
		},
	}
}

// benchFind counts what a predicate selects.
func benchFind(ctx context.Context, root string, release *catalog.Release, shards []catalog.Shard, where, kept string, threads int) (_ uint64, err error) {
	src, err := source.NewFile(root)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	t := query.Table{ID: "bench", Release: release, Shards: shards, Open: func(ctx context.Context, p string) (query.File, error) { return src.Open(ctx, p) }}
	rows, err := query.Select(ctx, t, query.Selection{Where: where}, query.Options{Threads: threads, Cache: kept})
	if err != nil {
		return 0, err
	}
	return rows.Len(), rows.Close()
}

// newBenchCellCommand measures one cell once; `make bench-local` starts it and pairs what it prints.
func newBenchCellCommand() *cobra.Command {
	cells := benchCells()
	names := make([]string, 0, len(cells))
	for n := range cells {
		names = append(names, n)
	}
	slices.Sort(names)
	o := bench.Options{}
	cmd := &cobra.Command{
		Use:    "bench-cell NAME PATH",
		Short:  "Measure one cell and print it as a line of JSON",
		Long:   "Measure one cell and print it as a line of JSON. PATH is a dataset's root, or a file for the cells of formats; seek and filter write a root there, shuffle-quality reads none. Cells: " + strings.Join(names, ", ") + ".",
		Hidden: true,
		Args:   args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, a []string) error {
			cell := cells[a[0]]
			if cell == nil {
				return usageError{fmt.Errorf("there is no cell %q; there are %s", a[0], strings.Join(names, ", "))}
			}
			o.Root = a[1]
			r, err := cell(cmd.Context(), o)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.Column, "column", "image_array", "tensor column to read")
	fl.IntVar(&o.Threads, "threads", 2, "threads that read")
	fl.IntVar(&o.Batch, "batch", 256, "rows of a batch")
	fl.IntVar(&o.Slots, "slots", 4, "batches in memory at once")
	fl.IntVar(&o.Passes, "passes", 3, "passes over the data; the last one counts")
	fl.Uint64Var(&o.Seed, "seed", 0, "of the order")
	fl.BoolVar(&o.Check, "check", false, "digest all values, in one pass that is not timed")
	return cmd
}
