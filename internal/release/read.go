package release

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

const healpixColumn = "_healpix_29"

// row is one row on its way: its place on the sky (its number where there is none), and where the spool has it.
type row struct {
	hpx, off, seq   int64 // seq numbers the rows of all inputs in the order of the inputs' names
	sum             int64 // payload of all rows before it
	payload, length uint32
}

// inputState is how far an input has come.
type inputState struct {
	done   bool
	rows   int64
	blocks []block
	base   int64 // seq of its first row
	bad    badRows
}

// badRows are rows of an input that the import refuses.
type badRows struct {
	off, other, noID numbers
}

func (b *badRows) any() bool { return b.off.n+b.other.n+b.noID.n > 0 }

// numbers are a few of many.
type numbers struct {
	first []int64
	n     int64
}

const numbersNamed = 10

func (l *numbers) add(k int64) {
	if l.n++; l.n <= numbersNamed {
		l.first = append(l.first, k)
	}
}

// resume takes up what an interrupted import of the same kind read of inputs that are what they were.
func (im *importer) resume(ctx context.Context) error {
	key, err := im.spoolKey()
	if err != nil {
		return err
	}
	s, kept, err := openSpool(im.root, im.n, key)
	if err != nil {
		return err
	}
	im.spool = s
	at := map[string]int{}
	for i := range im.survey.Inputs {
		at[im.survey.Inputs[i].Rel] = i
	}
	var total int64
	for i := range kept {
		for _, b := range kept[i].Blocks {
			total += b.Bytes
		}
	}
	good := make([]bool, len(kept))
	var done counter
	err = parallel(ctx, im.opt.Jobs, len(kept), func(ctx context.Context, k int) error {
		d := &kept[k]
		i, ok := at[d.Rel]
		if !ok || im.survey.Inputs[i].Path == "" {
			return nil
		}
		st, err := os.Stat(im.survey.Inputs[i].Path)
		if err != nil || markOf(st) != d.Mark {
			return nil //nolint:nilerr // it is read again, and then says so
		}
		if good[k], err = s.whole(ctx, d); err != nil || !good[k] {
			return err
		}
		sum, _ := hex.DecodeString(d.SHA256)
		im.hashes[i], im.sizes[i], im.marks[i] = [32]byte(sum), st.Size(), d.Mark
		im.state[i] = inputState{done: true, rows: d.Rows, blocks: d.Blocks}
		var n int64
		for _, b := range d.Blocks {
			n += b.Bytes
		}
		im.progress("check what was read", done.add(n), total)
		return nil
	})
	if err != nil {
		return err
	}
	var usable []doneInput
	for k := range kept {
		if good[k] {
			usable = append(usable, kept[k])
		}
	}
	im.continued = len(usable)
	if im.continued > 0 && im.opt.Notice != nil {
		im.opt.Notice(fmt.Sprintf("continues: %d of %d inputs were read", im.continued, len(im.survey.Inputs)))
	}
	if err := s.begin(key, usable); err != nil {
		return spoolError(err)
	}
	return nil
}

// spoolKey tells spools apart whose records are not the same for the same input.
func (im *importer) spoolKey() (string, error) {
	s := im.survey
	b, err := json.Marshal(struct {
		In, Out     []catalog.Column
		Source      []int
		ID, RA, Dec string
		Recipe      []byte
		Tool        string
	}{s.Columns, im.cols, im.source, s.ID, s.RA, s.Dec, s.Recipe, im.opt.Tool})
	if err != nil {
		return "", err
	}
	return catalog.RefOf(b).SHA256, nil
}

