package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"astropile/internal/catalog"
	"astropile/internal/order"
	"astropile/internal/shard"
	"astropile/internal/source"
)

func mustLayout(t testing.TB, s *Set) *order.Layout {
	t.Helper()
	l, err := order.NewLayout(s.Counts(), s.Params(Blocks, 0))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func null(c catalog.Column) catalog.Column { c.Nullable = true; return c }

// everyKind is columns of every kind.
func everyKind() []catalog.Column {
	list := func(name string, d catalog.DType) catalog.Column {
		return catalog.Column{Name: name, Kind: catalog.List, DType: d, Codec: catalog.Zstd}
	}
	zstd := tensor("packed", catalog.Int32, 3, 5)
	zstd.Codec = catalog.Zstd
	return catalog.FileOrder([]catalog.Column{
		scalar("id", catalog.Int64), null(scalar("z", catalog.Float64)), scalar("name", catalog.String), null(scalar("note", catalog.String)), scalar("flag", catalog.Bool),
		list("hits", catalog.Float32), null(list("words", catalog.String)),
		null(catalog.Column{Name: "lc", Kind: catalog.Struct, Members: []catalog.Column{list("band", catalog.String), list("flux", catalog.Float32)}}),
		tensor("image", catalog.Float32, 2, 8, 8), tensor("mask", catalog.Bool, 4, 4), tensor("rgb", catalog.Uint8, 3, 5, 5), tensor("wave", catalog.Float64, 7), zstd,
	})
}

// everyKindRoot has two releases; column wave is constant with one value in the first three shards and another in the fourth.
func everyKindRoot(t testing.TB) *testRoot {
	cols := everyKind()
	wave := slices.IndexFunc(cols, func(c catalog.Column) bool { return c.Name == "wave" })
	first := 0
	make1 := func(rows int, constant byte) part {
		p := randomPart(cols, rows, first, 7)
		first += rows
		if constant > 0 {
			for i := range p.vectors[wave].Data {
				p.vectors[wave].Data[i] = constant
			}
			p.constant = []string{"wave"}
		}
		return p
	}
	return newRoot(t, cols, true, []part{make1(50, 1), make1(1, 1), make1(33, 1)}, []part{make1(41, 2), make1(20, 0)})
}

func TestReadGivesAnyRowsInAnyOrder(t *testing.T) {
	tr := everyKindRoot(t)
	for _, threads := range []int{1, 3} {
		s := tr.open(t, SetOptions{Threads: threads})
		var slot Memory
		r := rand.New(rand.NewPCG(1, 1))
		for n := 0; n < 60; n++ {
			rows := make([]int64, r.IntN(50))
			for i := range rows {
				rows[i] = r.Int64N(s.Rows())
			}
			l, err := s.Read(context.Background(), rows, &slot)
			if err != nil {
				t.Fatal(err)
			}
			if err := tr.checkRows(l, slot.Bytes(), rows); err != nil {
				t.Fatal(err)
			}
			for _, c := range l.Columns {
				if c.Kind == catalog.Tensor && c.Values.Off%PageSize != 0 || c.Values.Off%Align != 0 || c.Offsets.Off%Align != 0 || c.StrOffsets.Off%Align != 0 || c.Valid.Off%Align != 0 {
					t.Fatalf("section %+v is not aligned", c)
				}
			}
		}
	}
}

func TestAConstantColumnIsOneRowWhereAllShardsAgree(t *testing.T) {
	tr := everyKindRoot(t)
	s := tr.open(t, SetOptions{Columns: []Select{{Name: "wave"}}})
	var slot Memory
	for _, c := range []struct {
		rows []int64
		want bool
	}{{[]int64{0, 60, 49, 50}, true}, {[]int64{90, 100}, true}, {[]int64{0, 90}, false}, {[]int64{130}, false}, {[]int64{0, 130}, false}} {
		l, err := s.Read(context.Background(), c.rows, &slot)
		if err != nil {
			t.Fatal(err)
		}
		if l.Columns[0].Constant != c.want {
			t.Errorf("rows %v: constant is %v", c.rows, l.Columns[0].Constant)
		}
	}
}

// collect drains a stream and gives the rows of each batch, found by their id.
func collect(t testing.TB, tr *testRoot, s *Set, opt StreamOptions, pool *slots) (batches [][]int64, last *Batch) {
	t.Helper()
	st := s.Stream(context.Background(), opt, pool)
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
		if !pool.allBack() {
			t.Error("a slot was not given back")
		}
	}()
	for {
		b, err := st.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return batches, last
		}
		if err != nil {
			t.Fatal(err)
		}
		idc := slices.IndexFunc(tr.cols, func(c catalog.Column) bool { return c.Name == "id" })
		var rows []int64
		id := vectorOf(&tr.cols[idc], &b.Layout.Columns[idc], b.Slot.Bytes())
		for i := 0; i < id.Rows; i++ {
			rows = append(rows, int64(id.Data[8*i])|int64(id.Data[8*i+1])<<8)
		}
		if err := tr.checkRows(b.Layout, b.Slot.Bytes(), rows); err != nil {
			t.Fatal(err)
		}
		batches, last = append(batches, rows), b
		pool.Release(b.Slot)
	}
}

