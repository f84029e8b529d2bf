package fits

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// fileOf makes a file of a primary without data and one extension.
func fileOf(data []byte, cards ...string) []byte {
	return slices.Concat(header("SIMPLE = T", "BITPIX = 8", "NAXIS = 0"), header(cards...), pad(bytes.Clone(data), 0))
}

// tableOf makes a binary table of the columns, given as TFORM and cards beside it.
func tableOf(rows, rowBytes, pcount string, data []byte, cards ...string) []byte {
	return fileOf(data, append([]string{"XTENSION = 'BINTABLE'", "BITPIX = 8", "NAXIS = 2", "NAXIS1 = " + rowBytes, "NAXIS2 = " + rows, "PCOUNT = " + pcount, "GCOUNT = 1"}, cards...)...)
}

func be32(v ...int32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.BigEndian.AppendUint32(b, uint32(x))
	}
	return b
}

// compressedOf makes an image of one tile.
func compressedOf(codec, bitpix, pixels string, tile []byte, cards ...string) []byte {
	return tableOf("1", "8", "2880", slices.Concat(be32(int32(len(tile)), 0), tile, make([]byte, 2880)), append([]string{
		"TFIELDS = 1", "TTYPE1 = 'COMPRESSED_DATA'", "TFORM1 = '1PB(9)'", "ZIMAGE = T", "ZCMPTYPE = '" + codec + "'", "ZBITPIX = " + bitpix,
		"ZNAXIS = 1", "ZNAXIS1 = " + pixels, "ZTILE1 = " + pixels}, cards...)...)
}