// read takes in every input. Rows are numbered in the order of the inputs' names, whoever read them.
func (im *importer) read(ctx context.Context) error {
	inputs := im.survey.Inputs
	order := make([]int, len(inputs))
	var total int64
	var done counter
	for i := range inputs {
		order[im.rank[i]] = i
		total += inputs[i].Bytes
		if im.state[i].done {
			done.add(inputs[i].Bytes)
		}
	}
	readers := min(im.opt.Jobs, len(inputs))
	var mu sync.Mutex
	err := parallel(ctx, readers, len(inputs), func(ctx context.Context, k int) error {
		i := order[k]
		if im.state[i].done {
			return nil
		}
		report := func(share float64) {
			im.progress("read inputs", done.n.Load()+int64(share*float64(inputs[i].Bytes)), total)
		}
		err := im.readInput(ctx, i, max(1, im.opt.Jobs/readers), report)
		done.add(inputs[i].Bytes)
		if err != nil {
			if ctx.Err() != nil || !errors.Is(err, ErrDamaged) || !im.opt.SkipBad {
				return err
			}
			mu.Lock()
			im.left[i] = true
			im.state[i] = inputState{}
			im.skipped = append(im.skipped, fmt.Sprintf("%s: %v", inputs[i].Rel, err))
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(im.skipped)
	if err := im.refuseRows(order); err != nil {
		return err
	}
	for _, i := range order {
		im.state[i].base = im.total
		im.total += im.state[i].rows
	}
	im.order = order
	if im.total == 0 {
		return fmt.Errorf("%w: the inputs hold no rows%s", ErrNothing, im.skippedText())
	}
	return nil
}

// readInput reads one input whole.
func (im *importer) readInput(ctx context.Context, i, workers int, report func(share float64)) (err error) {
	in := &im.survey.Inputs[i]
	damaged := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var file *fs.PathError
		if g := graded(err); errors.Is(g, ErrRefused) || errors.Is(g, ErrDamaged) || errors.As(err, &file) {
			return g
		}
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	// Hashing brings the file into the page cache, from which it is then read.
	if err := im.hash(ctx, i); err != nil {
		return err
	}
	r, err := in.Open(ctx, workers, im.budget.slab)
	if err != nil {
		return damaged(err)
	}
	defer func() {
		if e := r.Close(); err == nil && e != nil {
			err = damaged(e)
		}
	}()
	p := &packer{im: im, input: i, state: &im.state[i], block: im.takeBlock()}
	defer func() { im.giveBlock(p.block) }()
	*p.state = inputState{}
	rows, slab := r.Rows(), max(1, r.Slab())
	var packing chan error // of the slab before, while this one is read
	wait := func() error {
		if packing == nil {
			return nil
		}
		err := <-packing
		packing = nil
		return err
	}
	defer func() { _ = wait() }()
	for lo := int64(0); lo < rows; lo += slab {
		hi := min(rows, lo+slab)
		b, err := r.Read(ctx, lo, hi)
		if err != nil {
			return damaged(err)
		}
		if int64(b.Rows) != hi-lo || len(b.Vectors) != len(im.survey.Columns) {
			return fmt.Errorf("release: %s: rows %d to %d came as %d rows of %d columns", in.Rel, lo, hi, b.Rows, len(b.Vectors))
		}
		if err := wait(); err != nil {
			return err
		}
		if workers > 1 {
			packing = make(chan error, 1)
			go func(to chan error) { to <- p.add(ctx, b, lo) }(packing)
		} else if err := p.add(ctx, b, lo); err != nil {
			return err
		}
		report(float64(hi) / float64(rows))
	}
	if err := wait(); err != nil {
		return err
	}
	if err := p.flush(); err != nil {
		return err
	}
	if err := im.unchanged(i); err != nil {
		return err
	}
	if p.state.bad.any() {
		return nil
	}
	p.state.done = true
	if in.Path == "" {
		return nil // nothing would tell whether it is the same the next time
	}
	return im.spool.line(&doneInput{Rel: in.Rel, Mark: im.marks[i], SHA256: hex.EncodeToString(im.hashes[i][:]), Rows: p.state.rows, Blocks: p.state.blocks})
}

// packer puts the rows of an input into the spool.
type packer struct {
	im      *importer
	input   int
	state   *inputState
	block   *openBlock
	entries []entry
	id      []byte
}

// openBlock is a block of records that is being filled, in pieces, so that it grows without being copied. It is used again.
type openBlock struct {
	pieces [][]byte
	used   int
	bytes  int64
	buf    []byte // where records are put together to be written
}

const pieceShift = 32 // an open block's offsets are piece << pieceShift | offset in the piece

// piece gives the piece that has room for n bytes, and its number.
func (b *openBlock) piece(n int) (*[]byte, int64) {
	if b.used > 0 {
		if p := &b.pieces[b.used-1]; cap(*p)-len(*p) >= n {
			return p, int64(b.used - 1)
		}
	}
	if b.used == len(b.pieces) {
		b.pieces = append(b.pieces, nil)
	}
	p := &b.pieces[b.used]
	if *p = (*p)[:0]; cap(*p) < n {
		*p = make([]byte, 0, max(n, putAtOnce))
	}
	b.used++
	return p, int64(b.used - 1)
}

// record gives the bytes of an entry's record.
func (b *openBlock) record(e *entry) []byte {
	p, at := b.pieces[e.off>>pieceShift], e.off&(1<<pieceShift-1)
	return p[at : at+int64(e.length)]
}

func (b *openBlock) reset() { b.used, b.bytes = 0, 0 }

// takeBlock gives a block that nobody uses, giveBlock gives it back.
func (im *importer) takeBlock() *openBlock {
	im.blocksMu.Lock()
	defer im.blocksMu.Unlock()
	if n := len(im.blocks); n > 0 {
		b := im.blocks[n-1]
		im.blocks = im.blocks[:n-1]
		return b
	}
	return &openBlock{}
}

func (im *importer) giveBlock(b *openBlock) {
	b.reset()
	im.blocksMu.Lock()
	defer im.blocksMu.Unlock()
	im.blocks = append(im.blocks, b)
}

// add takes the rows of a batch, whose first is row first of the input.
func (p *packer) add(ctx context.Context, b *catalog.Batch, first int64) error {
	im := p.im
	given := im.given
	id := b.Vectors[im.id]
	if k, row := im.codec.forbidden(b); k >= 0 && im.cols[k].Name != im.survey.ID {
		by := "the recipe has"
		if im.parent != nil {
			by = "release 1 fixed"
		}
		return fmt.Errorf("%w: %s, row %d: %q has no value, and %s %s as never null; drop such rows from the inputs, give them a value, or publish a new edition whose recipe says nullable: true",
			ErrRefused, im.survey.Inputs[p.input].Rel, first+int64(row), im.cols[k].Name, by, im.cols[k].Name)
	}
	for i := range b.Rows {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		n := first + int64(i)
		if id.Null(i) {
			p.state.bad.noID.add(n)
			continue
		}
		var e entry
		if im.ra >= 0 {
			hpx, err := im.place(b, i)
			if err != nil {
				p.state.bad.off.add(n)
				continue
			}
			if given >= 0 && !im.agrees(b, given, i) {
				p.state.bad.other.add(n)
				continue
			}
			e.hpx = hpx
		}
		p.id = id.AppendText(p.id[:0], im.survey.Columns[im.id].DType, i)
		e.hash = idHash(p.id)
		// A record of varying size may outgrow the piece; then it takes another with it.
		piece, at := p.block.piece(im.codec.least())
		start := len(*piece)
		var payload int64
		*piece, payload = im.codec.append(*piece, b, i)
		length := int64(len(*piece) - start)
		e.off = at<<pieceShift | int64(start)
		p.block.bytes += length
		if err := im.budget.fits(payload, length); err != nil {
			return fmt.Errorf("%w: %s, row %d: %w", ErrRefused, im.survey.Inputs[p.input].Rel, n, err)
		}
		e.payload, e.length = uint32(payload), uint32(length)
		p.entries = append(p.entries, e)
		if p.block.bytes+int64(len(p.entries))*indexEntry >= im.budget.block {
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *packer) flush() error {
	if len(p.entries) == 0 {
		return nil
	}
	b, err := p.im.spool.put(p.block, p.entries)
	if err != nil {
		return err
	}
	p.state.blocks = append(p.state.blocks, b)
	p.state.rows += b.Rows
	p.block.reset()
	p.entries = p.entries[:0]
	return nil
}

// idHash stands for an id where most differ.
func idHash(id []byte) uint64 {
	sum := sha256.Sum256(id)
	return binary.LittleEndian.Uint64(sum[:])
}

// unchanged makes sure that the file that was read is the one that was hashed.
func (im *importer) unchanged(i int) error {
	in := &im.survey.Inputs[i]
	if in.Path == "" {
		return nil
	}
	st, err := os.Stat(in.Path)
	if err != nil {
		return err
	}
	if markOf(st) != im.marks[i] {
		return fmt.Errorf("%w: %s changed while it was read; import again when nothing writes to it", ErrRefused, in.Path)
	}
	return nil
}

// refuseRows names rows that cannot be in a release.
func (im *importer) refuseRows(order []int) error {
	if rows := im.named(order, func(b *badRows) *numbers { return &b.noID }); rows != "" {
		return fmt.Errorf("%w: %s: no id (%s); correct them, or choose another id in the recipe", ErrRefused, rows, im.survey.ID)
	}
	if rows := im.named(order, func(b *badRows) *numbers { return &b.off }); rows != "" {
		return fmt.Errorf("%w: %s: no position on the sky (%s, %s); correct them, or import with --no-sky", ErrRefused, rows, im.survey.RA, im.survey.Dec)
	}
	if rows := im.named(order, func(b *badRows) *numbers { return &b.other }); rows != "" {
		return fmt.Errorf("%w: %s: column %q is not the HEALPix pixel of the position at order 29; give it another name in the recipe (rename: {%s: other_name}), or leave it out (drop: [%s])",
			ErrRefused, rows, healpixColumn, healpixColumn, healpixColumn)
	}
	return nil
}

// named names rows of the first input that has any.
func (im *importer) named(order []int, of func(*badRows) *numbers) string {
	s, others := "", 0
	for _, i := range order {
		rows := of(&im.state[i].bad)
		if rows.n == 0 {
			continue
		}
		if s != "" {
			others++
			continue
		}
		list := make([]string, len(rows.first))
		for k, n := range rows.first {
			list[k] = strconv.FormatInt(n, 10)
		}
		s = fmt.Sprintf("%s, rows %s", im.survey.Inputs[i].Rel, strings.Join(list, ", "))
		if more := rows.n - int64(len(list)); more > 0 {
			s += fmt.Sprintf(" and %d more", more)
		}
	}
	if others > 0 {
		s += fmt.Sprintf(" (and rows of %d other files)", others)
	}
	return s
}

func (im *importer) place(b *catalog.Batch, i int) (int64, error) {
	ra, ok1 := number(im.survey.Columns[im.ra].DType, b.Vectors[im.ra], i)
	dec, ok2 := number(im.survey.Columns[im.dec].DType, b.Vectors[im.dec], i)
	if !ok1 || !ok2 {
		return 0, sky.ErrPosition
	}
	return sky.Healpix29(ra, dec)
}

// samePlace is how far, in degrees, a pixel's centre may be from a position for the pixel to be that of the position: other
// programs decide edges otherwise, and some place rows by coordinates of lower precision.
const samePlace = 1e-3

// agrees says whether the inputs' own _healpix_29 of a row means what ours does.
func (im *importer) agrees(b *catalog.Batch, column, i int) bool {
	c, v := &im.survey.Columns[column], b.Vectors[column]
	if c.Kind != catalog.Scalar || c.DType != catalog.Int64 || v.Null(i) {
		return false
	}
	ra, dec, err := sky.Center(sky.MaxOrder, int64(binary.LittleEndian.Uint64(v.Data[8*i:])))
	if err != nil {
		return false
	}
	x, _ := number(im.survey.Columns[im.ra].DType, b.Vectors[im.ra], i)
	y, _ := number(im.survey.Columns[im.dec].DType, b.Vectors[im.dec], i)
	return sky.Separation(ra, dec, x, y) < samePlace
}

func number(d catalog.DType, v *catalog.Vector, i int) (float64, bool) {
	if v.Null(i) {
		return 0, false
	}
	switch d {
	case catalog.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.Data[8*i:])), true
	case catalog.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.Data[4*i:]))), true
	case catalog.Int32:
		return float64(int32(binary.LittleEndian.Uint32(v.Data[4*i:]))), true
	case catalog.Int64:
		return float64(int64(binary.LittleEndian.Uint64(v.Data[8*i:]))), true
	}
	return 0, false
}

