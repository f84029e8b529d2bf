package shard

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"astropile/internal/catalog"
)

// appendRows appends rows [lo, hi) of src to v, both of column c.
func appendRows(v *catalog.Vector, c *catalog.Column, src *catalog.Vector, lo, hi int) {
	n := hi - lo
	if src.Valid != nil || v.Valid != nil {
		for len(v.Valid) < v.Rows {
			v.Valid = append(v.Valid, true)
		}
		if src.Valid != nil {
			v.Valid = append(v.Valid, src.Valid[lo:hi]...)
		} else {
			for range n {
				v.Valid = append(v.Valid, true)
			}
		}
	}
	switch {
	case c.Kind == catalog.Struct:
		for k, m := range v.Members {
			appendRows(m, &c.Members[k], src.Members[k], lo, hi)
		}
	case c.Fixed():
		w := c.RowBytes()
		v.Data = append(v.Data, src.Data[lo*w:hi*w]...)
	default:
		from, to := src.Offsets[lo], src.Offsets[hi]
		v.Offsets = appendOffsets(v.Offsets, src.Offsets[lo:hi+1])
		switch {
		case c.Kind == catalog.List && c.DType == catalog.String:
			v.StrOffsets = appendOffsets(v.StrOffsets, src.StrOffsets[from:to+1])
			v.Data = append(v.Data, src.Data[src.StrOffsets[from]:src.StrOffsets[to]]...)
		case c.Kind == catalog.List:
			es := int64(c.DType.Size())
			v.Data = append(v.Data, src.Data[from*es:to*es]...)
		default:
			v.Data = append(v.Data, src.Data[from:to]...)
		}
	}
	v.Rows += n
}

// appendOffsets appends offsets, which start at any value, to offsets that end where the new ones go on.
func appendOffsets(dst, src []int64) []int64 {
	shift := dst[len(dst)-1] - src[0]
	for _, o := range src[1:] {
		dst = append(dst, o+shift)
	}
	return dst
}

// resetRows empties a vector and keeps its memory.
func resetRows(v *catalog.Vector, c *catalog.Column) {
	v.Rows, v.Data, v.Valid = 0, v.Data[:0], nil
	for k, m := range v.Members {
		resetRows(m, &c.Members[k])
	}
	if c.Kind != catalog.Struct && !c.Fixed() {
		v.Offsets = append(v.Offsets[:0], 0)
		if c.Kind == catalog.List && c.DType == catalog.String {
			v.StrOffsets = append(v.StrOffsets[:0], 0)
		}
	}
}

// checkBatch says whether a batch has the columns of the shard and is sound; row is the number of its first row.
func checkBatch(cols []catalog.Column, b *catalog.Batch, row int64) error {
	if len(b.Columns) != len(cols) || len(b.Vectors) != len(cols) {
		return fmt.Errorf("%w: a batch of %d columns and %d vectors, the shard has %d columns", catalog.ErrVector, len(b.Columns), len(b.Vectors), len(cols))
	}
	for i := range cols {
		c, v := &cols[i], b.Vectors[i]
		if !sameColumn(&b.Columns[i], c) {
			return fmt.Errorf("%w: column %d of a batch is %s, the shard has %s there", catalog.ErrVector, i, columnText(&b.Columns[i]), columnText(c))
		}
		if v.Rows != b.Rows {
			return fmt.Errorf("%w: column %q has %d rows in a batch of %d", catalog.ErrVector, c.Name, v.Rows, b.Rows)
		}
		if err := v.Check(c); err != nil {
			return err
		}
		if err := checkValues(c, v, row); err != nil {
			return err
		}
		if c.Nullable && c.Kind != catalog.Tensor {
			continue
		}
		for k, ok := range v.Valid {
			if !ok {
				return fmt.Errorf("%w: column %q is null in row %d and must not be", catalog.ErrVector, c.Name, row+int64(k))
			}
		}
	}
	return nil
}

// sameColumn says whether rows of column a are rows of column b: how they are stored and in what unit does not matter.
func sameColumn(a, b *catalog.Column) bool {
	return a.Name == b.Name && a.Kind == b.Kind && a.DType == b.DType && (a.Kind != catalog.Tensor || slices.Equal(a.Shape, b.Shape)) &&
		slices.EqualFunc(a.Members, b.Members, func(x, y catalog.Column) bool { return sameColumn(&x, &y) })
}

// columnText shows what sameColumn compares.
func columnText(c *catalog.Column) string {
	s := fmt.Sprintf("%q (%s", c.Name, c.Kind)
	if c.DType != "" {
		s += " " + string(c.DType)
	}
	if c.Kind == catalog.Tensor {
		s += fmt.Sprint(" ", c.Shape)
	}
	for i := range c.Members {
		s += " " + columnText(&c.Members[i])
	}
	return s + ")"
}

// checkValues refuses what would be stored as something else: bools that are neither 0 nor 1, text that is not UTF-8,
// elements of a row that is null.
func checkValues(c *catalog.Column, v *catalog.Vector, row int64) error {
	bad := func(k int, why string) error {
		return fmt.Errorf("%w: column %q, row %d: %s", catalog.ErrVector, c.Name, row+int64(k), why)
	}
	for k := range v.Members {
		m, mc := v.Members[k], &c.Members[k]
		for i := range v.Rows {
			if m.Null(i) && !v.Null(i) {
				return bad(i, fmt.Sprintf("member %q is null and its group is not", mc.Name))
			}
			if v.Null(i) && m.Offsets[i] != m.Offsets[i+1] {
				return bad(i, fmt.Sprintf("the group is null, member %q has elements", mc.Name))
			}
		}
		if err := checkValues(mc, m, row); err != nil {
			return err
		}
	}
	if c.Kind == catalog.List {
		for i, ok := range v.Valid {
			if !ok && v.Offsets[i] != v.Offsets[i+1] {
				return bad(i, "the list is null and has elements")
			}
		}
	}
	switch c.DType {
	case catalog.Bool:
		data := v.Data
		if c.Kind == catalog.List {
			data = data[v.Offsets[0]:v.Offsets[v.Rows]]
		}
		for i, b := range data {
			if b > 1 {
				if c.Kind != catalog.List {
					i /= c.RowBytes()
				} else {
					i = 0
				}
				return bad(i, fmt.Sprintf("a bool of value %d", b))
			}
		}
	case catalog.String:
		offs := v.Offsets
		if c.Kind == catalog.List {
			offs = v.StrOffsets[v.Offsets[0] : v.Offsets[v.Rows]+1]
		}
		for i := 1; i < len(offs); i++ {
			if s := v.Data[offs[i-1]:offs[i]]; !utf8.Valid(s) {
				return bad(min(i-1, v.Rows-1), fmt.Sprintf("text %q is not UTF-8", s[:min(len(s), 64)]))
			}
		}
	}
	return nil
}
