package survey

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"astropile/internal/catalog"
)

// MaxRecipe bounds the bytes of a recipe.
const MaxRecipe = 4 << 20

// LoadRecipe reads a recipe that a person wrote or Marshal gave. Unknown keys, values of another kind, keys that stand
// twice, aliases and contradictions are refused with the line; the error wraps ErrRecipe. A recipe without columns is a
// set of hints for Inspect. Rename is applied where columns are given.
func LoadRecipe(text []byte) (*Recipe, error) {
	if len(text) > MaxRecipe {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrRecipe, len(text), MaxRecipe)
	}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: it is empty", ErrRecipe)
		}
		return nil, fmt.Errorf("%w: %w", ErrRecipe, err)
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one document", ErrRecipe)
	}
	if len(doc.Content) != 1 {
		return nil, fmt.Errorf("%w: it is empty", ErrRecipe)
	}
	r := &Recipe{}
	lines := map[string]int{} // top-level keys, and columns as "column name"
	err := fields(doc.Content[0], map[string]func(*yaml.Node) error{
		"family": func(n *yaml.Node) error { return scalar(n, (*string)(&r.Family)) },
		"id":     func(n *yaml.Node) error { return scalar(n, &r.ID) },
		"ra":     func(n *yaml.Node) error { return scalar(n, &r.RA) },
		"dec":    func(n *yaml.Node) error { return scalar(n, &r.Dec) },
		"no_sky": func(n *yaml.Node) error { return scalar(n, &r.NoSky) },
		"hdu":    func(n *yaml.Node) error { return scalar(n, &r.HDU) },
		"drop":   func(n *yaml.Node) error { return sequence(n, &r.Drop) },
		"pad": func(n *yaml.Node) error {
			r.Pad = map[string]float64{}
			return eachField(n, func(key string, v *yaml.Node) error {
				var x float64
				err := scalar(v, &x)
				r.Pad[key] = x
				return err
			})
		},
		"rename": func(n *yaml.Node) error {
			r.Rename = map[string]string{}
			return eachField(n, func(key string, v *yaml.Node) error {
				var to string
				err := scalar(v, &to)
				r.Rename[key] = to
				return err
			})
		},
		"columns": func(n *yaml.Node) error {
			var err error
			if r.Map, err = mappingList(n, false); err == nil && len(r.Map) == 0 {
				err = at(n, "columns: is empty; leave it out to have it inferred")
			}
			for i := range r.Map {
				lines["column "+r.Map[i].Name] = n.Content[i].Line
			}
			return err
		},
	}, lines)
	if err != nil {
		return nil, err
	}
	if r.NoSky && (r.RA != "" || r.Dec != "") {
		return nil, fmt.Errorf("%w: line %d: no_sky: true contradicts ra and dec", ErrRecipe, lines["no_sky"])
	}
	if len(r.Map) == 0 {
		if r.Family == "" || slices.Contains(families, r.Family) {
			return r, nil
		}
		return nil, fmt.Errorf("%w: line %d: family: %q is none of %v", ErrRecipe, lines["family"], r.Family, families)
	}
	if len(r.Pad) > 0 {
		return nil, fmt.Errorf("%w: line %d: pad: is a hint; where columns are given it belongs to a column", ErrRecipe, lines["pad"])
	}
	if err := r.rename(); err != nil {
		return nil, fmt.Errorf("line %d: %w", lines["rename"], err)
	}
	for i := range r.Map {
		m := &r.Map[i]
		err := m.check(r.Family, false)
		if err == nil {
			c := m.Column()
			err = c.Check()
		}
		if err != nil && !errors.Is(err, ErrRecipe) {
			err = fmt.Errorf("%w: %w", ErrRecipe, err)
		}
		if err != nil {
			line := lines["column "+m.Name]
			if line == 0 {
				line = lines["rename"]
			}
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if m.Wrap && m.Name != r.RA {
			return nil, fmt.Errorf("line %d: %w", lines["column "+m.Name], r.wrapError(m))
		}
		for _, x := range append([]Mapping{*m}, m.Members...) {
			if x.Source != "" && (r.drops(x.key()) || r.Family.tabular() && r.dropsTable(x.Source, x.Member)) {
				return nil, fmt.Errorf("%w: line %d: column %q is read from %q, which drop: leaves out", ErrRecipe, lines["drop"], m.Name, x.key())
			}
		}
	}
	return r, r.Check()
}

// at makes an error that names the node's line.
func at(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%w: line %d: %s", ErrRecipe, n.Line, fmt.Sprintf(format, args...))
}

func eachField(n *yaml.Node, do func(key string, v *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return at(n, "keys and values belong here")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			return at(k, "a key has to be a plain word")
		}
		if seen[k.Value] {
			return at(k, "key %q stands twice", k.Value)
		}
		seen[k.Value] = true
		if err := do(k.Value, v); err != nil {
			return err
		}
	}
	return nil
}

