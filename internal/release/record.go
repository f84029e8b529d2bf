package release

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"astropile/internal/catalog"
)

// A record is one row on its way, as the spool holds it, in one piece so that reading a row back is one read:
//
//	CRC-32C of what follows up to the tensors | CRC-32C of the tensors | null bits | fixed scalars | text | lists and structs | tensors
//
// Text is its length (u32) and bytes; a list the number of its elements (u32) and the elements, of text their lengths (u32) and
// then their bytes; a struct its members, one list after the other. The id stands first among its kind. Tensors end the record, so
// that their place follows from its length.
const recordHead = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// recordCodec packs rows of batches into records, and records into vectors of shards.
type recordCodec struct {
	cols   []catalog.Column // of the shards
	source []int            // column of the batches for each; fromHealpix, fromNothing
	id     int              // of cols

	scalars, tensors        []place // in the order in which they stand
	varied                  []int   // of cols
	null                    []int   // first null bit of what can be null
	nullBytes, prefix, tail int     // bytes of null bits; of all up to text; of the tensors
	fixedPayload            int64
}

// place is where a value of fixed size stands in a record.
type place struct {
	k      int // of cols
	source int // of the batches
	n      int // bytes
	at     int // from the record's start; of tensors: from the first tensor
	null   int // bit
}

// Sources of a column that the batches do not have.
const (
	fromHealpix = -1 // the place on the sky
	fromNothing = -2 // null in every row
)

func newRecordCodec(cols []catalog.Column, source []int, id string) *recordCodec {
	c := &recordCodec{cols: cols, source: source, null: make([]int, len(cols))}
	bits := 0
	var order []int
	for k := range cols {
		if cols[k].Name == id {
			c.id = k
			order = slices.Insert(order, 0, k)
		} else {
			order = append(order, k)
		}
	}
	for _, k := range order {
		col := &cols[k]
		c.null[k] = bits
		if col.Fixed() {
			c.fixedPayload += int64(col.RowBytes())
		}
		switch {
		case col.Kind == catalog.Tensor:
			c.tensors = append(c.tensors, place{k: k, source: source[k], n: col.RowBytes(), at: c.tail})
			c.tail += col.RowBytes()
		case source[k] == fromHealpix:
		case col.Fixed():
			c.scalars = append(c.scalars, place{k: k, source: source[k], n: col.RowBytes(), null: bits})
			bits++
		default:
			bits += 1 + len(col.Members)
			c.varied = append(c.varied, k)
		}
	}
	c.nullBytes = (bits + 7) / 8
	c.prefix = recordHead + c.nullBytes
	for i := range c.scalars {
		c.scalars[i].at = c.prefix
		c.prefix += c.scalars[i].n
	}
	return c
}

// small copies what is one value of four or eight bytes without a call.
func small(dst, src []byte) {
	switch len(src) {
	case 8:
		binary.LittleEndian.PutUint64(dst, binary.LittleEndian.Uint64(src))
	case 4:
		binary.LittleEndian.PutUint32(dst, binary.LittleEndian.Uint32(src))
	default:
		copy(dst, src)
	}
}

// forbidden gives a column that may not be null and has no value in some row of the batch, and the first such row.
func (c *recordCodec) forbidden(b *catalog.Batch) (k, row int) {
	k, row = -1, b.Rows
	for x := range c.cols {
		if c.cols[x].Nullable || c.source[x] < 0 {
			continue
		}
		v := b.Vectors[c.source[x]]
		if v.Valid == nil {
			continue
		}
		if i := slices.Index(v.Valid, false); i >= 0 && i < row {
			k, row = x, i
		}
	}
	return k, row
}

// append appends the record of row i of a batch to dst, and says what the row weighs.
func (c *recordCodec) append(dst []byte, b *catalog.Batch, i int) ([]byte, int64) {
	start := len(dst)
	dst = slices.Grow(dst, c.prefix)[:start+c.prefix]
	rec := dst[start:]
	clear(rec[:recordHead+c.nullBytes])
	bits := rec[recordHead : recordHead+c.nullBytes]
	setNull := func(n int) { bits[n/8] |= 1 << (n % 8) }
	for k := range c.scalars {
		p := &c.scalars[k]
		if p.source < 0 {
			setNull(p.null)
			clear(rec[p.at : p.at+p.n])
			continue
		}
		v := b.Vectors[p.source]
		if v.Valid != nil && !v.Valid[i] {
			setNull(p.null)
		}
		small(rec[p.at:p.at+p.n], v.Data[i*p.n:(i+1)*p.n])
	}
	payload := c.fixedPayload
	for _, k := range c.varied {
		col := &c.cols[k]
		v, at := nothing(col), 0
		if c.source[k] >= 0 {
			v, at = b.Vectors[c.source[k]], i
		}
		bits = dst[start+recordHead : start+recordHead+c.nullBytes]
		if v.Null(at) {
			setNull(c.null[k])
		}
		for m, x := range v.Members {
			if x.Null(at) {
				setNull(c.null[k] + 1 + m)
			}
		}
		dst, payload = c.appendVaried(dst, col, v, at, payload)
	}
	head := len(dst)
	for k := range c.tensors {
		p := &c.tensors[k]
		dst = append(dst, b.Vectors[p.source].Data[i*p.n:(i+1)*p.n]...)
	}
	rec = dst[start:]
	binary.LittleEndian.PutUint32(rec, crc32.Checksum(dst[start+recordHead:head], castagnoli))
	if c.tail > 0 {
		binary.LittleEndian.PutUint32(rec[4:], crc32.Checksum(dst[head:], castagnoli))
	}
	return dst, payload
}

