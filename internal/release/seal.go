package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"astropile/internal/catalog"
	"astropile/internal/shard"
)

// SealOptions say what a release is called and under what terms it stands.
type SealOptions struct {
	Message  string
	Licence  string // SPDX; asked for by the first release, kept by later ones
	Citation string // the same
	DOI      string
	Tool     string // program and version
	Now      time.Time

	Margin   int64                  // radius of the margin in milliarcseconds; 0: as the release before
	Index    string                 // column of the id index; empty: as the release before
	Announce func(MarginSize) error // is told of the margin before it is written, and may refuse it; may be nil
	Jobs     int                    // goroutines; default: as many as the process may run at once
	Progress Progress
}

// SealReport says what was released.
type SealReport struct {
	Release int      `json:"release"`
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Rows    int64    `json:"rows"`   // all releases
	Bytes   int64    `json:"bytes"`  // all releases
	Shards  int      `json:"shards"` // primary ones, as rows and bytes are
	Added   Added    `json:"added"`
	Growth  []Growth `json:"growth"`
	Skipped []string `json:"skipped"`

	Margin *MarginSize `json:"margin,omitempty"` // that this release added, as announced
	Index  string      `json:"index,omitempty"`  // column of the id index

	// Before says that an earlier call committed the release and did not come to its end; this one only wrote the files at the top.
	Before bool `json:"committed_before"`
}

// Added is what a release adds to the one before.
type Added struct {
	Rows   int64 `json:"rows"`
	Bytes  int64 `json:"bytes"`
	Shards int   `json:"shards"`
}

// Seal makes a release of what is staged. It commits with one rename: readers that follow release ids see all of it or
// nothing. It fails with ErrBusy where another command works on the root, ErrNothing where nothing is staged, ErrRefused
// where licence or citation is missing, ErrDamaged where the staged files are not what the import wrote.
func Seal(ctx context.Context, dir string, opt SealOptions) (*SealReport, error) {
	r, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	return sealInto(ctx, r, opt)
}

func sealInto(ctx context.Context, r root, opt SealOptions) (*SealReport, error) {
	dir := r.dir
	if _, err := os.Stat(r.path(stagingDir)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: nothing is staged in %s: run `astropile import SRC --into %s` first", ErrNothing, dir, dir)
	}
	unlock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	finished, err := r.goOn()
	if err != nil {
		return nil, err
	}
	j, err := r.stagedJournal()
	if errors.Is(err, ErrNothing) && finished != nil {
		return r.committedBefore(finished)
	}
	if err != nil {
		return nil, err
	}
	parent, err := r.latest()
	if err != nil {
		return nil, err
	}
	last := 0
	if parent != nil {
		last = parent.release.Number
	}
	if j.Release != last+1 {
		return nil, fmt.Errorf("%w: what is staged in %s is for release %d, but the last release is %d: throw it away with `astropile import --discard` and import again", ErrRefused, dir, j.Release, last)
	}
	if err := j.terms(parent, opt); err != nil {
		return nil, err
	}
	if err := j.ask(parent, &opt); err != nil {
		return nil, err
	}
	if opt.Jobs <= 0 {
		opt.Jobs = runtime.GOMAXPROCS(0)
	}
	further, size, err := r.extend(ctx, j, parent, &opt)
	if err != nil {
		return nil, err
	}
	j.Further = further.shards
	rel, shards, err := r.compose(ctx, j, parent, opt)
	if err != nil {
		return nil, err
	}
	raw, err := rel.Encode()
	if err != nil {
		return nil, err
	}
	work := r.workPath(j.Release)
	if err := r.writeFile(filepath.Join(work, "SHA256SUMS"), sums(rel, raw)); err != nil {
		return nil, err
	}
	if err := r.writeFile(filepath.Join(work, "release.json"), raw); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j.State = sealing
	if err := r.writeJournal(j); err != nil {
		return nil, err
	}
	if err := r.commit(j, releaseDir(rel)); err != nil {
		// Whether the commit is on disk decides which way to go.
		return nil, errors.Join(fmt.Errorf("release: seal release %d: %w", rel.Number, err), r.recover())
	}
	rep := &SealReport{Release: rel.Number, ID: catalog.ReleaseID(raw), Name: rel.Dataset.Name, Rows: rel.Rows, Bytes: rel.Bytes, Growth: j.Growth, Skipped: j.Skipped, Margin: size, Index: rel.Dataset.Index}
	for i := range shards {
		if shards[i].Role == catalog.Primary {
			rep.Shards++
		}
	}
	for i := range j.Shards {
		rep.Added.Rows += j.Shards[i].Rows
		rep.Added.Bytes += j.Shards[i].Bytes
		rep.Added.Shards++
	}
	if err := r.finish(j); err != nil {
		return nil, fmt.Errorf("release %d is committed; the files at the top follow with the next command: %w", rel.Number, err)
	}
	return rep, nil
}

