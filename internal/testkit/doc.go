// Package testkit holds what tests of several packages share: the real binary,
// the real survey files, the Python environment of the tests, and a way to kill
// a process at a chosen moment.
//
// It is imported by tests only; a test in package lint holds that line. It
// imports no other package of the project, so that every package's own tests
// may use it.
//
// What it reads from the environment:
//
//	ASTROPILE_BIN          the binary to test; built from cmd/astropile when unset
//	ASTROPILE_SHARED       the folder of real survey files; ../shared/data beside the project when unset
//	ASTROPILE_TEST_PYTHON  the interpreter of the test environment; tests that need it skip when unset
package testkit
