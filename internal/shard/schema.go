package shard

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"astropile/internal/catalog"
)

// Keys of a footer's metadata.
const (
	KeyArrowSchema = "ARROW:schema"
	KeyUnits       = "astropile.units"
	KeyDigest      = "astropile.digest"
	KeyConstant    = "astropile.constant"
)

// Keys of a field's metadata in ARROW:schema.
const (
	FieldShape = "shape" // tensors: a JSON list of the sides of one row's value, e.g. [4,96,96]
	FieldDType = "dtype" // the element's type, all columns but structs
	FieldUnit  = "unit"  // absent where there is none
)

const (
	magic       = "PAR1"
	rootName    = "schema"
	elementName = "element" // of every list, in Parquet and in Arrow
	listName    = "list"
)

// ArrowSchema is the Arrow schema of columns in file order: scalars, text and ragged columns nullable, tensors as
// nested lists that are not. Shape, dtype and unit are metadata of the fields.
func ArrowSchema(cols []catalog.Column) (*arrow.Schema, error) {
	fields := make([]arrow.Field, len(cols))
	for i := range cols {
		f, err := arrowField(&cols[i])
		if err != nil {
			return nil, err
		}
		fields[i] = f
	}
	return arrow.NewSchema(fields, nil), nil
}

func arrowField(c *catalog.Column) (arrow.Field, error) {
	if c.Kind == catalog.Struct {
		members := make([]arrow.Field, len(c.Members))
		for k := range c.Members {
			m, err := arrowField(&c.Members[k])
			if err != nil {
				return arrow.Field{}, err
			}
			m.Nullable = false // the group is null or none of its members is
			members[k] = m
		}
		return arrow.Field{Name: c.Name, Type: arrow.StructOf(members...), Nullable: true}, nil
	}
	t, err := catalog.ArrowElem(c.DType.Component())
	if err != nil {
		return arrow.Field{}, err
	}
	keys, vals := []string{FieldDType}, []string{string(c.DType)}
	depth := 0
	switch c.Kind {
	case catalog.List:
		depth = 1
	case catalog.Tensor:
		depth = len(tensorDims(c))
		shape, err := json.Marshal(append([]int{}, c.Shape...))
		if err != nil {
			return arrow.Field{}, err
		}
		keys, vals = append(keys, FieldShape), append(vals, string(shape))
	}
	if c.Unit != "" {
		keys, vals = append(keys, FieldUnit), append(vals, c.Unit)
	}
	for range depth {
		t = arrow.ListOfField(arrow.Field{Name: elementName, Type: t})
	}
	return arrow.Field{Name: c.Name, Type: t, Nullable: c.Kind != catalog.Tensor, Metadata: arrow.NewMetadata(keys, vals)}, nil
}

// tensorDims are the sides of a tensor as it is stored: complex numbers are a trailing side of 2.
func tensorDims(c *catalog.Column) []int {
	if c.DType.Complex() {
		return append(slices.Clone(c.Shape), 2)
	}
	return c.Shape
}

// arrowSchemaValue is the value of KeyArrowSchema: a base64 of the IPC message that holds the schema.
func arrowSchemaValue(s *arrow.Schema) string {
	return base64.StdEncoding.EncodeToString(flight.SerializeSchema(s, memory.NewGoAllocator()))
}

// elementType is how Parquet stores an element: physical type, length, and logical type on top.
func elementType(d catalog.DType) SchemaElement {
	e := SchemaElement{Leaf: true, Converted: ConvertedNone}
	integer := func(t PhysicalType, bits int8, signed bool, converted int32) {
		e.Type, e.Logical, e.IntBits, e.IntSigned, e.Converted = t, LogicalInteger, bits, signed, converted
	}
	switch d {
	case catalog.Bool:
		e.Type = TypeBoolean
	case catalog.Int8:
		integer(TypeInt32, 8, true, ConvertedInt8)
	case catalog.Int16:
		integer(TypeInt32, 16, true, ConvertedInt16)
	case catalog.Int32:
		integer(TypeInt32, 32, true, ConvertedInt32)
	case catalog.Int64:
		integer(TypeInt64, 64, true, ConvertedInt64)
	case catalog.Uint8:
		integer(TypeInt32, 8, false, ConvertedUint8)
	case catalog.Uint16:
		integer(TypeInt32, 16, false, ConvertedUint16)
	case catalog.Uint32:
		integer(TypeInt32, 32, false, ConvertedUint32)
	case catalog.Uint64:
		integer(TypeInt64, 64, false, ConvertedUint64)
	case catalog.Float16:
		e.Type, e.TypeLength, e.Logical = TypeFixed, 2, LogicalFloat16
	case catalog.Float32, catalog.Complex64:
		e.Type = TypeFloat
	case catalog.Float64, catalog.Complex128:
		e.Type = TypeDouble
	case catalog.String:
		e.Type, e.Logical, e.Converted = TypeByteArray, LogicalString, ConvertedUTF8
	}
	return e
}

