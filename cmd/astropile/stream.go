package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"astropile/internal/bench"
	"astropile/internal/catalog"
	"astropile/internal/query"
	"astropile/internal/source"
	"astropile/internal/stream"
)

func usableCores() int { return runtime.GOMAXPROCS(0) }

type streamOptions struct {
	columns         []string
	batch, epochs   int
	threads         int
	seed            uint64
	shuffle, byRows bool
	release         int
	memory          sizeFlag
	rows            selectOptions
}

// streamReport is what stream prints.
type streamReport struct {
	Name       string   `json:"name"`
	Release    int      `json:"release"`
	ID         string   `json:"id"`
	Columns    []string `json:"columns"`
	Epochs     int      `json:"epochs"`
	Rows       int64    `json:"rows"`  // of all epochs that count
	Bytes      int64    `json:"bytes"` // of values delivered in them
	Batch      int      `json:"batch"`
	Threads    int      `json:"threads"`
	Shuffle    string   `json:"shuffle"`
	Seconds    float64  `json:"seconds"`
	SamplesS   float64  `json:"samples_per_s"`
	MBs        float64  `json:"mb_per_s"`
	Control    string   `json:"control"`          // blocks: 8 MiB at a time; rows: the same rows in the same order
	ControlMBs float64  `json:"control_mb_per_s"` // raw pread, just before
	Share      float64  `json:"share"`
}

func newStreamCommand(a *app) *cobra.Command {
	o := streamOptions{batch: 256}
	cmd := &cobra.Command{
		Use:   "stream ROOT",
		Short: "Stream a dataset as training would, beside what the disk can give",
		Long: `Read batches as a training loop would get them, in Go alone, and print samples a second, MB/s, and the share of a raw pread
of the same bytes with as many threads, measured just before. The rows are chosen as select chooses them; where they are,
the raw pread is of all rows in blocks.`,
		Example: `  astropile stream releases/legacysurvey
  astropile stream releases/legacysurvey --columns image_array,z --shuffle --seed 3
  astropile stream releases/legacysurvey --where "z < 0.5" --split train --shuffle
  astropile stream releases/legacysurvey --json`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, root []string) error {
			rows, err := o.rows.selection(cmd.Flags())
			if err != nil {
				return usageError{err}
			}
			rep, err := a.runStream(cmd.Context(), root[0], o, rows)
			if errors.Is(err, query.ErrQuery) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(rep)
			}
			fmt.Fprintf(a.out, "%s release %d: %d epochs of %d rows of %v, batches of %d, shuffle %s, %d threads\n", rep.Name, rep.Release, rep.Epochs, rep.Rows/int64(rep.Epochs), rep.Columns, rep.Batch, rep.Shuffle, rep.Threads)
			fmt.Fprintf(a.out, "%.0f samples/s, %.0f MB/s", rep.SamplesS, rep.MBs)
			if rep.Control != "" {
				fmt.Fprintf(a.out, ": %.2f of a raw pread (%s, %.0f MB/s)", rep.Share, rep.Control, rep.ControlMBs)
			}
			fmt.Fprintln(a.out)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.columns, "columns", nil, "columns to read (default: all)")
	f.IntVar(&o.batch, "batch", o.batch, "rows of a batch")
	f.IntVar(&o.epochs, "epochs", 0, "passes over the data that count, after one that does not (default: as many as take two seconds)")
	f.BoolVar(&o.shuffle, "shuffle", false, "in the order of training: blocks, lanes, windows")
	f.BoolVar(&o.byRows, "shuffle-rows", false, "uniformly, row by row")
	f.Uint64Var(&o.seed, "seed", 0, "of the order")
	f.Var(countFlag{&o.threads}, "threads", "threads that read (default: usable cores)")
	f.Var(countFlag{&o.release}, "release", "an older release (default: the latest)")
	o.rows.flags(f)
	f.Var(&o.memory, "memory", "for decoded columns and tails (default 256MiB)")
	return cmd
}

