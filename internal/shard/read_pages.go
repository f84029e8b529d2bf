package shard

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
)

// pageLoc is where a data page stands, header included, and the number of its first value in the chunk.
type pageLoc struct {
	off   int64
	first int64
	size  int32
}

// chunkState says how the pages of a chunk are read.
type chunkState int32

const (
	chunkNew     chunkState = iota
	chunkDirect             // values stand in the file as in memory: read straight into the destination
	chunkDecode             // pages are decoded one by one
	chunkForeign            // left to the general decoder
)

// chunk is the part of a fixed column in one row group.
type chunk struct {
	first, rows int64
	meta        *ColumnChunk
	where       string // for errors

	mu       sync.Mutex // while the table is made
	state    atomic.Int32
	pages    []pageLoc
	per      int64 // rows of every page but the last, where they are equal; else 0
	identity bool
	dict     []byte          // decoded dictionary, where pages use one that is no identity
	seen     []atomic.Uint32 // a bit a page: its header and levels were checked
}

func (k *chunk) wasSeen(p int) bool { return k.seen[p>>5].Load()>>(p&31)&1 == 1 }

func (k *chunk) setSeen(p int) {
	if !k.wasSeen(p) {
		k.seen[p>>5].Or(1 << (p & 31))
	}
}

// values is the number of values in page p of a chunk of n values.
func (k *chunk) values(p int, n int64) int64 {
	if p+1 < len(k.pages) {
		n = k.pages[p+1].first
	}
	return n - k.pages[p].first
}

// pageOf is the page that holds a value.
func (k *chunk) pageOf(value int64, elems int) int {
	if k.per > 0 {
		return int(value / int64(elems) / k.per)
	}
	return sort.Search(len(k.pages), func(i int) bool { return k.pages[i].first > value }) - 1
}

// headerStep is how much is read for a page header at first.
const headerStep = 4 << 10

// pageValuesLimit bounds the decoded values of a page of so many stored bytes, beyond which it is taken for hostile.
func pageValuesLimit(stored int64) int64 { return min(maxPageBytes, 16<<20+stored*maxRatio) }

