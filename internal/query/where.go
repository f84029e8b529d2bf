package query

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"astropile/internal/catalog"
)

// ErrQuery is returned, wrapped, for a selection that does not make sense: syntax, unknown columns, types that do not
// compare. It says where in the predicate.
var ErrQuery = errors.New("query: the selection does not make sense")

// maxWhere bounds the bytes of a predicate.
const maxWhere = 1 << 16

// Functions lists what predicates may call, with what it gives.
func Functions() []string {
	return []string{"isnull(x)", "isnan(x)", "abs(x)", "floor(x)", "ceil(x)", "round(x)", "sqrt(x)", "exp(x)", "log(x)", "log10(x)", "pow(x, y)", "min(x, y)", "max(x, y)",
		"bitand(flags, mask)", "bitor(flags, mask)", "bitxor(flags, mask)"}
}

// Where is a predicate, checked against the columns of a dataset.
type Where struct {
	// Columns are the scalar columns that the predicate reads.
	Columns []catalog.Column
	root    predicate
}

// ParseWhere checks a predicate against a dataset's columns. The error is ErrQuery and points at the place.
func ParseWhere(text string, columns []catalog.Column) (*Where, error) {
	if len(text) > maxWhere {
		return nil, fmt.Errorf("%w: a predicate of %d bytes, at most %d; many ids are given as ids", ErrQuery, len(text), maxWhere)
	}
	tree, err := parser.Parse(text)
	if err != nil {
		hint := ""
		lower := strings.ToLower(text)
		switch {
		case strings.Contains(err.Error(), `"="`):
			hint = " (equality is ==)"
		case regexp.MustCompile(`\b(AND|OR|NOT|IN|IS|NULL|LIKE|BETWEEN)\b`).MatchString(text), strings.Contains(lower, " is null"), strings.Contains(lower, "between"):
			hint = ` (operators are words in lower case: and, or, not, in; a missing value is x == nil)`
		}
		return nil, fmt.Errorf("%w: %s%s", ErrQuery, strings.TrimSpace(err.Error()), hint)
	}
	c := &compiler{all: columns, text: text}
	root, err := c.predicate(tree.Node, false)
	if err != nil {
		return nil, err
	}
	return &Where{Columns: c.used, root: root}, nil
}

type compiler struct {
	all, used []catalog.Column
	text      string
	depth     int
}

const maxNesting = 500

// errorAt points at a node.
func (c *compiler) errorAt(n ast.Node, format string, args ...any) error {
	e := file.Error{Location: n.Location(), Message: fmt.Sprintf(format, args...)}
	return fmt.Errorf("%w: %s", ErrQuery, strings.TrimSpace(e.Bind(file.NewSource(c.text)).Error()))
}

// column finds a scalar column and notes that it is used.
func (c *compiler) column(n ast.Node, name string) (operand, error) {
	for i := range c.used {
		if c.used[i].Name == name {
			return operand{kind: isColumn, column: i, dtype: c.used[i].DType, node: n}, nil
		}
	}
	var names []string
	for i := range c.all {
		x := &c.all[i]
		if x.Kind == catalog.Scalar {
			names = append(names, x.Name)
		}
		if x.Name != name {
			continue
		}
		if x.Kind != catalog.Scalar {
			return operand{}, c.errorAt(n, "%q is a %s, and a predicate reads scalars", name, x.Kind)
		}
		c.used = append(c.used, *x)
		return operand{kind: isColumn, column: len(c.used) - 1, dtype: x.DType, node: n}, nil
	}
	near := ""
	for _, x := range names {
		if strings.EqualFold(x, name) {
			near = fmt.Sprintf("; did you mean %s?", x)
		}
	}
	return operand{}, c.errorAt(n, "there is no column %q%s; scalars are %s", name, near, shorten(names))
}

func shorten(names []string) string {
	if len(names) > 40 {
		return strings.Join(names[:40], ", ") + fmt.Sprintf(" and %d more", len(names)-40)
	}
	return strings.Join(names, ", ")
}

type operandKind uint8

const (
	isColumn operandKind = iota
	isNumber             // a constant: int64 or float64
	isText               // a constant
	isBool               // a constant
	isNil
	isExpr // arithmetic
	isBits // a bitwise operation of an integer column
)

type operand struct {
	kind   operandKind
	column int
	dtype  catalog.DType
	value  any
	expr   number
	bits   func(x uint64) uint64
	node   ast.Node
}

