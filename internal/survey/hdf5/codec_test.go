package hdf5

import (
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"astropile/internal/testkit"
)

// Every filter with every type and option, written by the library and its plugins just now.
func TestEveryFilterTypeAndOptionReadsAsWithH5py(t *testing.T) {
	python := testkit.Python(t)
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), python, "testdata/make.py", "--codecs", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkFolder(t, dir)
}

// codecSample is a chunk as one filter stored it.
type codecSample struct {
	name   string
	params []uint32
	stored []byte
	size   int // decoded
}

// codecSamples gives stored chunks of the golden file that went through the filter alone.
func codecSamples(t testing.TB, id int) (out []codecSample) {
	t.Helper()
	f, err := Open("testdata/codecs_latest.h5")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	root, err := f.Root()
	if err != nil {
		t.Fatal(err)
	}
	links, err := root.Links()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		o, err := root.Child(l.Name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := o.Dataset()
		if err != nil {
			t.Fatal(err)
		}
		if d.narrow != nil {
			d = d.narrow
		}
		if len(d.Filters) != 1 || d.Filters[0].ID != id {
			continue
		}
		table, err := d.table()
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range table {
			if ref.mask != 0 {
				continue
			}
			b := make([]byte, ref.size)
			if err := f.readAt(b, ref.addr); err != nil {
				t.Fatal(err)
			}
			out = append(out, codecSample{l.Name, d.Filters[0].Params, b, int(d.chunkBytes)})
			break
		}
	}
	if len(out) == 0 {
		t.Fatalf("no chunk of filter %d in the golden file", id)
	}
	return out
}

var codecIDs = []int{filterSzip, filterNbit, filterScaleOffset, filterBzip2, filterBlosc, filterLZ4, filterBitshuffle, filterZstd}

// undoChecked decodes into a buffer of size bytes and checks what holds for any input.
func undoChecked(t testing.TB, s *scratch, id int, params []uint32, size int, src []byte) ([]byte, error) {
	t.Helper()
	room := make([]byte, size+64)
	for i := range room[size:] {
		room[size+i] = 0xa5
	}
	fl := Filter{ID: id, Params: params}
	n, err := steps[id].undo(s, &fl, room[:size:size], bytes.Clone(src))
	for _, x := range room[size:] {
		if x != 0xa5 {
			t.Fatal("wrote behind the buffer")
		}
	}
	switch {
	case err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupported):
		t.Fatalf("error %v wraps neither ErrCorrupt nor ErrUnsupported", err)
	case err == nil && (n < 0 || n > size):
		t.Fatalf("%d bytes of %d", n, size)
	}
	return room[:max(n, 0)], err
}

func TestATruncatedChunkOfAnyFilterIsRefusedOrShort(t *testing.T) {
	for _, id := range codecIDs {
		var s scratch
		for _, c := range codecSamples(t, id) {
			want, err := undoChecked(t, &s, id, c.params, c.size, c.stored)
			if err != nil || len(want) != c.size {
				t.Fatalf("%s: %d bytes of %d, error %v", c.name, len(want), c.size, err)
			}
			want = bytes.Clone(want)
			for cut := range len(c.stored) {
				if cut > 64 && cut%(1+len(c.stored)/97) != 0 && cut < len(c.stored)-8 {
					continue
				}
				got, err := undoChecked(t, &s, id, c.params, c.size, c.stored[:cut])
				if err == nil && len(got) == c.size && !bytes.Equal(got, want) {
					t.Errorf("%s cut from %d to %d bytes: other values, no error", c.name, len(c.stored), cut)
				}
			}
		}
	}
}

func TestADamagedChunkOfAnyFilterNeitherPanicsNorAllocatesWithoutBound(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 50
	}
	const bound = 48 << 20 // zstd's and bzip2's tables, and slack for what the test itself takes
	rng := rand.New(rand.NewPCG(4, 4))
	for _, id := range codecIDs {
		for _, c := range codecSamples(t, id) {
			var s scratch
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for i := range rounds / 8 {
				b, params := bytes.Clone(c.stored), slices.Clone(c.params)
				for range 1 + i%3 {
					at := rng.IntN(len(b))
					if i%2 == 0 { // heads are where the numbers are
						at = rng.IntN(min(len(b), 24))
					}
					b[at] = []byte{0, 0xff, 0x80, byte(rng.Uint32())}[rng.IntN(4)]
				}
				if i%5 == 0 && len(params) > 0 {
					params[rng.IntN(len(params))] = []uint32{0, 1, 7, 1 << 31, ^uint32(0), rng.Uint32()}[rng.IntN(6)]
				}
				if i%16 == 0 && len(params) > 0 {
					params = params[:rng.IntN(len(params))]
				}
				_, _ = undoChecked(t, &s, id, params, c.size, b)
			}
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > bound {
				t.Errorf("%s: %d bytes allocated in %d rounds", c.name, n, rounds)
			}
		}
	}
}

