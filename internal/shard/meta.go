package shard

import (
	"fmt"
	"math"
)

// Bounds on what is accepted from metadata that others may have written.
const (
	MaxFooter         = 64 << 20 // bytes of a footer
	MaxPageHeader     = 64 << 10 // bytes of a page header
	MaxOffsetIndex    = 64 << 20 // bytes of an offset index
	maxSchemaElements = 1 << 16
	maxRowGroups      = 1 << 20
	maxLeaves         = 1 << 16
	maxKeyValues      = 1 << 16
	maxPathParts      = 64
	maxEncodings      = 256
	maxPages          = 1 << 24 // pages of a column chunk
)

// PhysicalType is how Parquet stores an element.
type PhysicalType int32

// The physical types.
const (
	TypeBoolean   PhysicalType = 0
	TypeInt32     PhysicalType = 1
	TypeInt64     PhysicalType = 2
	TypeInt96     PhysicalType = 3
	TypeFloat     PhysicalType = 4
	TypeDouble    PhysicalType = 5
	TypeByteArray PhysicalType = 6
	TypeFixed     PhysicalType = 7
)

// Repetition of a schema element.
const (
	Required int32 = 0
	Optional int32 = 1
	Repeated int32 = 2
)

// Converted types (the older form of logical types) that are written.
const (
	ConvertedNone   int32 = -1
	ConvertedUTF8   int32 = 0
	ConvertedList   int32 = 3
	ConvertedUint8  int32 = 11
	ConvertedUint16 int32 = 12
	ConvertedUint32 int32 = 13
	ConvertedUint64 int32 = 14
	ConvertedInt8   int32 = 15
	ConvertedInt16  int32 = 16
	ConvertedInt32  int32 = 17
	ConvertedInt64  int32 = 18
)

// Logical types: numbers of the union's members.
const (
	LogicalNone    int16 = 0
	LogicalString  int16 = 1
	LogicalList    int16 = 3
	LogicalInteger int16 = 10
	LogicalFloat16 int16 = 15
)

// Encoding of values or levels in a page.
type Encoding int32

// The encodings.
const (
	EncPlain           Encoding = 0
	EncPlainDictionary Encoding = 2
	EncRLE             Encoding = 3
	EncBitPacked       Encoding = 4
	EncDeltaBinary     Encoding = 5
	EncDeltaLength     Encoding = 6
	EncDeltaBytes      Encoding = 7
	EncRLEDictionary   Encoding = 8
	EncByteStreamSplit Encoding = 9
)

// Compression of a column chunk.
type Compression int32

// The codecs of Parquet.
const (
	CompressNone   Compression = 0
	CompressSnappy Compression = 1
	CompressGzip   Compression = 2
	CompressLZO    Compression = 3
	CompressBrotli Compression = 4
	CompressLZ4    Compression = 5
	CompressZstd   Compression = 6
	CompressLZ4Raw Compression = 7
)

// Page types.
const (
	PageData       int32 = 0
	PageIndex      int32 = 1
	PageDictionary int32 = 2
	PageDataV2     int32 = 3
)

// KeyValue is one entry of key-value metadata.
type KeyValue struct{ Key, Value string }

// SchemaElement is one node of the schema, in depth-first order.
type SchemaElement struct {
	Name       string
	Leaf       bool // has a physical type
	Type       PhysicalType
	TypeLength int32 // of TypeFixed
	Repetition int32 // Required where the root gives none
	Children   int32
	Converted  int32 // ConvertedNone where absent
	Logical    int16 // LogicalNone where absent; unknown ones are kept as their number
	IntBits    int8  // LogicalInteger: width
	IntSigned  bool  // LogicalInteger
}

// Statistics of a column chunk; nil slices are absent. Values stand in Parquet's PLAIN encoding.
type Statistics struct {
	Min, Max           []byte // min_value, max_value
	NullCount          int64  // -1 where absent
	MinExact, MaxExact bool
}

