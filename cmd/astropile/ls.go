package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"astropile/internal/catalog"
	"astropile/internal/release"
)

// lsShard is a shard as ls prints it for machines.
type lsShard struct {
	Path    string `json:"path"`
	Role    string `json:"role"`
	Release int32  `json:"release"`
	Order   int8   `json:"norder"`
	Pix     int64  `json:"npix"`
	Rows    int64  `json:"rows"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

func newLsCommand(a *app) *cobra.Command {
	only := 0
	cmd := &cobra.Command{
		Use:   "ls ROOT",
		Short: "List the shards of a dataset",
		Example: `  astropile ls releases/legacysurvey
  astropile ls releases/legacysurvey --release 3      what release 3 added
  astropile ls releases/legacysurvey --json`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, root []string) error {
			last, _, shards, err := release.LoadDataset(root[0])
			if err != nil {
				return err
			}
			if only > last.Number {
				return fmt.Errorf("%s has no release %d; there are 1 to %d", last.Dataset.Name, only, last.Number)
			}
			out := []lsShard{}
			for i := range shards {
				s := &shards[i]
				if only == 0 || int(s.Release) == only {
					out = append(out, lsShard{s.Path, s.Role, s.Release, s.Order, s.Pix, s.Rows, s.Bytes, fmt.Sprintf("%x", s.SHA256)})
				}
			}
			if a.json {
				return a.printJSON(out)
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "release\trole\torder\tpixel\trows\tbytes\tpath")
			for _, s := range out {
				place := fmt.Sprintf("%d\t%d", s.Order, s.Pix)
				if s.Order == catalog.NoSky {
					place = "-\t-"
				}
				fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\n", s.Release, s.Role, place, s.Rows, formatBytes(s.Bytes), s.Path)
			}
			return w.Flush()
		},
	}
	cmd.Flags().Var(countFlag{&only}, "release", "only the shards that this release added")
	return cmd
}
