package table

import (
	"context"

	"astropile/internal/catalog"
)

// Field is one source of values that a file offers.
type Field struct {
	// Source is its name in the file, and in recipes; members of structs are dotted (candidate.ra).
	Source string
	// Column says what a row is, named like the source: a scalar, a tensor (fixed shape), a list of varying length, or a
	// struct of lists whose lengths agree in every row. Layout and codec are empty. Nullable says that rows may be null;
	// for a struct or a tensor as well, which the survey then empties, fills or refuses.
	Column catalog.Column
	// Padded says that the file pads the text to a fixed width with NULs or spaces.
	Padded bool
	// Missing says that elements inside a list, a tensor or a struct's members may be null; one flag a member for structs,
	// else one. Request.Fill says what stands for them.
	Missing []bool
	// Empty says that no row has a value, so that type and kind of the column are nobody's word: it goes with any.
	Empty bool
	// Err says why the source has no place in a column; Column may then be empty but for its name.
	Err error
	// Note is what a person should know of how the values were made ("gzipped FITS images of 63 x 63"); may be empty.
	Note string
}

// Request asks for the values of a field.
type Request struct {
	Field int // index in Fields
	// Fill stands for null elements inside a list, a tensor or the members of a struct: one value a member for structs,
	// else one. Its element type is that of the column: float64 for numbers and bools, string for text. Where it is
	// absent or nil, null floats become NaN, null text becomes empty, and any other null element is an error that names the row.
	// An integer that equals its fill, in a Read that replaces any null of the column, is an error that names the row: the
	// two could not be told apart again.
	Fill []any
}

// Table is an open file whose rows are objects. It is used by one goroutine at a time.
type Table interface {
	// Rows is the number of objects.
	Rows() int64
	// Fields lists what the file offers, in the file's order.
	Fields() []Field
	// Grain is the number of rows that are best read together, from a multiple of it (a row group); 1 where it does not matter.
	Grain() int64
	// RowBytes is what a row takes in memory on average, about.
	RowBytes() int64
	// Read gives the rows [lo, hi): a vector for every request, bit for bit what the file says, shaped as its field's Column
	// says. Vectors of nullable rows carry Valid. Memory is about the rows asked for, twice over.
	Read(ctx context.Context, lo, hi int64, want []Request) ([]*catalog.Vector, error)
	Close() error
}