func TestAnEpochGivesEveryRowOnceInTheOrderOfTheOrder(t *testing.T) {
	tr := everyKindRoot(t)
	for _, mode := range []Mode{Off, Blocks, Rows} {
		s := tr.open(t, SetOptions{Threads: 2})
		p := s.Params(mode, 9)
		l, err := order.NewLayout(s.Counts(), p)
		if err != nil {
			t.Fatal(err)
		}
		var want []int64
		for e := uint64(3); e < 5; e++ {
			for q := uint64(0); q < l.Rows(); q++ {
				r := l.Epoch(e).At(q)
				want = append(want, s.before[r.Shard]+int64(r.Index))
			}
		}
		batches, last := collect(t, tr, s, StreamOptions{Batch: 16, Shuffle: mode, Seed: 9, Epoch: 3, Epochs: 2}, newSlots(3))
		if got := slices.Concat(batches...); !slices.Equal(got, want) {
			t.Fatalf("%v: other rows, or another order", mode)
		}
		if !last.Last || last.Epoch != 4 || last.Position != l.Rows() {
			t.Errorf("%v: the last batch is %+v", mode, last)
		}
		// From any position on, whatever the batch, the rest is the same.
		batches, _ = collect(t, tr, s, StreamOptions{Batch: 7, Shuffle: mode, Seed: 9, Epoch: 3, Position: 32, Epochs: 2}, newSlots(1))
		if got := slices.Concat(batches...); !slices.Equal(got, want[32:]) {
			t.Fatalf("%v: other rows after position 32", mode)
		}
	}
}

func TestDropLastLeavesOutTheShortBatch(t *testing.T) {
	tr := everyKindRoot(t)
	s := tr.open(t, SetOptions{})
	batches, _ := collect(t, tr, s, StreamOptions{Batch: 50, Shuffle: Off, Epochs: 2, DropLast: true}, newSlots(2))
	if len(batches) != 4 || len(batches[3]) != 50 {
		t.Errorf("%d batches", len(batches))
	}
	if _, err := s.Stream(context.Background(), StreamOptions{Batch: 500, DropLast: true}, newSlots(1)).Next(context.Background()); !errors.Is(err, ErrOptions) {
		t.Error(err)
	}
}

func TestABatchBeyondTheRowsIsAllOfThem(t *testing.T) {
	tr := everyKindRoot(t)
	s := tr.open(t, SetOptions{})
	for _, mode := range []Mode{Off, Blocks, Rows} {
		all, _ := collect(t, tr, s, StreamOptions{Batch: int(s.Rows()), Shuffle: mode, Epochs: 2}, newSlots(2))
		more, last := collect(t, tr, s, StreamOptions{Batch: 1 << 32, Shuffle: mode, Epochs: 2}, newSlots(2))
		if len(more) != 2 || !reflect.DeepEqual(all, more) || !last.Last {
			t.Errorf("shuffle %v: %d batches of %v", mode, len(more), more)
		}
	}
}

func TestRanksShareEachStepEqually(t *testing.T) {
	tr := everyKindRoot(t)
	s := tr.open(t, SetOptions{})
	seen := map[int64]int{}
	steps := -1
	for rank := range 3 {
		st := s.Stream(context.Background(), StreamOptions{Batch: 10, Rank: rank, World: 3, Epochs: 1, Seed: 1}, newSlots(100))
		n := 0
		for {
			b, err := st.Next(context.Background())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
			if b.Layout.Rows != 10 {
				t.Errorf("a batch of %d rows", b.Layout.Rows)
			}
			id := vectorOf(&tr.cols[0], &b.Layout.Columns[0], b.Slot.Bytes())
			for i := 0; i < id.Rows; i++ {
				if b.Valid == nil || b.Valid[i] {
					seen[int64(id.Data[8*i])|int64(id.Data[8*i+1])<<8]++
				}
			}
		}
		if steps >= 0 && n != steps {
			t.Errorf("rank %d has %d batches, others %d", rank, n, steps)
		}
		steps = n
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
	for i := int64(0); i < s.Rows(); i++ {
		if seen[i] != 1 {
			t.Errorf("row %d came %d times", i, seen[i])
		}
	}
}

func goroutinesSettle(t *testing.T, want int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > want; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), want)
		}
	}
}

