package shard

import (
	"encoding/binary"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// zstdEncoder compresses pages at level 1, one at a time, the same on every machine.
func zstdEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(4<<20), zstd.WithLowerEncoderMem(false))
}

// splitStreams appends the bytes of elements of the given size as Parquet's BYTE_STREAM_SPLIT: all first bytes, then
// all second bytes, and so on.
func splitStreams(dst, values []byte, size int) []byte {
	n := len(values) / size
	at := len(dst)
	dst = append(dst, values[:n*size]...)
	out := dst[at:]
	switch size {
	case 4:
		a, b, c, d := out[:n], out[n:2*n], out[2*n:3*n], out[3*n:4*n]
		for i := range a {
			v := binary.LittleEndian.Uint32(values[4*i:])
			a[i], b[i], c[i], d[i] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		}
	default:
		for k := range size {
			s := out[k*n : (k+1)*n]
			for i := range s {
				s[i] = values[i*size+k]
			}
		}
	}
	return dst
}

// widen appends 8- or 16-bit integers as 32-bit ones, the sign kept where they have one.
func widen(dst, values []byte, size int, signed bool) []byte {
	for i := 0; i+size <= len(values); i += size {
		var v uint32
		switch {
		case size == 1 && signed:
			v = uint32(int32(int8(values[i])))
		case size == 1:
			v = uint32(values[i])
		case signed:
			v = uint32(int32(int16(binary.LittleEndian.Uint16(values[i:]))))
		default:
			v = uint32(binary.LittleEndian.Uint16(values[i:]))
		}
		dst = binary.LittleEndian.AppendUint32(dst, v)
	}
	return dst
}

// identityDictionary is the dictionary page of an integer type of 1 or 2 bytes: every value, in the order of its bits.
func identityDictionary(size int, signed bool) []byte {
	n := 1 << (8 * size)
	raw := make([]byte, 0, n*size)
	for i := range n {
		if size == 1 {
			raw = append(raw, byte(i))
		} else {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(i))
		}
	}
	return widen(make([]byte, 0, 4*n), raw, size, signed)
}

// appendRun appends a run of the hybrid encoding: n times v. Values take one byte, for widths up to 8 bits.
func appendRun(b []byte, n int, v byte) []byte {
	return append(binary.AppendUvarint(b, uint64(n)<<1), v)
}

// appendPacked appends values of the given width as one bit-packed run of the hybrid encoding, the last group of
// eight filled with zeros.
func appendPacked(b []byte, n, width int, value func(i int) byte) []byte {
	groups := (n + 7) / 8
	b = binary.AppendUvarint(b, uint64(groups)<<1|1)
	var acc uint64
	have := 0
	for i := range groups * 8 {
		if i < n {
			acc |= uint64(value(i)) << have
		}
		for have += width; have >= 8; have -= 8 {
			b = append(b, byte(acc))
			acc >>= 8
		}
	}
	return b
}

// minBoolRun is the shortest run of equal bools that is cheaper as a run than within packed groups: a run costs up to
// four bytes and interrupts the packed ones around it.
const minBoolRun = 64

// appendBools appends bools (bytes of 0 or 1) in the hybrid encoding of width 1: long runs as runs, else packed.
func appendBools(b, v []byte) []byte {
	packed := 0 // start of what waits to be packed
	flush := func(end int) {
		if end > packed {
			s := v[packed:end]
			b = appendPacked(b, len(s), 1, func(i int) byte { return s[i] & 1 })
		}
	}
	for i := 0; i < len(v); {
		j := i + 1
		for j < len(v) && v[j]&1 == v[i]&1 {
			j++
		}
		// Packed groups before the run are whole: the run gives them what they lack.
		lo := packed + (i-packed+7)/8*8
		if j-lo >= minBoolRun {
			flush(lo)
			b = appendRun(b, j-lo, v[i]&1)
			packed = j
		}
		i = j
	}
	flush(len(v))
	return b
}

// bitWidth is how many bits hold the levels 0 to n.
func bitWidth(n int) int { return bits.Len(uint(n)) }
