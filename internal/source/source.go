package source

import (
	"context"
	"errors"
	"io"
)

// ErrPath marks a path that is not a clean relative path below the root.
var ErrPath = errors.New("source: path is not below the root")

// ErrTooLarge marks a file that is larger than the caller allows.
var ErrTooLarge = errors.New("source: file is larger than allowed")

// Source is somewhere files of a dataset can be read. A file that does not exist is fs.ErrNotExist.
type Source interface {
	// Open opens the file at a slash path relative to the root.
	Open(ctx context.Context, path string) (Handle, error)
	// ReadFile reads a whole file of at most limit bytes.
	ReadFile(ctx context.Context, path string, limit int64) ([]byte, error)
}

// Handle is an open file. ReadAt may be called from any goroutine until Close.
type Handle interface {
	io.ReaderAt
	Size() int64
	Close() error
}
