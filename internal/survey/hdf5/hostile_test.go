package hdf5

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// counting counts what is read.
type counting struct {
	io.ReaderAt
	bytes int64
}

func (c *counting) ReadAt(b []byte, at int64) (int, error) {
	c.bytes += int64(len(b))
	return c.ReaderAt.ReadAt(b, at)
}

// handmade is a file without a superblock, of which tests read single structures.
func handmade(b []byte) (*File, *counting) {
	r := &counting{ReaderAt: bytes.NewReader(b)}
	return &File{r: r, name: "test", size: int64(len(b)), offsetSize: 8, lengthSize: 8, unverified: true}, r
}

// floatType is a type message; change alters bytes of float32's.
func floatType(change func(b []byte)) []byte {
	b := []byte{1<<4 | 1, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0}
	change(b)
	return b
}

func intType(size byte) []byte {
	return []byte{1 << 4, 8, 0, 0, size, 0, 0, 0, 0, 0, 8 * size, 0}
}

// compoundType has members of 4-byte integers at the offsets given.
func compoundType(size byte, offsets ...byte) []byte {
	b := []byte{3<<4 | 6, byte(len(offsets)), 0, 0, size, 0, 0, 0}
	for i, at := range offsets {
		b = append(b, 'a'+byte(i), 0, at)
		b = append(b, intType(4)...)
	}
	return b
}

func TestATypeThatIsNotReadAsItsBitsMeanIsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		b    []byte
		want error // of reading the message, or of Readable
	}{
		{"float32", floatType(func([]byte) {}), nil},
		{"sign elsewhere", floatType(func(b []byte) { b[2] = 30 }), ErrUnsupported},
		{"no implied bit", floatType(func(b []byte) { b[1] = 0x10 }), ErrUnsupported},
		{"shifted", floatType(func(b []byte) { b[8] = 1 }), ErrUnsupported},
		{"other bias", floatType(func(b []byte) { b[16] = 128 }), ErrUnsupported},
		{"VAX order", floatType(func(b []byte) { b[1] |= 0x41 }), ErrUnsupported},
		{"text padded with spaces", []byte{1<<4 | 3, 2, 0, 0, 4, 0, 0, 0}, nil},
		{"text of unknown padding", []byte{1<<4 | 3, 3, 0, 0, 4, 0, 0, 0}, ErrUnsupported},
		{"ragged", append([]byte{1<<4 | 9, 0, 0, 0, 16, 0, 0, 0}, intType(2)...), nil},
		{"ragged of unknown kind", append([]byte{1<<4 | 9, 2, 0, 0, 16, 0, 0, 0}, intType(2)...), ErrUnsupported},
		{"members in any order", compoundType(12, 8, 0, 4), nil},
		{"members that overlap", compoundType(12, 8, 0, 5), ErrCorrupt},
		{"a member twice", compoundType(8, 4, 4), ErrCorrupt},
	} {
		f, _ := handmade(nil)
		typ, err := (&cursor{f: f, b: c.b}).datatype(0)
		if err == nil {
			err = typ.Readable()
		}
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}

// Every node but the last level's leads many times to one and the same next: visits would multiply.
func TestABTreeThatMultipliesItselfIsStoppedInLinearTime(t *testing.T) {
	const depth, nodeSize, recordSize, fan = 12, 512, 8, 16
	b := []byte("BTHD\x00\x05")
	b = le.AppendUint32(b, nodeSize)
	b = le.AppendUint16(b, recordSize)
	b = le.AppendUint16(b, depth)
	b = append(b, 100, 40)
	b = le.AppendUint64(b, nodeSize)
	b = le.AppendUint16(b, fan)
	b = append(b, make([]byte, nodeSize-len(b))...)
	plan := tree2{f: &File{offsetSize: 8}, nodeSize: nodeSize, recordSize: recordSize}
	if err := plan.plan(0, depth); err != nil {
		t.Fatal(err)
	}
	for d := depth; d >= 0; d-- {
		node := []byte("BTIN\x00\x05")
		if d == 0 {
			node = []byte("BTLF\x00\x05")
		}
		node = append(node, make([]byte, fan*recordSize)...)
		if d > 0 {
			for range fan + 1 {
				node = le.AppendUint64(node, uint64(len(b)+nodeSize))
				node = append(node, byte(min(fan, plan.maxRecords[d-1])))
				node = append(node, make([]byte, plan.countSize-1+plan.totalSize[d-1])...)
			}
		}
		if len(node)+sumSize > nodeSize {
			t.Fatalf("node of %d bytes", len(node))
		}
		b = append(b, append(node, make([]byte, nodeSize-len(node))...)...)
	}
	f, r := handmade(b)
	err := f.tree2(0, func(int, *cursor) error { return nil })
	if !errors.Is(err, ErrCorrupt) || r.bytes > int64(4*len(b)) {
		t.Errorf("error %v after %d bytes read of %d", err, r.bytes, len(b))
	}
}