func TestClosingEarlyLeavesNoGoroutineAndGivesSlotsBack(t *testing.T) {
	tr := everyKindRoot(t)
	s := tr.open(t, SetOptions{Threads: 4})
	before := runtime.NumGoroutine()
	for n := 0; n < 30; n++ {
		ctx, cancel := context.WithCancel(context.Background())
		pool := newSlots(1 + n%4)
		st := s.Stream(ctx, StreamOptions{Batch: 8}, pool)
		for k := 0; k < n%3; k++ {
			b, err := st.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			pool.Release(b.Slot)
		}
		if n%2 == 0 {
			cancel()
			if b, err := st.Next(context.Background()); err == nil {
				pool.Release(b.Slot)
			}
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		if !pool.allBack() {
			t.Fatal("a slot was not given back")
		}
		if _, err := st.Next(context.Background()); err == nil {
			t.Fatal("a closed stream goes on")
		}
		cancel()
	}
	goroutinesSettle(t, before)
}

func TestNextThatWasCancelledLosesNoBatch(t *testing.T) {
	tr := everyKindRoot(t)
	s := tr.open(t, SetOptions{})
	pool := newSlots(2)
	st := s.Stream(context.Background(), StreamOptions{Batch: 9, Shuffle: Off, Epochs: 1}, pool)
	defer func() { _ = st.Close() }()
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	rows := 0
	for {
		b, err := st.Next(gone)
		if errors.Is(err, context.Canceled) {
			b, err = st.Next(context.Background())
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		rows += b.Layout.Rows
		pool.Release(b.Slot)
	}
	if rows != int(s.Rows()) {
		t.Errorf("%d rows of %d", rows, s.Rows())
	}
}

func TestAnErrorNamesShardColumnAndRows(t *testing.T) {
	tr := everyKindRoot(t)
	sh := tr.shards[2]
	p := filepath.Join(tr.dir, sh.Path)
	b, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	r, err := shard.Open(context.Background(), strings.NewReader(string(b)), int64(len(b)), shard.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Column("image")
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Locate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := l.Offsets[0] - 40; i < l.Offsets[0]; i++ {
		b[i] ^= 0x55 // levels
	}
	if err := os.WriteFile(p, b, 0o644); err != nil {
		t.Fatal(err)
	}
	s := tr.open(t, SetOptions{})
	pool := newSlots(2)
	st := s.Stream(context.Background(), StreamOptions{Batch: 20, Shuffle: Off, Epochs: 1}, pool)
	for err == nil {
		var x *Batch
		if x, err = st.Next(context.Background()); err == nil {
			pool.Release(x.Slot)
		}
	}
	for _, want := range []string{sh.Path, `"image"`, "rows"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
	if _, again := st.Next(context.Background()); again == nil || again.Error() != err.Error() {
		t.Errorf("then %v", again)
	}
	if err := st.Close(); err != nil || !pool.allBack() {
		t.Error(err, "or a slot was not given back")
	}
}

func TestReleasesArePinnedByTheirHashes(t *testing.T) {
	ctx := context.Background()
	tr := everyKindRoot(t)
	s := tr.open(t, SetOptions{Release: 1})
	if s.Rows() != 84 || s.ReleaseID() != tr.ids[0] {
		t.Errorf("release 1 has %d rows and id %s", s.Rows(), s.ReleaseID())
	}
	list, err := tr.open(t, SetOptions{}).Releases(ctx)
	if err != nil || len(list) != 2 || list[1].ID != tr.ids[1] || list[0].ID != tr.ids[0] {
		t.Errorf("%+v, %v", list, err)
	}
	src, err := source.NewFile(tr.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		opt  SetOptions
		want error
	}{{SetOptions{Release: 3}, ErrSelect}, {SetOptions{ReleaseID: tr.ids[0]}, ErrMismatch}, {SetOptions{Columns: []Select{{Name: "nope"}}}, ErrSelect},
		{SetOptions{Columns: []Select{{Name: "id"}, {As: "id", Name: "z"}}}, ErrSelect}} {
		if _, err := OpenSet(ctx, src, c.opt); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v", c.opt, err)
		}
	}
	for _, name := range []string{"sky/releases/2/manifest.parquet", "sky/releases/1/release.json"} {
		p := filepath.Join(tr.dir, name)
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		flipped := []byte(strings.Replace(string(b), `"message":"m"`, `"message":"n"`, 1))
		if string(flipped) == string(b) {
			flipped[len(b)/2] ^= 1
		}
		if err := os.WriteFile(p, flipped, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err1 := OpenSet(ctx, src, SetOptions{Release: 1})
		_, err2 := OpenSet(ctx, src, SetOptions{Release: 2})
		if !errors.Is(err1, ErrMismatch) && !errors.Is(err2, ErrMismatch) {
			t.Errorf("%s: %v, %v", name, err1, err2)
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestATailThatWasChangedIsRefused(t *testing.T) {
	tr := everyKindRoot(t)
	sh := tr.shards[0]
	f, err := os.OpenFile(filepath.Join(tr.dir, sh.Path), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], sh.TailOffset+3); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], sh.TailOffset+3); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var slot Memory
	if _, err := tr.open(t, SetOptions{}).Read(context.Background(), []int64{0}, &slot); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
}

func TestMapTellsWhereRowsAreOrWhyNot(t *testing.T) {
	ctx := context.Background()
	tr := everyKindRoot(t)
	s := tr.open(t, SetOptions{Columns: []Select{{As: "flux", Name: "image"}, {Name: "rgb"}, {Name: "mask"}, {Name: "packed"}, {Name: "name"}, {Name: "wave"}, {Name: "hits"}}})
	for _, name := range []string{"flux", "rgb"} {
		k := slices.IndexFunc(tr.cols, func(c catalog.Column) bool { return c.Name == map[string]string{"flux": "image", "rgb": "rgb"}[name] })
		rb := tr.cols[k].RowBytes()
		row := 0
		for i := range s.Shards() {
			m, err := s.Map(ctx, name, i)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(tr.dir, m.Path))
			if err != nil {
				t.Fatal(err)
			}
			for p := range m.Offsets {
				n := int(m.First[p+1] - m.First[p])
				if string(b[m.Offsets[p]:int(m.Offsets[p])+n*rb]) != string(tr.vectors[k].Data[row*rb:(row+n)*rb]) {
					t.Fatalf("%s: shard %d, page %d differs", name, i, p)
				}
				row += n
			}
		}
		if row != tr.rows {
			t.Errorf("%s: %d rows of %d", name, row, tr.rows)
		}
	}
	m, err := s.Map(ctx, "wave", 3)
	if err != nil || !m.Constant || len(m.Value) != 56 || m.Value[0] != 2 {
		t.Errorf("%+v, %v", m, err)
	}
	for _, name := range []string{"mask", "packed", "name", "hits"} {
		if _, err := s.Map(ctx, name, 0); !errors.Is(err, shard.ErrNotMapped) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAWithdrawnShardIsFoundWhereItWent(t *testing.T) {
	tr := everyKindRoot(t)
	old := filepath.Join(tr.dir, tr.shards[0].Path)
	now := filepath.Join(tr.dir, "withdrawn", tr.shards[0].Path)
	if err := os.MkdirAll(filepath.Dir(now), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, now); err != nil {
		t.Fatal(err)
	}
	var slot Memory
	l, err := tr.open(t, SetOptions{}).Read(context.Background(), []int64{3}, &slot)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.checkRows(l, slot.Bytes(), []int64{3}); err != nil {
		t.Error(err)
	}
}

func TestMemoryOfCachesStaysWithinItsBudget(t *testing.T) {
	cols := []catalog.Column{scalar("id", catalog.Int64), scalar("name", catalog.String), tensor("image", catalog.Float32, 8)}
	var parts []part
	for i := range 12 {
		parts = append(parts, randomPart(catalog.FileOrder(cols), 100, 100*i, 3))
	}
	tr := newRoot(t, cols, true, parts)
	s := tr.open(t, SetOptions{Memory: 64 << 10, Threads: 2})
	for n := 0; n < 3; n++ {
		batches, _ := collect(t, tr, s, StreamOptions{Batch: 64, Shuffle: Rows, Epochs: 1, Seed: uint64(n)}, newSlots(3))
		if n := len(slices.Concat(batches...)); n != 1200 {
			t.Fatalf("%d rows", n)
		}
		s.chunks.mu.Lock()
		if s.chunks.bytes > s.chunks.budget {
			t.Errorf("chunks hold %d bytes of %d", s.chunks.bytes, s.chunks.budget)
		}
		s.chunks.mu.Unlock()
		s.open.mu.Lock()
		if s.open.bytes > s.open.budget {
			t.Errorf("tails hold %d bytes of %d", s.open.bytes, s.open.budget)
		}
		s.open.mu.Unlock()
	}
}

func TestALayoutSurvivesJSON(t *testing.T) {
	tr := everyKindRoot(t)
	var slot Memory
	l, err := tr.open(t, SetOptions{}).Read(context.Background(), []int64{1, 2}, &slot)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	var back Layout
	if err := json.Unmarshal(b, &back); err != nil || fmt.Sprint(back) != fmt.Sprint(*l) {
		t.Errorf("%v: %s", err, b)
	}
}
