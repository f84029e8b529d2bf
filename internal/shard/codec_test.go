package shard

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"astropile/internal/catalog"
)

func TestJoinedChecksumsAreThoseOfTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOf(rapid.Byte()).Draw(t, "a"), rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		shift := newCRCShift(len(b))
		if got, want := joinCRC(crc32.ChecksumIEEE(a), crc32.ChecksumIEEE(b), &shift), crc32.ChecksumIEEE(append(bytes.Clone(a), b...)); got != want {
			t.Fatalf("%08x, want %08x", got, want)
		}
	})
	big := make([]byte, 100<<20)
	big[7] = 1
	shift := newCRCShift(len(big) - 5)
	if got, want := joinCRC(crc32.ChecksumIEEE(big[:5]), crc32.ChecksumIEEE(big[5:]), &shift), crc32.ChecksumIEEE(big); got != want {
		t.Fatalf("100 MiB: %08x, want %08x", got, want)
	}
}

// decodeHybrid is a plain decoder of Parquet's hybrid encoding, written from its description.
func decodeHybrid(t interface{ Fatalf(string, ...any) }, b []byte, width, n int) []byte {
	var out []byte
	for len(out) < n {
		h, shift := uint64(0), 0
		for {
			if len(b) == 0 {
				t.Fatalf("runs end after %d of %d values", len(out), n)
			}
			c := b[0]
			b = b[1:]
			h |= uint64(c&0x7f) << shift
			if shift += 7; c < 0x80 {
				break
			}
		}
		if h&1 == 0 {
			if h>>1 == 0 {
				t.Fatalf("a run of no values")
			}
			out = append(out, bytes.Repeat(b[:1], int(h>>1))...)
			b = b[1:]
			continue
		}
		groups := int(h >> 1)
		for bit := 0; bit < groups*8*width; bit += width {
			v := byte(0)
			for k := range width {
				v |= b[(bit+k)/8] >> ((bit + k) % 8) & 1 << k
			}
			out = append(out, v)
		}
		b = b[groups*width:]
	}
	if len(b) != 0 {
		t.Fatalf("%d bytes after the last run", len(b))
	}
	if len(out)-n >= 8 {
		t.Fatalf("%d values, want %d", len(out), n)
	}
	return out[:n]
}

func TestBoolsComeBackFromTheirRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v []byte
		for range rapid.IntRange(1, 12).Draw(t, "stretches") {
			n := rapid.IntRange(1, 300).Draw(t, "n")
			if rapid.Bool().Draw(t, "even") {
				v = append(v, bytes.Repeat([]byte{rapid.ByteRange(0, 1).Draw(t, "v")}, n)...)
			} else {
				v = append(v, rapid.SliceOfN(rapid.ByteRange(0, 1), n, n).Draw(t, "noise")...)
			}
		}
		b := appendBools(nil, v)
		if got := decodeHybrid(t, b, 1, len(v)); !bytes.Equal(got, v) {
			t.Fatalf("%v, want %v", got, v)
		}
		if len(b) > len(v)/8+8+len(v)/minBoolRun*6 {
			t.Fatalf("%d bytes for %d bools", len(b), len(v))
		}
	})
}

func TestMasksShrink(t *testing.T) {
	mask := make([]byte, 4*96*96)
	for i := 5000; i < 5600; i++ {
		mask[i] = 1
	}
	if n := len(appendBools(nil, mask)); n > 20 {
		t.Errorf("a mask of three stretches takes %d bytes", n)
	}
}

// levelsOf is the definition of repetition levels, element by element.
func levelsOf(dims []int, rows int) []byte {
	elems := 1
	for _, d := range dims {
		elems *= d
	}
	var out []byte
	for i := range rows * elems {
		level, stride := len(dims), 1
		for k := len(dims) - 1; k >= 0; k-- {
			stride *= dims[k]
			if i%stride == 0 {
				level = k
			}
		}
		out = append(out, byte(level))
	}
	return out
}

func TestRepetitionLevelsAreThoseOfNestedLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 6).Draw(t, "dims")
		rows := rapid.IntRange(1, 5).Draw(t, "rows")
		want := levelsOf(dims, rows)
		if got := decodeHybrid(t, repetitionLevels(dims, rows), bitWidth(len(dims)), len(want)); !bytes.Equal(got, want) {
			t.Fatalf("%v x %d: %v, want %v", dims, rows, got, want)
		}
	})
	if n := len(repetitionLevels([]int{4, 96, 96}, 1)); n > 2000 {
		t.Errorf("levels of [4,96,96] take %d bytes", n)
	}
	if n := len(repetitionLevels([]int{1000, 2}, 4)); n > 2010 {
		t.Errorf("levels of 8,000 numbers in pairs take %d bytes, packed they take 2 bits each", n)
	}
}