// what names the type of an operand for people.
func (o operand) what(c *compiler) string {
	switch o.kind {
	case isColumn:
		return fmt.Sprintf("%s (%s)", c.used[o.column].Name, o.dtype)
	case isText:
		return fmt.Sprintf("the text %q", o.value)
	case isBool:
		return fmt.Sprint(o.value)
	case isNil:
		return "nil"
	}
	return "a number"
}

func (o operand) number() bool {
	switch o.kind {
	case isColumn:
		k := class(o.dtype)
		return k == 'f' || k == 'i' || k == 'u'
	case isNumber, isExpr, isBits:
		return true
	}
	return false
}

// asNumber makes arithmetic of an operand that is a number.
func (o operand) asNumber(c *compiler) (number, error) {
	switch {
	case o.kind == isColumn && o.number():
		return columnNumber{o.column, o.dtype}, nil
	case o.kind == isNumber:
		return constNumber(toFloat(o.value)), nil
	case o.kind == isExpr:
		return o.expr, nil
	}
	return nil, c.errorAt(o.node, "a number belongs here, not %s", o.what(c))
}

// predicate compiles a condition, or its negation: what is unknown is selected by neither.
func (c *compiler) predicate(n ast.Node, negate bool) (predicate, error) {
	if c.depth++; c.depth > maxNesting {
		return nil, c.errorAt(n, "conditions are nested more than %d deep", maxNesting)
	}
	defer func() { c.depth-- }()
	switch x := n.(type) {
	case *ast.BoolNode:
		if x.Value != negate {
			return all{}, nil
		}
		return none{}, nil
	case *ast.UnaryNode:
		if x.Operator == "not" || x.Operator == "!" {
			return c.predicate(x.Node, !negate)
		}
	case *ast.ConditionalNode:
		var parts []predicate
		for i, branch := range []ast.Node{x.Exp1, x.Exp2} {
			if _, ok := branch.(*ast.NilNode); ok {
				continue
			}
			cond, err := c.predicate(x.Cond, i == 1)
			if err != nil {
				return nil, err
			}
			then, err := c.predicate(branch, negate)
			if err != nil {
				return nil, err
			}
			parts = append(parts, and{[]predicate{cond, then}})
		}
		return or{parts}, nil
	case *ast.BinaryNode:
		switch x.Operator {
		case "and", "&&", "or", "||":
			a, err := c.predicate(x.Left, negate)
			if err != nil {
				return nil, err
			}
			b, err := c.predicate(x.Right, negate)
			if err != nil {
				return nil, err
			}
			if (x.Operator == "and" || x.Operator == "&&") != negate {
				return joinAnd(a, b), nil
			}
			return joinOr(a, b), nil
		case "in":
			return c.in(x, negate)
		case "contains", "startsWith", "endsWith", "matches":
			return c.textOp(x, negate)
		}
		if o, ok := opNames[x.Operator]; ok {
			if negate {
				return c.compare(x, o.negated())
			}
			return c.compare(x, o)
		}
	}
	if name, args, ok := call(n); ok && (name == "isnull" || name == "isnan") {
		if len(args) != 1 {
			return nil, c.errorAt(n, "%s takes one value", name)
		}
		o, err := c.operand(args[0])
		if err != nil {
			return nil, err
		}
		if name == "isnull" {
			if o.kind != isColumn {
				return nil, c.errorAt(n, "isnull takes a column")
			}
			return isNull{o.column, negate}, nil
		}
		num, err := o.asNumber(c)
		if err != nil {
			return nil, err
		}
		return isNaN{num, negate}, nil
	}
	o, err := c.operand(n)
	if err != nil {
		return nil, err
	}
	if o.kind == isColumn && o.dtype == catalog.Bool {
		return newCompare(o.column, o.dtype, eq, int64(1-b2i(negate))), nil
	}
	return nil, c.errorAt(n, "a condition belongs here, and this is %s", o.what(c))
}

func joinAnd(a, b predicate) predicate {
	if x, ok := a.(and); ok {
		return and{append(slices.Clone(x.parts), b)}
	}
	return and{[]predicate{a, b}}
}

func joinOr(a, b predicate) predicate {
	if x, ok := a.(or); ok {
		return or{append(slices.Clone(x.parts), b)}
	}
	return or{[]predicate{a, b}}
}

// call takes a function call apart.
func call(n ast.Node) (name string, args []ast.Node, ok bool) {
	switch x := n.(type) {
	case *ast.BuiltinNode:
		return x.Name, x.Arguments, true
	case *ast.CallNode:
		if id, ok := x.Callee.(*ast.IdentifierNode); ok {
			return id.Value, x.Arguments, true
		}
	}
	return "", nil, false
}

