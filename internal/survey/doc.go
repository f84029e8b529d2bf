// Package survey reads the files of astronomical surveys into columns: what Inspect finds out about them becomes a
// recipe that people can read and change, and Open reads one file after another by it, in batches of rows.
//
// It promises that a value is what the file says, bit for bit, or that there is an error which names file, column and
// row: types are widened only where every value stays exact, a source that is in no column and not dropped is refused,
// and so are positions that are not on the sky. Memory is bounded by the rows asked for. Formats have sub-packages
// (hdf5, fits and others; package table is what those share whose rows are objects); the mapping to columns is here.
//
// # Families
//
// Published surveys lay objects out in five ways, and a set of inputs is of one of them. Three are HDF5:
//
//   - columnar: datasets at the root share axis 0, the object. Members of compound rows become columns dataset_member.
//   - object: one object a file. Scalars have shape (), light curves are arrays [band, epoch] beside a list of bands.
//   - group: one group an object. Attributes that no dataset of the same name repeats are scalars too; the group's name is
//     the id where nothing else is. Members of compound datasets become columns dataset_member.
//
// Two are of other formats:
//
//   - table: rows are objects. FITS tables (of a file with several, hdu: NAME or number says which), Parquet, CSV, ECSV,
//     JSONL. Members of structs are sources with dots (candidate.ra), and columns with underscores (candidate_ra).
//   - image: a FITS file is one object: its images, the keywords of their header (header.EXPTIME), the position of the middle of
//     the first image, and the file's name, which is the id.
//
// Where a file could be of more than one, Inspect refuses it with the line of a recipe that decides.
//
// # Mapping
//
//   - A number or text a row is a scalar, an array of fixed shape a tensor, a sequence of varying length a list, several
//     texts a row a list of text. Complex numbers are tensors. Booleans are booleans; other enumerations stay numbers.
//   - Types across inputs: the narrowest that holds all values exactly, else an error that names both files. Where 64-bit
//     integers meet floats, float64, and an integer that it does not hold is refused when it comes.
//   - Shapes have to agree, else an error names both files; pad: fills up what is smaller, kind: list keeps lengths. In the
//     families object and group an array of one axis whose length differs between objects is a list.
//   - A scalar that some inputs lack is null there, if the recipe says nullable; anything else that is missing is refused.
//   - Light curves of the family object become one struct of lists: band, then time and the other arrays under their own
//     names, band after band. Epochs after a band's last with a time that is neither 0 nor -99 are padding and are cut.
//     The list of bands stays a column. A compound dataset of the family group whose length differs is one struct as well,
//     and so are lists of varying length beside a time, if their lengths agree with it in every row of every input.
//   - The id is object_id, else the only scalar whose name looks like an id and whose values differ in the sample. Its text is trimmed and undone where it is the
//     text of a byte string (b'  12'); if that changes a byte, <id>_raw keeps what stood there. Integers stay integers
//     unless dtype: string is asked for. Positions are ra and dec or a usual spelling of them, in degrees.
//   - Other text of fixed length loses the NULs and spaces that pad it; text of varying length is kept. Text has to be
//     UTF-8 (text: latin1 reads ISO 8859-1).
//   - Tables know nulls. A scalar or a list that may be null is nullable; the id and the position are not, and a row without them is
//     refused. Null elements inside lists and tensors have no place: floats become NaN, text becomes empty, and of integers fill: stands
//     for null, by default the least value (the greatest, of unsigned ones; 2^63 of uint64; 255 of bool, as uint8), and it is an error if it occurs as a value.
//     A null group of lists is empty.
//   - unit: comes from an attribute unit or units of the dataset.
//   - A published split (train, val, test) that every file's name or folder tells becomes the column split.
//
// # Recipe
//
// A recipe is YAML; unknown keys, contradictions and values of the wrong kind are refused with their line. Without
// columns it is a set of hints that Inspect completes: family, hdu, id, ra, dec, no_sky, rename (column: new name), drop
// (sources; of a struct all that is in it), pad (source of tensors: what fills up smaller ones). Hints name columns or sources. With columns it is complete, and inputs have to fit it. A column has
//
//	name, kind (scalar, tensor, list, struct), dtype, shape, unit, nullable
//	source    dataset or attribute;  member  of a compound, with slashes for members of members
//	from      dataset (if not given), attribute or group (family group), split
//	text      exact, padded, id, latin1
//	split     list of text: what stands between the parts of one text
//	trim      struct of bands x epochs: the member that holds the time
//	pad       tensor: fills up smaller values at the end of each axis
//	shape     may also give the elements another number of axes; with the same number, shapes have to agree
//	round     floats may be rounded to dtype
//	scale     factor of a float64 column: 15 for hours, 57.29577951308232 for radians
//	wrap      right ascension from -180 to 180, or 360, is brought into [0, 360)
//	fill      what stands for null elements of a list or tensor, or for null rows
//	members   of a struct: name, source, member, dtype, unit, text, round, scale, fill
package survey
