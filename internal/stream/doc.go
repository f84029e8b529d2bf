// Package stream turns the rows of a release into bytes in memory: it plans which rows a batch holds, reads their
// columns straight into slots that the caller owns, and reads ahead in order as far as the caller gives slots.
//
// It promises: the rows of a batch depend on the order alone, never on threads, memory or timing; a slot is written by
// this package only between SlotPool.Acquire and the return of Next; memory beside the slots stays within
// SetOptions.Memory and what is in flight; an error names shard, column and row; after Close no goroutine is left.
package stream