func TestFramesAlignTheirValuesWhereverTheyStand(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shifts := map[int]*crcShift{}
	for try := range 20_000 {
		n := []int{320, 321, 400, 1000, 8191, 8192, 8300, 36864}[r.IntN(8)]
		values := make([]byte, 4*320)
		for i := range values[:8] {
			values[i] = byte(r.Uint32())
		}
		s := shifts[len(values)]
		if s == nil {
			x := newCRCShift(len(values))
			s, shifts[len(values)] = &x, &x
		}
		f := &frameSpec{values: n, depth: 1 + try%3, encoding: EncPlain, rep: []byte{2, 0, 4, 3}, valueSize: len(values), valueCRC: crc32.ChecksumIEEE(values), shift: s}
		if try%2 == 1 {
			f.prefix = []byte{8, 3}
		}
		pos := r.Int64N(1 << 33)
		b, err := appendFrame(make([]byte, 0, 4096), pos, f)
		if err != nil {
			t.Fatal(err)
		}
		if (pos+int64(len(b)))%alignment != 0 {
			t.Fatalf("values at byte %d", pos+int64(len(b)))
		}
		h, size, err := DecodePageHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		body := append(b[size:len(b):len(b)], values...)
		if int(h.CompressedSize) != len(body) || h.CRC != crc32.ChecksumIEEE(body) {
			t.Fatalf("header %+v of a body of %d bytes", h, len(body))
		}
		rep := 4 + len(f.rep)
		def := int(le32(body[rep:]))
		for i, v := range decodeHybrid(t, body[rep+4:rep+4+def], bitWidth(f.depth), n) {
			if int(v) != f.depth {
				t.Fatalf("definition level %d at value %d", v, i)
			}
		}
		if !bytes.Equal(body[rep+4+def:], append(bytes.Clone(f.prefix), values...)) {
			t.Fatal("values moved")
		}
	}
}

func le32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func TestPaddingMeetsAMultipleWhateverTheFooterDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := int64(1) << rapid.IntRange(6, 16).Draw(t, "piece")
		fixed := rapid.Int64Range(100, 1<<20).Draw(t, "fixed")
		step := rapid.Int64Range(0, 1<<17).Draw(t, "step")
		jump := rapid.IntRange(0, 200).Draw(t, "jump")
		zeros, b, err := padTo(fixed, piece, func(zeros int64) []byte {
			if zeros >= step {
				return make([]byte, 50+jump)
			}
			return make([]byte, 50)
		})
		if err != nil {
			t.Fatal(err)
		}
		if zeros < 0 || (fixed+zeros+int64(len(b)))%piece != 0 || len(b) != 50 && len(b) != 50+jump || (zeros >= step) != (len(b) == 50+jump) && jump > 0 {
			t.Fatalf("%d zeros, a footer of %d", zeros, len(b))
		}
	})
}

func TestACodecIsChosenByWhatItSaves(t *testing.T) {
	noise := rand.New(rand.NewPCG(3, 4))
	fill := func(c catalog.Column, f func(i int) byte) (*catalog.Column, *catalog.Vector) {
		c.Layout = ChooseLayout(&c, 1)
		v := &catalog.Vector{Rows: 64, Data: make([]byte, 64*c.RowBytes())}
		for i := range v.Data {
			v.Data[i] = f(i)
		}
		return &c, v
	}
	random := func(int) byte { return byte(noise.Uint32()) }
	zeros := func(int) byte { return 0 }
	smooth := func(i int) byte { return []byte{byte(noise.Uint32()), byte(noise.Uint32()), 5, 66}[i%4] } // noise below, order above
	for _, c := range []struct {
		name   string
		col    catalog.Column
		fill   func(int) byte
		policy string
		want   catalog.Codec
	}{
		{"noise stays plain", tensor("x", catalog.Float32, 32, 32), random, PolicyAuto, catalog.None},
		{"zeros are compressed", tensor("x", catalog.Int32, 32, 32), zeros, PolicyAuto, catalog.Zstd},
		{"floats with noise in the low bytes are split", tensor("x", catalog.Float32, 32, 32), smooth, PolicyAuto, catalog.BSSZstd},
		{"none is none", tensor("x", catalog.Float32, 32, 32), zeros, PolicyNone, catalog.None},
		{"zstd compresses noise", tensor("x", catalog.Uint8, 64, 64), random, PolicyZstd, catalog.Zstd},
		{"bytes of zeros", tensor("x", catalog.Uint8, 64, 64), zeros, PolicyAuto, catalog.Zstd},
		{"bool has its runs", tensor("x", catalog.Bool, 64, 64), zeros, PolicyZstd, catalog.None},
		{"scalars are always zstd", scalar("x", catalog.Float32, false), random, PolicyNone, catalog.Zstd},
	} {
		t.Run(c.name, func(t *testing.T) {
			col, v := fill(c.col, c.fill)
			got, err := ChooseCodec(col, v, c.policy)
			if err != nil || got != c.want {
				t.Fatalf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
	col, v := fill(tensor("x", catalog.Float32, 2), zeros)
	if _, err := ChooseCodec(col, v, "best"); err == nil {
		t.Error("an unknown policy is accepted")
	}
}

func TestSixteenBitsGetADictionaryWhereItPays(t *testing.T) {
	c := tensor("x", catalog.Int16, 1000)
	if got := ChooseLayout(&c, 3999); got != catalog.Widened {
		t.Errorf("7.998 MB a row group: %q", got)
	}
	if got := ChooseLayout(&c, 4000); got != catalog.Identity {
		t.Errorf("8 MB a row group: %q", got)
	}
	c.Layout = catalog.Identity
	if got := ChooseLayout(&c, 1); got != catalog.Identity {
		t.Errorf("a layout that a recipe gives becomes %q", got)
	}
}
