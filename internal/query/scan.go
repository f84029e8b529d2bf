package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"astropile/internal/catalog"
	"astropile/internal/shard"
	"astropile/internal/sky"
)

// ErrData marks files of a release that do not say what its manifest says.
var ErrData = errors.New("query: the release's rows do not fit its manifest")

// ErrMissing is returned, wrapped, for ids that the release does not have; it names them.
var ErrMissing = errors.New("query: ids that the release does not have")

// File is an open file of a release.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Table is the release that is selected from.
type Table struct {
	Release *catalog.Release
	ID      string
	Shards  []catalog.Shard // primary, in manifest order
	// Open opens a file of the release by its path below the root.
	Open func(ctx context.Context, path string) (File, error)
}

// Options say what a selection may use.
type Options struct {
	Threads int    // goroutines; 0: as many as the process may run at once
	Cache   string // folder that keeps bitmaps and columns for later selections of the host; empty: nothing is kept
	// Progress is told the rows that were looked at; it may be called from any goroutine.
	Progress func(done, total int64)
}

// Select finds the rows that a selection takes. The error is ErrQuery before anything is read, ErrMissing for ids that are
// not there, else ErrData or the files' own.
func Select(ctx context.Context, t Table, s Selection, opt Options) (*Rows, error) {
	p, err := s.check(&t.Release.Dataset)
	if err != nil {
		return nil, err
	}
	if opt.Threads <= 0 {
		opt.Threads = runtime.GOMAXPROCS(0)
	}
	kept, err := openCache(opt.Cache)
	if err != nil {
		return nil, err
	}
	key, err := s.canonicalKey(t.ID)
	if err != nil {
		return nil, err
	}
	return kept.rows(ctx, key, shardRows(t.Shards), func() ([]uint64, error) {
		sc := &scan{table: t, plan: p, opt: opt, cache: kept}
		return sc.run(ctx)
	})
}

func shardRows(shards []catalog.Shard) []int64 {
	out := make([]int64, len(shards))
	for i := range shards {
		out[i] = shards[i].Rows
	}
	return out
}

// scan looks at every row that may be selected.
type scan struct {
	table Table
	plan  *plan
	opt   Options
	cache *cache
	each  func(w *worker, t *task) error // in place of the plan, where set

	starts []int64 // first row of each shard
	words  []uint64
	mu     sync.Mutex // of words
	found  []atomic.Bool
	done   atomic.Int64
}

// task is a row group of a rows file.
type task struct {
	file  *rowsFile
	group int
	first int64 // row of the release
	rows  int64
}

