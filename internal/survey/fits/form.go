package fits

import (
	"fmt"
	"strconv"
	"strings"

	"astropile/internal/catalog"
)

// MaxFields is the number of columns a table may have (FITS 4.0, section 7.2.1).
const MaxFields = 999

// form is a TFORM of a binary table: rT, or rPT and rQT for arrays in the heap.
type form struct {
	repeat int64
	code   byte // L X B I J K A E D C M
	array  byte // P or Q, else 0
}

// parseForm reads a TFORM. What follows the letter is another convention's matter, but for An, which some writers mean as nA.
func parseForm(s string) (form, error) {
	bad := corruptf("TFORM %q", s)
	s = strings.TrimSpace(s)
	digits := 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	f := form{repeat: 1}
	if digits > 0 {
		n, err := strconv.ParseInt(s[:digits], 10, 64)
		if err != nil || n > 1<<40 {
			return f, bad
		}
		f.repeat = n
	}
	s = s[digits:]
	if s == "" {
		return f, bad
	}
	f.code, s = s[0], s[1:]
	if f.code == 'P' || f.code == 'Q' {
		f.array = f.code
		if s == "" || f.repeat > 1 {
			return f, bad
		}
		f.code = s[0]
	} else if f.code == 'A' && digits == 0 && s != "" {
		if n, err := strconv.ParseInt(s, 10, 32); err == nil && n >= 0 {
			f.repeat = n
		}
	}
	if strings.IndexByte("LXBIJKAEDCM", f.code) < 0 {
		return f, bad
	}
	return f, nil
}

// elem is the bytes of one element; of bits it is 0.
func (f form) elem() int64 {
	switch f.code {
	case 'L', 'B', 'A':
		return 1
	case 'I':
		return 2
	case 'J', 'E':
		return 4
	case 'K', 'D', 'C':
		return 8
	case 'M':
		return 16
	}
	return 0
}

// width is the bytes a row has of the column.
func (f form) width() int64 {
	switch {
	case f.array == 'P':
		return 8 * f.repeat
	case f.array == 'Q':
		return 16 * f.repeat
	case f.code == 'X':
		return (f.repeat + 7) / 8
	}
	return f.repeat * f.elem()
}

// dtype is the type of elements as they stand.
func (f form) dtype() catalog.DType {
	switch f.code {
	case 'L', 'X':
		return catalog.Bool
	case 'B':
		return catalog.Uint8
	case 'I':
		return catalog.Int16
	case 'J':
		return catalog.Int32
	case 'K':
		return catalog.Int64
	case 'E':
		return catalog.Float32
	case 'D':
		return catalog.Float64
	case 'C':
		return catalog.Complex64
	case 'M':
		return catalog.Complex128
	}
	return catalog.String
}

// descriptor reads the number of elements and the offset of an array in the heap. Negative ones are for check to refuse.
func (f form) descriptor(b []byte) (n, off int64) {
	if f.array == 'P' {
		return int64(int32(be.Uint32(b))), int64(int32(be.Uint32(b[4:])))
	}
	return int64(be.Uint64(b)), int64(be.Uint64(b[8:]))
}

// arrayBytes is the size of n elements in the heap.
func (f form) arrayBytes(n int64) (int64, bool) {
	if n < 0 || n > 1<<56 {
		return 0, false
	}
	if f.code == 'X' {
		return (n + 7) / 8, true
	}
	return n * f.elem(), true
}

// column is one column of a table as its header describes it.
type column struct {
	number  int // from 1
	name    string
	tform   string
	form    form // of a binary table
	at      int  // byte in a row
	unit    string
	scale   float64
	zero    float64
	null    int64
	hasNull bool
	text    string  // TNULL of an ASCII table
	dim     []int64 // TDIM as it stands, first axis fastest
	ascii   asciiForm
	fault   error // why the column is not read
}

// columns lists the columns of a binary table; their widths have to fill its rows.
func (h *HDU) columns() ([]column, error) {
	n := numbers{h: h.header}
	fields := n.get("TFIELDS", 0, -1)
	if n.err != nil {
		return nil, n.err
	}
	if fields > MaxFields {
		return nil, corruptf("TFIELDS = %d, at most %d is allowed", fields, MaxFields)
	}
	cols := make([]column, fields)
	at := int64(0)
	for i := range cols {
		c := &cols[i]
		c.number, c.at = i+1, int(at)
		var found bool
		var err error
		if c.tform, found, err = h.header.Text(key("TFORM", i+1)); err != nil {
			return nil, err
		}
		if !found {
			return nil, corruptf("TFORM%d is missing", i+1)
		}
		if c.form, err = parseForm(c.tform); err != nil {
			return nil, fmt.Errorf("%w in column %d", err, i+1)
		}
		if at += c.form.width(); at > h.axes[0] {
			return nil, corruptf("the columns up to number %d take %d bytes, a row has %d", i+1, at, h.axes[0])
		}
		if err := c.describe(h); err != nil {
			return nil, err
		}
	}
	if at != h.axes[0] {
		return nil, corruptf("the columns take %d bytes, a row has %d", at, h.axes[0])
	}
	nameColumns(cols)
	return cols, nil
}

// describe reads what both kinds of tables say of a column besides its form.
func (c *column) describe(h *HDU) error {
	hd, i := h.header, c.number
	var err error
	if c.name, _, err = hd.Text(key("TTYPE", i)); err != nil {
		return err
	}
	c.name = strings.TrimSpace(c.name)
	if unit, ok, err := hd.Text(key("TUNIT", i)); ok && err == nil {
		c.unit = unit
	}
	c.scale, c.zero = 1, 0
	if v, ok, err := hd.Float(key("TSCAL", i)); err != nil {
		return err
	} else if ok {
		c.scale = v
	}
	if v, ok, err := hd.Float(key("TZERO", i)); err != nil {
		return err
	} else if ok {
		c.zero = v
	}
	if dim, ok, err := hd.Text(key("TDIM", i)); err != nil {
		return err
	} else if ok && h.Kind != ASCIITable {
		c.dim, c.fault = parseDim(dim)
	}
	if h.Kind == ASCIITable {
		if t, ok := hd.Get(key("TNULL", i)); ok {
			c.hasNull, c.text = t.Kind != Undefined, strings.TrimSpace(t.Text)
		}
		return nil
	}
	if strings.IndexByte("BIJK", c.form.code) >= 0 {
		c.null, c.hasNull, err = hd.Int(key("TNULL", i))
	}
	return err
}

// parseDim reads a TDIM: (n,m,...).
func parseDim(s string) ([]int64, error) {
	t := strings.TrimSpace(s)
	if t == "" {
		return nil, nil
	}
	if !strings.HasPrefix(t, "(") || !strings.HasSuffix(t, ")") {
		return nil, corruptf("TDIM %q", s)
	}
	var out []int64
	for p := range strings.SplitSeq(t[1:len(t)-1], ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(p), 10, 32)
		if err != nil || n < 0 || len(out) == MaxAxes {
			return nil, corruptf("TDIM %q", s)
		}
		out = append(out, n)
	}
	return out, nil
}

// nameColumns gives colN to columns without a name, and to those whose name another one has already.
func nameColumns(cols []column) {
	seen := map[string]bool{}
	for _, c := range cols {
		seen[c.name] = true
	}
	first := map[string]bool{}
	for i := range cols {
		c := &cols[i]
		if c.name != "" && !first[c.name] {
			first[c.name] = true
			continue
		}
		c.name = key("col", c.number)
		for seen[c.name] {
			c.name += "_"
		}
		seen[c.name] = true
	}
}
