package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the project's folder, seen from this package's.
const root = "../.."

func TestImportsRunOneWay(t *testing.T) {
	report(t, Imports(list(t)))
}

func TestEveryPackageSaysWhatItPromisesInDocGo(t *testing.T) {
	for _, p := range list(t) {
		if _, inside := internalName(p.ImportPath); !inside || p.Name == "main" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
		if err != nil {
			t.Errorf("%s has no doc.go, which says what the package promises, and to whom: %v", p.ImportPath, err)
			continue
		}
		report(t, Doc(p.ImportPath+"/doc.go", p.Name, content))
	}
}

func TestOnlyCmdReadsTheEnvironmentOrExits(t *testing.T) {
	for _, p := range list(t) {
		name, inside := internalName(p.ImportPath)
		// Programs that tests run have a main of their own.
		if !inside || name == "testkit" || p.Name == "main" {
			continue
		}
		for _, file := range p.GoFiles {
			content, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			report(t, Source(p.ImportPath+"/"+file, content))
		}
	}
}

func TestTrackedFilesAreShortWholeAndBelongToNoMachine(t *testing.T) {
	if _, err := os.Stat(filepath.Join(root, ".git")); errors.Is(err, os.ErrNotExist) {
		t.Skip("not a git checkout: no way to tell which files are tracked")
	}
	// A checkout that another user owns is as good to read.
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z")
	cmd.Dir = root
	names, err := output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, name := range strings.FieldsFunc(string(names), func(r rune) bool { return r == 0 }) {
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		report(t, Text(name, content))
		checked++
	}
	if checked == 0 {
		t.Error("git names no tracked file: nothing was checked")
	}
}

func TestImportsCatchesWhatBreaksARule(t *testing.T) {
	const in = "astropile/internal/"
	tests := []struct {
		name string
		pkg  Package
		want string // a piece of the only finding; nothing when the import is allowed
	}{
		{"upwards", Package{ImportPath: in + "shard", Imports: []string{in + "stream"}}, "imports run one way"},
		{"sideways", Package{ImportPath: in + "cache", Imports: []string{in + "hub"}}, "imports run one way"},
		{"upwards from a subpackage", Package{ImportPath: in + "survey/hdf5", Imports: []string{in + "release"}}, "imports run one way"},
		{"upwards to a subpackage", Package{ImportPath: in + "shard", Imports: []string{in + "survey/hdf5"}}, "imports run one way"},
		{"downwards", Package{ImportPath: in + "feed", Imports: []string{in + "stream", in + "sky", "os"}}, ""},
		{"parent and child", Package{ImportPath: in + "survey", Imports: []string{in + "survey/hdf5", in + "shard"}}, ""},
		{"child and child", Package{ImportPath: in + "survey/mmu", Imports: []string{in + "survey/hdf5"}}, ""},
		{"unplaced", Package{ImportPath: in + "misc"}, "stands in no layer"},
		{"import of the unplaced", Package{ImportPath: in + "node", Imports: []string{in + "bench"}}, "below no layer"},
		{"cmd imported", Package{ImportPath: "astropile/cmd/other", Imports: []string{"astropile/cmd/astropile"}}, "nothing imports cmd"},
		{"cmd imported by a test", Package{ImportPath: in + "feed", XTestImports: []string{"astropile/cmd/astropile"}}, "runs the real binary"},
		{"cmd imports all", Package{ImportPath: "astropile/cmd/astropile", Imports: []string{in + "bench", in + "feed", in + "sky", "os"}}, ""},
		{"testkit outside tests", Package{ImportPath: "astropile/cmd/astropile", Imports: []string{in + "testkit"}}, "for tests only"},
		{"testkit in tests", Package{ImportPath: in + "sky", TestImports: []string{in + "testkit"}, XTestImports: []string{in + "testkit"}}, ""},
		{"testkit importing", Package{ImportPath: in + "testkit", Imports: []string{in + "sky"}}, "no other package"},
		{"lint imported", Package{ImportPath: in + "node", Imports: []string{in + "lint"}}, "nothing imports lint"},
		{"bench of a node", Package{ImportPath: in + "bench", Imports: []string{in + "node"}}, "over HTTP"},
		{"bench of layers", Package{ImportPath: in + "bench", Imports: []string{in + "shard", in + "source", in + "stream", in + "site", in + "order"}}, ""},
		{"pure with files", Package{ImportPath: in + "sky", Imports: []string{"os"}}, "sky is pure"},
		{"pure with a package below net", Package{ImportPath: in + "plan", Imports: []string{"net/http"}}, "plan is pure"},
		{"pure with filepath", Package{ImportPath: in + "catalog", Imports: []string{"path/filepath"}}, "use path"},
		{"pure with the system", Package{ImportPath: in + "order", Imports: []string{"golang.org/x/sys/unix"}}, "order is pure"},
		{"pure with arrow", Package{ImportPath: in + "catalog", Imports: []string{"github.com/apache/arrow-go/v18/arrow", "path", "sort"}}, ""},
		{"not pure with files", Package{ImportPath: in + "shard", Imports: []string{"os", "golang.org/x/sys/unix"}}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, Imports([]Package{test.pkg}), test.want)
		})
	}
}