// commit moves the shards into place, and then the release's folder.
func (r root) commit(j *journal, dir string) error {
	all := j.all()
	moves := make([]move, len(all))
	for i := range all {
		p := filepath.FromSlash(all[i].Path)
		moves[i] = move{filepath.Join(r.shardsPath(j.Release), p), filepath.Join(r.dir, p)}
	}
	if err := r.moveAll(moves, r.dir); err != nil {
		return err
	}
	return r.moveAll([]move{{r.workPath(j.Release), r.path(dir)}}, r.dir)
}

// terms settles licence and citation.
func (j *journal) terms(parent *published, opt SealOptions) error {
	d := &j.Dataset
	if parent != nil {
		p := &parent.release.Dataset
		d.Licence, d.Citation, d.DOI = p.Licence, p.Citation, p.DOI
	}
	if opt.Licence != "" {
		d.Licence = opt.Licence
	}
	if opt.Citation != "" {
		d.Citation = opt.Citation
	}
	if opt.DOI != "" {
		d.DOI = opt.DOI
	}
	switch {
	case d.Licence == "":
		return fmt.Errorf("%w: a release needs a licence: --licence with an SPDX identifier such as CC-BY-4.0; later releases keep it", ErrRefused)
	case strings.TrimSpace(d.Citation) == "":
		return fmt.Errorf("%w: a release needs a citation: --citation with a text or BibTeX file; later releases keep it", ErrRefused)
	}
	for what, text := range map[string]string{"message": opt.Message, "citation": d.Citation, "DOI": d.DOI} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return fmt.Errorf("%w: the %s is not UTF-8 text: a release is permanent and every tool has to read it; convert it first (iconv -f latin1 -t utf-8)", ErrRefused, what)
		}
	}
	licence, err := checkLicence(d.Licence)
	d.Licence = licence
	return err
}

