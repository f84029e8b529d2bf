package fits

import (
	"context"
	"math"
	"slices"
	"strings"
)

// tileColumn is a column of the table of tiles: where it stands in a row, and what it holds.
type tileColumn struct {
	at   int
	form form
	here bool
}

// tiling is how an image is cut into tiles and compressed (FITS 4.0, section 10.1).
type tiling struct {
	bitpix int
	axes   []int64 // ZNAXIS1 first
	tile   []int64
	counts []int64 // tiles along each axis
	codec  string
	row    int64 // bytes of a row of the table

	data, zipped, plain tileColumn
	scale, zero, blank  tileColumn

	scaleAll, zeroAll float64 // where no column gives them
	blankAll          int64
	hasBlankAll       bool
	imageBlank        int64 // BLANK of the image, else ZBLANK: what stands for no value in its integers
	hasImageBlank     bool

	quantized bool
	dither    ditherMethod
	seed      int64

	block, bytepix int
	smooth         bool
	heap           heap
}

// newTiling takes from the header how the tiles are made.
func (h *HDU) newTiling() (*tiling, error) {
	t := &tiling{row: h.axes[0]}
	n := numbers{h: h.header}
	t.bitpix = int(n.get("ZBITPIX", -64, -65))
	axes := n.get("ZNAXIS", 1, 0)
	if n.err == nil && axes > MaxAxes {
		return nil, corruptf("ZNAXIS = %d, at most %d is allowed", axes, MaxAxes)
	}
	tiles := int64(1)
	for i := range int(axes) {
		size := n.get(key("ZNAXIS", i+1), 0, -1)
		instead := int64(1)
		if i == 0 {
			instead = max(1, size)
		}
		tile := n.get(key("ZTILE", i+1), 1, instead)
		if n.err != nil {
			return nil, n.err
		}
		tile = max(1, min(tile, size))
		t.axes, t.tile = append(t.axes, size), append(t.tile, tile)
		t.counts = append(t.counts, (size+tile-1)/tile)
		var ok bool
		if tiles, ok = mul(tiles, t.counts[i]); !ok {
			tiles = math.MaxInt64
		}
	}
	if n.err != nil {
		return nil, n.err
	}
	switch t.bitpix {
	case 8, 16, 32, 64, -32, -64:
	default:
		return nil, corruptf("ZBITPIX = %d", t.bitpix)
	}
	if tiles != h.axes[1] {
		return nil, corruptf("an image of %v pixels has %d tiles of %v, the table has %d rows", t.axes, tiles, t.tile, h.axes[1])
	}
	if err := t.columns(h); err != nil {
		return nil, err
	}
	if err := t.parameters(h); err != nil {
		return nil, err
	}
	var err error
	t.heap, err = h.newHeap()
	return t, err
}

// columns finds the columns that tiles need.
func (t *tiling) columns(h *HDU) error {
	cols, err := h.columns()
	if err != nil {
		return err
	}
	for _, c := range cols {
		tc := tileColumn{c.at, c.form, true}
		array := c.form.array != 0
		switch strings.ToUpper(c.name) {
		case "COMPRESSED_DATA":
			t.data = tc
		case "GZIP_COMPRESSED_DATA":
			t.zipped = tc
		case "UNCOMPRESSED_DATA":
			t.plain = tc
		case "ZSCALE":
			t.scale, array = tc, !array && (c.form.code == 'D' || c.form.code == 'E') && c.form.repeat == 1
		case "ZZERO":
			t.zero, array = tc, !array && (c.form.code == 'D' || c.form.code == 'E') && c.form.repeat == 1
		case "ZBLANK":
			t.blank, array = tc, !array && c.form.repeat == 1 && strings.IndexByte("BIJK", c.form.code) >= 0
		case "NULL_PIXEL_MASK":
			return unsupportedf("a compressed image with a mask of null pixels")
		default:
			continue
		}
		if !array {
			return corruptf("the column %s of tiles has TFORM %s", c.name, c.tform)
		}
	}
	if !t.data.here && !t.zipped.here && !t.plain.here {
		return corruptf("a compressed image without a column COMPRESSED_DATA")
	}
	return nil
}

