package text

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"astropile/internal/catalog"
)

// jkind is the kind of a JSON value.
type jkind uint8

const (
	jNull jkind = iota
	jTrue
	jFalse
	jNumber
	jString
	jArray
	jObject
)

func (k jkind) String() string {
	return [...]string{"null", "a bool", "a bool", "a number", "a text", "an array", "an object"}[k]
}

// token is a value, or a key, of a line.
type token struct {
	kind    jkind
	escaped bool  // a string with escapes in it
	lo, hi  int32 // of a scalar in the line; of a string without its quotes
	next    int32 // the token after this value, and all that is in it
}

// jsonLine is a line of JSON, checked and cut into tokens: of an object the keys and values in turn, of an array the values.
type jsonLine struct {
	b       []byte
	at      int
	tokens  []token
	scratch []byte
}

var (
	errValues = fmt.Errorf("over %d values in a line", MaxValues)
	errDepth  = fmt.Errorf("nested over %d deep", MaxDepth)
)

// parse checks a line, which holds one value, and cuts it into tokens. Bytes are known to be UTF-8.
func (j *jsonLine) parse(b []byte) error {
	j.b, j.at, j.tokens = b, 0, j.tokens[:0]
	if err := j.value(0); err != nil {
		return err
	}
	j.space()
	if j.at < len(b) {
		return j.bad("something after the value")
	}
	return nil
}

func (j *jsonLine) bad(what string) error {
	return fmt.Errorf("byte %d: %s", j.at+1, what)
}

func (j *jsonLine) space() {
	for j.at < len(j.b) {
		switch j.b[j.at] {
		case ' ', '\t', '\r', '\n':
			j.at++
		default:
			return
		}
	}
}

func (j *jsonLine) value(depth int) error {
	j.space()
	if len(j.tokens) >= MaxValues {
		return errValues
	}
	if j.at == len(j.b) {
		return j.bad("the line ends where a value should stand")
	}
	t := len(j.tokens)
	switch c := j.b[j.at]; {
	case c == '"':
		return j.text()
	case c == '{', c == '[':
		if depth >= MaxDepth {
			return errDepth
		}
		kind, end := jObject, byte('}')
		if c == '[' {
			kind, end = jArray, ']'
		}
		j.tokens = append(j.tokens, token{kind: kind, lo: int32(j.at)})
		j.at++
		for first := true; ; first = false {
			j.space()
			if j.at < len(j.b) && j.b[j.at] == end {
				if first || j.b[j.at-1] != ',' {
					j.at++
					j.tokens[t].hi, j.tokens[t].next = int32(j.at), int32(len(j.tokens))
					return nil
				}
			}
			if !first {
				if j.at == len(j.b) || j.b[j.at] != ',' {
					return j.bad("a comma or the end of the " + kind.String()[3:] + " should stand here")
				}
				j.at++
				j.space()
			}
			if kind == jObject {
				if j.at == len(j.b) || j.b[j.at] != '"' {
					return j.bad("a key in quotes should stand here")
				}
				if err := j.text(); err != nil {
					return err
				}
				j.space()
				if j.at == len(j.b) || j.b[j.at] != ':' {
					return j.bad("a colon should stand here")
				}
				j.at++
			}
			if err := j.value(depth + 1); err != nil {
				return err
			}
		}
	case c == 't':
		return j.word("true", jTrue)
	case c == 'f':
		return j.word("false", jFalse)
	case c == 'n':
		return j.word("null", jNull)
	case c == 'N':
		return j.word("NaN", jNumber)
	case c == 'I':
		return j.word("Infinity", jNumber)
	}
	return j.number()
}

func (j *jsonLine) word(w string, kind jkind) error {
	if !bytes.HasPrefix(j.b[j.at:], []byte(w)) {
		return j.bad("no JSON value")
	}
	j.scalar(kind, len(w))
	return nil
}

func (j *jsonLine) scalar(kind jkind, n int) {
	j.tokens = append(j.tokens, token{kind: kind, lo: int32(j.at), hi: int32(j.at + n), next: int32(len(j.tokens) + 1)})
	j.at += n
}

func (j *jsonLine) number() error {
	b := j.b[j.at:]
	i := 0
	if b[0] == '-' {
		i++
	}
	if bytes.HasPrefix(b[i:], []byte("Infinity")) && i == 1 {
		j.scalar(jNumber, 9)
		return nil
	}
	digits := func() int {
		from := i
		for i < len(b) && b[i]-'0' <= 9 {
			i++
		}
		return i - from
	}
	first := i
	if n := digits(); n == 0 || n > 1 && b[first] == '0' {
		return j.bad("no JSON value")
	}
	if i < len(b) && b[i] == '.' {
		i++
		if digits() == 0 {
			return j.bad("a number without digits after its point")
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '-' || b[i] == '+') {
			i++
		}
		if digits() == 0 {
			return j.bad("a number without digits in its exponent")
		}
	}
	j.scalar(jNumber, i)
	return nil
}

// text checks a string and appends its token.
func (j *jsonLine) text() error {
	if len(j.tokens) >= MaxValues {
		return errValues
	}
	from := j.at + 1
	escaped := false
	for i := from; i < len(j.b); i++ {
		switch c := j.b[i]; {
		case c == '"':
			j.tokens = append(j.tokens, token{kind: jString, escaped: escaped, lo: int32(from), hi: int32(i), next: int32(len(j.tokens) + 1)})
			j.at = i + 1
			return nil
		case c < ' ':
			j.at = i
			return j.bad(fmt.Sprintf("control character 0x%02x in a text; JSON escapes it", c))
		case c == '\\':
			escaped = true
			n, _, err := unescape(j.b[i:])
			if err != nil {
				j.at = i
				return j.bad(err.Error())
			}
			i += n - 1
		}
	}
	j.at = len(j.b)
	return j.bad("the line ends inside a text")
}