// load makes the table of pages and decides how they are read.
func (c *ColumnReader) load(k *chunk) (chunkState, error) {
	if s := chunkState(k.state.Load()); s != chunkNew {
		return s, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := chunkState(k.state.Load()); s != chunkNew {
		return s, nil
	}
	state, err := c.loadTable(k)
	if errors.Is(err, errForeign) || errors.Is(err, errIrregular) {
		state, err = chunkForeign, nil
	}
	if err != nil {
		return chunkNew, fmt.Errorf("%s: %w", k.where, err)
	}
	k.state.Store(int32(state))
	return state, nil
}

func (c *ColumnReader) loadTable(k *chunk) (chunkState, error) {
	m := &k.meta.Meta
	if m.Type != c.form.phys {
		return 0, fmt.Errorf("%w: physical type %d in the chunk, %d in the schema", ErrFormat, m.Type, c.form.phys)
	}
	if m.NumValues != k.rows*int64(c.levels.elems) {
		return 0, fmt.Errorf("%w: %d values in %d rows of %d", errIrregular, m.NumValues, k.rows, c.levels.elems)
	}
	var err error
	if k.meta.OffsetIndexOffset != 0 {
		err = c.tableFromIndex(k)
	} else {
		err = c.tableFromHeaders(k)
	}
	if err != nil {
		return 0, err
	}
	k.seen = make([]atomic.Uint32, (len(k.pages)+31)/32)
	k.per = uniformRows(k.pages, m.NumValues, c.levels.elems)

	usesDict := slices.Contains(m.Encodings, EncRLEDictionary) || slices.Contains(m.Encodings, EncPlainDictionary)
	if usesDict {
		if err := c.loadDictionary(k); err != nil {
			return 0, err
		}
	}
	direct := m.Codec == CompressNone && !c.r.checkCRC && c.form.phys != TypeBoolean && !slices.Contains(m.Encodings, EncByteStreamSplit)
	if usesDict {
		direct = direct && k.identity
	} else {
		direct = direct && !c.form.widened()
	}
	for i := range k.pages {
		n := k.values(i, m.NumValues)
		if n > pageValuesLimit(int64(k.pages[i].size))/int64(c.form.size) {
			return 0, fmt.Errorf("%w: page %d announces %d values in %d bytes", ErrFormat, i, n, k.pages[i].size)
		}
		direct = direct && k.pages[i].first%int64(c.levels.elems) == 0 && int64(k.pages[i].size) > c.storedBytes(k, n)
	}
	if direct {
		return chunkDirect, nil
	}
	return chunkDecode, nil
}

// storedBytes is what n values take in a page that is read directly.
func (c *ColumnReader) storedBytes(k *chunk, n int64) int64 {
	if k.identity {
		return (n + 7) / 8 * 8 * int64(c.form.size)
	}
	return n * int64(c.form.size)
}

// uniformRows is the number of rows of every page but the last, or 0 where they differ.
func uniformRows(pages []pageLoc, values int64, elems int) int64 {
	if len(pages) == 1 {
		return max(values/int64(elems), 1)
	}
	step := pages[1].first
	for i, p := range pages {
		if p.first != int64(i)*step {
			return 0
		}
	}
	if step%int64(elems) != 0 || values-pages[len(pages)-1].first > step {
		return 0
	}
	return step / int64(elems)
}

func (c *ColumnReader) tableFromIndex(k *chunk) error {
	b := make([]byte, k.meta.OffsetIndexLength)
	if err := c.r.readAt(b, k.meta.OffsetIndexOffset); err != nil {
		return err
	}
	x, err := DecodeOffsetIndex(b)
	if err != nil {
		return err
	}
	lo, hi := chunkSpan(&k.meta.Meta)
	k.pages = make([]pageLoc, 0, len(x.Pages))
	for i, p := range x.Pages {
		if p.Offset < lo || p.Size < 1 || p.Offset > hi-int64(p.Size) || p.Size > maxPageBytes {
			return fmt.Errorf("%w: page %d of the offset index, %d bytes at byte %d, is outside its chunk", ErrFormat, i, p.Size, p.Offset)
		}
		if i == 0 && p.FirstRow != 0 || i > 0 && p.FirstRow <= x.Pages[i-1].FirstRow || p.FirstRow >= k.rows {
			return fmt.Errorf("%w: page %d of the offset index starts at row %d of %d", ErrFormat, i, p.FirstRow, k.rows)
		}
		k.pages = append(k.pages, pageLoc{off: p.Offset, first: p.FirstRow * int64(c.levels.elems), size: p.Size})
	}
	if len(k.pages) == 0 {
		return fmt.Errorf("%w: an offset index without pages", ErrFormat)
	}
	return nil
}

// headAt reads the page header at an offset of a chunk that ends at hi.
func (c *ColumnReader) headAt(h *pageHead, off, hi int64) error {
	for step := int64(headerStep); ; step *= 4 {
		b := make([]byte, min(step, hi-off, MaxPageHeader))
		if err := c.r.readAt(b, off); err != nil {
			return err
		}
		err := h.parse(b)
		if err == nil && int64(h.size)+int64(h.stored) > hi-off {
			err = fmt.Errorf("%w: the page at byte %d runs over its chunk's end", ErrFormat, off)
		}
		if err == nil || int64(len(b)) < step {
			return err
		}
	}
}

// tableFromHeaders walks the pages of a chunk that has no offset index.
func (c *ColumnReader) tableFromHeaders(k *chunk) error {
	off, hi := chunkSpan(&k.meta.Meta)
	values := int64(0)
	var h pageHead
	for off < hi && values < k.meta.Meta.NumValues {
		if err := c.headAt(&h, off, hi); err != nil {
			return err
		}
		size := int64(h.size) + int64(h.stored)
		if h.typ == PageData || h.typ == PageDataV2 {
			if h.values > 0 {
				k.pages = append(k.pages, pageLoc{off: off, first: values, size: int32(size)})
			}
			values += int64(h.values)
		}
		off += size
	}
	if values != k.meta.Meta.NumValues || len(k.pages) == 0 {
		return fmt.Errorf("%w: pages hold %d values, the chunk %d", ErrFormat, values, k.meta.Meta.NumValues)
	}
	return nil
}

// loadDictionary reads the chunk's dictionary page.
func (c *ColumnReader) loadDictionary(k *chunk) error {
	lo, hi := chunkSpan(&k.meta.Meta)
	if k.meta.Meta.DictPageOffset != 0 {
		lo = k.meta.Meta.DictPageOffset
	}
	var h pageHead
	if err := c.headAt(&h, lo, hi); err != nil {
		return err
	}
	if h.typ != PageDictionary {
		if k.meta.Meta.DictPageOffset == 0 {
			return nil // encodings may name a dictionary that no page uses
		}
		return fmt.Errorf("%w: no dictionary page at byte %d", ErrFormat, lo)
	}
	if h.enc != EncPlain && h.enc != EncPlainDictionary {
		return fmt.Errorf("%w: a dictionary of encoding %d", errForeign, h.enc)
	}
	want := h.values * c.form.width
	if c.form.width == 0 || h.values > maxPageBytes/4 || h.raw != want {
		return fmt.Errorf("%w: a dictionary of %d entries in %d bytes", ErrFormat, h.values, h.raw)
	}
	stored := make([]byte, h.stored)
	if err := c.r.readAt(stored, lo+int64(h.size)); err != nil {
		return err
	}
	if c.r.checkCRC {
		if err := h.checkCRC(stored); err != nil {
			return err
		}
	}
	raw := stored
	if k.meta.Meta.Codec != CompressNone {
		if int64(h.raw) > int64(h.stored)*maxRatio+1<<20 {
			return fmt.Errorf("%w: a dictionary of %d bytes from %d", ErrFormat, h.raw, h.stored)
		}
		raw = make([]byte, h.raw)
		if err := c.r.dec.decompress(k.meta.Meta.Codec, raw, stored); err != nil {
			return err
		}
	} else if h.raw != h.stored {
		return fmt.Errorf("%w: a dictionary of %d bytes stored in %d", ErrFormat, h.raw, h.stored)
	}
	if c.form.widened() && checkIdentity(raw, c.form.size, c.signed) {
		k.identity = true
	}
	k.dict = make([]byte, h.values*c.form.size)
	return c.form.plain(k.dict, raw, h.values)
}

// maxRatio bounds how much bytes may grow when they are decoded. Zstandard of constant pages stays below it.
const maxRatio = 1 << 16

// checkPrefix checks a directly read page by its header and levels: n values of the shape, at the place computed.
func (c *ColumnReader) checkPrefix(sc *scratch, k *chunk, prefix []byte, n int) error {
	h := &sc.head
	if err := h.parse(prefix); err != nil {
		return err
	}
	stored := int(c.storedBytes(k, int64(n)))
	if h.size+h.stored != len(prefix)+stored || h.stored != h.raw {
		return fmt.Errorf("%w: a page of %d bytes where the offset index has %d", ErrFormat, h.size+h.stored, len(prefix)+stored)
	}
	want := EncPlain
	if k.identity {
		want = EncRLEDictionary
	}
	if h.typ != PageData && h.typ != PageDataV2 {
		return fmt.Errorf("%w: a page of type %d among data pages", ErrFormat, h.typ)
	}
	if h.enc != want && (!k.identity || h.enc != EncPlainDictionary) {
		return fmt.Errorf("%w: values of encoding %d", errForeign, h.enc)
	}
	if h.values != n {
		return fmt.Errorf("%w: %d values in a page of %d", errIrregular, h.values, n)
	}
	rest, err := c.checkLevels(h, prefix[h.size:], n, 0)
	if err != nil {
		return err
	}
	if k.identity {
		var run [8]byte
		if r := identityRun(run[:0], n, c.form.size); string(r) != string(rest) {
			return fmt.Errorf("%w: the dictionary indexes are no single run", errForeign)
		}
		return nil
	}
	if len(rest) != 0 {
		return fmt.Errorf("%w: levels end %d bytes before the values", ErrFormat, len(rest))
	}
	return nil
}

// checkLevels checks the levels of a page and gives what follows them.
func (c *ColumnReader) checkLevels(h *pageHead, b []byte, n, phase int) ([]byte, error) {
	rep, def, rest, err := h.takeLevels(b, &c.levels)
	if err != nil {
		return nil, err
	}
	if c.levels.maxDef > 0 {
		if err := c.levels.checkDef(def, n); err != nil {
			return nil, err
		}
	}
	if c.levels.maxRep == 0 {
		return rest, nil
	}
	// Pages of the same number of values have the same repetition levels, bytes included, when one writer made them.
	if t := c.template.Load(); t != nil && t.n == n && t.phase == phase && string(t.rep) == string(rep) {
		return rest, nil
	}
	if err := c.levels.checkRep(rep, n, phase); err != nil {
		return nil, err
	}
	c.template.Store(&levelTemplate{n: n, phase: phase, rep: append([]byte(nil), rep...)})
	return rest, nil
}

// levelTemplate is repetition levels that were found right.
type levelTemplate struct {
	n, phase int
	rep      []byte
}

// decodePage decodes values [lo, hi) of a stored page of n, header included, into dst. A null is errIrregular, unless valid is
// there (n long, of a scalar column, and lo and hi are 0 and n): then it says what is null, and the bytes of nulls are zero.
func (c *ColumnReader) decodePage(sc *scratch, k *chunk, page []byte, n, phase, lo, hi int, dst []byte, valid []bool) error {
	h := &sc.head
	if err := h.parse(page); err != nil {
		return err
	}
	if h.size+h.stored != len(page) {
		return fmt.Errorf("%w: a page of %d bytes where %d stand", ErrFormat, h.size+h.stored, len(page))
	}
	if h.typ != PageData && h.typ != PageDataV2 {
		return fmt.Errorf("%w: a page of type %d among data pages", ErrFormat, h.typ)
	}
	if h.values != n {
		return fmt.Errorf("%w: %d values in a page of %d", errIrregular, h.values, n)
	}
	body := page[h.size:]
	if c.r.checkCRC {
		if err := h.checkCRC(body); err != nil {
			return err
		}
	}
	if k.meta.Meta.Codec == CompressNone && h.raw != h.stored {
		return fmt.Errorf("%w: %d bytes stored as %d without compression", ErrFormat, h.raw, h.stored)
	}
	// What a page of this many values can need: the values at their largest and levels bit-packed.
	if h.raw > n*(max(c.form.width, 1)+2)+64<<10+2*h.stored {
		return fmt.Errorf("%w: %d bytes for %d values", ErrFormat, h.raw, n)
	}
	if valid == nil {
		return c.decodeBody(sc, k, body, lo, hi, dst, func(b []byte) ([]byte, int, error) {
			rest, err := c.checkLevels(h, b, n, phase)
			return rest, n, err
		})
	}
	present := n
	if err := c.decodeBody(sc, k, body, 0, n, dst, func(b []byte) (rest []byte, _ int, err error) {
		rest, present, err = c.takeValid(h, b, valid)
		return rest, present, err
	}); err != nil {
		return err
	}
	spread(dst, valid, present, c.form.size)
	return nil
}

// decodeBody decodes values [lo, hi) of the stored page whose header was parsed last. levels takes the levels and says how many
// values are there; where hi is more, all of them are put at the start of dst.
func (c *ColumnReader) decodeBody(sc *scratch, k *chunk, body []byte, lo, hi int, dst []byte, levels func(b []byte) (rest []byte, present int, err error)) error {
	h, codec := &sc.head, k.meta.Meta.Codec
	if h.typ != PageDataV2 {
		if codec != CompressNone {
			raw := grown(&sc.raw, h.raw)
			if err := c.r.dec.decompress(codec, raw, body); err != nil {
				return err
			}
			body = raw
		}
		rest, present, err := levels(body)
		if err != nil {
			return err
		}
		hi = min(hi, present)
		return c.form.part(sc, dst[:(hi-lo)*c.form.size], rest, lo, hi, present, h.enc, k.dict)
	}
	rest, present, err := levels(body)
	if err != nil {
		return err
	}
	hi = min(hi, present)
	dst = dst[:(hi-lo)*c.form.size]
	if h.compressed && codec != CompressNone {
		raw := h.raw - h.repBytes - h.defBytes
		if h.enc == EncPlain && !c.form.widened() && raw == len(dst) && c.form.width > 0 && hi-lo == present {
			return c.r.dec.decompress(codec, dst, rest)
		}
		vals := grown(&sc.raw, raw)
		if err := c.r.dec.decompress(codec, vals, rest); err != nil {
			return err
		}
		rest = vals
	}
	return c.form.part(sc, dst, rest, lo, hi, present, h.enc, k.dict)
}

// takeValid reads the levels of a page of a scalar column that may be null, and gives how many values are there and what
// follows the levels.
func (c *ColumnReader) takeValid(h *pageHead, b []byte, valid []bool) (rest []byte, present int, err error) {
	_, def, rest, err := h.takeLevels(b, &c.levels)
	if err != nil {
		return nil, 0, err
	}
	err = c.levels.checkRuns(def, len(valid), c.levels.maxDef, func(at, n, v int) (bool, error) {
		there := v == c.levels.maxDef
		for i := range valid[at : at+n] {
			valid[at+i] = there
		}
		if there {
			present += n
		}
		return true, nil
	})
	return rest, present, err
}

// spread moves values that stand packed at the start of dst to the places that are valid, and clears the others.
func spread(dst []byte, valid []bool, present, size int) {
	k := present
	for i := len(valid) - 1; i >= 0 && k <= i; i-- {
		at := dst[i*size : (i+1)*size]
		if valid[i] {
			k--
			copy(at, dst[k*size:(k+1)*size])
		} else {
			clear(at)
		}
	}
}
