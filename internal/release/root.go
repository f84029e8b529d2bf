package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"astropile/internal/catalog"
)

const (
	stagingDir  = ".staging"
	maxDocument = 4 << 30
)

// root is a dataset's folder as a publisher holds it.
type root struct {
	dir  string
	disk disk
}

// openRoot names a root; whether anything is there shows later.
func openRoot(dir string) (root, error) {
	abs, err := filepath.Abs(dir)
	return root{abs, osDisk{}}, err
}

func (r root) path(p ...string) string {
	return filepath.Join(append([]string{r.dir}, filepath.FromSlash(path.Join(p...)))...)
}

// lock keeps other processes from working on the root; release with unlock.
func (r root) lock() (unlock func(), err error) {
	if err := os.MkdirAll(r.path(stagingDir), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(r.path(stagingDir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s: wait for it to end, then run again", ErrBusy, r.dir)
		}
		return nil, fmt.Errorf("release: lock %s: %w", f.Name(), err)
	}
	return func() { _ = f.Close() }, nil
}

// published is one release as it stands on disk.
type published struct {
	id       string
	release  *catalog.Release
	manifest []catalog.Shard
}

// name finds the catalogue's folder: the one that holds releases. It is empty where nothing is published.
func (r root) name() (string, error) {
	entries, err := os.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	found := ""
	for _, e := range entries {
		if !e.IsDir() || catalog.CheckName(e.Name()) != nil {
			continue
		}
		// The folder may be there, and empty, before the first commit.
		if inside, err := os.ReadDir(r.path(e.Name(), "releases")); err != nil || len(inside) == 0 {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("%w: %s holds two datasets, %s and %s; a root is one", ErrDamaged, r.dir, found, e.Name())
		}
		found = e.Name()
	}
	return found, nil
}

// latest is the newest release, or nil where nothing is published.
func (r root) latest() (*published, error) {
	name, err := r.name()
	if err != nil || name == "" {
		return nil, err
	}
	entries, err := os.ReadDir(r.path(name, "releases"))
	if err != nil {
		return nil, err
	}
	last := 0
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n < 1 || strconv.Itoa(n) != e.Name() {
			return nil, fmt.Errorf("%w: %s is no release", ErrDamaged, r.path(name, "releases", e.Name()))
		}
		last = max(last, n)
	}
	if last != len(entries) {
		return nil, fmt.Errorf("%w: %s holds %d releases, the last of them %d", ErrDamaged, r.path(name, "releases"), len(entries), last)
	}
	return r.load(name, last)
}

// load reads release n and checks that its manifest is the one it names.
func (r root) load(name string, n int) (*published, error) {
	dir := path.Join(name, "releases", strconv.Itoa(n))
	raw, err := os.ReadFile(r.path(dir, "release.json"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	rel, err := catalog.DecodeRelease(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, r.path(dir, "release.json"), err)
	}
	if rel.Number != n || rel.Dataset.Name != name {
		return nil, fmt.Errorf("%w: %s is release %d of %q, want %d of %q", ErrDamaged, r.path(dir, "release.json"), rel.Number, rel.Dataset.Name, n, name)
	}
	b, err := r.document(dir, "manifest.parquet", rel)
	if err != nil {
		return nil, err
	}
	m, err := catalog.DecodeManifest(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, r.path(dir), err)
	}
	return &published{id: catalog.ReleaseID(raw), release: rel, manifest: m}, nil
}

// document reads a file that a release names and checks it against the release.
func (r root) document(dir, file string, rel *catalog.Release) ([]byte, error) {
	want, ok := rel.Files[file]
	if !ok {
		return nil, fmt.Errorf("%w: release %d does not name %s", ErrDamaged, rel.Number, file)
	}
	p := r.path(dir, file)
	st, err := os.Stat(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if st.Size() != want.Bytes || st.Size() > maxDocument {
		return nil, fmt.Errorf("%w: %s has %d bytes, release %d says %d", ErrDamaged, p, st.Size(), rel.Number, want.Bytes)
	}
	b, err := os.ReadFile(p)
	if err != nil {
		return nil, err
	}
	if got := catalog.RefOf(b); got != want {
		return nil, fmt.Errorf("%w: %s has sha256 %s, release %d says %s", ErrDamaged, p, got.SHA256, rel.Number, want.SHA256)
	}
	return b, nil
}

// rows reads scalar columns of every row of a release and those before it, release by release.
func (r root) rows(ctx context.Context, p *published, names []string, each func(release int, vs []*catalog.Vector, rows int) error) error {
	cols := catalog.RowColumns(p.release.Dataset.Columns)
	dir := path.Join(p.release.Dataset.Name, "releases", strconv.Itoa(p.release.Number))
	for n := 1; n <= p.release.Number; n++ {
		for k := 0; ; k++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			file := rowsFile(k)
			if n < p.release.Number {
				file = "../" + strconv.Itoa(n) + "/" + file
			}
			if _, ok := p.release.Files[file]; !ok {
				break
			}
			b, err := r.document(dir, file, p.release)
			if err != nil {
				return err
			}
			vs, rows, err := catalog.DecodeColumns(r.path(dir, file), b, cols, names)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			if err := each(n, vs, rows); err != nil {
				return err
			}
		}
	}
	return nil
}

func rowsFile(k int) string { return fmt.Sprintf("rows-%05d.parquet", k) }
