package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"astropile/internal/catalog"
)

// State of the work that a journal tells of.
type state string

const (
	importing state = "importing" // an import works, or was interrupted: what it read is in its spool, the rest is rolled back
	discarded state = "discarded" // all of it is to be removed
	staged    state = "staged"    // an import is whole and waits for its release
	sealing   state = "sealing"   // shards move into place: back before the commit, forward after it
)

// journal stands beside an import's work as .staging/<n>.json. Shards are in .staging/<n>.shards under their final
// paths; .staging/<n> becomes releases/<n>.
type journal struct {
	State   state           `json:"state"`
	Release int             `json:"release"`
	Dataset catalog.Dataset `json:"dataset"`
	Shards  []stagedShard   `json:"shards"`            // primary ones
	Further []stagedShard   `json:"further,omitempty"` // of margin and id index, while they are sealed
	Parts   keyParts        `json:"parts"`             // what a repeated import is compared by
	Inputs  int             `json:"inputs"`            // that the import has to read
	Growth  []Growth        `json:"growth"`
	Skipped []string        `json:"skipped"` // inputs that were left out as damaged
}

type stagedShard struct {
	Role       string   `json:"role,omitempty"` // empty: primary
	Path       string   `json:"path"`
	Order      int8     `json:"order"`
	Pix        int64    `json:"pix"`
	HpxMin     int64    `json:"hpx_min"`
	HpxMax     int64    `json:"hpx_max"`
	Rows       int64    `json:"rows"`
	Bytes      int64    `json:"bytes"`
	SHA256     []byte   `json:"sha256"`
	TailOffset int64    `json:"tail_offset"`
	TailDigest []byte   `json:"tail_digest"`
	File       fileMark `json:"file"` // when it was staged
}

func (s *stagedShard) shard(release int) catalog.Shard {
	role := s.Role
	if role == "" {
		role = catalog.Primary
	}
	out := catalog.Shard{Path: s.Path, Role: role, Release: int32(release), Order: s.Order, Pix: s.Pix, HpxMin: s.HpxMin, HpxMax: s.HpxMax, Rows: s.Rows, Bytes: s.Bytes, TailOffset: s.TailOffset}
	copy(out.SHA256[:], s.SHA256)
	copy(out.TailDigest[:], s.TailDigest)
	return out
}

// all are the shards that move into place.
func (j *journal) all() []stagedShard {
	return append(j.Shards[:len(j.Shards):len(j.Shards)], j.Further...)
}

func (r root) journalPath(n int) string { return r.path(stagingDir, strconv.Itoa(n)+".json") }
func (r root) workPath(n int) string    { return r.path(stagingDir, strconv.Itoa(n)) }
func (r root) shardsPath(n int) string  { return r.path(stagingDir, strconv.Itoa(n)+".shards") }

func (r root) writeJournal(j *journal) error {
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return r.writeFile(r.journalPath(j.Release), b)
}

