package shard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/klauspost/compress/zstd"

	"astropile/internal/catalog"
)

const (
	// PageBytes is how much of a column a page holds where a row is smaller.
	PageBytes = 64 << 10
	// ConstantPageBytes is the same for columns whose rows are all equal in the shard.
	ConstantPageBytes = 1 << 20
)

// pageRows is how many rows a page holds: whole rows of rowBytes each, counted as they are in memory.
func pageRows(rowBytes, pageBytes int) int { return max(1, pageBytes/rowBytes) }

// chunkPages is a column chunk as it was written: its metadata, its data pages, and the sizes of what may not be cut
// by a unit (a page; a dictionary together with the page after it).
type chunkPages struct {
	chunk ColumnChunk
	pages []PageLocation
	items []int
}

// tensorWriter writes the column chunks of one tensor column.
type tensorWriter struct {
	col      *catalog.Column
	leaf     leaf
	dims     []int
	elems    int // of a row as it is stored
	size     int // bytes of an element as it is stored in memory
	rows     int // of a full page
	layout   catalog.Layout
	codec    catalog.Codec
	dict     []byte // identity dictionary, else nil
	enc      *zstd.Encoder
	scratch  []byte
	packed   []byte
	reps     map[int][]byte
	shifts   map[int]*crcShift
	constant []byte // the first row, where the column must be constant
	isConst  bool
	first    int64 // number of the next chunk's first row, for errors
}

func newTensorWriter(col *catalog.Column, lf leaf, constant bool, enc *zstd.Encoder) (*tensorWriter, error) {
	t := &tensorWriter{col: col, leaf: lf, dims: tensorDims(col), elems: 1, size: col.DType.Component().Size(), layout: col.Layout, codec: col.Codec,
		enc: enc, reps: map[int][]byte{}, shifts: map[int]*crcShift{}, isConst: constant}
	for _, d := range t.dims {
		t.elems *= d
	}
	if err := CheckCodec(col); err != nil {
		return nil, err
	}
	page := PageBytes
	if constant {
		page = ConstantPageBytes
		t.codec = catalog.Zstd
		if t.layout == catalog.Identity {
			t.layout = catalog.Widened // nothing maps, and a dictionary would be larger than the column
		}
	}
	t.rows = pageRows(col.RowBytes(), page)
	if t.layout == catalog.Identity {
		t.dict = identityDictionary(t.size, signed(col.DType))
	}
	return t, nil
}

func signed(d catalog.DType) bool {
	return d == catalog.Int8 || d == catalog.Int16 || d == catalog.Int32 || d == catalog.Int64
}

// writeChunk appends the pages of rows of values to b, whose first byte stands at base in the file.
func (t *tensorWriter) writeChunk(b []byte, base int64, values []byte, rows int) ([]byte, *chunkPages, error) {
	out := &chunkPages{}
	start := len(b)
	at := func() int64 { return base + int64(len(b)) }
	m := &out.chunk.Meta
	m.Type, m.Path, m.NumValues = t.leaf.elem.Type, t.leaf.path, int64(rows)*int64(t.elems)
	if t.codec != catalog.None {
		m.Codec = CompressZstd
	}
	dict := 0
	if t.dict != nil {
		m.DictPageOffset = at()
		raw := t.dict
		if m.Codec == CompressZstd {
			raw = t.enc.EncodeAll(t.dict, nil)
		}
		h := PageHeader{Type: PageDictionary, UncompressedSize: int32(len(t.dict)), CompressedSize: int32(len(raw)), CRC: crc32.ChecksumIEEE(raw), HasCRC: true,
			Dictionary: &DictionaryPageHeader{NumValues: int32(len(t.dict) / 4), Encoding: EncPlain}}
		b = append(h.Append(b), raw...)
		dict = len(b) - start
		m.TotalUncompressed += int64(dict - len(raw) + len(t.dict))
	}
	m.DataPageOffset = at()
	rowBytes := t.col.RowBytes()
	for row := 0; row < rows; row += t.rows {
		n := min(t.rows, rows-row)
		page := values[row*rowBytes : (row+n)*rowBytes]
		if t.isConst {
			if err := t.checkConstant(page, n, row); err != nil {
				return nil, nil, err
			}
		}
		from, pos := len(b), at()
		var raw int
		var err error
		switch {
		case t.layout == catalog.RLE:
			b, raw = t.boolPage(b, page, n)
		case t.codec == catalog.None:
			b, raw, err = t.plainPage(b, pos, page, n)
		default:
			b, raw = t.zstdPage(b, page, n)
		}
		if err != nil {
			return nil, nil, err
		}
		m.TotalUncompressed += int64(raw)
		out.pages = append(out.pages, PageLocation{Offset: pos, Size: int32(len(b) - from), FirstRow: int64(row)})
		item := len(b) - from
		if row == 0 {
			item += dict
		}
		out.items = append(out.items, item)
	}
	m.TotalCompressed = int64(len(b) - start)
	t.describe(m, len(out.pages))
	return b, out, nil
}

// describe fills the lists of encodings.
func (t *tensorWriter) describe(m *ColumnMetaData, pages int) {
	kind := PageData
	if t.codec != catalog.None && t.layout != catalog.RLE {
		kind = PageDataV2
	}
	enc := t.encoding()
	m.Encodings = []Encoding{enc, EncRLE}
	if enc == EncRLE {
		m.Encodings = m.Encodings[:1]
	}
	if t.dict != nil {
		m.Encodings = []Encoding{EncPlain, EncRLE, enc}
		m.EncodingStats = append(m.EncodingStats, EncodingStat{PageDictionary, EncPlain, 1})
	}
	m.EncodingStats = append(m.EncodingStats, EncodingStat{kind, enc, int32(pages)})
}

