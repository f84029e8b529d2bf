package survey

import (
	"fmt"
	"slices"
	"strings"

	"astropile/internal/catalog"
)

// agreed is what inputs, one after the other, say together of the values of a source: of their type, shape and unit. What does not agree is kept
// as the words for it.
type agreed struct {
	where      string // the input that showed the source first
	dt         catalog.DType
	dtWhere    string
	checked    bool   // dt does not hold every value that may come, only the ones that did not stop the reader
	clash      string // two types that no type holds
	shape      []int  // of the first
	most       []int  // greatest shape
	other      []int  // a shape that differs from the first, nil if none does
	otherWhere string
	unit       string
	unitWhere  string
	unitClash  string
	err        error
	errWhere   string
}

// fail notes why the source has no place in a column.
func (a *agreed) fail(err error, where string) {
	if a.err == nil {
		a.err, a.errWhere = err, where
	}
}

// joinType widens the type to one that holds dt as well. rescue may give one where no type does; it may be nil.
func (a *agreed) joinType(dt catalog.DType, where string, rescue func(a, b catalog.DType) (catalog.DType, bool)) {
	if a.dt == "" {
		a.dt, a.dtWhere = dt, where
	}
	if dt == a.dt || a.checked && a.dt == catalog.Float64 && !dt.Complex() && dt != catalog.String {
		return
	}
	wide, checked, ok := common(a.dt, dt)
	if !ok && rescue != nil {
		wide, ok = rescue(a.dt, dt)
	}
	switch {
	case !ok && a.clash == "":
		a.clash = fmt.Sprintf("%s in %s, %s in %s", a.dt, a.dtWhere, dt, where)
	case ok:
		a.dt, a.dtWhere, a.checked = wide, where, a.checked || checked
	}
}

// joinShape compares a shape with the first.
func (a *agreed) joinShape(shape []int, where string) {
	if slices.Equal(shape, a.shape) {
		return
	}
	if a.other == nil {
		a.other, a.otherWhere = shape, where
	}
	if len(shape) == len(a.most) {
		for i, d := range shape {
			a.most[i] = max(a.most[i], d)
		}
	}
}

func (a *agreed) joinUnit(unit, where string) {
	switch {
	case unit == "" || unit == a.unit:
	case a.unit == "":
		a.unit, a.unitWhere = unit, where
	case a.unitClash == "":
		a.unitClash = fmt.Sprintf("%q in %s, %q in %s", a.unit, a.unitWhere, unit, where)
	}
}

// text is how text of the source is read; padded says that files pad it.
func (a *agreed) text(padded bool) Text {
	switch {
	case a.dt != catalog.String:
		return ""
	case padded:
		return TextPadded
	}
	return TextExact
}

// agree says whether types and units of a source agree well enough to be a column or a member, and warns of a type that does not hold everything.
// name is what recipes call the source, column what its column would be called.
func (n *inference) agree(a *agreed, name, column string) bool {
	switch {
	case a.err != nil:
		where := a.errWhere + ": "
		if strings.Contains(a.err.Error(), where) {
			where = "" // the reader named the file
		}
		n.problem("%s%q: %v; leave it out (drop: [%s])", where, name, a.err, name)
	case a.clash != "":
		n.problem("%q is %s, and no type holds both; leave it out (drop: [%s]), or give the columns with a dtype: for it", name, a.clash, name)
	case a.unitClash != "":
		n.problem("%q has unit %s; convert one, or leave it out (drop: [%s])", name, a.unitClash, name)
	default:
		if a.checked {
			n.warn(WarnDType, column, a.dtWhere, "integers of 64 bits here and floats there: float64, and an integer that it does not hold will be refused")
		}
		return true
	}
	return false
}
