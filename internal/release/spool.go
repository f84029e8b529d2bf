package release

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"
)

// spool keeps what was read until it is known where each row goes, and over an interruption: the folder .staging/<n>.spool with
//
//	rows    records, one after the other
//	index   an entry for each record, in the order in which an input has them
//	inputs  a line for each input that was read whole: what it was, and the blocks of rows and index that are its
//
// Nothing of it is synced. A line counts if it is whole and the blocks it names have the digests it gives, so that whatever a crash
// or a loss of power left of the files, what is taken up again is what was written.
type spool struct {
	dir  string
	disk disk

	rows, index, log spoolFile

	mu                      sync.Mutex
	rowsEnd, indexEnd, ends int64 // where the next bytes of the three go
}

// spoolVersion changes with the form of the spool.
const spoolVersion = 1

// entry is what the index has of a row.
type entry struct {
	hpx, off        int64
	hash            uint64 // of the id
	payload, length uint32
}

const indexEntry = int64(unsafe.Sizeof(entry{}))

// block is a run of an input's rows in the spool.
type block struct {
	Rows     int64  `json:"n"`
	At       int64  `json:"at"` // in rows
	Bytes    int64  `json:"b"`
	Index    int64  `json:"i"` // in index
	Sum      uint64 `json:"s"` // XXH3 of both
	IndexSum uint64 `json:"x"`
}

// fileMark tells whether a file is the one that was read.
type fileMark struct {
	Size  int64  `json:"size"`
	Inode uint64 `json:"ino"`
	Mtime int64  `json:"mtime"` // nanoseconds
	Ctime int64  `json:"ctime"`
}

func markOf(st fs.FileInfo) fileMark {
	m := fileMark{Size: st.Size(), Mtime: st.ModTime().UnixNano()}
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		m.Inode, m.Ctime = s.Ino, s.Ctim.Nano()
	}
	return m
}

// doneInput is a line of the spool's list: an input that was read whole.
type doneInput struct {
	Rel    string   `json:"rel"`
	Mark   fileMark `json:"file"`
	SHA256 string   `json:"sha256"`
	Rows   int64    `json:"rows"`
	Blocks []block  `json:"blocks"`
}

func (r root) spoolPath(n int) string { return r.path(stagingDir, strconv.Itoa(n)+spoolEnd) }

const spoolEnd = ".spool"

// openSpool takes up the spool of release n if it was begun with the same key, and gives the inputs in it; else it begins one.
func openSpool(r root, n int, key string) (*spool, []doneInput, error) {
	s := &spool{dir: r.spoolPath(n), disk: r.disk}
	done, err := s.read(key)
	if err != nil {
		return nil, nil, err
	}
	if done == nil {
		if err := s.disk.Remove(s.dir); err != nil {
			return nil, nil, err
		}
	}
	for _, f := range []struct {
		to   *spoolFile
		name string
	}{{&s.rows, "rows"}, {&s.index, "index"}, {&s.log, "inputs"}} {
		if *f.to, err = s.disk.Open(filepath.Join(s.dir, f.name)); err != nil {
			s.close()
			return nil, nil, fmt.Errorf("release: spool: %w", err)
		}
	}
	return s, done, nil
}

// begin writes the list anew with what is kept of it, before anything else is written.
func (s *spool) begin(key string, kept []doneInput) error {
	if err := s.log.Truncate(0); err != nil {
		return err
	}
	s.ends, s.rowsEnd, s.indexEnd = 0, 0, 0
	for i := range kept {
		for _, b := range kept[i].Blocks {
			s.rowsEnd, s.indexEnd = max(s.rowsEnd, b.At+b.Bytes), max(s.indexEnd, b.Index+b.Rows*indexEntry)
		}
	}
	if err := s.line(spoolHead{spoolVersion, key}); err != nil {
		return err
	}
	for i := range kept {
		if err := s.line(&kept[i]); err != nil {
			return err
		}
	}
	return nil
}

type spoolHead struct {
	Version int    `json:"version"`
	Key     string `json:"key"`
}

// line appends a line to the list of inputs.
func (s *spool) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b = append(fmt.Appendf(nil, "%08x ", crc32.Checksum(b, castagnoli)), b...)
	b = append(b, '\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.log.WriteAt(b, s.ends); err != nil {
		return spoolError(err)
	}
	s.ends += int64(len(b))
	return nil
}