// least is what a record takes at least.
func (c *recordCodec) least() int { return c.prefix + c.tail + 4*len(c.varied) }

// nothing is a vector of one row that is null.
func nothing(col *catalog.Column) *catalog.Vector {
	v := catalog.NewVector(col)
	v.Rows, v.Valid = 1, []bool{false}
	if !col.Fixed() && col.Kind != catalog.Struct {
		v.Offsets = []int64{0, 0}
	}
	for m := range v.Members {
		v.Members[m] = nothing(&col.Members[m])
	}
	return v
}

func (c *recordCodec) appendVaried(dst []byte, col *catalog.Column, v *catalog.Vector, i int, payload int64) ([]byte, int64) {
	switch {
	case col.Kind == catalog.Struct:
		for m := range col.Members {
			dst, payload = c.appendVaried(dst, &col.Members[m], v.Members[m], i, payload)
		}
		return dst, payload
	case col.Kind == catalog.Scalar:
		text := v.Str(i)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(text)))
		return append(dst, text...), payload + int64(len(text)) + 4
	}
	lo, hi := v.Offsets[i], v.Offsets[i+1]
	dst = binary.LittleEndian.AppendUint32(dst, uint32(hi-lo))
	if col.DType != catalog.String {
		n := int64(col.DType.Size())
		return append(dst, v.Data[lo*n:hi*n]...), payload + (hi-lo)*n
	}
	for k := lo; k < hi; k++ {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(v.StrOffsets[k+1]-v.StrOffsets[k]))
	}
	text := v.Data[v.StrOffsets[lo]:v.StrOffsets[hi]]
	return append(dst, text...), payload + int64(len(text)) + 4*(hi-lo)
}

// check says whether a record is the one that was written: all of it, or all but its tensors.
func (c *recordCodec) check(rec []byte, whole bool) error {
	head := len(rec)
	if whole {
		head -= c.tail
	}
	if head < c.prefix || crc32.Checksum(rec[recordHead:head], castagnoli) != binary.LittleEndian.Uint32(rec) ||
		whole && c.tail > 0 && crc32.Checksum(rec[head:], castagnoli) != binary.LittleEndian.Uint32(rec[4:]) {
		return fmt.Errorf("%w: a row that was read and kept in %s is not what was written; import with --discard", ErrDamaged, stagingDir)
	}
	return nil
}

// rowID appends the id of a checked record as text.
func (c *recordCodec) rowID(dst, rec []byte) []byte {
	col := &c.cols[c.id]
	if col.DType == catalog.String {
		n := int(binary.LittleEndian.Uint32(rec[c.prefix:]))
		return append(dst, rec[c.prefix+4:c.prefix+4+n]...)
	}
	// The id stands first among its kind.
	v := catalog.Vector{Rows: 1, Data: rec[c.scalars[0].at:]}
	return v.AppendText(dst, col.DType, 0)
}

// gathering is a run of vectors that is filled from records.
type gathering struct {
	c      *recordCodec
	vs     []*catalog.Vector // of all columns; nil for those that are not wanted
	rows   int               // that are to come
	tensor bool              // records are whole
}

// gather makes room for so many rows of the columns wanted.
func (c *recordCodec) gather(rows int, only func(*catalog.Column) bool) *gathering {
	g := &gathering{c: c, rows: rows, vs: make([]*catalog.Vector, len(c.cols))}
	for k := range c.cols {
		col := &c.cols[k]
		if only != nil && !only(col) {
			continue
		}
		g.tensor = g.tensor || col.Kind == catalog.Tensor
		g.vs[k] = catalog.NewVector(col)
		if n := col.RowBytes(); n > 0 {
			g.vs[k].Data = make([]byte, n*rows)
		} else if col.Kind != catalog.Struct {
			g.vs[k].Offsets = make([]int64, 1, rows+1)
		}
	}
	return g
}

// reset takes the room for other rows, no more than there were.
func (g *gathering) reset(rows int) {
	g.rows = rows
	for k, v := range g.vs {
		if v == nil {
			continue
		}
		n := g.c.cols[k].RowBytes()
		emptied(v)
		if n > 0 {
			v.Data = slices.Grow(v.Data, n*rows)[:n*rows]
		}
	}
}

