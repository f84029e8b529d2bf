package survey

import (
	"errors"
	"fmt"

	"astropile/internal/catalog"
)

// binding joins a mapping with what a file offers for it.
type binding struct {
	m       *Mapping
	col     catalog.Column
	f       *field   // nil where the file lacks it and the column may be null, and for group, split and structs
	members []*field // of a struct
}

// bind joins the recipe's columns, in their order, with an object's sources. Every source has to be in a column or be
// dropped: a column nobody thought of is refused, not lost.
func bind(o *object, r *Recipe, maps []*Mapping, cols []catalog.Column) ([]binding, error) {
	var errs []error
	fail := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s: %s", ErrMapping, o.where, fmt.Sprintf(format, args...)))
	}
	used := map[fieldKey]bool{}
	take := func(m *Mapping) *field {
		used[m.key()] = true
		f := o.find(m.key())
		switch {
		case f == nil && !m.Nullable:
			fail("there is no %s %q for column %q; a scalar may be missing where the recipe says nullable: true", m.From, m.key(), m.Name)
		case f == nil:
		default:
			if err := f.fits(m); err != nil {
				fail("%q does not fit column %q (%s of %s): %v", m.key(), m.Name, m.Kind, m.DType, err)
			}
		}
		return f
	}
	out := make([]binding, len(maps))
	for i, m := range maps {
		b := binding{m: m, col: cols[i]}
		switch {
		case m.From == FromGroup || m.From == FromSplit:
		case m.Kind != catalog.Struct:
			b.f = take(m)
		case m.Trim != "":
			for k := range m.Members {
				x := &m.Members[k]
				used[x.key()] = true
				f := o.find(x.key())
				if err := f.fitsBands(x); err != nil {
					fail("%q does not fit member %q of column %q: %v", x.key(), x.Name, m.Name, err)
				}
				b.members = append(b.members, f)
			}
		default:
			for k := range m.Members {
				b.members = append(b.members, take(&m.Members[k]))
			}
		}
		out[i] = b
	}
	for i := range o.fields {
		if k := o.fields[i].key; !used[k] {
			fail("%s %q is in no column; put it in one, or leave it out (drop: [%s])", k.from, k, k)
		}
	}
	return out, errors.Join(errs...)
}

// fitsBands says whether a field can be a member of a light curve of bands x epochs: names of the bands (an array, or
// one text with commas), or numbers of two axes.
func (f *field) fitsBands(m *Mapping) error {
	switch {
	case f == nil:
		return errors.New("it is not there")
	case f.err != nil:
		return f.err
	case f.elem.vlen != nil || (f.elem.dt == catalog.String) != (m.DType == catalog.String):
		return fmt.Errorf("it holds %s, not %s", f.elem.typ, m.DType)
	case m.DType == catalog.String && len(f.shape) > 1, m.DType != catalog.String && len(f.shape) != 2:
		return fmt.Errorf("it has shape %v", f.shape)
	}
	return nil
}
