package survey

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"astropile/internal/catalog"
	"astropile/internal/survey/hdf5"
)

// cell is what one row of one source holds: elements of f.elem, packed.
type cell struct {
	vlen *hdf5.VlenReader // elements of varying length, within the budget of what is read at once
	f    *field
	data []byte
	// changed is set where an id was not kept as it stands in the file.
	changed bool
}

// appendCell appends a row to the vector of a column that is no struct.
func appendCell(v *catalog.Vector, m *Mapping, c *cell) error {
	e := &c.f.elem
	n := elements(c.f.shape)
	switch {
	case m.Kind == catalog.Scalar && m.DType == catalog.String:
		b, err := c.text(0, m)
		if err != nil {
			return err
		}
		v.Data = append(v.Data, b...)
		v.Offsets = append(v.Offsets, int64(len(v.Data)))
	case m.Kind == catalog.Scalar:
		if err := appendNumbers(v, m, c.data, e, 1); err != nil {
			return err
		}
	case m.Kind == catalog.Tensor:
		if err := appendTensor(v, m, c); err != nil {
			return err
		}
	case m.Split != "" && e.vlen == nil && n == 1:
		b, err := c.text(0, m)
		if err != nil {
			return err
		}
		appendTexts(v, parts(b, m.Split))
	case m.DType == catalog.String && e.vlen == nil:
		list := make([]string, n)
		for i := range list {
			b, err := c.text(i, m)
			if err != nil {
				return err
			}
			list[i] = string(b)
		}
		appendTexts(v, list)
	case e.vlen == nil:
		if err := appendNumbers(v, m, c.data, e, n); err != nil {
			return err
		}
		v.Offsets = append(v.Offsets, v.Offsets[len(v.Offsets)-1]+int64(n))
	default:
		data, n, err := c.vlen.Read(e.typ, c.data[:e.size])
		if err != nil {
			return err
		}
		if m.DType == catalog.String {
			inner := cell{vlen: c.vlen, f: &field{elem: *e.vlen}, data: data}
			list := make([]string, n)
			for i := range list {
				b, err := inner.text(i, m)
				if err != nil {
					return err
				}
				list[i] = string(b)
			}
			appendTexts(v, list)
			break
		}
		if err := appendNumbers(v, m, data, e.vlen, n); err != nil {
			return err
		}
		v.Offsets = append(v.Offsets, v.Offsets[len(v.Offsets)-1]+int64(n))
	}
	v.Rows++
	if v.Valid != nil {
		v.Valid = append(v.Valid, true)
	}
	return nil
}

// text is element i as the mapping wants it; an integer is written in decimal.
func (c *cell) text(i int, m *Mapping) ([]byte, error) {
	e := &c.f.elem
	b := c.data[i*e.size : (i+1)*e.size]
	switch class, _ := number(e.dt); class {
	case 'i':
		return strconv.AppendInt(nil, int64(getInt(b, true)), 10), nil
	case 'u':
		return strconv.AppendUint(nil, getInt(b, false), 10), nil
	}
	if e.typ.Class == hdf5.ClassString {
		b = e.typ.TrimString(b)
	} else {
		var err error
		if b, _, err = c.vlen.Read(e.typ, b); err != nil {
			return nil, err
		}
	}
	out, ok := m.Text.decode(b)
	if !ok {
		return nil, fmt.Errorf("%q is not UTF-8 (text: latin1 reads ISO 8859-1)", b)
	}
	c.changed = c.changed || m.Text == TextID && !bytes.Equal(out, b)
	return out, nil
}

// appendNumbers appends n elements to the data of a vector.
func appendNumbers(v *catalog.Vector, m *Mapping, src []byte, e *elem, n int) error {
	size := m.DType.Size()
	at := len(v.Data)
	v.Data = slices.Grow(v.Data, n*size)[:at+n*size]
	if i := convert(v.Data[at:], m.DType, src, e, n, m.Round); i >= 0 {
		return inexact(m, src, e, i)
	}
	return nil
}

func inexact(m *Mapping, src []byte, e *elem, i int) error {
	b := src[i*e.size : (i+1)*e.size]
	var value any
	switch class, _ := number(e.dt); class {
	case 'f':
		value = getFloat(b)
	case 'i':
		value = int64(getInt(b, true))
	case 'c':
		value = complex(getFloat(b[:len(b)/2]), getFloat(b[len(b)/2:]))
	default:
		value = getInt(b, false)
	}
	return fmt.Errorf("%v (%s) is not exact as %s; change dtype: in the recipe (round: true lets floats be rounded)", value, e.dt, m.DType)
}

