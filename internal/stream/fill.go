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

// gathered is a row of a decoded chunk.
type gathered struct {
	v *catalog.Vector
	i int32
}

// columnPlan is what one batch needs of one column.
type columnPlan struct {
	constant int32      // class of the value all rows share, or classVaries
	rows     []gathered // of columns that are not tensors
}

// filling is one batch on its way into a slot: first the chunks of the columns that vary in size are gathered, then
// the layout is made and the slot grown, then every column is written.
type filling struct {
	view   *View
	refs   [][]ref // of each side
	slot   Slot
	layout *Layout
	plans  []columnPlan
	valid  []bool

	sources []uint16

	mu      sync.Mutex
	tasks   []task
	next    int
	running int
	stage   int
	err     error
	done    chan struct{}

	epoch, position uint64
	last            bool
}

// task is one piece of work: a column, or a run of rows of it.
type task struct {
	column, lo, hi int
	gather         bool
}

// worker holds what a goroutine needs to run tasks.
type worker struct {
	rows []int64
	buf  []byte
}

// start readies the first stage. The filling can then be worked on by any number of goroutines.
func (f *filling) start(v *View, refs [][]ref, slot Slot) {
	f.view, f.refs, f.slot = v, refs, slot
	f.layout, f.err, f.stage, f.next, f.running = nil, nil, 0, 0, 0
	f.done = make(chan struct{})
	f.tasks = f.tasks[:0]
	if f.plans == nil {
		f.plans = make([]columnPlan, len(v.columns))
	}
	for k := range v.columns {
		f.tasks = append(f.tasks, task{column: k, gather: true})
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
	if f.err == nil && f.stage == 0 {
		f.stage = 1
		// Growing a slot may take long; others must be free to find no task here meanwhile.
		f.mu.Unlock()
		tasks, err := f.place()
		f.mu.Lock()
		if f.err = err; err == nil && len(tasks) > 0 {
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
	tensor := f.view.columns[t.column].Kind == catalog.Tensor
	switch {
	case t.gather && tensor:
		return f.findConstant(ctx, t.column)
	case t.gather:
		return f.gather(ctx, t.column)
	case tensor:
		return f.readTensor(ctx, w, t)
	}
	f.copyColumn(t.column)
	return nil
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
	p := &f.plans[k]
	p.constant = classVaries
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
		p.constant = class
	}
	return nil
}

func (f *filling) named(k int, err error) error {
	if isCancel(err) {
		return err
	}
	return fmt.Errorf("column %q: %w", f.view.columns[k].Name, err)
}

// gather finds the decoded chunk of every row.
func (f *filling) gather(ctx context.Context, k int) error {
	refs, sd := f.column(k)
	local := f.view.local[k]
	p := &f.plans[k]
	p.constant = classVaries
	if cap(p.rows) < len(refs) {
		p.rows = make([]gathered, len(refs))
	}
	p.rows = p.rows[:len(refs)]
	var v *catalog.Vector
	var s *Set
	last, shard, lo, hi := -1, -1, int64(0), int64(0)
	var o *openShard
	release := func() {
		if o != nil {
			s.open.release(o)
			o = nil
		}
	}
	defer release()
	for i := range refs {
		r := &refs[i]
		if r.shard != last || r.row < lo || r.row >= hi {
			if r.shard != last {
				release()
				last = r.shard
				s, shard = sd.at(last)
				var err error
				if o, err = s.open.acquire(ctx, shard); err != nil {
					return f.named(k, err)
				}
			}
			g := o.r.GroupOf(r.row)
			info := o.r.Groups()[g]
			lo, hi = info.First, info.First+info.Rows
			var err error
			v, err = s.chunks.get(ctx, chunkKey{shard, local, g}, func(ctx context.Context) (*catalog.Vector, error) {
				return o.cols[local].ReadVector(ctx, lo, hi)
			})
			if err != nil {
				return f.named(k, fmt.Errorf("shard %s, rows %d to %d: %w", s.shards[shard].Path, lo, hi-1, err))
			}
		}
		p.rows[i] = gathered{v, int32(r.row - lo)}
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
	for k := range v.columns {
		c := &v.columns[k]
		sec := &l.Columns[k]
		if c.Kind != catalog.Tensor {
			f.sections(sec, c, f.plans[k].rows, func(v *catalog.Vector) *catalog.Vector { return v }, room)
			tasks = append(tasks, task{column: k})
			continue
		}
		rb := c.RowBytes()
		*sec = newSection(c, rows)
		if t := v.sides[v.on[k]].sets[0].changes[v.local[k]]; t != nil {
			sec.Format = t.format
		}
		if f.plans[k].constant != classVaries {
			sec.Constant = true
			sec.Values = room(int64(rb), PageSize)
			tasks = append(tasks, task{column: k, hi: 1})
			continue
		}
		sec.Values = room(int64(rb)*int64(rows), PageSize)
		step := max(1, runBytes/rb)
		for lo := 0; lo < rows; lo += step {
			tasks = append(tasks, task{column: k, lo: lo, hi: min(lo+step, rows)})
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

// sections lays out a column that is gathered; member picks the vector of a struct's member.
func (f *filling) sections(sec *Section, c *catalog.Column, rows []gathered, member func(*catalog.Vector) *catalog.Vector, room func(n, align int64) Span) {
	*sec = newSection(c, len(rows))
	n := int64(len(rows))
	valid, elems, text := false, int64(0), int64(0)
	for _, r := range rows {
		v := member(r.v)
		valid = valid || v.Null(int(r.i))
		if c.Kind == catalog.Struct || c.Fixed() {
			continue
		}
		lo, hi := v.Offsets[r.i], v.Offsets[r.i+1]
		elems += hi - lo
		if c.Kind == catalog.List && c.DType == catalog.String {
			text += v.StrOffsets[hi] - v.StrOffsets[lo]
		}
	}
	if valid {
		sec.Valid = room(n, Align)
	}
	switch {
	case c.Kind == catalog.Struct:
		sec.Members = make([]Section, len(c.Members))
		for m := range c.Members {
			f.sections(&sec.Members[m], &c.Members[m], rows, func(v *catalog.Vector) *catalog.Vector { return member(v).Members[m] }, room)
		}
	case c.Fixed():
		sec.Values = room(n*int64(c.RowBytes()), Align)
	default:
		sec.Offsets = room(8*(n+1), Align)
		switch {
		case c.Kind == catalog.List && c.DType == catalog.String:
			sec.StrOffsets = room(8*(elems+1), Align)
			sec.Values = room(text, Align)
		case c.Kind == catalog.List:
			sec.Values = room(elems*int64(c.DType.Size()), Align)
		default:
			sec.Values = room(elems, Align)
		}
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
		copy(dst, v.values.of(f.plans[t.column].constant))
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

// copyColumn writes a gathered column into the slot.
func (f *filling) copyColumn(k int) {
	copySection(f.slot.Bytes(), &f.layout.Columns[k], &f.view.columns[k], f.plans[k].rows, func(v *catalog.Vector) *catalog.Vector { return v })
	clear(f.plans[k].rows) // chunks are the cache's to keep
}

func copySection(b []byte, sec *Section, c *catalog.Column, rows []gathered, member func(*catalog.Vector) *catalog.Vector) {
	part := func(s Span) []byte { return b[s.Off : s.Off+s.Len : s.Off+s.Len] }
	if sec.Valid.Len > 0 {
		valid := part(sec.Valid)
		for i, r := range rows {
			valid[i] = 1
			if member(r.v).Null(int(r.i)) {
				valid[i] = 0
			}
		}
	}
	vals, offs := part(sec.Values), part(sec.Offsets)
	put := func(dst []byte, i int, v int64) { binary.LittleEndian.PutUint64(dst[8*i:], uint64(v)) }
	switch {
	case c.Kind == catalog.Struct:
		for m := range c.Members {
			copySection(b, &sec.Members[m], &c.Members[m], rows, func(v *catalog.Vector) *catalog.Vector { return member(v).Members[m] })
		}
	case c.Fixed():
		n := c.RowBytes()
		for i, r := range rows {
			copy(vals[i*n:(i+1)*n], member(r.v).Data[int(r.i)*n:])
		}
	case c.Kind == catalog.List && c.DType == catalog.String:
		strs := part(sec.StrOffsets)
		put(offs, 0, 0)
		put(strs, 0, 0)
		elems, at := int64(0), 0
		for i, r := range rows {
			v := member(r.v)
			for e := v.Offsets[r.i]; e < v.Offsets[r.i+1]; e++ {
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
		for i, r := range rows {
			v := member(r.v)
			at += copy(vals[at:], v.Data[v.Offsets[r.i]*size:v.Offsets[r.i+1]*size])
			put(offs, i+1, int64(at)/size)
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
