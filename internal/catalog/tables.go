package catalog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var le = binary.LittleEndian

// Input is one line of inputs.parquet: a file that an import read.
type Input struct {
	Path   string // relative to the source that was named
	Bytes  int64
	SHA256 [32]byte
	Rows   int64
}

func inputsSchema() *arrow.Schema {
	i64 := arrow.PrimitiveTypes.Int64
	return arrow.NewSchema([]arrow.Field{{Name: "path", Type: arrow.BinaryTypes.String}, {Name: "bytes", Type: i64},
		{Name: "sha256", Type: &arrow.FixedSizeBinaryType{ByteWidth: 32}}, {Name: "rows", Type: i64}}, nil)
}

// EncodeInputs writes inputs.parquet, in the order given.
func EncodeInputs(in []Input, created string) ([]byte, error) {
	b := array.NewRecordBuilder(memory.NewGoAllocator(), inputsSchema())
	defer b.Release()
	for i := range in {
		b.Field(0).(*array.StringBuilder).Append(in[i].Path)
		b.Field(1).(*array.Int64Builder).Append(in[i].Bytes)
		b.Field(2).(*array.FixedSizeBinaryBuilder).Append(in[i].SHA256[:])
		b.Field(3).(*array.Int64Builder).Append(in[i].Rows)
	}
	return encodeRecord(b, created)
}

// DecodeInputs reads inputs.parquet.
func DecodeInputs(b []byte) ([]Input, error) {
	var out []Input
	err := readTable("inputs", b, nil, sameSchema("inputs", inputsSchema()), func(rec arrow.RecordBatch) error {
		for i := 0; i < int(rec.NumRows()); i++ {
			in := Input{Path: strings.Clone(rec.Column(0).(*array.String).Value(i)), Bytes: rec.Column(1).(*array.Int64).Value(i), Rows: rec.Column(3).(*array.Int64).Value(i)}
			if in.Path == "" || in.Bytes < 0 || in.Rows < 0 {
				return fmt.Errorf("%w: inputs: row %d: path %q, %d bytes, %d rows", ErrDocument, len(out), in.Path, in.Bytes, in.Rows)
			}
			copy(in.SHA256[:], rec.Column(2).(*array.FixedSizeBinary).Value(i))
			out = append(out, in)
		}
		return nil
	})
	return out, err
}

// StatColumns are the columns of stats.parquet for the dataset's columns: for each scalar <col>.min and <col>.max of
// its own type, null where no value compares, and <col>.nulls and <col>.nans as int64.
func StatColumns(cols []Column) []Column {
	var out []Column
	for _, c := range cols {
		if c.Kind != Scalar {
			continue
		}
		for _, s := range []string{".min", ".max"} {
			out = append(out, Column{Name: c.Name + s, Kind: Scalar, DType: c.DType, Unit: c.Unit, Nullable: true})
		}
		for _, s := range []string{".nulls", ".nans"} {
			out = append(out, Column{Name: c.Name + s, Kind: Scalar, DType: Int64})
		}
	}
	return out
}

// Stats computes one row of stats.parquet over the scalar vectors given, in the order of StatColumns.
// NaN compares with nothing: it is counted and left out of min and max.
func Stats(cols []Column, vs []*Vector) []*Vector {
	var out []*Vector
	for k := range cols {
		c := &cols[k]
		if c.Kind != Scalar {
			continue
		}
		v := vs[k]
		lo, hi, nulls, nans := extremes(c.DType, v)
		for _, i := range []int{lo, hi} {
			x := NewVector(c)
			if i >= 0 {
				x.AppendRow(c, v, i)
			} else {
				x.Rows, x.Valid = 1, []bool{false}
				x.Data = make([]byte, c.RowBytes())
				if c.DType == String {
					x.Offsets = []int64{0, 0}
				}
			}
			out = append(out, x)
		}
		for _, n := range []int64{nulls, nans} {
			out = append(out, &Vector{Rows: 1, Data: le.AppendUint64(nil, uint64(n))})
		}
	}
	return out
}