// EncodingStat counts pages of a type and encoding.
type EncodingStat struct {
	Page     int32
	Encoding Encoding
	Count    int32
}

// ColumnMetaData describes a column chunk.
type ColumnMetaData struct {
	Type              PhysicalType
	Encodings         []Encoding
	Path              []string
	Codec             Compression
	NumValues         int64
	TotalUncompressed int64 // page headers included
	TotalCompressed   int64 // page headers included
	KeyValues         []KeyValue
	DataPageOffset    int64
	DictPageOffset    int64 // 0 where absent
	Statistics        *Statistics
	EncodingStats     []EncodingStat
}

// ColumnChunk is one column of a row group.
type ColumnChunk struct {
	FilePath          string
	FileOffset        int64
	Meta              ColumnMetaData
	OffsetIndexOffset int64 // 0 where absent, as the other three
	OffsetIndexLength int32
	ColumnIndexOffset int64
	ColumnIndexLength int32
	Encrypted         bool
}

// RowGroup is a run of rows.
type RowGroup struct {
	Columns         []ColumnChunk
	TotalByteSize   int64
	NumRows         int64
	FileOffset      int64
	TotalCompressed int64
	Ordinal         int16
}

// FileMetaData is the footer of a Parquet file.
type FileMetaData struct {
	Version   int32
	Schema    []SchemaElement
	NumRows   int64
	RowGroups []RowGroup
	KeyValues []KeyValue
	CreatedBy string
	Orders    int  // column orders: how many leaves have the type-defined order
	Encrypted bool // has an encryption algorithm
}

// Value returns the first value of a key of the footer's metadata.
func (m *FileMetaData) Value(key string) (string, bool) {
	for i := range m.KeyValues {
		if m.KeyValues[i].Key == key {
			return m.KeyValues[i].Value, true
		}
	}
	return "", false
}

// Field numbers that must be there, as bits.
type seen uint64

func (s *seen) set(id int16) {
	if id >= 0 && id < 64 {
		*s |= 1 << id
	}
}

func (s seen) need(r *thriftReader, what string, ids ...int16) error {
	for _, id := range ids {
		if s&(1<<id) == 0 {
			return r.bad("%s lacks field %d", what, id)
		}
	}
	return nil
}

// record calls f with each field of a struct, of which some must be there.
func (r *thriftReader) record(t byte, what string, need []int16, f func(id int16, t byte) error) error {
	var s seen
	err := r.fields(t, func(id int16, t byte) error {
		s.set(id)
		return f(id, t)
	})
	if err != nil {
		return err
	}
	return s.need(r, what, need...)
}