// The checksums of bzip2 and of zlib inside blosc tell damage; the other codecs have none.
func TestADamagedBzip2StreamIsNeverAWrongValue(t *testing.T) {
	var s scratch
	for _, c := range codecSamples(t, filterBzip2) {
		want, err := undoChecked(t, &s, filterBzip2, c.params, c.size, c.stored)
		if err != nil {
			t.Fatal(err)
		}
		for at := range c.stored {
			b := bytes.Clone(c.stored)
			b[at] ^= 1 << (at % 8)
			if got, err := undoChecked(t, &s, filterBzip2, c.params, c.size, b); err == nil && !bytes.Equal(got, want) {
				t.Errorf("%s: byte %d flipped: other values, no error", c.name, at)
			}
		}
	}
}

func TestHostileHeadsAreRefused(t *testing.T) {
	big := func(total uint64, block, stored uint32) []byte {
		b := be.AppendUint64(nil, total)
		b = be.AppendUint32(b, block)
		return append(be.AppendUint32(b, stored), make([]byte, 64)...)
	}
	blosc := func(change func(b []byte)) []byte {
		b := append([]byte{2, 1, 0x21, 4}, make([]byte, 96)...)
		le.PutUint32(b[4:], 64)
		le.PutUint32(b[8:], 64)
		le.PutUint32(b[12:], 100)
		le.PutUint32(b[16:], 20)
		change(b)
		return b
	}
	shuffle := []uint32{0, 4, 4, 0, bitshuffleLZ4}
	scale := func(width uint32) []byte { return append(le.AppendUint32(nil, width), make([]byte, 60)...) }
	ints := func(change ...uint32) []uint32 {
		p := make([]uint32, scaleParams)
		p[scaleKind], p[scaleCount], p[scaleSize] = 2, 16, 4
		for i := 0; i+1 < len(change); i += 2 {
			p[change[i]] = change[i+1]
		}
		return p
	}
	type tree = []uint32
	deep := tree{0, 0, 1}
	for range nbitDepth + 2 {
		deep = append(deep, nbitArray, 4)
	}
	for _, c := range []struct {
		name   string
		id     int
		params []uint32
		src    []byte
	}{
		{"lz4 of a size beyond the chunk", filterLZ4, nil, big(1<<63, 64, 64)},
		{"lz4 in blocks of nothing", filterLZ4, nil, big(64, 0, 64)},
		{"lz4 with a block behind the end", filterLZ4, nil, big(64, 64, 1<<31)},
		{"lz4 head cut", filterLZ4, nil, big(64, 64, 64)[:9]},
		{"bitshuffle of a size beyond the chunk", filterBitshuffle, shuffle, big(1<<40, 64, 64)},
		{"bitshuffle in blocks of nothing", filterBitshuffle, shuffle, big(64, 0, 64)},
		{"bitshuffle in blocks of parts of elements", filterBitshuffle, shuffle, big(64, 30, 64)},
		{"bitshuffle with a block behind the end", filterBitshuffle, shuffle, big(64, 64, ^uint32(0))},
		{"bitshuffle of elements of nothing", filterBitshuffle, tree{0, 4, 0, 0, 0}, make([]byte, 64)},
		{"bitshuffle with an unknown codec", filterBitshuffle, tree{0, 4, 4, 0, 9}, big(64, 64, 64)},
		{"blosc of a size beyond the chunk", filterBlosc, nil, blosc(func(b []byte) { le.PutUint32(b[4:], ^uint32(0)) })},
		{"blosc in blocks of nothing", filterBlosc, nil, blosc(func(b []byte) { le.PutUint32(b[8:], 0) })},
		{"blosc in too many blocks", filterBlosc, nil, blosc(func(b []byte) { le.PutUint32(b[8:], 1) })},
		{"blosc stored beyond its end", filterBlosc, nil, blosc(func(b []byte) { le.PutUint32(b[12:], ^uint32(0)) })},
		{"blosc with a block behind the end", filterBlosc, nil, blosc(func(b []byte) { le.PutUint32(b[16:], ^uint32(0)) })},
		{"blosc with a block that is its own head", filterBlosc, nil, blosc(func(b []byte) { le.PutUint32(b[16:], 0) })},
		{"blosc of elements of nothing", filterBlosc, nil, blosc(func(b []byte) { b[3] = 0 })},
		{"blosc of a later version", filterBlosc, nil, blosc(func(b []byte) { b[0] = 5 })},
		{"blosc with an unknown codec", filterBlosc, nil, blosc(func(b []byte) { b[2], b[20] = 0xe1, 9 })},
		{"scale-offset with more bits than the type", filterScaleOffset, ints(), scale(33)},
		{"scale-offset of more values than fit", filterScaleOffset, ints(scaleCount, ^uint32(0)), scale(0)},
		{"scale-offset with too few bits", filterScaleOffset, ints(), scale(31)[:40]},
		{"scale-offset of odd sizes", filterScaleOffset, ints(scaleSize, 3), scale(1)},
		{"scale-offset of short floats", filterScaleOffset, ints(scaleSize, 2, scaleClass, 1, scaleKind, 0), scale(1)},
		{"scale-offset by binary exponents", filterScaleOffset, ints(scaleClass, 1, scaleKind, 1), scale(1)},
		{"scale-offset without parameters", filterScaleOffset, nil, scale(1)},
		{"n-bit without parameters", filterNbit, nil, make([]byte, 64)},
		{"n-bit of more elements than fit", filterNbit, tree{8, 0, ^uint32(0), nbitAtomic, 4, 0, 1, 0}, make([]byte, 64)},
		{"n-bit of more bits than there are", filterNbit, tree{8, 0, 16, nbitAtomic, 4, 0, 33, 0}, make([]byte, 64)},
		{"n-bit at a bit that is not there", filterNbit, tree{8, 0, 16, nbitAtomic, 4, 0, 8, 25}, make([]byte, 64)},
		{"n-bit of nothing", filterNbit, tree{8, 0, 16, nbitAtomic, 4, 0, 0, 0}, make([]byte, 64)},
		{"n-bit of an array of an array of an array", filterNbit, deep, make([]byte, 64)},
		{"n-bit of a record of endless members", filterNbit, tree{8, 0, 16, nbitRecord, 4, ^uint32(0) >> 3}, make([]byte, 64)},
		{"n-bit of a member outside its record", filterNbit, tree{12, 0, 1, nbitRecord, 4, 1, 3, nbitAtomic, 4, 0, 8, 0}, make([]byte, 64)},
		{"n-bit with a member behind an array of rows", filterNbit, tree{0, 0, 1, nbitRecord, 8, 2, 0, nbitArray, 4, nbitRecord, 4, 1, 0, nbitAtomic, 4, 0, 8, 0, 4, nbitAtomic, 4, 0, 8, 0}, make([]byte, 64)},
		{"szip without parameters", filterSzip, nil, make([]byte, 64)},
		{"szip in odd blocks", filterSzip, tree{32, 7, 8, 64}, make([]byte, 64)},
		{"szip in endless lines", filterSzip, tree{32, 16, 8, ^uint32(0)}, make([]byte, 64)},
		{"szip of wide samples", filterSzip, tree{32, 16, 63, 64}, make([]byte, 64)},
		{"szip of a size beyond the chunk", filterSzip, tree{32, 16, 8, 64}, bytes.Repeat([]byte{0xff}, 64)},
		{"szip of nothing but zero bits", filterSzip, tree{32, 16, 8, 64}, append([]byte{64, 0, 0, 0}, make([]byte, 9)...)},
		{"bzip2 of level 0", filterBzip2, nil, []byte("BZh0\x17\x72\x45\x38\x50\x90\x00\x00\x00\x00")},
		{"bzip2 without an end", filterBzip2, nil, []byte("BZh9\x31\x41\x59\x26\x53\x59\x00\x00\x00\x00\x00")},
		{"zstd of a skippable frame's size", filterZstd, nil, []byte{0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff}},
		{"zstd of a huge window", filterZstd, nil, []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 1, 0, 0, 0}},
	} {
		var s scratch
		if got, err := undoChecked(t, &s, c.id, c.params, 64, c.src); err == nil {
			t.Errorf("%s: %d bytes and no error", c.name, len(got))
		}
	}
}

