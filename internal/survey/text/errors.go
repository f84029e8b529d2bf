package text

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt marks a file that does not follow its format: ragged rows, open quotes, bad UTF-8, bad JSON.
	ErrCorrupt = errors.New("corrupt text table")
	// ErrUnsupported marks what stands in a file and is not read.
	ErrUnsupported = errors.New("unsupported in text tables")
	// ErrTooLarge marks a file that passes a bound of this package.
	ErrTooLarge = errors.New("text table too large")
	// ErrChanged marks a file that is not any more what it was when it was opened.
	ErrChanged = errors.New("text table changed while it was read")
)

// lineError places an error in a file.
func lineError(kind error, path string, line int64, format string, args ...any) error {
	return fmt.Errorf("%w: %s: line %d: %s", kind, path, line, fmt.Sprintf(format, args...))
}

// clip shortens foreign text for a message.
func clip(b []byte) string {
	const most = 32
	if len(b) > most {
		return fmt.Sprintf("%q...", b[:most])
	}
	return fmt.Sprintf("%q", b)
}