// parameters takes the codec with its parameters, and how floats are quantised.
func (t *tiling) parameters(h *HDU) error {
	hd := h.header
	codec, _, err := hd.Text("ZCMPTYPE")
	if err != nil {
		return err
	}
	switch t.codec = strings.ToUpper(codec); t.codec {
	case "RICE_ONE":
		t.codec = "RICE_1"
	case "RICE_1", "GZIP_1", "GZIP_2", "PLIO_1", "HCOMPRESS_1", "NOCOMPRESS":
	default:
		return unsupportedf("tile compression %q", codec)
	}
	block, bytepix, smooth := 32.0, 4.0, 0.0
	for i := 1; ; i++ {
		name, found, err := hd.Text(key("ZNAME", i))
		if err != nil {
			return err
		}
		if !found {
			break
		}
		v, _, err := hd.Float(key("ZVAL", i))
		if err != nil {
			return err
		}
		switch strings.ToUpper(name) {
		case "BLOCKSIZE":
			block = v
		case "BYTEPIX":
			bytepix = v
		case "SMOOTH":
			smooth = v
		}
	}
	if t.codec == "RICE_1" {
		if _, ok := riceFor(int(bytepix)); !ok || bytepix != math.Trunc(bytepix) {
			return unsupportedf("RICE_1 with BYTEPIX %v", bytepix)
		}
		if block < 1 || block > 1<<20 || block != math.Trunc(block) {
			return corruptf("RICE_1 with BLOCKSIZE %v", block)
		}
	}
	t.block, t.bytepix, t.smooth = int(block), int(bytepix), smooth != 0
	return t.quantization(h)
}

func (t *tiling) quantization(h *HDU) error {
	hd := h.header
	scale, hasScale, err := hd.Float("ZSCALE")
	if err != nil {
		return err
	}
	zero, _, err := hd.Float("ZZERO")
	if err != nil {
		return err
	}
	t.scaleAll, t.zeroAll = scale, zero
	t.quantized = hasScale || t.scale.here
	if t.blankAll, t.hasBlankAll, err = hd.Int("ZBLANK"); err != nil {
		return err
	}
	if t.imageBlank, t.hasImageBlank, err = hd.Int("BLANK"); err != nil {
		return err
	}
	if !t.hasBlankAll {
		t.blankAll, t.hasBlankAll = t.imageBlank, t.hasImageBlank
	}
	if !t.hasImageBlank {
		t.imageBlank, t.hasImageBlank = t.blankAll, t.hasBlankAll
	}
	if t.bitpix > 0 {
		if t.quantized {
			return unsupportedf("tiles of integers with ZSCALE")
		}
		return nil
	}
	method, found, err := hd.Text("ZQUANTIZ")
	if err != nil {
		return err
	}
	switch method = strings.ToUpper(method); {
	case !t.quantized:
		switch t.codec {
		case "RICE_1", "PLIO_1", "HCOMPRESS_1":
			return corruptf("floats compressed by %s without ZSCALE", t.codec)
		}
		return nil
	case !found || method == "NO_DITHER":
		return nil
	case method == "SUBTRACTIVE_DITHER_1":
		t.dither = dither1
	case method == "SUBTRACTIVE_DITHER_2":
		t.dither = dither2
	default:
		return unsupportedf("ZQUANTIZ = %q with ZSCALE", method)
	}
	t.seed, _, err = hd.Int("ZDITHER0")
	if err == nil && (t.seed < 1 || t.seed > randoms) {
		err = corruptf("ZDITHER0 = %d, 1 to %d is allowed", t.seed, randoms)
	}
	return err
}

// tileReader holds the buffers of one pass over the tiles.
type tileReader struct {
	*tiling
	gz     gunzip
	heap   heap
	vals   []int32
	raw    []byte // of the tile, little-endian numbers of ZBITPIX
	out    []byte // the same, scaled
	bytes  []byte // what gzip gives
	random []float32
	hc     hdecompressor
}