func (sc *scan) run(ctx context.Context) ([]uint64, error) {
	total := int64(0)
	sc.starts = make([]int64, len(sc.table.Shards)+1)
	for i := range sc.table.Shards {
		total += sc.table.Shards[i].Rows
		sc.starts[i+1] = total
	}
	sc.words = make([]uint64, words(int(total)))
	if total == 0 {
		return sc.words, nil
	}
	if sc.plan.ids != nil {
		sc.found = make([]atomic.Bool, len(sc.plan.ids))
	}
	if len(sc.plan.columns) == 0 {
		(&chunk{rows: int(total)}).ones(sc.words)
		return sc.words, sc.limit()
	}
	files, tasks, err := sc.open(ctx)
	defer func() {
		for _, f := range files {
			f.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for range min(sc.opt.Threads, len(tasks)) {
		wg.Go(func() {
			w := &worker{scan: sc}
			for {
				i := int(next.Add(1)) - 1
				if i >= len(tasks) || ctx.Err() != nil {
					return
				}
				if err := w.do(ctx, &tasks[i]); err != nil {
					cancel(err)
					return
				}
				if sc.opt.Progress != nil {
					sc.opt.Progress(sc.done.Add(tasks[i].rows), total)
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for _, f := range files {
		f.keep()
	}
	if err := sc.missing(); err != nil {
		return nil, err
	}
	return sc.words, sc.limit()
}

// missing names ids that were asked for and are not there.
func (sc *scan) missing() error {
	const most = 20
	var names []string
	n := 0
	for id, k := range sc.plan.ids {
		if !sc.found[k].Load() {
			n++
			names = append(names, id)
		}
	}
	if n == 0 {
		return nil
	}
	slices.Sort(names)
	more := ""
	if n > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", n-most)
	}
	return fmt.Errorf("%w: %d of %d: %s%s", ErrMissing, n, len(sc.plan.ids), strings.Join(names, ", "), more)
}

// limit keeps the first rows.
func (sc *scan) limit() error {
	if sc.plan.limit == 0 {
		return nil
	}
	left := uint64(sc.plan.limit)
	for i, w := range sc.words {
		n := count(sc.words[i : i+1])
		if n <= left {
			left -= n
			continue
		}
		sc.words[i] = w & (1<<nth(w, uint(left)) - 1)
		left = 0
	}
	return nil
}

// rowsFiles lists the rows files of every release, in order.
func rowsFiles(r *catalog.Release) [][]string {
	out := make([][]string, r.Number)
	for name := range r.Files {
		n, base := r.Number, name
		if rest, ok := strings.CutPrefix(name, "../"); ok {
			num, file, _ := strings.Cut(rest, "/")
			k, err := strconv.Atoi(num)
			if err != nil || k < 1 || k > r.Number {
				continue
			}
			n, base = k, file
		}
		if strings.HasPrefix(base, "rows-") && strings.HasSuffix(base, ".parquet") {
			out[n-1] = append(out[n-1], name)
		}
	}
	for _, names := range out {
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(path.Base(a), path.Base(b)) })
	}
	return out
}

// open opens the rows files and lists what has to be looked at.
func (sc *scan) open(ctx context.Context) (files []*rowsFile, tasks []task, err error) {
	r := sc.table.Release
	dir := path.Join(r.Dataset.Name, "releases", strconv.Itoa(r.Number))
	shards := sc.table.Shards
	at, k := int64(0), 0
	for n, names := range rowsFiles(r) {
		first := k
		for k < len(shards) && int(shards[k].Release) == n+1 {
			k++
		}
		want := sc.starts[k] - sc.starts[first]
		may, err := sc.prune(ctx, n+1, first, k)
		if err != nil {
			return files, nil, err
		}
		for _, name := range names {
			f, err := openRows(ctx, sc, path.Join(dir, name), r.Files[name])
			if err != nil {
				return files, nil, err
			}
			files = append(files, f)
			for g, info := range f.r.Groups() {
				t := task{f, g, at + info.First, info.Rows}
				if info.Rows > maxGroupRows {
					return files, nil, fmt.Errorf("%w: %s: a row group of %d rows, at most %d", ErrData, f.path, info.Rows, maxGroupRows)
				}
				if may(t.first, t.first+t.rows) {
					tasks = append(tasks, t)
				} else {
					sc.done.Add(t.rows)
				}
			}
			at += f.r.Rows()
		}
		if at != sc.starts[k] {
			return files, nil, fmt.Errorf("%w: release %d added %d rows, its rows files hold %d", ErrData, n+1, want, at-sc.starts[first])
		}
	}
	return files, tasks, nil
}

// maxGroupRows bounds the rows that are decoded at once.
const maxGroupRows = 1 << 22

// prune tells which rows of a release can be selected, by the statistics of its shards and where they lie.
func (sc *scan) prune(ctx context.Context, release, first, last int) (func(lo, hi int64) bool, error) {
	p := sc.plan
	may := make([]bool, last-first)
	stats, err := sc.stats(ctx, release, last-first)
	if err != nil {
		return nil, err
	}
	for i := range may {
		s := &sc.table.Shards[first+i]
		// Every id has to be looked for, wherever it is.
		may[i] = p.ids != nil || (p.region == nil || p.region.overlaps(s.HpxMin, s.HpxMax)) &&
			p.where.possible(func(column int) interval { return stats(column, i, s.Rows) })
	}
	return func(lo, hi int64) bool {
		for i := range may {
			if may[i] && sc.starts[first+i] < hi && lo < sc.starts[first+i+1] {
				return true
			}
		}
		return false
	}, nil
}

// stats reads stats.parquet of a release: one row for each shard that it added.
func (sc *scan) stats(ctx context.Context, release, shards int) (func(column, shard int, rows int64) interval, error) {
	unknown := func(int, int, int64) interval { return interval{} }
	if _, ok := sc.plan.where.(all); ok || shards == 0 {
		return unknown, nil
	}
	ds := &sc.table.Release.Dataset
	name := path.Join(ds.Name, "releases", strconv.Itoa(release), "stats.parquet")
	f, err := sc.table.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for _, c := range sc.plan.columns {
		for _, s := range []string{".min", ".max", ".nulls"} {
			names = append(names, c.Name+s)
		}
	}
	all := catalog.StatColumns(ds.Columns)
	r, err := shard.Open(ctx, f, f.Size(), shard.OpenOptions{Columns: all})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.Rows() != int64(shards) {
		return nil, fmt.Errorf("%w: %s has %d rows, release %d added %d shards", ErrData, name, r.Rows(), release, shards)
	}
	got := make([]*catalog.Vector, len(names))
	for i, n := range names {
		c, err := r.Column(n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if got[i], err = c.ReadVector(ctx, 0, r.Rows()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	columns := sc.plan.columns
	return func(column, i int, rows int64) interval {
		c := &columns[column]
		lo, hi, nulls := got[3*column], got[3*column+1], got[3*column+2]
		x := interval{known: true, rows: rows, nulls: int64(view[uint64](nulls.Data)[i])}
		switch {
		case lo.Null(i) || hi.Null(i):
			x.none = true
		case c.DType == catalog.String:
			x.text, x.min, x.max = true, string(lo.Str(i)), string(hi.Str(i))
		default:
			x.lo, x.hi = floatAt(c.DType, lo, i), floatAt(c.DType, hi, i)
		}
		return x
	}, nil
}

func floatAt(d catalog.DType, v *catalog.Vector, i int) float64 {
	out := make([]float64, 1)
	n := d.Size()
	one := &chunk{rows: 1, columns: []*catalog.Vector{{Rows: 1, Data: v.Data[i*n : (i+1)*n]}}}
	if (columnNumber{0, d}).eval(one, out) != nil {
		return 0
	}
	return out[0]
}

// worker evaluates the plan for one row group after another.
type worker struct {
	scan  *scan
	chunk chunk
	out   []uint64
}

func (w *worker) do(ctx context.Context, t *task) error {
	sc, p, c := w.scan, w.scan.plan, &w.chunk
	c.rows = int(t.rows)
	c.columns = append(c.columns[:0], make([]*catalog.Vector, len(p.columns))...)
	c.load = func(column int) (*catalog.Vector, error) { return t.file.column(ctx, column, t.group) }
	if sc.each != nil {
		return sc.each(w, t)
	}
	w.out = append(w.out[:0], make([]uint64, words(c.rows))...)
	if err := p.where.eval(c, w.out); err != nil {
		return err
	}
	if p.ids != nil {
		if err := w.ids(); err != nil {
			return err
		}
	}
	if p.region != nil {
		if err := w.region(); err != nil {
			return err
		}
	}
	if p.split != nil || p.sample != nil {
		if err := w.draw(); err != nil {
			return err
		}
	}
	sc.put(t.first, w.out)
	return nil
}

// put joins the bits of rows from first on to the bitmap.
func (sc *scan) put(first int64, b []uint64) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	at, shift := first/64, uint(first%64)
	for i, w := range b {
		if w == 0 {
			continue
		}
		sc.words[at+int64(i)] |= w << shift
		if shift > 0 && w>>(64-shift) != 0 {
			sc.words[at+int64(i)+1] |= w >> (64 - shift)
		}
	}
}

// filter calls do for every row whose bit is set, and clears the bit where do says false.
func (w *worker) filter(do func(i int) bool) {
	for k := range w.out {
		for left := w.out[k]; left != 0; {
			j := int(nth(left, 0))
			left &^= 1 << j
			if !do(64*k + j) {
				w.out[k] &^= 1 << j
			}
		}
	}
}

// ids keeps the rows that were asked for by id. Every id found counts as there, whatever else is asked of it.
func (w *worker) ids() error {
	p := w.scan.plan
	v, err := w.chunk.column(p.id)
	if err != nil {
		return err
	}
	d := p.columns[p.id].DType
	var buf []byte
	for i := range w.chunk.rows {
		buf = v.AppendText(buf[:0], d, i)
		if k, ok := p.ids[string(buf)]; ok {
			w.scan.found[k].Store(true)
		} else {
			w.out[i/64] &^= 1 << (i % 64)
		}
	}
	return nil
}

func (w *worker) draw() error {
	p := w.scan.plan
	v, err := w.chunk.column(p.id)
	if err != nil {
		return err
	}
	d := p.columns[p.id].DType
	var buf []byte
	w.filter(func(i int) bool {
		buf = v.AppendText(buf[:0], d, i)
		return (p.split == nil || p.split(buf)) && (p.sample == nil || p.sample(buf))
	})
	return nil
}

// region keeps the rows inside the region: by their pixel first, by their position where that does not decide.
func (w *worker) region() error {
	p := w.scan.plan
	if p.region.cover != nil {
		v, err := w.chunk.column(p.hpx)
		if err != nil {
			return err
		}
		pix := view[int64](v.Data)
		var last sky.Range // of the cover, where neighbours mostly are
		w.filter(func(i int) bool {
			if pix[i] >= last.Lo && pix[i] < last.Hi {
				return true
			}
			k, _ := slices.BinarySearchFunc(p.region.cover, pix[i], func(r sky.Range, x int64) int {
				if r.Hi <= x {
					return -1
				}
				return 1
			})
			if k == len(p.region.cover) || pix[i] < p.region.cover[k].Lo {
				return false
			}
			last = p.region.cover[k]
			return true
		})
	}
	if p.region.inside == nil {
		return nil
	}
	ra, dec := w.chunk.numbers(), w.chunk.numbers()
	defer func() { w.chunk.giveNumbers(ra); w.chunk.giveNumbers(dec) }()
	if err := (columnNumber{p.ra, p.columns[p.ra].DType}).eval(&w.chunk, ra); err != nil {
		return err
	}
	if err := (columnNumber{p.dec, p.columns[p.dec].DType}).eval(&w.chunk, dec); err != nil {
		return err
	}
	w.filter(func(i int) bool { return p.region.inside(ra[i], dec[i]) })
	return nil
}
