package order

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"astropile/internal/testkit"
)

var update = flag.Bool("update", false, "write testdata/vectors.json anew; only for another version of the order")

type orderVector struct {
	Name      string      `json:"name"`
	Counts    []uint64    `json:"counts"` // of each shard; where Repeat is set, that many times over
	Repeat    int         `json:"repeat"`
	Seed      uint64      `json:"seed"`
	Epoch     uint64      `json:"epoch"`
	Shuffle   Mode        `json:"shuffle"`
	Lanes     uint64      `json:"lanes"`
	Window    uint64      `json:"window"`
	Block     uint64      `json:"block"`
	First     [][2]uint64 `json:"first"`               // [shard, row] at positions 0..
	Positions []uint64    `json:"positions,omitempty"` // some more positions
	Rows      [][2]uint64 `json:"rows,omitempty"`      // and [shard, row] there
	Digest    string      `json:"digest,omitempty"`    // SHA-256 of shard and row, u64 little-endian, at every position
}

type dealVector struct {
	Lanes    uint64     `json:"lanes"`
	Position uint64     `json:"position"`
	Batch    uint64     `json:"batch"`
	Ranks    [][]uint64 `json:"ranks"` // positions of each rank
}

type mixSource struct {
	Counts []uint64 `json:"counts"`
	Weight uint64   `json:"weight"`
	Window uint64   `json:"window"`
	Block  uint64   `json:"block"`
}

type mixVector struct {
	Name      string      `json:"name"`
	Sources   []mixSource `json:"sources"`
	Lanes     uint64      `json:"lanes"`
	Seed      uint64      `json:"seed"`
	Epoch     uint64      `json:"epoch"`
	Stop      string      `json:"stop"`
	Length    uint64      `json:"length,omitempty"` // positions of an epoch that ends with the first source
	First     [][3]uint64 `json:"first"`            // [source, shard, row] at positions 0..
	Positions []uint64    `json:"positions"`        // some more positions
	Rows      [][3]uint64 `json:"rows"`             // and [source, shard, row] there
}

type vectorFile struct {
	Order  int           `json:"order"`
	Keys   [][3]uint64   `json:"keys"` // seed, epoch, key
	Orders []orderVector `json:"orders"`
	Deals  []dealVector  `json:"deals"`
	States []State       `json:"states"`
	Mixes  []mixVector   `json:"mixes"`
}