// find gives the input of a row by its number, and the number that the row has there.
func (im *importer) find(seq int64) (input int, row int64) {
	k := sort.Search(len(im.order), func(k int) bool { return im.state[im.order[k]].base > seq }) - 1
	i := im.order[k]
	return i, seq - im.state[i].base
}

// where names a row for people.
func (im *importer) where(seq int64) string {
	i, n := im.find(seq)
	return fmt.Sprintf("%s, row %d", im.survey.Inputs[i].Rel, n)
}

// entryOf reads the index entry of a row, by its number.
func (im *importer) entryOf(seq int64) (entry, error) {
	i, n := im.find(seq)
	for k := range im.state[i].blocks {
		b := &im.state[i].blocks[k]
		if n < b.Rows {
			var e [1]entry
			err := im.spool.entries(b, n, e[:])
			return e[0], err
		}
		n -= b.Rows
	}
	return entry{}, fmt.Errorf("release: row %d is nowhere", seq)
}

// idOf reads the id of a row, by its number, as text.
func (im *importer) idOf(dst []byte, seq int64) ([]byte, error) {
	e, err := im.entryOf(seq)
	if err != nil {
		return dst, err
	}
	return im.idAt(dst, e.off, e.length)
}

// idAt reads the id of a record as text.
func (im *importer) idAt(dst []byte, off int64, length uint32) ([]byte, error) {
	im.idBuf = slices.Grow(im.idBuf[:0], int(length))[:int(length)-im.codec.tail]
	if err := readWhole(im.spool.rows, im.idBuf, off); err != nil {
		return dst, err
	}
	if err := im.codec.check(im.idBuf, false); err != nil {
		return dst, err
	}
	return im.codec.rowID(dst, im.idBuf), nil
}

// used is how many inputs were read whole.
func (im *importer) used() int {
	n := 0
	for _, left := range im.left {
		if !left {
			n++
		}
	}
	return n
}

func (im *importer) skippedText() string {
	if len(im.skipped) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d inputs were skipped: %s", len(im.skipped), im.skipped[0])
}
