package shard

import (
	"encoding/base64"
	"encoding/json"

	"astropile/internal/catalog"
)

// describedColumns reads our description of the columns from ARROW:schema, or gives nil where there is none.
func describedColumns(m *FileMetaData, top []schemaNode) []catalog.Column {
	val, ok := m.Value(KeyArrowSchema)
	if !ok || len(val) > MaxFooter {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(val)
	if err != nil {
		return nil
	}
	fields, err := flatSchema(b)
	if err != nil || len(fields) != len(top) || len(top) == 0 {
		return nil
	}
	out := make([]catalog.Column, len(top))
	for i := range fields {
		if fields[i].name != top[i].Name || !describe(&out[i], &fields[i], &top[i]) {
			return nil
		}
		if _, err := bindColumn(&out[i], i, &top[i]); err != nil {
			return nil
		}
		if out[i].Kind != catalog.Tensor {
			out[i].Nullable = top[i].Repetition == Optional
			for k := range out[i].Members {
				out[i].Members[k].Nullable = false
			}
		}
	}
	if catalog.CheckFileColumns(out) != nil {
		return nil
	}
	return out
}

func describe(c *catalog.Column, f *flatField, n *schemaNode) bool {
	c.Name = f.name
	c.DType, c.Unit = catalog.DType(f.meta[FieldDType]), f.meta[FieldUnit]
	switch shape, ok := f.meta[FieldShape]; {
	case c.DType == "" && !n.Leaf && !isList(n):
		c.Kind = catalog.Struct
		if len(f.children) != len(n.children) {
			return false
		}
		c.Members = make([]catalog.Column, len(f.children))
		for k := range f.children {
			if !describe(&c.Members[k], &f.children[k], &n.children[k]) {
				return false
			}
		}
		return true
	case ok:
		c.Kind = catalog.Tensor
		if json.Unmarshal([]byte(shape), &c.Shape) != nil {
			return false
		}
	case isList(n):
		c.Kind = catalog.List
	default:
		c.Kind = catalog.Scalar
	}
	return c.DType.Valid()
}

// guessDims is the shape that all rows of a nested leaf have as far as row counts and the first page tell, or nil.
func (d *Reader) guessDims(l *schemaNode) []int {
	if l.rep < 1 || l.rep > 8 || len(d.groups) == 0 {
		return nil
	}
	first := &d.meta.RowGroups[0].Columns[l.leaf]
	elems := int64(0)
	for g := range d.groups {
		m := &d.meta.RowGroups[g].Columns[l.leaf].Meta
		if g == 0 {
			elems = m.NumValues / d.groups[0].Rows
		}
		if elems < 1 || elems > catalog.MaxTensorBytes || m.NumValues != elems*d.groups[g].Rows {
			return nil
		}
	}
	dt, ok := dtypeOf(&l.SchemaElement)
	if !ok || dt == catalog.String {
		return nil
	}
	// Only the first page is looked at; every other page is checked when it is read.
	c := &ColumnReader{r: d, form: formOf(dt), levels: shapeLevels{elems: int(elems), maxRep: l.rep, maxDef: l.def, strides: []int{int(elems), 1}}}
	var h pageHead
	off, hi := chunkSpan(&first.Meta)
	for {
		if c.headAt(&h, off, hi) != nil {
			return nil
		}
		if h.typ == PageData || h.typ == PageDataV2 {
			break
		}
		off += int64(h.size) + int64(h.stored)
		if off >= hi {
			return nil
		}
	}
	body := make([]byte, h.stored)
	if d.readAt(body, off+int64(h.size)) != nil {
		return nil
	}
	if h.typ == PageData && first.Meta.Codec != CompressNone {
		if int64(h.raw) > int64(h.stored)*maxRatio+1<<20 {
			return nil
		}
		raw := make([]byte, h.raw)
		if d.dec.decompress(first.Meta.Codec, raw, body) != nil {
			return nil
		}
		body = raw
	}
	rep, def, _, err := h.takeLevels(body, &c.levels)
	if err != nil || c.levels.checkDef(def, h.values) != nil {
		return nil
	}
	dims, err := inferDims(rep, h.values, l.rep, int(elems))
	if err != nil {
		return nil
	}
	s := newShapeLevels(dims, l.rep, l.def)
	if s.elems != int(elems) || s.checkRep(rep, h.values, 0) != nil {
		return nil
	}
	return dims
}