// vectorInputs is what the vectors are made for; the results are filled in by fill.
func vectorInputs() vectorFile {
	v := vectorFile{
		Order: Version,
		Keys:  [][3]uint64{{0, 0}, {0, 1}, {1, 0}, {1<<64 - 1, 12345}},
		Orders: []orderVector{
			{Name: "one row", Counts: []uint64{0, 1, 0}, Repeat: 1, Lanes: 960, Window: 4, Block: 1},
			{Name: "fewer rows than lanes", Counts: []uint64{5, 0, 8}, Repeat: 1, Seed: 3, Lanes: 960, Window: 4, Block: 1},
			{Name: "uneven shards", Counts: []uint64{100, 0, 1, 57, 6, 300}, Repeat: 1, Seed: 42, Lanes: 12, Window: 28, Block: 7},
			{Name: "uneven shards, next epoch", Counts: []uint64{100, 0, 1, 57, 6, 300}, Repeat: 1, Seed: 42, Epoch: 1, Lanes: 12, Window: 28, Block: 7},
			{Name: "only dust", Counts: []uint64{3, 2, 5, 1, 6}, Repeat: 9, Seed: 9, Lanes: 4, Window: 5, Block: 11},
			{Name: "no short block", Counts: []uint64{64, 32}, Repeat: 3, Seed: 1 << 63, Epoch: 7, Lanes: 6, Window: 16, Block: 8},
			{Name: "by rows", Counts: []uint64{40, 1, 77}, Repeat: 1, Seed: 5, Shuffle: ShuffleRows, Lanes: 960, Window: 4, Block: 1},
			{Name: "off", Counts: []uint64{40, 0, 77, 3}, Repeat: 1, Seed: 5, Epoch: 2, Shuffle: ShuffleOff, Lanes: 1, Window: 1, Block: 1},
			{Name: "defaults", Counts: []uint64{1700, 1800, 0, 1651}, Repeat: 100, Seed: 2026, Epoch: 3, Lanes: 960, Window: 28, Block: 7},
			{Name: "more than 65,536 blocks", Counts: []uint64{1001, 999, 3}, Repeat: 200, Seed: 77, Lanes: 960, Window: 12, Block: 3},
			{Name: "windows of more than 65,536 rows", Counts: []uint64{90001, 80000}, Repeat: 1, Seed: 78, Epoch: 1, Lanes: 2, Window: 70000, Block: 64},
			{Name: "a billion rows", Counts: []uint64{10000}, Repeat: 100000, Seed: 1, Lanes: 960, Window: 28, Block: 7},
		},
		Deals: []dealVector{
			{Lanes: 960, Position: 0, Batch: 4, Ranks: make([][]uint64, 3)},
			{Lanes: 960, Position: 955, Batch: 4, Ranks: make([][]uint64, 7)},
			{Lanes: 12, Position: 31, Batch: 9, Ranks: make([][]uint64, 5)},
			{Lanes: 1, Position: 10, Batch: 5, Ranks: make([][]uint64, 3)},
			{Lanes: 6, Position: 1, Batch: 2, Ranks: make([][]uint64, 8)},
		},
		Mixes: []mixVector{
			{Name: "0.7 and 0.3", Lanes: 12, Seed: 42, Stop: "never", Sources: []mixSource{{[]uint64{500, 0, 411}, 7, 28, 7}, {[]uint64{300, 299, 301}, 3, 12, 3}}},
			{Name: "a small source, repeated", Lanes: 6, Seed: 7, Stop: "never", Sources: []mixSource{{[]uint64{1000, 77}, 1, 4, 1}, {[]uint64{5, 2}, 1, 4, 1}, {[]uint64{1}, 2, 4, 1}}},
			{Name: "until the first ends", Lanes: 15, Seed: 3, Epoch: 2, Stop: "first", Sources: []mixSource{{[]uint64{800, 30}, 5, 20, 5}, {[]uint64{1500}, 2, 16, 4}, {[]uint64{400, 400, 3}, 1, 8, 2}}},
			{Name: "one source", Lanes: 4, Seed: 9, Epoch: 1, Stop: "first", Sources: []mixSource{{[]uint64{100, 9}, 3, 12, 3}}},
			{Name: "the defaults' lanes", Lanes: 960, Seed: 2026, Stop: "never", Sources: []mixSource{{[]uint64{90000, 81234}, 600, 8, 2}, {[]uint64{70001}, 399, 4, 1}, {[]uint64{3000}, 1, 4, 1}}},
		},
	}
	return v
}

func (v *orderVector) counts() []uint64 { return slices.Repeat(v.Counts, v.Repeat) }

func fill(t *testing.T, v *vectorFile) {
	t.Helper()
	for i := range v.Keys {
		v.Keys[i][2] = epochKey(v.Keys[i][0], v.Keys[i][1])
	}
	for i := range v.Orders {
		o := &v.Orders[i]
		l, err := NewLayout(o.counts(), Params{o.Lanes, o.Window, o.Block, o.Seed, o.Shuffle})
		if err != nil {
			t.Fatal(err)
		}
		e := l.Epoch(o.Epoch)
		pair := func(p uint64) [2]uint64 {
			r := e.At(p)
			return [2]uint64{uint64(r.Shard), r.Index}
		}
		for p := uint64(0); p < min(16, l.Rows()); p++ {
			o.First = append(o.First, pair(p))
		}
		if l.Rows() > 1000 {
			for k := range uint64(40) {
				p := k * (l.Rows() - 1) / 39
				o.Positions = append(o.Positions, p)
				o.Rows = append(o.Rows, pair(p))
			}
		}
		if l.Rows() <= 1_000_000 {
			h := sha256.New()
			var word [16]byte
			for _, r := range e.Batch(nil, 0, int(l.Rows())) {
				binary.LittleEndian.PutUint64(word[:8], uint64(r.Shard))
				binary.LittleEndian.PutUint64(word[8:], r.Index)
				h.Write(word[:])
			}
			o.Digest = hex.EncodeToString(h.Sum(nil))
		}
		if o.Name == "uneven shards" {
			v.States = append(v.States, NewState(l, 3, "00ff", SelectionDigest(o.counts(), nil), o.Epoch, 44))
		}
	}
	for i := range v.Mixes {
		fillMix(t, &v.Mixes[i])
	}
	for i := range v.Deals {
		d := &v.Deals[i]
		for r := range d.Ranks {
			d.Ranks[r] = RankPositions(nil, d.Lanes, d.Position, d.Batch, uint64(r), uint64(len(d.Ranks)))
		}
	}
}

