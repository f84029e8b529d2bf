package catalog

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrVector marks column data whose parts do not fit together.
var ErrVector = errors.New("catalog: column data does not fit together")

// Vector is a run of rows of one column in memory. Values are little-endian and packed.
//
//	Scalar, Tensor   Data: Rows x Column.RowBytes bytes (bool: one byte of 0 or 1; complex: pairs)
//	Scalar of text   Data: the bytes of all rows; Offsets: Rows+1 byte offsets into Data
//	List             Offsets: Rows+1 element offsets; Data: the elements; for text StrOffsets: elements+1 byte offsets into Data
//	Struct           Members: one List vector a member; Offsets of all members are equal
//
// Valid is nil where no row is null; else one entry a row. A null row of a list is empty, of a fixed scalar zero.
type Vector struct {
	Rows       int
	Data       []byte
	Offsets    []int64
	StrOffsets []int64
	Valid      []bool
	Members    []*Vector
}

// Batch is a run of rows of several columns; Vectors stand in the order of Columns.
type Batch struct {
	Columns []Column
	Vectors []*Vector
	Rows    int
}

// Null says whether row i is null.
func (v *Vector) Null(i int) bool { return v.Valid != nil && !v.Valid[i] }

// Str is the text of row i of a scalar of text.
func (v *Vector) Str(i int) []byte { return v.Data[v.Offsets[i]:v.Offsets[i+1]] }

// Payload is the number of bytes of row i before encoding, as partitioning counts them: text is its length + 4.
func (v *Vector) Payload(c *Column, i int) int64 {
	switch {
	case c.Kind == Struct:
		var n int64
		for k, m := range v.Members {
			n += m.Payload(&c.Members[k], i)
		}
		return n
	case c.Kind == List && c.DType == String:
		lo, hi := v.Offsets[i], v.Offsets[i+1]
		return v.StrOffsets[hi] - v.StrOffsets[lo] + 4*(hi-lo)
	case c.Kind == List:
		return (v.Offsets[i+1] - v.Offsets[i]) * int64(c.DType.Size())
	case c.DType == String:
		return v.Offsets[i+1] - v.Offsets[i] + 4
	}
	return int64(c.RowBytes())
}

// Payload is the number of bytes of row i of all columns before encoding.
func (b *Batch) Payload(i int) int64 {
	var n int64
	for k, v := range b.Vectors {
		n += v.Payload(&b.Columns[k], i)
	}
	return n
}

// NewVector makes an empty vector of the column, ready for AppendRow.
func NewVector(c *Column) *Vector {
	v := &Vector{}
	if c.Kind == Struct {
		for i := range c.Members {
			v.Members = append(v.Members, NewVector(&c.Members[i]))
		}
		return v
	}
	if !c.Fixed() {
		v.Offsets = []int64{0}
		if c.Kind == List && c.DType == String {
			v.StrOffsets = []int64{0}
		}
	}
	return v
}

// AppendRow appends row i of src, a vector of the same column.
func (v *Vector) AppendRow(c *Column, src *Vector, i int) {
	if src.Valid != nil || v.Valid != nil {
		if v.Valid == nil {
			v.Valid = make([]bool, v.Rows, v.Rows+1)
			for k := range v.Valid {
				v.Valid[k] = true
			}
		}
		v.Valid = append(v.Valid, !src.Null(i))
	}
	switch {
	case c.Kind == Struct:
		for k, m := range v.Members {
			m.AppendRow(&c.Members[k], src.Members[k], i)
		}
	case c.Kind == List && c.DType == String:
		lo, hi := src.Offsets[i], src.Offsets[i+1]
		base := int64(len(v.Data)) - src.StrOffsets[lo]
		v.Data = append(v.Data, src.Data[src.StrOffsets[lo]:src.StrOffsets[hi]]...)
		for k := lo; k < hi; k++ {
			v.StrOffsets = append(v.StrOffsets, base+src.StrOffsets[k+1])
		}
		v.Offsets = append(v.Offsets, v.Offsets[v.Rows]+hi-lo)
	case c.Kind == List:
		lo, hi, es := src.Offsets[i], src.Offsets[i+1], int64(c.DType.Size())
		v.Data = append(v.Data, src.Data[lo*es:hi*es]...)
		v.Offsets = append(v.Offsets, v.Offsets[v.Rows]+hi-lo)
	case c.DType == String:
		v.Data = append(v.Data, src.Str(i)...)
		v.Offsets = append(v.Offsets, int64(len(v.Data)))
	default:
		n := c.RowBytes()
		v.Data = append(v.Data, src.Data[i*n:(i+1)*n]...)
	}
	v.Rows++
}

