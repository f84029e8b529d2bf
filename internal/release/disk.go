package release

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"golang.org/x/sys/unix"
)

// disk is all that changes files in a root. What it reports as done may still be lost until the file and the folder that
// names it are synced.
type disk interface {
	// Create makes a file anew, and the folders it needs.
	Create(name string) (diskFile, error)
	// Open opens a file to be read and written at any place, and makes it and its folders where they are not there.
	Open(name string) (spoolFile, error)
	// Rename moves a file or folder, and makes the folders it needs.
	Rename(from, to string) error
	// Remove removes a file, or a folder with all in it; what is not there is no error.
	Remove(name string) error
	// Sync makes the names in a folder durable.
	Sync(folder string) error
}

type diskFile interface {
	io.WriteCloser
	Sync() error
}

// spoolFile is a file that an import keeps for itself.
type spoolFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
}

// osDisk is the system's file tree.
type osDisk struct{}

func (osDisk) Create(name string) (diskFile, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
}

func (osDisk) Open(name string) (spoolFile, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

func (osDisk) Rename(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func (osDisk) Remove(name string) error { return os.RemoveAll(name) }

func (osDisk) Sync(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) { // some file systems have nothing to sync in a folder
		return fmt.Errorf("release: sync %s: %w", folder, err)
	}
	return nil
}

const unfinished = ".tmp" // end of the name of a file that is being written

// writeFile writes a file and makes it durable; the name appears when it is whole.
func (r root) writeFile(p string, b []byte) error {
	return r.createFile(p, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// createFile is writeFile for what is written piece by piece.
func (r root) createFile(p string, write func(io.Writer) error) error {
	tmp := p + unfinished
	err := r.fill(tmp, write)
	if err == nil {
		err = r.disk.Rename(tmp, p)
	}
	if err != nil {
		return errors.Join(err, r.disk.Remove(tmp))
	}
	return r.disk.Sync(filepath.Dir(p))
}

// fill writes a file and syncs what is in it, but not its name.
func (r root) fill(name string, write func(io.Writer) error) error {
	f, err := r.disk.Create(name)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// move is a file or folder on its way.
type move struct{ from, to string }

// moveAll renames, and then makes the names durable, in the folders they went to up to the folder below, and in those they
// came from.
func (r root) moveAll(moves []move, below string) error {
	folders := map[string]bool{}
	for _, m := range moves {
		if err := r.disk.Rename(m.from, m.to); err != nil {
			return err
		}
		folders[filepath.Dir(m.from)] = true
		for d := filepath.Dir(m.to); len(d) >= len(below) && !folders[d]; d = filepath.Dir(d) {
			folders[d] = true
		}
	}
	return r.syncAll(folders)
}

// syncAll makes the names in folders durable, the deepest first.
func (r root) syncAll(folders map[string]bool) error {
	list := make([]string, 0, len(folders))
	for d := range folders {
		list = append(list, d)
	}
	sort.Slice(list, func(a, b int) bool {
		if len(list[a]) != len(list[b]) {
			return len(list[a]) > len(list[b])
		}
		return list[a] < list[b]
	})
	for _, d := range list {
		if err := r.disk.Sync(d); err != nil {
			return err
		}
	}
	return nil
}
