package stream

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"astropile/internal/catalog"
)

// runBytes is how much of a batch one task reads: enough for long reads, few enough for all threads to have one.
const runBytes = 2 << 20

// runRecords is how many rows of scalars one task writes.
const runRecords = 2 << 10

// spot is where a row of columns that are no tensors stands.
type spot struct {
	chunk *chunk
	row   int32 // of the chunk
}

// vector gives a column of the chunk; it was decoded before.
func (s *spot) vector(k int) *catalog.Vector { return s.chunk.cols[k].v.Load() }

// sidePlan is what one batch needs of the columns of a side that are no tensors.
type sidePlan struct {
	spots   []spot
	missing []*chunk // of which not all columns are decoded
	nulls   bool     // some chunk has nulls
}

// filling is one batch on its way into a slot: first the chunks of the columns that vary in size are found, then they
// are decoded where they are not at hand, then the layout is made and the slot grown, then every column is written.
type filling struct {
	view     *View
	refs     [][]ref // of each side
	slot     Slot
	layout   *Layout
	sides    []sidePlan
	constant []int32 // of each tensor column: class of the value all rows share, or classVaries
	valid    []bool

	sources []uint16

	mu      sync.Mutex
	tasks   []task
	next    int
	running int
	stage   stage
	err     error
	done    chan struct{}

	epoch, position uint64
	last            bool
}

// stage is how far a filling is.
type stage uint8

const (
	finding   stage = iota // what is constant, and which chunks hold the rows
	gathering              // decoded columns of the chunks
	writing
)

// task is one piece of work: a side, a column, or a run of rows of it.
type task struct {
	stage          stage
	side           bool // column is the number of a side: its chunks are found, or its records written
	column, lo, hi int
}

// worker holds what a goroutine needs to run tasks.
type worker struct {
	rows []int64
	buf  []byte
}

// start readies the first stage. The filling can then be worked on by any number of goroutines.
func (f *filling) start(v *View, refs [][]ref, slot Slot) {
	f.view, f.refs, f.slot = v, refs, slot
	f.layout, f.err, f.stage, f.next, f.running = nil, nil, finding, 0, 0
	f.done = make(chan struct{})
	f.tasks = f.tasks[:0]
	if f.sides == nil {
		f.constant = make([]int32, len(v.columns))
		f.sides = make([]sidePlan, len(v.sides))
	}
	for k := range v.columns {
		if v.columns[k].Kind == catalog.Tensor {
			f.tasks = append(f.tasks, task{stage: finding, column: k})
		}
	}
	for i := range v.sides {
		for k := range v.columns {
			if v.columns[k].Kind != catalog.Tensor && v.on[k] == i {
				f.tasks = append(f.tasks, task{stage: finding, side: true, column: i})
				break
			}
		}
	}
}

// take gives a task, or false where there is none at this moment.
func (f *filling) take() (task, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == len(f.tasks) {
		return task{}, false
	}
	t := f.tasks[f.next]
	f.next++
	f.running++
	return t, true
}

// finish notes the end of a task and says whether tasks were added.
func (f *filling) finish(err error) (more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	if err != nil && f.err == nil {
		f.err = err
	}
	if f.err != nil {
		f.next = len(f.tasks)
	}
	if f.running > 0 || f.next < len(f.tasks) {
		return false
	}
	for f.err == nil && f.stage < writing {
		f.stage++
		tasks := f.gatherTasks()
		if f.stage == writing {
			// Growing a slot may take long; others must be free to find no task here meanwhile.
			f.mu.Unlock()
			var err error
			tasks, err = f.place()
			f.mu.Lock()
			f.err = err
		}
		if f.err == nil && len(tasks) > 0 {
			f.tasks, f.next = tasks, 0
			return true
		}
	}
	close(f.done)
	return false
}

