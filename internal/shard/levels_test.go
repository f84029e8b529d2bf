package shard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// encodeLevels writes levels in runs and packed groups as chance has it.
func encodeLevels(levels []int, w int, r *rand.Rand) []byte {
	var b []byte
	for i := 0; i < len(levels); {
		run := 1
		for i+run < len(levels) && levels[i+run] == levels[i] {
			run++
		}
		if r.IntN(3) > 0 {
			run = 1 + r.IntN(run)
			b = binary.AppendUvarint(b, uint64(run)<<1)
			b = append(b, byte(levels[i]))
			i += run
			continue
		}
		groups := 1 + r.IntN(4)
		if left := len(levels) - i; groups*8 > left && left >= 8 {
			groups = left / 8
		} else if left < 8 {
			groups = 1 // the last group is filled up
		}
		b = binary.AppendUvarint(b, uint64(groups)<<1|1)
		packed := make([]byte, groups*w)
		for k := 0; k < groups*8 && i+k < len(levels); k++ {
			for bit := 0; bit < w; bit++ {
				if levels[i+k]>>bit&1 == 1 {
					packed[(k*w+bit)/8] |= 1 << ((k*w + bit) % 8)
				}
			}
		}
		b = append(b, packed...)
		i += groups * 8
	}
	return b
}

// naiveRep is the repetition levels of n elements from a place in a row on, written from the definition: the number of
// the outermost list that goes on.
func naiveRep(dims []int, n, phase int) []int {
	elems := 1
	for _, d := range dims {
		elems *= d
	}
	out := make([]int, n)
	for i := range out {
		at := (i + phase) % elems
		level, below := len(dims), 1
		for j := len(dims) - 1; j >= 0; j-- {
			below *= dims[j]
			if at%(below/dims[j]) != 0 {
				break
			}
			if at%below == 0 {
				level = j
			} else {
				level = j + 1
				break
			}
		}
		out[i] = level
	}
	return out
}

func TestLevelsOfAShapeAreAcceptedHoweverTheyAreCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 6).Draw(t, "dims")
		s := newShapeLevels(dims, len(dims), len(dims)+rapid.IntRange(0, 3).Draw(t, "optional"))
		phase := rapid.IntRange(0, s.elems-1).Draw(t, "phase")
		n := rapid.IntRange(1, 3*s.elems+9).Draw(t, "n")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rep := naiveRep(dims, n, phase)
		if err := s.checkRep(encodeLevels(rep, widthOf(s.maxRep), r), n, phase); err != nil {
			t.Fatalf("%v, phase %d, %v: %v", dims, phase, rep, err)
		}
		def := slices.Repeat([]int{s.maxDef}, n)
		if err := s.checkDef(encodeLevels(def, widthOf(s.maxDef), r), n); err != nil {
			t.Fatal(err)
		}
		// One level that is changed is seen.
		i := rapid.IntRange(0, n-1).Draw(t, "i")
		rep[i] = (rep[i] + 1 + r.IntN(s.maxRep)) % (s.maxRep + 1)
		if err := s.checkRep(encodeLevels(rep, widthOf(s.maxRep), r), n, phase); !errors.Is(err, errIrregular) {
			t.Fatalf("level %d of %v changed: %v", i, rep, err)
		}
		def[i]--
		if err := s.checkDef(encodeLevels(def, widthOf(s.maxDef), r), n); !errors.Is(err, errIrregular) {
			t.Fatalf("a null at %d: %v", i, err)
		}
	})
}

func TestTheShapeOfTheFirstRowIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 5).Draw(t, "dims")
		s := newShapeLevels(dims, len(dims), len(dims))
		rows := rapid.IntRange(1, 3).Draw(t, "rows")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		got, err := inferDims(encodeLevels(naiveRep(dims, rows*s.elems, 0), widthOf(s.maxRep), r), rows*s.elems, len(dims), s.elems)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(dims) {
			t.Fatalf("%v for %v, %v", got, dims, err)
		}
	})
}

func TestBitsUnpackAsTheyStand(t *testing.T) {
	src := []byte{0x80, 0x01, 0xff, 0x00, 0xa5, 0x5a}
	for n := range 48 {
		dst := make([]byte, n)
		unpackBits(dst, src)
		for i, b := range dst {
			if b != src[i/8]>>(i%8)&1 {
				t.Fatalf("bit %d of %d", i, n)
			}
		}
	}
}

func TestJoinedStreamsAreWhatWasSplit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, width := range []int{2, 4, 8} {
		for _, n := range []int{0, 1, 7, 8, 9, 31, 32, 33, 64, 100, 1875} {
			want := make([]byte, n*width)
			for i := range want {
				want[i] = byte(r.Uint32())
			}
			src, got := make([]byte, n*width), make([]byte, n*width)
			for i := range n {
				for k := range width {
					src[k*n+i] = want[i*width+k]
				}
			}
			joinStreams(got, src, n, width)
			if !slices.Equal(got, want) {
				t.Errorf("%d values of %d bytes", n, width)
			}
		}
	}
}

func BenchmarkCheckLevels_4x96x96(b *testing.B) {
	s := newShapeLevels([]int{4, 96, 96}, 3, 3)
	rep := naiveRep([]int{4, 96, 96}, s.elems, 0)
	var enc []byte
	for i := 0; i < len(rep); {
		run := 1
		for i+run < len(rep) && rep[i+run] == rep[i] {
			run++
		}
		enc = binary.AppendUvarint(enc, uint64(run)<<1)
		enc = append(enc, byte(rep[i]))
		i += run
	}
	for range b.N {
		if err := s.checkRep(enc, s.elems, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJoinStreams_float32(b *testing.B) {
	src, dst := make([]byte, 1<<20), make([]byte, 1<<20)
	b.SetBytes(1 << 20)
	for range b.N {
		joinStreams(dst, src, 1<<18, 4)
	}
}
