package fits

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Header is the header of one HDU: its cards in order, duplicates kept.
type Header struct {
	cards []Card
	first map[string]int
}

// Cards lists all cards but END, in order. The caller does not change them.
func (h *Header) Cards() []Card { return h.cards }

// Get gives the first card of a keyword.
func (h *Header) Get(keyword string) (Card, bool) {
	if i, ok := h.first[keyword]; ok {
		return h.cards[i], true
	}
	return Card{}, false
}

// All gives every card of a keyword, in order.
func (h *Header) All(keyword string) []Card {
	var out []Card
	for _, c := range h.cards {
		if c.Keyword == keyword {
			out = append(out, c)
		}
	}
	return out
}

// Int gives the value of the first card of a keyword; found is false where there is none or its value is undefined. A value
// that is no integer is an error; a real number without a fraction is one.
func (h *Header) Int(keyword string) (value int64, found bool, err error) {
	c, ok := h.Get(keyword)
	switch {
	case !ok || c.Kind == Undefined:
		return 0, false, nil
	case c.Kind == Int:
		return c.Int, true, nil
	case c.Kind == Float && c.Float == float64(int64(c.Float)) && c.Float > -1<<62 && c.Float < 1<<62:
		return int64(c.Float), true, nil
	}
	return 0, false, corruptf("%s = %s, which has to be an integer", keyword, c.Text)
}

// Float gives the value of the first card of a keyword, as Int does; any real number will do.
func (h *Header) Float(keyword string) (value float64, found bool, err error) {
	c, ok := h.Get(keyword)
	switch {
	case !ok || c.Kind == Undefined:
		return 0, false, nil
	case c.Kind == Int || c.Kind == Float || c.Kind == BigInt:
		return c.Float, true, nil
	}
	return 0, false, corruptf("%s = %s, which has to be a number", keyword, c.Text)
}

// Text gives the string of the first card of a keyword, as Int does.
func (h *Header) Text(keyword string) (value string, found bool, err error) {
	c, ok := h.Get(keyword)
	switch {
	case !ok || c.Kind == Undefined:
		return "", false, nil
	case c.Kind == Text:
		return c.Text, true, nil
	}
	return "", false, corruptf("%s = %s, which has to be a string", keyword, c.Text)
}

// Bool gives the value of the first card of a keyword, as Int does.
func (h *Header) Bool(keyword string) (value, found bool, err error) {
	c, ok := h.Get(keyword)
	switch {
	case !ok || c.Kind == Undefined:
		return false, false, nil
	case c.Kind == Bool:
		return c.Bool, true, nil
	}
	return false, false, corruptf("%s = %s, which has to be T or F", keyword, c.Text)
}

// numbers are integers that structure rests on, looked up one after another; the first fault stays.
type numbers struct {
	h   *Header
	err error
}

// get gives an integer of at least least, or instead where the keyword is absent; with instead < least it has to be there.
func (n *numbers) get(keyword string, least, instead int64) int64 {
	if n.err != nil {
		return 0
	}
	v, found, err := n.h.Int(keyword)
	switch {
	case err != nil:
		n.err = err
	case !found && instead < least:
		n.err = corruptf("%s is missing", keyword)
	case !found:
		return instead
	case v < least:
		n.err = corruptf("%s = %d, at least %d is allowed", keyword, v, least)
	default:
		return v
	}
	return 0
}

var endRecord = []byte("END" + strings.Repeat(" ", cardSize-3))

// findEnd gives the place of the END record in whole blocks, or -1.
func findEnd(b []byte) int {
	for i := 0; i+cardSize <= len(b); i += cardSize {
		if b[i] == 'E' && bytes.Equal(b[i:i+cardSize], endRecord) {
			return i
		}
	}
	return -1
}

// parseHeader reads the records before END; at is the byte where the first one stands.
func parseHeader(b []byte, at int64) (*Header, int64, error) {
	h := &Header{first: make(map[string]int, len(b)/cardSize), cards: make([]Card, 0, len(b)/cardSize)}
	var long []Card // records that continue the last card's string
	for i := 0; i+cardSize <= len(b); i += cardSize {
		c, err := parseCard(b[i:i+cardSize], at+int64(i))
		if err != nil {
			return nil, at + int64(i), err
		}
		if n := len(h.cards); c.Keyword == "CONTINUE" && c.Kind == Text && n > 0 && (len(long) == 0 && h.cards[n-1].open || len(long) > 0 && long[len(long)-1].open) {
			long = append(long, c)
			continue
		}
		h.join(long)
		long = long[:0]
		if _, ok := h.first[c.Keyword]; !ok {
			h.first[c.Keyword] = len(h.cards)
		}
		h.cards = append(h.cards, c)
	}
	h.join(long)
	return h, 0, nil
}

// join adds CONTINUE records to the last card. Each string of a chain gives up the ampersand at its end, the last one too.
func (h *Header) join(long []Card) {
	if len(long) == 0 {
		return
	}
	last := &h.cards[len(h.cards)-1]
	var text, comment strings.Builder
	text.WriteString(strings.TrimSuffix(last.Text, "&"))
	comment.WriteString(last.Comment)
	for _, c := range long {
		text.WriteString(strings.TrimSuffix(c.Text, "&"))
		if c.Comment != "" {
			comment.WriteString(" " + c.Comment)
		}
	}
	last.Text, last.Comment = strings.TrimRight(text.String(), " "), strings.TrimSpace(comment.String())
}

// structural are keywords of which two with different values make a header mean two things.
var structural = []string{"SIMPLE", "XTENSION", "BITPIX", "NAXIS", "PCOUNT", "GCOUNT", "TFIELDS", "THEAP", "ZIMAGE", "ZBITPIX", "ZNAXIS", "ZCMPTYPE", "BSCALE", "BZERO"}

// contradiction says which structural keyword stands twice with different values.
func (h *Header) contradiction() error {
	for i, c := range h.cards {
		k, ok := h.first[c.Keyword]
		if !ok || k == i {
			continue
		}
		if slices.Contains(structural, c.Keyword) || strings.HasPrefix(c.Keyword, "NAXIS") || strings.HasPrefix(c.Keyword, "TFORM") {
			if a := h.cards[k]; a.Kind != c.Kind || a.Text != c.Text {
				return corruptf("%s stands twice, as %s and as %s", c.Keyword, a.Text, c.Text)
			}
		}
	}
	return nil
}

// key is a keyword with a number.
func key(name string, n int) string { return fmt.Sprintf("%s%d", name, n) }