// run does one task.
func (f *filling) run(ctx context.Context, w *worker, t task) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.side && t.stage == finding {
		return f.find(ctx, t.column)
	}
	if t.side {
		f.copyRecords(t.column, t.lo, t.hi)
		return nil
	}
	tensor := f.view.columns[t.column].Kind == catalog.Tensor
	switch {
	case t.stage == finding:
		return f.findConstant(ctx, t.column)
	case t.stage == gathering:
		return f.gather(ctx, t.column)
	case tensor:
		return f.readTensor(ctx, w, t)
	}
	f.copyColumn(t.column)
	return nil
}

// gatherTasks are the tasks of the second stage: none where all is decoded.
func (f *filling) gatherTasks() []task {
	tasks := f.tasks[:0]
	for k := range f.view.columns {
		if f.view.columns[k].Kind != catalog.Tensor && len(f.sides[f.view.on[k]].missing) > 0 {
			tasks = append(tasks, task{stage: gathering, column: k})
		}
	}
	return tasks
}

// rows is the number of rows of the batch.
func (f *filling) rows() int { return len(f.refs[0]) }

// column gives the places of a column's rows, and the side they are on.
func (f *filling) column(k int) ([]ref, *side) {
	on := f.view.on[k]
	return f.refs[on], &f.view.sides[on]
}

// findConstant finds out whether all rows of the batch share one value.
func (f *filling) findConstant(ctx context.Context, k int) error {
	f.constant[k] = classVaries
	class, last := int32(classUnknown), -1
	refs, sd := f.column(k)
	for i := range refs {
		if refs[i].shard == last {
			continue
		}
		last = refs[i].shard
		set, shard := sd.at(last)
		c, err := set.classIn(ctx, f.view.local[k], shard)
		if err != nil {
			return f.named(k, err)
		}
		if c == classVaries || class != classUnknown && c != class {
			return nil
		}
		class = c
	}
	if class != classUnknown {
		f.constant[k] = class
	}
	return nil
}

func (f *filling) named(k int, err error) error {
	if isCancel(err) {
		return err
	}
	return fmt.Errorf("column %q: %w", f.view.columns[k].Name, err)
}

// find finds the chunk of every row of a side.
func (f *filling) find(ctx context.Context, i int) error {
	refs, sd, p := f.refs[i], &f.view.sides[i], &f.sides[i]
	p.missing, p.nulls = p.missing[:0], false
	if cap(p.spots) < len(refs) {
		p.spots = make([]spot, len(refs))
	}
	p.spots = p.spots[:len(refs)]
	var set *Set
	var chunks *shardChunks
	last, shard := -1, -1
	var e *chunk
	for i := range refs {
		r := &refs[i]
		if r.shard != last {
			last, e = r.shard, nil
			set, shard = sd.at(last)
			var err error
			if chunks, err = set.chunksOf(ctx, shard); err != nil {
				return err
			}
		}
		if e == nil || r.row < e.lo || r.row >= e.lo+e.rows {
			e = set.chunk(chunks, shard, r.row)
			if e.missing.Load() > 0 {
				p.missing = append(p.missing, e)
			}
			p.nulls = p.nulls || e.nulls.Load()
		}
		p.spots[i] = spot{e, int32(r.row - e.lo)}
	}
	p.nulls = p.nulls || len(p.missing) > 0
	return nil
}

// gather decodes a column of the chunks that lack some.
func (f *filling) gather(ctx context.Context, k int) error {
	for _, e := range f.sides[f.view.on[k]].missing {
		if _, err := e.set.chunks.column(ctx, e, f.view.local[k]); err != nil {
			return f.named(k, err)
		}
	}
	return nil
}

