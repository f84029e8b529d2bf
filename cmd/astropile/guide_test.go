package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"astropile/internal/survey"
)

const guide = "../../docs/publish.md"

// block is a fenced block of a page.
type block struct {
	language, file string
	text           string
	line           int
}

// blocks cuts the fenced blocks out of a page.
func blocks(t *testing.T, page string) []block {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	inside := false
	for i, line := range strings.Split(string(b), "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && !inside:
			language, file, _ := strings.Cut(info, " ")
			out = append(out, block{language: language, file: file, line: i + 1})
			inside = true
		case fence:
			inside = false
		case inside:
			out[len(out)-1].text += line + "\n"
		}
	}
	return out
}

// Each block of the guide is a file to write, commands to run, or lines that the commands before it print.
func TestTheGuideForPublishersRunsAsItStands(t *testing.T) {
	all := blocks(t, guide)
	if len(all) < 10 {
		t.Fatalf("%d blocks", len(all))
	}
	var script strings.Builder
	for _, b := range all {
		switch {
		case b.file != "":
			fmt.Fprintf(&script, "write %s %x\n", b.file, b.text)
		case b.language == "sh":
			fmt.Fprintf(&script, "run %d %x\n", b.line, b.text)
		case b.language == "text":
			fmt.Fprintf(&script, "printed %d %x\n", b.line, b.text)
		default:
			t.Errorf("line %d: a block of %q is neither a file, sh nor text", b.line, b.language)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "guide.txt"), []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	output := ""
	testscript.Run(t, testscript.Params{Dir: dir, Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"write": func(ts *testscript.TestScript, _ bool, args []string) {
			path := ts.MkAbs(args[0])
			ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
			ts.Check(os.WriteFile(path, unhex(ts, args[1]), 0o600))
		},
		"run": func(ts *testscript.TestScript, _ bool, args []string) {
			cmd := exec.Command("sh", "-ec", string(unhex(ts, args[1])))
			cmd.Dir = ts.MkAbs(".")
			cmd.Env = append(os.Environ(), "PATH="+ts.Getenv("PATH"), "HOME="+ts.Getenv("HOME"))
			b, err := cmd.CombinedOutput()
			if err != nil {
				ts.Fatalf("the block in line %s: %v\n%s", args[0], err, b)
			}
			output = string(b)
		},
		"printed": func(ts *testscript.TestScript, _ bool, args []string) {
			for line := range strings.Lines(string(unhex(ts, args[1]))) {
				if want := strings.TrimSpace(line); !strings.Contains(output, want) {
					ts.Fatalf("the block in line %s: %q was not printed:\n%s", args[0], want, output)
				}
			}
		},
	}})
}

func unhex(ts *testscript.TestScript, text string) []byte {
	var b []byte
	_, err := fmt.Sscanf(text, "%x", &b)
	ts.Check(err)
	return b
}

func TestTheGuideExplainsEveryWarningAndEveryKeyOfARecipe(t *testing.T) {
	page, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../internal/survey/infer.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`\bWarn\w+\s+(?:Code)?\s*= "(\w+)"`).FindAllSubmatch(source, -1)
	if len(codes) < 14 {
		t.Fatalf("%d warnings were found", len(codes))
	}
	for _, c := range codes {
		if !strings.Contains(string(page), "\n| `"+string(c[1])+"` |") {
			t.Errorf("the warning %s is not explained", c[1])
		}
	}
	for _, text := range []string{"zz: 1", "columns: [{zz: 1}]"} {
		_, err := survey.LoadRecipe([]byte(text))
		if err == nil {
			t.Fatalf("%q is accepted", text)
		}
		_, list, ok := strings.Cut(strings.TrimSuffix(err.Error(), "]"), "known are [")
		if !ok {
			t.Fatalf("no keys in %v", err)
		}
		for _, key := range strings.Fields(list) {
			if key != "columns" && !regexp.MustCompile(`(?m)^\| [^|]*`+"`"+key+"`"+`[^|]*\|`).Match(page) {
				t.Errorf("the key %s of recipes is not explained", key)
			}
		}
	}
}

func TestTestsThatTheGuideNamesExist(t *testing.T) {
	page, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test[A-Z]\\w+|test_\\w+)`").FindAllSubmatch(page, -1)
	if len(named) < 30 {
		t.Fatalf("%d tests are named", len(named))
	}
	have := map[string]bool{}
	define := regexp.MustCompile(`(?m)^(?:func|def) ((?:Test|test_)\w+)\(`)
	for _, root := range []string{"..", "../../internal", "../../tests", "../../python"} {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".py") {
				return err
			}
			b, err := os.ReadFile(path)
			for _, m := range define.FindAllSubmatch(b, -1) {
				have[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range named {
		if !have[string(n[1])] {
			t.Errorf("there is no test %s", n[1])
		}
	}
}
