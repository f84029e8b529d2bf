package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
)

// errForeign marks pages that are sound but are left to the general Parquet decoder.
var errForeign = errors.New("pages are not of a kind that is read directly")

// maxPageBytes bounds a page, compressed or not: a tensor of the largest size, its levels and its header fit.
const maxPageBytes = 256 << 20

// pageHead is the part of a page header that reading needs. Unlike PageHeader it is filled without taking memory.
type pageHead struct {
	typ                    int32
	raw, stored            int // bytes of the page without its header: decompressed, as stored
	values                 int
	enc                    Encoding
	defEnc, repEnc         Encoding // V1
	defBytes, repBytes     int      // V2
	nulls, rows            int      // V2
	compressed             bool     // V2: the values are
	crc                    uint32
	hasCRC                 bool
	size                   int // bytes of the header
	hasV1, hasV2, hasDicts bool
}

// parse reads the header at the start of b, which may go on.
func (h *pageHead) parse(b []byte) error {
	*h = pageHead{compressed: true}
	if len(b) > MaxPageHeader {
		b = b[:MaxPageHeader]
	}
	r := &thriftReader{b: b}
	var s seen
	id := int16(0)
	for {
		f, t, err := r.next(&id)
		if err != nil {
			return err
		}
		if t == wireStop {
			break
		}
		s.set(f)
		var v int32
		switch f {
		case 1:
			h.typ, err = r.i32(t)
		case 2:
			v, err = r.size32(t)
			h.raw = int(v)
		case 3:
			v, err = r.size32(t)
			h.stored = int(v)
		case 4:
			v, err = r.i32(t)
			h.crc, h.hasCRC = uint32(v), true
		case 5, 7, 8:
			err = h.part(r, f, t)
		default:
			err = r.skip(t, false)
		}
		if err != nil {
			return err
		}
	}
	if err := s.need(r, "a page header", 1, 2, 3); err != nil {
		return err
	}
	h.size = r.pos
	if h.raw > maxPageBytes || h.stored > maxPageBytes {
		return fmt.Errorf("%w: a page of %d bytes (%d stored), at most %d", ErrFormat, h.raw, h.stored, maxPageBytes)
	}
	if h.typ == PageData && !h.hasV1 || h.typ == PageDataV2 && !h.hasV2 || h.typ == PageDictionary && !h.hasDicts {
		return fmt.Errorf("%w: a page header of type %d without the part that describes it", ErrFormat, h.typ)
	}
	if levels := h.defBytes + h.repBytes; h.typ == PageDataV2 && (levels > h.stored || levels > h.raw) {
		return fmt.Errorf("%w: levels of %d bytes in a page of %d", ErrFormat, levels, h.stored)
	}
	return nil
}

// next reads the header of a struct's next field; id carries the number of the one before.
func (r *thriftReader) next(id *int16) (int16, byte, error) {
	b, err := r.byte()
	if err != nil || b == wireStop {
		return 0, wireStop, err
	}
	if d := b >> 4; d != 0 {
		*id += int16(d)
	} else {
		v, err := r.zigzag()
		if err != nil {
			return 0, 0, err
		}
		*id = int16(v)
	}
	return *id, b & 15, nil
}

// part reads the struct of the page's kind.
func (h *pageHead) part(r *thriftReader, kind int16, t byte) error {
	if t != wireStruct {
		return r.bad("wire type %d where a struct belongs", t)
	}
	h.hasV1, h.hasDicts, h.hasV2 = h.hasV1 || kind == 5, h.hasDicts || kind == 7, h.hasV2 || kind == 8
	var s seen
	id := int16(0)
	for {
		f, t, err := r.next(&id)
		if err != nil {
			return err
		}
		if t == wireStop {
			break
		}
		s.set(f)
		var v int32
		switch {
		case f == 1:
			v, err = r.size32(t)
			h.values = int(v)
		case kind == 8 && f == 2:
			v, err = r.size32(t)
			h.nulls = int(v)
		case kind == 8 && f == 3:
			v, err = r.size32(t)
			h.rows = int(v)
		case kind == 8 && f == 4, kind != 8 && f == 2:
			v, err = r.size32(t)
			h.enc = Encoding(v)
		case kind == 8 && f == 5:
			v, err = r.size32(t)
			h.defBytes = int(v)
		case kind == 8 && f == 6:
			v, err = r.size32(t)
			h.repBytes = int(v)
		case kind == 8 && f == 7:
			h.compressed, err = r.bool(t)
		case kind == 5 && f == 3:
			v, err = r.size32(t)
			h.defEnc = Encoding(v)
		case kind == 5 && f == 4:
			v, err = r.size32(t)
			h.repEnc = Encoding(v)
		default:
			err = r.skip(t, false)
		}
		if err != nil {
			return err
		}
	}
	switch kind {
	case 5:
		return s.need(r, "a data page's header", 1, 2, 3, 4)
	case 7:
		return s.need(r, "a dictionary page's header", 1, 2)
	}
	return s.need(r, "a data page's header", 1, 2, 3, 4, 5, 6)
}

