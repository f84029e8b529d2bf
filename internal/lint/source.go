package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxLines is how long a file of code may be: one that is longer holds more
// than one thing.
const maxLines = 900

// Source checks one Go file that is no test and belongs to package internal/...:
// it does not read the environment, exit, or do work before main. name is used
// in findings. A file that does not parse is a finding.
func Source(name string, content []byte) []string {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	report := func(at token.Pos, text string) {
		found = append(found, fmt.Sprintf("%s:%d: %s", name, files.Position(at).Line, text))
	}
	known := map[string]string{} // the name a package has in this file → its path
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		as := path.Base(imported)
		if spec.Name != nil {
			as = spec.Name.Name
		}
		known[as] = imported
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			if node.Name.Name == "init" && node.Recv == nil {
				report(node.Pos(), "func init: nothing happens before main, and nothing registers itself; cmd joins the parts")
			}
		case *ast.SelectorExpr:
			left, ok := node.X.(*ast.Ident)
			if !ok {
				break
			}
			if reason := forbiddenCalls[known[left.Name]][node.Sel.Name]; reason != "" {
				report(node.Pos(), fmt.Sprintf("%s.%s: only cmd reads the environment or exits; %s", left.Name, node.Sel.Name, reason))
			}
		}
		return true
	})
	return found
}

// Doc checks the doc.go of the package called name.
func Doc(file, name string, content []byte) []string {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, content, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		return []string{err.Error()}
	}
	if parsed.Doc == nil || !strings.HasPrefix(parsed.Doc.Text(), "Package "+name+" ") {
		return []string{fmt.Sprintf("%s: the comment above the package clause begins with %q and says what the package promises, and to whom", file, "Package "+name)}
	}
	return nil
}

var code = []string{".go", ".py", ".sh", ".js", ".css", ".html"}

// These patterns are put together from pieces, or this file would be a finding.
var (
	machinePath = regexp.MustCompile(`(?:^|[^A-Za-z0-9_.)}\]/-])(/(?:` + `work|root|tmp/` + `ap|home/[a-z][a-z0-9_-]*)/)`)
	unfinished  = regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME|XX` + `X)\b`)
)

// Text checks one tracked file of any kind; a binary file passes. name is its
// path in the project, with slashes.
func Text(name string, content []byte) []string {
	if bytes.IndexByte(content[:min(len(content), 8192)], 0) >= 0 {
		return nil
	}
	var found []string
	lines := bytes.Split(content, []byte("\n"))
	if slices.Contains(code, path.Ext(name)) && len(lines)-1 > maxLines {
		found = append(found, fmt.Sprintf("%s: %d lines, more than %d: it holds more than one thing, so cut it in two", name, len(lines)-1, maxLines))
	}
	for i, line := range lines {
		if at := machinePath.FindSubmatch(line); at != nil {
			found = append(found, fmt.Sprintf("%s:%d: %q is a path of one machine: the project runs anywhere", name, i+1, at[1]))
		}
		if mark := unfinished.Find(line); mark != nil {
			found = append(found, fmt.Sprintf("%s:%d: %q: finish it, or open an issue and leave the code whole", name, i+1, mark))
		}
	}
	return found
}
