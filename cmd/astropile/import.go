package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"astropile/internal/catalog"
	"astropile/internal/release"
	"astropile/internal/shard"
	"astropile/internal/survey"
)

type importOptions struct {
	into, name, recipe string
	noSky              bool
	shardSize, memory  sizeFlag
	expect             expectFlag
	duplicates         oneOf
	compression        oneOf
	jobs               int
	skipBad, discard   bool
}

// tool is what documents and shards name as their maker.
func tool() string { return "astropile " + version }

func newImportCommand(a *app) *cobra.Command {
	o := importOptions{
		duplicates:  oneOf{string(release.DuplicatesError), []string{string(release.DuplicatesError), string(release.DuplicatesFirst), string(release.DuplicatesAll)}},
		compression: oneOf{shard.PolicyAuto, []string{shard.PolicyAuto, shard.PolicyNone, shard.PolicyZstd}},
	}
	cmd := &cobra.Command{
		Use:   "import SRC... --into ROOT",
		Short: "Turn survey files into the shards of the next release",
		Long: `Read survey files (HDF5, FITS, Parquet, CSV, ECSV, JSONL; files or folders) and stage immutable shards in ROOT: partitioned by bytes over HEALPix, sorted,
verified row for row and id for id. Nothing is published before ` + "`astropile release`" + `. Interrupted, run it again: it goes on
where it was. A later import appends.

The first import fixes name, columns, shard size and --expect. Say with --expect how many times larger the dataset will
grow: a pixel that has been cut is never cut again.`,
		Example: `  astropile import legacysurvey/ --into releases/legacysurvey
  astropile import dr10/ --into releases/legacysurvey --recipe recipe.yaml --expect 20x
  astropile import spectra.hdf5 --into releases/spectra --no-sky --duplicates first
  astropile import --into releases/spectra --discard      throw away what is staged`,
		RunE: func(cmd *cobra.Command, src []string) error {
			if o.into == "" {
				return usageError{errors.New("--into is needed: the folder of the dataset")}
			}
			if len(src) == 0 && !o.discard {
				return usageError{errors.New("SRC is needed: files or folders to import")}
			}
			if err := o.check(); err != nil {
				return err
			}
			if o.discard {
				// At once, and not only once the new inputs turn out to be good: what was to be thrown away could be released otherwise.
				done, err := release.Discard(cmd.Context(), o.into)
				if err != nil || len(src) == 0 {
					return a.discarded(done, o.into, err)
				}
			}
			limitMemory(o.memory)
			r, err := loadRecipe(o.recipe)
			if err != nil {
				return err
			}
			if o.noSky {
				if r == nil {
					r = &survey.Recipe{}
				}
				r.NoSky = true
			}
			report, end := a.progress()
			s, warnings, err := release.FromFiles(cmd.Context(), o.into, src, release.FilesOptions{Recipe: r, SkipBad: o.skipBad, Progress: report})
			end()
			a.warn(warnings)
			if err != nil {
				return err
			}
			return a.runImport(cmd, o, s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.into, "into", "", "the dataset's root `folder` (required)")
	f.StringVar(&o.recipe, "recipe", "", "how files become columns: a `file` that inspect printed")
	f.BoolVar(&o.noSky, "no-sky", false, "the objects have no position")
	f.BoolVar(&o.skipBad, "skip-bad", false, "leave damaged inputs out, and list them")
	f.Var(&o.duplicates, "duplicates", "an id that occurs twice: error, first (keep the first) or all (keep all)")
	addImportFlags(cmd, &o)
	return cmd
}

// discarded says what a discard without an import did.
func (a *app) discarded(done bool, into string, err error) error {
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printJSON(map[string]bool{"discarded": done})
	case done:
		fmt.Fprintf(a.out, "%s: thrown away what was staged\n", into)
	default:
		fmt.Fprintf(a.out, "%s: nothing was staged\n", into)
	}
	return nil
}

// addImportFlags adds what import and synth share.
func addImportFlags(cmd *cobra.Command, o *importOptions) {
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "the dataset's `name` (default: the name of ROOT)")
	f.Var(&o.shardSize, "shard-size", "bytes of rows that a shard aims at (default 512MiB)")
	f.Var(&o.expect, "expect", "how many times larger the dataset will grow (default 1x)")
	f.Var(&o.compression, "compression", "of tensors: auto (measured), none or zstd")
	f.Var(countFlag{&o.jobs}, "jobs", "goroutines (default: usable cores)")
	f.Var(&o.memory, "memory", "bytes that the import takes, beside some 48MiB of the runtime (default: a third of the memory)")
	f.BoolVar(&o.discard, "discard", false, "throw away what an earlier import staged")
}

