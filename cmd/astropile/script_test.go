package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"astropile": main})
}

// Each script is a promise of the command line. Run with -update to write their golden parts anew.
func TestScripts(t *testing.T) {
	surveys, err := filepath.Abs("../../internal/survey/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("ASTROPILE_UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("SURVEYS", surveys)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exit":     cmdExit,
			"json":     cmdJSON,
			"has":      cmdHas,
			"lacks":    cmdLacks,
			"flip":     cmdFlip,
			"truncate": cmdTruncate,
		},
	})
}

// cmdExit runs a command and wants an exit code: exit CODE COMMAND ARGS...
func cmdExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		var code interface{ ExitCode() int }
		e, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = e
		got = code.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// cmdJSON is exit for a command that prints one JSON document: json CODE COMMAND ARGS...
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	cmdExit(ts, neg, args)
	document(ts)
}

// document is the one JSON document that the last command printed.
func document(ts *testscript.TestScript) any {
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	var v any
	ts.Check(d.Decode(&v))
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		ts.Fatalf("more than one document: %s", ts.ReadFile("stdout"))
	}
	return v
}

// cmdHas wants fields in what json printed: has FIELD...
func cmdHas(ts *testscript.TestScript, neg bool, fields []string) {
	got, _ := document(ts).(map[string]any)
	for _, f := range fields {
		if _, ok := got[f]; ok == neg {
			ts.Fatalf("the field %q: %t", f, ok)
		}
	}
}

// cmdLacks wants fields not to be in what json printed: lacks FIELD...
func cmdLacks(ts *testscript.TestScript, neg bool, fields []string) { cmdHas(ts, !neg, fields) }

// cmdFlip flips the lowest bit of the byte at an offset, from the end where it is negative: flip PATTERN OFFSET
func cmdFlip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip PATTERN OFFSET")
	}
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("no file is named %s", args[0])
	}
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	b, err := os.ReadFile(files[0])
	ts.Check(err)
	if at < 0 {
		at += len(b)
	}
	b = bytes.Clone(b)
	b[at] ^= 1
	ts.Check(os.WriteFile(files[0], b, 0o644))
	fmt.Fprintf(ts.Stdout(), "flipped %s\n", filepath.Base(files[0]))
}

// cmdTruncate cuts a file: truncate FILE BYTES
func cmdTruncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: truncate FILE BYTES")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}
