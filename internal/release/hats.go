package release

import (
	"fmt"
	"sort"
	"strings"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

// hatsVersion is the version of the HATS recommendation that the files follow.
const hatsVersion = "v1.0"

// listBreaks are what HATS takes for the end of a name in a list.
const listBreaks = " \t,;"

// properties writes a Java properties file: one key=value a line, in the order given.
func properties(title string, pairs [][2]string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "#%s\n", title)
	for _, p := range pairs {
		fmt.Fprintf(&b, "%s=%s\n", p[0], p[1])
	}
	return []byte(b.String())
}

// pixels lists the pixels of the primary shards, coarse before fine, each once.
func pixels(shards []catalog.Shard) []pixel {
	seen := map[pixel]bool{}
	var out []pixel
	for i := range shards {
		p := pixel{shards[i].Order, shards[i].Pix}
		if shards[i].Role == catalog.Primary && p.order != catalog.NoSky && !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		a, _ := out[i].span()
		b, _ := out[j].span()
		return a < b
	})
	return out
}

// skyFraction is the share of the sky that the pixels of the primary shards cover.
func skyFraction(shards []catalog.Shard) float64 {
	var f float64
	for _, p := range pixels(shards) {
		f += sky.Fraction(int(p.order))
	}
	return f
}

func hatsProperties(rel *catalog.Release, shards []catalog.Shard) []byte {
	d := &rel.Dataset
	order := 0
	var largest int64
	for i := range shards {
		order = max(order, int(shards[i].Order))
		largest = max(largest, shards[i].Bytes)
	}
	var scalars []string
	for _, c := range d.Columns {
		if c.Kind == catalog.Scalar && !strings.ContainsAny(c.Name, listBreaks) {
			scalars = append(scalars, c.Name)
		}
	}
	pairs := [][2]string{
		{"obs_collection", d.Name}, {"dataproduct_type", "object"}, {"hats_nrows", fmt.Sprint(rel.Rows)}, {"hats_col_ra", d.RA}, {"hats_col_dec", d.Dec},
		{"hats_col_healpix", healpixColumn}, {"hats_col_healpix_order", fmt.Sprint(sky.MaxOrder)}, {"hats_cols_default", strings.Join(scalars, " ")}, {"hats_npix_suffix", "/"}, {"hats_order", fmt.Sprint(order)},
		{"hats_max_bytes", fmt.Sprint(largest)}, {"hats_skymap_order", fmt.Sprint(sky.MapOrder(rel.Rows))}, {"moc_sky_fraction", fmt.Sprintf("%.7g", skyFraction(shards))},
		{"hats_estsize", fmt.Sprint(rel.Bytes >> 10)}, {"hats_builder", rel.Tool}, {"hats_creation_date", hatsTime(rel.Time)}, {"hats_release_date", rel.Time[:10]}, {"hats_version", hatsVersion},
	}
	return properties("HATS catalog", pairs)
}

// hatsTime is a time to the minute, as HATS properties hold it.
func hatsTime(rfc3339 string) string { return rfc3339[:16] + "UTC" }

func partitionInfo(shards []catalog.Shard) []byte {
	var b strings.Builder
	b.WriteString("Norder,Npix\n")
	for _, p := range pixels(shards) {
		fmt.Fprintf(&b, "%d,%d\n", p.order, p.pix)
	}
	return []byte(b.String())
}

func collectionProperties(rel *catalog.Release) []byte {
	d := &rel.Dataset
	return properties("HATS Collection", [][2]string{{"obs_collection", d.Name}, {"hats_primary_table_url", d.Name}, {"hats_builder", rel.Tool},
		{"hats_creation_date", hatsTime(rel.Time)}, {"hats_estsize", fmt.Sprint(rel.Bytes >> 10)}, {"hats_version", hatsVersion}})
}
