package text

import (
	"context"
	"fmt"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// jsonTable is a JSONL file.
type jsonTable struct {
	file
	line jsonLine
}

// jsonRead is one request while rows are read.
type jsonRead struct {
	q table.Request
	c *catalog.Column
	v *catalog.Vector
}

func (t *jsonTable) Read(ctx context.Context, lo, hi int64, want []table.Request) (_ []*catalog.Vector, err error) {
	if err := t.check(lo, hi, want); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			t.row = 1 << 62 // the next Read finds its place anew
		}
	}()
	out := make([]*catalog.Vector, len(want))
	reads := make([][]*jsonRead, len(t.scan.fields)) // of every field
	for i, q := range want {
		c := &t.scan.fields[q.Field].Column
		out[i] = newVector(c, hi-lo)
		reads[q.Field] = append(reads[q.Field], &jsonRead{q: q, c: c, v: out[i]})
	}
	var at int64
	next := func() ([]byte, error) {
		for {
			at = t.in.line
			line, err := t.in.nextLine(ctx)
			if line == nil || err != nil || len(line) > 0 {
				return line, err
			}
		}
	}
	if err := t.to(ctx, lo, func() (bool, error) {
		line, err := next()
		return line != nil, err
	}); err != nil {
		return nil, err
	}
	for t.row < hi {
		line, err := next()
		if err != nil {
			return nil, err
		}
		if line == nil {
			return nil, t.short()
		}
		if err := t.line.parse(line); err != nil {
			return nil, lineError(ErrCorrupt, t.scan.path, at, "%v", err)
		}
		if t.line.tokens[0].kind != jObject {
			return nil, lineError(ErrChanged, t.scan.path, at, "no object")
		}
		if err := t.object(&t.scan.nodes.root, 0, reads, lo, hi); err != nil {
			return nil, lineError(ErrCorrupt, t.scan.path, at, "%v", err)
		}
		for _, some := range reads {
			for _, r := range some {
				if int64(r.v.Rows) == t.row-lo {
					r.null(hi - lo)
				}
			}
		}
		t.row++
	}
	return out, nil
}

// object reads the members of an object that are asked for.
func (t *jsonTable) object(n *node, at int32, reads [][]*jsonRead, lo, hi int64) error {
	j := &t.line
	expected := 0
	for i := at + 1; i < j.tokens[at].next; i = j.tokens[i].next {
		key := j.key(j.tokens[i])
		c := n.child(key, &expected)
		if c == nil {
			return fmt.Errorf("%w: the key %s was not there", ErrChanged, clip(key))
		}
		i++
		if c.field < 0 {
			if c.kind == object && j.tokens[i].kind == jObject {
				if err := t.object(c, i, reads, lo, hi); err != nil {
					return err
				}
			}
			continue
		}
		for _, r := range reads[c.field] {
			if j.tokens[i].kind == jNull {
				continue // made null after the row
			}
			if int64(r.v.Rows) != t.row-lo {
				return fmt.Errorf("%w: the key %s stands twice", ErrChanged, clip(key))
			}
			if err := r.value(j, c, i, hi-lo); err != nil {
				return fmt.Errorf("column %q: row %d: %w", t.scan.fields[c.field].Source, t.row, err)
			}
		}
	}
	return nil
}

// null appends a null row.
func (r *jsonRead) null(rows int64) {
	v := r.v
	v.Rows++
	switch {
	case r.c.Kind == catalog.Struct:
		for _, m := range v.Members {
			m.Rows++
			m.Offsets = append(m.Offsets, m.Offsets[len(m.Offsets)-1])
		}
	case r.c.Fixed():
		v.Data = append(v.Data, make([]byte, r.c.RowBytes())...)
	default:
		v.Offsets = append(v.Offsets, v.Offsets[len(v.Offsets)-1])
	}
	markNull(v, rows)
}

// value appends a row that is not null.
func (r *jsonRead) value(j *jsonLine, n *node, at int32, rows int64) (err error) {
	v, tok := r.v, j.tokens[at]
	v.Rows++
	if v.Valid != nil {
		v.Valid = append(v.Valid, true)
	}
	switch r.c.Kind {
	case catalog.Struct:
		if tok.kind != jArray {
			return fmt.Errorf("%w: %s", ErrChanged, tok.kind)
		}
		count := int64(0)
		for i := at + 1; i < tok.next; i = j.tokens[i].next {
			count++
			if j.tokens[i].kind == jObject {
				if err := r.element(j, n, i, count); err != nil {
					return err
				}
			}
			// Members that the object lacks are null.
			for k, m := range v.Members {
				if elements(m, &r.c.Members[k]) < m.Offsets[len(m.Offsets)-1]+count {
					if _, err := j.element(m, r.c.Members[k].DType, token{}, fill(r.q, k)); err != nil {
						return fmt.Errorf("member %q: %w", r.c.Members[k].Name, err)
					}
				}
			}
		}
		for _, m := range v.Members {
			m.Rows++
			m.Offsets = append(m.Offsets, m.Offsets[len(m.Offsets)-1]+count)
		}
	case catalog.List:
		if tok.kind != jArray {
			return fmt.Errorf("%w: %s", ErrChanged, tok.kind)
		}
		count, _, err := j.list(v, r.c.DType, at, fill(r.q, 0))
		if err != nil {
			return err
		}
		v.Offsets = append(v.Offsets, v.Offsets[len(v.Offsets)-1]+int64(count))
	case catalog.Tensor:
		_, err = j.tensor(v, r.c.DType, at, r.c.Shape, fill(r.q, 0))
	default:
		if r.c.DType != catalog.String {
			v.Data, err = j.appendScalar(v.Data, r.c.DType, tok)
			return err
		}
		if tok.kind != jString {
			return fmt.Errorf("%w: %s", ErrChanged, tok.kind)
		}
		v.Data = j.appendText(v.Data, tok)
		v.Offsets = append(v.Offsets, int64(len(v.Data)))
	}
	return err
}

// elements is the number of elements that a member has, those of the row that is read included.
func elements(m *catalog.Vector, c *catalog.Column) int64 {
	if c.DType == catalog.String {
		return int64(len(m.StrOffsets) - 1)
	}
	return int64(len(m.Data) / c.DType.Size())
}

// element appends the members of one object of an array.
func (r *jsonRead) element(j *jsonLine, n *node, at int32, count int64) error {
	expected := 0
	for i := at + 1; i < j.tokens[at].next; i = j.tokens[i].next {
		key := j.key(j.tokens[i])
		c := n.child(key, &expected)
		if c == nil {
			return fmt.Errorf("%w: the key %s was not there", ErrChanged, clip(key))
		}
		i++
		switch kind := j.tokens[i].kind; {
		case kind == jNull:
		case c.kind == object && kind == jObject:
			if err := r.element(j, c, i, count); err != nil {
				return err
			}
		case c.member >= 0:
			m, mc := r.v.Members[c.member], &r.c.Members[c.member]
			if elements(m, mc) != m.Offsets[len(m.Offsets)-1]+count-1 {
				return fmt.Errorf("%w: the key %s stands twice", ErrChanged, clip(key))
			}
			if _, err := j.element(m, mc.DType, j.tokens[i], nil); err != nil {
				return fmt.Errorf("member %q: %w", mc.Name, err)
			}
		default:
			return fmt.Errorf("%w: %s at %s", ErrChanged, kind, clip(key))
		}
	}
	return nil
}
