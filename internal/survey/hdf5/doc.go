// Package hdf5 reads HDF5 files: groups, attributes and datasets, without writing and without cgo.
//
// It promises its callers (the survey readers) three things:
//
//   - What it returns is what the file says. Metadata checksums, chunk checksums and the checksum of every deflate, bzip2
//     and (where there is one) Zstandard stream are verified. A feature that is not implemented is refused by name with
//     [ErrUnsupported]; it is never papered over with fill values. What has no checksum (plain data, and chunks whose
//     filters have none) reads as it stands.
//   - Foreign bytes do no harm. Every length is bounded by the file's size before memory is allocated for it. What a walk
//     over a tree, a heap, an index and its chunks visits may together take no more than the file does, for in a sound
//     file nothing overlaps: loops and fans end after work linear in the file. A damaged file gives an error that names
//     file, object and byte address (wrapping [ErrCorrupt]). A single metadata block is at most [MaxMetadata] bytes, and
//     a decoded chunk at most what one of its filters can expand the stored bytes to. Where a few bytes can stand for any
//     number (scale-offset, n-bit, bzip2), and where several filters expand, that is 64 MiB, or 1032 times the stored
//     bytes if that is more; a filtered heap decodes to at most 64 MiB. Codecs take, beside the chunk, tables of their
//     own: bzip2 4 bytes for each byte of a block (at most 900 kB, or 5/4 of the chunk), Zstandard about 1 MiB.
//   - Values arrive in little-endian order whatever the file's, elements packed as in the file's type, integers whose
//     bits do not fill their bytes widened to do so.
//
// Supported: superblocks 0 to 3 (with a user block before them), object headers 1 and 2 with continuations, symbol-table
// and link-message groups (dense ones included), compact and dense attributes, committed types, messages in heaps of
// shared messages, filtered fractal heaps, soft links (at most 32 one behind the other: circles end); compact, contiguous
// and chunked layouts with every chunk index (B-tree 1 and 2, single, implicit, fixed array, extensible array); the
// filters deflate, shuffle, fletcher32, szip, n-bit, scale-offset, bzip2 (307), LZF (32000), Blosc 1 (32001, all its
// codecs), LZ4 (32004), bitshuffle (32008) and Zstandard (32015), with per-chunk filter masks; integers and bit fields of
// 1 to 8 bytes, also such as do not fill them, IEEE floats of 2, 4 and 8 bytes, other floats all of whose values the IEEE
// float of their size has and, where they stand alone, of a larger size (bfloat16 reads as float32), both byte orders; enumerations (booleans among them), compounds, arrays, complex numbers (as
// compound or as a class of their own), opaque data, fixed and variable-length strings, variable-length sequences.
//
// Refused by name when read: external storage, virtual datasets, external and user-defined links, references (saying
// where the first leads), times, floats longer than 8 bytes (long double) or of one byte, bfloat16 inside a compound,
// and every other filter (Blosc 2, ZFP, SZ, ...).
//
// Sources: the HDF5 File Format Specification 3.0 (The HDF Group) and, where it is silent on filters and on complex
// numbers, the behaviour of HDF5 2.0, against which the tests hold every filter; RFC 1950 and 1951 (zlib, deflate), RFC
// 8878 (Zstandard), CCSDS 121.0-B-3 (szip), the format descriptions of liblzf, LZ4, Snappy, C-Blosc, bitshuffle and, of
// bzip2, the one by J. Tsai.
package hdf5
