package release

import (
	"fmt"
	"strconv"
	"strings"

	"astropile/internal/catalog"
)

// sizeCategory is the Hub's word for a number of rows.
func sizeCategory(rows int64) string {
	names := []string{"n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "1B<n<10B", "10B<n<100B", "100B<n<1T"}
	limit := int64(1000)
	for _, n := range names {
		if rows < limit {
			return n
		}
		limit *= 10
	}
	return "n>1T"
}

// card is the dataset card: front matter that gives stock clients types and shapes, and a page for people.
func card(rel *catalog.Release, shards []catalog.Shard) []byte {
	d := &rel.Dataset
	var b strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	w("---\n")
	id, name := hubLicence(d.Licence)
	w("license: %s\n", id)
	if name != "" {
		w("license_name: %s\n", strconv.Quote(name))
	}
	w("pretty_name: %s\ntags:\n- astronomy\n- hats\n- astropile\nsize_categories:\n- %s\n", strconv.Quote(d.Name), strconv.Quote(sizeCategory(rel.Rows)))
	// A pattern for each kind of folder: a bare ** would pick up what other tools leave beside the shards.
	glob := d.Name + "/dataset/Norder=*/Dir=*/Npix=*/*.parquet"
	if !d.HasSky() {
		glob = d.Name + "/dataset/part/*/*.parquet"
	}
	w("configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: %s\n", strconv.Quote(glob))
	w("dataset_info:\n  config_name: default\n  features:\n")
	for i := range d.Columns {
		feature(&b, &d.Columns[i], "  ")
	}
	w("---\n\n# %s\n\n", d.Name)
	w("%s objects, %s, release %d of %s.\n\n", thousands(rel.Rows), bytesText(rel.Bytes), rel.Number, rel.Time[:10])
	if rel.Message != "" {
		w("%s\n\n", rel.Message)
	}
	w("## Columns\n\n| column | kind | type | shape | unit |\n|---|---|---|---|---|\n")
	for i := range d.Columns {
		c := &d.Columns[i]
		w("| `%s` | %s | %s | %s | %s |\n", c.Name, c.Kind, c.DType, shapeText(c.Shape), cell(c.Unit))
		for k := range c.Members {
			m := &c.Members[k]
			w("| `%s.%s` | %s | %s | | %s |\n", c.Name, m.Name, m.Kind, m.DType, cell(m.Unit))
		}
	}
	w("\n## Use\n\n```python\nimport astropile                        # batches as numpy views\nds = astropile.open(\"%s\")\nfor batch in ds.batches(256, shuffle=True, seed=0):\n    ...\n\nfrom datasets import load_dataset       # the Hugging Face client\nds = load_dataset(\"path/or/repository\", split=\"train\")\n", d.Name)
	if d.HasSky() {
		w("\nimport lsdb                             # cone searches and cross-matches\ncatalogue = lsdb.open_catalog(\"path\")\n")
	}
	w("```\n\n%sScalars are loaded by default in `lsdb`; ask for tensors with `columns=`. The numpy format of `datasets` widens integers and narrows floats; `with_format(\"arrow\")` keeps every type.\n\n## Licence\n\n%s\n\n## Citation\n\n```\n%s\n```\n", furtherText(rel, shards), d.Licence, strings.TrimSpace(strings.ReplaceAll(d.Citation, "```", "'''")))
	if d.DOI != "" {
		w("\nDOI: %s\n", d.DOI)
	}
	return []byte(b.String())
}

// feature writes one entry of the card's features, as `datasets` reads them.
func feature(b *strings.Builder, c *catalog.Column, indent string) {
	fmt.Fprintf(b, "%s- name: %s\n", indent, strconv.Quote(c.Name))
	in := indent + "  "
	switch c.Kind {
	case catalog.Scalar:
		fmt.Fprintf(b, "%sdtype: %s\n", in, c.DType)
	case catalog.List:
		fmt.Fprintf(b, "%slist: %s\n", in, c.DType)
	case catalog.Struct:
		fmt.Fprintf(b, "%sstruct:\n", in)
		for i := range c.Members {
			feature(b, &c.Members[i], in)
		}
	case catalog.Tensor:
		shape := c.Shape
		if c.DType.Complex() {
			shape = append(append([]int{}, shape...), 2)
		}
		switch n := len(shape); {
		case n == 1:
			fmt.Fprintf(b, "%slist: %s\n%slength: %d\n", in, c.DType.Component(), in, shape[0])
		case n <= 5:
			fmt.Fprintf(b, "%sdtype:\n%s  array%d_d:\n%s    shape:\n", in, in, n, in)
			for _, k := range shape {
				fmt.Fprintf(b, "%s    - %d\n", in, k)
			}
			fmt.Fprintf(b, "%s    dtype: %s\n", in, c.DType.Component())
		default: // the Hub's library has arrays of two to five dimensions
			for i, k := range shape {
				if i == n-1 {
					fmt.Fprintf(b, "%slist: %s\n%slength: %d\n", in, c.DType.Component(), in, k)
					break
				}
				fmt.Fprintf(b, "%slength: %d\n%slist:\n", in, k, in)
				in += "  "
			}
		}
	}
}

func shapeText(shape []int) string {
	if len(shape) == 0 {
		return ""
	}
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ", ")
}

// cell keeps text from breaking a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func bytesText(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	x, k := float64(n), 0
	for x >= 1000 && k < len(units)-1 {
		x /= 1000
		k++
	}
	return strconv.FormatFloat(x, 'g', 3, 64) + " " + units[k]
}

// furtherText says what margin and id index are for.
func furtherText(rel *catalog.Release, shards []catalog.Shard) string {
	d := &rel.Dataset
	var b strings.Builder
	if d.Margin > 0 {
		m := furtherInfo(marginName(d.Name), catalog.Margin, shards)
		fmt.Fprintf(&b, "`%s` holds, for each HEALPix pixel, the rows of other pixels within %s arcsec of it (%s rows, %s): `lsdb` matches within that radius as if there were no pixels. The rows are copies, and not part of the dataset's %s.\n\n",
			m.Name, arcsec(d.Margin), thousands(m.Rows), bytesText(m.Bytes), thousands(rel.Rows))
	}
	if d.Index != "" {
		fmt.Fprintf(&b, "`%s` says which pixel each `%s` is in: `catalogue.id_search(values={\"%s\": [...]})` reads those pixels alone.\n\n", idsName(d.Name), d.Index, d.Index)
	}
	return b.String()
}
