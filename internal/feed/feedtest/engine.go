package feedtest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"

	"astropile/internal/catalog"
	"astropile/internal/feed"
	"astropile/internal/shard"
	"astropile/internal/stream"
)

// Config says what the made-up dataset is, and which faults it has.
type Config struct {
	Rows     int64  `json:"rows"`
	Side     int    `json:"side"`      // images are float32 [2, side, side]
	DieAt    int64  `json:"die_at"`    // calls Die before this batch, counted from 1 over the engine's life
	Once     string `json:"once"`      // a file that Die makes: where it exists already, nothing dies
	FailAt   int64  `json:"fail_at"`   // gives an error instead of this batch
	Hang     bool   `json:"hang"`      // reads wait for the end of their context
	Shards   int    `json:"shards"`    // 0 is 1
	Maps     string `json:"maps"`      // folder of the files that Map tells of, relative to the root of the file system
	PageRows int64  `json:"page_rows"` // rows of a page in them; 0 is 1
}

// Columns are the columns of the dataset: one of each kind.
func Columns(side int) []catalog.Column {
	return []catalog.Column{
		{Name: "id", Kind: catalog.Scalar, DType: catalog.String},
		{Name: "row", Kind: catalog.Scalar, DType: catalog.Int64},
		{Name: "z", Kind: catalog.Scalar, DType: catalog.Float32, Nullable: true, Unit: "1"},
		{Name: "flag", Kind: catalog.Scalar, DType: catalog.Bool},
		{Name: "note", Kind: catalog.Scalar, DType: catalog.String, Nullable: true},
		{Name: "tags", Kind: catalog.List, DType: catalog.Int32, Nullable: true},
		{Name: "words", Kind: catalog.List, DType: catalog.String},
		{Name: "lightcurve", Kind: catalog.Struct, Members: []catalog.Column{
			{Name: "band", Kind: catalog.List, DType: catalog.String},
			{Name: "time", Kind: catalog.List, DType: catalog.Float64, Unit: "d"}}},
		{Name: "phase", Kind: catalog.Tensor, DType: catalog.Complex64, Shape: []int{}},
		{Name: "wave", Kind: catalog.Tensor, DType: catalog.Float32, Shape: []int{16}, Unit: "Angstrom"},
		{Name: "image", Kind: catalog.Tensor, DType: catalog.Float32, Shape: []int{2, side, side}},
	}
}

// Engine implements feed.Engine on made-up rows.
type Engine struct {
	Config
	Die     func() // what DieAt calls
	cols    []catalog.Column
	names   []string
	batches atomic.Int64
	memory  int64
}

// Open is a feed.Opener: the root is a Config in JSON.
func Open(die func()) feed.Opener {
	return func(_ context.Context, q feed.Request) (feed.Engine, error) {
		opt := q.Sources[0]
		e := &Engine{Die: die, memory: q.Memory}
		if err := json.Unmarshal([]byte(opt.Root), &e.Config); err != nil {
			return nil, fmt.Errorf("feedtest: the root is no configuration: %w", err)
		}
		e.Shards, e.PageRows = max(e.Shards, 1), max(e.PageRows, 1)
		all := Columns(max(e.Side, 1))
		sel := opt.Columns
		if sel == nil {
			for _, c := range all {
				sel = append(sel, stream.Select{As: c.Name, Name: c.Name})
			}
		}
		for _, s := range sel {
			found := false
			for _, c := range all {
				if c.Name == s.Name {
					found = true
					c.Name = s.As
					e.cols, e.names = append(e.cols, c), append(e.names, s.Name)
				}
			}
			if !found {
				return nil, fmt.Errorf("feedtest: no column %q", s.Name)
			}
		}
		return e, nil
	}
}

// Memory leaves three quarters for slots.
func (e *Engine) Memory() feed.Memory {
	return feed.Memory{All: e.memory, Slots: e.memory - e.memory/4, Decoded: e.memory / 4}
}

// Describe describes the dataset as release 2 of 2.
func (e *Engine) Describe() *feed.Description {
	return &feed.Description{Name: "made-up", Root: "/", Columns: e.cols, Rows: e.Rows, Epoch: uint64(e.Rows), Bytes: e.Rows * 100, Release: 2, ID: "b",
		Sources:  []feed.SourceInfo{{Root: "/", Name: "made-up", Release: 2, ID: "b", Rows: e.Rows}},
		Releases: []stream.ReleaseInfo{{Number: 1, ID: "a", Rows: e.Rows / 2}, {Number: 2, ID: "b", Rows: e.Rows}}}
}

// ShardRows cuts the rows into equal shards, the last one longer.
func (e *Engine) ShardRows() []int64 {
	out := make([]int64, e.Shards)
	for i := range out {
		out[i] = e.Rows / int64(e.Shards)
	}
	out[e.Shards-1] += e.Rows % int64(e.Shards)
	return out
}

// Chosen says that every row is selected.
func (e *Engine) Chosen(int) ([]int64, error) { return nil, nil }