// unescape reads the escape at the start of b: its length and what it stands for.
func unescape(b []byte) (n int, r rune, err error) {
	if len(b) < 2 {
		return 0, 0, errors.New("the line ends inside a text")
	}
	switch b[1] {
	case '"', '\\', '/':
		return 2, rune(b[1]), nil
	case 'b':
		return 2, '\b', nil
	case 'f':
		return 2, '\f', nil
	case 'n':
		return 2, '\n', nil
	case 'r':
		return 2, '\r', nil
	case 't':
		return 2, '\t', nil
	case 'u':
		hi, ok := hex4(b[2:])
		switch {
		case !ok:
			return 0, 0, errors.New(`\u without four hexadecimal digits`)
		case hi < 0xd800 || hi > 0xdfff:
			return 6, hi, nil
		}
		if hi < 0xdc00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if lo, ok := hex4(b[8:]); ok && lo >= 0xdc00 && lo <= 0xdfff {
				return 12, 0x10000 + (hi-0xd800)<<10 + lo - 0xdc00, nil
			}
		}
		return 0, 0, errors.New("a lone surrogate, which is no character")
	}
	return 0, 0, errors.New("an escape that JSON does not have")
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		r <<= 4
		switch {
		case c-'0' <= 9:
			r |= rune(c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r |= rune(c|0x20-'a') + 10
		default:
			return 0, false
		}
	}
	return r, true
}

// appendText appends the text of a string.
func (j *jsonLine) appendText(dst []byte, t token) []byte {
	b := j.b[t.lo:t.hi]
	if !t.escaped {
		return append(dst, b...)
	}
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return append(dst, b...)
		}
		dst = append(dst, b[:i]...)
		n, r, err := unescape(b[i:])
		if err != nil {
			return dst // parse has refused it
		}
		dst = utf8.AppendRune(dst, r)
		b = b[i+n:]
	}
	return dst
}

// key is the text of a key, valid until the next one.
func (j *jsonLine) key(t token) []byte {
	if !t.escaped {
		return j.b[t.lo:t.hi]
	}
	j.scratch = j.appendText(j.scratch[:0], t)
	return j.scratch
}

// raw is what stands in the line for a scalar.
func (j *jsonLine) raw(t token) []byte { return j.b[t.lo:t.hi] }

// element appends a scalar to a vector's elements: of a list of text an offset too.
func (j *jsonLine) element(v *catalog.Vector, d catalog.DType, t token, fill any) (missing bool, err error) {
	if d == catalog.String {
		switch t.kind {
		case jString:
			v.Data = j.appendText(v.Data, t)
		case jNull:
			missing = true
			if s, ok := fill.(string); ok {
				v.Data = append(v.Data, s...)
			}
		default:
			return false, fmt.Errorf("%s among texts", t.kind)
		}
		v.StrOffsets = append(v.StrOffsets, int64(len(v.Data)))
		return missing, nil
	}
	if t.kind == jNull {
		v.Data, err = appendFill(v.Data, d, fill)
		return true, err
	}
	v.Data, err = j.appendScalar(v.Data, d, t)
	return false, err
}

// appendScalar appends a number or a bool.
func (j *jsonLine) appendScalar(dst []byte, d catalog.DType, t token) ([]byte, error) {
	switch {
	case d == catalog.Bool && t.kind == jTrue:
		return append(dst, 1), nil
	case d == catalog.Bool && t.kind == jFalse:
		return append(dst, 0), nil
	case d != catalog.Bool && t.kind == jNumber:
		return appendValue(dst, d, j.raw(t))
	}
	return dst, fmt.Errorf("%s where %s should stand", t.kind, d)
}

// list appends the elements of an array of one axis; offsets of the list are its caller's.
func (j *jsonLine) list(v *catalog.Vector, d catalog.DType, at int32, fill any) (n int, missing bool, err error) {
	end := j.tokens[at].next
	for i := at + 1; i < end; i = j.tokens[i].next {
		m, err := j.element(v, d, j.tokens[i], fill)
		if err != nil {
			return n, missing, fmt.Errorf("element %d: %w", n, err)
		}
		missing = missing || m
		n++
	}
	return n, missing, nil
}

// tensor appends the elements of nested arrays of a shape.
func (j *jsonLine) tensor(v *catalog.Vector, d catalog.DType, at int32, shape []int, fill any) (missing bool, err error) {
	t := j.tokens[at]
	if t.kind != jArray {
		return false, fmt.Errorf("%s where an array of %d should stand", t.kind, shape[0])
	}
	n := 0
	for i := at + 1; i < t.next; i = j.tokens[i].next {
		var m bool
		if len(shape) > 1 {
			m, err = j.tensor(v, d, i, shape[1:], fill)
		} else {
			m, err = j.element(v, d, j.tokens[i], fill)
		}
		if err != nil {
			return missing, err
		}
		missing = missing || m
		n++
	}
	if n != shape[0] {
		return missing, fmt.Errorf("an array of %d elements, where the shape says %d", n, shape[0])
	}
	return missing, nil
}
