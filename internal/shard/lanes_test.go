package shard

import (
	"crypto/fips140"
	"crypto/sha1"
	"crypto/sha256"
	"testing"

	"pgregory.net/rapid"
)

// checkEach compares the digests of messages with those of the standard library.
func checkEach(t interface{ Fatalf(string, ...any) }, messages [][]byte) {
	seen := 0
	sha256Each(messages, func(i int, d [32]byte) {
		seen++
		if d != sha256.Sum256(messages[i]) {
			t.Fatalf("SHA-256 of message %d of %d, %d bytes", i, len(messages), len(messages[i]))
		}
	})
	sha1Each(messages, func(i int, d [20]byte) {
		seen++
		if d != sha1.Sum(messages[i]) {
			t.Fatalf("SHA-1 of message %d of %d, %d bytes", i, len(messages), len(messages[i]))
		}
	})
	if seen != 2*len(messages) {
		t.Fatalf("%d digests of %d messages", seen, len(messages))
	}
}

// noise is n bytes that differ from message to message.
func noise(n int, seed uint32) []byte {
	b := make([]byte, n)
	for i := range b {
		seed = seed*1664525 + 1013904223
		b[i] = byte(seed >> 24)
	}
	return b
}

// On a machine that has no lanes this compares the standard library with itself, and TestLanesAreUsed says so.
func TestDigestsInLanesAreThoseOfTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(0, 700), 0, 70).Draw(t, "lengths")
		messages := make([][]byte, len(lengths))
		for i, n := range lengths {
			messages[i] = noise(n, uint32(i+1)*2654435761)
		}
		checkEach(t, messages)
	})
}

// Every length around the ends of blocks, where the length of a message does and does not get a block of its own.
func TestDigestsInLanesOfEveryLength(t *testing.T) {
	var messages [][]byte
	for n := range 320 {
		messages = append(messages, noise(n, uint32(n)))
	}
	checkEach(t, messages)
	for n := range 40 {
		checkEach(t, messages[:n])
	}
	checkEach(t, [][]byte{noise(1<<20, 1), noise(3, 2), noise(1<<19+7, 3), {}, noise(1<<20+1, 4), noise(64, 5), noise(128, 6), noise(55, 7), noise(56, 8)})
}

func TestLanesAreUsed(t *testing.T) {
	if !canLanes() || fips140.Enabled() {
		t.Skip("no registers of sixteen lanes here, or no use of them: the standard library does the work")
	}
	for _, c := range []struct{ n, least, want int }{{0, 8, 0}, {7, 8, 0}, {8, 8, 8}, {16, 8, 16}, {23, 8, 16}, {24, 8, 24}, {100, 8, 96}} {
		if got := inLanes(c.n, c.least); got != c.want {
			t.Errorf("of %d messages %d, want %d", c.n, got, c.want)
		}
	}
}

func BenchmarkLanes(b *testing.B) {
	units := make([][]byte, 112)
	for i := range units {
		units[i] = noise(144<<10, uint32(i))
	}
	pieces := make([][]byte, 15)
	for i := range pieces {
		pieces[i] = noise(1<<20, uint32(i))
	}
	b.Run("sha256_units", func(b *testing.B) {
		b.SetBytes(112 * 144 << 10)
		for range b.N {
			sha256Each(units, func(int, [32]byte) {})
		}
	})
	b.Run("sha1_pieces", func(b *testing.B) {
		b.SetBytes(15 << 20)
		for range b.N {
			sha1Each(pieces, func(int, [20]byte) {})
		}
	})
}