// place makes the layout, grows the slot and readies the second stage.
func (f *filling) place() ([]task, error) {
	v, rows := f.view, f.rows()
	l := &Layout{Rows: rows, Columns: make([]Section, len(v.columns))}
	end := int64(0)
	room := func(n int64, align int64) Span {
		end = (end + align - 1) &^ (align - 1)
		sp := Span{end, n}
		end += n
		return sp
	}
	var tasks []task
	records := make([]bool, len(v.sides))
	for k := range v.columns {
		c := &v.columns[k]
		sec := &l.Columns[k]
		if c.Kind != catalog.Tensor {
			sections(sec, c, &f.sides[v.on[k]], picked{v.local[k], whole}, room)
			if v.recordAt(k) < 0 {
				tasks = append(tasks, task{stage: writing, column: k})
			} else {
				records[v.on[k]] = true
			}
			continue
		}
		rb := c.RowBytes()
		*sec = newSection(c, rows)
		if t := v.sides[v.on[k]].sets[0].changes[v.local[k]]; t != nil {
			sec.Format = t.format
		}
		if f.constant[k] != classVaries {
			sec.Constant = true
			sec.Values = room(int64(rb), PageSize)
			tasks = append(tasks, task{stage: writing, column: k, hi: 1})
			continue
		}
		sec.Values = room(int64(rb)*int64(rows), PageSize)
		step := max(1, runBytes/rb)
		for lo := 0; lo < rows; lo += step {
			tasks = append(tasks, task{stage: writing, column: k, lo: lo, hi: min(lo+step, rows)})
		}
	}
	for i := range records {
		for lo := 0; records[i] && lo < rows; lo += runRecords {
			tasks = append(tasks, task{stage: writing, side: true, column: i, lo: lo, hi: min(lo+runRecords, rows)})
		}
	}
	const maxSlot = 1 << 46
	if end > maxSlot {
		return nil, fmt.Errorf("%w: a batch of %d bytes; take fewer rows", ErrSelect, end)
	}
	l.Bytes = int(end)
	f.layout = l
	if len(f.slot.Bytes()) < l.Bytes {
		if err := f.slot.Grow(l.Bytes); err != nil {
			return nil, fmt.Errorf("a batch of %d rows needs %d bytes: %w", l.Rows, l.Bytes, err)
		}
	}
	if len(f.slot.Bytes()) < l.Bytes {
		return nil, fmt.Errorf("%w: a slot grown to %d bytes holds %d", ErrSelect, l.Bytes, len(f.slot.Bytes()))
	}
	return tasks, nil
}

func newSection(c *catalog.Column, rows int) Section {
	shape := c.Shape
	if shape == nil {
		shape = []int{}
	}
	return Section{Name: c.Name, Kind: c.Kind, DType: c.DType, Shape: shape, Rows: rows}
}

// picked is a column of a set, or a member of it.
type picked struct{ column, member int }

// whole is the column itself.
const whole = -1

func (p picked) of(s *spot) *catalog.Vector {
	v := s.vector(p.column)
	if p.member != whole {
		v = v.Members[p.member]
	}
	return v
}

// anyNull says whether a row is null.
func (p picked) anyNull(d *sidePlan) bool {
	if !d.nulls {
		return false
	}
	for i := range d.spots {
		if p.of(&d.spots[i]).Null(int(d.spots[i].row)) {
			return true
		}
	}
	return false
}

// writeValid says which rows are not null.
func (p picked) writeValid(dst []byte, spots []spot) {
	for i := range spots {
		dst[i] = 1
		if p.of(&spots[i]).Null(int(spots[i].row)) {
			dst[i] = 0
		}
	}
}

// sections lays out a column that is gathered.
func sections(sec *Section, c *catalog.Column, d *sidePlan, p picked, room func(n, align int64) Span) {
	*sec = newSection(c, len(d.spots))
	n := int64(len(d.spots))
	if p.anyNull(d) {
		sec.Valid = room(n, Align)
	}
	if c.Kind == catalog.Struct {
		sec.Members = make([]Section, len(c.Members))
		for m := range c.Members {
			sections(&sec.Members[m], &c.Members[m], d, picked{p.column, m}, room)
		}
		return
	}
	if c.Fixed() {
		sec.Values = room(n*int64(c.RowBytes()), Align)
		return
	}
	elems, text := int64(0), int64(0)
	words := c.Kind == catalog.List && c.DType == catalog.String
	for i := range d.spots {
		s := &d.spots[i]
		v := p.of(s)
		lo, hi := v.Offsets[s.row], v.Offsets[s.row+1]
		elems += hi - lo
		if words {
			text += v.StrOffsets[hi] - v.StrOffsets[lo]
		}
	}
	sec.Offsets = room(8*(n+1), Align)
	switch {
	case words:
		sec.StrOffsets = room(8*(elems+1), Align)
		sec.Values = room(text, Align)
	case c.Kind == catalog.List:
		sec.Values = room(elems*int64(c.DType.Size()), Align)
	default:
		sec.Values = room(elems, Align)
	}
}