// extremes gives the rows of the least and the greatest value, -1 where none compares, and how many rows are null and NaN.
func extremes(d DType, v *Vector) (lo, hi int, nulls, nans int64) {
	if v.Valid == nil && v.Rows > 0 {
		switch d {
		case Float32:
			return extremesOf(v.Rows, func(i int) float32 { return math.Float32frombits(le.Uint32(v.Data[4*i:])) })
		case Float64:
			return extremesOf(v.Rows, func(i int) float64 { return math.Float64frombits(le.Uint64(v.Data[8*i:])) })
		case Int32:
			return extremesOf(v.Rows, func(i int) int32 { return int32(le.Uint32(v.Data[4*i:])) })
		case Int64:
			return extremesOf(v.Rows, func(i int) int64 { return int64(le.Uint64(v.Data[8*i:])) })
		}
	}
	lo, hi = -1, -1
	for i := 0; i < v.Rows; i++ {
		switch {
		case v.Null(i):
			nulls++
			continue
		case isNaN(d, v, i):
			nans++
			continue
		}
		if lo < 0 || less(d, v, i, lo) {
			lo = i
		}
		if hi < 0 || less(d, v, hi, i) {
			hi = i
		}
	}
	return lo, hi, nulls, nans
}

// extremesOf is extremes of the commonest types, of which none is null.
func extremesOf[T int32 | int64 | float32 | float64](rows int, at func(i int) T) (lo, hi int, nulls, nans int64) {
	lo, hi = -1, -1
	var least, most T
	for i := range rows {
		x := at(i)
		switch {
		case x != x:
			nans++
		case lo < 0:
			lo, hi, least, most = i, i, x, x
		case x < least:
			lo, least = i, x
		case x > most:
			hi, most = i, x
		}
	}
	return lo, hi, 0, nans
}

func isNaN(d DType, v *Vector, i int) bool {
	switch d {
	case Float32:
		return math.IsNaN(float64(math.Float32frombits(le.Uint32(v.Data[4*i:]))))
	case Float64:
		return math.IsNaN(math.Float64frombits(le.Uint64(v.Data[8*i:])))
	case Float16:
		h := le.Uint16(v.Data[2*i:])
		return h&0x7c00 == 0x7c00 && h&0x3ff != 0
	}
	return false
}

// less compares rows i and j of a scalar.
func less(d DType, v *Vector, i, j int) bool {
	b := v.Data
	switch d {
	case String:
		return bytes.Compare(v.Str(i), v.Str(j)) < 0
	case Bool, Uint8:
		return b[i] < b[j]
	case Int8:
		return int8(b[i]) < int8(b[j])
	case Int16:
		return int16(le.Uint16(b[2*i:])) < int16(le.Uint16(b[2*j:]))
	case Uint16:
		return le.Uint16(b[2*i:]) < le.Uint16(b[2*j:])
	case Float16:
		return halfOrder(le.Uint16(b[2*i:])) < halfOrder(le.Uint16(b[2*j:]))
	case Int32:
		return int32(le.Uint32(b[4*i:])) < int32(le.Uint32(b[4*j:]))
	case Uint32:
		return le.Uint32(b[4*i:]) < le.Uint32(b[4*j:])
	case Float32:
		return math.Float32frombits(le.Uint32(b[4*i:])) < math.Float32frombits(le.Uint32(b[4*j:]))
	case Int64:
		return int64(le.Uint64(b[8*i:])) < int64(le.Uint64(b[8*j:]))
	case Uint64:
		return le.Uint64(b[8*i:]) < le.Uint64(b[8*j:])
	case Float64:
		return math.Float64frombits(le.Uint64(b[8*i:])) < math.Float64frombits(le.Uint64(b[8*j:]))
	}
	return false
}

// halfOrder maps the bits of a half float that is not NaN to integers of the same order; both zeros to 0.
func halfOrder(h uint16) int {
	if h&0x8000 != 0 {
		return -int(h & 0x7fff)
	}
	return int(h)
}

