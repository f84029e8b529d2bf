// Package order tells which row stands at a position of an epoch, and which positions a rank reads.
//
// The order is a function of the release's selected row counts per shard, three numbers (lanes, window, block), a seed and an
// epoch: nothing is shuffled in memory and nothing is remembered. Batch size, number of ranks, columns, source, memory and threads do not enter it.
// This is "order 1"; docs/format.md holds its definition and test vectors, and any change of what a position gives is another version.
//
//	layout, err := order.NewLayout(counts, order.Defaults(rows, storedBytes, false, 0))
//	cursor := layout.Epoch(0).Cursor()
//	rows := cursor.Batch(nil, position, 256)
//
// A Layout and an Epoch never change and may be used by any number of goroutines at once. A Cursor remembers the windows it
// has passed through and belongs to one goroutine.
//
// The package is pure: no files, no clock, no randomness but the seed.
package order