func emptied(v *catalog.Vector) {
	v.Rows, v.Data, v.Valid = 0, v.Data[:0], nil
	if v.Offsets != nil {
		v.Offsets = v.Offsets[:1]
	}
	if v.StrOffsets != nil {
		v.StrOffsets = v.StrOffsets[:1]
	}
	for _, m := range v.Members {
		emptied(m)
	}
}

// add takes the rows of checked records, in order; recs[i] is that of place hpx[i].
func (g *gathering) add(recs [][]byte, hpx func(i int) int64) {
	c := g.c
	nulls := false
	for _, rec := range recs {
		for _, b := range rec[recordHead : recordHead+c.nullBytes] {
			nulls = nulls || b != 0
		}
	}
	for k, v := range g.vs {
		if v != nil && c.source[k] == fromHealpix {
			for i := range recs {
				binary.LittleEndian.PutUint64(v.Data[8*(v.Rows+i):], uint64(hpx(i)))
			}
			v.Rows += len(recs)
		}
	}
	for k := range c.scalars {
		if v := g.vs[c.scalars[k].k]; v != nil {
			g.scalar(&c.scalars[k], v, recs, nulls)
		}
	}
	for _, rec := range recs {
		at := c.prefix
		for _, k := range c.varied {
			at = c.varying(g.vs[k], &c.cols[k], rec, at, c.null[k], g.rows)
		}
	}
	for k := range c.tensors {
		p := &c.tensors[k]
		v := g.vs[p.k]
		if v == nil {
			continue
		}
		for i, rec := range recs {
			from := len(rec) - c.tail + p.at
			copy(v.Data[p.n*(v.Rows+i):p.n*(v.Rows+i+1)], rec[from:from+p.n])
		}
		v.Rows += len(recs)
	}
}

// scalar takes the values of one column; nulls says whether any column has one that is null.
func (g *gathering) scalar(p *place, v *catalog.Vector, recs [][]byte, nulls bool) {
	to := v.Data[p.n*v.Rows : p.n*(v.Rows+len(recs))]
	switch p.n {
	case 8:
		for i, rec := range recs {
			binary.LittleEndian.PutUint64(to[8*i:], binary.LittleEndian.Uint64(rec[p.at:]))
		}
	case 4:
		for i, rec := range recs {
			binary.LittleEndian.PutUint32(to[4*i:], binary.LittleEndian.Uint32(rec[p.at:]))
		}
	default:
		for i, rec := range recs {
			copy(to[p.n*i:p.n*(i+1)], rec[p.at:])
		}
	}
	if nulls || v.Valid != nil {
		for i, rec := range recs {
			if rec[recordHead+p.null/8]&(1<<(p.null%8)) != 0 {
				nullRow(v, v.Rows+i, g.rows)
			} else if v.Valid != nil {
				v.Valid = append(v.Valid, true)
			}
		}
	}
	v.Rows += len(recs)
}

// nullRow makes row r, which comes next, a null.
func nullRow(v *catalog.Vector, r, most int) {
	if v.Valid == nil {
		v.Valid = make([]bool, r, max(most, r+1))
		for i := range v.Valid {
			v.Valid[i] = true
		}
	}
	v.Valid = append(v.Valid, false)
}

// varying takes a value of no fixed length from a record; v is nil where it is only passed over. It gives where the next stands.
func (c *recordCodec) varying(v *catalog.Vector, col *catalog.Column, rec []byte, at, bit, most int) int {
	if v != nil {
		if rec[recordHead+bit/8]&(1<<(bit%8)) != 0 {
			nullRow(v, v.Rows, most)
		} else if v.Valid != nil {
			v.Valid = append(v.Valid, true)
		}
	}
	if col.Kind == catalog.Struct {
		for m := range col.Members {
			var x *catalog.Vector
			if v != nil {
				x = v.Members[m]
			}
			at = c.varying(x, &col.Members[m], rec, at, bit+1+m, most)
		}
		if v != nil {
			v.Rows++
		}
		return at
	}
	n := int(binary.LittleEndian.Uint32(rec[at:]))
	at += 4
	text := at
	if col.Kind == catalog.List && col.DType == catalog.String {
		text += 4 * n
		end := text
		for k := 0; k < n; k++ {
			end += int(binary.LittleEndian.Uint32(rec[at+4*k:]))
			if v != nil {
				v.StrOffsets = append(v.StrOffsets, int64(len(v.Data)+end-text))
			}
		}
		if v != nil {
			v.Data = append(v.Data, rec[text:end]...)
			v.Offsets = append(v.Offsets, v.Offsets[v.Rows]+int64(n))
			v.Rows++
		}
		return end
	}
	end := at + n
	if col.Kind == catalog.List {
		end = at + n*col.DType.Size()
	}
	if v != nil {
		v.Data = append(v.Data, rec[at:end]...)
		v.Offsets = append(v.Offsets, v.Offsets[v.Rows]+int64(n))
		v.Rows++
	}
	return end
}