// Slice is a view of rows [lo, hi).
func (v *Vector) Slice(c *Column, lo, hi int) *Vector {
	out := &Vector{Rows: hi - lo, Data: v.Data, StrOffsets: v.StrOffsets}
	if v.Valid != nil {
		out.Valid = v.Valid[lo:hi]
	}
	for k, m := range v.Members {
		out.Members = append(out.Members, m.Slice(&c.Members[k], lo, hi))
	}
	if c.Fixed() {
		n := c.RowBytes()
		out.Data = v.Data[lo*n : hi*n]
	} else if c.Kind != Struct {
		out.Offsets = v.Offsets[lo : hi+1]
	}
	return out
}

// Check says whether the parts of a vector fit together.
func (v *Vector) Check(c *Column) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: column %q: %s", ErrVector, c.Name, fmt.Sprintf(format, args...))
	}
	if v.Valid != nil && len(v.Valid) != v.Rows {
		return bad("%d validity entries for %d rows", len(v.Valid), v.Rows)
	}
	if c.Kind == Struct {
		if len(v.Members) != len(c.Members) {
			return bad("%d members, want %d", len(v.Members), len(c.Members))
		}
		for k, m := range v.Members {
			if err := m.Check(&c.Members[k]); err != nil {
				return err
			}
			if m.Rows != v.Rows {
				return bad("member %q has %d rows, want %d", c.Members[k].Name, m.Rows, v.Rows)
			}
			for i := 0; i < v.Rows; i++ {
				if m.Offsets[i+1]-m.Offsets[i] != v.Members[0].Offsets[i+1]-v.Members[0].Offsets[i] {
					return bad("row %d: member %q has %d elements, %q has %d", i, c.Members[k].Name, m.Offsets[i+1]-m.Offsets[i],
						c.Members[0].Name, v.Members[0].Offsets[i+1]-v.Members[0].Offsets[i])
				}
			}
		}
		return nil
	}
	if c.Fixed() {
		if len(v.Data) != v.Rows*c.RowBytes() {
			return bad("%d bytes for %d rows of %d", len(v.Data), v.Rows, c.RowBytes())
		}
		return nil
	}
	if len(v.Offsets) != v.Rows+1 || !rising(v.Offsets) {
		return bad("offsets do not fit %d rows", v.Rows)
	}
	last := v.Offsets[v.Rows]
	if c.Kind == List && c.DType == String {
		if last >= int64(len(v.StrOffsets)) || !rising(v.StrOffsets) {
			return bad("text offsets do not fit")
		}
		last = v.StrOffsets[last]
	} else if c.Kind == List {
		last *= int64(c.DType.Size())
	}
	if last > int64(len(v.Data)) {
		return bad("%d bytes, offsets say %d", len(v.Data), last)
	}
	return nil
}

func rising(x []int64) bool {
	if len(x) == 0 || x[0] < 0 {
		return false
	}
	for i := 1; i < len(x); i++ {
		if x[i] < x[i-1] {
			return false
		}
	}
	return true
}

// AppendText appends a row of a scalar of text or whole numbers as text, integers in decimal: what ids are sorted, compared and asked for by. Of
// other types it appends the bytes.
func (v *Vector) AppendText(dst []byte, d DType, i int) []byte {
	b := v.Data
	switch d {
	case String:
		return append(dst, v.Str(i)...)
	case Int8:
		return strconv.AppendInt(dst, int64(int8(b[i])), 10)
	case Int16:
		return strconv.AppendInt(dst, int64(int16(le.Uint16(b[2*i:]))), 10)
	case Int32:
		return strconv.AppendInt(dst, int64(int32(le.Uint32(b[4*i:]))), 10)
	case Int64:
		return strconv.AppendInt(dst, int64(le.Uint64(b[8*i:])), 10)
	case Uint8:
		return strconv.AppendUint(dst, uint64(b[i]), 10)
	case Uint16:
		return strconv.AppendUint(dst, uint64(le.Uint16(b[2*i:])), 10)
	case Uint32:
		return strconv.AppendUint(dst, uint64(le.Uint32(b[4*i:])), 10)
	case Uint64:
		return strconv.AppendUint(dst, le.Uint64(b[8*i:]), 10)
	}
	n := d.Size()
	return append(dst, b[i*n:(i+1)*n]...)
}
