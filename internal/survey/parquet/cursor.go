package parquet

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"astropile/internal/shard"
)

// levelBlock is how many levels are decoded at a time.
const levelBlock = 4096

// cursor reads the rows of one leaf front to back.
type cursor struct {
	r          io.ReaderAt
	meta       *shard.FileMetaData
	first      []int64 // first row of each row group, and the number of rows
	l          *leaf
	u          *unpacker
	levelsOnly bool

	group   int   // that is open, or -1
	row     int64 // next row
	left    int64 // levels of the chunk that are not decoded
	dataAt  int64 // where in the file the open page starts
	win     window
	buf     []byte // decompressed page
	dictBuf []byte
	dict    dictionary
	page    page
	pendRep [levelBlock]byte // decoded and not taken: [pend, pendEnd)
	pendDef [levelBlock]byte
	pend    int
	pendEnd int
	pendAll bool // all definition levels there are the largest
	idle    sink // takes what is passed over
}

func (c *cursor) where(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("column %s, row group %d, the page at byte %d: %w", c.l.path, c.group, c.dataAt, err)
}

// chunkSpan is the bytes of a column chunk.
func chunkSpan(m *shard.ColumnMetaData) (lo, hi int64) {
	lo = m.DataPageOffset
	if m.DictPageOffset > 0 && m.DictPageOffset < lo {
		lo = m.DictPageOffset
	}
	return lo, lo + m.TotalCompressed
}

// open starts row group g.
func (c *cursor) open(g int) {
	m := &c.meta.RowGroups[g].Columns[c.l.index].Meta
	lo, hi := chunkSpan(m)
	c.win.reset(c.r, lo, hi)
	c.group, c.row, c.left, c.dataAt = g, c.first[g], m.NumValues, lo
	c.dict = dictionary{}
	c.page = page{}
	c.pend, c.pendEnd = 0, 0
}

// seek makes row the next one.
func (c *cursor) seek(ctx context.Context, row int64) error {
	if c.group < 0 || row < c.row || row >= c.first[c.group+1] && row > c.row {
		g := c.group
		if g < 0 || row < c.first[g] || row >= c.first[g+1] {
			g = groupOf(c.first, row)
		}
		c.open(g)
	}
	for c.row < row {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.pass(row); err != nil {
			return c.where(err)
		}
	}
	return nil
}

// pass moves on towards row, by whole pages where it can.
func (c *cursor) pass(row int64) error {
	if c.l.maxRep == 0 && c.page.left == 0 {
		for c.page.left == 0 {
			if err := c.nextPage(row - c.row); err != nil {
				return err
			}
			if c.row == row {
				return nil
			}
		}
	}
	c.idle.reset()
	c.idle.drop, c.idle.limit = true, 1<<62
	return c.some(&c.idle, int(min(row-c.row, 1<<14)))
}

// read appends the next n rows to s, over row groups.
func (c *cursor) read(s *sink, n int) error {
	for n > 0 {
		if c.row == c.first[c.group+1] {
			g := c.group + 1
			for g < len(c.meta.RowGroups)-1 && c.first[g] == c.first[g+1] {
				g++
			}
			c.open(g)
		}
		k := int(min(int64(n), c.first[c.group+1]-c.row))
		if err := c.some(s, k); err != nil {
			return c.where(err)
		}
		n -= k
	}
	return nil
}

// some appends n rows of the open row group.
func (c *cursor) some(s *sink, n int) error {
	if c.l.maxRep > 0 {
		return c.nested(s, n)
	}
	for n > 0 {
		for c.page.left == 0 {
			if err := c.nextPage(0); err != nil {
				return err
			}
		}
		k := min(n, c.page.left)
		present := k
		if c.l.maxDef > 0 {
			k = min(k, 1<<16)
			at := len(s.def)
			s.def = grow(s.def, k)
			all, err := c.page.def.small(s.def[at:], byte(c.l.maxDef))
			if err != nil {
				return err
			}
			present = k
			if !all {
				s.allDef = false
				if present, err = c.present(s.def[at:]); err != nil {
					return err
				}
			}
		}
		if err := c.page.values.take(s, present, &c.dict); err != nil {
			return err
		}
		c.page.left -= k
		c.row += int64(k)
		n -= k
	}
	return nil
}

// present counts the values that stand behind definition levels.
func (c *cursor) present(def []byte) (int, error) {
	top := byte(c.l.maxDef)
	n := bytes.Count(def, []byte{top})
	if top&(top+1) != 0 { // levels can be larger than the largest only where it is not all ones
		for _, d := range def {
			if d > top {
				return 0, damaged("definition level %d, at most %d", d, top)
			}
		}
	}
	return n, nil
}

// nested appends n rows of lists.
func (c *cursor) nested(s *sink, n int) error {
	started := 0
	if c.row+int64(n) == c.first[c.group+1] {
		n++ // the last row ends where the chunk does
	}
	for {
		if c.pend == c.pendEnd {
			if c.left == 0 {
				c.row += int64(started)
				if c.row != c.first[c.group+1] {
					return damaged("the row group has %d rows where its footer says %d", c.row-c.first[c.group], c.first[c.group+1]-c.first[c.group])
				}
				return nil
			}
			if err := c.fillLevels(); err != nil {
				return err
			}
		}
		rep := c.pendRep[c.pend:c.pendEnd]
		k := 0
		if started == 0 && rep[0] != 0 {
			return damaged("a row begins within a list")
		}
		for started <= n {
			i := bytes.IndexByte(rep[k:], 0)
			if i < 0 {
				k = len(rep)
				break
			}
			k += i
			if started == n {
				break
			}
			started++
			k++
		}
		if err := c.takeNested(s, k); err != nil {
			return err
		}
		if c.pend < c.pendEnd {
			c.row += int64(started)
			if c.row >= c.first[c.group+1] {
				return damaged("the row group has more rows than its footer says")
			}
			return nil
		}
	}
}