// compare compiles a comparison.
func (c *compiler) compare(n *ast.BinaryNode, o op) (predicate, error) {
	a, err := c.operand(n.Left)
	if err != nil {
		return nil, err
	}
	b, err := c.operand(n.Right)
	if err != nil {
		return nil, err
	}
	if a.kind != isColumn && a.kind != isBits && (b.kind == isColumn || b.kind == isBits) {
		a, b, o = b, a, o.swapped()
	}
	mismatch := func() error {
		hint := ""
		if a.kind == isColumn && class(a.dtype) == 't' && b.number() {
			hint = "; text is quoted"
		}
		return c.errorAt(n, "%s does not compare with %s%s", a.what(c), b.what(c), hint)
	}
	switch {
	case a.kind == isColumn && b.kind == isNil:
		if o != eq && o != ne {
			return nil, mismatch()
		}
		return isNull{a.column, o == ne}, nil
	case a.kind == isNil || b.kind == isNil:
		return nil, c.errorAt(n, "nil compares with a column (x == nil)")
	case a.kind == isBits:
		return c.compareBits(n, a, b, o)
	case a.kind == isColumn && class(a.dtype) == 't':
		switch {
		case b.kind == isText:
			return compareText(a.column, o, b.value.(string)), nil
		case b.kind == isColumn && class(b.dtype) == 't':
			return compareTexts{o, a.column, b.column}, nil
		}
		return nil, mismatch()
	case a.kind == isColumn && a.dtype == catalog.Bool:
		if b.kind == isBool && (o == eq || o == ne) {
			return newCompare(a.column, a.dtype, o, int64(b2i(b.value.(bool)))), nil
		}
		if b.kind == isColumn && b.dtype == catalog.Bool && (o == eq || o == ne) {
			return compareIntegers{o, columnNumber{a.column, a.dtype}, columnNumber{b.column, b.dtype}}, nil
		}
		return nil, mismatch()
	case !a.number() || !b.number():
		return nil, mismatch()
	case a.kind == isColumn && b.kind == isNumber:
		return newCompare(a.column, a.dtype, o, b.value), nil
	case a.kind == isColumn && b.kind == isColumn && class(a.dtype) != 'f' && class(b.dtype) != 'f':
		return compareIntegers{o, columnNumber{a.column, a.dtype}, columnNumber{b.column, b.dtype}}, nil
	}
	x, err := a.asNumber(c)
	if err != nil {
		return nil, err
	}
	y, err := b.asNumber(c)
	if err != nil {
		return nil, err
	}
	return compareNumbers{o, x, y}, nil
}

func (c *compiler) compareBits(n ast.Node, a, b operand, o op) (predicate, error) {
	want, ok := b.value.(int64)
	if b.kind != isNumber || !ok {
		return nil, c.errorAt(n, "a bitwise operation compares with an integer")
	}
	signed := class(a.dtype) == 'i'
	is := func(x uint64) bool {
		k := 0
		switch {
		case signed && int64(x) < want, !signed && want >= 0 && x < uint64(want):
			k = -1
		case signed && int64(x) > want, !signed && (want < 0 || x > uint64(want)):
			k = 1
		}
		return [...]bool{lt: k < 0, le: k <= 0, gt: k > 0, ge: k >= 0, eq: k == 0, ne: k != 0}[o]
	}
	return bitsOf{a.column, a.dtype, a.bits, is}, nil
}

