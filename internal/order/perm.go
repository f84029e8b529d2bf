package order

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

const golden = 0x9e3779b97f4a7c15

// mix is the finaliser of splitmix64 applied to x plus its increment.
func mix(x uint64) uint64 {
	x += golden
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// epochKey derives the key of an epoch.
func epochKey(seed, epoch uint64) uint64 {
	msg := append(make([]byte, 0, 22), "order1"...)
	msg = binary.LittleEndian.AppendUint64(msg, seed)
	msg = binary.LittleEndian.AppendUint64(msg, epoch)
	sum := sha256.Sum256(msg)
	return binary.LittleEndian.Uint64(sum[:])
}

const (
	tagBlocks = 1
	tagWindow = 2
)

// subKey derives the key of one permutation of an epoch.
func subKey(key, tag, a, b uint64) uint64 {
	return mix(mix(mix(key^tag)^a) ^ b)
}

// maxTable is the largest permutation that is a table, by Fisher and Yates; larger ones are computed an element at a time.
const maxTable = 1 << 16

// shuffle fills tab, of 1 to maxTable elements, with the permutation of a key: the image of x is tab[x].
func shuffle(tab []uint16, key uint64) {
	for i := range tab {
		tab[i] = uint16(i)
	}
	for i := len(tab) - 1; i > 0; i-- {
		j, _ := bits.Mul64(mix(key), uint64(i)+1)
		key += golden
		tab[i], tab[j] = tab[j], tab[i]
	}
}

// feistel is a keyed permutation of [0, m) that needs no table: eight rounds on the next power of two, repeated
// until the result falls into [0, m).
type feistel struct {
	m              uint64
	low            uint
	loMask, hiMask uint64
	keys           [8]uint64
}

func newFeistel(m, key uint64) feistel {
	w := max(2, uint(bits.Len64(m-1)))
	f := feistel{m: m, low: w / 2}
	f.loMask = 1<<f.low - 1
	f.hiMask = 1<<(w-f.low) - 1
	for i := range f.keys {
		f.keys[i] = mix(key + uint64(i)*0xd1342543de82ef95)
	}
	return f
}

func (f *feistel) at(x uint64) uint64 {
	for {
		lo, hi := x&f.loMask, x>>f.low
		for i := 0; i < len(f.keys); i += 2 {
			hi ^= mix(lo^f.keys[i]) >> 7 & f.hiMask
			lo ^= mix(hi^f.keys[i+1]) >> 7 & f.loMask
		}
		if x = hi<<f.low | lo; x < f.m {
			return x
		}
	}
}

func (f *feistel) inverse(y uint64) uint64 {
	for {
		lo, hi := y&f.loMask, y>>f.low
		for i := len(f.keys) - 2; i >= 0; i -= 2 {
			lo ^= mix(hi^f.keys[i+1]) >> 7 & f.loMask
			hi ^= mix(lo^f.keys[i]) >> 7 & f.hiMask
		}
		if y = hi<<f.low | lo; y < f.m {
			return y
		}
	}
}

// perm is the keyed permutation of [0, m), m >= 1.
type perm struct {
	table []uint16
	wide  feistel
}

// newPerm uses buf for the table where it is large enough.
func newPerm(buf []uint16, m, key uint64) perm {
	if m > maxTable {
		return perm{wide: newFeistel(m, key)}
	}
	if uint64(cap(buf)) < m {
		buf = make([]uint16, m)
	}
	buf = buf[:m]
	shuffle(buf, key)
	return perm{table: buf}
}

func (p *perm) at(x uint64) uint64 {
	if p.table != nil {
		return uint64(p.table[x])
	}
	return p.wide.at(x)
}

func (p *perm) inverse(y uint64) uint64 {
	if p.table == nil {
		return p.wide.inverse(y)
	}
	for x, v := range p.table {
		if uint64(v) == y {
			return uint64(x)
		}
	}
	panic("order: a permutation's table lacks an element")
}
