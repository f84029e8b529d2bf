// Package shard writes and reads shards: immutable Parquet files whose tensor columns stream at the speed of the disk,
// open in every Parquet tool and map into memory (docs/format.md, "Shard").
//
// To a publisher it promises that the same rows give the same bytes, whatever the batch sizes and the number of
// processors, and that everything a release needs to know of a shard (digests, piece hashes, statistics) is known when
// the last byte is written, without reading it again. To a reader it promises that every length that comes out of a
// file is bounded before memory is taken for it, and that bytes which do not obey Parquet or the format give an error
// that wraps ErrFormat, never a panic and never a wrong value.
package shard

import "errors"

// ErrFormat marks bytes that do not obey Parquet or the format of a shard.
var ErrFormat = errors.New("shard: bytes do not obey the format")