func (t *tensorWriter) encoding() Encoding {
	switch {
	case t.layout == catalog.RLE:
		return EncRLE
	case t.dict != nil:
		return EncRLEDictionary
	case t.codec == catalog.BSSZstd:
		return EncByteStreamSplit
	}
	return EncPlain
}

func (t *tensorWriter) checkConstant(page []byte, n, row int) error {
	rowBytes := len(page) / n
	if t.constant == nil {
		t.constant = append([]byte{}, page[:rowBytes]...)
	}
	for k := range n {
		if string(page[k*rowBytes:(k+1)*rowBytes]) != string(t.constant) {
			return fmt.Errorf("shard: column %q was announced as constant, but row %d differs from row 0", t.col.Name, t.first+int64(row+k))
		}
	}
	return nil
}

func (t *tensorWriter) repetition(rows int) []byte {
	r, ok := t.reps[rows]
	if !ok {
		r = repetitionLevels(t.dims, rows)
		t.reps[rows] = r
	}
	return r
}

// stored gives the bytes of a page's values as they are stored before compression, and what stands before them.
func (t *tensorWriter) stored(page []byte) (prefix, values []byte) {
	switch {
	case t.dict != nil:
		n := len(page) / t.size
		groups := (n + 7) / 8
		prefix = binary.AppendUvarint([]byte{byte(8 * t.size)}, uint64(groups)<<1|1)
		if n%8 != 0 {
			t.packed = append(t.packed[:0], page...)
			t.packed = append(t.packed, make([]byte, groups*8*t.size-len(page))...)
			page = t.packed
		}
		return prefix, page
	case t.layout == catalog.Widened:
		t.packed = widen(t.packed[:0], page, t.size, signed(t.col.DType))
		return nil, t.packed
	}
	return nil, page
}

// plainPage appends an uncompressed page; raw is the page's size before compression, its header included.
func (t *tensorWriter) plainPage(b []byte, pos int64, page []byte, n int) (_ []byte, raw int, err error) {
	from := len(b)
	prefix, values := t.stored(page)
	shift, ok := t.shifts[len(values)]
	if !ok {
		s := newCRCShift(len(values))
		shift = &s
		t.shifts[len(values)] = shift
	}
	f := &frameSpec{values: n * t.elems, depth: len(t.dims), encoding: t.encoding(), rep: t.repetition(n), prefix: prefix,
		valueSize: len(values), valueCRC: crc32.ChecksumIEEE(values), shift: shift}
	if b, err = appendFrame(b, pos, f); err != nil {
		return nil, 0, err
	}
	b = append(b, values...)
	return b, len(b) - from, nil
}

// boolPage appends a V1 page of runs of bools, compressed as a whole where the column is.
func (t *tensorWriter) boolPage(b, page []byte, n int) (_ []byte, raw int) {
	rep := t.repetition(n)
	body := binary.LittleEndian.AppendUint32(t.scratch[:0], uint32(len(rep)))
	body = append(body, rep...)
	def := appendRun(nil, n*t.elems, byte(len(t.dims)))
	body = binary.LittleEndian.AppendUint32(body, uint32(len(def)))
	body = append(body, def...)
	mark := len(body)
	body = append(body, 0, 0, 0, 0)
	body = appendBools(body, page)
	binary.LittleEndian.PutUint32(body[mark:], uint32(len(body)-mark-4))
	t.scratch = body
	stored := body
	if t.codec != catalog.None {
		t.packed = t.enc.EncodeAll(body, t.packed[:0])
		stored = t.packed
	}
	h := PageHeader{Type: PageData, UncompressedSize: int32(len(body)), CompressedSize: int32(len(stored)), CRC: crc32.ChecksumIEEE(stored), HasCRC: true,
		Data: &DataPageHeader{NumValues: int32(n * t.elems), Encoding: EncRLE, DefEncoding: EncRLE, RepEncoding: EncRLE}}
	from := len(b)
	b = h.Append(b)
	raw = len(b) - from + len(body)
	return append(b, stored...), raw
}

// zstdPage appends a V2 page, whose levels stand before the values and are not compressed.
func (t *tensorWriter) zstdPage(b, page []byte, n int) (_ []byte, raw int) {
	prefix, values := t.stored(page)
	plain := values
	switch {
	case t.codec == catalog.BSSZstd:
		t.scratch = splitStreams(t.scratch[:0], values, len(values)/(n*t.elems))
		plain = t.scratch
	case len(prefix) > 0:
		t.scratch = append(append(t.scratch[:0], prefix...), values...)
		plain = t.scratch
	}
	rep := t.repetition(n)
	def := appendRun(nil, n*t.elems, byte(len(t.dims)))
	levels := append(append(make([]byte, 0, len(rep)+len(def)), rep...), def...)
	packed := t.enc.EncodeAll(plain, make([]byte, 0, len(plain)/2))
	h := PageHeader{Type: PageDataV2, UncompressedSize: int32(len(levels) + len(plain)), CompressedSize: int32(len(levels) + len(packed)),
		CRC: crc32.Update(crc32.ChecksumIEEE(levels), crc32.IEEETable, packed), HasCRC: true,
		DataV2: &DataPageHeaderV2{NumValues: int32(n * t.elems), NumRows: int32(n), Encoding: t.encoding(), DefBytes: int32(len(def)), RepBytes: int32(len(rep)), Compressed: true}}
	from := len(b)
	b = h.Append(b)
	raw = len(b) - from + len(levels) + len(plain)
	return append(append(b, levels...), packed...), raw
}