// read decodes all tiles into dst.
func (t *tiling) read(ctx context.Context, im *Image, dst []byte) error {
	r := &tileReader{tiling: t, heap: t.heap}
	if t.dither != noDither {
		r.random = randomNumbers()
	}
	const rowsAtOnce = 1024
	rows := im.h.axes[1]
	if t.row == 0 {
		return im.h.fail(nowhere, corruptf("the table of tiles has rows of no bytes"))
	}
	step := max(1, min(rowsAtOnce, swapChunk/t.row))
	buf := make([]byte, min(step, rows)*t.row)
	corner := make([]int64, len(t.axes))
	for lo := int64(0); lo < rows; lo += step {
		n := min(step, rows-lo)
		if err := im.h.f.readAt(buf[:n*t.row], im.h.data+lo*t.row); err != nil {
			return im.h.fail(place{row: lo, at: im.h.data + lo*t.row}, err)
		}
		for i := range n {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := r.tile(im, dst, buf[i*t.row:(i+1)*t.row], lo+i, corner); err != nil {
				return im.h.fail(place{column: "COMPRESSED_DATA", row: lo + i, at: -1}, err)
			}
		}
	}
	return nil
}

// tile decodes one tile and puts it where it belongs.
func (r *tileReader) tile(im *Image, dst, row []byte, number int64, corner []int64) error {
	// Axis 1 runs fastest; tiles at the end of an axis are smaller.
	size := make([]int64, len(r.axes))
	pixels, rest := int64(1), number
	for k := range r.axes {
		corner[k] = rest % r.counts[k] * r.tiling.tile[k]
		rest /= r.counts[k]
		size[k] = min(r.tiling.tile[k], r.axes[k]-corner[k])
		pixels *= size[k]
	}
	width := im.s.raw.Size()
	r.raw = room(r.raw, int(pixels)*width)
	if err := r.decode(row, number, size, int(pixels)); err != nil {
		return err
	}
	src := r.raw
	if im.s.float && im.s.out != im.s.raw {
		r.out = room(r.out, int(pixels)*im.s.out.Size())
		src = r.out
	}
	im.s.apply(src, r.raw)
	r.place(dst, src, im.s.out.Size(), corner, size)
	return nil
}

