package shard

import "hash/crc32"

// A page's checksum covers its levels and its values, and how the levels are cut decides where the values stand. So
// the values' checksum is computed once and joined to that of each cut that is tried.

// crcShift is a linear map on CRC-32 registers: what appending a number of bytes does to the checksum before them.
type crcShift [32]uint32

func (m *crcShift) apply(crc uint32) uint32 {
	var sum uint32
	for i := 0; crc != 0; i, crc = i+1, crc>>1 {
		if crc&1 != 0 {
			sum ^= m[i]
		}
	}
	return sum
}

func (m *crcShift) after(first *crcShift) crcShift {
	var out crcShift
	for i := range out {
		out[i] = m.apply(first[i])
	}
	return out
}

// newCRCShift is the map for n bytes.
func newCRCShift(n int) crcShift {
	var bit, out crcShift
	bit[0] = crc32.IEEE
	for i := range out {
		out[i] = 1 << i
		if i > 0 {
			bit[i] = 1 << (i - 1)
		}
	}
	power := bit
	for range 3 { // one byte is eight bits
		power = power.after(&power)
	}
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			out = power.after(&out)
		}
		power = power.after(&power)
	}
	return out
}

// joinCRC is the checksum of a followed by b, given both checksums and the map for b's length.
func joinCRC(a, b uint32, lenB *crcShift) uint32 { return lenB.apply(a) ^ b }
