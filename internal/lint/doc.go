// Package lint holds, as tests, the rules of the house that no compiler and no
// linter knows: which package may import which, what pure packages keep away
// from, and what no tracked file may contain.
//
// Nothing imports it. Every finding says what was found, where, and why it is
// not wanted; a rule that is to change is changed in rules.go, with its reason.
package lint
