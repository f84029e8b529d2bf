package shard

import (
	"encoding/binary"
	"fmt"
)

// The part of ARROW:schema that describes our columns, read by hand: the general decoder takes memory for counts that
// the bytes merely claim. The value is an IPC message whose header is a Flatbuffers table; tables, vectors and strings
// are found by offsets, which are all checked.

// flatField is one field of an Arrow schema: its name, its metadata and the fields below it.
type flatField struct {
	name     string
	meta     map[string]string
	children []flatField
}

const (
	maxFlatFields = 1 << 16 // in all
	maxFlatDepth  = 40
)

// Slots of the tables of Arrow's format: Message, Schema, Field and KeyValue.
const (
	slotMessageHeaderType = 1
	slotMessageHeader     = 2
	slotSchemaFields      = 1
	slotFieldName         = 0
	slotFieldChildren     = 5
	slotFieldMetadata     = 6
	slotKey, slotValue    = 0, 1

	headerIsSchema = 1
)

type flatReader struct {
	b      []byte
	fields int
}

func (r *flatReader) bad(at int) error {
	return fmt.Errorf("%w: %s: nothing sound at byte %d", ErrFormat, KeyArrowSchema, at)
}

func (r *flatReader) u16(at int) (int, error) {
	if at < 0 || at > len(r.b)-2 {
		return 0, r.bad(at)
	}
	return int(binary.LittleEndian.Uint16(r.b[at:])), nil
}

func (r *flatReader) i32(at int) (int, error) {
	if at < 0 || at > len(r.b)-4 {
		return 0, r.bad(at)
	}
	return int(int32(binary.LittleEndian.Uint32(r.b[at:]))), nil
}

// follow gives the place that an offset stored at a place points to.
func (r *flatReader) follow(at int) (int, error) {
	n, err := r.i32(at)
	if err == nil && (n < 0 || n > len(r.b)-at) {
		err = r.bad(at)
	}
	return at + n, err
}

// slot gives the place of a table's field, or 0 where the table does not have it.
func (r *flatReader) slot(table, n int) (int, error) {
	back, err := r.i32(table)
	if err != nil {
		return 0, err
	}
	vt := table - back
	size, err := r.u16(vt)
	if err != nil || 4+2*n+2 > size {
		return 0, err
	}
	off, err := r.u16(vt + 4 + 2*n)
	if err != nil || off == 0 {
		return 0, err
	}
	return table + off, nil
}

// vector gives the place of the first element of a field's vector of offsets, and their number.
func (r *flatReader) vector(table, n int) (first, count int, err error) {
	at, err := r.slot(table, n)
	if err != nil || at == 0 {
		return 0, 0, err
	}
	if at, err = r.follow(at); err != nil {
		return 0, 0, err
	}
	count, err = r.i32(at)
	if err == nil && (count < 0 || count > (len(r.b)-at-4)/4) {
		err = r.bad(at)
	}
	return at + 4, count, err
}

func (r *flatReader) text(table, n int) (string, error) {
	at, err := r.slot(table, n)
	if err != nil || at == 0 {
		return "", err
	}
	if at, err = r.follow(at); err != nil {
		return "", err
	}
	count, err := r.i32(at)
	if err == nil && (count < 0 || count > len(r.b)-at-4) {
		err = r.bad(at)
	}
	if err != nil {
		return "", err
	}
	return string(r.b[at+4 : at+4+count]), nil
}

// flatSchema reads the fields of an Arrow schema from an IPC message.
func flatSchema(b []byte) ([]flatField, error) {
	r := &flatReader{b: b}
	if len(b) >= 8 && binary.LittleEndian.Uint32(b) == 0xffffffff {
		r.b = b[8:]
	} else if len(b) >= 4 {
		r.b = b[4:] // the older framing, without the continuation marker
	}
	root, err := r.follow(0)
	if err != nil {
		return nil, err
	}
	at, err := r.slot(root, slotMessageHeaderType)
	if err != nil || at == 0 || at >= len(r.b) || r.b[at] != headerIsSchema {
		return nil, r.bad(at)
	}
	if at, err = r.slot(root, slotMessageHeader); err != nil || at == 0 {
		return nil, r.bad(at)
	}
	schema, err := r.follow(at)
	if err != nil {
		return nil, err
	}
	return r.fieldList(schema, slotSchemaFields, 0)
}

func (r *flatReader) fieldList(table, n, depth int) ([]flatField, error) {
	first, count, err := r.vector(table, n)
	if err != nil {
		return nil, err
	}
	if r.fields += count; r.fields > maxFlatFields || depth > maxFlatDepth {
		return nil, r.bad(table)
	}
	out := make([]flatField, count)
	for i := range out {
		at, err := r.follow(first + 4*i)
		if err != nil {
			return nil, err
		}
		if err := r.field(&out[i], at, depth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *flatReader) field(f *flatField, table, depth int) (err error) {
	if f.name, err = r.text(table, slotFieldName); err != nil {
		return err
	}
	if f.children, err = r.fieldList(table, slotFieldChildren, depth+1); err != nil {
		return err
	}
	first, count, err := r.vector(table, slotFieldMetadata)
	if err != nil {
		return err
	}
	if r.fields += count; r.fields > maxFlatFields {
		return r.bad(table)
	}
	f.meta = map[string]string{}
	for i := range count {
		kv, err := r.follow(first + 4*i)
		if err != nil {
			return err
		}
		key, err := r.text(kv, slotKey)
		if err != nil {
			return err
		}
		if key != FieldShape && key != FieldDType && key != FieldUnit {
			continue
		}
		value, err := r.text(kv, slotValue)
		if err != nil {
			return err
		}
		if len(value) > maxDescription {
			return r.bad(kv)
		}
		f.meta[key] = value
	}
	return nil
}

// maxDescription bounds the bytes of a shape, a dtype or a unit.
const maxDescription = 1 << 10