func TestAGroupTreeThatMultipliesItselfIsStoppedInLinearTime(t *testing.T) {
	const fan, levels = 10, 12
	size := 24 + fan*16
	var b []byte
	for level := range levels {
		node := append([]byte("TREE\x00\x01"), fan, 0)
		node = append(node, make([]byte, 16)...)
		for range fan {
			node = le.AppendUint64(node, 0)
			node = le.AppendUint64(node, uint64((level+1)*size))
		}
		b = append(b, node...)
	}
	b = append(b, "SNOD\x01\x00\x00\x00"...)
	b = append(b, make([]byte, 64)...)
	f, r := handmade(b)
	tree := symbolTree{f: f, names: &localHeap{f: f}, nodes: budget{f: f}}
	if err := tree.node(0, 0); !errors.Is(err, ErrCorrupt) || r.bytes > int64(4*len(b)) {
		t.Errorf("error %v after %d bytes read of %d", err, r.bytes, len(b))
	}
}

func TestTextsThatShareOneContentDoNotMultiply(t *testing.T) {
	f, err := Open("testdata/types_latest.h5")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	o, err := f.Object("/text")
	if err != nil {
		t.Fatal(err)
	}
	d, err := o.Dataset()
	if err != nil {
		t.Fatal(err)
	}
	b, err := readAll(d, d.Rows(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Strings(d.Type, b); err != nil || len(got) != 3 {
		t.Errorf("%q, %v", got, err)
	}
	long := b[2*d.Type.Size:]
	if _, err := f.Strings(d.Type, bytes.Repeat(long, int(f.size)/100)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v for one text many times", err)
	}
	heap := localHeap{f: f, b: []byte("abcdefgh\x00")}
	if _, err := heap.text(0); err != nil {
		t.Error(err)
	}
	if _, err := heap.text(1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v for a name inside another", err)
	}
}

func TestHeapCollectionsThatOverlapAreRefused(t *testing.T) {
	b := make([]byte, 500)
	for _, at := range []int{0, 64} {
		copy(b[at:], "GCOL\x01")
		le.PutUint64(b[at+8:], 300)
		copy(b[at+16:], "\x01\x00")
		le.PutUint64(b[at+24:], 4)
		copy(b[at+32:], "text")
	}
	f, _ := handmade(b)
	f.heaps, f.heapSeen, f.heapSpent = map[uint64]*collection{}, map[uint64]bool{}, budget{f: f}
	for range 3 {
		if got, err := f.heapObject(0, 1); err != nil || string(got) != "text" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if _, err := f.heapObject(64, 1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v for a collection inside another", err)
	}
}

func TestChunksThatShareTheirBytesAreRefused(t *testing.T) {
	f, _ := handmade(make([]byte, 1000))
	b := indexReader{d: &Dataset{grid: []uint64{10}}, f: f, spent: budget{f: f}, coords: []uint64{0}}
	var err error
	for i := range uint64(10) {
		b.coords[0] = i
		if err = b.put(chunkRef{addr: 100, size: 300}); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrCorrupt) || len(b.out) != 4 {
		t.Errorf("error %v after %d chunks", err, len(b.out))
	}
}

func TestStackedCompressorsDecodeButDoNotMultiply(t *testing.T) {
	want := bytes.Repeat([]byte("abcd"), 5000)
	stored := deflated(t, deflated(t, want, 6), 6)
	f, _ := handmade(stored)
	d := &Dataset{o: &Object{f: f}, Type: &Type{Size: 4}, chunkBytes: uint64(len(want)), Filters: []Filter{{ID: filterDeflate}, {ID: filterDeflate}}}
	var w window
	got, err := d.readChunk(chunkRef{size: uint64(len(stored))}, &w, &scratch{}, nil)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, error %v", len(got), err)
	}
	d.chunkBytes = freeChunk + 1
	if _, err = d.readChunk(chunkRef{size: uint64(len(stored))}, &w, &scratch{}, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v for a chunk of %d bytes stored in %d", err, d.chunkBytes, len(stored))
	}
}

// chunkTree is a leaf of a version 1 B-tree over chunks of 10 elements of one axis.
func chunkTree(starts ...uint64) []byte {
	b := append([]byte("TREE\x01\x00"), byte(len(starts)), 0)
	b = append(b, make([]byte, 16)...)
	for _, at := range starts {
		b = le.AppendUint64(b, 40)
		b = le.AppendUint64(b, at)
		b = le.AppendUint64(b, 0)
		b = le.AppendUint64(b, 200+4*at)
	}
	return append(b, make([]byte, 1000)...)
}

func TestAChunkInTheWrongPlaceOfATreeIsRefused(t *testing.T) {
	for _, c := range []struct {
		starts []uint64
		want   error
	}{
		{[]uint64{0, 10, 30}, nil},
		{[]uint64{0, 30, 10}, ErrCorrupt},
		{[]uint64{0, 1 << 33 * 10, 20}, ErrCorrupt},
		{[]uint64{0, 10, 10}, ErrCorrupt},
		{[]uint64{0, 15}, ErrCorrupt},
	} {
		f, _ := handmade(chunkTree(c.starts...))
		d := &Dataset{o: &Object{f: f}, Type: &Type{Size: 4}, Dims: []uint64{100}, Chunk: []uint64{10}, grid: []uint64{10}, maxGrid: []uint64{10}}
		table, err := d.table()
		if !errors.Is(err, c.want) || err == nil && len(table) != len(c.starts) {
			t.Errorf("chunks at %v: %d read, error %v, want %v", c.starts, len(table), err, c.want)
		}
	}
}

// A file that was cut, and whose superblock says so, still has most of its objects: what of them reads is what was there.
func TestWhatReadsOfAFileCutShortIsUnchanged(t *testing.T) {
	const endV0, endV2 = 40, 28 // where a superblock keeps the file's end
	read := 0
	for name, golden := range goldenFiles(t) {
		if strings.HasPrefix(name, "refused") || name == "userblock" {
			continue
		}
		whole := contents(t, golden)
		end := endV0
		if golden[len(signature)] >= superblockHashed {
			end = endV2
		} else if golden[len(signature)] == superblockIndexed {
			end += 4
		}
		for i := range 25 {
			cut := bytes.Clone(golden[:64+(len(golden)-64)*i/25])
			le.PutUint64(cut[end:], uint64(len(cut)))
			bounded(t, fmt.Sprintf("%s cut to %d", name, len(cut)), cut, true)
			for path, got := range contents(t, cut) {
				read++
				if !bytes.Equal(got, whole[path]) {
					t.Errorf("%s cut to %d of %d bytes: %s has other values", name, len(cut), len(golden), path)
				}
			}
		}
	}
	if read < 100 {
		t.Errorf("only %d datasets of all cut files were read", read)
	}
}

// contents gives the canonical values of every dataset that reads, checksums of metadata aside.
func contents(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	f, err := newFile(&File{r: bytes.NewReader(b), name: "test", size: int64(len(b)), unverified: true})
	if err != nil {
		return out
	}
	root, err := f.Root()
	if err != nil {
		return out
	}
	var visit func(o *Object, depth int)
	visit = func(o *Object, depth int) {
		if d, err := o.Dataset(); err == nil {
			if data, err := readAll(d, max(1, d.Rows()), 1); err == nil {
				if values, err := canonical(f, nil, d.Type, data); err == nil {
					out[o.Path()] = values
				}
			}
		}
		links, err := o.Links()
		if err != nil || depth > 7 {
			return
		}
		for _, l := range links {
			if l.Kind != HardLink {
				continue
			}
			if child, err := o.Child(l.Name); err == nil {
				visit(child, depth+1)
			}
		}
	}
	visit(root, 0)
	return out
}

// In the newest format all metadata has checksums, and so have the chunks that deflate or fletcher32 went over.
func TestDamageAnywhereInACheckedFileIsNeverAWrongValue(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 40
	}
	unchecked := []string{"/plain_edges", "/masks"} // chunks stored without their filters
	rng := rand.New(rand.NewPCG(8, 1))
	for _, name := range []string{"chunks_latest", "filters_latest"} {
		golden := goldenFiles(t)[name]
		read := func(b []byte) (map[string][]byte, int) {
			out, failed := map[string][]byte{}, 0
			f, err := New(bytes.NewReader(b), int64(len(b)), "test")
			if err != nil {
				return out, 1
			}
			root, err := f.Root()
			if err != nil {
				return out, 1
			}
			links, err := root.Links()
			if err != nil {
				return out, 1
			}
			for _, l := range links {
				o, err := root.Child(l.Name)
				if err != nil {
					failed++
					continue
				}
				d, err := o.Dataset()
				if err != nil {
					failed++
					continue
				}
				checked := slices.ContainsFunc(d.Filters, func(fl Filter) bool { return fl.ID == filterDeflate || fl.ID == filterFletcher32 })
				if !checked || slices.Contains(unchecked, o.Path()) {
					continue
				}
				data, err := readAll(d, max(1, d.Rows()), 1)
				if err != nil {
					failed++
					continue
				}
				out[o.Path()] = data
			}
			return out, failed
		}
		want, failed := read(golden)
		if failed > 0 || len(want) < 5 {
			t.Fatalf("%s: %d datasets read, %d failed", name, len(want), failed)
		}
		found := 0
		for i := range rounds {
			b := bytes.Clone(golden)
			at := rng.IntN(len(b))
			b[at] ^= 1 << (i % 8)
			got, failed := read(b)
			found += failed
			for path, values := range got {
				if !bytes.Equal(values, want[path]) {
					t.Errorf("%s: a flip of byte %d gives %s other values without an error", name, at, path)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s: no damage was found out", name)
		}
	}
}
