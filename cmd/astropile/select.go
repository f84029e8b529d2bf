package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"astropile/internal/query"
	"astropile/internal/source"
	"astropile/internal/stream"
)

// selectOptions are which rows, as flags say it.
type selectOptions struct {
	where, cone, box, polygon, healpix, ids, split string
	splits                                         []string
	sample                                         float64
	key                                            uint64
	limit                                          int64
	release, threads                               int
}

// selectReport is what a selection takes, for people and machines.
type selectReport struct {
	Name    string `json:"name"`
	Release int    `json:"release"`
	ID      string `json:"id"`
	Rows    int64  `json:"rows"`
	Of      int64  `json:"of"`
	Shards  int    `json:"shards"` // that hold any of the rows
	OfShard int    `json:"of_shards"`
	Bytes   int64  `json:"bytes"` // of those shards
	Share   int64  `json:"share"` // of these bytes, by rows
	Digest  string `json:"digest"`
}

func newSelectCommand(a *app) *cobra.Command {
	o := selectOptions{}
	cmd := &cobra.Command{
		Use:   "select ROOT",
		Short: "Say how much a selection takes, before anything moves",
		Long: `Count the rows that a selection takes, the shards they are in and their bytes, by the tables of the release alone: no shard is read.
Python's astropile.open takes the same selections, and docs/python.md says what predicates mean.`,
		Example: `  astropile select releases/desi --where "z < 0.5 and mag_r < 19"
  astropile select releases/desi --cone 150.1,2.2,1.5 --split train
  astropile select releases/desi --ids wanted.txt --json`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, root []string) error {
			s, err := o.selection(cmd.Flags())
			if err != nil {
				return usageError{err}
			}
			rep, err := runSelect(cmd.Context(), root[0], s, o)
			if errors.Is(err, query.ErrQuery) {
				return usageError{err}
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(rep)
			}
			fmt.Fprintf(a.out, "%s release %d: %d of %d rows, in %d of %d shards of %s (some %s of them)\n", rep.Name, rep.Release, rep.Rows, rep.Of, rep.Shards, rep.OfShard, formatBytes(rep.Bytes), formatBytes(rep.Share))
			return nil
		},
	}
	f := cmd.Flags()
	o.flags(f)
	f.Var(countFlag{&o.release}, "release", "an older release (default: the latest)")
	f.Var(countFlag{&o.threads}, "threads", "threads that read (default: usable cores)")
	return cmd
}

// flags adds those that say which rows, to every verb that reads rows.
func (o *selectOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.where, "where", "", "a `predicate` over scalar columns")
	f.StringVar(&o.cone, "cone", "", "`RA,DEC,RADIUS` in degrees")
	f.StringVar(&o.box, "box", "", "`RA1,RA2,DEC1,DEC2` in degrees, going east from RA1")
	f.StringVar(&o.polygon, "polygon", "", "`RA,DEC,RA,DEC,...` of corners in degrees, joined by great circles")
	f.StringVar(&o.healpix, "healpix", "", "`ORDER:PIXEL,...`, NESTED")
	f.StringVar(&o.ids, "ids", "", "a `file` with an id a line")
	f.StringVar(&o.split, "split", "", "a published split, or one of --splits (default train=0.8, val=0.1, test=0.1)")
	f.StringSliceVar(&o.splits, "splits", nil, "`NAME=SHARE` of splits drawn by id")
	f.Float64Var(&o.sample, "sample", 0, "a `share` of the rows, drawn by id")
	f.Uint64Var(&o.key, "key", 0, "of what is drawn")
	f.Int64Var(&o.limit, "limit", 0, "the first so many rows")
}

