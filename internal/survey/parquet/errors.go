package parquet

import (
	"errors"
	"fmt"
)

var (
	// ErrFormat marks bytes that are not Parquet, or not as their own metadata says.
	ErrFormat = errors.New("parquet: damaged or not Parquet")
	// ErrUnsupported marks what is Parquet, but is not read.
	ErrUnsupported = errors.New("parquet: not read")
	// ErrValue marks a value that its column cannot hold.
	ErrValue = errors.New("parquet: value not usable")
	// ErrRequest marks a request that the table does not offer.
	ErrRequest = errors.New("parquet: no such rows or field")
)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

func badValue(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrValue, fmt.Sprintf(format, args...))
}

// guarded runs f; where a library gives up on foreign bytes by panicking, that becomes an error.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = damaged("the decoder gave up: %v", r)
		}
	}()
	return f()
}