// takeNested moves k pending levels and their values to s.
func (c *cursor) takeNested(s *sink, k int) error {
	if k == 0 {
		return nil
	}
	def := c.pendDef[c.pend : c.pend+k]
	s.rep = append(s.rep, c.pendRep[c.pend:c.pend+k]...)
	s.def = append(s.def, def...)
	c.pend += k
	n := k
	if !c.pendAll {
		n = bytes.Count(def, []byte{byte(c.l.maxDef)})
		s.allDef = s.allDef && n == k
	}
	if c.levelsOnly {
		return nil
	}
	return c.page.values.take(s, n, &c.dict)
}

// fillLevels decodes the next pending levels, all of one page.
func (c *cursor) fillLevels() error {
	for c.page.left == 0 {
		if err := c.nextPage(0); err != nil {
			return err
		}
	}
	k := min(levelBlock, c.page.left)
	rep, def := c.pendRep[:k], c.pendDef[:k]
	if _, err := c.page.rep.small(rep, 1); err != nil {
		return err
	}
	all, err := c.page.def.small(def, byte(c.l.maxDef))
	if err != nil {
		return err
	}
	if top := byte(c.l.maxRep); top&(top+1) != 0 {
		for _, r := range rep {
			if r > top {
				return damaged("repetition level %d, at most %d", r, top)
			}
		}
	}
	if !all {
		if _, err := c.present(def); err != nil {
			return err
		}
	}
	c.page.left -= k
	c.left -= int64(k)
	c.pend, c.pendEnd, c.pendAll = 0, k, all
	return nil
}

// nextPage opens the next data page. Of flat columns, it passes over whole pages of up to skip rows.
func (c *cursor) nextPage(skip int64) error {
	flat := c.l.maxRep == 0
	m := &c.meta.RowGroups[c.group].Columns[c.l.index].Meta
	for c.win.left() > 0 {
		c.dataAt = c.win.pos()
		h, k, err := pageHead(&c.win)
		if err != nil {
			return err
		}
		c.win.skip(k)
		n := int(h.Values())
		if h.Type == shard.PageData || h.Type == shard.PageDataV2 {
			if int64(n) > c.left {
				return damaged("the column chunk has more than the %d values that its footer says", m.NumValues)
			}
			if flat && n > 0 && int64(n) <= skip {
				c.win.skip(int(h.CompressedSize))
				c.left -= int64(n)
				c.row += int64(n)
				if skip -= int64(n); skip == 0 {
					return nil
				}
				continue
			}
		} else if h.Type != shard.PageDictionary || c.levelsOnly {
			c.win.skip(int(h.CompressedSize))
			continue
		}
		body, err := c.win.peek(int(h.CompressedSize))
		if err != nil {
			return err
		}
		if h.Type == shard.PageDictionary {
			if err := c.takeDictionary(h, m.Codec, body); err != nil {
				return err
			}
			c.win.skip(int(h.CompressedSize))
			continue
		}
		if err := c.openPage(h, m.Codec, body); err != nil {
			return err
		}
		c.win.skip(int(h.CompressedSize)) // the bytes stay where they are until the next page is looked at
		if n > 0 {
			c.page.left = n
			if flat {
				c.left -= int64(n)
			}
			return nil
		}
	}
	return damaged("the column chunk ends %d values before its footer says", c.left)
}

func (c *cursor) takeDictionary(h *shard.PageHeader, codec shard.Compression, body []byte) error {
	if c.dict.there {
		return damaged("a second dictionary in one column chunk")
	}
	if e := h.Dictionary.Encoding; e != shard.EncPlain && e != shard.EncPlainDictionary {
		return unsupported("a dictionary of encoding %d", e)
	}
	out, err := c.u.body(h, codec, c.dictBuf, body, false)
	if err != nil {
		return err
	}
	if codec != shard.CompressNone {
		c.dictBuf = out
	}
	c.dict, err = loadDictionary(c.l, out, int(h.Dictionary.NumValues))
	return err
}

func (c *cursor) openPage(h *shard.PageHeader, codec shard.Compression, body []byte) error {
	out, err := c.u.body(h, codec, c.buf, body, c.levelsOnly)
	if err != nil {
		return err
	}
	p := &c.page
	*p = page{}
	if v := h.DataV2; v != nil {
		rep, def := body[:v.RepBytes], body[v.RepBytes:v.RepBytes+v.DefBytes]
		if v.DefBytes > 0 && c.l.maxDef == 0 || v.RepBytes > 0 && c.l.maxRep == 0 {
			return damaged("a page has levels, its column none")
		}
		p.rep, p.def = newHybrid(rep, levelWidth(c.l.maxRep)), newHybrid(def, levelWidth(c.l.maxDef))
		if c.levelsOnly {
			return nil
		}
		if codec == shard.CompressNone || !v.Compressed || int(h.UncompressedSize) == len(rep)+len(def) {
			out = body[len(rep)+len(def):]
		} else {
			c.buf = out
		}
		p.values, err = openValues(c.l, out, v.Encoding, int(v.NumValues), &c.dict)
		return err
	}
	if codec != shard.CompressNone && out != nil {
		c.buf = out
	}
	if p.rep, out, err = takeLevels(out, h.Data.RepEncoding, c.l.maxRep); err != nil {
		return err
	}
	if p.def, out, err = takeLevels(out, h.Data.DefEncoding, c.l.maxDef); err != nil {
		return err
	}
	if c.levelsOnly {
		return nil
	}
	p.values, err = openValues(c.l, out, h.Data.Encoding, int(h.Data.NumValues), &c.dict)
	return err
}