func TestHostileFilesAreRefusedByName(t *testing.T) {
	one := []string{"TFIELDS = 1", "TTYPE1 = 'X'", "TFORM1 = '1PJ'"}
	form := func(f string, more ...string) []string {
		return append([]string{"TFIELDS = 1", "TFORM1 = '" + f + "'"}, more...)
	}
	image := func(cards ...string) []byte {
		return slices.Concat(header(append([]string{"SIMPLE = T"}, cards...)...), make([]byte, blockSize))
	}
	for name, c := range map[string]struct {
		raw  []byte
		want error
		says string
	}{
		"empty file":              {nil, ErrNotFITS, "0 bytes"},
		"no FITS":                 {bytes.Repeat([]byte("x"), 5000), ErrNotFITS, "SIMPLE"},
		"SIMPLE is F":             {image("BITPIX = 8", "NAXIS = 0")[80:], ErrNotFITS, "SIMPLE"},
		"not standard":            {header("SIMPLE = F", "BITPIX = 8", "NAXIS = 0"), ErrUnsupported, "SIMPLE"},
		"no NAXIS":                {image("BITPIX = 8"), ErrCorrupt, "NAXIS is missing"},
		"NAXIS huge":              {image("BITPIX = 8", "NAXIS = 100000"), ErrCorrupt, "NAXIS = 100000"},
		"NAXIS negative":          {image("BITPIX = 8", "NAXIS = -1"), ErrCorrupt, "NAXIS = -1"},
		"BITPIX odd":              {image("BITPIX = 17", "NAXIS = 0"), ErrCorrupt, "BITPIX = 17"},
		"BITPIX text":             {image("BITPIX = 'eight'", "NAXIS = 0"), ErrCorrupt, "integer"},
		"NAXIS1 negative":         {image("BITPIX = 8", "NAXIS = 1", "NAXIS1 = -1"), ErrCorrupt, "NAXIS1"},
		"NAXIS1 huge":             {image("BITPIX = -64", "NAXIS = 1", "NAXIS1 = 9223372036854775807"), ErrCorrupt, "than a file can hold"},
		"NAXIS1 beyond 64 bits":   {image("BITPIX = 8", "NAXIS = 1", "NAXIS1 = 99999999999999999999"), ErrCorrupt, "NAXIS1"},
		"axes overflow":           {image("BITPIX = 8", "NAXIS = 3", "NAXIS1 = 4000000000", "NAXIS2 = 4000000000", "NAXIS3 = 4"), ErrCorrupt, "than a file can hold"},
		"axes beyond the file":    {image("BITPIX = 16", "NAXIS = 2", "NAXIS1 = 4000", "NAXIS2 = 4000"), ErrCorrupt, "truncated"},
		"PCOUNT negative":         {tableOf("1", "8", "-8", make([]byte, 8), one...), ErrCorrupt, "PCOUNT"},
		"PCOUNT huge":             {tableOf("1", "8", "9223372036854775807", make([]byte, 8), one...), ErrCorrupt, "than a file can hold"},
		"GCOUNT of a table":       {fileOf(nil, "XTENSION = 'BINTABLE'", "BITPIX = 8", "NAXIS = 2", "NAXIS1 = 1", "NAXIS2 = 1", "PCOUNT = 0", "GCOUNT = 2", "TFIELDS = 0"), ErrCorrupt, "GCOUNT"},
		"one keyword, two values": {image("BITPIX = 8", "BITPIX = 16", "NAXIS = 0"), ErrCorrupt, "stands twice"},
		"a string left open":      {image("BITPIX = 8", "NAXIS = 0", "NAME = 'no end"), ErrCorrupt, "closing quote"},
		"no END":                  {bytes.Repeat([]byte(record("SIMPLE", "T")), 100), ErrCorrupt, "END"},
		"rubbish after an HDU":    {slices.Concat(image("BITPIX = 8", "NAXIS = 0"), []byte("XTENSIOM= 'IMAGE'")), ErrCorrupt, "no extension"},
		"TFIELDS negative":        {tableOf("1", "8", "0", make([]byte, 8), "TFIELDS = -1"), ErrCorrupt, "TFIELDS"},
		"TFIELDS huge":            {tableOf("1", "8", "0", make([]byte, 8), "TFIELDS = 100000"), ErrCorrupt, "TFIELDS"},
		"TFORM missing":           {tableOf("1", "8", "0", make([]byte, 8), "TFIELDS = 1"), ErrCorrupt, "TFORM1"},
		"TFORM of no type":        {tableOf("1", "8", "0", make([]byte, 8), form("1Y")...), ErrCorrupt, "TFORM"},
		"TFORM huge":              {tableOf("1", "8", "0", make([]byte, 8), form("99999999999999999999J")...), ErrCorrupt, "TFORM"},
		"columns too wide":        {tableOf("1", "8", "0", make([]byte, 8), form("3J")...), ErrCorrupt, "12 bytes"},
		"columns too narrow":      {tableOf("1", "8", "0", make([]byte, 8), form("1J")...), ErrCorrupt, "take 4 bytes"},
		"several descriptors":     {tableOf("1", "16", "0", make([]byte, 16), form("2PJ")...), ErrCorrupt, "TFORM"},
		"THEAP in the table":      {tableOf("1", "8", "8", make([]byte, 16), append(one, "THEAP = 4")...), ErrCorrupt, "THEAP"},
		"THEAP behind the data":   {tableOf("1", "8", "8", make([]byte, 16), append(one, "THEAP = 17")...), ErrCorrupt, "THEAP"},
		"array outside the heap":  {tableOf("1", "8", "8", slices.Concat(be32(3, 0), make([]byte, 8)), one...), ErrCorrupt, "heap of 8"},
		"array before the heap":   {tableOf("1", "8", "8", slices.Concat(be32(1, -4), make([]byte, 8)), one...), ErrCorrupt, "heap of 8"},
		"array of negative size":  {tableOf("1", "8", "8", slices.Concat(be32(-1, 0), make([]byte, 8)), one...), ErrCorrupt, "-1 elements"},
		"array of 64-bit size":    {tableOf("1", "16", "8", slices.Concat(be32(1<<30, 1<<30, 0, 0), make([]byte, 8)), form("QJ")...), ErrCorrupt, "elements"},
		"no logical":              {tableOf("2", "1", "0", []byte("TX"), form("L")...), ErrCorrupt, "row 1"},
		"null without a fill":     {tableOf("1", "4", "0", be32(0x00010002), form("2I", "TNULL1 = 2")...), nil, "row 0"},
		"compressed table":        {tableOf("1", "8", "0", make([]byte, 8), append(one, "ZTABLE = T")...), ErrUnsupported, "ZTABLE"},
		"unknown codec":           {compressedOf("RICE_9", "16", "10", nil), ErrUnsupported, "RICE_9"},
		"tile of no bytes":        {compressedOf("RICE_1", "16", "10", nil), ErrCorrupt, "no data"},
		"rice cut":                {compressedOf("RICE_1", "32", "1000", []byte{1, 2, 3, 4, 5}), ErrCorrupt, "RICE_1"},
		"rice of odd pixels":      {compressedOf("RICE_1", "32", "10", []byte{1, 2, 3, 4, 5}, "ZNAME1 = 'BYTEPIX'", "ZVAL1 = 3"), ErrUnsupported, "BYTEPIX"},
		"rice of huge blocks":     {compressedOf("RICE_1", "32", "10", []byte{1, 2, 3, 4, 5}, "ZNAME1 = 'BLOCKSIZE'", "ZVAL1 = 1E30"), ErrCorrupt, "BLOCKSIZE"},
		"pixels that do not fit":  {compressedOf("RICE_1", "16", "1", []byte{1, 2, 3, 4, 0}), ErrCorrupt, "BITPIX 16"},
		"gzip of nothing":         {compressedOf("GZIP_1", "16", "10", []byte("no gzip at all, not at all")), ErrCorrupt, "gzip"},
		"gzip of other size":      {compressedOf("GZIP_1", "16", "10", zipped(t, make([]byte, 21))), ErrCorrupt, "21 bytes"},
		"plain of other size":     {compressedOf("NOCOMPRESS", "16", "10", make([]byte, 19)), ErrCorrupt, "19 bytes"},
		"plio of no list":         {compressedOf("PLIO_1", "16", "10", []byte{0, 1}), ErrCorrupt, "PLIO_1"},
		"plio beyond its list":    {compressedOf("PLIO_1", "16", "10", []byte{0, 0, 0, 0, 0, 99, 0, 0}), ErrCorrupt, "PLIO_1"},
		"hcompress of a line":     {compressedOf("HCOMPRESS_1", "16", "10", make([]byte, 40)), ErrUnsupported, "two axes"},
		"floats without a scale":  {compressedOf("RICE_1", "-32", "10", make([]byte, 40)), ErrCorrupt, "ZSCALE"},
		"dither without a seed":   {compressedOf("RICE_1", "-32", "10", make([]byte, 40), "ZSCALE = 1.0", "ZQUANTIZ = 'SUBTRACTIVE_DITHER_1'"), ErrCorrupt, "ZDITHER0"},
		"unknown quantisation":    {compressedOf("RICE_1", "-32", "10", make([]byte, 40), "ZSCALE = 1.0", "ZQUANTIZ = 'OTHER'"), ErrUnsupported, "OTHER"},
		"more pixels than tiles":  {compressedOf("RICE_1", "16", "10", nil, "ZNAXIS2 = 5", "ZNAXIS = 1"), ErrCorrupt, ""},
		"tile of size zero":       {tableOf("1", "8", "0", make([]byte, 8), append(one, "ZIMAGE = T", "ZBITPIX = 8", "ZNAXIS = 1", "ZNAXIS1 = 10", "ZTILE1 = 0")...), ErrCorrupt, "ZTILE1"},
		"tiles of a huge image": {tableOf("1", "8", "0", make([]byte, 8), append(one, "ZIMAGE = T", "ZBITPIX = 8", "ZNAXIS = 2", "ZNAXIS1 = 9000000000000000000",
			"ZNAXIS2 = 9000000000000000000", "ZTILE1 = 1")...), ErrCorrupt, "tiles"},
		"text as a number": {fileOf([]byte("12x "), "XTENSION = 'TABLE'", "BITPIX = 8", "NAXIS = 2", "NAXIS1 = 4", "NAXIS2 = 1", "PCOUNT = 0", "GCOUNT = 1", "TFIELDS = 1", "TBCOL1 = 1", "TFORM1 = 'I4'"), ErrCorrupt, "no integer"},
		"no decimal point": {fileOf([]byte("1234"), "XTENSION = 'TABLE'", "BITPIX = 8", "NAXIS = 2", "NAXIS1 = 4", "NAXIS2 = 1", "PCOUNT = 0", "GCOUNT = 1", "TFIELDS = 1", "TBCOL1 = 1", "TFORM1 = 'F4.2'"), ErrCorrupt, "decimal point"},
		"column outside":   {fileOf([]byte("1234"), "XTENSION = 'TABLE'", "BITPIX = 8", "NAXIS = 2", "NAXIS1 = 4", "NAXIS2 = 1", "PCOUNT = 0", "GCOUNT = 1", "TFIELDS = 1", "TBCOL1 = 3", "TFORM1 = 'I4'"), ErrCorrupt, "a row has 4"},
		"checksum":         {fileOf([]byte("1234"), "XTENSION = 'IMAGE'", "BITPIX = 8", "NAXIS = 1", "NAXIS1 = 4", "PCOUNT = 0", "GCOUNT = 1", "DATASUM = '77'"), ErrChecksum, "HDU 1"},
	} {
		f, err := New(bytes.NewReader(c.raw), int64(len(c.raw)), "some.fits")
		if err == nil {
			for _, h := range f.HDUs() {
				err = errors.Join(err, hostileRead(h))
			}
		}
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "some.fits") {
			t.Errorf("%s: error %v; want %v, saying %q", name, err, c.want, c.says)
		}
	}
}

