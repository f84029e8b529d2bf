package parquet

import (
	"encoding/binary"
	"slices"

	"astropile/internal/shard"
)

// hybrid decodes Parquet's mix of runs and bit-packed values: levels, dictionary indexes, bools.
type hybrid struct {
	b      []byte // what follows the open run
	width  int    // bits of a value, at most 32
	run    int    // values left of a run
	value  uint32 // that the run repeats
	packed []byte // the open bit-packed run, zero-padded by nothing: it may end the input
	at     int    // next value of it
	n      int    // values it has
}

func newHybrid(b []byte, width int) hybrid { return hybrid{b: b, width: width} }

// open reads the next run's header.
func (h *hybrid) open() error {
	for h.run == 0 && h.at == h.n {
		x, k := binary.Uvarint(h.b)
		if k <= 0 || x>>1 > 1<<31-1 {
			return damaged("runs of levels or indexes end early, or are too long")
		}
		h.b = h.b[k:]
		if x&1 == 0 {
			size := (h.width + 7) / 8
			if len(h.b) < size {
				return damaged("a run of levels or indexes ends early")
			}
			h.value = 0
			for i := range size {
				h.value |= uint32(h.b[i]) << (8 * i)
			}
			if uint64(h.value)>>h.width != 0 {
				return damaged("a run of %d, in %d bits", h.value, h.width)
			}
			h.b, h.run = h.b[size:], int(x>>1)
			continue
		}
		groups := int(x >> 1)
		bytes := min(groups*h.width, len(h.b)) // some writers leave out what fills the last group
		h.packed, h.b = h.b[:bytes], h.b[bytes:]
		h.at, h.n = 0, groups*8
		if h.width > 0 {
			h.n = min(h.n, bytes*8/h.width)
		}
		if groups > 0 && h.n == 0 {
			return damaged("a bit-packed run ends early")
		}
	}
	return nil
}

// unpackedBits are the eight values of one bit that a byte packs.
func unpackedBits(b byte) uint64 {
	x := uint64(b)
	// Spread the bits so that bit i is the lowest of byte i.
	x = (x | x<<28) & 0x0000000f0000000f
	x = (x | x<<14) & 0x0003000300030003
	x = (x | x<<7) & 0x0101010101010101
	return x
}

// small fills dst with values of at most 8 bits and says whether all of them are want.
func (h *hybrid) small(dst []byte, want byte) (all bool, err error) {
	all = true
	for len(dst) > 0 {
		if err := h.open(); err != nil {
			return false, err
		}
		if h.run > 0 {
			k := min(h.run, len(dst))
			shard.Fill(dst[:k], byte(h.value))
			all = all && h.value == uint32(want)
			h.run -= k
			dst = dst[k:]
			continue
		}
		k := min(h.n-h.at, len(dst))
		i := 0
		if h.width == 1 && h.at%8 == 0 {
			for ; i+8 <= k; i += 8 {
				binary.LittleEndian.PutUint64(dst[i:], unpackedBits(h.packed[(h.at+i)>>3]))
			}
		}
		for ; i < k; i++ {
			dst[i] = byte(h.bitsAt(h.at + i))
		}
		if all {
			all = !slices.ContainsFunc(dst[:k], func(b byte) bool { return b != want })
		}
		h.at += k
		dst = dst[k:]
	}
	return all, nil
}

func (h *hybrid) bitsAt(i int) uint32 {
	at := i * h.width
	lo := at >> 3
	var x uint64
	if lo+8 <= len(h.packed) {
		x = binary.LittleEndian.Uint64(h.packed[lo:])
	} else {
		for k, b := range h.packed[min(lo, len(h.packed)):] {
			x |= uint64(b) << (8 * k)
		}
	}
	return uint32(x >> (at & 7) & (1<<h.width - 1))
}

// words fills dst with values of up to 32 bits.
func (h *hybrid) words(dst []uint32) error {
	for len(dst) > 0 {
		if err := h.open(); err != nil {
			return err
		}
		if h.run > 0 {
			k := min(h.run, len(dst))
			for i := range dst[:k] {
				dst[i] = h.value
			}
			h.run -= k
			dst = dst[k:]
			continue
		}
		k := min(h.n-h.at, len(dst))
		i, w, mask := 0, h.width, uint64(1)<<h.width-1
		for ; i < k; i++ {
			at := (h.at + i) * w
			lo := at >> 3
			if lo+8 > len(h.packed) {
				break
			}
			dst[i] = uint32(binary.LittleEndian.Uint64(h.packed[lo:]) >> (at & 7) & mask)
		}
		for ; i < k; i++ {
			dst[i] = h.bitsAt(h.at + i)
		}
		h.at += k
		dst = dst[k:]
	}
	return nil
}