// State has none.
func (e *Engine) State(stream.StreamOptions) (stream.State, error) {
	return stream.State{}, errors.New("feedtest: no checkpoints")
}

// Close does nothing.
func (e *Engine) Close() error { return nil }

// MapGap is the number of bytes before the values of each page of a mapped file.
const MapGap = 64

// Map tells where the rows of "image" stand in the files "<Maps>/<shard>.bin", which a test writes: pages of PageRows
// rows, MapGap bytes before each. "wave" is constant; nothing else maps.
func (e *Engine) Map(_ context.Context, column string, index int) (*stream.MapTable, error) {
	var c *catalog.Column
	for i := range e.cols {
		if e.cols[i].Name == column {
			c, column = &e.cols[i], e.names[i]
			break
		}
	}
	shards := e.ShardRows()
	if c == nil || index < 0 || index >= len(shards) {
		return nil, fmt.Errorf("feedtest: no column %q or shard %d", column, index)
	}
	t := &stream.MapTable{Path: fmt.Sprintf("%s/%d.bin", e.Maps, index), Rows: shards[index]}
	switch column {
	case "wave":
		w := &writer{}
		s := section(w, *c, column, []int64{0})
		t.Constant, t.Value, t.First = true, w.b[s.Values.Off:][:s.Values.Len], []int64{0, t.Rows}
	case "image":
		at := int64(0)
		for row := int64(0); row < t.Rows; row += e.PageRows {
			at += MapGap
			t.First, t.Offsets = append(t.First, row), append(t.Offsets, at)
			at += min(e.PageRows, t.Rows-row) * int64(c.RowBytes())
		}
		t.First = append(t.First, t.Rows)
	default:
		return nil, fmt.Errorf("feedtest: column %q: %w", column, shard.ErrNotMapped)
	}
	return t, nil
}

// Read fills the slot with the rows.
func (e *Engine) Read(ctx context.Context, rows []int64, slot stream.Slot) (*stream.Layout, error) {
	if e.Hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, r := range rows {
		if r < 0 || r >= e.Rows {
			return nil, fmt.Errorf("feedtest: row %d of %d", r, e.Rows)
		}
	}
	w := &writer{}
	lay := &stream.Layout{Rows: len(rows)}
	for i, c := range e.cols {
		lay.Columns = append(lay.Columns, section(w, c, e.names[i], rows))
	}
	lay.Bytes = len(w.b)
	if err := slot.Grow(lay.Bytes); err != nil {
		return nil, err
	}
	copy(slot.Bytes(), w.b)
	return lay, nil
}

// RowAt is the row at a position of an epoch: a fixed affine permutation of the seed and epoch.
func (e *Engine) RowAt(opt stream.StreamOptions, position int64) int64 {
	if opt.Shuffle == stream.Off {
		return position
	}
	step := int64(1)
	for _, p := range []int64{7919, 104729, 1299709} {
		if e.Rows%p != 0 {
			step = p
			break
		}
	}
	return (position*step + int64(opt.Seed)*31 + int64(opt.Epoch)*17) % e.Rows
}

type batches struct {
	out    chan *stream.Batch
	cancel context.CancelFunc
	done   sync.WaitGroup
	err    error
	pool   stream.SlotPool
}