// check refuses what no dataset may be called or made of.
func (o *importOptions) check() error {
	if o.shardSize != 0 && o.shardSize < catalog.MinPiece {
		return usageError{fmt.Errorf("--shard-size %d: give %d (64KiB) or more", int64(o.shardSize), catalog.MinPiece)}
	}
	if o.name != "" {
		if err := catalog.CheckName(o.name); err != nil {
			return usageError{fmt.Errorf("--name: %w", err)}
		}
		return nil
	}
	dir, err := filepath.Abs(o.into)
	if err != nil {
		return err
	}
	if err := catalog.CheckName(filepath.Base(dir)); err != nil {
		// A folder that holds releases has a name already, whatever it is called itself.
		if _, _, _, e := release.LoadDataset(dir); errors.Is(e, release.ErrNothing) {
			return usageError{fmt.Errorf("%w; it would be called as its folder is: give it another name with --name", err)}
		}
	}
	return nil
}

func (o *importOptions) options(progress release.Progress) release.ImportOptions {
	return release.ImportOptions{Name: o.name, ShardSize: int64(o.shardSize), Expect: int(o.expect), Duplicates: release.Duplicates(o.duplicates.value), Jobs: o.jobs, Memory: int64(o.memory),
		Compression: o.compression.value, SkipBad: o.skipBad, Discard: o.discard, Tool: tool(), Progress: progress}
}

// runtimeMemory is what the Go runtime gets beside --memory before it collects harder.
const runtimeMemory = 32 << 20

// limitMemory makes the runtime hold to --memory, where it is given.
func limitMemory(memory sizeFlag) {
	if memory > 0 {
		debug.SetMemoryLimit(int64(memory) + runtimeMemory)
	}
}

func (a *app) runImport(cmd *cobra.Command, o importOptions, s *release.Survey) error {
	start := a.now()
	report, end := a.progress()
	opt := o.options(report)
	opt.Notice = func(text string) { fmt.Fprintln(a.err, text) }
	rep, err := release.Import(cmd.Context(), o.into, s, opt)
	end()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(rep)
	}
	for _, skipped := range rep.Skipped {
		fmt.Fprintf(a.err, "skipped: %s\n", skipped)
	}
	a.warnGrowth(rep.Growth)
	if rep.Again {
		fmt.Fprintf(a.out, "%s: these inputs are staged already: %d rows in %d shards, %s\n", rep.Name, rep.Rows, rep.Shards, formatBytes(rep.Bytes))
	} else {
		took := a.now().Sub(start).Seconds()
		fmt.Fprintf(a.out, "%s: %d rows from %d inputs in %d shards, %s (%s of rows; %s/s)\n", rep.Name, rep.Rows, rep.Inputs, rep.Shards, formatBytes(rep.Bytes), formatBytes(rep.Payload), formatBytes(int64(float64(rep.Payload)/took)))
		if rep.Repeated > 0 {
			fmt.Fprintf(a.out, "%d rows whose id occurred before were left out\n", rep.Repeated)
		}
	}
	if rep.Release == 1 {
		fmt.Fprintf(a.out, "next: astropile release %s -m MESSAGE --licence SPDX --citation FILE\n", o.into)
	} else {
		fmt.Fprintf(a.out, "next: astropile release %s -m MESSAGE\n", o.into)
	}
	return nil
}

func (a *app) warnGrowth(growth []release.Growth) {
	for _, g := range growth {
		fmt.Fprintf(a.err, "warning: pixel %d of order %d holds %.1f times the shard size; at 16 times the dataset needs a new edition, cut finer with --expect\n", g.Pix, g.Order, g.Times)
	}
}
