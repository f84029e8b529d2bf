package main

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"astropile/internal/catalog"
	"astropile/internal/release"
)

func newReleaseCommand(a *app) *cobra.Command {
	var o release.SealOptions
	var citation string
	var margin marginFlag
	var yes bool
	cmd := &cobra.Command{
		Use:   "release ROOT",
		Short: "Seal what is staged as the next release",
		Long: `Make a release of what import staged in ROOT: move its shards into place and write release.json, whose SHA-256 is the
release id, manifest, statistics, rows, HATS catalogue, sky map and dataset card. Readers see all of it or nothing, and
nothing that was published changes by a bit. The first release needs licence and citation; later ones keep them.

--margin R also publishes, for every pixel, the rows of other pixels within R arcseconds of it, so that HATS clients match
exactly across pixels: <name>_margin. Its rows carry their tensors; how many they are is said before they are written, and
on a terminal asked about. --index COLUMN publishes which pixel each value of the column is in: <name>_ids. The first release that asks for
either fixes it, and takes earlier rows in; later ones go on without being asked.`,
		Example: `  astropile release releases/legacysurvey -m "DR10, first light" --licence CC-BY-4.0 --citation cite.bib
  astropile release releases/legacysurvey -m "DR10.1 adds the southern cap"
  astropile release releases/legacysurvey -m "DR11" --margin 10 --index object_id`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, root []string) error {
			if citation != "" {
				text, err := os.ReadFile(citation)
				if err != nil {
					return fmt.Errorf("--citation names a file with the text or BibTeX: %w", err)
				}
				o.Citation = string(text)
			}
			o.Tool, o.Now, o.Margin = tool(), a.now(), int64(margin)
			if o.Jobs <= 0 {
				o.Jobs = usableCores()
			}
			report, end := a.progress()
			o.Progress = report
			o.Announce = func(m release.MarginSize) error {
				fmt.Fprintf(a.err, "margin of %s arcsec: %d rows around %d pixels, about %s\n", margins(m.Radius), m.Rows, m.Pixels, formatBytes(m.Bytes))
				if m.First && a.asks() && !yes && !a.confirm("Write it? Its radius is fixed with this release.") {
					return fmt.Errorf("%w: the margin was not wanted; nothing is sealed", release.ErrRefused)
				}
				return nil
			}
			rep, err := release.Seal(cmd.Context(), root[0], o)
			end()
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(rep)
			}
			a.warnGrowth(rep.Growth)
			if rep.Before {
				fmt.Fprintf(a.out, "release %d was committed by a command that was interrupted then; what followed is done now, and nothing else is staged\n", rep.Release)
			}
			fmt.Fprintf(a.out, "%s release %d: %d rows in %d shards, %s; added %d rows in %d shards\nid %s\n", rep.Name, rep.Release, rep.Rows, rep.Shards, formatBytes(rep.Bytes), rep.Added.Rows, rep.Added.Shards, rep.ID)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Message, "message", "m", "", "what this release is")
	f.StringVar(&o.Licence, "licence", "", "SPDX identifier, such as CC-BY-4.0")
	f.StringVar(&citation, "citation", "", "a `file` that says how to cite the dataset, text or BibTeX")
	f.StringVar(&o.DOI, "doi", "", "DOI of the dataset")
	f.Var(&margin, "margin", "radius of the margin in `arcsec`onds; fixed by the first release that asks")
	f.StringVar(&o.Index, "index", "", "`column` of the id index, such as object_id; fixed by the first release that asks")
	f.BoolVar(&yes, "yes", false, "do not ask about the size of the margin")
	f.Var(countFlag{&o.Jobs}, "jobs", "goroutines (default: usable cores)")
	return cmd
}

// marginFlag is a radius on the command line in arcseconds, to the milliarcsecond.
type marginFlag int64

// String is empty for a radius that was not given: help then shows no default of its own.
func (m *marginFlag) String() string {
	if *m == 0 {
		return ""
	}
	return margins(float64(*m) / 1000)
}

func (m *marginFlag) Type() string { return "arcsec" }

func (m *marginFlag) Set(text string) error {
	x, err := strconv.ParseFloat(text, 64)
	mas := math.Round(1000 * x)
	if err != nil || !(mas >= 1 && mas <= catalog.MaxMargin) || math.Abs(mas-1000*x) > 1e-6 {
		return fmt.Errorf("%q is not a radius in arcseconds: from 0.001 to %d, three decimals at most", text, catalog.MaxMargin/1000)
	}
	*m = marginFlag(mas)
	return nil
}

// margins says a radius in arcseconds.
func margins(arcsec float64) string { return strconv.FormatFloat(arcsec, 'f', -1, 64) }

// asks says whether a person is there to answer.
func (a *app) asks() bool {
	f, ok := a.in.(*os.File)
	return ok && a.tty && !a.json && isTerminal(f)
}

// confirm asks a question that a bare return answers with no.
func (a *app) confirm(question string) bool {
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	line, _ := bufio.NewReader(a.in).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}
