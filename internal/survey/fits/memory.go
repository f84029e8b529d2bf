package fits

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"astropile/internal/catalog"
)

// DecodeImage decodes the first image of a FITS file held in memory, as Decoder does; the results are the caller's.
func DecodeImage(raw []byte, maxBytes int64) (dt catalog.DType, shape []int, data []byte, err error) {
	var d Decoder
	return d.Decode(raw, maxBytes)
}

// Decoder decodes FITS files held in memory (cutouts of alerts), one after another. Its zero value is ready; it keeps its
// buffers, and is for one goroutine at a time.
type Decoder struct {
	gz       gunzip
	unpacked []byte
	out      []byte
	im       Image
}

// unpackedSlack is what a gzipped file may hold beside twice the image that is allowed: headers and other images.
const unpackedSlack = 1 << 20

// Decode decodes the first HDU that has an image with pixels, compressed or not: type, shape in C order, and packed
// little-endian values, which stay until the next call. raw may be gzipped (one member). Headers, and whatever stands behind
// that image, are not looked at further. An image of over maxBytes is refused (ErrTooLarge), and so is a gzip stream that
// holds more than twice that and 1 MiB. Errors name no file, which the caller knows.
func (d *Decoder) Decode(raw []byte, maxBytes int64) (dt catalog.DType, shape []int, data []byte, err error) {
	if len(raw) >= 2 && raw[0] == gzipID1 && raw[1] == gzipID2 {
		n, err := gzipSize(raw)
		if err != nil {
			return "", nil, nil, err
		}
		if n > 2*maxBytes+unpackedSlack {
			return "", nil, nil, fmt.Errorf("%w: a gzip stream of %d bytes, for an image of at most %d", ErrTooLarge, n, maxBytes)
		}
		d.unpacked = room(d.unpacked, int(n))
		if err := d.gz.into(d.unpacked, raw); err != nil {
			return "", nil, nil, err
		}
		raw = d.unpacked
	}
	at, plain, err := d.plain(raw)
	if err != nil {
		return "", nil, nil, err
	}
	if !plain {
		return d.any(raw, maxBytes)
	}
	im := &d.im
	if im.Bytes() > maxBytes {
		return "", nil, nil, im.tooLarge(maxBytes)
	}
	width := im.s.raw.Size()
	if size := im.elems * int64(width); size > int64(len(raw)-at) {
		return "", nil, nil, corruptf("the file is truncated: the image takes %d bytes, %d are left", size, len(raw)-at)
	}
	src := raw[at : at+int(im.elems)*width]
	d.out = room(d.out, int(im.Bytes()))
	if im.s.float && width != im.s.out.Size() {
		turned := make([]byte, len(src))
		swap(turned, src, width)
		im.s.apply(d.out, turned)
	} else {
		swap(d.out, src, width)
		im.s.apply(d.out, d.out)
	}
	return im.DType, im.Shape, d.out, nil
}

func (im *Image) tooLarge(maxBytes int64) error {
	return fmt.Errorf("%w: an image of %v %s takes %d bytes, at most %d are allowed", ErrTooLarge, im.Shape, im.DType, im.Bytes(), maxBytes)
}

// any decodes what is not the plain case.
func (d *Decoder) any(raw []byte, maxBytes int64) (catalog.DType, []int, []byte, error) {
	f := &File{r: bytes.NewReader(raw), name: "image", size: int64(len(raw))}
	if err := f.scan((*HDU).HasImage); err != nil {
		return "", nil, nil, err
	}
	h := f.hdus[len(f.hdus)-1]
	if !h.HasImage() {
		return "", nil, nil, fmt.Errorf("%w: no image in %d HDUs", ErrUnsupported, len(f.hdus))
	}
	im, err := h.Image()
	if err != nil {
		return "", nil, nil, err
	}
	if im.Bytes() > maxBytes {
		return "", nil, nil, im.tooLarge(maxBytes)
	}
	d.out = room(d.out, int(im.Bytes()))
	if err := im.Read(context.Background(), d.out); err != nil {
		return "", nil, nil, err
	}
	return im.DType, im.Shape, d.out, nil
}