// A few bytes of these filters can stand for any number of equal values: such chunks are read up to a bound.
func TestAChunkOfEqualValuesIsReadUpToItsBound(t *testing.T) {
	const values = freeChunk / 4
	params := make([]uint32, scaleParams)
	params[scaleKind], params[scaleCount], params[scaleSize] = 2, values, 4
	stored := make([]byte, scaleHead)
	stored[4], stored[5] = 8, 42
	f, _ := handmade(stored)
	d := &Dataset{o: &Object{f: f}, Type: &Type{Size: 4}, chunkBytes: freeChunk, Filters: []Filter{{ID: filterScaleOffset, Params: params}}}
	var w window
	var s scratch
	got, err := d.readChunk(chunkRef{size: uint64(len(stored))}, &w, &s, nil)
	if err != nil || len(got) != freeChunk || got[freeChunk-4] != 42 {
		t.Fatalf("%d bytes, error %v", len(got), err)
	}
	d.chunkBytes, params[scaleCount] = freeChunk+4, values+1
	if _, err := d.readChunk(chunkRef{size: uint64(len(stored))}, &w, &s, nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("error %v for a chunk beyond the bound", err)
	}
}

// plainBits is bitshuffle's layout in the plainest code.
func plainBits(b []byte, width int) []byte {
	n := len(b) / width
	out := make([]byte, len(b))
	for i := range n {
		for bit := range 8 * width {
			if b[i*width+bit/8]>>(bit%8)&1 == 1 {
				at := bit*n + i
				out[at/8] |= 1 << (at % 8)
			}
		}
	}
	return out
}

