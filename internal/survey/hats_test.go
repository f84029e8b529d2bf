package survey

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestOfPublishedCataloguesOnlyThePrimaryDataAreInputs(t *testing.T) {
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const shard = "dataset/Norder=0/Dir=0/Npix=4"
	for _, c := range []struct {
		name         string
		files        map[string]string
		want, passed []string
	}{
		{"a collection", map[string]string{
			"collection.properties":           "# HATS\nhats_primary_table_url=main\nall_margins=m\n",
			"main/hats.properties":            "dataproduct_type=object\n",
			"main/" + shard + ".parquet":      "",
			"main/dataset/_metadata":          "",
			"main/partition_info.csv":         "",
			"main/skymap.fits":                "",
			"m/hats.properties":               "dataproduct_type=margin\n",
			"m/" + shard + ".parquet":         "",
			"i/properties":                    "dataproduct_type=index\n",
			"i/dataset/index/part.0.parquet":  "",
			"main/per_partition_stat.parquet": "",
		}, []string{"main/" + shard + ".parquet"}, []string{"i", "m", "main/partition_info.csv", "main/per_partition_stat.parquet", "main/skymap.fits"}},
		{"a catalogue of older properties", map[string]string{
			"properties":                    "dataproduct_type = object\n",
			shard + "/part0.parquet":        "",
			"point_map.fits":                "",
			"association/properties":        "dataproduct_type=association\n",
			"association/dataset/x.parquet": "",
		}, []string{shard + "/part0.parquet"}, []string{"association", "point_map.fits"}},
		{"catalogues beside one another", map[string]string{
			"a/hats.properties":         "dataproduct_type=object\n",
			"a/" + shard + ".parquet":   "",
			"a_m/hats.properties":       "dataproduct_type=margin\n",
			"a_m/" + shard + ".parquet": "",
			"b/hats.properties":         "dataproduct_type=source\n",
			"b/" + shard + ".parquet":   "",
		}, []string{"a/" + shard + ".parquet", "b/" + shard + ".parquet"}, []string{"a_m"}},
		{"a repository with a card alone", map[string]string{
			"README.md":                     "---\nconfigs: []\n---\n",
			"desi/" + shard + ".parquet":    "",
			"desi/dataset/_common_metadata": "",
		}, []string{"desi/" + shard + ".parquet"}, nil},
		{"a folder that only looks like one", map[string]string{"properties": "no lines of properties", "a.csv": "", "dataset/b.csv": ""}, []string{"a.csv", "dataset/b.csv"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				write(filepath.Join(dir, name), text)
			}
			in, warnings, err := DiscoverAll([]string{dir})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, x := range in {
				got = append(got, x.Rel)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("inputs are %v, want %v", got, c.want)
			}
			if c.passed == nil != (len(warnings) == 0) || c.passed != nil && !strings.HasSuffix(warnings[0].Text, ": "+strings.Join(c.passed, ", ")) {
				t.Errorf("warnings are %v, want %v", warnings, c.passed)
			}
		})
	}
}

func TestListsOfSingleRowsAreArraysOnlyBesideOthers(t *testing.T) {
	row := func(id int, x string) string {
		return `{"object_id": ` + string(rune('0'+id)) + `, "ra": 1, "dec": 2, "x": ` + x + "}\n"
	}
	alone, _, _, err := inspectText(t, map[string]string{"a.jsonl": row(1, "[1, 2]")}, "")
	if err != nil || alone.find("x").Kind != "list" {
		t.Errorf("one row: %v %+v", err, alone)
	}
	both, _, in, err := inspectText(t, map[string]string{"a.jsonl": row(1, "[1, 2]"), "b.jsonl": row(2, "[3, 4, 5]")}, "")
	if err != nil || both.find("x").Kind != "list" {
		t.Fatalf("lengths that differ: %v %+v", err, both)
	}
	b, _ := readAll(t, in, both, 0)
	if _, v := vectorOf(t, b, "x"); !slices.Equal(v.Offsets, []int64{0, 2, 5}) {
		t.Errorf("lengths are %v", v.Offsets)
	}
}
