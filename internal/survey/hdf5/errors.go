package hdf5

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNotHDF5 says that no HDF5 signature was found where one may stand.
	ErrNotHDF5 = errors.New("not an HDF5 file")
	// ErrCorrupt says that the bytes contradict the format: truncated, damaged or hostile.
	ErrCorrupt = errors.New("corrupt HDF5")
	// ErrUnsupported says that the file is (as far as was read) sound but uses a feature this package does not read.
	ErrUnsupported = errors.New("unsupported HDF5 feature")
	// ErrNotFound says that a name or the target of a soft link is not there.
	ErrNotFound = errors.New("no such HDF5 object")
	// ErrLimit says that contents of variable length are together larger than their reader was told to read.
	ErrLimit = errors.New("variable-length contents over the limit")
)

// noAddress marks an [Error] that belongs to no byte of the file, and in the file an address that is undefined.
const noAddress = ^uint64(0)

// Error locates what went wrong; it wraps one of the sentinel errors above or an error of the underlying reader.
type Error struct {
	File   string // name given to Open or New
	Object string // path of the object being read, "" if none yet
	Addr   uint64 // byte address in the file, user block included; all ones if none applies
	Err    error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Object != "" {
		fmt.Fprintf(&b, ": object %q", e.Object)
	}
	if e.Addr != noAddress {
		fmt.Fprintf(&b, ": byte %d", e.Addr)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// fail locates err at addr, an address relative to the file's base.
func (f *File) fail(addr uint64, err error) error {
	var located *Error
	if errors.As(err, &located) {
		return err
	}
	if addr != noAddress {
		addr += f.base
	}
	return &Error{File: f.name, Addr: addr, Err: err}
}

func (f *File) corrupt(addr uint64, format string, args ...any) error {
	return f.fail(addr, fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...)))
}

func (f *File) unsupported(addr uint64, format string, args ...any) error {
	return f.fail(addr, unsupportedf(format, args...))
}

func unsupportedf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// in adds the object's path to an error that names none yet.
func (o *Object) in(err error) error {
	if err == nil {
		return nil
	}
	var located *Error
	if !errors.As(err, &located) {
		return &Error{File: o.f.name, Object: o.path, Addr: noAddress, Err: err}
	}
	if located.Object != "" {
		return err
	}
	return &Error{File: located.File, Object: o.path, Addr: located.Addr, Err: located.Err}
}
