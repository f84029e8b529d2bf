package query

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"astropile/internal/catalog"
	"astropile/internal/shard"
)

// cache keeps bitmaps of selections and decoded columns in a folder that all processes of a host share. What is in it is
// named by what it was made from, written under another name, synced and renamed, and mapped by those who read it.
type cache struct{ dir string }

// maxCacheBytes bounds the folder; the files that were used least recently go first.
const maxCacheBytes = 16 << 30

func openCache(dir string) (*cache, error) {
	if dir == "" {
		return &cache{}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("query: the cache folder: %w", err)
	}
	return &cache{dir}, nil
}

// bitmapMagic begins a file of a bitmap; its SHA-256 over the words, and the words, follow.
const bitmapMagic = "astropile rows 1"

const bitmapHead = len(bitmapMagic) + 8 + sha256.Size + 8 // padded to a multiple of 8

// rows gives the bitmap of a key, from the folder or by make.
func (c *cache) rows(_ context.Context, key string, shard []int64, make_ func() ([]uint64, error)) (*Rows, error) {
	if c.dir == "" {
		w, err := make_()
		if err != nil {
			return nil, err
		}
		return newRows(w, shard)
	}
	name := filepath.Join(c.dir, key+".rows")
	if r := c.mapRows(name, shard); r != nil {
		return r, nil
	}
	// One process of the host makes it, the others wait.
	if lock := c.lock(key); lock != nil {
		defer func() { _ = lock.Close() }()
		if r := c.mapRows(name, shard); r != nil {
			return r, nil
		}
	}
	w, err := make_()
	if err != nil {
		return nil, err
	}
	head := make([]byte, bitmapHead)
	n := copy(head, bitmapMagic)
	binary.LittleEndian.PutUint64(head[n:], uint64(len(w)))
	raw := wordBytes(w)
	sum := sha256.Sum256(raw)
	copy(head[n+8:], sum[:])
	// A cache that cannot be written to is one that does not help.
	if c.write(name, head, raw) == nil {
		c.trim()
		if r := c.mapRows(name, shard); r != nil {
			return r, nil
		}
	}
	return newRows(w, shard)
}

// lock waits until no other process holds the lock of a key, and takes it; closing the file, or the end of the process, gives
// it back. All keys share one file, of which each locks a byte, so that a process that is killed leaves nothing. It is nil where the folder has no locks.
func (c *cache) lock(key string) *os.File {
	f, err := os.OpenFile(filepath.Join(c.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil
	}
	sum := sha256.Sum256([]byte(key))
	at := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(binary.LittleEndian.Uint64(sum[:]) >> 2), Len: 1}
	for {
		if err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLKW, &at); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil
	}
	return f
}

// create makes a file in the folder that nobody sees until it is published. Where the file system allows, it has no name, so
// that a process that is killed leaves nothing.
func create(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), dir), nil
	}
	return os.CreateTemp(dir, newPrefix+"*")
}

// newPrefix begins the names of files that are being written where files have to have one.
const newPrefix = ".new-"

// publish gives a file that create made, and that is whole, its name.
func publish(f *os.File, name string) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if strings.HasPrefix(filepath.Base(f.Name()), newPrefix) {
		return os.Rename(f.Name(), name)
	}
	err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was faster; its bytes are the same
	}
	return err
}

// discard closes a file that create made, and removes it unless it was published.
func discard(f *os.File) {
	if strings.HasPrefix(filepath.Base(f.Name()), newPrefix) {
		_ = os.Remove(f.Name())
	}
	_ = f.Close()
}

func wordBytes(w []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 8*len(w))
}

// mapRows maps a bitmap, or gives nil where there is none that is whole.
func (c *cache) mapRows(name string, shard []int64) *Rows {
	b, err := mapFile(name)
	if err != nil {
		return nil
	}
	total := int64(0)
	for _, n := range shard {
		total += n
	}
	n := len(bitmapMagic)
	want := (total + 63) / 64
	if len(b) != bitmapHead+8*int(want) || string(b[:n]) != bitmapMagic || binary.LittleEndian.Uint64(b[n:]) != uint64(want) ||
		sha256.Sum256(b[bitmapHead:]) != [sha256.Size]byte(b[n+8:n+8+sha256.Size]) {
		_ = unix.Munmap(b)
		_ = os.Remove(name)
		return nil
	}
	r, err := newRows(view[uint64](b[bitmapHead:]), shard)
	if err != nil {
		_ = unix.Munmap(b)
		return nil
	}
	r.mapped = b
	return r
}

// mapFile maps a whole file, shared with every process that does.
func mapFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	return unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
}

func (c *cache) write(name string, parts ...[]byte) error {
	f, err := create(c.dir)
	if err != nil {
		return err
	}
	defer discard(f)
	for _, p := range parts {
		if _, err := f.Write(p); err != nil {
			return err
		}
	}
	return publish(f, name)
}