// fields reads a mapping whose keys are known, and notes their lines.
func fields(n *yaml.Node, known map[string]func(*yaml.Node) error, lines map[string]int) error {
	return eachField(n, func(key string, v *yaml.Node) error {
		read, ok := known[key]
		if !ok {
			return at(v, "key %q is unknown; known are %v", key, slices.Sorted(maps.Keys(known)))
		}
		lines[key] = v.Line
		return read(v)
	})
}

func scalar[T any](n *yaml.Node, dst *T) error {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return at(n, "one value belongs here")
	}
	if s, ok := any(dst).(*string); ok {
		*s = n.Value // names such as 1e5 or yes are names
		return nil
	}
	if err := n.Decode(dst); err != nil {
		return at(n, "%q is no %T", n.Value, *dst)
	}
	return nil
}

func sequence[T any](n *yaml.Node, dst *[]T) error {
	if n.Kind != yaml.SequenceNode {
		return at(n, "a list belongs here")
	}
	for _, x := range n.Content {
		var v T
		if err := scalar(x, &v); err != nil {
			return err
		}
		*dst = append(*dst, v)
	}
	return nil
}

func mappingList(n *yaml.Node, member bool) ([]Mapping, error) {
	if n.Kind != yaml.SequenceNode {
		return nil, at(n, "a list of columns belongs here")
	}
	if len(n.Content) > catalog.MaxColumns {
		return nil, at(n, "%d columns, at most %d", len(n.Content), catalog.MaxColumns)
	}
	var out []Mapping
	for _, x := range n.Content {
		m := Mapping{From: FromDataset}
		if member {
			m.Kind = catalog.List
		}
		known := map[string]func(*yaml.Node) error{
			"name":   func(n *yaml.Node) error { return scalar(n, &m.Name) },
			"from":   func(n *yaml.Node) error { return scalar(n, (*string)(&m.From)) },
			"source": func(n *yaml.Node) error { return scalar(n, &m.Source) },
			"member": func(n *yaml.Node) error { return scalar(n, &m.Member) },
			"kind":   func(n *yaml.Node) error { return scalar(n, (*string)(&m.Kind)) },
			"dtype":  func(n *yaml.Node) error { return scalar(n, (*string)(&m.DType)) },
			"unit":   func(n *yaml.Node) error { return scalar(n, &m.Unit) },
			"text":   func(n *yaml.Node) error { return scalar(n, (*string)(&m.Text)) },
			"round":  func(n *yaml.Node) error { return scalar(n, &m.Round) },
			"scale": func(n *yaml.Node) error {
				err := scalar(n, &m.Scale)
				if err == nil && m.Scale == 0 {
					err = at(n, "scale: 0 is no factor")
				}
				return err
			},
			"fill": func(n *yaml.Node) error { return fillValue(n, &m.Fill) },
		}
		if !member {
			known["shape"] = func(n *yaml.Node) error { return sequence(n, &m.Shape) }
			known["nullable"] = func(n *yaml.Node) error { return scalar(n, &m.Nullable) }
			known["split"] = func(n *yaml.Node) error { return scalar(n, &m.Split) }
			known["wrap"] = func(n *yaml.Node) error { return scalar(n, &m.Wrap) }
			known["trim"] = func(n *yaml.Node) error { return scalar(n, &m.Trim) }
			known["pad"] = func(n *yaml.Node) error {
				m.Pad = new(float64)
				return scalar(n, m.Pad)
			}
			known["members"] = func(n *yaml.Node) error {
				var err error
				m.Members, err = mappingList(n, true)
				return err
			}
		}
		lines := map[string]int{}
		if err := fields(x, known, lines); err != nil {
			return nil, err
		}
		for _, key := range []string{"name", "kind"} {
			if lines[key] == 0 && !(member && key == "kind") {
				return nil, at(x, "a column needs %s:", key)
			}
		}
		if lines["source"] == 0 && m.Kind != catalog.Struct && (m.From == FromDataset || m.From == FromAttribute) {
			return nil, at(x, "column %q needs source:", m.Name)
		}
		out = append(out, m)
	}
	return out, nil
}

// fillValue reads a number, or text.
func fillValue(n *yaml.Node, dst *any) error {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return at(n, "one value belongs here")
	}
	var f float64
	switch {
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		*dst = n.Value
	case strings.EqualFold(n.Value, "nan"):
		*dst = math.NaN()
	case n.Decode(&f) == nil:
		var whole int64
		var natural uint64
		if n.Decode(&whole) == nil && (f == 1<<63 || int64(f) != whole) || n.Decode(&natural) == nil && (f >= 1<<64 || uint64(f) != natural) {
			return at(n, "fill: %s is not exact as float64, by which fills are held; take %.0f", n.Value, f)
		}
		*dst = f
	default:
		*dst = n.Value
	}
	return nil
}

