// Package release turns records into releases of a dataset: it partitions, sorts, stages and seals them, and verifies and
// describes what is there.
//
// It promises that a release is one step: Import works in the root's .staging folder alone, Seal commits with a single
// rename, and whatever was interrupted is rolled back before that rename and forward after it by the next call; what an import read is
// kept, and not read again. What an
// earlier release published never changes by a bit. The same inputs, recipe and version give the same bytes however many
// workers there are. Nothing is sealed without licence and citation, and nothing is staged unless as many rows and unique
// ids come out as went in. The layout and the bytes are those of docs/format.md.
package release