// checkCRC compares the page's bytes, header excluded, with the sum in the header, if there is one.
func (h *pageHead) checkCRC(page []byte) error {
	if h.hasCRC && crc32.ChecksumIEEE(page) != h.crc {
		return fmt.Errorf("%w: the page's bytes do not match its CRC", ErrFormat)
	}
	return nil
}

// takeLevels cuts the levels of a V1 page off its decompressed bytes, or of a V2 page off its stored ones.
func (h *pageHead) takeLevels(b []byte, s *shapeLevels) (rep, def, rest []byte, err error) {
	if h.typ == PageDataV2 {
		if h.repBytes+h.defBytes > len(b) {
			return nil, nil, nil, fmt.Errorf("%w: levels of %d bytes in %d", ErrFormat, h.repBytes+h.defBytes, len(b))
		}
		return b[:h.repBytes], b[h.repBytes : h.repBytes+h.defBytes], b[h.repBytes+h.defBytes:], nil
	}
	take := func(maxv int, enc Encoding) (x []byte, err error) {
		if maxv == 0 {
			return nil, nil
		}
		if enc != EncRLE {
			return nil, fmt.Errorf("%w: levels of encoding %d", errForeign, enc)
		}
		if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
			return nil, fmt.Errorf("%w: levels run over the page's end", ErrFormat)
		}
		n := int(binary.LittleEndian.Uint32(b))
		x, b = b[4:4+n], b[4+n:]
		return x, nil
	}
	if rep, err = take(s.maxRep, h.repEnc); err == nil {
		def, err = take(s.maxDef, h.defEnc)
	}
	return rep, def, b, err
}

// decompress fills dst, whose length is the size that the page announces.
func (d *Decoder) decompress(codec Compression, dst, src []byte) (err error) {
	n := 0
	switch codec {
	case CompressNone:
		n = len(src)
		copy(dst, src)
	case CompressZstd:
		var out []byte
		out, err = d.zstd.DecodeAll(src, dst[:0:len(dst)])
		n = len(out)
		if err == nil && n == len(dst) && n > 0 && &out[0] != &dst[0] {
			copy(dst, out)
		}
	case CompressSnappy:
		if n, err = snappy.DecodedLen(src); err == nil && n == len(dst) {
			_, err = snappy.Decode(dst, src)
		}
	case CompressGzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(src)); err == nil {
			if n, err = io.ReadFull(z, dst); err == nil {
				if k, _ := z.Read(make([]byte, 1)); k > 0 {
					n++
				}
			}
		}
	case CompressBrotli, CompressLZ4Raw:
		n, err = decompressForeign(codec, dst, src)
	default:
		return fmt.Errorf("%w: codec %d", errForeign, codec)
	}
	if err != nil {
		return fmt.Errorf("%w: compressed page: %v", ErrFormat, err)
	}
	if n != len(dst) {
		return fmt.Errorf("%w: a page holds %d bytes where its header says %d", ErrFormat, n, len(dst))
	}
	return nil
}

// decompressForeign fills dst by way of codecs that only others write.
func decompressForeign(codec Compression, dst, src []byte) (n int, err error) {
	err = guarded(func() error {
		c, err := compress.GetCodec(compress.Compression(codec))
		if err != nil {
			return err
		}
		if codec == CompressLZ4Raw {
			n = len(c.Decode(dst, src)) // no further than dst reaches
			return nil
		}
		sc, ok := c.(compress.StreamingCodec)
		if !ok {
			return fmt.Errorf("codec %d does not stream", codec)
		}
		r := sc.NewReader(bytes.NewReader(src))
		defer func() { _ = r.Close() }()
		n, err = io.ReadFull(r, dst)
		return err
	})
	return n, err
}

// elemForm says how the elements of a column stand in memory and in Parquet.
type elemForm struct {
	phys  PhysicalType
	width int // bytes of a stored PLAIN element; 0 for bool
	size  int // bytes of an element in memory (for complex numbers: of one float)
}

