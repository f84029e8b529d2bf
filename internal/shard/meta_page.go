package shard

import "fmt"

// DataPageHeader describes a data page, version 1.
type DataPageHeader struct {
	NumValues   int32
	Encoding    Encoding
	DefEncoding Encoding
	RepEncoding Encoding
}

// DataPageHeaderV2 describes a data page, version 2: levels stand before the values and are never compressed.
type DataPageHeaderV2 struct {
	NumValues  int32
	NumNulls   int32
	NumRows    int32
	Encoding   Encoding
	DefBytes   int32
	RepBytes   int32
	Compressed bool // the values; true where the header does not say
}

// DictionaryPageHeader describes a dictionary page.
type DictionaryPageHeader struct {
	NumValues int32
	Encoding  Encoding
}

// PageHeader stands before every page. Exactly the part that its type names is set; statistics are not kept.
type PageHeader struct {
	Type             int32
	UncompressedSize int32
	CompressedSize   int32
	CRC              uint32 // IEEE CRC-32 of the page's bytes as they stand in the file, without the header
	HasCRC           bool
	Data             *DataPageHeader
	DataV2           *DataPageHeaderV2
	Dictionary       *DictionaryPageHeader
}

// Values is the number of values (nulls included) or dictionary entries in the page.
func (h *PageHeader) Values() int32 {
	switch {
	case h.Data != nil:
		return h.Data.NumValues
	case h.DataV2 != nil:
		return h.DataV2.NumValues
	case h.Dictionary != nil:
		return h.Dictionary.NumValues
	}
	return 0
}

// DecodePageHeader reads the header at the start of b and says how many bytes it took. b may go on.
func DecodePageHeader(b []byte) (*PageHeader, int, error) {
	if len(b) > MaxPageHeader {
		b = b[:MaxPageHeader]
	}
	r := &thriftReader{b: b}
	h := &PageHeader{}
	err := r.record(wireStruct, "a page header", []int16{1, 2, 3}, func(id int16, t byte) (err error) {
		switch id {
		case 1:
			h.Type, err = r.i32(t)
		case 2:
			h.UncompressedSize, err = r.size32(t)
		case 3:
			h.CompressedSize, err = r.size32(t)
		case 4:
			var v int32
			v, err = r.i32(t)
			h.CRC, h.HasCRC = uint32(v), true
		case 5:
			h.Data, err = r.dataPageHeader(t)
		case 7:
			h.Dictionary, err = r.dictionaryPageHeader(t)
		case 8:
			h.DataV2, err = r.dataPageHeaderV2(t)
		default:
			err = r.skip(t, false)
		}
		return err
	})
	if err == nil {
		err = h.check()
	}
	if err != nil {
		return nil, 0, err
	}
	return h, r.pos, nil
}

func (h *PageHeader) check() error {
	want := map[int32]bool{PageData: h.Data != nil, PageDataV2: h.DataV2 != nil, PageDictionary: h.Dictionary != nil, PageIndex: true}
	if !want[h.Type] {
		return fmt.Errorf("%w: a page header of type %d without the part that describes it", ErrFormat, h.Type)
	}
	if v := h.DataV2; v != nil {
		levels := int64(v.DefBytes) + int64(v.RepBytes)
		if levels > int64(h.CompressedSize) || levels > int64(h.UncompressedSize) {
			return fmt.Errorf("%w: levels of %d bytes in a page of %d", ErrFormat, levels, h.CompressedSize)
		}
		if v.NumNulls > v.NumValues || v.NumRows > v.NumValues {
			return fmt.Errorf("%w: %d nulls and %d rows among %d values of a page", ErrFormat, v.NumNulls, v.NumRows, v.NumValues)
		}
	}
	return nil
}

func (r *thriftReader) dataPageHeader(t byte) (*DataPageHeader, error) {
	h := &DataPageHeader{}
	err := r.record(t, "a data page's header", []int16{1, 2, 3, 4}, func(id int16, t byte) (err error) {
		switch id {
		case 1:
			h.NumValues, err = r.size32(t)
		case 2:
			h.Encoding, err = r.encoding(t)
		case 3:
			h.DefEncoding, err = r.encoding(t)
		case 4:
			h.RepEncoding, err = r.encoding(t)
		default:
			err = r.skip(t, false)
		}
		return err
	})
	return h, err
}

func (r *thriftReader) encoding(t byte) (Encoding, error) {
	v, err := r.size32(t)
	return Encoding(v), err
}