// Marshal writes the recipe as YAML, with the notes as comments. LoadRecipe reads the same recipe back, notes aside.
func (r *Recipe) Marshal() ([]byte, error) {
	top := &yaml.Node{Kind: yaml.MappingNode}
	if r.Family != "" {
		put(top, "family", str(string(r.Family)))
	}
	for _, kv := range [][2]string{{"id", r.ID}, {"ra", r.RA}, {"dec", r.Dec}} {
		if kv[1] != "" {
			put(top, kv[0], str(kv[1]))
		}
	}
	if r.NoSky {
		put(top, "no_sky", word("true"))
	}
	if r.HDU != "" {
		put(top, "hdu", str(r.HDU))
	}
	if len(r.Rename) > 0 {
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, k := range slices.Sorted(maps.Keys(r.Rename)) {
			put(n, k, str(r.Rename[k]))
		}
		put(top, "rename", n)
	}
	if len(r.Pad) > 0 {
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, k := range slices.Sorted(maps.Keys(r.Pad)) {
			v := &yaml.Node{}
			if err := v.Encode(r.Pad[k]); err != nil {
				return nil, err
			}
			put(n, k, v)
		}
		put(top, "pad", n)
	}
	if len(r.Drop) > 0 {
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, d := range r.Drop {
			n.Content = append(n.Content, str(d))
		}
		put(top, "drop", n)
	}
	if len(r.Map) > 0 {
		put(top, "columns", mappingNodes(r.Map, false))
	}
	if len(top.Content) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrRecipe)
	}
	for i, note := range r.Notes {
		if i > 0 {
			top.Content[0].HeadComment += "\n"
		}
		top.Content[0].HeadComment += "# " + comment(note)
	}
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(top); err != nil {
		return nil, err
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// comment keeps a note on one line: names from files stand in it.
func comment(s string) string {
	q := strconv.Quote(s)
	q = q[1 : len(q)-1]
	out := make([]byte, 0, len(q))
	for i := 0; i < len(q); i++ {
		if q[i] == '\\' && i+1 < len(q) && (q[i+1] == '"' || q[i+1] == '\\') {
			i++
		}
		out = append(out, q[i])
	}
	return string(out)
}

func mappingNodes(list []Mapping, member bool) *yaml.Node {
	seq := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range list {
		m := &list[i]
		n := &yaml.Node{Kind: yaml.MappingNode}
		put(n, "name", str(m.Name))
		if m.From != FromDataset {
			put(n, "from", str(string(m.From)))
		}
		for _, kv := range [][2]string{{"source", m.Source}, {"member", m.Member}} {
			if kv[1] != "" {
				put(n, kv[0], str(kv[1]))
			}
		}
		if !member {
			put(n, "kind", str(string(m.Kind)))
		}
		if m.DType != "" {
			put(n, "dtype", str(string(m.DType)))
		}
		if len(m.Shape) > 0 {
			s := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
			for _, d := range m.Shape {
				s.Content = append(s.Content, word(strconv.Itoa(d)))
			}
			put(n, "shape", s)
		}
		for _, kv := range [][2]string{{"unit", m.Unit}, {"text", string(m.Text)}, {"split", m.Split}, {"trim", m.Trim}} {
			if kv[1] != "" {
				put(n, kv[0], str(kv[1]))
			}
		}
		if m.Nullable {
			put(n, "nullable", word("true"))
		}
		if m.Round {
			put(n, "round", word("true"))
		}
		if m.Scale != 0 {
			node := &yaml.Node{}
			if node.Encode(m.Scale) == nil {
				put(n, "scale", node)
			}
		}
		if m.Wrap {
			put(n, "wrap", word("true"))
		}
		switch f := m.Fill.(type) {
		case float64:
			node := &yaml.Node{}
			if f == math.Trunc(f) && math.Abs(f) <= 1<<64 {
				put(n, "fill", word(strconv.FormatFloat(f, 'f', 0, 64)))
			} else if node.Encode(f) == nil {
				put(n, "fill", node)
			}
		case string:
			node := str(f)
			node.Style = yaml.DoubleQuotedStyle
			put(n, "fill", node)
		}
		if m.Pad != nil {
			pad := &yaml.Node{}
			if pad.Encode(*m.Pad) == nil {
				put(n, "pad", pad)
			}
		}
		if len(m.Members) > 0 {
			put(n, "members", mappingNodes(m.Members, true))
		}
		if m.Note != "" {
			n.Content[1].LineComment = "# " + comment(m.Note)
		}
		if member {
			n.Style = yaml.FlowStyle
			n.Content[1].LineComment = ""
		}
		seq.Content = append(seq.Content, n)
	}
	return seq
}

func put(n *yaml.Node, key string, v *yaml.Node) {
	n.Content = append(n.Content, str(key), v)
}

// str is a text node, quoted where it would be read as something else.
func str(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	if n.Tag == "!!binary" {
		return n
	}
	var back any
	if yaml.Unmarshal([]byte(s), &back) != nil {
		n.Style = yaml.DoubleQuotedStyle
	} else if t, ok := back.(string); !ok || t != s {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func word(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }
