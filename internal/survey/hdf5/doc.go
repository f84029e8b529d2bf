// Package hdf5 reads HDF5 files: groups, attributes and datasets, without writing and without cgo.
//
// It promises its callers (the survey readers) three things:
//
//   - What it returns is what the file says. Metadata checksums, chunk checksums and the checksum of every deflate
//     stream are verified. A feature that is not implemented is refused by name with [ErrUnsupported]; it is never
//     papered over with fill values.
//   - Foreign bytes do no harm. Every length is bounded by the file's size before memory is allocated for it. What a walk
//     over a tree, a heap, an index and its chunks visits may together take no more than the file does, for in a sound
//     file nothing overlaps: loops and fans end after work linear in the file. A damaged file gives an error that names
//     file, object and byte address (wrapping [ErrCorrupt]). A single metadata block is at most [MaxMetadata] bytes, and
//     a decoded chunk at most what one of its filters can expand the stored bytes to (several together: 64 MiB).
//   - Values arrive in little-endian order whatever the file's, elements packed as in the file's type.
//
// Supported: superblocks 0 to 3 (with a user block before them), object headers 1 and 2 with continuations, symbol-table
// and link-message groups (dense ones included), compact and dense attributes, committed types, soft links; compact,
// contiguous and chunked layouts with every chunk index (B-tree 1 and 2, single, implicit, fixed array, extensible
// array); the filters deflate, shuffle, fletcher32 and LZF, with per-chunk filter masks; integers and bit fields of 1 to 8
// bytes, IEEE floats of 2, 4 and 8 bytes, both byte orders; enumerations (booleans among them), compounds, arrays,
// complex numbers, opaque data, fixed and variable-length strings, variable-length sequences.
//
// Refused by name when read: external storage, virtual datasets, external and user-defined links, filtered fractal heaps,
// messages in the shared-message heap, references, times, floats that are not IEEE's, integers whose bits do not
// fill their bytes, and every other filter.
//
// Sources: the HDF5 File Format Specification 3.0 (The HDF Group), RFC 1950 and 1951 (zlib, deflate), and the format
// description of LZF in liblzf's documentation.
package hdf5