func TestUnbitshuffleUndoesBitshuffleForEveryWidthAndLength(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var s scratch
	for _, width := range []int{1, 2, 3, 4, 5, 8, 12, 16} {
		for _, n := range []int{0, 8, 16, 64, 72, 128, 136, 1024, 1032} {
			want := randomBytes(rng, n*width)
			got := make([]byte, len(want))
			s.unbitshuffle(got, plainBits(want, width), width)
			if !bytes.Equal(got, want) {
				t.Fatalf("width %d, %d elements: wrong", width, n)
			}
		}
	}
}

func TestBitsAreTransposedAlikeWithAndWithoutVectorInstructions(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 7))
	for _, n := range []int{0, 8, 56, 64, 72, 640, 1000} {
		a := randomBytes(rng, n)
		b := bytes.Clone(a)
		transposeBits(a)
		for at := 0; at < n; at += 8 { // short of a block
			transposeBits(b[at : at+8])
		}
		if !bytes.Equal(a, b) {
			t.Fatalf("%d bytes: wrong", n)
		}
	}
}

func TestBitsReadFromTheTopInAnyPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	b := randomBytes(rng, 400)
	bit := func(i int) uint64 { return uint64(b[i/8]>>(7-i%8)) & 1 }
	r := msbReader{b: b}
	for at := 0; at < 8*len(b); {
		k := min(rng.IntN(65), 8*len(b)-at)
		var want uint64
		for i := range k {
			want = want<<1 | bit(at+i)
		}
		if got := r.wide(k); got != want {
			t.Fatalf("%d bits at %d: %x, want %x", k, at, got, want)
		}
		at += k
		if at < 8*len(b)-70 && rng.IntN(3) == 0 {
			var zeros uint32
			for bit(at) == 0 {
				at++
				zeros++
			}
			at++
			if got := r.zeros(); got != zeros {
				t.Fatalf("%d zeros before %d, want %d", got, at, zeros)
			}
		}
	}
	if r.over() {
		t.Error("over before the end")
	}
	if r.take(1); !r.over() {
		t.Error("not over behind the end")
	}
	if r.zeros() != longestFS {
		t.Error("a run of zeros behind the end has an end")
	}
}

