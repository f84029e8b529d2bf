// Package bench measures the layers that move bytes: raw reads as controls, and the project's own reader and stream
// beside them, on the same shards.
//
// It promises: a control reads the very bytes its cell reads, with as many threads, into page-aligned buffers that are
// reused; what a process does once (opening, page tables, the first touch of buffers) is outside the time, what it does
// in every epoch is inside; with Options.Check a cell gives a digest of all values instead of a rate, so that a fast
// cell that reads the wrong thing is found out. Repeats, pairing and statistics belong to whoever starts the cells.
package bench
