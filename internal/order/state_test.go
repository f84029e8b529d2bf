package order

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func someState(t testing.TB) State {
	t.Helper()
	counts := []uint64{100, 0, 50}
	l, err := NewLayout(counts, Params{Lanes: 960, Window: 28, Block: 7, Seed: 1<<64 - 1})
	if err != nil {
		t.Fatal(err)
	}
	return NewState(l, 12, strings.Repeat("ab", 32), SelectionDigest(counts, nil), 3, 128)
}

func TestAStateComesBackAsItWasAndIsSmall(t *testing.T) {
	s := someState(t)
	raw, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeState(raw)
	if err != nil || got != s {
		t.Fatalf("%+v came back as %+v, %v", s, got, err)
	}
	if len(raw) > 500 || bytes.ContainsRune(raw, '\n') {
		t.Errorf("%d bytes: %s", len(raw), raw)
	}
}

func TestAnyChangeOfAStateIsNoticed(t *testing.T) {
	s := someState(t)
	raw, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		bad := bytes.Clone(raw)
		i := rapid.IntRange(0, len(bad)-1).Draw(t, "at")
		bad[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		// A flipped bit may turn a field's name into another spelling that means the same; then the value must, too.
		if got, err := DecodeState(bad); err == nil && got != s {
			t.Fatalf("byte %d changed: accepted %+v", i, got)
		} else if err != nil && !errors.Is(err, ErrState) {
			t.Fatalf("byte %d changed: %v, want ErrState", i, err)
		}
		if _, err := DecodeState(raw[:i]); !errors.Is(err, ErrState) {
			t.Fatalf("cut at %d: %v, want ErrState", i, err)
		}
	})
	for name, change := range map[string]func(*State){
		"another version":    func(s *State) { s.Order = 2 },
		"beyond the rows":    func(s *State) { s.Position = s.Rows + 1 },
		"no lanes":           func(s *State) { s.Lanes = 0 },
		"off with many rows": func(s *State) { s.Shuffle = ShuffleOff },
	} {
		bad := s
		change(&bad)
		bad.Hash = bad.digest()
		text, err := bad.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeState(text); !errors.Is(err, ErrState) {
			t.Errorf("%s: error %v, want ErrState", name, err)
		}
	}
	if _, err := DecodeState(append(bytes.Clone(raw), "{}"...)); !errors.Is(err, ErrState) {
		t.Errorf("something after the state: %v", err)
	}
	if _, err := DecodeState(make([]byte, maxState+1)); !errors.Is(err, ErrState) {
		t.Errorf("a long state: %v", err)
	}
}

func TestARefusedStateSaysWhatDiffers(t *testing.T) {
	s := someState(t)
	moved := s
	moved.Epoch, moved.Position, moved.Hash = 9, 0, "x"
	if err := s.Check(moved); err != nil {
		t.Errorf("another position: %v", err)
	}
	for word, change := range map[string]func(*State){
		"order version": func(s *State) { s.Order = 2 }, "release is": func(s *State) { s.Release++ }, "release id": func(s *State) { s.ReleaseID = "cd" },
		"number of rows": func(s *State) { s.Rows++ }, "selection": func(s *State) { s.Selection = "" }, "shuffle": func(s *State) { s.Shuffle = ShuffleRows },
		"seed": func(s *State) { s.Seed = 0 }, "block": func(s *State) { s.Block++ }, "lanes": func(s *State) { s.Lanes++ }, "window": func(s *State) { s.Window++ },
	} {
		other := s
		change(&other)
		err := s.Check(other)
		if !errors.Is(err, ErrStateDiffers) || !strings.Contains(err.Error(), word) || strings.Count(err.Error(), ";") != 0 {
			t.Errorf("%s: %v", word, err)
		}
		other.Seed = 77
		if err := s.Check(other); word != "seed" && strings.Count(err.Error(), ";") != 1 {
			t.Errorf("two differences, of %s and seed: %v", word, err)
		}
	}
}

func TestTheSelectionsDigestFollowsTheRowsAlone(t *testing.T) {
	counts := []uint64{3, 0, 2}
	bitmap := func(b ...[]byte) func(int) []byte { return func(i int) []byte { return b[i] } }
	all := SelectionDigest(counts, nil)
	if got := SelectionDigest(counts, bitmap(nil, nil, nil)); got != all {
		t.Error("no bitmaps and empty ones differ")
	}
	seen := map[string]bool{all: true}
	for i, d := range []string{
		SelectionDigest([]uint64{3, 2}, nil), SelectionDigest([]uint64{3, 2, 0}, nil),
		SelectionDigest(counts, bitmap([]byte{7}, nil, nil)), SelectionDigest(counts, bitmap([]byte{11}, nil, nil)), SelectionDigest(counts, bitmap(nil, []byte{7}, nil)),
	} {
		if seen[d] || len(d) != 64 {
			t.Errorf("selection %d has the digest of another, %s", i, d)
		}
		seen[d] = true
	}
}

func TestModesHaveNames(t *testing.T) {
	for _, m := range []Mode{ShuffleBlocks, ShuffleRows, ShuffleOff} {
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back Mode
		if err := json.Unmarshal(raw, &back); err != nil || back != m {
			t.Errorf("%s came back as %v, %v", raw, back, err)
		}
	}
	var m Mode
	if err := m.UnmarshalText([]byte("sometimes")); !errors.Is(err, ErrParams) {
		t.Errorf("an unknown mode: %v", err)
	}
	if _, err := Mode(9).MarshalText(); !errors.Is(err, ErrParams) {
		t.Errorf("mode 9: %v", err)
	}
}

func FuzzDecodeState(f *testing.F) {
	raw, err := someState(f).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"order":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := DecodeState(raw)
		if err != nil {
			return
		}
		again, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeState(again); err != nil || back != s {
			t.Fatalf("%+v came back as %+v, %v", s, back, err)
		}
	})
}