// leaf is one leaf of the schema.
type leaf struct {
	path   []string
	elem   SchemaElement
	maxDef int
	maxRep int
}

// parquetSchema is the schema of columns in file order, and its leaves.
func parquetSchema(cols []catalog.Column) ([]SchemaElement, []leaf) {
	out := []SchemaElement{{Name: rootName, Children: int32(len(cols)), Converted: ConvertedNone}}
	var leaves []leaf
	lists := func(name string, d catalog.DType, depth int, rep int32, path []string, def int) {
		path = append(slices.Clone(path), name)
		if rep == Optional {
			def++
		}
		for range depth {
			out = append(out,
				SchemaElement{Name: name, Repetition: rep, Children: 1, Converted: ConvertedList, Logical: LogicalList},
				SchemaElement{Name: listName, Repetition: Repeated, Children: 1, Converted: ConvertedNone})
			name, rep = elementName, Required
			path = append(path, listName, elementName)
		}
		e := elementType(d)
		e.Name, e.Repetition = name, rep
		out = append(out, e)
		leaves = append(leaves, leaf{path: path, elem: e, maxDef: def + depth, maxRep: depth})
	}
	for i := range cols {
		c := &cols[i]
		switch c.Kind {
		case catalog.Scalar:
			lists(c.Name, c.DType, 0, Optional, nil, 0)
		case catalog.List:
			lists(c.Name, c.DType, 1, Optional, nil, 0)
		case catalog.Tensor:
			lists(c.Name, c.DType, len(tensorDims(c)), Required, nil, 0)
		case catalog.Struct:
			out = append(out, SchemaElement{Name: c.Name, Repetition: Optional, Children: int32(len(c.Members)), Converted: ConvertedNone})
			for k := range c.Members {
				lists(c.Members[k].Name, c.Members[k].DType, 1, Required, []string{c.Name}, 1)
			}
		}
	}
	return out, leaves
}

// checkFileColumns says whether columns can be written in the order given.
func checkFileColumns(cols []catalog.Column) error {
	if len(cols) == 0 {
		return fmt.Errorf("%w: a shard needs a column", catalog.ErrColumn)
	}
	if err := catalog.CheckFileColumns(cols); err != nil {
		return err
	}
	for i, c := range catalog.FileOrder(cols) {
		if c.Name != cols[i].Name {
			return fmt.Errorf("%w: column %d is %q, but the order of a file (scalars and text, ragged, tensors) has %q there", catalog.ErrColumn, i, cols[i].Name, c.Name)
		}
	}
	return nil
}

// EncodeCommonMetadata makes a Parquet file of no rows that has the schema of the shards: HATS' _common_metadata.
func EncodeCommonMetadata(cols []catalog.Column) ([]byte, error) {
	if err := checkFileColumns(cols); err != nil {
		return nil, err
	}
	s, err := ArrowSchema(cols)
	if err != nil {
		return nil, err
	}
	schema, leaves := parquetSchema(cols)
	m := FileMetaData{Version: 2, Schema: schema, KeyValues: []KeyValue{{KeyArrowSchema, arrowSchemaValue(s)}}, Orders: len(leaves)}
	var b bytes.Buffer
	b.WriteString(magic)
	b.Write(closeFooter(m.Encode()))
	return b.Bytes(), nil
}

// closeFooter appends the length and the closing magic.
func closeFooter(footer []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(footer, uint32(len(footer))), magic...)
}
