package lint

import (
	"fmt"
	"slices"
	"strings"
)

// Package is what `go list -json` says of one package, as far as rules need it.
type Package struct {
	ImportPath   string
	Name         string
	Dir          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// Imports checks the direction of every import of the project's packages and
// returns what breaks a rule, one line each, in order.
func Imports(packages []Package) []string {
	var found []string
	for _, p := range packages {
		for _, imported := range p.Imports {
			if reason := refuse(p.ImportPath, imported); reason != "" {
				found = append(found, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imported, reason))
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if within(imported, Module+"/cmd") {
				found = append(found, fmt.Sprintf("a test of %s imports %s: a test runs the real binary, which testkit.Binary gives", p.ImportPath, imported))
			}
		}
		if name, ok := internalName(p.ImportPath); ok && !placed(name) {
			found = append(found, fmt.Sprintf("%s stands in no layer: give it one in internal/lint/rules.go, as low as its imports allow, so that others know whether they may import it", p.ImportPath))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// refuse returns why importer may not import imported, or nothing.
func refuse(importer, imported string) string {
	if within(imported, Module+"/cmd") {
		return "nothing imports cmd, which reads the environment and exits"
	}
	from, inside := internalName(importer)
	if inside && pure[from] {
		if reason := taints(imported); reason != "" {
			return fmt.Sprintf("%s is pure: %s", from, reason)
		}
	}
	to, ours := internalName(imported)
	if !ours || (inside && from == to) {
		return ""
	}
	switch to {
	case "testkit":
		return "testkit is for tests only, so that no test helper reaches users"
	case "lint":
		return "nothing imports lint, which holds only rules"
	}
	if !inside {
		return ""
	}
	below, known := layerOf(to)
	if rule, ok := exceptions[from]; ok {
		if slices.Contains(rule.imports, to) || (len(rule.imports) > 0 && known && below == 0) {
			return ""
		}
		return fmt.Sprintf("%s may import %s: %s", from, describe(rule.imports), rule.reason)
	}
	own, placed := layerOf(from)
	if !placed {
		return ""
	}
	if !known {
		return fmt.Sprintf("%s is below no layer, and imports run one way", to)
	}
	if below >= own {
		return fmt.Sprintf("imports run one way, from lower layers only, and %s (layer %d: %s) is not below %s (layer %d: %s); take what is needed as an interface or a value, which cmd hands in",
			to, below, layers[below].holds, from, own, layers[own].holds)
	}
	return ""
}

// taints returns why a pure package may not import a package from elsewhere.
func taints(imported string) string {
	for name, reason := range impure {
		if within(imported, name) {
			return reason
		}
	}
	first, _, _ := strings.Cut(imported, "/")
	if within(imported, Module) || !strings.Contains(first, ".") {
		return ""
	}
	for _, allowed := range pureModules {
		if within(imported, allowed) {
			return ""
		}
	}
	return "of modules from elsewhere it imports only those listed as computing in memory"
}

func layerOf(name string) (int, bool) {
	for i, layer := range layers {
		if slices.Contains(layer.packages, name) {
			return i, true
		}
	}
	return 0, false
}

func placed(name string) bool {
	_, layered := layerOf(name)
	_, excepted := exceptions[name]
	return layered || excepted
}

// internalName returns the package under internal that an import path belongs
// to: "survey" for astropile/internal/survey/hdf5.
func internalName(importPath string) (string, bool) {
	rest, ok := strings.CutPrefix(importPath, Module+"/internal/")
	if !ok {
		return "", false
	}
	name, _, _ := strings.Cut(rest, "/")
	return name, true
}

// within reports whether an import path is parent or stands below it.
func within(importPath, parent string) bool {
	return importPath == parent || strings.HasPrefix(importPath, parent+"/")
}

func describe(names []string) string {
	if len(names) == 0 {
		return "no other package of the project"
	}
	return "the lowest layer, " + strings.Join(names, ", ") + " alone"
}
