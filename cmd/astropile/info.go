package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"astropile/internal/catalog"
	"astropile/internal/release"
)

func newInfoCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "info ROOT...",
		Short: "Describe datasets: rows, bytes, columns, sky, releases",
		Example: `  astropile info releases/legacysurvey
  astropile info releases                       a table of the datasets in a folder
  astropile info releases --json`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, roots []string) error {
			infos, err := release.Info(cmd.Context(), roots)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(infos)
			}
			if len(infos) > 1 {
				return a.infoTable(infos)
			}
			return a.infoOne(&infos[0])
		},
	}
}

func (a *app) infoTable(infos []release.DatasetInfo) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "dataset\treleases\trows\tbytes\tshards\tpixels\tsky (deg2)\tlicence\tcolumns")
	for i := range infos {
		d := &infos[i]
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%d\t%.1f\t%s\t%d\n", d.Name, len(d.Releases), d.Rows, formatBytes(d.Bytes), d.Shards, d.Pixels, d.SkyArea, d.Licence, len(d.Columns))
	}
	return w.Flush()
}

func (a *app) infoOne(d *release.DatasetInfo) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\t%d rows, %s in %d shards\n", d.Name, d.Rows, formatBytes(d.Bytes), d.Shards)
	if len(d.Orders) == 2 {
		fmt.Fprintf(w, "sky\t%.1f deg2 (%.2g of it) in %d pixels of order %d to %d; position %s, %s\n", d.SkyArea, d.SkyFraction, d.Pixels, d.Orders[0], d.Orders[1], d.RA, d.Dec)
	}
	if m := d.Margin; m != nil {
		fmt.Fprintf(w, "margin\t%s arcsec: %d rows around %d pixels, %s in %d shards\n", margins(m.Radius), m.Rows, m.Pixels, formatBytes(m.Bytes), m.Shards)
	}
	if x := d.Index; x != nil {
		fmt.Fprintf(w, "index\tof %s: %d rows, %s in %d shards\n", x.Column, x.Rows, formatBytes(x.Bytes), x.Shards)
	}
	fmt.Fprintf(w, "id\t%s\nlicence\t%s\nshards\t%s of rows each, pieces of %s, expected to grow %dx, units by %s\n", d.ID, d.Licence, formatBytes(d.ShardSize), formatBytes(d.Piece), d.Expect, d.Digest)
	if err := w.Flush(); err != nil {
		return err
	}
	w = tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\ncolumn\tkind\ttype\tshape\tunit\tstored")
	for i := range d.Columns {
		c := &d.Columns[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, c.Kind, c.DType, shapeText(c.Shape), c.Unit, stored(c))
		for k := range c.Members {
			m := &c.Members[k]
			fmt.Fprintf(w, "  .%s\t%s\t%s\t\t%s\t\n", m.Name, m.Kind, m.DType, m.Unit)
		}
	}
	fmt.Fprintln(w, "\nrelease\tsealed\trows\tbytes\tid\tmessage")
	for _, r := range d.Releases {
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%s\t%s\n", r.Number, r.Time, r.Rows, formatBytes(r.Bytes), r.ID[:12], strings.ReplaceAll(r.Message, "\n", " "))
	}
	if d.Staged > 0 {
		fmt.Fprintf(w, "%d\tstaged\t\t\t\trun `astropile release %s`\n", d.Staged, d.Root)
	}
	if i := d.Interrupted; i != nil {
		fmt.Fprintf(w, "%d\tinterrupted\t\t\t\t%d of %d inputs were read; run the import again to go on\n", i.Release, i.Read, i.Inputs)
	}
	return w.Flush()
}

func shapeText(shape []int) string {
	if len(shape) == 0 {
		return ""
	}
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ", ")
}

// stored says how a column stands on disk, and whether it maps.
func stored(c *catalog.Column) string {
	if c.Kind != catalog.Tensor {
		return string(c.Codec)
	}
	mapped := "mapped"
	if c.Codec != catalog.None || c.Layout != catalog.Plain && c.Layout != catalog.Identity {
		mapped = "not mapped"
	}
	return fmt.Sprintf("%s, %s, %s", c.Layout, c.Codec, mapped)
}