// wordOf is a keyword as the number that its 8 bytes are.
func wordOf(keyword string) uint64 {
	b := [keywordSize]byte{' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '}
	copy(b[:], keyword)
	return be.Uint64(b[:])
}

var (
	wordEnd      = wordOf("END")
	wordBitpix   = wordOf("BITPIX")
	wordNaxis    = wordOf("NAXIS")
	wordNaxisN   = wordOf("NAXIS\x00") >> 24 << 24
	wordBscale   = wordOf("BSCALE")
	wordBzero    = wordOf("BZERO")
	wordBlank    = wordOf("BLANK")
	wordGroups   = wordOf("GROUPS")
	wordDatasum  = wordOf("DATASUM")
	wordChecksum = wordOf("CHECKSUM")
)

// plain reads a primary header that says no more than what an image is, into d.im, and gives the byte where the data begin.
// Everything else is left to the whole reader: no image in the primary, checksums, keywords that stand twice.
func (d *Decoder) plain(raw []byte) (at int, ok bool, err error) {
	if len(raw) < cardSize || !bytes.HasPrefix(raw, []byte("SIMPLE  =")) {
		return 0, false, nil
	}
	if c, err := parseCard(raw[:cardSize], 0); err != nil || c.Kind != Bool || !c.Bool {
		return 0, false, nil
	}
	const most = 8
	var axes [most]int64
	var seen [most]bool
	bitpix, naxis := int64(0), int64(-1)
	scale, zero, blank := 1.0, 0.0, int64(0)
	hasScale, hasZero, hasBlank := false, false, false
	for p := cardSize; ; p += cardSize {
		if p+cardSize > len(raw) {
			return 0, false, corruptf("the file is truncated: no END in the header")
		}
		b := raw[p : p+cardSize]
		word := be.Uint64(b)
		n := 0
		switch {
		case word == wordEnd:
			if !bytes.Equal(b[:cardSize], endRecord) {
				return 0, false, nil
			}
			if naxis < 1 || naxis > most || bitpix == 0 {
				return 0, false, nil
			}
			for i := range naxis {
				if !seen[i] || axes[i] == 0 {
					return 0, false, nil
				}
			}
			d.im = Image{Shape: d.im.Shape[:0]}
			if err := d.im.size(axes[:naxis]); err != nil {
				return 0, false, err
			}
			d.im.scaled(int(bitpix), scale, zero, blank, hasBlank)
			return (p + cardSize + blockSize - 1) / blockSize * blockSize, true, nil
		case word == wordGroups, word == wordDatasum, word == wordChecksum:
			return 0, false, nil
		case word == wordBitpix, word == wordNaxis, word == wordBscale, word == wordBzero, word == wordBlank:
		case word&^0xffffff == wordNaxisN && b[5] >= '1' && b[5] <= '8' && b[6] == ' ' && b[7] == ' ':
			n = int(b[5] - '0')
		default:
			// A keyword of this image that was damaged must not pass for one that does not matter: the whole reader judges.
			if !likeKeyword(b[:8]) {
				return 0, false, nil
			}
			continue
		}
		c, err := parseCard(b, int64(p))
		if err != nil {
			return 0, false, err
		}
		again := false
		switch {
		case word == wordBscale:
			again, scale, hasScale = hasScale, c.Float, true
		case word == wordBzero:
			again, zero, hasZero = hasZero, c.Float, true
		case c.Kind != Int || c.Int < math.MinInt32 || c.Int > math.MaxInt32:
			return 0, false, nil
		case word == wordBlank:
			again, blank, hasBlank = hasBlank, c.Int, true
		case word == wordBitpix:
			again, bitpix = bitpix != 0, c.Int
			if c.Int != 8 && c.Int != 16 && c.Int != 32 && c.Int != 64 && c.Int != -32 && c.Int != -64 {
				return 0, false, nil
			}
		case n > 0:
			again, axes[n-1], seen[n-1] = seen[n-1], c.Int, true
			again = again || c.Int < 0
		default:
			again, naxis = naxis >= 0, c.Int
		}
		if again || c.Kind != Int && c.Kind != Float && c.Kind != BigInt {
			return 0, false, nil
		}
	}
}

// likeKeyword says whether eight bytes are of those that keywords are made of.
func likeKeyword(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
