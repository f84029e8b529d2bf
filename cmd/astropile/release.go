package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"astropile/internal/release"
)

func newReleaseCommand(a *app) *cobra.Command {
	var o release.SealOptions
	var citation string
	cmd := &cobra.Command{
		Use:   "release ROOT",
		Short: "Seal what is staged as the next release",
		Long: `Make a release of what import staged in ROOT: move its shards into place and write release.json, whose SHA-256 is the
release id, manifest, statistics, rows, HATS catalogue, sky map and dataset card. Readers see all of it or nothing, and
nothing that was published changes by a bit. The first release needs licence and citation; later ones keep them.`,
		Example: `  astropile release releases/legacysurvey -m "DR10, first light" --licence CC-BY-4.0 --citation cite.bib
  astropile release releases/legacysurvey -m "DR10.1 adds the southern cap"`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, root []string) error {
			if citation != "" {
				text, err := os.ReadFile(citation)
				if err != nil {
					return fmt.Errorf("--citation names a file with the text or BibTeX: %w", err)
				}
				o.Citation = string(text)
			}
			o.Tool, o.Now = tool(), a.now()
			rep, err := release.Seal(cmd.Context(), root[0], o)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(rep)
			}
			a.warnGrowth(rep.Growth)
			fmt.Fprintf(a.out, "%s release %d: %d rows in %d shards, %s; added %d rows in %d shards\nid %s\n", rep.Name, rep.Release, rep.Rows, rep.Shards, formatBytes(rep.Bytes), rep.Added.Rows, rep.Added.Shards, rep.ID)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Message, "message", "m", "", "what this release is")
	f.StringVar(&o.Licence, "licence", "", "SPDX identifier, such as CC-BY-4.0")
	f.StringVar(&citation, "citation", "", "a `file` that says how to cite the dataset, text or BibTeX")
	f.StringVar(&o.DOI, "doi", "", "DOI of the dataset")
	return cmd
}
