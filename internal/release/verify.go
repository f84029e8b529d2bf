package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"astropile/internal/catalog"
	"astropile/internal/shard"
)

// Finding is one thing that is not as a release says.
type Finding struct {
	Path string `json:"path"` // relative to the root
	What string `json:"what"`
}

// VerifyReport says what was checked and what was found.
type VerifyReport struct {
	Name     string    `json:"name"`
	Release  int       `json:"release"`
	ID       string    `json:"id"`
	Deep     bool      `json:"deep"`
	Releases int       `json:"releases"`
	Shards   int       `json:"shards"` // margin and id index included
	Rows     int64     `json:"rows"`   // primary, as bytes are
	Bytes    int64     `json:"bytes"`
	Read     int64     `json:"read"` // bytes that were read
	Findings []Finding `json:"findings"`
}

// VerifyOptions say how much is checked.
type VerifyOptions struct {
	Deep     bool   // read every byte: digests of files, units and pieces, checksums of pages, rows against the rows files
	ID       string // the release id the caller trusts; empty trusts what is there
	Jobs     int
	Progress Progress
}

// Verify checks a root: the chain of releases, every document by its SHA-256, every shard's length and tail; deep, every
// byte of every shard. It reads only. The error wraps ErrDamaged where anything is wrong; the report then lists all of it.
func Verify(ctx context.Context, dir string, opt VerifyOptions) (*VerifyReport, error) {
	r, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	if opt.Jobs <= 0 {
		opt.Jobs = runtime.GOMAXPROCS(0)
	}
	p, err := r.latest()
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, fmt.Errorf("%w: no release in %s", ErrNothing, dir)
	}
	v := &verifier{root: r, opt: opt, pieceSums: map[string][]byte{}, rep: VerifyReport{Name: p.release.Dataset.Name, Release: p.release.Number, ID: p.id, Deep: opt.Deep, Findings: []Finding{}}}
	if opt.ID != "" && opt.ID != p.id {
		v.find(releaseDir(p.release)+"/release.json", "its id is %s, expected %s", p.id, opt.ID)
	}
	if err := v.chain(ctx, p); err != nil {
		return nil, err
	}
	if err := v.shards(ctx, p); err != nil {
		return nil, err
	}
	v.strays(p)
	sort.Slice(v.rep.Findings, func(a, b int) bool { return v.rep.Findings[a].Path < v.rep.Findings[b].Path })
	if n := len(v.rep.Findings); n > 0 {
		return &v.rep, fmt.Errorf("%w: %s: %d findings, the first: %s: %s", ErrDamaged, dir, n, v.rep.Findings[0].Path, v.rep.Findings[0].What)
	}
	return &v.rep, nil
}

type verifier struct {
	root root
	opt  VerifyOptions
	mu   sync.Mutex
	rep  VerifyReport

	pieceSums map[string][]byte // SHA-1s of the pieces of every shard that was read, by its path

	stats   []*catalog.Vector // of release statsOf
	statsOf int
}

func (v *verifier) find(path, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rep.Findings = append(v.rep.Findings, Finding{filepath.ToSlash(path), fmt.Sprintf(format, args...)})
}

// chain checks each release, its documents, and that it follows from the one before.
func (v *verifier) chain(ctx context.Context, last *published) error {
	var before *published
	for n := 1; n <= last.release.Number; n++ {
		p, err := v.root.load(v.rep.Name, n)
		if err != nil {
			v.find(fmt.Sprintf("%s/releases/%d", v.rep.Name, n), "%v", err)
			before = nil
			continue
		}
		v.rep.Releases++
		dir := releaseDir(p.release)
		v.sums(p)
		v.checksums(p)
		if before != nil {
			if p.release.Parent != before.id {
				v.find(dir+"/release.json", "its parent is %s, release %d is %s", p.release.Parent, n-1, before.id)
			}
			v.appended(before, p)
		}
		for name := range p.release.Files {
			if err := ctx.Err(); err != nil {
				return err
			}
			if strings.HasPrefix(name, "../") {
				continue // checked with the release that wrote it, and compared below
			}
			b, err := v.root.document(dir, name, p.release)
			if err != nil {
				v.find(dir+"/"+name, "%v", err)
			}
			v.rep.Read += int64(len(b))
		}
		if before != nil {
			for name, ref := range before.release.Files {
				key := name
				if strings.HasPrefix(name, "rows-") {
					key = "../" + strconv.Itoa(n-1) + "/" + name
				}
				if strings.HasPrefix(key, "../") && p.release.Files[key] != ref {
					v.find(dir+"/release.json", "it does not name %s of release %d as it is", name, n-1)
				}
			}
		}
		before = p
	}
	return v.top(last)
}

