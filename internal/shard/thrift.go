package shard

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The Thrift compact protocol, as far as Parquet's metadata uses it.

// Wire types of the compact protocol.
const (
	wireStop   = 0
	wireTrue   = 1
	wireFalse  = 2
	wireI8     = 3
	wireI16    = 4
	wireI32    = 5
	wireI64    = 6
	wireDouble = 7
	wireBinary = 8
	wireList   = 9
	wireSet    = 10
	wireMap    = 11
	wireStruct = 12
	wireUUID   = 13
)

// maxThriftDepth bounds how deep structs, lists and maps nest, those that are skipped included.
const maxThriftDepth = 16

// thriftReader decodes from memory. Every count is checked against the bytes left, so nothing it returns is larger
// than what it was given.
type thriftReader struct {
	b     []byte
	pos   int
	depth int
}

func (r *thriftReader) bad(format string, args ...any) error {
	return fmt.Errorf("%w: thrift at byte %d: %s", ErrFormat, r.pos, fmt.Sprintf(format, args...))
}

func (r *thriftReader) left() int { return len(r.b) - r.pos }

func (r *thriftReader) byte() (byte, error) {
	if r.pos >= len(r.b) {
		return 0, r.bad("ends early")
	}
	r.pos++
	return r.b[r.pos-1], nil
}

func (r *thriftReader) uvarint() (uint64, error) {
	v, n := binary.Uvarint(r.b[r.pos:])
	if n <= 0 {
		return 0, r.bad("bad variable-length integer")
	}
	r.pos += n
	return v, nil
}

func (r *thriftReader) zigzag() (int64, error) {
	u, err := r.uvarint()
	return int64(u>>1) ^ -int64(u&1), err
}

func (r *thriftReader) i64(t byte) (int64, error) {
	switch t {
	case wireI8:
		b, err := r.byte()
		return int64(int8(b)), err
	case wireI16, wireI32, wireI64:
		return r.zigzag()
	}
	return 0, r.bad("wire type %d where an integer belongs", t)
}

func (r *thriftReader) i32(t byte) (int32, error) {
	v, err := r.i64(t)
	if err != nil {
		return 0, err
	}
	if v < math.MinInt32 || v > math.MaxInt32 {
		return 0, r.bad("%d does not fit 32 bits", v)
	}
	return int32(v), nil
}

// size reads an integer that counts something: never negative.
func (r *thriftReader) size(t byte) (int64, error) {
	v, err := r.i64(t)
	if err == nil && v < 0 {
		err = r.bad("%d where a size belongs", v)
	}
	return v, err
}

func (r *thriftReader) size32(t byte) (int32, error) {
	v, err := r.i32(t)
	if err == nil && v < 0 {
		err = r.bad("%d where a size belongs", v)
	}
	return v, err
}

func (r *thriftReader) bool(t byte) (bool, error) {
	if t != wireTrue && t != wireFalse {
		return false, r.bad("wire type %d where a bool belongs", t)
	}
	return t == wireTrue, nil
}

// binary is a view of the bytes read.
func (r *thriftReader) binary(t byte) ([]byte, error) {
	if t != wireBinary {
		return nil, r.bad("wire type %d where bytes belong", t)
	}
	n, err := r.uvarint()
	if err != nil {
		return nil, err
	}
	if n > uint64(r.left()) {
		return nil, r.bad("%d bytes announced, %d left", n, r.left())
	}
	p := r.b[r.pos : r.pos+int(n) : r.pos+int(n)]
	r.pos += int(n)
	return p, nil
}

func (r *thriftReader) string(t byte) (string, error) {
	p, err := r.binary(t)
	return string(p), err
}

func (r *thriftReader) enter() error {
	r.depth++
	if r.depth > maxThriftDepth {
		return r.bad("nested over %d deep", maxThriftDepth)
	}
	return nil
}

// fields calls f with each field of a struct; f reads the value or skips it.
func (r *thriftReader) fields(t byte, f func(id int16, t byte) error) error {
	if t != wireStruct {
		return r.bad("wire type %d where a struct belongs", t)
	}
	if err := r.enter(); err != nil {
		return err
	}
	id := int64(0)
	for {
		h, err := r.byte()
		if err != nil {
			return err
		}
		if h == wireStop {
			r.depth--
			return nil
		}
		if d := h >> 4; d != 0 {
			id += int64(d)
		} else if id, err = r.zigzag(); err != nil {
			return err
		}
		if id < math.MinInt16 || id > math.MaxInt16 {
			return r.bad("field number %d", id)
		}
		if err := f(int16(id), h&15); err != nil {
			return err
		}
	}
}

