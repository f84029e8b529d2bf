package fits

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNotFITS says that the bytes do not begin as a FITS file does, gzipped or not.
	ErrNotFITS = errors.New("not a FITS file")
	// ErrCorrupt says that the bytes contradict the format: truncated, damaged or hostile.
	ErrCorrupt = errors.New("corrupt FITS")
	// ErrChecksum says that a CHECKSUM or DATASUM does not fit the bytes; it is also an ErrCorrupt.
	ErrChecksum = fmt.Errorf("%w: checksum", ErrCorrupt)
	// ErrUnsupported says that the file is (as far as was read) sound but uses a feature this package does not read.
	ErrUnsupported = errors.New("unsupported FITS feature")
	// ErrTooLarge says that something is larger than this package, or its caller, allows.
	ErrTooLarge = errors.New("FITS data too large")
)

// Error locates what went wrong; it wraps one of the sentinel errors above or an error of the underlying reader.
type Error struct {
	File   string // name given to Open or New
	HDU    int    // number of the HDU, 0 is the primary; -1 if none applies
	Name   string // its EXTNAME, if it has one
	Column string // column of a table or keyword of a header, if one applies
	Row    int64  // row of the table or tile of the image, counted from 0; -1 if none applies
	Byte   int64  // byte of the file (of a gzipped one: of what it holds); -1 if none applies
	Err    error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.HDU >= 0 {
		fmt.Fprintf(&b, ": HDU %d", e.HDU)
		if e.Name != "" {
			fmt.Fprintf(&b, " (%s)", e.Name)
		}
	}
	if e.Column != "" {
		fmt.Fprintf(&b, ": %s", e.Column)
	}
	if e.Row >= 0 {
		fmt.Fprintf(&b, ": row %d", e.Row)
	}
	if e.Byte >= 0 {
		fmt.Fprintf(&b, ": byte %d", e.Byte)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// place is where in an HDU an error belongs.
type place struct {
	column string
	row    int64
	at     int64 // byte of the file
}

// nowhere is the place of an error that concerns an HDU as a whole.
var nowhere = place{row: -1, at: -1}

// fail locates err, unless it is located already.
func (h *HDU) fail(p place, err error) error {
	var located *Error
	if err == nil || errors.As(err, &located) {
		return err
	}
	return &Error{File: h.f.name, HDU: h.index, Name: h.name, Column: p.column, Row: p.row, Byte: p.at, Err: err}
}

func (f *File) fail(at int64, err error) error {
	var located *Error
	if errors.As(err, &located) {
		return err
	}
	return &Error{File: f.name, HDU: -1, Row: -1, Byte: at, Err: err}
}

func corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

func unsupportedf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}
