package release

import (
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"astropile/internal/catalog"
)

func oddRelease() (*catalog.Release, []catalog.Shard) {
	rel := &catalog.Release{Number: 3, Time: "2026-12-01T10:20:30Z", Message: "third", Tool: "astropile test", Rows: 1234567, Bytes: 5 << 30, Dataset: catalog.Dataset{
		Name: "odd", ID: "id", RA: "ra", Dec: "dec", Licence: "ODbL-1.0", Citation: "x ``` y", Columns: []catalog.Column{
			{Name: healpixColumn, Kind: catalog.Scalar, DType: catalog.Int64}, {Name: "id", Kind: catalog.Scalar, DType: catalog.String}, {Name: "ra", Kind: catalog.Scalar, DType: catalog.Float64}, {Name: "dec", Kind: catalog.Scalar, DType: catalog.Float64},
			{Name: "two words", Kind: catalog.Scalar, DType: catalog.Bool}, {Name: `"q": é`, Kind: catalog.Scalar, DType: catalog.Float16, Unit: "a|b"},
			{Name: "texts", Kind: catalog.List, DType: catalog.String}, {Name: "lc", Kind: catalog.Struct, Members: []catalog.Column{{Name: "t", Kind: catalog.List, DType: catalog.Float64}}},
			{Name: "vis", Kind: catalog.Tensor, DType: catalog.Complex64, Shape: []int{5}}, {Name: "one", Kind: catalog.Tensor, DType: catalog.Uint8, Shape: []int{7}}, {Name: "five", Kind: catalog.Tensor, DType: catalog.Int8, Shape: []int{1, 2, 3, 4, 5}},
			{Name: "six", Kind: catalog.Tensor, DType: catalog.Float32, Shape: []int{2, 3, 1, 1, 1, 4}}, {Name: "z", Kind: catalog.Tensor, DType: catalog.Complex128},
		}}}
	return rel, []catalog.Shard{
		{Role: catalog.Primary, Order: 1, Pix: 17, Bytes: 7}, {Role: catalog.Primary, Order: 0, Pix: 3, Bytes: 9}, {Role: catalog.Primary, Order: 1, Pix: 17, Bytes: 3}, {Role: catalog.Margin, Order: 0, Pix: 8},
	}
}

func TestTheCardGivesEveryColumnAFeature(t *testing.T) {
	rel, shards := oddRelease()
	text := string(card(rel, shards))
	front, body, ok := strings.Cut(strings.TrimPrefix(text, "---\n"), "\n---\n")
	if !ok {
		t.Fatal(text)
	}
	var meta struct {
		License string
		Size    []string `yaml:"size_categories"`
		Info    struct {
			Features []map[string]any
		} `yaml:"dataset_info"`
	}
	if err := yaml.Unmarshal([]byte(front), &meta); err != nil {
		t.Fatalf("%v in %s", err, front)
	}
	if meta.License != "odbl" || len(meta.Size) != 1 || meta.Size[0] != "1M<n<10M" {
		t.Errorf("%+v", meta)
	}
	if len(meta.Info.Features) != len(rel.Dataset.Columns) {
		t.Fatalf("%d features for %d columns", len(meta.Info.Features), len(rel.Dataset.Columns))
	}
	for i, c := range rel.Dataset.Columns {
		f := meta.Info.Features[i]
		if f["name"] != c.Name {
			t.Errorf("feature %d is %v, want %q", i, f, c.Name)
		}
		array := func(kind, dtype string, sides int) {
			a, ok := f["dtype"].(map[string]any)[kind].(map[string]any)
			if !ok || a["dtype"] != dtype || len(a["shape"].([]any)) != sides {
				t.Errorf("%s: %v", c.Name, f)
			}
		}
		switch c.Name {
		case "vis":
			array("array2_d", "float32", 2)
		case "five":
			array("array5_d", "int8", 5)
		case "one":
			if f["list"] != "uint8" || f["length"] != 7 {
				t.Errorf("%v", f)
			}
		case "z":
			if f["list"] != "float64" || f["length"] != 2 {
				t.Errorf("%v", f)
			}
		case "six":
			depth := 1
			for in, ok := f["list"].(map[string]any); ok; in, ok = in["list"].(map[string]any) {
				depth++
			}
			if depth != 6 || f["length"] != 2 {
				t.Errorf("depth %d: %v", depth, f)
			}
		}
	}
	if strings.Count(body, "```")%2 != 0 {
		t.Error("the citation breaks out of its fence")
	}
	if !strings.Contains(body, `a\|b`) {
		t.Error("a unit breaks the table")
	}
}

func TestHATSFilesListPixelsOnceAndScalarsByName(t *testing.T) {
	rel, shards := oddRelease()
	if got := string(partitionInfo(pixels(shards))); got != "Norder,Npix\n0,3\n1,17\n" {
		t.Errorf("partition_info.csv: %q", got)
	}
	props := string(hatsProperties(rel, shards))
	for _, line := range []string{"hats_nrows=1234567", "hats_col_ra=ra", "hats_npix_suffix=/", "hats_order=1", "hats_max_bytes=9", "hats_creation_date=2026-12-01T10:20UTC", "moc_sky_fraction=0.1041667", "hats_version=v1.0"} {
		if !strings.Contains(props, "\n"+line+"\n") {
			t.Errorf("no line %s in %s", line, props)
		}
	}
	if strings.Contains(props, "two words") {
		t.Error("a name with a space stands in a list that spaces separate")
	}
}

func TestLicencesHaveTheHubsNames(t *testing.T) {
	for spdx, want := range map[string][2]string{
		"CC-BY-4.0": {"cc-by-4.0", ""}, "CC0-1.0": {"cc0-1.0", ""}, "ODC-By-1.0": {"odc-by", ""}, "GPL-3.0-or-later": {"gpl-3.0", ""}, "MIT": {"mit", ""},
		"CC-BY-NC-SA-2.5": {"other", "cc-by-nc-sa-2.5"}, "LicenseRef-ours": {"other", "licenseref-ours"},
	} {
		known, err := checkLicence(strings.ToLower(spdx))
		if strings.HasPrefix(spdx, "LicenseRef") {
			known, err = checkLicence(spdx)
		}
		if err != nil || known != spdx {
			t.Errorf("%s: %q, %v", spdx, known, err)
		}
		if id, name := hubLicence(spdx); id != want[0] || name != want[1] {
			t.Errorf("%s: %q, %q, want %q", spdx, id, name, want)
		}
	}
	for _, bad := range []string{"", "CC BY 4.0", "proprietary", "MIT OR Apache-2.0", "LicenseRef-"} {
		if _, err := checkLicence(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}
