package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"astropile/internal/release"
)

func newVerifyCommand(a *app) *cobra.Command {
	var o release.VerifyOptions
	var repair bool
	cmd := &cobra.Command{
		Use:   "verify ROOT",
		Short: "Check a dataset against its releases",
		Long: `Check the chain of releases, every document, and every shard's length and tail. With --deep every byte is read: digests of
files, units and pieces, checksums of pages, and the rows files against the shards. Exit code 4 says that something is
damaged; what is, and where, is listed.`,
		Example: `  astropile verify releases/legacysurvey
  astropile verify releases/legacysurvey --deep --id 5f0c...
  astropile verify releases/legacysurvey --repair             the files at the top and SHA256SUMS, from the releases`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, root []string) error {
			if repair {
				if err := release.Repair(cmd.Context(), root[0]); err != nil {
					return err
				}
			}
			start := a.now()
			report, end := a.progress()
			o.Progress = report
			if o.Jobs <= 0 {
				o.Jobs = usableCores()
			}
			rep, err := release.Verify(cmd.Context(), root[0], o)
			end()
			if rep == nil {
				return err
			}
			if a.json {
				if e := a.printReport(cmd.Context(), rep, err); e != nil {
					return e
				}
				return err
			}
			for _, f := range rep.Findings {
				fmt.Fprintf(a.out, "%s: %s\n", f.Path, f.What)
			}
			if err == nil {
				took := a.now().Sub(start).Seconds()
				fmt.Fprintf(a.out, "%s: %d releases, %d shards, %d rows, %s: all as release %d says (read %s, %s/s)\nid %s\n", rep.Name, rep.Releases, rep.Shards, rep.Rows, formatBytes(rep.Bytes), rep.Release, formatBytes(rep.Read), formatBytes(int64(float64(rep.Read)/took)), rep.ID)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Deep, "deep", false, "read every byte")
	f.StringVar(&o.ID, "id", "", "the release id that the newest release must have")
	f.Var(countFlag{&o.Jobs}, "jobs", "goroutines (default: usable cores)")
	f.BoolVar(&repair, "repair", false, "first write anew what follows from the releases: the files at the top, SHA256SUMS")
	return cmd
}
