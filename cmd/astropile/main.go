// Command astropile turns survey files into verified, append-only releases and streams them into training.
//
// One file a verb: flags go into an options struct, one call into a library does the work. Exit codes stand in exit.go.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// version is set by the build.
var version = "unknown"

// app is what verbs may use of the world outside.
type app struct {
	in       io.Reader
	out, err io.Writer
	tty      bool // err is a terminal
	now      func() time.Time
	json     bool
	unread   bool // a flag was wrong, and those after it were not read
	printed  bool // a JSON document, the only one there may be
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "astropile",
		Short: "Host once, stream anywhere: survey files in, verified releases out, batches into training",
		Example: `  astropile inspect SURVEY/                                   what import would make of the files
  astropile import SURVEY/ --into releases/legacysurvey       HDF5 in, shards staged
  astropile release releases/legacysurvey -m "DR10" --licence CC-BY-4.0 --citation cite.txt
  astropile verify releases/legacysurvey --deep
  astropile stream releases/legacysurvey --shuffle            samples/s beside what the disk can give`,
		Version:           version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		a.unread = true
		return usageError{err}
	})
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON document instead of text")
	root.AddCommand(newInspectCommand(a), newImportCommand(a), newReleaseCommand(a), newVerifyCommand(a), newInfoCommand(a), newLsCommand(a), newSelectCommand(a),
		newSynthCommand(a), newStreamCommand(a), newHealpixCommand(a), newFeedCommand(), newBenchCellCommand())
	return root
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, tty: isTerminal(os.Stderr), now: time.Now}
	cmd, err := newRootCommand(a).ExecuteContextC(ctx)
	code := exitCode(ctx, err)
	stop()
	if err != nil {
		if a.unread || unknownCommand(err) {
			a.json = asksJSON(os.Args[1:])
		}
		a.failed(cmd.CommandPath(), err, code)
		os.Exit(code)
	}
}