// sums checks that a release's totals are those of its shards, and that its pixels do not overlap.
func (v *verifier) sums(p *published) {
	var rows, size int64
	for i := range p.manifest {
		if s := &p.manifest[i]; s.Role == catalog.Primary {
			rows, size = rows+s.Rows, size+s.Bytes
		}
	}
	if rows != p.release.Rows || size != p.release.Bytes {
		v.find(releaseDir(p.release)+"/release.json", "it says %d rows in %d bytes, the manifest %d in %d", p.release.Rows, p.release.Bytes, rows, size)
	}
	d := &p.release.Dataset
	v.roles(p)
	if _, err := partition(nil, heldPixels(p.manifest), d.ShardSize, d.Expect); err != nil {
		v.find(releaseDir(p.release)+"/manifest.parquet", "%v", err)
	}
}

// appended checks that a release only adds shards, and describes the same dataset.
func (v *verifier) appended(before, p *published) {
	a, b := before.release.Dataset, p.release.Dataset
	a.Licence, a.Citation, a.DOI = b.Licence, b.Citation, b.DOI
	if a.Margin == 0 { // a later release may add them
		a.Margin = b.Margin
	}
	if a.Index == "" {
		a.Index = b.Index
	}
	x, errX := catalog.Canonical(a)
	y, errY := catalog.Canonical(b)
	if errX != nil || errY != nil || !bytes.Equal(x, y) {
		v.find(releaseDir(p.release)+"/release.json", "it does not describe the dataset as release %d does", before.release.Number)
	}
	now := map[string]catalog.Shard{}
	for _, s := range p.manifest {
		now[s.Path] = s
		if int(s.Release) > p.release.Number {
			v.find(s.Path, "the manifest of release %d says release %d", p.release.Number, s.Release)
		}
	}
	for _, s := range before.manifest {
		if now[s.Path] != s {
			v.find(s.Path, "release %d does not list it as release %d does", p.release.Number, before.release.Number)
		}
	}
}

// top checks the files that a release writes anew against its own copies.
func (v *verifier) top(p *published) error {
	d := &p.release.Dataset
	dir := releaseDir(p.release)
	for _, f := range topFiles(d) {
		want, err := v.root.document(dir, "meta/"+f[0], p.release)
		if err != nil {
			continue // found above
		}
		got, err := os.ReadFile(v.root.path(f[1]))
		if err != nil {
			v.find(f[1], "%v; `astropile verify --repair` writes it anew from the release", err)
		} else if !bytes.Equal(got, want) {
			v.find(f[1], "it is not the file of release %d; `astropile verify --repair` writes it anew from the release", p.release.Number)
		}
	}
	raw, err := os.ReadFile(v.root.path("latest.json"))
	if err == nil {
		var l *catalog.Latest
		if l, err = catalog.DecodeLatest(raw); err == nil && (l.Release != p.release.Number || l.ID != p.id || l.Name != d.Name) {
			err = fmt.Errorf("it names release %d %s", l.Release, l.ID)
		}
	}
	if err != nil {
		v.find("latest.json", "%v; `astropile verify --repair` writes it anew from the release", err)
	}
	return nil
}