// plainBloscLZ is the format's description in the plainest code.
func plainBloscLZ(src []byte, limit int) ([]byte, bool) {
	var out []byte
	at := 0
	next := func() (int, bool) {
		if at >= len(src) {
			return 0, false
		}
		at++
		return int(src[at-1]), true
	}
	ctrl, ok := next()
	ctrl &= 31
	for ok {
		if ctrl < 32 {
			if at+ctrl+1 > len(src) {
				return nil, false
			}
			out = append(out, src[at:at+ctrl+1]...)
			at += ctrl + 1
		} else {
			n, back := ctrl>>5+2, (ctrl&31)*256
			for more := ctrl>>5 == 7; more; {
				x, ok := next()
				if !ok {
					return nil, false
				}
				n += x
				more = x == 255
			}
			x, ok := next()
			if !ok {
				return nil, false
			}
			if back += x; back == 8191 {
				hi, _ := next()
				lo, ok := next()
				if !ok {
					return nil, false
				}
				back += hi*256 + lo
			}
			if back++; back > len(out) || len(out)+n > limit {
				return nil, false
			}
			for range n {
				out = append(out, out[len(out)-back])
			}
		}
		if len(out) > limit {
			return nil, false
		}
		if at == len(src) {
			return out, true
		}
		ctrl, ok = next()
	}
	return nil, false
}

func FuzzBloscLZ(f *testing.F) {
	f.Add([]byte{2, 1, 2, 3, 0x20, 0, 0xe0, 255, 5, 2, 0, 9}, uint16(400))
	f.Add([]byte{0, 7, 0x3f, 255, 0, 1, 0, 4}, uint16(265))
	for _, c := range codecSamples(f, filterBlosc) {
		f.Add(c.stored[bloscHead:], uint16(c.size))
	}
	f.Fuzz(func(t *testing.T, src []byte, size uint16) {
		dst := make([]byte, size)
		n, err := decodeBloscLZ(dst, src)
		want, ok := plainBloscLZ(src, int(size))
		if ok != (err == nil) || ok && !bytes.Equal(dst[:n], want) {
			t.Fatalf("%d bytes and error %v; plain decoder: %d bytes, %v", n, err, len(want), ok)
		}
	})
}

// fuzzCodec fuzzes one filter: any parameters, any bytes, any size of chunk.
func fuzzCodec(f *testing.F, id int, check func(t *testing.T, src, got []byte, size int, err error)) {
	for _, c := range codecSamples(f, id) {
		var params []byte
		for _, p := range c.params {
			params = le.AppendUint32(params, p)
		}
		f.Add(params, c.stored, uint16(c.size))
	}
	f.Fuzz(func(t *testing.T, b, src []byte, size uint16) {
		var params []uint32
		for ; len(b) >= 4; b = b[4:] {
			params = append(params, le.Uint32(b))
		}
		var s scratch
		got, err := undoChecked(t, &s, id, params, int(size), src)
		if check != nil {
			check(t, src, got, int(size), err)
		}
	})
}

func FuzzSzip(f *testing.F)        { fuzzCodec(f, filterSzip, nil) }
func FuzzNbit(f *testing.F)        { fuzzCodec(f, filterNbit, nil) }
func FuzzScaleOffset(f *testing.F) { fuzzCodec(f, filterScaleOffset, nil) }
func FuzzLZ4(f *testing.F)         { fuzzCodec(f, filterLZ4, nil) }
func FuzzBlosc(f *testing.F)       { fuzzCodec(f, filterBlosc, nil) }
func FuzzBitshuffle(f *testing.F)  { fuzzCodec(f, filterBitshuffle, nil) }
func FuzzZstd(f *testing.F)        { fuzzCodec(f, filterZstd, nil) }

// FuzzBzip2 compares with another decoder.
func FuzzBzip2(f *testing.F) {
	fuzzCodec(f, filterBzip2, func(t *testing.T, src, got []byte, size int, err error) {
		if err != nil {
			return
		}
		theirs := make([]byte, len(got)+1)
		n, _ := io.ReadFull(bzip2.NewReader(bytes.NewReader(src)), theirs)
		if n < len(got) || !bytes.Equal(theirs[:len(got)], got) {
			t.Fatalf("%d bytes; the other decoder gives %d", len(got), n)
		}
	})
}

func BenchmarkCodecs(b *testing.B) {
	for _, id := range codecIDs {
		for _, c := range codecSamples(b, id) {
			b.Run(fmt.Sprintf("%d/%s", id, c.name), func(b *testing.B) {
				var s scratch
				dst, fl := make([]byte, c.size), Filter{ID: id, Params: c.params}
				b.SetBytes(int64(c.size))
				for b.Loop() {
					if _, err := steps[id].undo(&s, &fl, dst, c.stored); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
