// Package synth makes up records: a survey that exists nowhere, for benchmarks and tests.
//
// It promises the same bytes on every machine: every record is a function of (kind, seed, row) alone, all arithmetic is
// written so that no compiler may fuse a product into a sum, and elementary functions are those of package sky.
package synth