func TestSourceCatchesWhatBreaksARule(t *testing.T) {
	tests := []struct{ name, source, want string }{
		{"environment", "package a\nimport \"os\"\nvar home = os.Getenv(\"HOME\")\n", "a.go:3: os.Getenv"},
		{"renamed import", "package a\nimport sys \"os\"\nfunc f() { sys.Exit(1) }\n", "a.go:3: sys.Exit"},
		{"as a value", "package a\nimport \"os\"\nvar f = os.LookupEnv\n", "os.LookupEnv"},
		{"fatal log", "package a\nimport \"log\"\nfunc f() { log.Fatalf(\"x\") }\n", "log.Fatalf"},
		{"init", "package a\nfunc init() {}\n", "func init"},
		{"a method called init", "package a\ntype T struct{}\nfunc (T) init() {}\n", ""},
		{"another Exit", "package a\ntype T struct{}\nfunc (T) Exit(int) {}\nfunc f(os T) { os.Exit(1) }\n", ""},
		{"files", "package a\nimport \"os\"\nvar f = os.Open\n", ""},
		{"torn", "package a\nfunc {", "expected"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, Source("a.go", []byte(test.source)), test.want)
		})
	}
}

func TestDocCatchesAMissingPromise(t *testing.T) {
	tests := []struct{ name, source, want string }{
		{"none", "package a\n", "begins with"},
		{"of another package", "// Package b counts.\npackage a\n", "begins with"},
		{"apart from the clause", "// Package a counts.\n\npackage a\n", "begins with"},
		{"given", "// Package a counts.\npackage a\n", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, Doc("doc.go", "a", []byte(test.source)), test.want)
		})
	}
}

func TestTextCatchesWhatBreaksARule(t *testing.T) {
	work, todo := "/wo"+"rk/", "TO"+"DO"
	tests := []struct{ name, file, content, want string }{
		{"machine path", "a.md", "see\n`" + work + "main`\n", "a.md:2"},
		{"machine path at the start", "a", "/ro" + "ot/x", "a:1"},
		{"home folder", "a.py", "p = \"/ho" + "me/ada/x\"", "path of one machine"},
		{"part of another path", "a.md", "docs" + work + "x and $HOME" + work + "x", ""},
		{"unfinished", "a.go", "x // " + todo + ": more", "finish it"},
		{"part of another word", "a.go", "mktemp a.XX" + "XXXX", ""},
		{"long code", "a.go", strings.Repeat("x\n", maxLines+1), "more than one thing"},
		{"code of the greatest length", "a.go", strings.Repeat("x\n", maxLines), ""},
		{"long text", "a.md", strings.Repeat("x\n", maxLines+1), ""},
		{"binary", "a.h5", "\x00" + work, ""},
		{"empty", "a", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, Text(test.file, []byte(test.content)), test.want)
		})
	}
}

func list(t *testing.T) []Package {
	t.Helper()
	// With -e, a package that does not compile is checked too; the build tells of it.
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Dir,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	listed, err := output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var packages []Package
	decoder := json.NewDecoder(bytes.NewReader(listed))
	for {
		var p Package
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	own := func(p Package) bool { return p.ImportPath == Module+"/internal/lint" }
	if !slices.ContainsFunc(packages, own) {
		t.Fatalf("go list names %d packages and not this one: nothing would be checked", len(packages))
	}
	return packages
}

// output runs a command, with what it said on stderr in the error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(err, errors.New(stderr.String()))
	}
	return out, err
}

func report(t *testing.T, found []string) {
	t.Helper()
	for _, finding := range found {
		t.Error(finding)
	}
}

func expect(t *testing.T, found []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(found) > 0:
		t.Errorf("found %q where nothing is wrong", found)
	case want != "" && (len(found) != 1 || !strings.Contains(found[0], want)):
		t.Errorf("found %q, want one finding with %q", found, want)
	}
}
