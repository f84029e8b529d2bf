package testkit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Module returns the folder of the project's go.mod, found by walking up from
// the working directory, which during a test is the package's folder.
func Module(tb testing.TB) string {
	tb.Helper()
	root, err := moduleRoot()
	if err != nil {
		tb.Fatal(err)
	}
	return root
}

// Binary returns the path of the astropile binary: the one ASTROPILE_BIN names
// (relative to the module when not absolute), otherwise one built from
// cmd/astropile, once a test process.
func Binary(tb testing.TB) string {
	tb.Helper()
	if given := os.Getenv("ASTROPILE_BIN"); given != "" {
		if !filepath.IsAbs(given) {
			given = filepath.Join(Module(tb), given)
		}
		info, err := os.Stat(given)
		if err != nil {
			tb.Fatalf("ASTROPILE_BIN: %v; run make build, or unset it", err)
		}
		if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			tb.Fatalf("ASTROPILE_BIN: %s is not a program", given)
		}
		return given
	}
	path, err := builtOnce()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Shared returns the folder of real survey files, and skips the test when there
// is none: ASTROPILE_SHARED, otherwise shared/data in the folder that holds the
// project.
func Shared(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("ASTROPILE_SHARED")
	if path == "" {
		path = filepath.Join(filepath.Dir(Module(tb)), "shared", "data")
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		tb.Skipf("no real survey files: %s is not a folder (ASTROPILE_SHARED names another)", path)
	}
	return path
}

// Python returns the interpreter that ASTROPILE_TEST_PYTHON names, and skips the
// test when it is unset. It has what requirements/test.txt pins.
func Python(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv("ASTROPILE_TEST_PYTHON")
	if path == "" {
		tb.Skip("ASTROPILE_TEST_PYTHON is unset: no Python to compare with (make test sets it)")
	}
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("ASTROPILE_TEST_PYTHON: %v", err)
	}
	return path
}

func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("testkit: %w", err)
	}
	for folder := start; ; folder = filepath.Dir(folder) {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("testkit: no go.mod in %s or above", start)
		}
	}
}

var builtOnce = sync.OnceValues(build)

// build names the binary by its content and renames it into place, since the
// test processes of several packages build at the same time, and a running
// program cannot be written over.
func build() (path string, err error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, ".cache", "testbin")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("testkit: %w", err)
	}
	staging, err := os.MkdirTemp(folder, "building-")
	if err != nil {
		return "", fmt.Errorf("testkit: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()

	fresh := filepath.Join(staging, "astropile")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", fresh, "./cmd/astropile")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("testkit: build cmd/astropile: %w\n%s", err, output)
	}
	content, err := os.ReadFile(fresh)
	if err != nil {
		return "", fmt.Errorf("testkit: %w", err)
	}
	sum := sha256.Sum256(content)
	path = filepath.Join(folder, "astropile-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.Rename(fresh, path); err != nil {
		return "", fmt.Errorf("testkit: %w", err)
	}
	return path, nil
}