func fillMix(t *testing.T, v *mixVector) {
	t.Helper()
	var parts []*Layout
	var weights []uint64
	for _, x := range v.Sources {
		l, err := NewLayout(x.Counts, Params{Lanes: v.Lanes, Window: x.Window, Block: x.Block, Seed: v.Seed})
		if err != nil {
			t.Fatal(err)
		}
		parts, weights = append(parts, l), append(weights, x.Weight)
	}
	m, err := NewMix(parts, weights, map[string]End{"never": EndNever, "first": EndFirst}[v.Stop])
	if err != nil {
		t.Fatal(err)
	}
	c := m.Cursor(v.Epoch)
	at := func(p uint64) [3]uint64 {
		i, r := c.At(p)
		return [3]uint64{uint64(i), uint64(r.Shard), r.Index}
	}
	most := uint64(50_000)
	if v.Stop == "first" {
		v.Length = m.Rows()
		most = m.Rows()
	}
	for p := range uint64(32) {
		v.First = append(v.First, at(p))
	}
	for k := range uint64(60) {
		p := k * (most - 1) / 59
		v.Positions = append(v.Positions, p)
		v.Rows = append(v.Rows, at(p))
	}
}

func TestTheOrderIsTheOneOfThePublishedVectors(t *testing.T) {
	v := vectorInputs()
	fill(t, &v)
	got, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(oneLineArrays(got), '\n')
	name := filepath.Join("testdata", "vectors.json")
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		var was vectorFile
		if err := json.Unmarshal(want, &was); err != nil {
			t.Fatal(err)
		}
		for i, o := range v.Orders {
			if i >= len(was.Orders) || o.Digest != was.Orders[i].Digest || !slices.Equal(o.Rows, was.Orders[i].Rows) || !slices.Equal(o.First, was.Orders[i].First) {
				t.Errorf("vector %q differs", o.Name)
			}
		}
		for i, m := range v.Mixes {
			if i >= len(was.Mixes) || m.Length != was.Mixes[i].Length || !slices.Equal(m.Rows, was.Mixes[i].Rows) || !slices.Equal(m.First, was.Mixes[i].First) {
				t.Errorf("mix %q differs", m.Name)
			}
		}
		t.Errorf("%s differs: this is another order, and needs another version", name)
	}
}

func TestASecondReadingOfTheDefinitionAgrees(t *testing.T) {
	if testing.Short() {
		t.Skip("recomputes a million positions in Python")
	}
	out, err := exec.Command(testkit.Python(t), filepath.Join("testdata", "check.py")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// oneLineArrays joins the lines of arrays of numbers, which MarshalIndent spreads out.
func oneLineArrays(in []byte) []byte {
	var out []byte
	depth, text := 0, false
	for i, c := range in {
		switch {
		case c == '"' && in[i-1] != '\\':
			text = !text
		case text:
		case c == '[' && depth == 0 && !opensObjects(in[i+1:]), c == '[' && depth > 0:
			depth++
		case c == ']' && depth > 0:
			depth--
		case depth > 0 && (c == ' ' || c == '\n'):
			continue
		}
		out = append(out, c)
	}
	return out
}

func opensObjects(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \n")
	return len(rest) > 0 && rest[0] == '{'
}
