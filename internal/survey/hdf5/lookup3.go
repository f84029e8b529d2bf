package hdf5

import "math/bits"

// lookup3 is Bob Jenkins' hash of that name (public domain, 2006) with initial value 0: the checksum of HDF5 metadata.
func lookup3(b []byte) uint32 {
	const start = 0xdeadbeef
	x := start + uint32(len(b))
	y, z := x, x
	for len(b) > 12 {
		x += le.Uint32(b)
		y += le.Uint32(b[4:])
		z += le.Uint32(b[8:])
		x = (x - z) ^ bits.RotateLeft32(z, 4)
		z += y
		y = (y - x) ^ bits.RotateLeft32(x, 6)
		x += z
		z = (z - y) ^ bits.RotateLeft32(y, 8)
		y += x
		x = (x - z) ^ bits.RotateLeft32(z, 16)
		z += y
		y = (y - x) ^ bits.RotateLeft32(x, 19)
		x += z
		z = (z - y) ^ bits.RotateLeft32(y, 4)
		y += x
		b = b[12:]
	}
	if len(b) == 0 {
		return z
	}
	var tail [12]byte
	copy(tail[:], b)
	x += le.Uint32(tail[:])
	y += le.Uint32(tail[4:])
	z += le.Uint32(tail[8:])
	z = (z ^ y) - bits.RotateLeft32(y, 14)
	x = (x ^ z) - bits.RotateLeft32(z, 11)
	y = (y ^ x) - bits.RotateLeft32(x, 25)
	z = (z ^ y) - bits.RotateLeft32(y, 16)
	x = (x ^ z) - bits.RotateLeft32(z, 4)
	y = (y ^ x) - bits.RotateLeft32(x, 14)
	z = (z ^ y) - bits.RotateLeft32(y, 24)
	return z
}
