// Package query finds the rows of a release that a selection asks for: a predicate over scalar columns, a region of the
// sky, ids, a split, a sample, a limit. The result is a bitmap over the release's rows, which package order permutes and
// package stream reads.
//
// It promises: what is unknown or of the wrong type is refused before any row is read; a selection of the same release
// gives the same rows on every machine; splits and samples are functions of the id alone, so that an append moves no
// row; memory is the bitmap and what a few row groups take, not the table.
//
// # Predicates
//
// The syntax is that of expr-lang: comparisons, and, or, not, in, arithmetic, the functions of Functions. A column is
// its name, or $env["name"] where that is no word. The meaning is SQL's:
//
//   - A comparison with null is unknown, and so is one with NaN, which is what surveys write for a missing number. What is
//     unknown is not selected, nor is its negation: neither z < 1 nor not (z < 1) selects a row without z. The test
//     x == nil (isnull(x)) and isnan(x) are never unknown.
//   - A literal is rounded to the type of the float column it is compared with, as NumPy does: z < 0.1 means the
//     float32 nearest 0.1 where z is float32. Integer columns compare exactly with any number.
//   - Two columns compare exactly where both are integers, else as float64. Arithmetic is in float64.
//   - Text compares by bytes.
package query
