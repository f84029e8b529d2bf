package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrColumn marks a column description that the format does not allow.
var ErrColumn = errors.New("catalog: column not allowed")

// DType names the type of one element, as numpy spells it; "string" is UTF-8 text.
type DType string

// The element types a dataset can hold.
const (
	Bool       DType = "bool"
	Int8       DType = "int8"
	Int16      DType = "int16"
	Int32      DType = "int32"
	Int64      DType = "int64"
	Uint8      DType = "uint8"
	Uint16     DType = "uint16"
	Uint32     DType = "uint32"
	Uint64     DType = "uint64"
	Float16    DType = "float16"
	Float32    DType = "float32"
	Float64    DType = "float64"
	Complex64  DType = "complex64"
	Complex128 DType = "complex128"
	String     DType = "string"
)

// Size is the number of bytes of one element in memory (bool 1, complex64 8), or 0 for text and for unknown names.
func (d DType) Size() int {
	switch d {
	case Bool, Int8, Uint8:
		return 1
	case Int16, Uint16, Float16:
		return 2
	case Int32, Uint32, Float32:
		return 4
	case Int64, Uint64, Float64, Complex64:
		return 8
	case Complex128:
		return 16
	}
	return 0
}

// Valid says whether the name is one of the types above.
func (d DType) Valid() bool { return d == String || d.Size() > 0 }

// Complex says whether an element is a pair of floats.
func (d DType) Complex() bool { return d == Complex64 || d == Complex128 }

// Component is the type of which an element is made: the float of a complex number, else the type itself.
func (d DType) Component() DType {
	switch d {
	case Complex64:
		return Float32
	case Complex128:
		return Float64
	}
	return d
}

// Kind says how the elements of a column stand in its rows.
type Kind string

// The kinds of a column.
const (
	// Scalar is one element a row, and may be null. Text is a scalar of dtype string.
	Scalar Kind = "scalar"
	// Tensor is a fixed shape of elements in every row, never null. A complex scalar is a Tensor of empty shape.
	Tensor Kind = "tensor"
	// List is any number of elements a row (ragged), and may be null.
	List Kind = "list"
	// Struct is a group of lists whose lengths agree in every row (a light curve); its members are of kind List.
	Struct Kind = "struct"
)

// Layout says how the values of a tensor column stand in its pages (docs/format.md, "Tensors").
type Layout string

// The layouts of a tensor column.
const (
	// Plain: the values as they are in memory, little-endian; maps when uncompressed.
	Plain Layout = "plain"
	// Identity: 8- and 16-bit integers at their own size through an identity dictionary; maps.
	Identity Layout = "identity"
	// Widened: 8- and 16-bit integers as INT32; does not map.
	Widened Layout = "widened"
	// RLE: bool as runs; does not map.
	RLE Layout = "rle"
)

// Codec says how the pages of a column are compressed.
type Codec string

// The codecs of a column.
const (
	None    Codec = "none"
	Zstd    Codec = "zstd"
	BSSZstd Codec = "bss+zstd" // byte stream split, then zstd
)

// Column describes one top-level column of a dataset, or one member of a struct.
type Column struct {
	Name     string   `json:"name"`
	Kind     Kind     `json:"type"`
	Shape    []int    `json:"shape"` // tensors: the shape of one row's value; else empty
	DType    DType    `json:"dtype"` // empty for a struct
	Unit     string   `json:"unit"`
	Nullable bool     `json:"nullable"`
	Layout   Layout   `json:"layout"` // tensors only
	Codec    Codec    `json:"codec"`
	Members  []Column `json:"members,omitempty"` // structs only
}

// Elems is the number of elements in one row of a scalar or tensor.
func (c *Column) Elems() int {
	n := 1
	for _, d := range c.Shape {
		n *= d
	}
	return n
}

// RowBytes is the number of bytes of one row in memory for scalars (not text) and tensors, and 0 for what varies.
func (c *Column) RowBytes() int {
	if c.Kind != Scalar && c.Kind != Tensor {
		return 0
	}
	return c.Elems() * c.DType.Size()
}

// Fixed says whether every row has the same number of bytes.
func (c *Column) Fixed() bool { return c.RowBytes() > 0 }

