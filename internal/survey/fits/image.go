package fits

import (
	"context"
	"fmt"
	"math"
	"slices"

	"astropile/internal/catalog"
)

// swapChunk is how much is read and turned at a time: what stays in a core's cache.
const swapChunk = 256 << 10

// Image is the array of an HDU.
type Image struct {
	DType catalog.DType
	Shape []int  // C order: NAXISn first, NAXIS1 last
	Note  string // what a reader should know: BLANK pixels of integers; else empty

	h     *HDU
	s     scaling
	tiles *tiling // of a compressed image
	elems int64
}

// Image describes the HDU's array, tile-compressed or not. Numbers with BZERO of the unsigned conventions (and -128 of
// bytes) are uint16, uint32, uint64 and int8; with any other BSCALE or BZERO they are float32 if they have 8 or 16 bits or
// are float32, else float64, computed in that type as scale and then offset, and BLANK is NaN. Where an HDU holds no array,
// or an empty one, the error wraps ErrUnsupported.
func (h *HDU) Image() (*Image, error) {
	im, err := h.image()
	if err != nil {
		return nil, h.fail(place{row: -1, at: h.head}, err)
	}
	return im, nil
}

func (h *HDU) image() (*Image, error) {
	im := &Image{h: h}
	axes, bitpix := h.axes, h.bitpix
	switch h.Kind {
	case ImageHDU:
	case Compressed:
		t, err := h.newTiling()
		if err != nil {
			return nil, err
		}
		im.tiles, axes, bitpix = t, t.axes, t.bitpix
	default:
		return nil, unsupportedf("an image is asked for, this is %s", h.what())
	}
	if err := im.size(axes); err != nil {
		return nil, err
	}
	scale, zero := 1.0, 0.0
	if v, ok, err := h.header.Float("BSCALE"); err != nil {
		return nil, err
	} else if ok {
		scale = v
	}
	if v, ok, err := h.header.Float("BZERO"); err != nil {
		return nil, err
	} else if ok {
		zero = v
	}
	blank, hasBlank, err := int64(0), false, error(nil)
	if bitpix > 0 {
		if blank, hasBlank, err = h.header.Int("BLANK"); err != nil {
			return nil, err
		}
	}
	im.scaled(bitpix, scale, zero, blank, hasBlank)
	return im, nil
}

// size takes the axes, NAXIS1 first.
func (im *Image) size(axes []int64) error {
	im.elems = 1
	for _, n := range slices.Backward(axes) {
		if n > math.MaxInt32 {
			return fmt.Errorf("%w: an axis of %d pixels", ErrTooLarge, n)
		}
		var ok bool
		if im.elems, ok = mul(im.elems, n); !ok || im.elems > 1<<58 {
			return corruptf("the axes %v multiply to more than a file can hold", axes)
		}
		im.Shape = append(im.Shape, int(n))
	}
	if im.elems == 0 || len(axes) == 0 {
		return unsupportedf("the image is empty")
	}
	return nil
}

// scaled decides on the type.
func (im *Image) scaled(bitpix int, scale, zero float64, blank int64, hasBlank bool) {
	im.s = newScaling(rawType(bitpix), scale, zero, imageFloat)
	im.DType = im.s.out
	if bitpix > 0 {
		im.s.blank, im.s.hasNo = blank, hasBlank
		if hasBlank && !im.s.float {
			im.Note = fmt.Sprintf("pixels of %d in the file (BLANK) have no value; they stay integers", blank)
		}
	}
}

// Bytes is the size of the array in memory.
func (im *Image) Bytes() int64 { return im.elems * int64(im.DType.Size()) }

// Read reads the whole array into dst, of exactly Bytes bytes, packed, little-endian, in C order. It verifies the HDU's
// checksums first, once. Its own memory is one chunk, or of a compressed image one tile, thrice.
func (im *Image) Read(ctx context.Context, dst []byte) error {
	if int64(len(dst)) != im.Bytes() {
		return im.h.fail(nowhere, fmt.Errorf("%w: the image takes %d bytes, the buffer has %d", ErrTooLarge, im.Bytes(), len(dst)))
	}
	if err := im.h.verify(ctx); err != nil {
		return err
	}
	if im.tiles != nil {
		return im.tiles.read(ctx, im, dst)
	}
	width, wide := im.s.raw.Size(), im.s.out.Size()
	chunk := swapChunk / width
	var scratch []byte
	if im.s.float && width != wide {
		scratch = make([]byte, chunk*width)
	}
	for i := int64(0); i < im.elems; i += int64(chunk) {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := int(min(int64(chunk), im.elems-i))
		out := dst[int(i)*wide : (int(i)+n)*wide]
		raw := out
		if scratch != nil {
			raw = scratch[:n*width]
		}
		at := im.h.data + i*int64(width)
		if err := im.h.f.readAt(raw, at); err != nil {
			return im.h.fail(place{row: -1, at: at}, err)
		}
		swap(raw, raw, width)
		im.s.apply(out, raw)
	}
	return nil
}