// journals reads every journal in the staging folder, by release.
func (r root) journals() ([]*journal, error) {
	entries, err := os.ReadDir(r.path(stagingDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []*journal
	for _, e := range entries {
		stem, ok := strings.CutSuffix(e.Name(), ".json")
		n, err := strconv.Atoi(stem)
		if !ok || err != nil {
			continue
		}
		b, err := os.ReadFile(r.journalPath(n))
		if err != nil {
			return nil, err
		}
		j := &journal{}
		if err := json.Unmarshal(b, j); err != nil || j.Release != n {
			return nil, fmt.Errorf("%w: %s is not a journal; if no import of this root matters, remove the folder %s", ErrDamaged, r.journalPath(n), r.path(stagingDir))
		}
		out = append(out, j)
	}
	sort.Slice(out, func(a, b int) bool { return out[a].Release < out[b].Release })
	return out, nil
}

// stagedJournal is that of the import that waits for its release.
func (r root) stagedJournal() (*journal, error) {
	js, err := r.journals()
	if err != nil {
		return nil, err
	}
	for _, j := range js {
		if j.State == staged {
			return j, nil
		}
		if j.State == importing {
			return nil, fmt.Errorf("%w: nothing is staged in %s: an import was interrupted when %d of %d inputs were read; run it again to go on", ErrNothing, r.dir, r.inputsRead(j.Release), j.Inputs)
		}
	}
	return nil, fmt.Errorf("%w: nothing is staged in %s: run `astropile import SRC --into %s` first", ErrNothing, r.dir, r.dir)
}

// inputsRead is how many inputs an import that was interrupted had read.
func (r root) inputsRead(n int) int {
	done, err := (&spool{dir: r.spoolPath(n)}).read("")
	if err != nil {
		return 0
	}
	return len(done)
}

// recover brings the root to a state between two commands: what was interrupted before its commit is undone, what was
// interrupted after it is finished.
func (r root) recover() error {
	_, err := r.goOn()
	return err
}

// goOn is recover, and gives the journal of the release that it finished.
func (r root) goOn() (finished *journal, err error) {
	js, err := r.journals()
	if err != nil {
		return nil, err
	}
	for _, j := range js {
		switch j.State {
		case staged:
		case importing:
			if _, err := os.Stat(r.spoolPath(j.Release)); err != nil {
				if err := r.discard(j.Release); err != nil {
					return nil, err
				}
				continue
			}
			if err := r.rollBack(j.Release); err != nil {
				return nil, err
			}
		case sealing:
			if _, err := os.Stat(r.path(j.Dataset.Name, "releases", strconv.Itoa(j.Release), "release.json")); err == nil {
				if err := r.finish(j); err != nil {
					return nil, err
				}
				finished = j
				continue
			}
			if err := r.unseal(j); err != nil {
				return nil, err
			}
		default:
			if err := r.discard(j.Release); err != nil {
				return nil, err
			}
		}
	}
	return finished, r.sweep()
}

// sweep removes what no journal speaks of: work of a process that died before it could write one.
func (r root) sweep() error {
	entries, err := os.ReadDir(r.path(stagingDir))
	if err != nil {
		return err
	}
	js, err := r.journals()
	if err != nil {
		return err
	}
	keep := map[string]bool{"lock": true}
	for _, j := range js {
		n := strconv.Itoa(j.Release)
		keep[n], keep[n+".json"], keep[n+".shards"] = true, true, true
		keep[n+spoolEnd] = j.State == importing
	}
	for _, e := range entries {
		if !keep[e.Name()] {
			if err := r.disk.Remove(r.path(stagingDir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// rollBack removes what an interrupted import wrote, but for what it read.
func (r root) rollBack(n int) error {
	for _, p := range []string{r.shardsPath(n), r.workPath(n)} {
		if err := r.disk.Remove(p); err != nil {
			return err
		}
	}
	return nil
}

// discard removes an import, whatever it has come to.
func (r root) discard(n int) error {
	// The journal says that the rest is rubbish, and goes last.
	if b, err := os.ReadFile(r.journalPath(n)); err == nil {
		var j journal
		if json.Unmarshal(b, &j) != nil || j.State != discarded {
			if err := r.writeJournal(&journal{State: discarded, Release: n}); err != nil {
				return err
			}
		}
	}
	for _, p := range []string{r.spoolPath(n), r.shardsPath(n), r.workPath(n), r.journalPath(n)} {
		if err := r.disk.Remove(p); err != nil {
			return err
		}
	}
	return r.disk.Sync(r.path(stagingDir))
}

// unseal moves shards that were renamed into place back to the staging folder.
func (r root) unseal(j *journal) error {
	var moves []move
	for _, s := range j.all() {
		from, to := r.path(s.Path), filepath.Join(r.shardsPath(j.Release), filepath.FromSlash(s.Path))
		if _, err := os.Stat(to); err != nil {
			moves = append(moves, move{from, to})
		}
	}
	if err := r.moveAll(moves, r.path(stagingDir)); err != nil {
		return fmt.Errorf("release: roll back release %d: %w", j.Release, err)
	}
	for _, s := range j.all() {
		removeEmpty(filepath.Dir(r.path(s.Path)), r.dir)
	}
	j.State, j.Further = staged, nil // the next attempt writes them anew, or none
	return r.writeJournal(j)
}

// removeEmpty removes a folder and those above it, below the root, as far as they are empty.
func removeEmpty(dir, below string) {
	for len(dir) > len(below) && os.Remove(dir) == nil {
		dir = filepath.Dir(dir)
	}
}

// finish writes what follows the commit: the files at the top, from the release's own copies; then forgets the staging.
func (r root) finish(j *journal) error {
	name := j.Dataset.Name
	dir := path.Join(name, "releases", strconv.Itoa(j.Release))
	p, err := r.load(name, j.Release)
	if err != nil {
		return err
	}
	if err := r.writeTop(p, dir); err != nil {
		return err
	}
	return r.discard(j.Release)
}

// topFiles maps files of meta/ to where they stand in the root, in the order in which they are written.
func topFiles(d *catalog.Dataset) [][2]string {
	name := d.Name
	out := [][2]string{{"_common_metadata", name + "/dataset/_common_metadata"}}
	out = append(out, furtherFiles(d)...)
	if d.HasSky() {
		out = append(out, [2]string{"skymap.fits", name + "/skymap.fits"}, [2]string{"partition_info.csv", name + "/partition_info.csv"},
			[2]string{"hats.properties", name + "/hats.properties"}, [2]string{"properties", name + "/properties"}, [2]string{"collection.properties", "collection.properties"})
	}
	return append(out, [2]string{"README.md", "README.md"})
}

// writeTop writes the files at the top anew from releases/<n>/meta, and latest.json last.
func (r root) writeTop(p *published, dir string) error {
	d := &p.release.Dataset
	for _, f := range topFiles(d) {
		b, err := r.document(dir, "meta/"+f[0], p.release)
		if err != nil {
			return err
		}
		if err := r.writeFile(r.path(f[1]), b); err != nil {
			return err
		}
	}
	b, err := catalog.Canonical(catalog.Latest{Format: catalog.FormatVersion, Release: p.release.Number, ID: p.id, Name: d.Name})
	if err != nil {
		return err
	}
	return r.writeFile(r.path("latest.json"), append(b, '\n'))
}
