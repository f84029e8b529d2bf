package release

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"astropile/internal/catalog"
)

// idBudget is the memory that ids take while they are sorted; more go through a file.
const idBudget = 64 << 20

// idEntry says that an object is in a pixel. key compares as the id does: text by its bytes, numbers by value.
type idEntry struct {
	key   []byte
	order uint8
	pix   uint64
}

func compareIDs(a, b *idEntry) int {
	return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(a.order, b.order), cmp.Compare(a.pix, b.pix))
}

// idSorter sorts the ids of any number of rows: runs that fit the budget in memory, the rest through a file without a name.
type idSorter struct {
	budget int
	folder string // of the file; empty: the system's for such
	file   *os.File
	runs   [][2]int64 // in the file
	end    int64

	arena   []byte
	entries []idEntry // keys are in the arena
	starts  []int     // of the keys: the arena moves as it grows

	rows, bytes int64 // in all; bytes of the keys
}

const entryBytes = 48 // about what an entry takes beside its key

func (s *idSorter) add(key []byte, order int8, pix int64) error {
	if len(s.arena)+len(key)+(len(s.entries)+1)*entryBytes > s.budget && len(s.entries) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.starts = append(s.starts, len(s.arena))
	s.arena = append(s.arena, key...)
	s.entries = append(s.entries, idEntry{order: uint8(order), pix: uint64(pix)})
	s.rows++
	s.bytes += int64(len(key))
	return nil
}

// sort brings the entries in memory into order.
func (s *idSorter) sort() {
	for i := range s.entries {
		end := len(s.arena)
		if i+1 < len(s.starts) {
			end = s.starts[i+1]
		}
		s.entries[i].key = s.arena[s.starts[i]:end:end]
	}
	slices.SortFunc(s.entries, func(a, b idEntry) int { return compareIDs(&a, &b) })
	s.starts = s.starts[:0]
}

// spill writes the entries in memory as a sorted run.
func (s *idSorter) spill() error {
	if s.file == nil {
		f, err := os.CreateTemp(s.folder, "ids-")
		if err != nil {
			return err
		}
		s.file = f
		// No name: whatever happens to this process, the disk gets its space back.
		if err := os.Remove(f.Name()); err != nil {
			return err
		}
	}
	s.sort()
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, s.end), 1<<18)
	var head []byte
	start := s.end
	for i := range s.entries {
		e := &s.entries[i]
		head = append(binary.AppendUvarint(head[:0], uint64(len(e.key))), e.order)
		head = binary.AppendUvarint(head, e.pix)
		_, _ = w.Write(head)
		_, _ = w.Write(e.key)
		s.end += int64(len(head) + len(e.key))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("release: sort ids: %w", err)
	}
	s.runs = append(s.runs, [2]int64{start, s.end})
	s.arena, s.entries = s.arena[:0], s.entries[:0]
	return nil
}

func (s *idSorter) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
}

// idRun is a sorted run and the first entry of it that is left.
type idRun struct {
	idEntry
	r *bufio.Reader
}

// next reads the next entry; io.EOF ends the run.
func (r *idRun) next() error {
	n, err := binary.ReadUvarint(r.r)
	if err != nil {
		return err
	}
	if r.order, err = r.r.ReadByte(); err != nil {
		return err
	}
	if r.pix, err = binary.ReadUvarint(r.r); err != nil {
		return err
	}
	r.key = slices.Grow(r.key[:0], int(n))[:n]
	_, err = io.ReadFull(r.r, r.key)
	return err
}

type idHeap []*idRun

func (h idHeap) Len() int           { return len(h) }
func (h idHeap) Less(i, j int) bool { return compareIDs(&h[i].idEntry, &h[j].idEntry) < 0 }
func (h idHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *idHeap) Push(x any)        { *h = append(*h, x.(*idRun)) }
func (h *idHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// each gives all entries in order; an entry is valid until the next. Nothing may be added afterwards.
func (s *idSorter) each(ctx context.Context, each func(*idEntry) error) error {
	if len(s.runs) == 0 {
		s.sort()
		for i := range s.entries {
			if err := each(&s.entries[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.spill(); err != nil {
		return err
	}
	s.arena, s.entries = nil, nil
	var h idHeap
	for _, run := range s.runs {
		r := &idRun{r: bufio.NewReaderSize(io.NewSectionReader(s.file, run[0], run[1]-run[0]), 1<<16)}
		if err := r.next(); err != nil {
			return err
		}
		h = append(h, r)
	}
	heap.Init(&h)
	for n := 0; len(h) > 0; n++ {
		if n%scanRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := each(&h[0].idEntry); err != nil {
			return err
		}
		switch err := h[0].next(); {
		case errors.Is(err, io.EOF):
			heap.Pop(&h)
		case err != nil:
			return err
		default:
			heap.Fix(&h, 0)
		}
	}
	return nil
}

// idKey appends what a value of an indexed column is sorted by.
func idKey(dst []byte, d catalog.DType, v *catalog.Vector, i int) []byte {
	b := v.Data
	n := d.Size()
	if d == catalog.String {
		return append(dst, v.Str(i)...)
	}
	flip := byte(0)
	if d[0] == 'i' {
		flip = 0x80 // signed: negative numbers first
	}
	dst = append(dst, b[i*n+n-1]^flip)
	for k := n - 2; k >= 0; k-- {
		dst = append(dst, b[i*n+k])
	}
	return dst
}

// appendKey appends the value of a key to a vector.
func appendKey(v *catalog.Vector, d catalog.DType, key []byte) {
	v.Rows++
	if d == catalog.String {
		v.Data = append(v.Data, key...)
		v.Offsets = append(v.Offsets, int64(len(v.Data)))
		return
	}
	for k := len(key) - 1; k > 0; k-- {
		v.Data = append(v.Data, key[k])
	}
	if d[0] == 'i' {
		v.Data = append(v.Data, key[0]^0x80)
	} else {
		v.Data = append(v.Data, key[0])
	}
}

// sortIDs sorts the ids of all rows of the sources; rows without one are left out. close it.
func sortIDs(ctx context.Context, d *catalog.Dataset, sources []source, folder string, progress Progress) (*idSorter, error) {
	s := &idSorter{budget: idBudget, folder: folder}
	var total, done int64
	for i := range sources {
		total += sources[i].Rows
	}
	t := d.Column(d.Index).DType
	var key []byte
	for k := range sources {
		at := &sources[k]
		err := scan(ctx, at, d.Columns, []string{d.Index}, func(_ int64, vs []*catalog.Vector, n int) error {
			for i := range n {
				if vs[0].Null(i) {
					continue
				}
				key = idKey(key[:0], t, vs[0], i)
				if err := s.add(key, at.Order, at.Pix); err != nil {
					return err
				}
			}
			done += int64(n)
			if progress != nil {
				progress("sort ids", done, total)
			}
			return nil
		})
		if err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}
