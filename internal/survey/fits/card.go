package fits

import (
	"math"
	"strconv"
	"strings"
)

const (
	blockSize   = 2880 // headers and data fill whole blocks (FITS 4.0, section 3.1)
	cardSize    = 80
	keywordSize = 8
	valueStart  = 10 // column after the value indicator "= "
)

// ValueKind says what the value of a card is.
type ValueKind uint8

// The kinds of a card's value.
const (
	NoValue   ValueKind = iota // commentary: COMMENT, HISTORY, a blank keyword, or no value indicator; Text holds columns 9 to 80
	Undefined                  // a value indicator without a value
	Text                       // a character string; Text holds it without the blanks at its end
	Bool                       // T or F
	Int                        // an integer that 64 bits hold
	BigInt                     // an integer that they do not hold; Float is the nearest float64
	Float                      // a real number
	Complex                    // a pair; Float and Imag hold it
	Invalid                    // something that is no value of FITS; Text holds it
)

// Card is one keyword record of a header (FITS 4.0, section 4), or a string with the CONTINUE records that belong to it.
type Card struct {
	Keyword string // as it stands; of HIERARCH the words before the equals sign, without HIERARCH
	Kind    ValueKind
	Bool    bool
	Int     int64
	Float   float64 // of Int as well
	Imag    float64
	Text    string // of a string its content, of a number the letters that stand there
	Comment string
	at      int64 // byte of the record in the file
	open    bool  // a string that ends in an ampersand: a CONTINUE may follow
}

// parseCard reads a record of 80 bytes. What is not printable ASCII is allowed in commentary alone, where it becomes "?".
func parseCard(b []byte, at int64) (Card, error) {
	c := Card{at: at}
	c.Keyword = strings.TrimRight(string(b[:keywordSize]), " ")
	rest, value := "", false
	switch {
	case string(b[keywordSize:valueStart]) == "= ":
		rest, value = string(b[valueStart:]), c.Keyword != "COMMENT" && c.Keyword != "HISTORY" && c.Keyword != ""
	case c.Keyword == "HIERARCH":
		// The convention: blanks part the words of the keyword, which ends at the equals sign.
		if words, after, ok := strings.Cut(string(b[keywordSize:]), "="); ok {
			c.Keyword = strings.Join(strings.Fields(words), " ")
			rest, value = after, c.Keyword != ""
		}
	case c.Keyword == "CONTINUE":
		if r := string(b[keywordSize:]); strings.HasPrefix(strings.TrimLeft(r, " "), "'") {
			rest, value = r, true
		}
	}
	if i := unprintable(string(b[:keywordSize])); i >= 0 {
		return c, corruptf("byte %#02x in a keyword", b[i])
	}
	if !value {
		c.Text = strings.TrimRight(printable(string(b[keywordSize:])), " ")
		return c, nil
	}
	return c, c.parseValue(rest)
}

func unprintable(s string) int {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return i
		}
	}
	return -1
}

func printable(s string) string {
	if unprintable(s) < 0 {
		return s
	}
	b := []byte(s)
	for i, x := range b {
		if x < 0x20 || x > 0x7e {
			b[i] = '?'
		}
	}
	return string(b)
}

// parseValue reads what stands after the value indicator: a value, and a comment after a slash.
func (c *Card) parseValue(s string) error {
	s = strings.TrimLeft(s, " ")
	if strings.HasPrefix(s, "'") {
		var text strings.Builder
		i := 1
		for ; i < len(s); i++ {
			if s[i] == '\'' {
				if i+1 == len(s) || s[i+1] != '\'' {
					break
				}
				i++
			}
			text.WriteByte(s[i])
		}
		if i >= len(s) {
			return corruptf("the string of %s has no closing quote", c.Keyword)
		}
		c.Kind, c.Text = Text, strings.TrimRight(text.String(), " ")
		c.open = strings.HasSuffix(c.Text, "&")
		if k := unprintable(c.Text); k >= 0 {
			return corruptf("byte %#02x in the string of %s", c.Text[k], c.Keyword)
		}
		_, c.Comment, _ = strings.Cut(s[i+1:], "/")
		c.Comment = strings.TrimSpace(printable(c.Comment))
		return nil
	}
	v, comment, _ := strings.Cut(s, "/")
	v = strings.TrimSpace(v)
	c.Comment = strings.TrimSpace(printable(comment))
	c.Text = v
	if k := unprintable(v); k >= 0 {
		return corruptf("byte %#02x in the value of %s", v[k], c.Keyword)
	}
	switch {
	case v == "":
		c.Kind = Undefined
	case v == "T" || v == "F":
		c.Kind, c.Bool = Bool, v == "T"
	case strings.HasPrefix(v, "(") && strings.HasSuffix(v, ")"):
		re, im, ok := strings.Cut(v[1:len(v)-1], ",")
		var ok1, ok2 bool
		c.Float, ok1 = parseReal(strings.TrimSpace(re))
		c.Imag, ok2 = parseReal(strings.TrimSpace(im))
		c.Kind = Invalid
		if ok && ok1 && ok2 {
			c.Kind = Complex
		}
	case isInteger(v):
		c.Float, _ = strconv.ParseFloat(v, 64)
		n, err := strconv.ParseInt(v, 10, 64)
		c.Kind, c.Int = Int, n
		if err != nil {
			c.Kind, c.Int = BigInt, 0
		}
	default:
		var ok bool
		c.Kind = Invalid
		if c.Float, ok = parseReal(v); ok {
			c.Kind = Float
		}
	}
	return nil
}

func isInteger(s string) bool {
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// parseReal reads a decimal number as FITS writes it, its exponent after E or D. Words, hexadecimals and underscores that
// strconv allows are refused.
func parseReal(s string) (float64, bool) {
	digits := false
	clean := true
	for i := range len(s) {
		switch x := s[i]; {
		case x >= '0' && x <= '9':
			digits = true
		case x == '+', x == '-', x == '.', x == 'E', x == 'e':
		case x == 'D', x == 'd':
			clean = false
		default:
			return 0, false
		}
	}
	if !digits {
		return 0, false
	}
	if !clean {
		s = strings.Map(func(r rune) rune {
			if r == 'D' || r == 'd' {
				return 'E'
			}
			return r
		}, s)
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(v, 0) && v != 0 {
		return 0, false
	}
	if math.IsInf(v, 0) || err != nil && v == 0 && !underflow(err) {
		return 0, false
	}
	return v, true
}

func underflow(err error) bool {
	ne, ok := err.(*strconv.NumError)
	return ok && ne.Err == strconv.ErrRange
}
