package shard

import (
	"fmt"

	"astropile/internal/catalog"
)

// Policies of compression.
const (
	PolicyAuto = "auto" // measure, and stay plain where the gain is small
	PolicyNone = "none" // tensors are never compressed
	PolicyZstd = "zstd" // tensors are always compressed, by the better of the two ways
)

const (
	minGain = 1.25 // raw bytes over compressed ones, below which a tensor stays plain
	// A 16-bit identity dictionary takes 256 KiB in every row group, so it must pay.
	identity16Bytes  = 8_000_000
	sampleBytes      = 32 << 20 // of a sample, that are measured
	GroupPayload     = 16 << 20 // bytes of rows before encoding that a row group holds at most
	defaultGroupRows = 1
)

// GroupRows is how many rows of the given payload a row group holds.
func GroupRows(rowPayload int64) int64 {
	if rowPayload <= 0 {
		return defaultGroupRows
	}
	return max(defaultGroupRows, GroupPayload/rowPayload)
}

// ChooseLayout says how the values of a column stand in its pages. groupRows is how many rows a row group holds, all
// columns counted; a layout the column already has (a recipe's) is kept. Columns that are not tensors have none.
func ChooseLayout(c *catalog.Column, groupRows int64) catalog.Layout {
	if c.Kind != catalog.Tensor || c.Layout != "" {
		return c.Layout
	}
	switch c.DType {
	case catalog.Bool:
		return catalog.RLE
	case catalog.Int8, catalog.Uint8:
		return catalog.Identity
	case catalog.Int16, catalog.Uint16:
		if int64(c.RowBytes())*groupRows >= identity16Bytes {
			return catalog.Identity
		}
		return catalog.Widened
	}
	return catalog.Plain
}

// ChooseCodec decides how the pages of a column are compressed. Only tensors have a choice: with PolicyAuto the pages
// of the sample are compressed with zstd, and after splitting byte streams, and the column stays plain where neither
// makes them smaller by 1.25. The column's layout must be set (ChooseLayout).
func ChooseCodec(c *catalog.Column, sample *catalog.Vector, policy string) (catalog.Codec, error) {
	if c.Kind != catalog.Tensor {
		return catalog.Zstd, nil
	}
	switch {
	case policy != PolicyAuto && policy != PolicyNone && policy != PolicyZstd:
		return "", fmt.Errorf("shard: compression %q is unknown; use auto, none or zstd", policy)
	case policy == PolicyNone, c.Layout == catalog.RLE:
		return catalog.None, nil
	}
	if err := sample.Check(c); err != nil {
		return "", err
	}
	rows := min(sample.Rows, max(1, sampleBytes/c.RowBytes()))
	if rows == 0 {
		return catalog.None, nil
	}
	best, least := catalog.None, int64(0)
	for _, codec := range []catalog.Codec{catalog.Zstd, catalog.BSSZstd} {
		n, err := compressedSize(c, sample, rows, codec)
		if err != nil {
			return "", err
		}
		if n > 0 && (least == 0 || n < least) {
			best, least = codec, n
		}
	}
	if policy == PolicyAuto && float64(rows)*float64(c.RowBytes()) < minGain*float64(least) {
		return catalog.None, nil
	}
	return best, nil
}

// compressedSize is the size of a sample's pages, or 0 where the codec does not suit the column.
func compressedSize(c *catalog.Column, sample *catalog.Vector, rows int, codec catalog.Codec) (int64, error) {
	try := *c
	try.Codec = codec
	if CheckCodec(&try) != nil {
		return 0, nil
	}
	enc, err := zstdEncoder()
	if err != nil {
		return 0, err
	}
	defer func() { _ = enc.Close() }()
	_, leaves := parquetSchema([]catalog.Column{try})
	t, err := newTensorWriter(&try, leaves[0], false, enc)
	if err != nil {
		return 0, err
	}
	b, _, err := t.writeChunk(nil, 0, sample.Data, rows)
	return int64(len(b)), err
}

// CheckCodec says whether a column can be stored with its layout and codec.
func CheckCodec(c *catalog.Column) error {
	bad := func(why string) error {
		return fmt.Errorf("%w: %q: layout %q with codec %q: %s", catalog.ErrColumn, c.Name, c.Layout, c.Codec, why)
	}
	if c.Kind != catalog.Tensor {
		if c.Codec != catalog.Zstd && c.Codec != "" {
			return bad("only tensors have a choice of codec; the rest is zstd")
		}
		return nil
	}
	small := c.DType.Size() <= 2 && c.DType != catalog.Bool && c.DType != catalog.Float16
	switch c.Layout {
	case catalog.Plain:
		if small || c.DType == catalog.Bool {
			return bad("integers of 8 and 16 bits are identity or widened, bool is rle")
		}
	case catalog.Identity, catalog.Widened:
		if !small {
			return bad("only integers of 8 and 16 bits have this layout")
		}
	case catalog.RLE:
		if c.DType != catalog.Bool {
			return bad("only bool has this layout")
		}
	default:
		return bad("the layout is unknown")
	}
	switch c.Codec {
	case catalog.None, catalog.Zstd:
	case catalog.BSSZstd:
		if c.Layout != catalog.Plain || c.DType.Component() != catalog.Float32 && c.DType.Component() != catalog.Float64 {
			return bad("byte streams are split for plain floats of 32 and 64 bits")
		}
	default:
		return bad("the codec is unknown")
	}
	return nil
}
