package hdf5

import (
	"bytes"
	stdadler "hash/adler32"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"astropile/internal/catalog"
)

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestUnshuffleUndoesShuffleForEveryWidthAndLength(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, width := range []int{1, 2, 3, 4, 5, 7, 8, 12, 16, 47} {
		for _, n := range []int{0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 1023, 2049} {
			for odd := range min(width, 3) {
				want := randomBytes(rng, n*width+odd)
				src := shuffled(want, width)
				got := make([]byte, len(src))
				unshuffle(got, src, width)
				if !bytes.Equal(got, want) {
					t.Fatalf("width %d, %d elements and %d bytes: wrong", width, n, odd)
				}
				clear(got)
				unshuffleFrom(got, src, width, n, 0) // without vector instructions
				if !bytes.Equal(got[:n*width], want[:n*width]) {
					t.Fatalf("width %d, %d elements: wrong without vector instructions", width, n)
				}
			}
		}
	}
}

func TestAdler32IsThatOfTheStandardLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for _, n := range []int{0, 1, 31, 32, 33, 5535, 5536, 5537, 5552, 11072, 100001} {
		for name, b := range map[string][]byte{"random": randomBytes(rng, n), "all ones": bytes.Repeat([]byte{255}, n)} {
			if got, want := adler32(b), stdadler.Checksum(b); got != want {
				t.Errorf("%d bytes, %s: %08x, want %08x", n, name, got, want)
			}
		}
	}
}

func TestLookup3GivesItsPublishedValues(t *testing.T) {
	for in, want := range map[string]uint32{"": 0xdeadbeef, "Four score and seven years ago": 0x17770551} {
		if got := lookup3([]byte(in)); got != want {
			t.Errorf("%q: %08x, want %08x", in, got, want)
		}
	}
}

func TestFletcher32GivesItsPublishedValues(t *testing.T) {
	// The known sums of "abcde" and "abcdef" are over little-endian words: swap the bytes here.
	for in, want := range map[string]uint32{"badcfe": 0x56502d2a, "badcfehg": 0xebe19591} {
		if got := fletcher32([]byte(in)); got != want {
			t.Errorf("%q: %08x, want %08x", in, got, want)
		}
	}
}

func TestReverseTurnsEveryNumberAround(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for width := 2; width <= 9; width++ {
		for n := range 12 {
			b := randomBytes(rng, n*width)
			want := bytes.Clone(b)
			for i := range n {
				slices.Reverse(want[i*width : (i+1)*width])
			}
			if reverse(b, width); !bytes.Equal(b, want) {
				t.Errorf("%d numbers of %d bytes: wrong", n, width)
			}
		}
	}
}

func TestHalfFloatsWiden(t *testing.T) {
	for h, want := range map[uint16]float64{
		0: 0, 1: math.Ldexp(1, -24), 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x03ff: 1023 * math.Ldexp(1, -24),
		0x7c00: math.Inf(1), 0xfc00: math.Inf(-1), 0x3555: 0.333251953125,
	} {
		if got := catalog.HalfToFloat(h); got != want {
			t.Errorf("%04x: %v, want %v", h, got, want)
		}
	}
	if got := catalog.HalfToFloat(0x7e00); !math.IsNaN(got) {
		t.Errorf("7e00: %v, want NaN", got)
	}
	if got := catalog.HalfToFloat(0x8000); got != 0 || !math.Signbit(got) {
		t.Errorf("8000: %v, want -0", got)
	}
}

// A type whose plan would be too long is converted part by part, with the same result.
func TestDeepCompoundsAreConvertedLikeShallowOnes(t *testing.T) {
	big := &Type{Class: ClassInt, Size: 2, BigEndian: true}
	big.swaps = big.plan()
	pair := &Type{Class: ClassCompound, Size: 5, Members: []Member{{"a", 1, big}, {"b", 3, big}}}
	pair.swaps = pair.plan()
	array := &Type{Class: ClassArray, Size: 5 * 5000, Base: pair, Dims: []uint64{5000}}
	array.swaps = array.plan()
	outer := &Type{Class: ClassCompound, Size: array.Size + 2, Members: []Member{{"x", 0, big}, {"y", 2, array}}}
	outer.swaps = outer.plan()
	if !array.byParts() || !outer.byParts() {
		t.Fatal("the plan is not too long")
	}
	b := randomBytes(rand.New(rand.NewPCG(8, 8)), 2*outer.Size)
	want := bytes.Clone(b)
	for e := range 2 {
		at := e * outer.Size
		slices.Reverse(want[at : at+2])
		for i := range 5000 {
			k := at + 2 + 5*i
			slices.Reverse(want[k+1 : k+3])
			slices.Reverse(want[k+3 : k+5])
		}
	}
	if outer.toLittle(b); !bytes.Equal(b, want) {
		t.Error("wrong bytes")
	}
}
