package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/order"
	"astropile/internal/query"
)

// ids reads the int64 column "id" of every batch of a stream.
func ids(t *testing.T, st *Stream) (got []int64, batches []*Batch) {
	t.Helper()
	defer func() { _ = st.Close() }()
	for {
		b, err := st.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return got, batches
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Layout.Columns {
			if c := &b.Layout.Columns[i]; c.Name == "id" {
				for r := range c.Rows {
					got = append(got, int64(binary.LittleEndian.Uint64(b.Slot.Bytes()[c.Values.Off+8*int64(r):])))
				}
			}
		}
		st.pool.Release(b.Slot)
		batches = append(batches, b)
	}
}

// numbered is a dataset whose column id counts its rows from first on.
func numbered(t *testing.T, rows, first int) *testRoot {
	cols := []catalog.Column{scalar("id", catalog.Int64), tensor("image", catalog.Float32, 2, 6, 8)}
	r := rand.New(rand.NewPCG(uint64(rows), 1))
	var parts []part
	for lo := 0; lo < rows; lo += 37 {
		n := min(37, rows-lo)
		id := &catalog.Vector{Rows: n, Data: make([]byte, 8*n)}
		image := &catalog.Vector{Rows: n, Data: make([]byte, n*cols[1].RowBytes())}
		for i := range n {
			binary.LittleEndian.PutUint64(id.Data[8*i:], uint64(first+lo+i))
		}
		floatNoise(image.Data, r)
		parts = append(parts, part{rows: n, vectors: []*catalog.Vector{id, image}})
	}
	half := (len(parts) + 1) / 2
	return newRoot(t, cols, true, parts[:half], parts[half:])
}

