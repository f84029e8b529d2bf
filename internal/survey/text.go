package survey

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Text says how the bytes of a text become a value.
type Text string

// The ways of reading text.
const (
	// TextExact keeps every byte (the NUL padding of a fixed-length string is no part of it).
	TextExact Text = "exact"
	// TextPadded cuts NULs and spaces off the end, as writers of fixed-length strings pad with either.
	TextPadded Text = "padded"
	// TextID decodes an id that was written as the text of a byte string (b'  12'), and trims white space at both ends.
	TextID Text = "id"
	// TextLatin1 is TextPadded for bytes that are ISO 8859-1 and not UTF-8.
	TextLatin1 Text = "latin1"
)

// decode gives the text that b holds, and false where it is not UTF-8. The result may share b.
func (t Text) decode(b []byte) ([]byte, bool) {
	switch t {
	case TextPadded:
		b = bytes.TrimRight(b, "\x00 ")
	case TextID:
		b = idText(b)
	case TextLatin1:
		b = bytes.TrimRight(b, "\x00 ")
		var s strings.Builder
		for _, c := range b {
			s.WriteRune(rune(c))
		}
		return []byte(s.String()), true
	}
	return b, utf8.Valid(b)
}

const idSpace = " \t\r\n\v\f\x00"

// idText trims white space at both ends and undoes what Python's repr makes of a byte string; what only looks alike
// (no closing quote, an unknown escape) is kept.
func idText(b []byte) []byte {
	b = bytes.Trim(b, idSpace)
	if len(b) < 3 || b[0] != 'b' || b[1] != '\'' && b[1] != '"' || b[len(b)-1] != b[1] {
		return b
	}
	quote, in := b[1], b[2:len(b)-1]
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		c := in[i]
		if c == quote {
			return b
		}
		if c != '\\' {
			out = append(out, c)
			continue
		}
		if i++; i == len(in) {
			return b
		}
		switch in[i] {
		case '\\', '\'', '"':
			out = append(out, in[i])
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'x':
			hi, lo := -1, -1
			if i+2 < len(in) {
				hi, lo = hexDigit(in[i+1]), hexDigit(in[i+2])
			}
			if hi < 0 || lo < 0 {
				return b
			}
			out = append(out, byte(hi<<4|lo))
			i += 2
		default:
			return b
		}
	}
	return bytes.Trim(out, idSpace)
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