// readTensor reads a run of rows of a tensor column straight into the slot.
func (f *filling) readTensor(ctx context.Context, w *worker, t task) error {
	v := f.view
	refs, sd := f.column(t.column)
	local := v.local[t.column]
	sec := &f.layout.Columns[t.column]
	rb := v.columns[t.column].RowBytes()
	dst := f.slot.Bytes()[sec.Values.Off : sec.Values.Off+sec.Values.Len]
	if sec.Constant {
		copy(dst, v.values.of(f.constant[t.column]))
		return nil
	}
	for lo := t.lo; lo < t.hi; {
		numbered := refs[lo].shard
		hi := lo
		w.rows = w.rows[:0]
		for hi < t.hi && refs[hi].shard == numbered {
			w.rows = append(w.rows, refs[hi].row)
			hi++
		}
		s, shard := sd.at(numbered)
		part := dst[lo*rb : hi*rb]
		if class := s.class[local][shard].Load(); class > 0 {
			value := v.values.of(class)
			for len(part) > 0 {
				part = part[copy(part, value):]
			}
			lo = hi
			continue
		}
		o, err := s.open.acquire(ctx, shard)
		if err != nil {
			return f.named(t.column, err)
		}
		if s.changes[local] != nil {
			err = s.readChanged(ctx, w, o, local, w.rows, part)
		} else {
			err = o.cols[local].ReadRows(ctx, w.rows, part)
		}
		s.open.release(o)
		if err != nil {
			if isCancel(err) {
				return err
			}
			return fmt.Errorf("shard %s: %w", s.shards[shard].Path, err)
		}
		lo = hi
	}
	return nil
}

// copyColumn writes a gathered column that is not in records into the slot.
func (f *filling) copyColumn(k int) {
	copySection(f.slot.Bytes(), &f.layout.Columns[k], &f.view.columns[k], f.sides[f.view.on[k]].spots, picked{f.view.local[k], whole})
}

func copySection(b []byte, sec *Section, c *catalog.Column, spots []spot, p picked) {
	span := func(s Span) []byte { return b[s.Off : s.Off+s.Len : s.Off+s.Len] }
	if sec.Valid.Len > 0 {
		p.writeValid(span(sec.Valid), spots)
	}
	vals, offs := span(sec.Values), span(sec.Offsets)
	put := func(dst []byte, i int, v int64) { binary.LittleEndian.PutUint64(dst[8*i:], uint64(v)) }
	switch {
	case c.Kind == catalog.Struct:
		for m := range c.Members {
			copySection(b, &sec.Members[m], &c.Members[m], spots, picked{p.column, m})
		}
	case c.Fixed():
		n := c.RowBytes()
		for i := range spots {
			copy(vals[i*n:(i+1)*n], p.of(&spots[i]).Data[int(spots[i].row)*n:])
		}
	case c.Kind == catalog.List && c.DType == catalog.String:
		strs := span(sec.StrOffsets)
		put(offs, 0, 0)
		put(strs, 0, 0)
		elems, at := int64(0), 0
		for i := range spots {
			v, row := p.of(&spots[i]), spots[i].row
			for e := v.Offsets[row]; e < v.Offsets[row+1]; e++ {
				at += copy(vals[at:], v.Data[v.StrOffsets[e]:v.StrOffsets[e+1]])
				elems++
				put(strs, int(elems), int64(at))
			}
			put(offs, i+1, elems)
		}
	default:
		size := int64(1)
		if c.Kind == catalog.List {
			size = int64(c.DType.Size())
		}
		put(offs, 0, 0)
		at := 0
		for i := range spots {
			v, row := p.of(&spots[i]), spots[i].row
			at += copy(vals[at:], v.Data[v.Offsets[row]*size:v.Offsets[row+1]*size])
			put(offs, i+1, int64(at)/size)
		}
	}
}