// trim removes the oldest files while the folder holds too much.
func (c *cache) trim() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	var infos []fs.FileInfo
	total := int64(0)
	for _, e := range entries {
		if st, err := e.Info(); err == nil && st.Mode().IsRegular() && e.Name() != "lock" {
			infos = append(infos, st)
			total += st.Size()
		}
	}
	sort.Slice(infos, func(a, b int) bool { return infos[a].ModTime().Before(infos[b].ModTime()) })
	for _, st := range infos {
		if total <= maxCacheBytes {
			return
		}
		if os.Remove(filepath.Join(c.dir, st.Name())) == nil {
			total -= st.Size()
		}
	}
}

// rowsFile is an open file of scalars.
type rowsFile struct {
	path    string
	file    File
	r       *shard.Reader
	columns []keptColumn
}

// keptColumn is a column of a rows file: mapped from the cache, or being written to it. The file holds the values of all
// rows, and where any is null a byte for each row that says which are not.
type keptColumn struct {
	c      catalog.Column
	read   *shard.ColumnReader
	rows   int64
	mapped []byte
	name   string // in the cache; empty where it is not kept

	mu     sync.Mutex
	new    *os.File
	err    error // of writing
	nulls  bool
	filled int64 // rows written
}

func openRows(ctx context.Context, sc *scan, name string, ref catalog.FileRef) (*rowsFile, error) {
	file, err := sc.table.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	f := &rowsFile{path: name, file: file}
	fail := func(err error) (*rowsFile, error) {
		f.close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if file.Size() != ref.Bytes {
		return fail(fmt.Errorf("%w: %d bytes, the release says %d", ErrData, file.Size(), ref.Bytes))
	}
	dec, err := shard.NewDecoder(sc.opt.Threads)
	if err != nil {
		return fail(err)
	}
	if f.r, err = shard.Open(ctx, file, file.Size(), shard.OpenOptions{Columns: sc.plan.columns, Decoder: dec}); err != nil {
		return fail(err)
	}
	f.columns = make([]keptColumn, len(sc.plan.columns))
	for i := range f.columns {
		k := &f.columns[i]
		k.c, k.rows = sc.plan.columns[i], f.r.Rows()
		if k.read, err = f.r.Column(k.c.Name); err != nil {
			return fail(err)
		}
		if sc.cache.dir == "" || !k.c.Fixed() {
			continue
		}
		sum := sha256.Sum256([]byte("column 1\x00" + ref.SHA256 + "\x00" + k.c.Name + "\x00" + string(k.c.DType)))
		k.name = filepath.Join(sc.cache.dir, fmt.Sprintf("%x.column", sum[:20]))
		n := int64(k.c.RowBytes())
		if b, err := mapFile(k.name); err == nil {
			if int64(len(b)) == k.rows*n || int64(len(b)) == k.rows*(n+1) {
				k.mapped = b
			} else {
				_ = unix.Munmap(b)
			}
		}
	}
	return f, nil
}

// column gives the values of a row group.
func (f *rowsFile) column(ctx context.Context, i, group int) (*catalog.Vector, error) {
	k := &f.columns[i]
	g := f.r.Groups()[group]
	n := int64(k.c.RowBytes())
	if k.mapped != nil {
		v := &catalog.Vector{Rows: int(g.Rows), Data: k.mapped[g.First*n : (g.First+g.Rows)*n]}
		if valid := k.mapped[k.rows*n:]; len(valid) > 0 {
			v.Valid = bools(valid[g.First : g.First+g.Rows])
		}
		return v, nil
	}
	v, err := k.read.ReadVector(ctx, g.First, g.First+g.Rows)
	if err != nil {
		return nil, fmt.Errorf("%s: column %q: %w", f.path, k.c.Name, err)
	}
	if v.Valid != nil && !slices.Contains(v.Valid, false) {
		v.Valid = nil
	}
	if k.name != "" {
		k.put(v, g.First)
	}
	return v, nil
}

// bools sees bytes of 0 and 1 as what they are.
func bools(b []byte) []bool {
	return unsafe.Slice((*bool)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// put adds the values of rows from first on to the column's new file.
func (k *keptColumn) put(v *catalog.Vector, first int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return
	}
	if k.new == nil {
		if k.new, k.err = create(filepath.Dir(k.name)); k.err != nil {
			return
		}
	}
	valid := make([]byte, v.Rows)
	for i := range valid {
		valid[i] = 1 - b2i(v.Null(i))
	}
	n := int64(k.c.RowBytes())
	_, err := k.new.WriteAt(v.Data, first*n)
	_, verr := k.new.WriteAt(valid, k.rows*n+first)
	k.err = errors.Join(err, verr)
	k.filled += int64(v.Rows)
	k.nulls = k.nulls || v.Valid != nil
}

// keep gives whole columns their names in the cache.
func (f *rowsFile) keep() {
	for i := range f.columns {
		k := &f.columns[i]
		if k.new == nil || k.err != nil || k.filled != k.rows {
			continue
		}
		if !k.nulls && k.new.Truncate(k.rows*int64(k.c.RowBytes())) != nil {
			continue
		}
		_ = publish(k.new, k.name) // a cache that cannot be written to is one that does not help
	}
}

func (f *rowsFile) close() {
	for i := range f.columns {
		k := &f.columns[i]
		if k.new != nil {
			discard(k.new)
		}
		if k.mapped != nil {
			_ = unix.Munmap(k.mapped)
			k.mapped = nil
		}
	}
	_ = f.file.Close()
}