// in compiles membership of a list of constants, or of a range of integers.
func (c *compiler) in(n *ast.BinaryNode, negate bool) (predicate, error) {
	a, err := c.operand(n.Left)
	if err != nil {
		return nil, err
	}
	if a.kind != isColumn {
		return nil, c.errorAt(n, "in asks about a column")
	}
	if r, ok := n.Right.(*ast.BinaryNode); ok && r.Operator == ".." {
		if k := class(a.dtype); k != 'i' && k != 'u' {
			return nil, c.errorAt(n, "%s is not an integer; write the range as two comparisons", a.what(c))
		}
		lo, err := c.operand(r.Left)
		if err != nil {
			return nil, err
		}
		hi, err := c.operand(r.Right)
		if err != nil {
			return nil, err
		}
		_, okLo := lo.value.(int64)
		_, okHi := hi.value.(int64)
		if !okLo || !okHi {
			return nil, c.errorAt(n, "a range has two integers")
		}
		if negate {
			return joinOr(newCompare(a.column, a.dtype, lt, lo.value), newCompare(a.column, a.dtype, gt, hi.value)), nil
		}
		return joinAnd(newCompare(a.column, a.dtype, ge, lo.value), newCompare(a.column, a.dtype, le, hi.value)), nil
	}
	list, ok := n.Right.(*ast.ArrayNode)
	if !ok {
		return nil, c.errorAt(n, "in asks about a list ([1, 2, 3]) or a range (1..3)")
	}
	switch class(a.dtype) {
	case 't':
		set := map[string]bool{}
		for _, e := range list.Nodes {
			s, ok := e.(*ast.StringNode)
			if !ok {
				return nil, c.errorAt(e, "%s is text, and its list holds quoted text", a.what(c))
			}
			set[s.Value] = true
		}
		p := text{column: a.column, is: func(b []byte) bool { return set[string(b)] }}
		if negate {
			return negateText(p), nil
		}
		return p, nil
	case 'b':
		return nil, c.errorAt(n, "%s has no list; write it, or not it", a.what(c))
	}
	var parts []predicate
	var bits []uint64
	for _, e := range list.Nodes {
		v, err := c.operand(e)
		if err != nil {
			return nil, err
		}
		if v.kind != isNumber {
			return nil, c.errorAt(e, "%s is a number, and its list holds numbers", a.what(c))
		}
		o := eq
		if negate {
			o = ne
		}
		p := newCompare(a.column, a.dtype, o, v.value)
		parts = append(parts, p)
		if k, ok := p.(compareConst); ok && class(a.dtype) != 'f' {
			u := k.u
			if class(a.dtype) == 'i' {
				u = uint64(k.i) & (^uint64(0) >> (64 - 8*a.dtype.Size()))
			}
			bits = append(bits, u)
		}
	}
	const few = 4
	switch {
	case len(parts) == 0 && negate:
		return isNull{a.column, true}, nil
	case len(parts) == 0:
		return none{}, nil
	case class(a.dtype) != 'f' && len(parts) > few:
		sort.Slice(bits, func(i, j int) bool { return bits[i] < bits[j] })
		return integerSet{a.column, a.dtype, slices.Compact(bits), negate}, nil
	case negate:
		return and{parts}, nil
	}
	return or{parts}, nil
}

func (c *compiler) textOp(n *ast.BinaryNode, negate bool) (predicate, error) {
	a, err := c.operand(n.Left)
	if err != nil {
		return nil, err
	}
	want, ok := n.Right.(*ast.StringNode)
	if !ok || a.kind != isColumn || class(a.dtype) != 't' {
		return nil, c.errorAt(n, "%s asks a text column about a quoted text", n.Operator)
	}
	var p text
	switch n.Operator {
	case "contains":
		p = text{column: a.column, is: func(b []byte) bool { return strings.Contains(string(b), want.Value) }}
	case "startsWith":
		p = text{column: a.column, is: func(b []byte) bool { return strings.HasPrefix(string(b), want.Value) }, least: want.Value}
	case "endsWith":
		p = text{column: a.column, is: func(b []byte) bool { return strings.HasSuffix(string(b), want.Value) }}
	case "matches":
		re, err := regexp.Compile(want.Value)
		if err != nil {
			return nil, c.errorAt(n.Right, "%v", err)
		}
		p = matchText(a.column, re)
	}
	if negate {
		return negateText(p), nil
	}
	return p, nil
}

var functions1 = map[string]func(float64) float64{"abs": math.Abs, "floor": math.Floor, "ceil": math.Ceil, "round": math.Round, "sqrt": math.Sqrt, "exp": math.Exp, "log": math.Log, "log10": math.Log10}

var functions2 = map[string]func(x, y float64) float64{"pow": math.Pow, "min": math.Min, "max": math.Max}

// operand compiles a value.
func (c *compiler) operand(n ast.Node) (operand, error) {
	if c.depth++; c.depth > maxNesting {
		return operand{}, c.errorAt(n, "values are nested more than %d deep", maxNesting)
	}
	defer func() { c.depth-- }()
	switch x := n.(type) {
	case *ast.NilNode:
		return operand{kind: isNil, node: n}, nil
	case *ast.BoolNode:
		return operand{kind: isBool, value: x.Value, node: n}, nil
	case *ast.IntegerNode:
		return operand{kind: isNumber, value: int64(x.Value), node: n}, nil
	case *ast.FloatNode:
		return operand{kind: isNumber, value: x.Value, node: n}, nil
	case *ast.StringNode:
		return operand{kind: isText, value: x.Value, node: n}, nil
	case *ast.IdentifierNode:
		return c.column(n, x.Value)
	case *ast.MemberNode:
		if id, ok := x.Node.(*ast.IdentifierNode); ok && id.Value == "$env" {
			if s, ok := x.Property.(*ast.StringNode); ok {
				return c.column(n, s.Value)
			}
		}
		return operand{}, c.errorAt(n, `a column is its name, or $env["name"]`)
	case *ast.UnaryNode:
		if x.Operator == "-" || x.Operator == "+" {
			return c.sign(x)
		}
	case *ast.BinaryNode:
		if do, ok := arithmetic[x.Operator]; ok {
			return c.binary(n, x.Left, x.Right, do)
		}
	}
	if name, args, ok := call(n); ok {
		return c.call(n, name, args)
	}
	return operand{}, c.errorAt(n, "this is no value that a predicate knows")
}