// recordAt is where a column stands in the records of its side, or -1.
func (v *View) recordAt(k int) int {
	return v.sides[v.on[k]].sets[0].chunks.layout.off[v.local[k]]
}

// copyRecords writes rows [lo, hi) of the scalars of a side, some rows of all columns at a time, so that a record is read
// from memory once.
func (f *filling) copyRecords(i, lo, hi int) {
	const tile = 64
	v, all, b := f.view, f.sides[i].spots, f.slot.Bytes()
	stride := v.sides[i].sets[0].chunks.layout.stride
	type target struct {
		dst       []byte
		off, size int
	}
	var targets []target
	for k := range v.columns {
		if v.on[k] == i && v.recordAt(k) >= 0 {
			sec := &f.layout.Columns[k]
			targets = append(targets, target{b[sec.Values.Off : sec.Values.Off+sec.Values.Len], v.recordAt(k), v.columns[k].RowBytes()})
			if sec.Valid.Len > 0 {
				picked{v.local[k], whole}.writeValid(b[sec.Valid.Off+int64(lo):sec.Valid.Off+int64(hi)], all[lo:hi])
			}
		}
	}
	le := binary.LittleEndian
	// Records stand anywhere: while those of one tile are copied, those of the next are on their way from memory.
	var now, next [tile][]byte
	bring := func(from int) {
		spots := all[from:min(from+tile, hi)]
		for j := range spots {
			at := int(spots[j].row) * stride
			next[j] = spots[j].chunk.records[at : at+stride]
			prefetch(next[j])
		}
	}
	bring(lo)
	for ; lo < hi; lo += tile {
		spots, records := all[lo:min(lo+tile, hi)], &now
		now = next
		if lo+tile < hi {
			bring(lo + tile)
		}
		for _, t := range targets {
			dst := t.dst[lo*t.size : (lo+len(spots))*t.size]
			switch t.size {
			case 8:
				for j := range spots {
					le.PutUint64(dst[8*j:], le.Uint64(records[j][t.off:]))
				}
			case 4:
				for j := range spots {
					le.PutUint32(dst[4*j:], le.Uint32(records[j][t.off:]))
				}
			default:
				for j := range spots {
					copy(dst[j*t.size:(j+1)*t.size], records[j][t.off:])
				}
			}
		}
	}
}

// inlineBytes is the size of a batch below which one goroutine reads it.
const inlineBytes = 1 << 20

// Read fills a slot with the rows given by their dense numbers, in that order, repeats allowed.
func (s *Set) Read(ctx context.Context, rows []int64, slot Slot) (*Layout, error) {
	return s.View().Read(ctx, rows, slot)
}

// Read fills a slot with the rows given by their dense numbers, in that order, repeats allowed.
func (v *View) Read(ctx context.Context, rows []int64, slot Slot) (*Layout, error) {
	refs := make([][]ref, len(v.sides))
	for i := range refs {
		refs[i] = make([]ref, 0, len(rows))
	}
	for _, r := range rows {
		if r < 0 || r >= v.rows {
			return nil, fmt.Errorf("%w: row %d; there are %d", ErrSelect, r, v.rows)
		}
		v.place(refs, r)
	}
	var f filling
	f.start(v, refs, slot)
	bytes := int64(0)
	for k := range v.columns {
		bytes += int64(v.columns[k].RowBytes()) * int64(len(rows))
	}
	if v.threads == 1 || bytes < inlineBytes {
		w := &worker{}
		for t, ok := f.take(); ok; t, ok = f.take() {
			f.finish(f.run(ctx, w, t))
		}
		return f.layout, f.err
	}
	c := newCrew(ctx, v.threads)
	c.add(&f)
	<-f.done
	c.close()
	return f.layout, f.err
}
