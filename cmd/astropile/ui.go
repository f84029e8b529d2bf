package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// printJSON prints one document for machines.
func (a *app) printJSON(v any) error {
	a.printed = true
	e := json.NewEncoder(a.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printReport prints a report of a command that may have failed: then error and exit code stand at its end.
func (a *app) printReport(ctx context.Context, report any, err error) error {
	if err == nil {
		return a.printJSON(report)
	}
	fields, e := json.Marshal(report)
	if e != nil {
		return e
	}
	last, e := json.Marshal(failure{err.Error(), exitCode(ctx, err)})
	if e != nil {
		return e
	}
	fields = append(bytes.TrimSuffix(fields, []byte("}")), ',')
	return a.printJSON(json.RawMessage(append(fields, last[1:]...)))
}

// progress shows a bar with rate and time left on a terminal, and nothing in a pipe. The function it returns may be
// called from any goroutine; a new phase starts a new bar.
func (a *app) progress() (report func(phase string, done, total int64), end func()) {
	if !a.tty || a.json {
		return func(string, int64, int64) {}, func() {}
	}
	var bar *progressbar.ProgressBar
	var phase string
	type step struct {
		phase       string
		done, total int64
	}
	steps := make(chan step, 64)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for s := range steps {
			if bar == nil || s.phase != phase {
				if bar != nil {
					_ = bar.Finish()
				}
				phase = s.phase
				bar = progressbar.NewOptions64(s.total, progressbar.OptionSetWriter(a.err), progressbar.OptionSetDescription(phase), progressbar.OptionShowBytes(true),
					progressbar.OptionUseIECUnits(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
					progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
			}
			if s.total > 0 {
				bar.ChangeMax64(s.total)
			}
			_ = bar.Set64(s.done)
		}
		if bar != nil {
			_ = bar.Finish()
		}
	}()
	report = func(phase string, done, total int64) {
		select {
		case steps <- step{phase, done, total}:
		default: // the terminal is slower than the work; the next step says more
		}
	}
	return report, func() { close(steps); <-finished }
}

// sizeFlag is a number of bytes on the command line: 1048576, 512MiB, 1.5 GB.
type sizeFlag int64

// String is empty for a size that was not given: help then shows no default of its own.
func (s *sizeFlag) String() string {
	if *s == 0 {
		return ""
	}
	return formatBytes(int64(*s))
}

func (s *sizeFlag) Type() string { return "size" }
func (s *sizeFlag) Set(text string) error {
	n, err := parseBytes(text)
	if err != nil {
		return err
	}
	*s = sizeFlag(n)
	return nil
}

var sizeUnits = []struct {
	name string
	size float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
}

func parseBytes(text string) (int64, error) {
	t, unit := strings.TrimSpace(text), 1.0
	for _, u := range sizeUnits {
		if strings.HasSuffix(t, u.name) {
			t, unit = strings.TrimSpace(strings.TrimSuffix(t, u.name)), u.size
			break
		}
	}
	x, err := strconv.ParseFloat(t, 64)
	if err != nil || x < 0 || !(x*unit < 1<<62) {
		return 0, fmt.Errorf("%q is not a size such as 512MiB or 1.5GB", text)
	}
	return int64(x * unit), nil
}

func formatBytes(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size {
			return strings.TrimSuffix(strconv.FormatFloat(float64(n)/float64(u.size), 'f', 1, 64), ".0") + " " + u.name
		}
	}
	return strconv.FormatInt(n, 10) + " B"
}

// countFlag is a number on the command line that may be left out and is never negative.
type countFlag struct{ n *int }

// String is empty for a number that was not given: help then shows no default of its own.
func (c countFlag) String() string {
	if c.n == nil || *c.n == 0 {
		return ""
	}
	return strconv.Itoa(*c.n)
}

func (c countFlag) Type() string { return "number" }
func (c countFlag) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1<<20 {
		return fmt.Errorf("%q is not a whole number from 0 (the default) to %d", text, 1<<20)
	}
	*c.n = n
	return nil
}

// expectFlag is a growth factor on the command line: 20x or 20.
type expectFlag int

// String is empty for a factor that was not given: help then shows no default of its own.
func (e *expectFlag) String() string {
	if *e == 0 {
		return ""
	}
	return strconv.Itoa(int(*e)) + "x"
}

func (e *expectFlag) Type() string { return "factor" }
func (e *expectFlag) Set(text string) error {
	n, err := strconv.Atoi(strings.TrimSuffix(text, "x"))
	if err != nil || n < 1 || n > 1<<20 {
		return fmt.Errorf("%q is not a factor such as 20x", text)
	}
	*e = expectFlag(n)
	return nil
}

// oneOf is a flag that takes one of a few words.
type oneOf struct {
	value string
	words []string
}

func (o *oneOf) String() string { return o.value }
func (o *oneOf) Type() string   { return strings.Join(o.words, "|") }
func (o *oneOf) Set(text string) error {
	for _, w := range o.words {
		if text == w {
			o.value = text
			return nil
		}
	}
	return fmt.Errorf("%q is none of %s", text, strings.Join(o.words, ", "))
}
