package text

import (
	"bytes"
	"context"
)

// cell is one field of a record.
type cell struct {
	b      []byte
	quoted bool
}

// records splits an input into records of fields.
type records struct {
	in      *input
	delim   byte
	cells   []cell
	scratch []byte // fields whose quotes were doubled
	line    int64  // of the record that was read last
}

// next reads a record; nil at the end. Fields are valid until the next call.
func (r *records) next(ctx context.Context) ([]cell, error) {
	in := r.in
	for {
		b := in.rest()
		n := bytes.IndexByte(b, '\n')
		if n < 0 && !in.eof {
			if err := in.more(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if n < 0 {
			if len(b) == 0 {
				return nil, nil
			}
			n = len(b)
		}
		r.line = in.line
		if n > MaxLine {
			return nil, lineError(ErrTooLarge, in.path, in.line, "a line of over %d MiB", MaxLine>>20)
		}
		line := trimCR(b[:n])
		if bytes.IndexByte(line, '"') >= 0 {
			return r.quoted(ctx)
		}
		if err := in.sane(b[:n]); err != nil {
			return nil, err
		}
		if i := bytes.IndexByte(line, '\r'); i >= 0 {
			return nil, in.byteError(line, i, "a carriage return that ends no line; lines end in LF or CRLF")
		}
		in.take(min(n+1, len(b)), 1)
		if len(line) == 0 {
			continue
		}
		r.cells = r.cells[:0]
		if r.delim == ' ' {
			return r.spaced(line)
		}
		for {
			i := bytes.IndexByte(line, r.delim)
			if i < 0 {
				break
			}
			r.cells = append(r.cells, cell{b: line[:i:i]})
			line = line[i+1:]
			if len(r.cells) > MaxColumns {
				return nil, r.tooMany()
			}
		}
		r.cells = append(r.cells, cell{b: line})
		return r.cells, nil
	}
}

func (r *records) tooMany() error {
	return lineError(ErrTooLarge, r.in.path, r.line, "over %d fields", MaxColumns)
}

// spaced splits a line without quotes at runs of spaces.
func (r *records) spaced(line []byte) ([]cell, error) {
	for i := 0; ; {
		for i < len(line) && line[i] == ' ' {
			i++
		}
		if i == len(line) {
			return r.cells, nil
		}
		from := i
		for i < len(line) && line[i] != ' ' {
			i++
		}
		r.cells = append(r.cells, cell{b: line[from:i:i]})
		if len(r.cells) > MaxColumns {
			return nil, r.tooMany()
		}
	}
}

// quoted reads a record in which a quote stands. What is in the buffer is parsed again when more of it had to be read, which is
// seldom: a buffer that did not do is doubled.
func (r *records) quoted(ctx context.Context) ([]cell, error) {
	for {
		b := r.in.rest()
		n, err := r.split(b, r.in.eof)
		if err != nil {
			return nil, err
		}
		if n < 0 {
			if err := r.in.more(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if n > MaxLine {
			return nil, lineError(ErrTooLarge, r.in.path, r.in.line, "a record of over %d MiB", MaxLine>>20)
		}
		if err := r.in.sane(b[:n]); err != nil {
			return nil, err
		}
		lines := int64(bytes.Count(b[:n], []byte{'\n'}))
		if n > 0 && b[n-1] != '\n' {
			lines++
		}
		r.in.take(n, lines)
		return r.cells, nil
	}
}

// split parses a record at the start of b and gives its length with its line end, or -1 where b does not hold all of it.
func (r *records) split(b []byte, eof bool) (int, error) {
	r.cells, r.scratch = r.cells[:0], r.scratch[:0]
	at := 0
	for {
		for r.delim == ' ' && at < len(b) && b[at] == ' ' {
			at++
		}
		if r.delim == ' ' {
			// Spaces at the end of a record begin no field.
			if end, ok := lineEnd(b[at:], eof); ok && len(r.cells) > 0 {
				return at + end, nil
			}
		}
		if len(r.cells) >= MaxColumns {
			return 0, r.tooMany()
		}
		if at < len(b) && b[at] == '"' {
			value, n, ok := r.unquote(b[at:], eof)
			if !ok {
				if eof {
					line := r.in.line + int64(bytes.Count(b[:at], []byte{'\n'}))
					return 0, lineError(ErrCorrupt, r.in.path, line, "field %d opens a quote that nothing closes", len(r.cells)+1)
				}
				return -1, nil
			}
			r.cells = append(r.cells, cell{b: value, quoted: true})
			at += n
			if end, ok := lineEnd(b[at:], eof); ok {
				return at + end, nil
			}
			if at == len(b) || b[at] == '\r' && at+1 == len(b) {
				return -1, nil
			}
			if b[at] != r.delim {
				return 0, r.in.byteError(b, at, "text after the quote that closes field %d; quotes inside a quoted field are doubled", len(r.cells))
			}
			at++
			continue
		}
		from := at
		for at < len(b) && b[at] != r.delim && b[at] != '\n' {
			at++
		}
		if at == len(b) && !eof {
			return -1, nil
		}
		value := b[from:at:at]
		ends := at == len(b) || b[at] == '\n'
		if ends {
			value = trimCR(value)
		}
		if i := bytes.IndexByte(value, '\r'); i >= 0 {
			return 0, r.in.byteError(b, from+i, "a carriage return that ends no line; lines end in LF or CRLF")
		}
		r.cells = append(r.cells, cell{b: value})
		if ends {
			return min(at+1, len(b)), nil
		}
		at++
	}
}

// lineEnd says how long the line end at the start of b is.
func lineEnd(b []byte, eof bool) (int, bool) {
	switch {
	case len(b) == 0:
		return 0, eof
	case b[0] == '\n':
		return 1, true
	case b[0] != '\r':
		return 0, false
	case len(b) == 1:
		return 1, eof
	}
	return 2, b[1] == '\n'
}

// unquote gives the text of the quoted field at the start of b and its length with both quotes.
func (r *records) unquote(b []byte, eof bool) (value []byte, n int, ok bool) {
	at := 1
	from := len(r.scratch)
	for {
		i := bytes.IndexByte(b[at:], '"')
		if i < 0 || at+i+1 == len(b) && !eof {
			return nil, 0, false
		}
		end := at + i
		if end+1 == len(b) || b[end+1] != '"' {
			if len(r.scratch) == from {
				return b[at:end:end], end + 1, true
			}
			r.scratch = append(r.scratch, b[at:end]...)
			return r.scratch[from:len(r.scratch):len(r.scratch)], end + 1, true
		}
		r.scratch = append(r.scratch, b[at:end+1]...)
		at = end + 2
	}
}
