package release

import (
	"fmt"
	"sort"
	"strings"

	"astropile/internal/catalog"
	"astropile/internal/shard"
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

// pixels lists the pixels of the primary shards by their place on the sky, each once.
func pixels(shards []catalog.Shard) []pixel { return pixelsOf(shards, catalog.Primary) }

func pixelsOf(shards []catalog.Shard, role string) []pixel {
	seen := map[pixel]bool{}
	var out []pixel
	for i := range shards {
		p := pixel{shards[i].Order, shards[i].Pix}
		if shards[i].Role == role && p.order != catalog.NoSky && !seen[p] {
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

// skyFraction is the share of the sky that pixels cover.
func skyFraction(pixels []pixel) float64 {
	var f float64
	for _, p := range pixels {
		f += sky.Fraction(int(p.order))
	}
	return f
}

func hatsProperties(rel *catalog.Release, shards []catalog.Shard) []byte {
	d := &rel.Dataset
	order := 0
	var largest int64
	for i := range shards {
		if shards[i].Role == catalog.Primary {
			order = max(order, int(shards[i].Order))
			largest = max(largest, shards[i].Bytes)
		}
	}
	pairs := [][2]string{
		{"obs_collection", d.Name}, {"dataproduct_type", "object"}, {"hats_nrows", fmt.Sprint(rel.Rows)}, {"hats_col_ra", d.RA}, {"hats_col_dec", d.Dec},
		{"hats_col_healpix", healpixColumn}, {"hats_col_healpix_order", fmt.Sprint(sky.MaxOrder)}, {"hats_cols_default", defaultColumns(d)}, {"hats_npix_suffix", "/"}, {"hats_order", fmt.Sprint(order)},
		{"hats_max_bytes", fmt.Sprint(largest)}, {"hats_skymap_order", fmt.Sprint(sky.MapOrder(rel.Rows))}, {"moc_sky_fraction", fmt.Sprintf("%.7g", skyFraction(pixels(shards)))},
		{"hats_estsize", fmt.Sprint(rel.Bytes >> 10)}, {"hats_builder", rel.Tool}, {"hats_creation_date", hatsTime(rel.Time)}, {"hats_release_date", rel.Time[:10]}, {"hats_version", hatsVersion},
	}
	if d.Index != "" {
		pairs = append(pairs, [2]string{"default_index", d.Index})
	}
	return properties("HATS catalog", pairs)
}

// hatsTime is a time to the minute, as HATS properties hold it.
func hatsTime(rfc3339 string) string { return rfc3339[:16] + "UTC" }

func partitionInfo(pixels []pixel) []byte {
	var b strings.Builder
	b.WriteString("Norder,Npix\n")
	for _, p := range pixels {
		fmt.Fprintf(&b, "%d,%d\n", p.order, p.pix)
	}
	return []byte(b.String())
}

func collectionProperties(rel *catalog.Release) []byte {
	d := &rel.Dataset
	pairs := [][2]string{{"obs_collection", d.Name}, {"hats_primary_table_url", d.Name}}
	if d.Margin > 0 {
		pairs = append(pairs, [2]string{"all_margins", marginName(d.Name)}, [2]string{"default_margin", marginName(d.Name)})
	}
	if d.Index != "" {
		pairs = append(pairs, [2]string{"all_indexes", d.Index + " " + idsName(d.Name)}, [2]string{"default_index", d.Index})
	}
	return properties("HATS Collection", append(pairs, [][2]string{{"hats_builder", rel.Tool},
		{"hats_creation_date", hatsTime(rel.Time)}, {"hats_estsize", fmt.Sprint(rel.Bytes >> 10)}, {"hats_version", hatsVersion}}...))
}

// defaultColumns are the columns that HATS clients load unasked: the scalars.
func defaultColumns(d *catalog.Dataset) string {
	var scalars []string
	for _, c := range d.Columns {
		if c.Kind == catalog.Scalar && !strings.ContainsAny(c.Name, listBreaks) {
			scalars = append(scalars, c.Name)
		}
	}
	return strings.Join(scalars, " ")
}

// furtherFiles are the files at the top of margin and id index.
func furtherFiles(d *catalog.Dataset) [][2]string {
	var out [][2]string
	if d.Margin > 0 {
		to := marginName(d.Name)
		out = append(out, [2]string{"_common_metadata", to + "/dataset/_common_metadata"}, [2]string{"margin/partition_info.csv", to + "/partition_info.csv"},
			[2]string{"margin/hats.properties", to + "/hats.properties"}, [2]string{"margin/hats.properties", to + "/properties"})
	}
	if d.Index != "" {
		to := idsName(d.Name)
		out = append(out, [2]string{"ids/_common_metadata", to + "/dataset/_common_metadata"}, [2]string{"ids/_metadata", to + "/dataset/_metadata"},
			[2]string{"ids/hats.properties", to + "/hats.properties"}, [2]string{"ids/hats.properties", to + "/properties"})
	}
	return out
}

// furtherTop adds what furtherFiles names of a release, but for ids/_metadata, which is written with the index.
func furtherTop(top map[string][]byte, rel *catalog.Release, shards []catalog.Shard) error {
	d := &rel.Dataset
	pairs := func(role, name, kind string, more ...[2]string) []byte {
		var rows, size, largest int64
		for i := range shards {
			if s := &shards[i]; s.Role == role {
				rows, size, largest = rows+s.Rows, size+s.Bytes, max(largest, s.Bytes)
			}
		}
		out := append([][2]string{{"obs_collection", name}, {"dataproduct_type", kind}, {"hats_nrows", fmt.Sprint(rows)}, {"hats_primary_table_url", d.Name}}, more...)
		return properties("HATS catalog", append(out, [][2]string{{"hats_max_bytes", fmt.Sprint(largest)}, {"hats_estsize", fmt.Sprint(size >> 10)}, {"hats_builder", rel.Tool},
			{"hats_creation_date", hatsTime(rel.Time)}, {"hats_release_date", rel.Time[:10]}, {"hats_version", hatsVersion}}...))
	}
	if d.Margin > 0 {
		px := pixelsOf(shards, catalog.Margin)
		order := int8(0)
		for _, p := range px {
			order = max(order, p.order)
		}
		top["margin/partition_info.csv"] = partitionInfo(px)
		top["margin/hats.properties"] = pairs(catalog.Margin, marginName(d.Name), "margin", [][2]string{{"hats_margin_threshold", arcsec(d.Margin)}, {"hats_col_ra", d.RA}, {"hats_col_dec", d.Dec},
			{"hats_col_healpix", healpixColumn}, {"hats_col_healpix_order", fmt.Sprint(sky.MaxOrder)}, {"hats_cols_default", defaultColumns(d)}, {"hats_npix_suffix", "/"}, {"hats_order", fmt.Sprint(order)},
			{"moc_sky_fraction", fmt.Sprintf("%.7g", skyFraction(px))}}...)
	}
	if d.Index != "" {
		common, err := shard.EncodeCommonMetadata(catalog.IndexColumns(d.Column(d.Index)))
		if err != nil {
			return err
		}
		top["ids/_common_metadata"] = common
		top["ids/hats.properties"] = pairs(catalog.IDs, idsName(d.Name), "index", [2]string{"hats_index_column", d.Index})
	}
	return nil
}