// compose writes the documents of a release into the staging folder, but for release.json itself.
func (r root) compose(ctx context.Context, j *journal, parent *published, opt SealOptions) (*catalog.Release, []catalog.Shard, error) {
	rel := &catalog.Release{Number: j.Release, Time: stamp(opt.Now), Message: opt.Message, Tool: opt.Tool, Files: map[string]catalog.FileRef{}, Dataset: j.Dataset}
	var shards []catalog.Shard
	if parent != nil {
		rel.Parent = parent.id
		shards = append(shards, parent.manifest...)
		for file, ref := range parent.release.Files {
			if strings.HasPrefix(file, "rows-") {
				file = "../" + strconv.Itoa(parent.release.Number) + "/" + file
			}
			if strings.HasPrefix(file, "../") {
				rel.Files[file] = ref
			}
		}
	}
	if err := r.checkStaged(ctx, j, opt.Jobs, opt.Progress); err != nil {
		return nil, nil, err
	}
	for _, s := range j.all() {
		shards = append(shards, s.shard(j.Release))
	}
	catalog.SortManifest(shards)
	for i := range shards {
		if shards[i].Role == catalog.Primary {
			rel.Rows += shards[i].Rows
			rel.Bytes += shards[i].Bytes
		}
	}
	work := r.workPath(j.Release)
	manifest, err := catalog.EncodeManifest(shards, opt.Tool)
	if err != nil {
		return nil, nil, err
	}
	if err := r.writeFile(filepath.Join(work, "manifest.parquet"), manifest); err != nil {
		return nil, nil, err
	}
	common, err := shard.EncodeCommonMetadata(j.Dataset.Columns)
	if err != nil {
		return nil, nil, err
	}
	top := map[string][]byte{"_common_metadata": common, "README.md": card(rel, shards)}
	if j.Dataset.HasSky() {
		props := hatsProperties(rel, shards)
		top["hats.properties"], top["properties"] = props, props
		top["partition_info.csv"] = partitionInfo(pixels(shards))
		top["collection.properties"] = collectionProperties(rel)
		if err := furtherTop(top, rel, shards); err != nil {
			return nil, nil, err
		}
	}
	for name, b := range top {
		if err := r.writeFile(filepath.Join(work, "meta", name), b); err != nil {
			return nil, nil, err
		}
	}
	err = filepath.WalkDir(work, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if strings.HasSuffix(p, unfinished) { // left by a process that died
			return r.disk.Remove(p)
		}
		name, err := filepath.Rel(work, p)
		if err != nil || name == "release.json" || name == "SHA256SUMS" {
			return err
		}
		sum, n, err := hashFile(ctx, p)
		if err != nil {
			return err
		}
		rel.Files[filepath.ToSlash(name)] = catalog.FileRef{Bytes: n, SHA256: fmt.Sprintf("%x", sum)}
		return nil
	})
	return rel, shards, err
}

// sums is SHA256SUMS: what a person checks a release's documents with.
func sums(rel *catalog.Release, raw []byte) []byte {
	var lines []string
	for name, f := range rel.Files {
		lines = append(lines, f.SHA256+"  "+name+"\n")
	}
	lines = append(lines, catalog.ReleaseID(raw)+"  release.json\n")
	sort.Slice(lines, func(a, b int) bool { return lines[a][66:] < lines[b][66:] })
	return []byte(strings.Join(lines, ""))
}

// Recover brings a root that was left in the middle of something to a state between two commands.
func Recover(_ context.Context, dir string) error {
	r, err := openRoot(dir)
	if err != nil {
		return err
	}
	return recoverRoot(r)
}

func recoverRoot(r root) error {
	if _, err := os.Stat(r.path(stagingDir)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return r.recover()
}

// LoadDataset reads the newest release of a root: its number, id, content and manifest.
func LoadDataset(dir string) (*catalog.Release, string, []catalog.Shard, error) {
	r, err := openRoot(dir)
	if err != nil {
		return nil, "", nil, err
	}
	p, err := r.latest()
	if err != nil {
		return nil, "", nil, err
	}
	if p == nil {
		return nil, "", nil, fmt.Errorf("%w: no release in %s", ErrNothing, dir)
	}
	return p.release, p.id, p.manifest, nil
}

// history reads the releases of a root, from the first on.
func (r root) history(name string, last int) ([]*published, error) {
	var out []*published
	for n := 1; n <= last; n++ {
		raw, err := os.ReadFile(r.path(name, "releases", strconv.Itoa(n), "release.json"))
		if err != nil {
			return nil, err
		}
		rel, err := catalog.DecodeRelease(raw)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, path.Join(name, "releases", strconv.Itoa(n)), err)
		}
		out = append(out, &published{id: catalog.ReleaseID(raw), release: rel})
	}
	return out, nil
}

// String says a journal for errors and tests.
func (j *journal) String() string {
	b, _ := json.Marshal(j)
	return string(b)
}