// only keeps the rows of a set for which keep says true: what a selection does.
func only(t *testing.T, s *Set, keep func(row int) bool) {
	t.Helper()
	rows, err := query.Select(context.Background(), s.table(), query.Selection{}, query.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rows, err = rows.Keep(func(x uint64) bool { return keep(int(x)) }); err != nil {
		t.Fatal(err)
	}
	s.take(rows)
}

func TestASelectionStreamsItsRowsOnceAnEpochWhateverTheRanks(t *testing.T) {
	tr := numbered(t, 500, 0)
	keep := func(row int) bool { return row%3 == 1 || row > 450 }
	var want []int64
	for row := range 500 {
		if keep(row) {
			want = append(want, int64(row))
		}
	}
	for _, world := range []int{1, 2, 3, 7} {
		for _, mode := range []Mode{Off, Blocks, Rows} {
			var all []int64
			steps := -1
			for rank := range world {
				s := tr.open(t, SetOptions{})
				only(t, s, keep)
				got, batches := ids(t, s.Stream(context.Background(), StreamOptions{Batch: 9, Shuffle: mode, Seed: 4, Epochs: 1, Rank: rank, World: world}, NewPool(3)))
				if steps >= 0 && len(batches) != steps {
					t.Fatalf("world %d: rank %d has %d batches, others %d", world, rank, len(batches), steps)
				}
				steps = len(batches)
				i := 0
				for _, b := range batches {
					for r := range b.Layout.Rows {
						if b.Valid == nil || b.Valid[r] {
							all = append(all, got[i])
						}
						i++
					}
				}
			}
			if mode == Off && world == 1 && !slices.Equal(all, want) {
				t.Fatalf("in order: %v", all)
			}
			slices.Sort(all)
			if !slices.Equal(all, want) {
				t.Fatalf("world %d, %v: %d rows, want %d", world, mode, len(all), len(want))
			}
		}
	}
	// Rows by number are those of the selection.
	s := tr.open(t, SetOptions{})
	only(t, s, keep)
	var m Memory
	l, err := s.Read(context.Background(), []int64{0, 5, s.Rows() - 1}, &m)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range []int64{want[0], want[5], want[len(want)-1]} {
		if got := int64(binary.LittleEndian.Uint64(m.Bytes()[l.Columns[0].Values.Off+8*int64(i):])); got != row {
			t.Errorf("row %d: %d, want %d", i, got, row)
		}
	}
	if s.Selected(0)[0] != 1 {
		t.Error(s.Selected(0))
	}
}

func TestAStateGoesOnAtAnotherWorldSizeAndRefusesAnotherOrder(t *testing.T) {
	tr := numbered(t, 700, 0)
	keep := func(row int) bool { return row%2 == 0 }
	set := func() *Set {
		s := tr.open(t, SetOptions{})
		only(t, s, keep)
		return s
	}
	s := set()
	opt := StreamOptions{Batch: 10, Shuffle: Blocks, Seed: 7, Epochs: 1}
	whole, _ := ids(t, s.Stream(context.Background(), opt, NewPool(2)))
	at := opt
	at.Position = 120
	state, err := s.View().State(at)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := state.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 600 {
		t.Errorf("a state of %d bytes", len(raw))
	}
	back, err := DecodeState(raw)
	if err != nil {
		t.Fatal(err)
	}
	var rest []int64
	for rank := range 3 {
		go_on := StreamOptions{Batch: 4, Shuffle: Blocks, Seed: 7, Epochs: 1, Rank: rank, World: 3, State: &back}
		got, batches := ids(t, set().Stream(context.Background(), go_on, NewPool(2)))
		i := 0
		for _, b := range batches {
			for r := range b.Layout.Rows {
				if b.Valid == nil || b.Valid[r] {
					rest = append(rest, got[i])
				}
				i++
			}
		}
	}
	want := slices.Clone(whole[120:])
	slices.Sort(want)
	slices.Sort(rest)
	if !slices.Equal(rest, want) {
		t.Fatalf("%d rows after the state, want %d", len(rest), len(want))
	}
	for name, c := range map[string]struct {
		set *Set
		opt StreamOptions
		say string
	}{
		"seed":      {set(), StreamOptions{Batch: 4, Shuffle: Blocks, Seed: 8, State: &back}, "seed"},
		"shuffle":   {set(), StreamOptions{Batch: 4, Shuffle: Rows, Seed: 7, State: &back}, "shuffle"},
		"selection": {tr.open(t, SetOptions{}), StreamOptions{Batch: 4, Shuffle: Blocks, Seed: 7, State: &back}, "selection"},
		"release":   {tr.open(t, SetOptions{Release: 1}), StreamOptions{Batch: 4, Shuffle: Blocks, Seed: 7, State: &back}, "release"},
	} {
		st := c.set.Stream(context.Background(), c.opt, NewPool(2))
		_, err := st.Next(context.Background())
		_ = st.Close()
		if !errors.Is(err, order.ErrStateDiffers) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAMixKeepsProportionsAndEachSourcesOrder(t *testing.T) {
	a, b, c := numbered(t, 600, 0), numbered(t, 200, 10_000), numbered(t, 90, 20_000)
	mix := func(end order.End) *View {
		v, err := Mix([]Source{{a.open(t, SetOptions{}), 5, "a"}, {b.open(t, SetOptions{}), 3, "b"}, {c.open(t, SetOptions{}), 2, "c"}}, end)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := mix(order.EndNever)
	if v.Rows() != 890 {
		t.Fatal(v.Rows())
	}
	st := v.Stream(context.Background(), StreamOptions{Batch: 100, Shuffle: Blocks, Seed: 1}, NewPool(2))
	count, seen := map[int]int{}, map[int64]int{}
	for range 40 {
		x, err := st.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		sec := x.Layout.Columns[0]
		for r := range x.Layout.Rows {
			id := int64(binary.LittleEndian.Uint64(x.Slot.Bytes()[sec.Values.Off+8*int64(r):]))
			if int(id/10_000) != int(x.Sources[r]) {
				t.Fatalf("row %d is said to be of source %d", id, x.Sources[r])
			}
			count[int(x.Sources[r])]++
			seen[id]++
		}
		st.pool.Release(x.Slot)
	}
	_ = st.Close()
	for i, share := range []float64{0.5, 0.3, 0.2} {
		if math.Abs(float64(count[i])-4000*share) > 40 {
			t.Errorf("source %d came %d times of 4000", i, count[i])
		}
	}
	for id := int64(20_000); id < 20_090; id++ {
		if seen[id] == 0 { // 800 rows of a source of 90
			t.Errorf("row %d of the smallest source did not come", id)
		}
	}
	// A state of a mix goes on in the same sequence.
	opt := StreamOptions{Batch: 50, Shuffle: Blocks, Seed: 1}
	first := v.Stream(context.Background(), opt, NewPool(2))
	var sequence []int64
	for range 6 {
		x, err := first.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		sec := x.Layout.Columns[0]
		for r := range x.Layout.Rows {
			sequence = append(sequence, int64(binary.LittleEndian.Uint64(x.Slot.Bytes()[sec.Values.Off+8*int64(r):])))
		}
		first.pool.Release(x.Slot)
	}
	_ = first.Close()
	opt.Position = 150
	state, err := v.State(opt)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := state.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeState(raw)
	if err != nil {
		t.Fatal(err)
	}
	next := mix(order.EndNever).Stream(context.Background(), StreamOptions{Batch: 30, Shuffle: Blocks, Seed: 1, State: &back}, NewPool(2))
	x, err := next.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	sec := x.Layout.Columns[0]
	for r := range 30 {
		if id := int64(binary.LittleEndian.Uint64(x.Slot.Bytes()[sec.Values.Off+8*int64(r):])); id != sequence[150+r] {
			t.Fatalf("row %d after the state is %d, was %d", r, id, sequence[150+r])
		}
	}
	next.pool.Release(x.Slot)
	_ = next.Close()
	bad := bytes.Replace(raw, []byte(`"weights":[5,3,2]`), []byte(`"weights":[5,3,3]`), 1)
	if _, err := DecodeState(bad); !errors.Is(err, order.ErrState) {
		t.Errorf("a changed state: %v", err)
	}
	if err := back.Check(State{Mix: &MixState{Weights: []uint64{1, 1, 1}, Sources: back.Mix.Sources}}); !errors.Is(err, order.ErrStateDiffers) || !strings.Contains(err.Error(), "weights") {
		t.Error(err)
	}
}

func TestPairsHaveTheColumnsOfBothSides(t *testing.T) {
	a, b := numbered(t, 120, 0), numbered(t, 90, 10_000)
	sa := a.open(t, SetOptions{})
	sb := b.open(t, SetOptions{Columns: []Select{{As: "other", Name: "id"}}})
	partner := make([]int64, 120)
	for i := range partner {
		partner[i] = int64((7 * i) % 90)
	}
	v, err := Pair(sa, sb, partner, "k")
	if err != nil {
		t.Fatal(err)
	}
	st := v.Stream(context.Background(), StreamOptions{Batch: 16, Shuffle: Blocks, Epochs: 1}, NewPool(2))
	rows := 0
	for {
		x, err := st.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		id, other := x.Layout.Columns[0], x.Layout.Columns[2]
		if id.Name != "id" || other.Name != "other" {
			t.Fatal(id.Name, other.Name)
		}
		for r := range x.Layout.Rows {
			i := binary.LittleEndian.Uint64(x.Slot.Bytes()[id.Values.Off+8*int64(r):])
			o := binary.LittleEndian.Uint64(x.Slot.Bytes()[other.Values.Off+8*int64(r):])
			if o != 10_000+(7*i)%90 {
				t.Fatalf("row %d is paired with %d", i, o)
			}
		}
		rows += x.Layout.Rows
		st.pool.Release(x.Slot)
	}
	_ = st.Close()
	if rows != 120 {
		t.Fatal(rows)
	}
	if _, err := Pair(sa, b.open(t, SetOptions{}), partner, "k"); !errors.Is(err, ErrSelect) || !strings.Contains(err.Error(), "rename") {
		t.Error(err)
	}
}

func TestTransformsGiveWhatTheWholeRowWouldGive(t *testing.T) {
	tr := numbered(t, 90, 0)
	raw := tr.vectors[1].Data // float32 [2, 6, 8]
	at := func(row, b, y, x int) float32 {
		return math.Float32frombits(binary.LittleEndian.Uint32(raw[4*(((row*2+b)*6+y)*8+x):]))
	}
	for name, c := range map[string]struct {
		t     Transform
		shape []int
		value func(row, b, y, x int) float64
		dtype catalog.DType
	}{
		"crop":          {Transform{Crop: []int{4, 4}}, []int{2, 4, 4}, func(r, b, y, x int) float64 { return float64(at(r, b, y+1, x+2)) }, catalog.Float32},
		"crop of rows":  {Transform{Crop: []int{2, 8}}, []int{2, 2, 8}, func(r, b, y, x int) float64 { return float64(at(r, b, y+2, x)) }, catalog.Float32},
		"bands":         {Transform{Bands: []int{1}}, []int{1, 6, 8}, func(r, _, y, x int) float64 { return float64(at(r, 1, y, x)) }, catalog.Float32},
		"bands swapped": {Transform{Bands: []int{1, 0, 1}}, []int{3, 6, 8}, func(r, b, y, x int) float64 { return float64(at(r, []int{1, 0, 1}[b], y, x)) }, catalog.Float32},
		"normalised": {Transform{Subtract: []float64{0.5, 0.25}, Divide: []float64{2}}, []int{2, 6, 8}, func(r, b, y, x int) float64 {
			return float64(float32((float64(at(r, b, y, x)) - []float64{0.5, 0.25}[b]) / 2))
		}, catalog.Float32},
		"float64": {Transform{DType: "float64", Divide: []float64{3}}, []int{2, 6, 8}, func(r, b, y, x int) float64 { return float64(at(r, b, y, x)) / 3 }, catalog.Float64},
		"everything": {Transform{Bands: []int{1}, Crop: []int{2, 2}, Subtract: []float64{1}, DType: "float16"}, []int{1, 2, 2}, func(r, _, y, x int) float64 {
			return catalog.HalfToFloat(catalog.FloatToHalf(float64(at(r, 1, y+2, x+3)) - 1))
		}, catalog.Float16},
		"bfloat16":       {Transform{DType: bfloat16}, []int{2, 6, 8}, func(r, b, y, x int) float64 { return float64(toBfloat16(at(r, b, y, x))) }, catalog.Uint16},
		"only the dtype": {Transform{DType: "float16"}, []int{2, 6, 8}, func(r, b, y, x int) float64 { return catalog.HalfToFloat(catalog.FloatToHalf(float64(at(r, b, y, x)))) }, catalog.Float16},
	} {
		s := tr.open(t, SetOptions{Columns: []Select{{Name: "image", Transform: c.t}}})
		col := s.Columns()[0]
		if !slices.Equal(col.Shape, c.shape) || col.DType != c.dtype {
			t.Fatalf("%s: %v of %s", name, col.Shape, col.DType)
		}
		var rows []int64
		for r := int64(s.Rows()) - 1; r >= 0; r -= 2 {
			rows = append(rows, r)
		}
		var m Memory
		l, err := s.Read(context.Background(), rows, &m)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		get := getter(c.dtype, m.Bytes()[l.Columns[0].Values.Off:])
		i := 0
		for _, r := range rows {
			for b := range c.shape[0] {
				for y := range c.shape[1] {
					for x := range c.shape[2] {
						if got, want := get(i), c.value(int(r), b, y, x); got != want {
							t.Fatalf("%s: row %d [%d, %d, %d]: %v, want %v", name, r, b, y, x, got, want)
						}
						i++
					}
				}
			}
		}
		if name == "bfloat16" && l.Columns[0].Format != bfloat16 {
			t.Error("the layout does not say bfloat16")
		}
	}
	for name, x := range map[string]Transform{
		"band 2":   {Bands: []int{2}},
		"no band":  {Bands: []int{}},
		"too wide": {Crop: []int{9}},
		"too deep": {Crop: []int{1, 1, 1, 1}},
		"dtype":    {DType: "int8"},
		"zero":     {Divide: []float64{0}},
		"three":    {Subtract: []float64{1, 2, 3}},
		"NaN":      {Subtract: []float64{math.NaN()}},
	} {
		src := tr.open(t, SetOptions{})
		_ = src
		if _, err := newTransform(&tr.cols[1], &x); !errors.Is(err, ErrSelect) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := newTransform(&tr.cols[0], &Transform{DType: "float32"}); !errors.Is(err, ErrSelect) {
		t.Error("a scalar was cast")
	}
}

func TestHalvesAndBfloatsRoundToTheNearest(t *testing.T) {
	for h := range 1 << 16 {
		f := catalog.HalfToFloat(uint16(h))
		if f != f {
			continue
		}
		if got := catalog.FloatToHalf(f); got != uint16(h) {
			t.Fatalf("%#04x: %v came back as %#04x", h, f, got)
		}
		if next := catalog.HalfToFloat(uint16(h + 1)); h&0x7fff < 0x7bff && !math.IsInf(next, 0) {
			// Half way, ties go to the even one; a little more goes up.
			mid := (f + next) / 2
			even := uint16(h + h&1)
			if got := catalog.FloatToHalf(mid); got != even {
				t.Fatalf("%v between %#04x and the next rounds to %#04x", mid, h, got)
			}
			if got := catalog.FloatToHalf(math.Nextafter(mid, next)); got != uint16(h+1) {
				t.Fatalf("above the middle after %#04x: %#04x", h, got)
			}
		}
	}
	for _, f := range []float32{0, 1, -1.5, 3.14159, 1e-40, 3e38, float32(math.Inf(1))} {
		got := math.Float32frombits(uint32(toBfloat16(f)) << 16)
		if math.Abs(float64(got-f)) > math.Abs(float64(f))/256 && f > 1e-38 {
			t.Errorf("%v became %v", f, got)
		}
	}
	if b := toBfloat16(float32(math.NaN())); b&0x7f80 != 0x7f80 || b&0x7f == 0 {
		t.Errorf("NaN became %#x", b)
	}
}