// hostileRead reads an HDU without a fill for what is missing.
func hostileRead(h *HDU) error {
	if h.Kind == ImageHDU || h.Kind == Compressed {
		if !h.HasImage() {
			return nil
		}
		im, err := h.Image()
		if err != nil {
			return err
		}
		return im.Read(context.Background(), make([]byte, im.Bytes()))
	}
	tab, err := h.Table()
	if err != nil {
		return err
	}
	for i := range tab.Fields() {
		if _, err := tab.Read(context.Background(), 0, tab.Rows(), []table.Request{{Field: i}}); err != nil {
			return err
		}
	}
	return nil
}

func TestArraysThatShareTheHeapDoNotMultiply(t *testing.T) {
	const rows, heap = 4000, 1 << 20
	var data []byte
	for range rows {
		data = append(data, be32(heap, 0)...)
	}
	raw := tableOf("4000", "8", "1048576", append(data, make([]byte, heap)...), "TFIELDS = 1", "TTYPE1 = 'X'", "TFORM1 = '1PB'")
	f, err := New(bytes.NewReader(raw), int64(len(raw)), "shared.fits")
	if err != nil {
		t.Fatal(err)
	}
	tab, err := f.HDUs()[1].Table()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tab.Read(t.Context(), 0, rows, []table.Request{{}}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("4 GiB of shared arrays: %v", err)
	}
	v, err := tab.Read(t.Context(), 10, 20, []table.Request{{}})
	if err != nil || v[0].Offsets[10] != 10*heap {
		t.Errorf("ten of them: %v", err)
	}
}

