// Package source is where the bytes of a dataset come from. A source knows paths relative to a dataset's root and
// nothing of what the bytes mean.
//
// It promises that a path never leaves the root, that a handle reads the file it was opened on for as long as it is
// held, and that the files open at once stay below the limit of the process however many handles there are.
package source