func (a *app) runStream(ctx context.Context, root string, o streamOptions, rows query.Selection) (_ *streamReport, err error) {
	if o.threads <= 0 {
		o.threads = usableCores()
	}
	if o.batch < 1 || o.epochs < 0 {
		return nil, usageError{errors.New("--batch is at least 1, and --epochs is not negative")}
	}
	mode := stream.Off
	switch {
	case o.byRows:
		mode = stream.Rows
	case o.shuffle:
		mode = stream.Blocks
	}
	src, err := source.NewFile(root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	var sel []stream.Select
	for _, c := range o.columns {
		sel = append(sel, stream.Select{Name: c})
	}
	set, err := stream.OpenSet(ctx, src, stream.SetOptions{Columns: sel, Release: o.release, Threads: o.threads, Memory: int64(o.memory), Selection: rows, Cache: selectionCache(os.Getenv)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	if set.Rows() == 0 {
		return nil, fmt.Errorf("%s release %d: no rows to stream", set.Release().Dataset.Name, set.Release().Number)
	}
	rep := &streamReport{Name: set.Release().Dataset.Name, Release: set.Release().Number, ID: set.ReleaseID(), Batch: o.batch, Threads: set.Threads(), Shuffle: mode.String(), Columns: []string{}}
	for _, c := range set.Columns() {
		rep.Columns = append(rep.Columns, c.Name)
	}
	if err := control(ctx, root, set, o, mode, rep); err != nil {
		return nil, err
	}
	const slots = 4
	pool := stream.NewPool(slots)
	epochs := 0 // endless
	if o.epochs > 0 {
		epochs = o.epochs + 1
	}
	st := set.Stream(ctx, stream.StreamOptions{Batch: o.batch, Shuffle: mode, Seed: o.seed, Epochs: epochs}, pool)
	defer func() { err = errors.Join(err, st.Close()) }()
	report, end := a.progress()
	defer end()
	start, passes := a.now(), 0
	for {
		b, err := st.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		rep.Rows += int64(b.Layout.Rows)
		rep.Bytes += int64(b.Layout.Bytes)
		pool.Release(b.Slot)
		report("stream rows", rep.Rows, set.Rows()*int64(max(1, o.epochs)))
		if !b.Last {
			continue
		}
		if passes++; passes == 1 {
			rep.Rows, rep.Bytes, start = 0, 0, a.now()
		} else if o.epochs == 0 && a.now().Sub(start) > 2*time.Second {
			break
		}
	}
	rep.Seconds = a.now().Sub(start).Seconds()
	rep.Epochs = max(1, passes-1)
	rep.SamplesS, rep.MBs = float64(rep.Rows)/rep.Seconds, float64(rep.Bytes)/rep.Seconds/1e6
	if rep.ControlMBs > 0 {
		rep.Share = rep.MBs / rep.ControlMBs
	}
	return rep, nil
}

// control measures a raw pread of the bytes the stream will read: the same rows in the same order where one mapped tensor
// is shuffled, else blocks of 8 MiB. A dataset too small for either has none.
func control(ctx context.Context, root string, set *stream.Set, o streamOptions, mode stream.Mode, rep *streamReport) error {
	opt := bench.Options{Root: root, Threads: o.threads, Batch: o.batch, Slots: 4, Seed: o.seed, Passes: 2}
	tensors := 0
	for _, c := range set.Columns() {
		if c.Kind == catalog.Tensor {
			tensors++
			opt.Column = c.Name
		}
	}
	if tensors == 0 {
		return nil
	}
	run, name := bench.Blocks, "blocks of 8 MiB"
	if tensors == 1 && mode == stream.Blocks && set.Rows() == set.Release().Rows {
		run, name = bench.Rows, "the same rows"
	}
	r, err := run(ctx, opt)
	if err != nil && name != "blocks of 8 MiB" && errors.Is(err, bench.ErrCell) {
		r, err = bench.Blocks(ctx, opt)
		name = "blocks of 8 MiB"
	}
	if errors.Is(err, bench.ErrCell) {
		return nil
	}
	if err != nil {
		return err
	}
	rep.Control, rep.ControlMBs = name, r.GBs*1e3
	return nil
}
