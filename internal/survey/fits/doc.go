// Package fits reads FITS files (FITS standard 4.0): headers, images, tables, and tile-compressed images, without writing
// and without cgo.
//
// It promises its callers (the survey readers) three things:
//
//   - What it returns is what the file says. DATASUM and CHECKSUM are verified where they stand, once an HDU, before its
//     first value is given (one more pass over its data); a wrong one is an error ([ErrChecksum]), and so is a wrong
//     checksum of a gzip stream. A feature that is not implemented is refused by name with [ErrUnsupported].
//   - Foreign bytes do no harm. A damaged file gives an error that names file, HDU, column, row and byte as far as they apply
//     (wrapping [ErrCorrupt]), never a panic. Files are read, not mapped: one that is cut while it is open is an error.
//   - Values arrive in little-endian order, arrays in C order.
//
// # Bounds
//
// Headers of one file take at most [MaxHeader] bytes and it has at most [MaxHDUs] HDUs. Data have to be in the file: nothing is
// allocated for what a header says alone. An image is read into memory of its caller, a tile takes at most a few times
// its share of that. A row of a table has at most [MaxRow] bytes, an array of the heap [MaxArray]; the arrays of a column in
// one Read take together at most 64 MiB or 8 times the heap. A gzipped file is unpacked in memory up to [MaxInMemory]
// bytes, else into an unnamed temporary file up to [MaxUnpacked]; a deflate stream whose end says more than 1032 times
// its length is refused.
//
// # Images
//
// Every BITPIX. The conventions for unsigned numbers are exact: BZERO of 32768, 2147483648 and 9223372036854775808 give
// uint16, uint32 and uint64, -128 of bytes int8. Any other BSCALE or BZERO gives float32 for 8 and 16 bits and float32, else
// float64, computed in that type: scale first, then offset. BLANK is NaN there; of integers it is a note.
//
// Tile-compressed images (ZIMAGE): RICE_1 of 8, 16 and 32 bits, GZIP_1, GZIP_2, PLIO_1, HCOMPRESS_1 (smoothing too) and
// NOCOMPRESS; quantised floats with NO_DITHER and both subtractive dithers; tiles in GZIP_COMPRESSED_DATA and
// UNCOMPRESSED_DATA; any size of tiles. Null-pixel masks are refused.
//
// # Tables
//
// BINTABLE: L is bool (0 is null), X a bool tensor, B I J K E D numbers, C M complex tensors, A text that is padded and
// ends at a NUL; P and Q are lists, of characters text. A repeat count or TDIM makes a tensor (where TDIM is smaller than the
// count, its elements are the first ones), of text with two axes a list. TZERO of the unsigned conventions is
// exact, -128 of bytes gives int8; any other TSCAL or TZERO gives float64. TNULL makes scalars null and elements of arrays
// missing. NaN stays NaN. Columns without a name, and further ones of the same name, are called colN. Columns of no width
// are left out. Lists of complex numbers, of bits and of several texts, texts of three and more axes, scaled complex numbers
// and a TDIM that does not fit are fields with an error.
//
// TABLE: Aw is text, Iw int16 up to 4 digits, int32 up to 9, else int64, Fw.d Ew.d Dw.d float64. TNULL and blank numbers are
// null. A number without the decimal point that its form asks for is an error: the standard implies one, most writers do not.
//
// Compressed tables (ZTABLE), random groups and other extensions are refused by name. So is a file whose bytes after an
// HDU are neither an extension nor zeros or blanks: an extension whose header is damaged would be missing without a word.
//
// Sources: the FITS standard 4.0 (IAU FITS Working Group, 2018), the papers on world coordinates (Calabretta and Greisen
// 2002 and others), RFC 1951 and 1952 (deflate, gzip), R. L. White's description of hcompress.
package fits