// read gives the inputs of a list that has the key, or nil where there is none. What stands behind a line that is not whole does
// not count.
func (s *spool) read(key string) ([]doneInput, error) {
	b, err := os.ReadFile(filepath.Join(s.dir, "inputs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []doneInput
	for n := 0; ; n++ {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		sum, text, ok := bytes.Cut(line, []byte{' '})
		if !whole || !ok || string(sum) != fmt.Sprintf("%08x", crc32.Checksum(text, castagnoli)) {
			break
		}
		b = rest
		if n == 0 {
			var head spoolHead
			if json.Unmarshal(text, &head) != nil || head.Version != spoolVersion || key != "" && head.Key != key {
				return nil, nil
			}
			out = []doneInput{}
			continue
		}
		var in doneInput
		if json.Unmarshal(text, &in) != nil {
			break
		}
		out = append(out, in)
	}
	return out, nil
}

// whole says whether the blocks of an input are what was written.
func (s *spool) whole(ctx context.Context, in *doneInput) (bool, error) {
	var rows int64
	if sum, err := hex.DecodeString(in.SHA256); err != nil || len(sum) != 32 {
		return false, nil
	}
	buf := make([]byte, putAtOnce)
	for _, b := range in.Blocks {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		for _, part := range []struct {
			f     spoolFile
			at, n int64
			sum   uint64
		}{{s.rows, b.At, b.Bytes, b.Sum}, {s.index, b.Index, b.Rows * indexEntry, b.IndexSum}} {
			if part.at < 0 || part.n < 0 {
				return false, nil
			}
			sum := xxh3.New()
			for at := int64(0); at < part.n; at += putAtOnce {
				some := buf[:min(putAtOnce, part.n-at)]
				if n, err := part.f.ReadAt(some, part.at+at); n != len(some) {
					return false, ignoreEOF(err)
				}
				_, _ = sum.Write(some)
			}
			if sum.Sum64() != part.sum {
				return false, nil
			}
		}
		rows += b.Rows
	}
	return rows == in.Rows, nil
}

// put writes a block of records and their entries, and says where it is. The records stand in the order of their places, so that those
// of a shard are neighbours; the entries in their own.
func (s *spool) put(from *openBlock, entries []entry) (block, error) {
	b := block{Rows: int64(len(entries)), Bytes: from.bytes}
	s.mu.Lock()
	b.At, b.Index = s.rowsEnd, s.indexEnd
	s.rowsEnd += b.Bytes
	s.indexEnd += b.Rows * indexEntry
	s.mu.Unlock()
	order := make([]int32, len(entries))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(entries[a].hpx, entries[b].hpx), cmp.Compare(a, b)) })
	sum := xxh3.New()
	at := b.At
	write := func(p []byte) error {
		_, _ = sum.Write(p)
		if _, err := s.rows.WriteAt(p, at); err != nil {
			return spoolError(err)
		}
		at += int64(len(p))
		return nil
	}
	part := from.buf[:0]
	for _, i := range order {
		e := &entries[i]
		rec := from.record(e)
		if len(part)+len(rec) > putAtOnce && len(part) > 0 {
			if err := write(part); err != nil {
				return b, err
			}
			part = part[:0]
		}
		e.off = at + int64(len(part))
		if len(rec) >= putAtOnce {
			if err := write(rec); err != nil {
				return b, err
			}
			continue
		}
		part = append(part, rec...)
	}
	if len(part) > 0 {
		if err := write(part); err != nil {
			return b, err
		}
	}
	from.buf = part
	raw := bytesOf(entries)
	b.Sum, b.IndexSum = sum.Sum64(), xxh3.Hash(raw)
	if _, err := s.index.WriteAt(raw, b.Index); err != nil {
		return b, spoolError(err)
	}
	return b, nil
}

const putAtOnce = 1 << 20 // bytes

// entries reads the index entries of a block, from the k-th on.
func (s *spool) entries(b *block, k int64, to []entry) error {
	return readWhole(s.index, bytesOf(to), b.Index+k*indexEntry)
}

func readWhole(f spoolFile, b []byte, at int64) error {
	if n, err := f.ReadAt(b, at); n != len(b) {
		return fmt.Errorf("%w: read what the import kept in %s: %w", ErrDamaged, stagingDir, err)
	}
	return nil
}

// close closes the files and leaves them.
func (s *spool) close() {
	for _, f := range []spoolFile{s.rows, s.index, s.log} {
		if f != nil {
			_ = f.Close()
		}
	}
}

func spoolError(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("release: keep what was read in %s: %w: an import needs the size of its rows twice, in %s and as shards; free some and run again to go on, or give up what is there with --discard", stagingDir, err, stagingDir)
	}
	return fmt.Errorf("release: keep what was read in %s: %w", stagingDir, err)
}

func ignoreEOF(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return err
	}
	return nil
}

// bytesOf shows values without pointers as the bytes that they are in memory; nothing outside of this machine reads them.
func bytesOf[T any](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0])))
}
