// Package parquet reads foreign Parquet files as tables of objects (package table): catalogues, alert packets with nested
// structs and lists, repositories of tensors, and shards of our own.
//
// It promises package survey that a value is what the file says, bit for bit, or that there is an error that names file,
// column and row group, or row; what has no place in a column is listed with the reason, so nothing is lost in silence.
//
// # Mapping
//
// A source is the path of names in the file, dotted. Members of structs are sources of their own (candidate.ra); where a
// struct is null they are null.
//
//   - Numbers, bools and text a row are scalars; dictionaries, enumerations, JSON and UUIDs are text. Decimals of scale 0 are
//     int64, if they fit. Dates, times, timestamps and durations are their integers, with a unit that says what they count from.
//   - Lists of numbers that have the same length in every row of the file (two rows at least) are tensors, and so are lists
//     of lists of one shape (one row suffices), fixed-size lists and tensors that Arrow or Hugging Face metadata declares. Other
//     lists stay lists; lists of lists of several shapes are refused. Text in lists is a list of text, always.
//   - Lists of varying length in one struct whose lengths agree in every row are one struct of lists, named by the struct.
//   - A list of structs is a struct of lists: a member a leaf, names of inner structs joined with an underscore. Lists inside
//     are refused one by one (prv_candidates.member). A map is the list of its entries: members key and value.
//   - Binary columns whose values are FITS images, gzipped or not, are tensors by Options.Cutout. Images
//     of several shapes are refused unless Options.Pad fills up the smaller ones. Other binary is refused.
//   - Timestamps of 96 bits become int64 nanoseconds. Decimals with a fraction, intervals and columns of nothing but nulls without a
//     type are refused by name.
//
// Whether lists have one shape is found from their lengths, without the values: in all rows of files whose lists take at
// most 64 MiB as stored, else in a sample of rows of up to 16 row groups together with the counts in the footer; every row is checked
// again when it is read. Options.Shapes says what is known from elsewhere, and spares the search.
//
// # Bounds
//
// A footer has at most 64 MiB and 4096 leaves, which nest at most 40 deep; a page takes at most 512 MiB, decompressed, and holds
// at most 2^27 values (2^24 where they are delta-encoded); a vector at most 4 GiB; an element of a list at most 8 levels. Memory taken before bytes prove it is at most
// 64 MiB a vector. The codecs are snappy, gzip, brotli, zstd and LZ4_RAW. Checksums of pages are verified where they are
// given. Encrypted files, LZO, and LZ4 in the framing of Hadoop are refused.
package parquet
