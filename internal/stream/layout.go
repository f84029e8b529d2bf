package stream

import (
	"context"
	"unsafe"

	"astropile/internal/catalog"
)

// PageSize is the alignment in bytes of the values of tensors inside a slot.
const PageSize = 4096

// Align is the alignment in bytes of every other section of a slot.
const Align = 64

// Span is a run of bytes of a slot. Len 0 means that the section is absent (or empty).
type Span struct {
	Off int64 `json:"off"`
	Len int64 `json:"len"`
}

// Layout says where the columns of a batch stand in a slot.
type Layout struct {
	Rows    int       `json:"rows"`
	Bytes   int       `json:"bytes"` // bytes of the slot in use, from its start
	Columns []Section `json:"columns"`
}

// Section says where one column (or one member of a struct) stands in a slot; numbers are little-endian.
//
//	scalar, tensor   Values: Rows x Shape elements of DType (bool: one byte each); with Constant one row stands for all
//	text             Values: the bytes of all rows; Offsets: Rows+1 int64 byte offsets into Values
//	list             Values: the elements; Offsets: Rows+1 int64 element offsets; text: StrOffsets: elements+1 int64 byte offsets
//	struct           Members, each a list
//
// Valid, where present, holds one byte a row: 1, or 0 for null.
type Section struct {
	Name       string        `json:"name"`
	Kind       catalog.Kind  `json:"kind"`
	DType      catalog.DType `json:"dtype"`
	Shape      []int         `json:"shape"`
	Rows       int           `json:"rows"`
	Values     Span          `json:"values"`
	Offsets    Span          `json:"offsets"`
	StrOffsets Span          `json:"str_offsets"`
	Valid      Span          `json:"valid"`
	Format     string        `json:"format,omitempty"` // bfloat16 of what DType calls uint16
	Constant   bool          `json:"constant"`         // Values hold one row, the same for all (stride 0)
	Members    []Section     `json:"members,omitempty"`
}

// Slot is memory that the caller owns and that starts at a page boundary.
type Slot interface {
	// Bytes is the memory as it stands; a later Grow makes it stale.
	Bytes() []byte
	// Grow makes the memory at least n bytes long; what it held may be lost. The package calls it before it writes.
	Grow(n int) error
}

// SlotPool hands out slots. Both methods may be called from any goroutine.
type SlotPool interface {
	// Acquire waits for a free slot or for the end of ctx.
	Acquire(ctx context.Context) (Slot, error)
	// Release takes back a slot that was acquired and will not be delivered (the stream was closed or failed).
	Release(s Slot)
}

// Memory is a Slot of ordinary memory, for callers inside the process. Its zero value is empty and ready.
type Memory struct{ b []byte }

// Bytes is the memory.
func (m *Memory) Bytes() []byte { return m.b }

// Grow makes the memory at least n bytes long and page-aligned.
func (m *Memory) Grow(n int) error {
	if n > len(m.b) {
		m.b = alignedBytes(n)
	}
	return nil
}

// alignedBytes is n zero bytes that start at a page boundary.
func alignedBytes(n int) []byte {
	raw := make([]byte, n+PageSize)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (PageSize - 1))
	return raw[skip : skip+n : skip+n]
}
