package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"astropile/internal/release"
)

// Exit codes, as docs/cli.md lists them.
const (
	exitFailed      = 1   // anything else
	exitUsage       = 2   // flags or arguments are off
	exitRefused     = 3   // a gate refused: duplicates, positions, licence, a recipe that does not fit
	exitDamaged     = 4   // verify found damage, or an input is corrupt
	exitBusy        = 5   // another command works on the same root
	exitInterrupted = 130 // Ctrl-C or SIGTERM; run again to go on
)

// usageError marks what the caller got wrong on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// args checks the number of arguments and marks what is off as usage.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, a []string) error {
		if err := check(cmd, a); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// failure is what --json prints of a command that failed, and what a report of one carries besides.
type failure struct {
	Error string `json:"error"`
	Code  int    `json:"code"`
}

// failed says on standard error what went wrong, and with --json on standard output too, unless a report there said so.
func (a *app) failed(command string, err error, code int) {
	if code == exitInterrupted {
		err = errInterrupted
	}
	fmt.Fprintf(a.err, "%s: %v\n", command, err)
	if a.json && !a.printed {
		_ = a.printJSON(failure{err.Error(), code}) // the exit code says it in any case
	}
}

var errInterrupted = errors.New("interrupted; run it again to go on")

// unknownCommand says whether cobra did not know the verb, for which it has no type.
func unknownCommand(err error) bool { return strings.HasPrefix(err.Error(), "unknown command") }

// asksJSON looks for --json where the flags were not read.
func asksJSON(args []string) bool {
	asks := false
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if arg == "--json" {
			asks = true
		} else if value, ok := strings.CutPrefix(arg, "--json="); ok {
			asks, _ = strconv.ParseBool(value)
		}
	}
	return asks
}

func exitCode(ctx context.Context, err error) int {
	var usage usageError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &usage), unknownCommand(err):
		return exitUsage
	case errors.Is(err, release.ErrBusy):
		return exitBusy
	case errors.Is(err, release.ErrDamaged):
		return exitDamaged
	case errors.Is(err, release.ErrRefused):
		return exitRefused
	}
	return exitFailed
}