// selection reads the flags. One that was given and says nothing, as an unset variable of a script does, would otherwise take
// every row.
func (o *selectOptions) selection(f *pflag.FlagSet) (query.Selection, error) {
	for _, name := range []string{"where", "cone", "box", "polygon", "healpix", "ids", "split", "sample", "limit"} {
		if v := f.Lookup(name); v.Changed && (v.Value.String() == "" || v.Value.String() == "0") {
			return query.Selection{}, fmt.Errorf("--%s %q selects nothing; leave it out to take all rows", name, v.Value)
		}
	}
	s := query.Selection{Where: o.where, Split: o.split, Sample: o.sample, Key: o.key, Limit: o.limit}
	numbers := func(flag, text string, n int) ([]float64, error) {
		parts := strings.Split(text, ",")
		if len(parts) != n {
			return nil, fmt.Errorf("%s %q has %d numbers, not %d", flag, text, len(parts), n)
		}
		out := make([]float64, n)
		for i, p := range parts {
			var err error
			if out[i], err = strconv.ParseFloat(strings.TrimSpace(p), 64); err != nil {
				return nil, fmt.Errorf("%s: %q is no number", flag, p)
			}
		}
		return out, nil
	}
	regions := 0
	if o.cone != "" {
		regions++
		x, err := numbers("--cone", o.cone, 3)
		if err != nil {
			return s, err
		}
		s.Region = &query.Region{Cone: &query.Cone{RA: x[0], Dec: x[1], Radius: x[2]}}
	}
	if o.box != "" {
		regions++
		x, err := numbers("--box", o.box, 4)
		if err != nil {
			return s, err
		}
		s.Region = &query.Region{Box: &query.Box{RA: [2]float64{x[0], x[1]}, Dec: [2]float64{x[2], x[3]}}}
	}
	if o.polygon != "" {
		regions++
		x, err := numbers("--polygon", o.polygon, 2*max(3, (strings.Count(o.polygon, ",")+1)/2))
		if err != nil {
			return s, err
		}
		s.Region = &query.Region{}
		for i := 0; i < len(x); i += 2 {
			s.Region.Polygon = append(s.Region.Polygon, [2]float64{x[i], x[i+1]})
		}
	}
	if o.healpix != "" {
		regions++
		order, list, ok := strings.Cut(o.healpix, ":")
		k, err := strconv.Atoi(order)
		if !ok || err != nil {
			return s, fmt.Errorf("--healpix %q is no ORDER:PIXEL list", o.healpix)
		}
		p := &query.Pixels{Order: k}
		for _, x := range strings.Split(list, ",") {
			pix, err := strconv.ParseInt(strings.TrimSpace(x), 10, 64)
			if err != nil {
				return s, fmt.Errorf("--healpix: %q is no pixel", x)
			}
			p.Pix = append(p.Pix, pix)
		}
		s.Region = &query.Region{Pixels: p}
	}
	if regions > 1 {
		return s, errors.New("--cone, --box, --polygon and --healpix are given together; one region is a selection's")
	}
	for _, x := range o.splits {
		name, share, ok := strings.Cut(x, "=")
		f, err := strconv.ParseFloat(share, 64)
		if !ok || err != nil {
			return s, fmt.Errorf("--splits %q is not NAME=SHARE", x)
		}
		s.Splits = append(s.Splits, query.Share{Name: name, Fraction: f})
	}
	if o.ids == "" {
		return s, nil
	}
	file, err := os.Open(o.ids)
	if err != nil {
		return s, err
	}
	defer file.Close()
	s.IDs = []string{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if id := strings.TrimSpace(lines.Text()); id != "" {
			s.IDs = append(s.IDs, id)
		}
	}
	return s, lines.Err()
}

func runSelect(ctx context.Context, root string, s query.Selection, o selectOptions) (_ *selectReport, err error) {
	src, err := source.NewFile(root)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if o.threads <= 0 {
		o.threads = usableCores()
	}
	set, err := stream.OpenSet(ctx, src, stream.SetOptions{Release: o.release, Threads: o.threads, Selection: s, Cache: selectionCache(os.Getenv)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, set.Close()) }()
	rep := &selectReport{Name: set.Release().Dataset.Name, Release: set.Release().Number, ID: set.ReleaseID(), Rows: set.Rows(), OfShard: len(set.Shards()), Digest: set.SelectionDigest()}
	for i, n := range set.Counts() {
		shard := &set.Shards()[i]
		rep.Of += shard.Rows
		if n > 0 {
			rep.Shards++
			rep.Bytes += shard.Bytes
			rep.Share += int64(float64(shard.Bytes) * float64(n) / float64(shard.Rows))
		}
	}
	return rep, nil
}