func TestColumnsGetNamesThatTellThemApart(t *testing.T) {
	raw := tableOf("1", "6", "0", []byte("abcdef"), "TFIELDS = 7", "TTYPE1 = 'X'", "TFORM1 = 'B'", "TTYPE2 = 'X'", "TFORM2 = 'B'", "TFORM3 = 'B'",
		"TTYPE4 = 'col3'", "TFORM4 = 'B'", "TTYPE5 = 'NONE'", "TFORM5 = '0A'", "TTYPE6 = 'W'", "TFORM6 = 'B'", "TTYPE7 = 'A5'", "TFORM7 = 'A1'")
	f, err := New(bytes.NewReader(raw), int64(len(raw)), "names.fits")
	if err != nil {
		t.Fatal(err)
	}
	tab, err := f.HDUs()[1].Table()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range tab.Fields() {
		got = append(got, f.Source)
	}
	if want := []string{"X", "col2", "col3_", "col3", "W", "A5"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMissingElementsTakeTheFill(t *testing.T) {
	raw := tableOf("2", "13", "0", slices.Concat([]byte{0, 1, 0, 2, 'T', 0, 'F', 7, 0, 5, 0, 6, 'T'}, []byte{0, 2, 0, 1, 'F', 'F', 'F', 9, 0, 6, 0, 7, 0}),
		"TFIELDS = 5", "TTYPE1 = 'I'", "TFORM1 = '2I'", "TNULL1 = 2", "TTYPE2 = 'L'", "TFORM2 = '3L'", "TTYPE3 = 'B'", "TFORM3 = 'B'", "TNULL3 = 9",
		"TTYPE4 = 'S'", "TFORM4 = '2I'", "TNULL4 = 6", "TSCAL4 = 0.5", "TTYPE5 = 'O'", "TFORM5 = 'L'")
	f, err := New(bytes.NewReader(raw), int64(len(raw)), "nulls.fits")
	if err != nil {
		t.Fatal(err)
	}
	tab, err := f.HDUs()[1].Table()
	if err != nil {
		t.Fatal(err)
	}
	v, err := tab.Read(t.Context(), 0, 2, []table.Request{{Field: 0, Fill: []any{-7.0}}, {Field: 1, Fill: []any{1.0}}, {Field: 2}, {Field: 3}, {Field: 4}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []byte{1, 0, 0xf9, 0xff, 0xf9, 0xff, 1, 0}; !bytes.Equal(v[0].Data, want) {
		t.Errorf("integers %v", v[0].Data)
	}
	if want := []byte{1, 1, 0, 0, 0, 0}; !bytes.Equal(v[1].Data, want) {
		t.Errorf("logicals %v", v[1].Data)
	}
	if !slices.Equal(v[2].Valid, []bool{true, false}) || !slices.Equal(v[4].Valid, []bool{true, false}) {
		t.Errorf("scalars %v %v", v[2].Valid, v[4].Valid)
	}
	if want := []byte{0, 0, 0, 0, 0, 0, 4, 64, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f, 0, 0, 0, 0, 0, 0, 12, 64}; !bytes.Equal(v[3].Data, want) {
		t.Errorf("scaled %v", v[3].Data)
	}
	for i, fill := range map[int]any{0: 40000.0, 1: 0.5, 3: "text"} {
		if _, err := tab.Read(t.Context(), 0, 2, []table.Request{{Field: i, Fill: []any{fill}}}); err == nil {
			t.Errorf("field %d takes the fill %v", i, fill)
		}
	}
}

func TestQuantisedTilesMayShareOneScale(t *testing.T) {
	ints := slices.Concat(be32(0, 1, -5, 7))
	for name, c := range map[string]struct {
		bitpix string
		tile   []byte
		codec  string
		cards  []string
		want   []float64
	}{
		"float32": {"-32", zipped(t, ints), "GZIP_1", []string{"ZSCALE = 0.5", "ZZERO = 3.0", "ZBLANK = -5"}, []float64{3, 3.5, math.NaN(), 6.5}},
		"float64": {"-64", zipped(t, ints), "GZIP_1", []string{"ZSCALE = 0.25", "ZQUANTIZ = 'NO_DITHER'"}, []float64{0, 0.25, -1.25, 1.75}},
		"16 bits": {"-64", []byte{0, 0, 0, 1, 0xff, 0xfb, 0, 7}, "NOCOMPRESS", []string{"ZSCALE = 1.0"}, []float64{0, 1, -5, 7}},
		"blank":   {"32", zipped(t, ints), "GZIP_1", []string{"BSCALE = 2.0", "BLANK = 0"}, []float64{math.NaN(), 2, -10, 14}},
	} {
		raw := compressedOf(c.codec, c.bitpix, "4", c.tile, c.cards...)
		f, err := New(bytes.NewReader(raw), int64(len(raw)), "tiles.fits")
		if err != nil {
			t.Fatal(err)
		}
		im, err := f.HDUs()[1].Image()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b := make([]byte, im.Bytes())
		if err := im.Read(t.Context(), b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, want := range c.want {
			var got float64
			if im.DType == catalog.Float32 {
				got = float64(math.Float32frombits(le.Uint32(b[4*i:])))
			} else {
				got = math.Float64frombits(le.Uint64(b[8*i:]))
			}
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s: pixel %d is %v, want %v", name, i, got, want)
			}
		}
	}
}

func TestABlankOfIntegersIsANote(t *testing.T) {
	for scale, want := range map[string]catalog.DType{"1.0": catalog.Int16, "2.0": catalog.Float32} {
		raw := slices.Concat(header("SIMPLE = T", "BITPIX = 16", "NAXIS = 1", "NAXIS1 = 2", "BLANK = 0", "BSCALE = "+scale), pad([]byte{0, 0, 0, 3}, 0))
		dt, _, data, err := DecodeImage(raw, 100)
		if err != nil || dt != want {
			t.Fatalf("%s, %v", dt, err)
		}
		if dt == catalog.Float32 && !math.IsNaN(float64(math.Float32frombits(le.Uint32(data)))) || dt == catalog.Int16 && !bytes.Equal(data, []byte{0, 0, 3, 0}) {
			t.Errorf("%s: %v", dt, data)
		}
		f, err := New(bytes.NewReader(raw), int64(len(raw)), "blank.fits")
		if err != nil {
			t.Fatal(err)
		}
		im, err := f.HDUs()[0].Image()
		if err != nil || (im.Note == "") != (want == catalog.Float32) {
			t.Errorf("%s: note %q, %v", want, im.Note, err)
		}
	}
}

func TestTextEndsAtANUL(t *testing.T) {
	raw := tableOf("1", "14", "5", slices.Concat([]byte("ab\x00rub"), be32(5, 0), []byte("xy\x00zz")), "TFIELDS = 2", "TTYPE1 = 'T'", "TFORM1 = '6A'", "TTYPE2 = 'P'", "TFORM2 = 'PA'")
	f, err := New(bytes.NewReader(raw), int64(len(raw)), "text.fits")
	if err != nil {
		t.Fatal(err)
	}
	tab, err := f.HDUs()[1].Table()
	if err != nil {
		t.Fatal(err)
	}
	v, err := tab.Read(t.Context(), 0, 1, []table.Request{{Field: 0}, {Field: 1}})
	if err != nil || string(v[0].Data) != "ab" || string(v[1].Data) != "xy" {
		t.Errorf("%q %q, %v", v[0].Data, v[1].Data, err)
	}
}

func TestImagesGivesAFileAsARow(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "object 17.fits.gz")
	primary := header("SIMPLE = T", "BITPIX = 8", "NAXIS = 0", "OBJECT = 'M 31'", "FILTER = 'r'", "GOOD = T", "NOTHING =", "A = 4", "CTYPE9Z = 5", "BAD = 1..2")
	first := header("XTENSION = 'IMAGE'", "BITPIX = 16", "NAXIS = 2", "NAXIS1 = 3", "NAXIS2 = 2", "PCOUNT = 0", "GCOUNT = 1", "BZERO = 32768", "BUNIT = 'ct'", "EXPTIME = 30.5",
		"FILTER = 'g'", "CTYPE1 = 'RA---TAN'", "CTYPE2 = 'DEC--TAN'", "CRPIX1 = 2.0", "CRPIX2 = 1.5", "CRVAL1 = 10.0", "CRVAL2 = 20.0", "CDELT1 = -0.1", "CDELT2 = 0.1", "A_1_2 = 3")
	second := header("XTENSION = 'IMAGE'", "BITPIX = 8", "NAXIS = 1", "NAXIS1 = 2", "PCOUNT = 0", "GCOUNT = 1", "EXTNAME = 'MASK'")
	third := header("XTENSION = 'IMAGE'", "BITPIX = 8", "NAXIS = 1", "NAXIS1 = 1", "PCOUNT = 0", "GCOUNT = 1")
	raw := slices.Concat(primary, first, pad([]byte{0x80, 0, 0x80, 1, 0x80, 2, 0x80, 3, 0x80, 4, 0x7f, 0xff}, 0), second, pad([]byte{1, 2}, 0), third, pad([]byte{9}, 0))
	if err := os.WriteFile(path, zipped(t, raw), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tab, err := Images(f)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i, field := range tab.Fields() {
		if field.Err != nil {
			got[field.Source] = "error"
			continue
		}
		c := field.Column
		if err := c.Check(); err != nil && !strings.Contains(c.Name, ".") {
			t.Error(err)
		}
		v, err := tab.Read(t.Context(), 0, 1, []table.Request{{Field: i}})
		if err != nil {
			t.Fatal(err)
		}
		if err := v[0].Check(&c); err != nil {
			t.Error(err)
		}
		got[field.Source] = string(c.DType) + " " + string(v[0].Data)
		if c.DType == catalog.Float64 {
			got[field.Source] = "float64"
		}
	}
	want := map[string]string{
		"image": "uint16 \x00\x00\x01\x00\x02\x00\x03\x00\x04\x00\xff\xff", "MASK": "uint8 \x01\x02", "image_2": "uint8 \x09",
		"header.OBJECT": "string M 31", "header.FILTER": "string g", "header.GOOD": "bool \x01", "header.EXPTIME": "float64",
		"header.A": "int64 \x04\x00\x00\x00\x00\x00\x00\x00", "header.BAD": "error", "ra": "float64", "dec": "float64", "file": "string object 17",
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%s is a field", k)
		}
	}
	at, found, err := f.HDUs()[1].centre(f.HDUs()[1].imageAxes())
	if err != nil || !found || at.ra != 10 || at.dec < 20-1e-12 || at.dec > 20+1e-12 {
		t.Errorf("%v %v %v", at, found, err)
	}
}

func TestAnUnknownDirectionSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		cards []string
		says  string // empty: no ra and dec
		ra    bool
	}{
		"none":             {nil, "", false},
		"keywords":         {[]string{"RA = 12.5", "DEC = -3"}, "", true},
		"keywords of text": {[]string{"RA = '12:30:00'", "DEC = '-3'"}, "no number of degrees", false},
		"unknown":          {[]string{"CTYPE1 = 'RA---TPV'", "CTYPE2 = 'DEC--TPV'", "RA = 1", "DEC = 2"}, "TPV", false},
		"parameters":       {[]string{"CTYPE1 = 'RA---TAN'", "CTYPE2 = 'DEC--TAN'", "PV1_1 = 2.0"}, "PV1_1", false},
		"FK4":              {[]string{"CTYPE1 = 'RA---TAN'", "CTYPE2 = 'DEC--TAN'", "EQUINOX = 1950.0"}, "FK4", false},
		"FK5 of a day":     {[]string{"CTYPE1 = 'RA---TAN'", "CTYPE2 = 'DEC--TAN'", "RADESYS = 'FK5'", "EQUINOX = 2015.5"}, "2015.5", false},
		"ecliptic":         {[]string{"CTYPE1 = 'ELON-TAN'", "CTYPE2 = 'ELAT-TAN'"}, "ELON", false},
		"distortion":       {[]string{"CTYPE1 = 'RA---TAN'", "CTYPE2 = 'DEC--TAN'", "CPDIS1 = 'LOOKUP'"}, "CPDIS1", false},
		"two projections":  {[]string{"CTYPE1 = 'RA---TAN'", "CTYPE2 = 'DEC--SIN'"}, "differ", false},
		"unit":             {[]string{"CTYPE1 = 'RA---TAN'", "CTYPE2 = 'DEC--TAN'", "CUNIT1 = 'hour'"}, "hour", false},
		"beyond the sky":   {[]string{"CTYPE1 = 'RA---SIN'", "CTYPE2 = 'DEC--SIN'", "CDELT1 = 90.0", "CRPIX1 = -9.0"}, "outside", false},
	} {
		raw := stamp(9, c.cards...)
		f, err := New(bytes.NewReader(raw), int64(len(raw)), "where.fits")
		if err != nil {
			t.Fatal(err)
		}
		tab, err := Images(f)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, field := range tab.Fields() {
			if field.Source != "ra" && field.Source != "dec" {
				continue
			}
			seen++
			if c.ra != (field.Err == nil) || field.Err != nil && !strings.Contains(field.Err.Error(), c.says) {
				t.Errorf("%s: %s has error %v, want one saying %q", name, field.Source, field.Err, c.says)
			}
		}
		if (seen == 2) != (c.ra || c.says != "") {
			t.Errorf("%s: %d fields", name, seen)
		}
	}
}
