package release

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"astropile/internal/catalog"
)

// TestVerifyFindsWhatHashesDoNot seals documents that contradict the shards, hashes and all, and wants verify to say so.
func TestVerifyFindsWhatHashesDoNot(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "sample")
	mustImport(t, whole, sampleSurvey(&file{name: "a.h5", objects: objects("a", 200, 10, 10, 30)}), smallShards)
	mustSeal(t, whole, 1)
	rel, _, manifest, err := LoadDataset(whole)
	if err != nil {
		t.Fatal(err)
	}
	cols := rel.Dataset.Columns
	scalars := func(file string, cols []catalog.Column, change func(vs []*catalog.Vector, rows int)) func(dir string) []byte {
		return func(dir string) []byte {
			b, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			vs, rows, err := catalog.DecodeScalars(file, b, cols)
			if err != nil {
				t.Fatal(err)
			}
			change(vs, rows)
			out, err := catalog.EncodeScalars(cols, vs, rows, "forger")
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	shards := func(change func(s []catalog.Shard)) func(string) []byte {
		return func(string) []byte {
			s := append([]catalog.Shard{}, manifest...)
			change(s)
			b, err := catalog.EncodeManifest(s, "forger")
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	swap := func(b []byte, n int) {
		first := bytes.Clone(b[:n])
		copy(b, b[n:2*n])
		copy(b[n:], first)
	}
	for name, c := range map[string]struct {
		file   string
		forge  func(dir string) []byte
		change func(r *catalog.Release)
		says   string
	}{
		"statistics":        {"stats.parquet", scalars("stats.parquet", catalog.StatColumns(cols), func(vs []*catalog.Vector, _ int) { vs[0].Data[0] ^= 1 }), nil, "statistics"},
		"rows in disorder":  {rowsFile(0), scalars(rowsFile(0), catalog.RowColumns(cols), func(vs []*catalog.Vector, _ int) { swap(vs[1].Data, 4) }), nil, "has to stand"},
		"a value of a row":  {rowsFile(0), scalars(rowsFile(0), catalog.RowColumns(cols), func(vs []*catalog.Vector, rows int) { swap(vs[4].Data, 8) }), nil, `column "ra" differs`},
		"a row more":        {rowsFile(0), scalars(rowsFile(0), catalog.RowColumns(cols), func(vs []*catalog.Vector, rows int) { binary.LittleEndian.PutUint32(vs[0].Data[4*(rows-1):], 99) }), nil, "has to stand"},
		"pieces":            {"pieces.sha1", func(string) []byte { return make([]byte, 20*len(manifest)) }, nil, "pieces.sha1"},
		"rows in all":       {"", nil, func(r *catalog.Release) { r.Rows++ }, "it says 201 rows"},
		"rows of a shard":   {"manifest.parquet", shards(func(s []catalog.Shard) { s[0].Rows++ }), func(r *catalog.Release) { r.Rows++ }, "holds"},
		"place of a shard":  {"manifest.parquet", shards(func(s []catalog.Shard) { s[0].HpxMin-- }), nil, "as the manifest says"},
		"tail of a shard":   {"manifest.parquet", shards(func(s []catalog.Shard) { s[0].TailDigest[3]++ }), nil, "tail"},
		"sha256 of a shard": {"manifest.parquet", shards(func(s []catalog.Shard) { s[1].SHA256[3]++ }), nil, "sha256"},
	} {
		dir := filepath.Join(t.TempDir(), "sample")
		copyTree(t, whole, dir)
		releases := filepath.Join(dir, "sample", "releases", "1")
		forged := *rel
		forged.Files = map[string]catalog.FileRef{}
		for f, ref := range rel.Files {
			forged.Files[f] = ref
		}
		put := func(p string, b []byte) {
			if err := os.WriteFile(p, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if c.file != "" {
			b := c.forge(releases)
			put(filepath.Join(releases, c.file), b)
			forged.Files[c.file] = catalog.RefOf(b)
		}
		if c.change != nil {
			c.change(&forged)
		}
		raw, err := forged.Encode()
		if err != nil {
			t.Fatal(err)
		}
		put(filepath.Join(releases, "release.json"), raw)
		latest, err := catalog.Canonical(catalog.Latest{Format: catalog.FormatVersion, Release: 1, ID: catalog.ReleaseID(raw), Name: "sample"})
		if err != nil {
			t.Fatal(err)
		}
		put(filepath.Join(dir, "latest.json"), latest)
		rep, err := Verify(ctx, dir, VerifyOptions{Deep: true})
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		found := ""
		for _, f := range rep.Findings {
			found += f.Path + ": " + f.What + "\n"
		}
		if !strings.Contains(found, c.says) {
			t.Errorf("%s: found %s", name, found)
		}
	}
}
