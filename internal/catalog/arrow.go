package catalog

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// ArrowElem is the Arrow type of one element; complex types have none of their own and are pairs (see Component).
func ArrowElem(d DType) (arrow.DataType, error) {
	switch d {
	case Bool:
		return arrow.FixedWidthTypes.Boolean, nil
	case Int8:
		return arrow.PrimitiveTypes.Int8, nil
	case Int16:
		return arrow.PrimitiveTypes.Int16, nil
	case Int32:
		return arrow.PrimitiveTypes.Int32, nil
	case Int64:
		return arrow.PrimitiveTypes.Int64, nil
	case Uint8:
		return arrow.PrimitiveTypes.Uint8, nil
	case Uint16:
		return arrow.PrimitiveTypes.Uint16, nil
	case Uint32:
		return arrow.PrimitiveTypes.Uint32, nil
	case Uint64:
		return arrow.PrimitiveTypes.Uint64, nil
	case Float16:
		return arrow.FixedWidthTypes.Float16, nil
	case Float32:
		return arrow.PrimitiveTypes.Float32, nil
	case Float64:
		return arrow.PrimitiveTypes.Float64, nil
	case String:
		return arrow.BinaryTypes.String, nil
	}
	return nil, fmt.Errorf("%w: dtype %q has no Arrow type of its own", ErrColumn, d)
}

// ArrowScalar shows the rows of a scalar column as an Arrow array. Fixed types but bool share v's memory.
func ArrowScalar(c *Column, v *Vector) (arrow.Array, error) {
	t, err := ArrowElem(c.DType)
	if err != nil {
		return nil, err
	}
	valid, nulls := ArrowValidity(v)
	var data []byte
	switch c.DType {
	case String:
		offs := make([]byte, 4*(v.Rows+1))
		base := v.Offsets[0]
		for i, o := range v.Offsets[:v.Rows+1] {
			if o-base > 1<<31-1 {
				return nil, fmt.Errorf("%w: %q: over 2 GiB of text in one batch; write fewer rows at once", ErrVector, c.Name)
			}
			binary.LittleEndian.PutUint32(offs[4*i:], uint32(o-base))
		}
		d := array.NewData(t, v.Rows, []*memory.Buffer{valid, memory.NewBufferBytes(offs), memory.NewBufferBytes(v.Data[base:v.Offsets[v.Rows]])}, nil, nulls, 0)
		defer d.Release()
		return array.MakeFromData(d), nil
	case Bool:
		data = make([]byte, (v.Rows+7)/8)
		for i, b := range v.Data[:v.Rows] {
			data[i/8] |= (b & 1) << (i % 8)
		}
	default:
		data = v.Data
	}
	d := array.NewData(t, v.Rows, []*memory.Buffer{valid, memory.NewBufferBytes(data)}, nil, nulls, 0)
	defer d.Release()
	return array.MakeFromData(d), nil
}

// ArrowValidity packs which rows are not null, and counts those that are; nil where none is.
func ArrowValidity(v *Vector) (*memory.Buffer, int) {
	if v.Valid == nil {
		return nil, 0
	}
	nulls := 0
	bits := make([]byte, (v.Rows+7)/8)
	for i, ok := range v.Valid {
		if ok {
			bits[i/8] |= 1 << (i % 8)
		} else {
			nulls++
		}
	}
	if nulls == 0 {
		return nil, 0
	}
	return memory.NewBufferBytes(bits), nulls
}

// AppendArrow appends an Arrow array of the column's type to v; the column is a scalar.
func (v *Vector) AppendArrow(c *Column, a arrow.Array) error {
	want, err := ArrowElem(c.DType)
	if err != nil {
		return err
	}
	if !arrow.TypeEqual(a.DataType(), want) {
		return fmt.Errorf("%w: column %q is %s, want %s", ErrVector, c.Name, a.DataType(), want)
	}
	n := a.Len()
	if a.NullN() > 0 || v.Valid != nil {
		for len(v.Valid) < v.Rows {
			v.Valid = append(v.Valid, true)
		}
		for i := 0; i < n; i++ {
			v.Valid = append(v.Valid, a.IsValid(i))
		}
	}
	switch x := a.(type) {
	case *array.String:
		for i := 0; i < n; i++ {
			if a.IsValid(i) {
				v.Data = append(v.Data, x.Value(i)...)
			}
			v.Offsets = append(v.Offsets, int64(len(v.Data)))
		}
	case *array.Boolean:
		for i := 0; i < n; i++ {
			b := byte(0)
			if a.IsValid(i) && x.Value(i) {
				b = 1
			}
			v.Data = append(v.Data, b)
		}
	default:
		size := c.DType.Size()
		off := a.Data().Offset() * size
		buf := a.Data().Buffers()[1].Bytes()
		base := len(v.Data)
		v.Data = append(v.Data, buf[off:off+n*size]...)
		if a.NullN() > 0 {
			for i := 0; i < n; i++ {
				if a.IsNull(i) {
					clear(v.Data[base+i*size : base+(i+1)*size])
				}
			}
		}
	}
	v.Rows += n
	return nil
}
