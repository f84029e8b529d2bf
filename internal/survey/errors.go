package survey

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrInput marks a source that cannot be read as survey files: nothing there, a wrong kind of file, a link that leads nowhere.
	ErrInput = errors.New("survey: input not usable")
	// ErrRecipe marks a recipe that is malformed or contradicts itself.
	ErrRecipe = errors.New("survey: recipe not usable")
	// ErrMapping marks inputs whose mapping to columns cannot be inferred, or does not fit the recipe.
	ErrMapping = errors.New("survey: columns do not fit")
	// ErrValue marks a value that a column cannot hold: not exact in its type, not UTF-8, lengths that disagree.
	ErrValue = errors.New("survey: value not usable")
	// ErrPosition marks rows whose position is missing, not a number, or off the sky.
	ErrPosition = errors.New("survey: position not usable")
)

// RowsError names the rows of a file that cannot be imported as they are. It wraps ErrPosition or ErrValue.
type RowsError struct {
	File   string  // path of the input
	Reason string  // what is wrong with the rows
	Rows   []int64 // all such rows of the range read, rising, from 0 at the file's start
	Err    error
}

// namedRows is the number of rows that a message spells out.
const namedRows = 10

func (e *RowsError) Error() string {
	shown := e.Rows
	if len(shown) > namedRows {
		shown = shown[:namedRows]
	}
	text := strings.Trim(fmt.Sprint(shown), "[]")
	if len(shown) < len(e.Rows) {
		text += fmt.Sprintf(" and %d more", len(e.Rows)-len(shown))
	}
	return fmt.Sprintf("%v: %s: %s: rows %s", e.Err, e.File, e.Reason, text)
}

func (e *RowsError) Unwrap() error { return e.Err }
