// Package text reads files of text whose rows are objects as tables: CSV, TSV, ECSV and JSONL, each also gzipped.
//
// It promises its caller (package survey) that no value is lost on the way: what is not a number without loss stays text,
// and what cannot be read is an error that names file, line and column. Every file is read once from end to end by [Open],
// which settles types, nulls and rows; what it found ([ScanOf]) can be handed in again.
//
// # Bounds
//
// A line, or a record whose quoted fields span lines, has at most [MaxLine] bytes, a file at most [MaxColumns] columns (JSONL:
// names at all depths) and the comment block before a header at most [MaxHeader] bytes. JSON nests [MaxDepth] deep and has at
// most [MaxValues] values a line. Memory is about the longest line (JSON: 24 bytes a value more), the rows asked for, and 16
// bytes every [stride] rows. Files are read, not mapped. A gzip stream is unpacked as it is read, never as a whole; there,
// going back means reading from the start.
//
// Text has to be UTF-8 without NULs; a byte order mark at the start is accepted. Line ends are LF or CRLF. Empty lines are
// skipped. The last line may lack its end.
//
// # CSV and TSV
//
// As RFC 4180 says: fields may be quoted, quotes are doubled inside them, and quoted fields may hold line ends. A quote inside
// an unquoted field is a character like others; text after a closing quote is refused. Lines that begin with # before the
// header are skipped. The delimiter is a comma (.tsv: a tab), or the one of comma, tab, ; and | that header and first row
// agree on. The first record is the header: without one (numbers where names should be) the file is refused, and so are names
// that stand twice, and records of another number of fields. A column without a name is called colN.
//
// The type of a column is the first of these that every value of the file fits:
//
//   - bool: true, false, True, False, TRUE, FALSE;
//   - int64, then uint64: digits and a minus sign. Leading zeros, a plus sign and -0 say that the text matters, and so do more
//     than 64 bits: text.
//   - float64: decimal numbers with or without exponent, nan, inf and infinity in any case; the nearest float64. Where integers
//     stand among them that float64 does not hold, with leading zeros, or a number is beyond its range: text.
//   - text, byte for byte. Spaces around numbers do not count; in text they do.
//
// An empty field is null; a quoted empty one is "" in a text column, null in others. NaN stays NaN. NA, N/A, null and -- are
// text like any other unless [Options].Null lists them. A column without any value is float64 and null throughout.
//
// # ECSV
//
// Versions 0.9 and 1.0 as astropy writes them, also under the ending .csv (Gaia's files). The header gives names, types, units
// and shapes: int8 to uint64, float16 to float64, bool, string; complex64 and complex128 are tensors of empty shape. Subtypes:
// a fixed shape is a tensor (of text: a list of text, one axis only), [null] a list. Refused by name: float128, json,
// other shapes, other types. Masked values (empty, quoted or not; in numbers also null) are null, and so are empty texts, as
// in astropy, but where a column NAME.mask tells them apart. Mixin columns (SkyCoord, Time, Quantity) are read as the plain columns
// that they are made of; what else the header says of them is ignored, and the field's Note says so.
//
// # JSONL
//
// An object a line, RFC 8259, and NaN, Infinity and -Infinity as Python writes them. Members of objects have dotted names. A
// key that stands twice in an object, a lone surrogate, and a value that is an array here and a number there are refused.
// Integers are int64 or uint64, exactly; with floats among them float64, if it holds them. An array of one axis is a list, of
// numbers, bools or texts; nested arrays of numbers whose shape is the same in every row are a tensor; arrays of objects are a
// struct of lists. A missing value is null, and so is null.
package text