var arithmetic = map[string]func(x, y float64) float64{
	"+":  func(x, y float64) float64 { return x + y },
	"-":  func(x, y float64) float64 { return x - y },
	"*":  func(x, y float64) float64 { return x * y },
	"/":  func(x, y float64) float64 { return x / y },
	"%":  math.Mod,
	"**": math.Pow,
	"^":  math.Pow,
	"??": func(x, y float64) float64 {
		if math.IsNaN(x) {
			return y
		}
		return x
	},
}

func (c *compiler) sign(n *ast.UnaryNode) (operand, error) {
	o, err := c.operand(n.Node)
	if err != nil || n.Operator == "+" && o.number() {
		return o, err
	}
	if o.kind == isNumber {
		switch v := o.value.(type) {
		case int64:
			if v != math.MinInt64 {
				o.value = -v
				return o, nil
			}
		case float64:
			o.value = -v
			return o, nil
		}
	}
	x, err := o.asNumber(c)
	if err != nil {
		return operand{}, err
	}
	return operand{kind: isExpr, expr: arith1{x, func(x float64) float64 { return -x }}, node: n}, nil
}

func (c *compiler) binary(n, left, right ast.Node, do func(x, y float64) float64) (operand, error) {
	a, err := c.operand(left)
	if err != nil {
		return operand{}, err
	}
	b, err := c.operand(right)
	if err != nil {
		return operand{}, err
	}
	x, err := a.asNumber(c)
	if err != nil {
		return operand{}, err
	}
	y, err := b.asNumber(c)
	if err != nil {
		return operand{}, err
	}
	if a.kind == isNumber && b.kind == isNumber {
		v := do(toFloat(a.value), toFloat(b.value))
		out := operand{kind: isNumber, value: v, node: n}
		_, ia := a.value.(int64)
		_, ib := b.value.(int64)
		if ia && ib && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			out.value = int64(v)
		}
		return out, nil
	}
	return operand{kind: isExpr, expr: arith2{x, y, do}, node: n}, nil
}

func (c *compiler) call(n ast.Node, name string, args []ast.Node) (operand, error) {
	if do, ok := functions1[name]; ok && len(args) == 1 {
		o, err := c.operand(args[0])
		if err != nil {
			return operand{}, err
		}
		x, err := o.asNumber(c)
		if err != nil {
			return operand{}, err
		}
		return operand{kind: isExpr, expr: arith1{x, do}, node: n}, nil
	}
	if do, ok := functions2[name]; ok && len(args) == 2 {
		return c.binary(n, args[0], args[1], do)
	}
	if bit, ok := bitwise[name]; ok && len(args) == 2 {
		a, err := c.operand(args[0])
		if err != nil {
			return operand{}, err
		}
		b, err := c.operand(args[1])
		if err != nil {
			return operand{}, err
		}
		if a.kind == isNumber && b.kind == isColumn {
			a, b = b, a
		}
		mask, ok := b.value.(int64)
		if a.kind != isColumn || class(a.dtype) != 'i' && class(a.dtype) != 'u' || !ok {
			return operand{}, c.errorAt(n, "%s takes a column of integers and an integer", name)
		}
		return operand{kind: isBits, column: a.column, dtype: a.dtype, bits: func(x uint64) uint64 { return bit(x, uint64(mask)) }, node: n}, nil
	}
	return operand{}, c.errorAt(n, "%s with %d values is no function here; there are %s", name, len(args), strings.Join(Functions(), ", "))
}

var bitwise = map[string]func(x, y uint64) uint64{
	"bitand": func(x, y uint64) uint64 { return x & y },
	"bitor":  func(x, y uint64) uint64 { return x | y },
	"bitxor": func(x, y uint64) uint64 { return x ^ y },
}