// widened says whether a stored element is an INT32 of which memory keeps the low bytes.
func (e elemForm) widened() bool { return e.phys == TypeInt32 && e.size < 4 }

// values decodes n elements of a page into dst, n x e.size bytes. dict is the decoded dictionary, e.size bytes each.
func (e elemForm) values(dst, src []byte, n int, enc Encoding, dict []byte) error {
	switch enc {
	case EncPlain:
		return e.plain(dst, src, n)
	case EncRLE:
		if e.phys != TypeBoolean {
			break
		}
		return boolRuns(dst, src, 0, n, n)
	case EncRLEDictionary, EncPlainDictionary:
		if len(src) < 1 || src[0] > 32 {
			return fmt.Errorf("%w: no bit width before dictionary indexes", ErrFormat)
		}
		w, size := int(src[0]), e.size
		entries := len(dict) / size
		return hybridValues(src[1:], w, n, func(at, c, v int, packed []byte) error {
			d := dst[at*size : (at+c)*size]
			if packed == nil {
				if v >= entries {
					return fmt.Errorf("%w: dictionary index %d of %d", ErrFormat, v, entries)
				}
				one := dict[v*size : (v+1)*size]
				for len(d) > 0 {
					d = d[copy(d, one):]
				}
				return nil
			}
			bit := 0
			for i := 0; i < c; i++ {
				v := bitsAt(packed, bit, w)
				bit += w
				if v >= uint64(entries) {
					return fmt.Errorf("%w: dictionary index %d of %d", ErrFormat, v, entries)
				}
				copy(d[i*size:(i+1)*size], dict[int(v)*size:])
			}
			return nil
		})
	case EncByteStreamSplit:
		if e.width == 0 || e.widened() {
			break
		}
		if len(src) < n*e.width {
			return fmt.Errorf("%w: %d bytes for %d values", ErrFormat, len(src), n)
		}
		joinStreams(dst, src[:n*e.width], n, e.width)
		return nil
	}
	return fmt.Errorf("%w: values of encoding %d", errForeign, enc)
}

// part decodes elements [lo, hi) of the n of a page into dst.
func (e elemForm) part(sc *scratch, dst, src []byte, lo, hi, n int, enc Encoding, dict []byte) error {
	switch {
	case lo == 0 && hi == n:
	case enc == EncPlain && e.width > 0 && len(src) >= n*e.width:
		return e.plain(dst, src[lo*e.width:hi*e.width], hi-lo)
	case enc == EncRLE && e.phys == TypeBoolean:
		return boolRuns(dst, src, lo, hi, n)
	default:
		all := grown(&sc.vals, n*e.size)
		if err := e.values(all, src, n, enc, dict); err != nil {
			return err
		}
		copy(dst, all[lo*e.size:hi*e.size])
		return nil
	}
	return e.values(dst, src, n, enc, dict)
}

// boolRuns decodes bools [lo, hi) of n that are stored as runs.
func boolRuns(dst, src []byte, lo, hi, n int) error {
	if len(src) < 4 || uint64(binary.LittleEndian.Uint32(src)) > uint64(len(src)-4) {
		return fmt.Errorf("%w: runs of bools go over the page's end", ErrFormat)
	}
	return hybridValues(src[4:4+binary.LittleEndian.Uint32(src)], 1, n, func(at, c, v int, packed []byte) error {
		a, z := max(at, lo), min(at+c, hi)
		if a >= z {
			return nil
		}
		d := dst[a-lo : z-lo]
		if packed == nil {
			Fill(d, byte(v))
			return nil
		}
		packed = packed[(a-at)/8:]
		if k := (a - at) % 8; k > 0 { // the first group is begun in its middle
			m := min(8-k, len(d))
			for i := range m {
				d[i] = packed[0] >> (k + i) & 1
			}
			d, packed = d[m:], packed[1:]
		}
		unpackBits(d, packed)
		return nil
	})
}

func (e elemForm) plain(dst, src []byte, n int) error {
	if e.phys == TypeBoolean {
		if len(src) < (n+7)/8 {
			return fmt.Errorf("%w: %d bytes for %d bools", ErrFormat, len(src), n)
		}
		unpackBits(dst[:n], src)
		return nil
	}
	if len(src) < n*e.width {
		return fmt.Errorf("%w: %d bytes for %d values of %d", ErrFormat, len(src), n, e.width)
	}
	switch {
	case !e.widened():
		copy(dst, src[:n*e.width])
	case e.size == 1:
		for i := range dst[:n] {
			dst[i] = src[4*i]
		}
	default:
		for i := 0; i < n; i++ {
			dst[2*i], dst[2*i+1] = src[4*i], src[4*i+1]
		}
	}
	return nil
}