func (r *thriftReader) dataPageHeaderV2(t byte) (*DataPageHeaderV2, error) {
	h := &DataPageHeaderV2{Compressed: true}
	err := r.record(t, "a data page's header", []int16{1, 2, 3, 4, 5, 6}, func(id int16, t byte) (err error) {
		switch id {
		case 1:
			h.NumValues, err = r.size32(t)
		case 2:
			h.NumNulls, err = r.size32(t)
		case 3:
			h.NumRows, err = r.size32(t)
		case 4:
			h.Encoding, err = r.encoding(t)
		case 5:
			h.DefBytes, err = r.size32(t)
		case 6:
			h.RepBytes, err = r.size32(t)
		case 7:
			h.Compressed, err = r.bool(t)
		default:
			err = r.skip(t, false)
		}
		return err
	})
	return h, err
}

func (r *thriftReader) dictionaryPageHeader(t byte) (*DictionaryPageHeader, error) {
	h := &DictionaryPageHeader{}
	err := r.record(t, "a dictionary page's header", []int16{1, 2}, func(id int16, t byte) (err error) {
		switch id {
		case 1:
			h.NumValues, err = r.size32(t)
		case 2:
			h.Encoding, err = r.encoding(t)
		default:
			err = r.skip(t, false)
		}
		return err
	})
	return h, err
}

// Append appends the header's bytes to b.
func (h *PageHeader) Append(b []byte) []byte {
	w := &thriftWriter{b: b}
	w.body(func() {
		w.i32(1, h.Type)
		w.i32(2, h.UncompressedSize)
		w.i32(3, h.CompressedSize)
		if h.HasCRC {
			w.i32(4, int32(h.CRC))
		}
		if d := h.Data; d != nil {
			w.structure(5, func() {
				w.i32(1, d.NumValues)
				w.i32(2, int32(d.Encoding))
				w.i32(3, int32(d.DefEncoding))
				w.i32(4, int32(d.RepEncoding))
			})
		}
		if d := h.Dictionary; d != nil {
			w.structure(7, func() { w.i32(1, d.NumValues); w.i32(2, int32(d.Encoding)) })
		}
		if d := h.DataV2; d != nil {
			w.structure(8, func() {
				w.i32(1, d.NumValues)
				w.i32(2, d.NumNulls)
				w.i32(3, d.NumRows)
				w.i32(4, int32(d.Encoding))
				w.i32(5, d.DefBytes)
				w.i32(6, d.RepBytes)
				w.bool(7, d.Compressed)
			})
		}
	})
	return w.b
}

// PageLocation says where a page stands: its header's offset in the file, the bytes of header and page together, and
// the number of its first row in the row group.
type PageLocation struct {
	Offset   int64
	Size     int32
	FirstRow int64
}

// OffsetIndex lists the data pages of a column chunk.
type OffsetIndex struct{ Pages []PageLocation }

// DecodeOffsetIndex reads an offset index. Rows and offsets rise from page to page.
func DecodeOffsetIndex(b []byte) (*OffsetIndex, error) {
	if len(b) > MaxOffsetIndex {
		return nil, fmt.Errorf("%w: an offset index of %d bytes, at most %d", ErrFormat, len(b), MaxOffsetIndex)
	}
	r := &thriftReader{b: b}
	x := &OffsetIndex{}
	err := r.record(wireStruct, "an offset index", []int16{1}, func(id int16, t byte) error {
		if id != 1 {
			return r.skip(t, false)
		}
		return r.list(t, maxPages, func(t byte) error {
			p, err := r.pageLocation(t)
			if err != nil {
				return err
			}
			if n := len(x.Pages); n > 0 && (p.Offset < x.Pages[n-1].Offset+int64(x.Pages[n-1].Size) || p.FirstRow < x.Pages[n-1].FirstRow) {
				return r.bad("page %d of an offset index does not follow its forerunner", n)
			}
			x.Pages = append(x.Pages, p)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

func (r *thriftReader) pageLocation(t byte) (PageLocation, error) {
	var p PageLocation
	err := r.record(t, "a page location", []int16{1, 2, 3}, func(id int16, t byte) (err error) {
		switch id {
		case 1:
			p.Offset, err = r.size(t)
		case 2:
			p.Size, err = r.size32(t)
		case 3:
			p.FirstRow, err = r.size(t)
		default:
			err = r.skip(t, false)
		}
		return err
	})
	if err == nil && p.Offset > 1<<62 {
		err = r.bad("a page at byte %d", p.Offset)
	}
	return p, err
}

// Encode is the bytes of the index.
func (x *OffsetIndex) Encode() []byte {
	w := &thriftWriter{b: make([]byte, 0, 8+12*len(x.Pages))}
	w.body(func() {
		w.list(1, wireStruct, len(x.Pages))
		for i := range x.Pages {
			p := &x.Pages[i]
			w.body(func() { w.i64(1, p.Offset); w.i32(2, p.Size); w.i64(3, p.FirstRow) })
		}
	})
	return w.b
}