// DecodeFileMetaData reads a footer. Unknown fields are passed over. Bytes after the footer's end are an error.
func DecodeFileMetaData(b []byte) (*FileMetaData, error) {
	if len(b) > MaxFooter {
		return nil, fmt.Errorf("%w: a footer of %d bytes, at most %d", ErrFormat, len(b), MaxFooter)
	}
	r := &thriftReader{b: b}
	m := &FileMetaData{}
	err := r.record(wireStruct, "the footer", []int16{1, 2, 3, 4}, func(id int16, t byte) (err error) {
		switch id {
		case 1:
			m.Version, err = r.i32(t)
		case 2:
			err = r.list(t, maxSchemaElements, func(t byte) error {
				e, err := r.schemaElement(t)
				m.Schema = append(m.Schema, e)
				return err
			})
		case 3:
			m.NumRows, err = r.size(t)
		case 4:
			err = r.list(t, maxRowGroups, func(t byte) error {
				g, err := r.rowGroup(t)
				m.RowGroups = append(m.RowGroups, g)
				return err
			})
		case 5:
			m.KeyValues, err = r.keyValues(t)
		case 6:
			m.CreatedBy, err = r.string(t)
		case 7:
			m.Orders, err = r.columnOrders(t)
		case 8:
			m.Encrypted = true
			err = r.skip(t, false)
		default:
			err = r.skip(t, false)
		}
		return err
	})
	if err == nil && r.left() != 0 {
		err = r.bad("%d bytes after the footer", r.left())
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (r *thriftReader) columnOrders(t byte) (int, error) {
	n := 0
	err := r.list(t, maxLeaves, func(t byte) error {
		return r.fields(t, func(id int16, t byte) error {
			if id == 1 {
				n++
			}
			return r.skip(t, false)
		})
	})
	return n, err
}

func (r *thriftReader) keyValues(t byte) ([]KeyValue, error) {
	var out []KeyValue
	err := r.list(t, maxKeyValues, func(t byte) error {
		var kv KeyValue
		err := r.fields(t, func(id int16, t byte) (err error) {
			switch id {
			case 1:
				kv.Key, err = r.string(t)
			case 2:
				kv.Value, err = r.string(t)
			default:
				err = r.skip(t, false)
			}
			return err
		})
		out = append(out, kv)
		return err
	})
	return out, err
}

func (r *thriftReader) schemaElement(t byte) (SchemaElement, error) {
	e := SchemaElement{Converted: ConvertedNone}
	err := r.record(t, "a schema element", []int16{4}, func(id int16, t byte) (err error) {
		switch id {
		case 1:
			var v int32
			v, err = r.i32(t)
			e.Type, e.Leaf = PhysicalType(v), true
			if err == nil && (v < 0 || v > int32(TypeFixed)) {
				err = r.bad("physical type %d", v)
			}
		case 2:
			e.TypeLength, err = r.size32(t)
		case 3:
			if e.Repetition, err = r.i32(t); err == nil && (e.Repetition < 0 || e.Repetition > Repeated) {
				err = r.bad("repetition %d", e.Repetition)
			}
		case 4:
			e.Name, err = r.string(t)
		case 5:
			e.Children, err = r.size32(t)
		case 6:
			e.Converted, err = r.i32(t)
		case 10:
			err = r.logicalType(t, &e)
		default:
			err = r.skip(t, false)
		}
		return err
	})
	return e, err
}

func (r *thriftReader) logicalType(t byte, e *SchemaElement) error {
	return r.fields(t, func(id int16, t byte) error {
		e.Logical = id
		if id != LogicalInteger {
			return r.skip(t, false)
		}
		return r.fields(t, func(id int16, t byte) (err error) {
			switch id {
			case 1:
				var v int64
				if v, err = r.i64(t); err == nil && v != 8 && v != 16 && v != 32 && v != 64 {
					err = r.bad("an integer of %d bits", v)
				}
				e.IntBits = int8(v)
			case 2:
				e.IntSigned, err = r.bool(t)
			default:
				err = r.skip(t, false)
			}
			return err
		})
	})
}

func (r *thriftReader) rowGroup(t byte) (RowGroup, error) {
	var g RowGroup
	err := r.record(t, "a row group", []int16{1, 2, 3}, func(id int16, t byte) (err error) {
		switch id {
		case 1:
			err = r.list(t, maxLeaves, func(t byte) error {
				c, err := r.columnChunk(t)
				g.Columns = append(g.Columns, c)
				return err
			})
		case 2:
			g.TotalByteSize, err = r.i64(t)
		case 3:
			g.NumRows, err = r.size(t)
		case 5:
			g.FileOffset, err = r.i64(t)
		case 6:
			g.TotalCompressed, err = r.i64(t)
		case 7:
			var v int64
			if v, err = r.i64(t); err == nil && (v < math.MinInt16 || v > math.MaxInt16) {
				err = r.bad("row group ordinal %d", v)
			}
			g.Ordinal = int16(v)
		default:
			err = r.skip(t, false)
		}
		return err
	})
	return g, err
}

func (r *thriftReader) columnChunk(t byte) (ColumnChunk, error) {
	var c ColumnChunk
	err := r.record(t, "a column chunk", []int16{3}, func(id int16, t byte) (err error) {
		switch id {
		case 1:
			c.FilePath, err = r.string(t)
		case 2:
			c.FileOffset, err = r.i64(t)
		case 3:
			c.Meta, err = r.columnMetaData(t)
		case 4:
			c.OffsetIndexOffset, err = r.size(t)
		case 5:
			c.OffsetIndexLength, err = r.size32(t)
		case 6:
			c.ColumnIndexOffset, err = r.size(t)
		case 7:
			c.ColumnIndexLength, err = r.size32(t)
		case 8, 9:
			c.Encrypted = true
			err = r.skip(t, false)
		default:
			err = r.skip(t, false)
		}
		return err
	})
	return c, err
}

func (r *thriftReader) columnMetaData(t byte) (ColumnMetaData, error) {
	var m ColumnMetaData
	err := r.record(t, "a column chunk's metadata", []int16{1, 3, 4, 5, 6, 7, 9}, func(id int16, t byte) (err error) {
		switch id {
		case 1:
			var v int32
			v, err = r.i32(t)
			m.Type = PhysicalType(v)
		case 2:
			err = r.list(t, maxEncodings, func(t byte) error {
				v, err := r.i32(t)
				m.Encodings = append(m.Encodings, Encoding(v))
				return err
			})
		case 3:
			err = r.list(t, maxPathParts, func(t byte) error {
				p, err := r.string(t)
				m.Path = append(m.Path, p)
				return err
			})
		case 4:
			var v int32
			v, err = r.i32(t)
			m.Codec = Compression(v)
		case 5:
			m.NumValues, err = r.size(t)
		case 6:
			m.TotalUncompressed, err = r.size(t)
		case 7:
			m.TotalCompressed, err = r.size(t)
		case 8:
			m.KeyValues, err = r.keyValues(t)
		case 9:
			m.DataPageOffset, err = r.size(t)
		case 11:
			m.DictPageOffset, err = r.size(t)
		case 12:
			m.Statistics, err = r.statistics(t)
		case 13:
			err = r.list(t, maxEncodings, func(t byte) error {
				e, err := r.encodingStat(t)
				m.EncodingStats = append(m.EncodingStats, e)
				return err
			})
		default:
			err = r.skip(t, false)
		}
		return err
	})
	return m, err
}

func (r *thriftReader) statistics(t byte) (*Statistics, error) {
	s := &Statistics{NullCount: -1}
	err := r.fields(t, func(id int16, t byte) (err error) {
		switch id {
		case 3:
			s.NullCount, err = r.size(t)
		case 5:
			s.Max, err = r.binary(t)
		case 6:
			s.Min, err = r.binary(t)
		case 7:
			s.MaxExact, err = r.bool(t)
		case 8:
			s.MinExact, err = r.bool(t)
		default: // 1 and 2 are the deprecated bounds, whose order is not defined
			err = r.skip(t, false)
		}
		return err
	})
	return s, err
}

func (r *thriftReader) encodingStat(t byte) (EncodingStat, error) {
	var e EncodingStat
	err := r.fields(t, func(id int16, t byte) (err error) {
		switch id {
		case 1:
			e.Page, err = r.i32(t)
		case 2:
			var v int32
			v, err = r.i32(t)
			e.Encoding = Encoding(v)
		case 3:
			e.Count, err = r.size32(t)
		default:
			err = r.skip(t, false)
		}
		return err
	})
	return e, err
}

// Encode is the footer's bytes, without its length and the closing magic.
func (m *FileMetaData) Encode() []byte {
	w := &thriftWriter{}
	w.body(func() {
		w.i32(1, m.Version)
		w.list(2, wireStruct, len(m.Schema))
		for i := range m.Schema {
			m.Schema[i].encode(w)
		}
		w.i64(3, m.NumRows)
		w.list(4, wireStruct, len(m.RowGroups))
		for i := range m.RowGroups {
			m.RowGroups[i].encode(w)
		}
		if len(m.KeyValues) > 0 {
			w.keyValues(5, m.KeyValues)
		}
		if m.CreatedBy != "" {
			w.string(6, m.CreatedBy)
		}
		if m.Orders > 0 {
			w.list(7, wireStruct, m.Orders)
			for range m.Orders {
				w.body(func() { w.structure(1, func() {}) })
			}
		}
	})
	return w.b
}

func (w *thriftWriter) keyValues(id int16, kvs []KeyValue) {
	w.list(id, wireStruct, len(kvs))
	for _, kv := range kvs {
		w.body(func() { w.string(1, kv.Key); w.string(2, kv.Value) })
	}
}

func (e *SchemaElement) encode(w *thriftWriter) {
	w.body(func() {
		if e.Leaf {
			w.i32(1, int32(e.Type))
			if e.Type == TypeFixed {
				w.i32(2, e.TypeLength)
			}
		}
		w.i32(3, e.Repetition)
		w.string(4, e.Name)
		if !e.Leaf {
			w.i32(5, e.Children)
		}
		if e.Converted != ConvertedNone {
			w.i32(6, e.Converted)
		}
		if e.Logical != LogicalNone {
			w.structure(10, func() {
				w.structure(e.Logical, func() {
					if e.Logical == LogicalInteger {
						w.i8(1, e.IntBits)
						w.bool(2, e.IntSigned)
					}
				})
			})
		}
	})
}

func (g *RowGroup) encode(w *thriftWriter) {
	w.body(func() {
		w.list(1, wireStruct, len(g.Columns))
		for i := range g.Columns {
			g.Columns[i].encode(w)
		}
		w.i64(2, g.TotalByteSize)
		w.i64(3, g.NumRows)
		w.i64(5, g.FileOffset)
		w.i64(6, g.TotalCompressed)
		w.i16(7, g.Ordinal)
	})
}

func (c *ColumnChunk) encode(w *thriftWriter) {
	w.body(func() {
		if c.FilePath != "" {
			w.string(1, c.FilePath)
		}
		w.i64(2, c.FileOffset)
		w.structure(3, func() { c.Meta.fields(w) })
		if c.OffsetIndexOffset != 0 {
			w.i64(4, c.OffsetIndexOffset)
			w.i32(5, c.OffsetIndexLength)
		}
		if c.ColumnIndexOffset != 0 {
			w.i64(6, c.ColumnIndexOffset)
			w.i32(7, c.ColumnIndexLength)
		}
	})
}

func (m *ColumnMetaData) fields(w *thriftWriter) {
	w.i32(1, int32(m.Type))
	w.list(2, wireI32, len(m.Encodings))
	for _, e := range m.Encodings {
		w.zigzag(int64(e))
	}
	w.list(3, wireBinary, len(m.Path))
	for _, p := range m.Path {
		w.text(p)
	}
	w.i32(4, int32(m.Codec))
	w.i64(5, m.NumValues)
	w.i64(6, m.TotalUncompressed)
	w.i64(7, m.TotalCompressed)
	if len(m.KeyValues) > 0 {
		w.keyValues(8, m.KeyValues)
	}
	w.i64(9, m.DataPageOffset)
	if m.DictPageOffset != 0 {
		w.i64(11, m.DictPageOffset)
	}
	if s := m.Statistics; s != nil {
		w.structure(12, func() { s.fields(w) })
	}
	if len(m.EncodingStats) > 0 {
		w.list(13, wireStruct, len(m.EncodingStats))
		for _, e := range m.EncodingStats {
			w.body(func() { w.i32(1, e.Page); w.i32(2, int32(e.Encoding)); w.i32(3, e.Count) })
		}
	}
}

func (s *Statistics) fields(w *thriftWriter) {
	if s.NullCount >= 0 {
		w.i64(3, s.NullCount)
	}
	if s.Min == nil || s.Max == nil {
		return
	}
	w.binary(5, s.Max)
	w.binary(6, s.Min)
	w.bool(7, s.MaxExact)
	w.bool(8, s.MinExact)
}