// listHeader reads a list's header; no more than limit elements are accepted, and none takes less than a byte.
func (r *thriftReader) listHeader(t byte, limit int) (n int, elem byte, err error) {
	if t != wireList && t != wireSet {
		return 0, 0, r.bad("wire type %d where a list belongs", t)
	}
	h, err := r.byte()
	if err != nil {
		return 0, 0, err
	}
	c := uint64(h >> 4)
	if c == 15 {
		if c, err = r.uvarint(); err != nil {
			return 0, 0, err
		}
	}
	if c > uint64(limit) {
		return 0, 0, r.bad("a list of %d elements, at most %d", c, limit)
	}
	if c > uint64(r.left()) {
		return 0, 0, r.bad("a list of %d elements in %d bytes", c, r.left())
	}
	return int(c), h & 15, nil
}

// list calls f once for each element.
func (r *thriftReader) list(t byte, limit int, f func(t byte) error) error {
	n, e, err := r.listHeader(t, limit)
	if err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return err
	}
	for range n {
		if err := f(e); err != nil {
			return err
		}
	}
	r.depth--
	return nil
}

// skip passes over a value of any type. As an element of a list or map a bool takes a byte, as a field none.
func (r *thriftReader) skip(t byte, element bool) error {
	switch t {
	case wireTrue, wireFalse:
		if element {
			_, err := r.byte()
			return err
		}
		return nil
	case wireI8:
		_, err := r.byte()
		return err
	case wireI16, wireI32, wireI64:
		_, err := r.uvarint()
		return err
	case wireDouble:
		return r.advance(8)
	case wireUUID:
		return r.advance(16)
	case wireBinary:
		_, err := r.binary(t)
		return err
	case wireList, wireSet:
		return r.list(t, math.MaxInt32, func(e byte) error { return r.skip(e, true) })
	case wireStruct:
		return r.fields(t, func(_ int16, t byte) error { return r.skip(t, false) })
	case wireMap:
		return r.skipMap()
	}
	return r.bad("unknown wire type %d", t)
}

func (r *thriftReader) skipMap() error {
	n, err := r.uvarint()
	if err != nil || n == 0 {
		return err
	}
	if n > uint64(r.left()) {
		return r.bad("a map of %d entries in %d bytes", n, r.left())
	}
	kv, err := r.byte()
	if err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return err
	}
	for range n {
		if err := r.skip(kv>>4, true); err != nil {
			return err
		}
		if err := r.skip(kv&15, true); err != nil {
			return err
		}
	}
	r.depth--
	return nil
}

func (r *thriftReader) advance(n int) error {
	if n > r.left() {
		return r.bad("%d bytes needed, %d left", n, r.left())
	}
	r.pos += n
	return nil
}

// thriftWriter appends to b. Fields of a struct are written in rising order of their numbers.
type thriftWriter struct {
	b    []byte
	last int16
}

func (w *thriftWriter) field(id int16, t byte) {
	if d := id - w.last; d > 0 && d < 16 {
		w.b = append(w.b, byte(d)<<4|t)
	} else {
		w.b = append(w.b, t)
		w.zigzag(int64(id))
	}
	w.last = id
}

func (w *thriftWriter) zigzag(v int64) { w.b = binary.AppendUvarint(w.b, uint64(v<<1)^uint64(v>>63)) }

func (w *thriftWriter) i8(id int16, v int8) { w.field(id, wireI8); w.b = append(w.b, byte(v)) }

func (w *thriftWriter) i16(id int16, v int16) { w.field(id, wireI16); w.zigzag(int64(v)) }

func (w *thriftWriter) i32(id int16, v int32) { w.field(id, wireI32); w.zigzag(int64(v)) }

func (w *thriftWriter) i64(id int16, v int64) { w.field(id, wireI64); w.zigzag(v) }

func (w *thriftWriter) bool(id int16, v bool) {
	if v {
		w.field(id, wireTrue)
	} else {
		w.field(id, wireFalse)
	}
}

func (w *thriftWriter) bytes(p []byte) {
	w.b = binary.AppendUvarint(w.b, uint64(len(p)))
	w.b = append(w.b, p...)
}

func (w *thriftWriter) text(s string) {
	w.b = binary.AppendUvarint(w.b, uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *thriftWriter) string(id int16, s string) { w.field(id, wireBinary); w.text(s) }

func (w *thriftWriter) binary(id int16, p []byte) { w.field(id, wireBinary); w.bytes(p) }

func (w *thriftWriter) list(id int16, elem byte, n int) {
	w.field(id, wireList)
	if n < 15 {
		w.b = append(w.b, byte(n)<<4|elem)
	} else {
		w.b = append(w.b, 0xf0|elem)
		w.b = binary.AppendUvarint(w.b, uint64(n))
	}
}

// body writes the fields of a struct that stands where no field header is needed: at the top or in a list.
func (w *thriftWriter) body(f func()) {
	last := w.last
	w.last = 0
	f()
	w.b = append(w.b, wireStop)
	w.last = last
}

func (w *thriftWriter) structure(id int16, f func()) {
	w.field(id, wireStruct)
	w.body(f)
}