// appendTensor appends one value; what is smaller than the column's shape is filled up at the end of each axis.
func appendTensor(v *catalog.Vector, m *Mapping, c *cell) error {
	e := &c.f.elem
	if slices.Equal(c.f.shape, m.Shape) || reshapes(c.f.shape, m.Shape, m.Pad) {
		return appendNumbers(v, m, c.data, e, elements(m.Shape))
	}
	size := m.DType.Size()
	one := make([]byte, size)
	class, bits := number(m.DType)
	switch class {
	case 'b':
		one[0] = byte(*m.Pad)
	case 'c':
		putFloat(one[:size/2], bits/2, *m.Pad, false)
	default:
		putNumber(one, class, bits, *m.Pad, false)
	}
	at := len(v.Data)
	v.Data = append(v.Data, slices.Repeat(one, elements(m.Shape))...)
	dst := v.Data[at:]
	run := c.f.shape[len(c.f.shape)-1]
	if elements(c.f.shape) == 0 {
		return nil
	}
	index := make([]int, len(m.Shape))
	for from := 0; from < elements(c.f.shape); from += run {
		to := 0
		for k, d := range m.Shape {
			to = to*d + index[k]
		}
		if i := convert(dst[to*size:], m.DType, c.data[from*e.size:], e, run, m.Round); i >= 0 {
			return inexact(m, c.data[from*e.size:], e, i)
		}
		for k := len(index) - 2; k >= 0; k-- {
			if index[k]++; index[k] < c.f.shape[k] {
				break
			}
			index[k] = 0
		}
	}
	return nil
}

func appendTexts(v *catalog.Vector, list []string) {
	for _, s := range list {
		v.Data = append(v.Data, s...)
		v.StrOffsets = append(v.StrOffsets, int64(len(v.Data)))
	}
	v.Offsets = append(v.Offsets, v.Offsets[len(v.Offsets)-1]+int64(len(list)))
}

// parts cuts a text such as "g,r,i" and trims each part; an empty text has none.
func parts(b []byte, sep string) []string {
	if len(strings.TrimSpace(string(b))) == 0 {
		return nil
	}
	list := strings.Split(string(b), sep)
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// appendNull appends a row that the file does not have.
func appendNull(v *catalog.Vector, m *Mapping) {
	if v.Valid == nil {
		v.Valid = slices.Repeat([]bool{true}, v.Rows)
	}
	v.Valid = append(v.Valid, false)
	if m.DType == catalog.String {
		v.Offsets = append(v.Offsets, int64(len(v.Data)))
	} else {
		v.Data = append(v.Data, make([]byte, m.DType.Size())...)
	}
	v.Rows++
}

func appendText(v *catalog.Vector, s string) {
	v.Data = append(v.Data, s...)
	v.Offsets = append(v.Offsets, int64(len(v.Data)))
	v.Rows++
	if v.Valid != nil {
		v.Valid = append(v.Valid, true)
	}
}

// appendBands appends a light curve of bands x epochs, band after band. What stands after the last epoch of a band whose
// time is neither 0 nor -99 is padding.
func appendBands(v *catalog.Vector, m *Mapping, cells []*cell) error {
	time := slices.IndexFunc(m.Members, func(x Mapping) bool { return x.Name == m.Trim })
	shape := cells[time].f.shape
	nb, length := shape[0], shape[1]
	kept := make([]int, nb)
	te := &cells[time].f.elem
	class, _ := number(te.dt)
	for b := range kept {
		for k := length; k > 0 && kept[b] == 0; k-- {
			raw := cells[time].data[(b*length+k-1)*te.size:][:te.size]
			t := 0.0
			switch class {
			case 'f':
				t = getFloat(raw)
			case 'i':
				t = float64(int64(getInt(raw, true)))
			default:
				t = float64(getInt(raw, false))
			}
			if t != 0 && t != -99 || math.IsNaN(t) {
				kept[b] = k
			}
		}
	}
	for i := range m.Members {
		x, c, out := &m.Members[i], cells[i], v.Members[i]
		var names []string
		if x.DType == catalog.String {
			n := elements(c.f.shape)
			for k := range n {
				b, err := c.text(k, x)
				if err != nil {
					return fmt.Errorf("member %q: %w", x.Name, err)
				}
				if names = append(names, string(b)); len(c.f.shape) == 0 {
					names = parts(b, ",")
				}
			}
			if len(names) != nb {
				return fmt.Errorf("member %q names %d bands and %q has %d", x.Name, len(names), m.Trim, nb)
			}
		} else if !slices.Equal(c.f.shape, shape) {
			return fmt.Errorf("member %q has shape %v and %q has %v", x.Name, c.f.shape, m.Trim, shape)
		}
		total := int64(0)
		for b, n := range kept {
			total += int64(n)
			if names != nil {
				for range n {
					out.Data = append(out.Data, names[b]...)
					out.StrOffsets = append(out.StrOffsets, int64(len(out.Data)))
				}
				continue
			}
			if err := appendNumbers(out, x, c.data[b*length*c.f.elem.size:], &c.f.elem, n); err != nil {
				return fmt.Errorf("member %q: %w", x.Name, err)
			}
		}
		out.Offsets = append(out.Offsets, out.Offsets[len(out.Offsets)-1]+total)
		out.Rows++
	}
	v.Rows++
	return nil
}

// appendStruct appends a row of lists that have to agree in length.
func appendStruct(v *catalog.Vector, m *Mapping, cells []*cell) error {
	if m.Trim != "" {
		return appendBands(v, m, cells)
	}
	length := int64(0)
	for i := range m.Members {
		x, out := &m.Members[i], v.Members[i]
		if err := appendCell(out, x, cells[i]); err != nil {
			return fmt.Errorf("member %q: %w", x.Name, err)
		}
		n := out.Offsets[out.Rows] - out.Offsets[out.Rows-1]
		if i == 0 {
			length = n
		} else if n != length {
			return fmt.Errorf("member %q has %d elements and %q has %d; lists whose lengths differ are columns of their own (kind: list)", m.Members[0].Name, length, x.Name, n)
		}
	}
	v.Rows++
	return nil
}
