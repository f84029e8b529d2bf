// Package catalog holds what a dataset is: its columns, its releases, its shards and the documents that pin them.
//
// It promises to be pure: documents go from and to bytes in memory, never from or to a disk, so the same rules serve
// a publisher, a mirror and a loader. Everything it reads is bounded before it is allocated, and a document that does
// not obey the format (docs/format.md) is refused by name.
package catalog