// shards checks every shard of the manifest.
func (v *verifier) shards(ctx context.Context, p *published) error {
	var total int64
	for i := range p.manifest {
		total += p.manifest[i].Bytes
	}
	rows := map[string]int64{}
	var done counter
	err := parallel(ctx, v.opt.Jobs, len(p.manifest), func(ctx context.Context, i int) error {
		s := &p.manifest[i]
		err := v.shard(ctx, s, p)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			v.find(s.Path, "%v", err)
		}
		v.mu.Lock()
		v.rep.Shards++
		if s.Role == catalog.Primary {
			v.rep.Rows += s.Rows
			v.rep.Bytes += s.Bytes
		}
		rows[s.Path] = s.Rows
		v.mu.Unlock()
		if v.opt.Progress != nil {
			v.opt.Progress("verify shards", done.add(s.Bytes), total)
		}
		return nil
	})
	if err != nil || !v.opt.Deep {
		return err
	}
	v.pieces(p)
	if err := v.rowsFiles(ctx, p); err != nil {
		return err
	}
	return v.further(ctx, p)
}

func (v *verifier) shard(ctx context.Context, s *catalog.Shard, p *published) error {
	name := v.root.path(s.Path)
	if !v.opt.Deep {
		v.mu.Lock()
		v.rep.Read += s.Bytes - s.TailOffset
		v.mu.Unlock()
		return checkTail(name, s, p.release.Dataset.Digest)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() != s.Bytes {
		return fmt.Errorf("it has %d bytes, the manifest says %d", st.Size(), s.Bytes)
	}
	if s.Bytes%p.release.Dataset.Piece != 0 {
		return fmt.Errorf("its %d bytes are not a multiple of the piece, %d", s.Bytes, p.release.Dataset.Piece)
	}
	whole, pieces := sha256.New(), newPieceSums(p.release.Dataset.Piece)
	check, err := shard.Verify(ctx, f, st.Size(), shard.VerifyOptions{Deep: true, Sink: io.MultiWriter(whole, pieces)})
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.rep.Read += s.Bytes
	v.pieceSums[s.Path] = pieces.sums
	v.mu.Unlock()
	if [32]byte(whole.Sum(nil)) != s.SHA256 {
		return fmt.Errorf("its sha256 is %x, the manifest says %x", whole.Sum(nil), s.SHA256)
	}
	if check.Rows != s.Rows || check.TailOffset != s.TailOffset || check.TailDigest != s.TailDigest {
		return fmt.Errorf("it holds %d rows and a tail at %d, the manifest says %d and %d", check.Rows, check.TailOffset, s.Rows, s.TailOffset)
	}
	return nil
}

// strays finds what no release speaks of: files that stock readers would take for shards, and files among a release's own.
func (v *verifier) strays(p *published) {
	d := p.release.Dataset.Name
	known := map[string]bool{}
	for i := range p.manifest {
		known[p.manifest[i].Path] = true
	}
	for _, catalogue := range []string{d, marginName(d), idsName(d)} {
		v.walk(catalogue+"/dataset", func(name string) {
			if strings.HasSuffix(name, ".parquet") && !known[name] {
				v.find(name, "no release names this file, and other readers take it for a shard; remove it")
			}
		})
	}
	for n := 1; n <= p.release.Number; n++ {
		q, err := v.root.load(d, n)
		if err != nil {
			continue // found above
		}
		dir := releaseDir(q.release)
		v.walk(dir, func(name string) {
			file := strings.TrimPrefix(name, dir+"/")
			if _, ok := q.release.Files[file]; !ok && file != "release.json" && file != "SHA256SUMS" {
				v.find(name, "release %d does not name this file; remove it", n)
			}
		})
	}
}

// walk visits the files below a folder by their paths in the root.
func (v *verifier) walk(dir string, each func(name string)) {
	err := filepath.WalkDir(v.root.path(dir), func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(v.root.dir, p)
		if err == nil {
			each(filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.find(dir, "%v", err)
	}
}

// pieces checks the torrent pieces of each release against the shards it added, whose own were taken when they were read.
func (v *verifier) pieces(p *published) {
	for n := 1; n <= p.release.Number; n++ {
		q, err := v.root.load(v.rep.Name, n)
		if err != nil {
			continue // found above
		}
		want, err := v.root.document(releaseDir(q.release), "pieces.sha1", q.release)
		if err != nil {
			continue
		}
		var got []byte
		whole := true
		for i := range q.manifest {
			if s := &q.manifest[i]; int(s.Release) == n {
				sums, ok := v.pieceSums[s.Path]
				got, whole = append(got, sums...), whole && ok // what is missing was found above
			}
		}
		if whole && !bytes.Equal(got, want) {
			v.find(releaseDir(q.release)+"/pieces.sha1", "it is not the SHA-1s of the pieces of the shards that release %d added", n)
		}
	}
}

// rowsFiles checks that the rows files list each row of each primary shard once, in order, and its scalars as the shard
// holds them.
func (v *verifier) rowsFiles(ctx context.Context, p *published) error {
	perRelease := map[int][]catalog.Shard{}
	for _, s := range p.manifest {
		if s.Role == catalog.Primary {
			perRelease[int(s.Release)] = append(perRelease[int(s.Release)], s)
		}
	}
	d := &p.release.Dataset
	cols := catalog.RowColumns(d.Columns)
	names := make([]string, len(cols))
	for i := range cols {
		names[i] = cols[i].Name
	}
	places := slices.Index(names, healpixColumn)
	if d.HasSky() && places < 0 {
		v.find(releaseDir(p.release)+"/release.json", "the dataset has positions and no column %s", healpixColumn)
		return nil
	}
	at, expect := map[int]int{}, map[int]int32{}
	var open *shardScalars
	defer func() { open.close() }()
	err := v.root.rows(ctx, p, names, func(release int, vs []*catalog.Vector, rows int) error {
		shards := perRelease[release]
		for i := 0; i < rows; {
			if at[release] >= len(shards) {
				return fmt.Errorf("%w: release %d lists more rows than its shards hold", ErrDamaged, release)
			}
			s := &shards[at[release]]
			if open == nil || open.path != s.Path {
				open.close()
				var err error
				if open, err = openScalars(ctx, v.root.path(s.Path), s.Path); err != nil {
					return fmt.Errorf("%w: %s: %w", ErrDamaged, s.Path, err)
				}
			}
			n := min(rows-i, int(s.Rows)-int(expect[release]))
			for k := 0; k < n; k++ {
				if got, row := int32At(vs[0], i+k), int32At(vs[1], i+k); got != int32(at[release]) || row != expect[release]+int32(k) {
					return fmt.Errorf("%w: the rows files of release %d list row %d of shard %d where row %d of shard %d has to stand", ErrDamaged, release, row, got, expect[release]+int32(k), at[release])
				}
			}
			if err := open.compare(ctx, cols[2:], vs[2:], i, n, int64(expect[release])); err != nil {
				return err
			}
			if d.HasSky() {
				if err := inPlace(s, vs[places], i, n, int64(expect[release])); err != nil {
					return err
				}
			}
			if int64(n) == s.Rows {
				if err := v.statistics(p.release.Dataset.Name, release, at[release], cols[2:], vs[2:], i, n); err != nil {
					return err
				}
			}
			i += n
			if expect[release] += int32(n); int64(expect[release]) == s.Rows {
				at[release], expect[release] = at[release]+1, 0
			}
		}
		return nil
	})
	if err == nil {
		for n, shards := range perRelease {
			if at[n] != len(shards) {
				err = fmt.Errorf("%w: release %d lists fewer rows than its shards hold", ErrDamaged, n)
			}
		}
	}
	if errors.Is(err, ErrDamaged) {
		v.find(releaseDir(p.release)+"/rows", "%v", err)
		return nil
	}
	return err
}
