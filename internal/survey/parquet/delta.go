package parquet

import (
	"encoding/binary"
	"math/bits"
)

// maxDeltaValues bounds the values of a delta-encoded page, which are decoded together.
const maxDeltaValues = 1 << 24

// deltaBinary decodes DELTA_BINARY_PACKED: the integers, and the bytes that follow them.
func deltaBinary(b []byte, limit int) ([]int64, []byte, error) {
	next := func() uint64 {
		x, k := binary.Uvarint(b)
		if k <= 0 {
			b = nil
			return 1 << 63
		}
		b = b[k:]
		return x
	}
	block, minis, total := next(), next(), next()
	first, k := binary.Varint(b)
	if k <= 0 || block == 0 || block > 1<<20 || block%128 != 0 || minis == 0 || minis > block/32 || block%minis != 0 || block/minis%32 != 0 {
		return nil, nil, damaged("the header of delta-encoded values makes no sense")
	}
	if total > uint64(min(limit, maxDeltaValues)) {
		return nil, nil, damaged("%d delta-encoded values in a page, at most %d", total, min(limit, maxDeltaValues))
	}
	b = b[k:]
	if total == 0 {
		return nil, b, nil
	}
	per := int(block / minis)
	out := make([]int64, 1, min(int(total), 1<<16))
	out[0] = first
	last := first
	for len(out) < int(total) {
		low, k := binary.Varint(b)
		if k <= 0 || len(b)-k < int(minis) {
			return nil, nil, damaged("delta-encoded values end early")
		}
		widths := b[k : k+int(minis)]
		b = b[k+int(minis):]
		for _, w := range widths {
			if len(out) >= int(total) {
				break
			}
			if w > 64 {
				return nil, nil, damaged("deltas of %d bits", w)
			}
			size := per * int(w) / 8
			if len(b) < size {
				return nil, nil, damaged("delta-encoded values end early")
			}
			for i := range min(per, int(total)-len(out)) {
				last += low + int64(wideBits(b[:size], i*int(w), int(w)))
				out = append(out, last)
			}
			b = b[size:]
		}
	}
	return out, b, nil
}

// wideBits is the value of w <= 64 bits at bit at.
func wideBits(b []byte, at, w int) uint64 {
	if w == 0 {
		return 0
	}
	lo, shift := at>>3, at&7
	var x, hi uint64
	if lo+8 <= len(b) {
		x = binary.LittleEndian.Uint64(b[lo:])
		if shift+w > 64 {
			hi = uint64(b[lo+8])
		}
	} else {
		for k, v := range b[lo:] {
			x |= uint64(v) << (8 * k)
		}
	}
	x = x>>shift | hi<<(64-shift)
	return x & (^uint64(0) >> (64 - w))
}

// deltaFixed decodes DELTA_BINARY_PACKED to integers of 4 or 8 bytes.
func deltaFixed(b []byte, width, limit int) ([]byte, error) {
	v, _, err := deltaBinary(b, limit)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(v)*width)
	for _, x := range v {
		if width == 4 {
			out = binary.LittleEndian.AppendUint32(out, uint32(x))
		} else {
			out = binary.LittleEndian.AppendUint64(out, uint64(x))
		}
	}
	return out, nil
}

// texts are byte arrays one after the other.
type texts struct {
	data []byte
	off  []int64 // one more than there are
}

// deltaLengths decodes DELTA_LENGTH_BYTE_ARRAY.
func deltaLengths(b []byte, limit int) (texts, error) {
	v, rest, err := deltaBinary(b, limit)
	if err != nil {
		return texts{}, err
	}
	t := texts{data: rest, off: make([]int64, 1, len(v)+1)}
	at := int64(0)
	for _, n := range v {
		if n < 0 || n > int64(len(rest))-at {
			return texts{}, damaged("a text runs over its page's end")
		}
		at += n
		t.off = append(t.off, at)
	}
	return t, nil
}

// deltaBytes decodes DELTA_BYTE_ARRAY.
func deltaBytes(b []byte, limit int) (texts, error) {
	prefix, rest, err := deltaBinary(b, limit)
	if err != nil {
		return texts{}, err
	}
	suffix, err := deltaLengths(rest, limit)
	if err != nil {
		return texts{}, err
	}
	if len(prefix) != len(suffix.off)-1 && len(prefix)+len(suffix.off) != 0 {
		return texts{}, damaged("%d prefixes and %d suffixes", len(prefix), len(suffix.off)-1)
	}
	t := texts{off: make([]int64, 1, len(prefix)+1)}
	last := []byte{}
	for i, p := range prefix {
		if p < 0 || p > int64(len(last)) {
			return texts{}, damaged("a text repeats %d bytes of one of %d", p, len(last))
		}
		s := suffix.data[suffix.off[i]:suffix.off[i+1]]
		if len(t.data)+int(p)+len(s) > maxPage {
			return texts{}, damaged("a page of more than %d MiB of text", maxPage>>20)
		}
		at := len(t.data)
		t.data = append(append(t.data, last[:p]...), s...)
		last = t.data[at:]
		t.off = append(t.off, int64(len(t.data)))
	}
	return t, nil
}

// joinStreams undoes BYTE_STREAM_SPLIT of elements of the given size.
func joinStreams(b []byte, size int) ([]byte, error) {
	if len(b)%size != 0 {
		return nil, damaged("%d bytes are split into %d streams", len(b), size)
	}
	n := len(b) / size
	out := make([]byte, len(b))
	switch size {
	case 4:
		s0, s1, s2, s3 := b[:n], b[n:2*n], b[2*n:3*n], b[3*n:4*n]
		for i := range n {
			binary.LittleEndian.PutUint32(out[4*i:], uint32(s0[i])|uint32(s1[i])<<8|uint32(s2[i])<<16|uint32(s3[i])<<24)
		}
	default:
		for k := range size {
			s := b[k*n : (k+1)*n]
			for i, v := range s {
				out[i*size+k] = v
			}
		}
	}
	return out, nil
}

// levelWidth is how many bits hold the levels 0 to n.
func levelWidth(n int) int { return bits.Len(uint(n)) }