// room gives n bytes, those of b if it has as many.
func room(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// place copies a tile's rows of pixels into the image.
func (r *tileReader) place(dst, src []byte, width int, corner, size []int64) {
	run := int(size[0]) * width
	at := make([]int64, len(size)) // in the tile
	for len(src) > 0 {
		off := int64(0)
		for k := len(size) - 1; k >= 0; k-- {
			off = off*r.axes[k] + corner[k] + at[k]
		}
		copy(dst[off*int64(width):][:run], src[:run])
		src = src[run:]
		for k := 1; k < len(size); k++ {
			if at[k]++; at[k] < size[k] {
				break
			}
			at[k] = 0
		}
	}
}

// decode fills r.raw from the row's column that holds the tile.
func (r *tileReader) decode(row []byte, number int64, size []int64, pixels int) error {
	width := max(r.bitpix, -r.bitpix) / 8
	if r.data.here {
		src, err := r.cell(row, r.data)
		if err != nil {
			return err
		}
		if len(src) > 0 {
			return r.compressed(row, src, number, size, pixels, width)
		}
	}
	if r.zipped.here {
		src, err := r.cell(row, r.zipped)
		if err != nil {
			return err
		}
		if len(src) > 0 {
			r.bytes = room(r.bytes, pixels*width)
			if err := r.gz.into(r.bytes, src); err != nil {
				return err
			}
			swap(r.raw, r.bytes, width)
			return nil
		}
	}
	if r.plain.here {
		src, err := r.cell(row, r.plain)
		if err != nil {
			return err
		}
		if len(src) == pixels*width {
			swap(r.raw, src, width)
			return nil
		}
	}
	return corruptf("the tile has no data")
}

// cell gives the bytes that a descriptor points at.
func (r *tileReader) cell(row []byte, c tileColumn) ([]byte, error) {
	n, off := c.form.descriptor(row[c.at:])
	size, ok := c.form.arrayBytes(n)
	if !ok {
		return nil, corruptf("a descriptor of %d elements", n)
	}
	if size == 0 {
		return nil, nil
	}
	return r.heap.get(off, size)
}

// compressed decodes a tile of the image's codec.
func (r *tileReader) compressed(row, src []byte, number int64, size []int64, pixels, width int) error {
	var wide int // bytes of the integers, or floats, that bytes hold; 0: they are in vals
	var data []byte
	switch r.codec {
	case "GZIP_1", "GZIP_2":
		n, err := gzipSize(src)
		if err != nil {
			return err
		}
		wide = int(n / int64(pixels))
		if int64(wide)*int64(pixels) != n || !r.allowed(wide, width) {
			return corruptf("%s: %d bytes for %d pixels of %d bits", r.codec, n, pixels, r.bitpix)
		}
		r.bytes = room(r.bytes, int(n))
		if err := r.gz.into(r.bytes, src); err != nil {
			return err
		}
		data = r.bytes
	case "NOCOMPRESS":
		wide = len(src) / pixels
		if wide*pixels != len(src) || !r.allowed(wide, width) {
			return corruptf("NOCOMPRESS: %d bytes for %d pixels of %d bits", len(src), pixels, r.bitpix)
		}
		data = src
	default:
		if cap(r.vals) < pixels {
			r.vals = make([]int32, pixels)
		}
		r.vals = r.vals[:pixels]
		if err := r.integers(src, size); err != nil {
			return err
		}
	}
	if r.quantized {
		if data != nil {
			r.widen(data, wide, pixels)
		}
		r.dequantize(row, number)
		return nil
	}
	if data != nil {
		if r.codec == "GZIP_2" {
			gather(r.raw, data, wide)
		} else {
			swap(r.raw, data, wide)
		}
	} else if err := narrow(r.raw, r.vals, r.bitpix); err != nil {
		return err
	}
	if r.blank.here && r.bitpix > 0 {
		r.reblank(row)
	}
	return nil
}

// allowed says whether numbers of wide bytes may stand for pixels: exactly theirs, unless they are quantised.
func (r *tileReader) allowed(wide, width int) bool {
	if r.quantized {
		return wide == 1 || wide == 2 || wide == 4
	}
	return wide == width
}

// integers decodes into vals.
func (r *tileReader) integers(src []byte, size []int64) error {
	switch r.codec {
	case "RICE_1":
		code, _ := riceFor(r.bytepix)
		if err := rice(r.vals, src, code, r.block); err != nil {
			return err
		}
		switch r.bytepix {
		case 1:
			for i, v := range r.vals {
				r.vals[i] = int32(uint8(v))
			}
		case 2:
			for i, v := range r.vals {
				r.vals[i] = int32(int16(v))
			}
		}
		return nil
	case "PLIO_1":
		return plio(r.vals, src)
	}
	return r.hc.decode(r.vals, src, size, r.smooth)
}

// widen turns big-endian integers into vals; of GZIP_2 they stand byte by byte.
func (r *tileReader) widen(data []byte, wide, pixels int) {
	if r.codec == "GZIP_2" {
		r.raw = room(r.raw, max(len(r.raw), len(data)))
		gather(r.raw[:len(data)], data, wide)
		swap(r.raw[:len(data)], r.raw[:len(data)], wide)
		copy(data, r.raw[:len(data)])
	}
	if cap(r.vals) < pixels {
		r.vals = make([]int32, pixels)
	}
	r.vals = r.vals[:pixels]
	for i := range r.vals {
		switch wide {
		case 1:
			r.vals[i] = int32(data[i])
		case 2:
			r.vals[i] = int32(int16(be.Uint16(data[2*i:])))
		default:
			r.vals[i] = int32(be.Uint32(data[4*i:]))
		}
	}
}

// gather makes little-endian numbers of bytes that stand most significant ones first, then the next ones, and so on.
func gather(dst, src []byte, width int) {
	n := len(src) / width
	switch width {
	case 1:
		copy(dst, src)
	case 2:
		a, b := src[:n], src[n:2*n]
		for i, x := range a {
			le.PutUint16(dst[2*i:], uint16(x)<<8|uint16(b[i]))
		}
	case 4:
		a, b, c, d := src[:n], src[n:2*n], src[2*n:3*n], src[3*n:4*n]
		for i, x := range a {
			le.PutUint32(dst[4*i:], uint32(x)<<24|uint32(b[i])<<16|uint32(c[i])<<8|uint32(d[i]))
		}
	default:
		for k := range width {
			for i, x := range src[k*n : (k+1)*n] {
				dst[i*width+width-1-k] = x
			}
		}
	}
}

// narrow writes integers as numbers of bitpix; one that does not fit is damage.
func narrow(dst []byte, vals []int32, bitpix int) error {
	bad := func(i int) error {
		return corruptf("pixel %d of the tile is %d, which BITPIX %d does not hold", i, vals[i], bitpix)
	}
	switch bitpix {
	case 8:
		for i, v := range vals {
			if uint32(v) > math.MaxUint8 {
				return bad(i)
			}
			dst[i] = byte(v)
		}
	case 16:
		wrong := int32(0)
		for i, v := range vals {
			wrong |= v ^ int32(int16(v))
			le.PutUint16(dst[2*i:], uint16(v))
		}
		if wrong != 0 {
			return bad(slices.IndexFunc(vals, func(v int32) bool { return v != int32(int16(v)) }))
		}
	case 32:
		for i, v := range vals {
			le.PutUint32(dst[4*i:], uint32(v))
		}
	default:
		for i, v := range vals {
			le.PutUint64(dst[8*i:], uint64(int64(v)))
		}
	}
	return nil
}

// integer reads a value of a fixed integer column.
func (c *tileColumn) integer(row []byte) int64 {
	switch b := row[c.at:]; c.form.code {
	case 'B':
		return int64(b[0])
	case 'I':
		return int64(int16(be.Uint16(b)))
	case 'J':
		return int64(int32(be.Uint32(b)))
	default:
		return int64(be.Uint64(b))
	}
}

func (c *tileColumn) real(row []byte) float64 {
	if c.form.code == 'E' {
		return float64(math.Float32frombits(be.Uint32(row[c.at:])))
	}
	return math.Float64frombits(be.Uint64(row[c.at:]))
}

// reblank puts the image's blank where a tile has its own.
func (r *tileReader) reblank(row []byte) {
	from := r.blank.integer(row)
	if !r.hasImageBlank || from == r.imageBlank {
		return
	}
	width := r.bitpix / 8
	for b := r.raw; len(b) >= width; b = b[width:] {
		switch {
		case width == 1 && int64(b[0]) == from:
			b[0] = byte(r.imageBlank)
		case width == 2 && int64(int16(le.Uint16(b))) == from:
			le.PutUint16(b, uint16(r.imageBlank))
		case width == 4 && int64(int32(le.Uint32(b))) == from:
			le.PutUint32(b, uint32(r.imageBlank))
		case width == 8 && int64(le.Uint64(b)) == from:
			le.PutUint64(b, uint64(r.imageBlank))
		}
	}
}

// dequantize turns vals into the floats they stand for.
func (r *tileReader) dequantize(row []byte, number int64) {
	scale, zero := r.scaleAll, r.zeroAll
	if r.scale.here {
		scale = r.scale.real(row)
	}
	if r.zero.here {
		zero = r.zero.real(row)
	}
	q := quantized{scale: scale, zero: zero, blank: r.blankAll, hasBlank: r.hasBlankAll, method: r.dither, random: r.random, row: number + r.seed}
	if r.blank.here {
		q.blank, q.hasBlank = r.blank.integer(row), true
	}
	q.store(r.raw, r.vals, -r.bitpix/8)
}
