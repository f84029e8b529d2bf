package fits

import "math/bits"

// swap writes src, big-endian elements of width bytes, to dst in little-endian order; they may be the same bytes.
func swap(dst, src []byte, width int) {
	switch width {
	case 1:
		copy(dst, src)
	case 2:
		swap16(dst, src)
	case 4:
		swap32(dst, src)
	case 8:
		swap64(dst, src)
	}
}

func swap16(dst, src []byte) {
	const low = 0x00ff00ff00ff00ff
	dst = dst[:len(src)]
	for len(src) >= 16 {
		a, b := le.Uint64(src), le.Uint64(src[8:])
		le.PutUint64(dst, a&low<<8|a>>8&low)
		le.PutUint64(dst[8:], b&low<<8|b>>8&low)
		src, dst = src[16:], dst[16:]
	}
	for len(src) >= 2 {
		le.PutUint16(dst, be.Uint16(src))
		src, dst = src[2:], dst[2:]
	}
}

func swap32(dst, src []byte) {
	dst = dst[:len(src)]
	for len(src) >= 32 {
		// Two elements are reversed at once and change places.
		a, b, c, d := be.Uint64(src), be.Uint64(src[8:]), be.Uint64(src[16:]), be.Uint64(src[24:])
		le.PutUint64(dst, bits.RotateLeft64(a, 32))
		le.PutUint64(dst[8:], bits.RotateLeft64(b, 32))
		le.PutUint64(dst[16:], bits.RotateLeft64(c, 32))
		le.PutUint64(dst[24:], bits.RotateLeft64(d, 32))
		src, dst = src[32:], dst[32:]
	}
	for len(src) >= 4 {
		le.PutUint32(dst, be.Uint32(src))
		src, dst = src[4:], dst[4:]
	}
}

func swap64(dst, src []byte) {
	dst = dst[:len(src)]
	for len(src) >= 32 {
		a, b, c, d := be.Uint64(src), be.Uint64(src[8:]), be.Uint64(src[16:]), be.Uint64(src[24:])
		le.PutUint64(dst, a)
		le.PutUint64(dst[8:], b)
		le.PutUint64(dst[16:], c)
		le.PutUint64(dst[24:], d)
		src, dst = src[32:], dst[32:]
	}
	for len(src) >= 8 {
		le.PutUint64(dst, be.Uint64(src))
		src, dst = src[8:], dst[8:]
	}
}

// flipSigns inverts the highest bit of little-endian elements: what adds or takes off half their range.
func flipSigns(b []byte, width int) {
	mask := map[int]uint64{1: 0x8080808080808080, 2: 0x8000800080008000, 4: 0x8000000080000000, 8: 1 << 63}[width]
	for len(b) >= 8 {
		le.PutUint64(b, le.Uint64(b)^mask)
		b = b[8:]
	}
	for i := width - 1; i < len(b); i += width {
		b[i] ^= 0x80
	}
}
