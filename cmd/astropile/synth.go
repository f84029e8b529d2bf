package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"astropile/internal/catalog"
	"astropile/internal/release"
	"astropile/internal/shard"
	"astropile/internal/survey/synth"
)

// synthTool is what synthetic shards name as their maker: no version, so that every version writes the same bytes.
const synthTool = "astropile synth 1"

func newSynthCommand(a *app) *cobra.Command {
	o := importOptions{compression: oneOf{shard.PolicyAuto, []string{shard.PolicyAuto, shard.PolicyNone, shard.PolicyZstd}}, duplicates: oneOf{value: string(release.DuplicatesAll)}}
	kind := oneOf{"images", synth.Kinds()}
	size := sizeFlag(1 << 30)
	seed := uint64(1)
	cmd := &cobra.Command{
		Use:   "synth ROOT",
		Short: "Write a synthetic release, byte-identical on every machine",
		Long: `Make up a dataset and release it: what benchmarks and tests use. The same kind, size and seed give the same release id on
every machine.

  images       image_array float32 [4,96,96], a galaxy and noise
  rgb          image_rgb uint8 [3,160,160]
  spectra      flux, ivar, mask and wavelength of 7,781 pixels
  lightcurves  10 to 300 epochs in four bands, as one nested column
  table        20 scalars`,
		Example: `  astropile synth /tmp/images --kind images --size 1GiB --seed 1
  astropile synth /tmp/table --kind table --size 100MiB`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, root []string) error {
			s, err := synth.New(kind.value, int64(size), seed)
			if err != nil {
				return err
			}
			o.into = root[0]
			if o.name == "" {
				o.name = s.Name() // not the folder's: its bytes must not depend on where it is
			}
			if err := o.check(); err != nil {
				return err
			}
			const parts = 16 // inputs, so that they are made in parallel
			in := &release.Survey{Columns: s.Columns(), ID: "object_id", RA: "ra", Dec: "dec"}
			for k := range int64(parts) {
				lo, hi := k*s.Rows()/parts, (k+1)*s.Rows()/parts
				if lo == hi {
					continue
				}
				in.Inputs = append(in.Inputs, release.Input{Rel: s.Name() + "/" + string(rune('a'+k)), Bytes: (hi - lo) * int64(size) / s.Rows(), Open: func(context.Context, int, int64) (release.Records, error) {
					return &window{s, lo, hi}, nil
				}})
			}
			report, end := a.progress()
			opt := o.options(report)
			opt.Tool = synthTool
			_, err = release.Import(cmd.Context(), o.into, in, opt)
			end()
			if err != nil {
				return err
			}
			rep, err := release.Seal(cmd.Context(), o.into, release.SealOptions{Message: "Synthetic " + kind.value, Licence: "CC0-1.0", Citation: "Made up by astropile synth.", Tool: synthTool, Now: time.Unix(0, 0)})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(rep)
			}
			_, err = a.out.Write([]byte(rep.Name + ": release " + rep.ID + ", " + formatBytes(rep.Bytes) + "\n"))
			return err
		},
	}
	f := cmd.Flags()
	f.Var(&kind, "kind", "what the records are")
	f.Var(&size, "size", "bytes of rows before encoding")
	f.Uint64Var(&seed, "seed", seed, "what everything follows from")
	addImportFlags(cmd, &o)
	cmd.Flags().Lookup("name").Usage = "the dataset's `name` (default: synth-KIND-SEED)"
	return cmd
}

// window is a run of rows of a made-up survey as an input of its own.
type window struct {
	*synth.Survey
	lo, hi int64
}

func (w *window) Rows() int64 { return w.hi - w.lo }

func (w *window) Read(ctx context.Context, lo, hi int64) (*catalog.Batch, error) {
	return w.Survey.Read(ctx, w.lo+lo, w.lo+hi)
}