// Start fills slots ahead as far as the pool gives them.
func (e *Engine) Start(ctx context.Context, opt stream.StreamOptions, pool stream.SlotPool) (feed.Batches, error) {
	if opt.Batch < 1 {
		return nil, errors.New("feedtest: a batch has one row or more")
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &batches{out: make(chan *stream.Batch, 64), cancel: cancel, pool: pool}
	b.done.Add(1)
	go func() {
		defer b.done.Done()
		defer close(b.out)
		b.err = e.run(ctx, opt, pool, b.out)
	}()
	return b, nil
}

func (e *Engine) run(ctx context.Context, opt stream.StreamOptions, pool stream.SlotPool, out chan<- *stream.Batch) error {
	for n := 0; opt.Epochs == 0 || n < opt.Epochs; n++ {
		for p := int64(opt.Position); p < e.Rows; {
			hi := min(p+int64(opt.Batch), e.Rows)
			if opt.DropLast && hi-p < int64(opt.Batch) {
				break
			}
			s, err := pool.Acquire(ctx)
			if err != nil {
				return err
			}
			switch e.batches.Add(1) {
			case e.DieAt:
				if f, err := os.OpenFile(e.Once, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
					_ = f.Close()
					e.Die()
				}
			case e.FailAt:
				pool.Release(s)
				return errors.New("feedtest: the disk is on fire")
			}
			rows := make([]int64, 0, hi-p)
			for i := p; i < hi; i++ {
				rows = append(rows, e.RowAt(opt, i))
			}
			lay, err := e.Read(ctx, rows, s)
			if err != nil {
				pool.Release(s)
				return err
			}
			out <- &stream.Batch{Slot: s, Layout: lay, Epoch: opt.Epoch, Position: uint64(hi), Last: hi == e.Rows}
			p = hi
		}
		opt.Epoch, opt.Position = opt.Epoch+1, 0
	}
	return io.EOF
}

func (b *batches) Next(ctx context.Context) (*stream.Batch, error) {
	select {
	case x, ok := <-b.out:
		if !ok {
			return nil, b.err
		}
		return x, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (b *batches) Close() error {
	b.cancel()
	for x := range b.out {
		b.pool.Release(x.Slot)
	}
	b.done.Wait()
	return nil
}

// writer lays sections out one after the other.
type writer struct{ b []byte }

func (w *writer) add(align int, p []byte) stream.Span {
	for len(w.b)%align != 0 {
		w.b = append(w.b, 0xEE)
	}
	at := len(w.b)
	w.b = append(w.b, p...)
	return stream.Span{Off: int64(at), Len: int64(len(p))}
}

func (w *writer) int64s(x []int64) stream.Span {
	var p []byte
	for _, v := range x {
		p = binary.LittleEndian.AppendUint64(p, uint64(v))
	}
	return w.add(stream.Align, p)
}

// Length is the number of elements of a ragged column in a row.
func Length(row int64) int64 { return row % 5 }

func section(w *writer, c catalog.Column, name string, rows []int64) stream.Section {
	s := stream.Section{Name: c.Name, Kind: c.Kind, DType: c.DType, Shape: c.Shape, Rows: len(rows)}
	var values, valid []byte
	offs := []int64{0}
	le := binary.LittleEndian
	switch name {
	case "id":
		for _, r := range rows {
			values = fmt.Appendf(values, "obj-%d-é", r)
			offs = append(offs, int64(len(values)))
		}
	case "note":
		for _, r := range rows {
			ok := r%3 != 1
			if ok {
				values = fmt.Appendf(values, "note %d", r)
			}
			valid = append(valid, b2u(ok))
			offs = append(offs, int64(len(values)))
		}
	case "row":
		for _, r := range rows {
			values = le.AppendUint64(values, uint64(r))
		}
	case "z":
		for _, r := range rows {
			v := float32(r) / 4
			if r%11 == 5 {
				v = float32(math.NaN())
			}
			if r%7 == 3 {
				v = 0
			}
			valid = append(valid, b2u(r%7 != 3))
			values = le.AppendUint32(values, math.Float32bits(v))
		}
	case "flag":
		for _, r := range rows {
			values = append(values, b2u(r%2 == 1))
		}
	case "tags":
		for _, r := range rows {
			ok := r%4 != 2
			n := Length(r)
			if !ok {
				n = 0
			}
			for k := range n {
				values = le.AppendUint32(values, uint32(r*10+k))
			}
			valid = append(valid, b2u(ok))
			offs = append(offs, offs[len(offs)-1]+n)
		}
	case "phase":
		for _, r := range rows {
			values = le.AppendUint32(values, math.Float32bits(float32(r)))
			values = le.AppendUint32(values, math.Float32bits(-float32(r)))
		}
	case "wave":
		for k := range 16 {
			values = le.AppendUint32(values, math.Float32bits(3600+float32(k)))
		}
		s.Constant = true
	case "image":
		n := c.Elems()
		for _, r := range rows {
			for k := range n {
				values = le.AppendUint32(values, math.Float32bits(float32(r)+float32(k)/float32(n)))
			}
		}
	case "words":
		text(w, &s, rows)
		return s
	case "lightcurve":
		for _, m := range c.Members {
			x := stream.Section{Name: m.Name, Kind: m.Kind, DType: m.DType, Rows: len(rows)}
			if m.DType == catalog.String {
				text(w, &x, rows)
			} else {
				mo, mv := []int64{0}, []byte(nil)
				for _, r := range rows {
					for k := range Length(r) {
						mv = le.AppendUint64(mv, math.Float64bits(float64(r)+float64(k)/8))
					}
					mo = append(mo, mo[len(mo)-1]+Length(r))
				}
				x.Offsets, x.Values = w.int64s(mo), w.add(stream.Align, mv)
			}
			s.Members = append(s.Members, x)
		}
		return s
	}
	if !c.Fixed() {
		s.Offsets = w.int64s(offs)
	}
	align := stream.Align
	if c.Kind == catalog.Tensor {
		align = stream.PageSize
	}
	s.Values = w.add(align, values)
	if valid != nil {
		s.Valid = w.add(stream.Align, valid)
	}
	return s
}

// text writes a list of words: element k of a row is the letter at row+k.
func text(w *writer, s *stream.Section, rows []int64) {
	offs, strs, values := []int64{0}, []int64{0}, []byte(nil)
	for _, r := range rows {
		for k := range Length(r) {
			values = append(values, "grizy"[(r+k)%5])
			strs = append(strs, int64(len(values)))
		}
		offs = append(offs, offs[len(offs)-1]+Length(r))
	}
	s.Offsets, s.StrOffsets, s.Values = w.int64s(offs), w.int64s(strs), w.add(stream.Align, values)
}

func b2u(ok bool) byte {
	if ok {
		return 1
	}
	return 0
}