// MaxTensorBytes is the size above which one row's tensor is refused.
const MaxTensorBytes = 64 << 20

// MaxColumns bounds the columns of a dataset, members included.
const MaxColumns = 4096

// reserved are names that stand for something else in the rows files or in a HATS path.
var reserved = []string{"_shard", "_row", "Norder", "Dir", "Npix"}

// Check says whether the format allows the column in a dataset.
func (c *Column) Check() error {
	for _, name := range append([]string{c.Name}, memberNames(c)...) {
		if slices.Contains(reserved, name) {
			return fmt.Errorf("%w: %q: the name is reserved; rename it in the recipe (rename: {%s: other_name})", ErrColumn, name, name)
		}
	}
	return c.checkFile()
}

func memberNames(c *Column) []string {
	var out []string
	for i := range c.Members {
		out = append(out, c.Members[i].Name)
	}
	return out
}

// checkFile says whether a file may hold the column.
func (c *Column) checkFile() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %q: %s", ErrColumn, c.Name, fmt.Sprintf(format, args...))
	}
	if c.Name == "" || len(c.Name) > 255 || strings.ContainsAny(c.Name, ".\x00\n/") {
		return bad("a name has 1 to 255 bytes and neither dot, slash, NUL nor line break; rename it in the recipe")
	}
	switch c.Kind {
	case Struct:
		if len(c.Members) == 0 {
			return bad("a struct needs members")
		}
		seen := map[string]bool{}
		for i := range c.Members {
			m := &c.Members[i]
			if m.Kind != List {
				return bad("member %q is a %s; members are lists", m.Name, m.Kind)
			}
			if seen[m.Name] {
				return bad("member %q stands twice", m.Name)
			}
			seen[m.Name] = true
			if err := m.checkFile(); err != nil {
				return err
			}
		}
		return nil
	case Scalar, Tensor, List:
	default:
		return bad("kind %q is unknown", c.Kind)
	}
	if !c.DType.Valid() {
		return bad("dtype %q is unknown", c.DType)
	}
	if c.Kind != Tensor {
		if len(c.Shape) != 0 {
			return bad("only tensors have a shape")
		}
		if c.DType.Complex() {
			return bad("a complex %s is not stored; complex numbers are tensors", c.Kind)
		}
		return nil
	}
	if c.DType == String {
		return bad("text is not a tensor")
	}
	if c.Nullable {
		return bad("a tensor is never null")
	}
	if len(c.Shape) == 0 && !c.DType.Complex() || len(c.Shape) > 8 {
		return bad("a tensor has 1 to 8 dimensions, not %d", len(c.Shape))
	}
	n := c.DType.Size()
	for _, d := range c.Shape {
		if d < 1 || d > MaxTensorBytes || n > MaxTensorBytes/d {
			return bad("shape %v of %s is over %d MiB a row, or has an empty side", c.Shape, c.DType, MaxTensorBytes>>20)
		}
		n *= d
	}
	return nil
}

// CheckColumns says whether the format allows the columns together in a dataset.
func CheckColumns(cols []Column) error {
	for i := range cols {
		if err := cols[i].Check(); err != nil {
			return err
		}
	}
	return CheckFileColumns(cols)
}

// CheckFileColumns says whether one file may hold the columns: those of a dataset, or those of its id index.
func CheckFileColumns(cols []Column) error {
	n := 0
	seen := map[string]bool{}
	for i := range cols {
		if err := cols[i].checkFile(); err != nil {
			return err
		}
		if seen[cols[i].Name] {
			return fmt.Errorf("%w: %q stands twice", ErrColumn, cols[i].Name)
		}
		seen[cols[i].Name] = true
		n += 1 + len(cols[i].Members)
	}
	if n > MaxColumns {
		return fmt.Errorf("%w: %d columns, at most %d", ErrColumn, n, MaxColumns)
	}
	return nil
}

// FileOrder sorts columns into the order they have in a shard: scalars and text, then ragged columns, then tensors;
// within each the order given.
func FileOrder(cols []Column) []Column {
	out := slices.Clone(cols)
	rank := func(c Column) int {
		switch c.Kind {
		case Scalar:
			return 0
		case Tensor:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b Column) int { return rank(a) - rank(b) })
	return out
}
