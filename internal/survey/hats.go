package survey

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"

	"astropile/internal/catalog"
)

// maxProperties bounds the bytes that are read of a file of properties.
const maxProperties = 1 << 20

// properties reads a file of lines key=value, as HATS has them; nil where there is none.
func properties(path string) map[string]string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	out := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(f, maxProperties))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		if key, value, ok := strings.Cut(line, "="); ok {
			out[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return out
}

// dataIn says in which one of its sub-folders the data of a published folder are: of a HATS collection its primary
// catalogue, of a HATS catalogue and of a dataset of our own their shards. It is empty for other folders. auxiliary says
// that the folder is a margin, an index or an association, whose rows are others' rows again.
func dataIn(dir string) (sub string, auxiliary bool) {
	if b, err := os.ReadFile(filepath.Join(dir, "latest.json")); err == nil && len(b) <= maxProperties {
		if l, err := catalog.DecodeLatest(bytes.Clone(b)); err == nil {
			return l.Name, false
		}
	}
	if p := properties(filepath.Join(dir, "collection.properties")); p["hats_primary_table_url"] != "" {
		return p["hats_primary_table_url"], false
	}
	p := properties(filepath.Join(dir, "hats.properties"))
	if p == nil {
		p = properties(filepath.Join(dir, "properties"))
	}
	kind := p["dataproduct_type"]
	switch kind {
	case "margin", "index", "association":
		return "", true
	}
	if st, err := os.Stat(filepath.Join(dir, "dataset")); err == nil && st.IsDir() {
		_, released := os.Stat(filepath.Join(dir, "releases"))
		if kind != "" || released == nil {
			return "dataset", false
		}
	}
	return "", false
}