// Fill sets every byte of dst to v, at the speed of copy.
func Fill(dst []byte, v byte) {
	if v == 0 {
		clear(dst)
		return
	}
	word := uint64(v) * 0x0101010101010101
	n := 0
	for ; n+8 <= len(dst) && n < 64; n += 8 {
		binary.LittleEndian.PutUint64(dst[n:], word)
	}
	if n < 64 {
		for ; n < len(dst); n++ {
			dst[n] = v
		}
		return
	}
	for ; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// unpackBits writes the low bits of src, least significant first, as bytes of 0 or 1.
func unpackBits(dst, src []byte) {
	for len(dst) >= 8 {
		// Each bit lands in the low bit of a byte of its own.
		v := uint64(src[0])
		v = (v * 0x0101010101010101) & 0x8040201008040201
		v = (v + 0x7f7f7f7f7f7f7f7f) >> 7 & 0x0101010101010101
		binary.LittleEndian.PutUint64(dst, v)
		dst, src = dst[8:], src[1:]
	}
	for i := range dst {
		dst[i] = src[0] >> i & 1
	}
}

// bitsAt is the value of w <= 32 bits that starts at a bit of b.
func bitsAt(b []byte, bit, w int) uint64 {
	at := bit >> 3
	var v uint64
	if at+8 <= len(b) {
		v = binary.LittleEndian.Uint64(b[at:])
	} else {
		for i := at; i < len(b); i++ {
			v |= uint64(b[i]) << (8 * (i - at))
		}
	}
	return v >> (bit & 7) & (1<<w - 1)
}

// hybridValues walks n values of the RLE/bit-packed hybrid of width w <= 32. f gets each run: c values from at on, all v,
// or packed.
func hybridValues(b []byte, w, n int, f func(at, c, v int, packed []byte) error) error {
	bytesPer := (w + 7) / 8
	for i := 0; i < n; {
		c, packed, rest, err := hybridRun(b)
		if err != nil {
			return err
		}
		b = rest
		if packed {
			size := c / 8 * w
			if size > len(b) {
				// The last group may be cut where its values end.
				if c-8 >= n-i || ((n-i)*w+7)/8 > len(b) {
					return fmt.Errorf("%w: packed values end early", ErrFormat)
				}
				size = len(b)
			}
			c = min(c, n-i)
			if err := f(i, c, 0, b[:size]); err != nil {
				return err
			}
			b = b[size:]
			i += c
			continue
		}
		if len(b) < bytesPer {
			return fmt.Errorf("%w: runs end early", ErrFormat)
		}
		v := 0
		for k := 0; k < bytesPer; k++ {
			v |= int(b[k]) << (8 * k)
		}
		if w < 32 && v>>w != 0 {
			return fmt.Errorf("%w: value %d in a run of %d bits", ErrFormat, v, w)
		}
		b = b[bytesPer:]
		c = min(c, n-i)
		if c > 0 {
			if err := f(i, c, v, nil); err != nil {
				return err
			}
		}
		i += c
	}
	return nil
}

// identityEntries is the number of entries of an identity dictionary of elements of size bytes.
func identityEntries(size int) int { return 1 << (8 * size) }

// checkIdentity says whether the INT32 entries of a dictionary hold every value in the order of its bit pattern.
func checkIdentity(dict []byte, size int, signed bool) bool {
	if len(dict) != 4*identityEntries(size) {
		return false
	}
	for i := 0; i < len(dict)/4; i++ {
		want := uint32(i)
		if signed && size == 1 {
			want = uint32(int32(int8(i)))
		} else if signed {
			want = uint32(int32(int16(i)))
		}
		if binary.LittleEndian.Uint32(dict[4*i:]) != want {
			return false
		}
	}
	return true
}

// identityRun is the bytes before the values of an identity page: bit width and the header of the one packed run.
func identityRun(buf []byte, n, size int) []byte {
	buf = append(buf[:0], byte(8*size))
	return binary.AppendUvarint(buf, uint64((n+7)/8)<<1|1)
}

func widthOf(maxv int) int { return bits.Len(uint(maxv)) }