// EncodeScalars writes rows of scalar columns as one Parquet document (stats.parquet).
func EncodeScalars(cols []Column, vs []*Vector, rows int, created string) ([]byte, error) {
	var buf bytes.Buffer
	w, err := NewScalarsWriter(&buf, cols, created)
	if err != nil {
		return nil, err
	}
	if err := w.Write(vs, rows); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// RowColumns are the columns of rows-*.parquet: _shard and _row (int32), then every scalar of the dataset.
func RowColumns(cols []Column) []Column {
	out := []Column{{Name: "_shard", Kind: Scalar, DType: Int32}, {Name: "_row", Kind: Scalar, DType: Int32}}
	for _, c := range cols {
		if c.Kind == Scalar {
			out = append(out, c)
		}
	}
	return out
}

// MaxRowsFile is how many rows one rows-*.parquet holds at most.
const MaxRowsFile = 16 << 20

// ScalarsWriter streams rows of scalar columns into one Parquet file: row groups of 131,072 rows, statistics, page
// index, zstd. It does not close what it writes to.
type ScalarsWriter struct{ t *tableWriter }

// NewScalarsWriter starts a file of the columns on w.
func NewScalarsWriter(w io.Writer, cols []Column, created string) (*ScalarsWriter, error) {
	schema, err := tableSchema(cols)
	if err != nil {
		return nil, err
	}
	t, err := newTableWriter(w, cols, schema, created)
	if err != nil {
		return nil, err
	}
	return &ScalarsWriter{t}, nil
}

// Write appends rows; one vector a column.
func (w *ScalarsWriter) Write(vs []*Vector, rows int) error {
	if len(vs) != len(w.t.cols) {
		return fmt.Errorf("%w: %d vectors for %d columns", ErrVector, len(vs), len(w.t.cols))
	}
	for i, v := range vs {
		if v.Rows != rows {
			return fmt.Errorf("%w: column %q has %d rows, want %d", ErrVector, w.t.cols[i].Name, v.Rows, rows)
		}
	}
	return w.t.write(vs, rows)
}

// RowsGroup is how many rows a row group of a ScalarsWriter has.
const RowsGroup = rowGroupRows

// WriteGroup appends a row group, for which it asks column after column, so that not all are in memory at once. A file is written with
// either Write or WriteGroup; all groups but the last have RowsGroup rows.
func (w *ScalarsWriter) WriteGroup(rows int, column func(i int) (*Vector, error)) error {
	if rows < 1 || rows > RowsGroup {
		return fmt.Errorf("%w: a row group of %d rows", ErrVector, rows)
	}
	if err := w.t.w.NewRowGroupChecked(); err != nil {
		return err
	}
	for i := range w.t.cols {
		v, err := column(i)
		if err != nil {
			return err
		}
		if v.Rows != rows {
			return fmt.Errorf("%w: column %q has %d rows, want %d", ErrVector, w.t.cols[i].Name, v.Rows, rows)
		}
		if err := w.t.writeColumn(i, v); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the file.
func (w *ScalarsWriter) Close() error { return w.t.close() }

// DecodeScalars reads a Parquet document of the scalar columns given (stats.parquet, rows-*.parquet); doc names it in errors.
func DecodeScalars(doc string, b []byte, cols []Column) ([]*Vector, int, error) {
	return DecodeColumns(doc, b, cols, nil)
}

// DecodeColumns reads only the columns named (nil: all) of a Parquet document of the scalar columns given. The vectors
// stand in the order of the document.
func DecodeColumns(doc string, b []byte, cols []Column, names []string) ([]*Vector, int, error) {
	want, err := tableSchema(cols)
	if err != nil {
		return nil, 0, err
	}
	var pick []Column
	var index []int
	for i := range cols {
		if names == nil || slices.Contains(names, cols[i].Name) {
			pick, index = append(pick, cols[i]), append(index, i)
		}
	}
	if names != nil && len(pick) != len(names) {
		return nil, 0, fmt.Errorf("%w: %s: not all of the columns %v are there", ErrDocument, doc, names)
	}
	out := make([]*Vector, len(pick))
	for i := range out {
		out[i] = NewVector(&pick[i])
	}
	rows := 0
	err = readTable(doc, b, index, sameSchema(doc, want), func(rec arrow.RecordBatch) error {
		for i := range pick {
			if err := out[i].AppendArrow(&pick[i], rec.Column(i)); err != nil {
				return fmt.Errorf("%w: %s: %v", ErrDocument, doc, err)
			}
		}
		rows += int(rec.NumRows())
		return nil
	})
	return out, rows, err
}
