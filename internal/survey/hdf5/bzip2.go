package hdf5

import "fmt"

// The format of bzip2 has no official description; this follows "BZIP2: Format Specification" by Joe Tsai. Blocks of the
// kind that bzip2 0.9.0 and before wrote in rare cases (randomized) are refused.
const (
	bzipBlockMagic = 0x314159265359
	bzipEndMagic   = 0x177245385090
	bzipHead       = 4
	bzipUnit       = 100_000 // bytes of a block by level
	bzipGroup      = 50      // symbols that one code is used for
	bzipMaxCodes   = 6
	bzipMaxBits    = 20
	bzipMaxSymbols = 258
	bzipLookBits   = 10
	bzipRunA       = 0
	bzipRunB       = 1
	bzipRepeat     = 4 // equal bytes that a count follows
	bzipPicks      = 1 << 15
)

var errBzip2 = fmt.Errorf("%w: bad bzip2 data", ErrCorrupt)

// bunzip decodes bzip2 streams into whole buffers.
type bunzip struct {
	bits  msbReader
	codes [bzipMaxCodes]bzipCode
	picks []uint8  // the code of each group
	next  []uint32 // of the sorted block: low 8 bits a byte, above it where the next one stands
}

// bzipCode is a prefix code, the canonical one of its lengths.
type bzipCode struct {
	look    [1 << bzipLookBits]uint16 // symbol and, in the low 5 bits, length of a short code; 0 if there is none
	limit   [bzipMaxBits + 2]uint32   // by length: one more than its largest code, its bits on top of bzipMaxBits
	first   [bzipMaxBits + 2]uint32   // by length: its first code
	base    [bzipMaxBits + 2]uint16   // by length: place of the first code's symbol in symbols
	symbols [bzipMaxSymbols]uint16
}

func (c *bzipCode) build(lengths []uint8) bool {
	var count [bzipMaxBits + 1]int
	for _, n := range lengths {
		count[n]++
	}
	clear(c.look[:])
	code, at := uint32(0), 0
	for n := 1; n <= bzipMaxBits; n++ {
		c.first[n], c.base[n] = code, uint16(at)
		if code+uint32(count[n]) > 1<<n {
			return false
		}
		for s, l := range lengths {
			if int(l) != n {
				continue
			}
			c.symbols[at] = uint16(s)
			at++
			if n <= bzipLookBits {
				from := code << (bzipLookBits - n)
				for i := range uint32(1) << (bzipLookBits - n) {
					c.look[from+i] = uint16(s)<<5 | uint16(n)
				}
			}
			code++
		}
		c.limit[n] = code << (bzipMaxBits - n)
		code <<= 1
	}
	c.limit[bzipMaxBits+1] = ^uint32(0)
	return true
}

// symbol reads a symbol, or gives a number that is none.
func (c *bzipCode) symbol(r *msbReader) int {
	if r.n < bzipMaxBits {
		r.fill()
	}
	if e := c.look[r.acc>>(64-bzipLookBits)]; e != 0 {
		k := e & 31
		r.acc <<= k
		r.n -= int(k)
		return int(e >> 5)
	}
	v := uint32(r.acc >> (64 - bzipMaxBits))
	n := bzipLookBits + 1
	for v >= c.limit[n] {
		n++
	}
	if n > bzipMaxBits {
		return bzipMaxSymbols
	}
	r.acc <<= n
	r.n -= n
	i := int(c.base[n]) + int(v>>(bzipMaxBits-n)-c.first[n])
	if i >= bzipMaxSymbols {
		return bzipMaxSymbols
	}
	return int(c.symbols[i])
}

// undoBzip2 decodes filter 307, one bzip2 stream. What follows the stream is left alone.
func (s *scratch) undoBzip2(_ *Filter, dst, src []byte) (int, error) {
	if s.bzip == nil {
		s.bzip = &bunzip{}
	}
	z := s.bzip
	if len(src) < bzipHead || string(src[:3]) != "BZh" || src[3] < '1' || src[3] > '9' {
		return 0, errBzip2
	}
	limit := int(src[3]-'0') * bzipUnit
	z.bits = msbReader{b: src[bzipHead:]}
	out, all := 0, uint32(0)
	for {
		magic := z.bits.take(48)
		sum := uint32(z.bits.take(32))
		if z.bits.over() {
			return 0, errBzip2
		}
		switch magic {
		case bzipEndMagic:
			if sum != all {
				return 0, fmt.Errorf("%w: checksum of all blocks is %08x, theirs give %08x", ErrCorrupt, sum, all)
			}
			return out, nil
		case bzipBlockMagic:
		default:
			return 0, errBzip2
		}
		n, err := z.block(dst[out:], limit)
		if err != nil {
			return 0, err
		}
		got := bzipSum(dst[out : out+n])
		if got != sum {
			return 0, fmt.Errorf("%w: checksum of a block is %08x, its bytes give %08x", ErrCorrupt, sum, got)
		}
		all = all<<1 | all>>31
		all ^= got
		out += n
	}
}

// block decodes one block behind its checksum.
func (z *bunzip) block(dst []byte, limit int) (int, error) {
	r := &z.bits
	if r.take(1) == 1 {
		return 0, unsupportedf("randomized bzip2 block")
	}
	origin := int(r.take(24))
	var front [256]byte // the bytes in use, the one last seen first
	inUse := 0
	for high, ranges := 0, r.take(16); high < 16; high++ {
		if ranges&(0x8000>>high) == 0 {
			continue
		}
		for low, used := 0, r.take(16); low < 16; low++ {
			if used&(0x8000>>low) != 0 {
				front[inUse] = byte(high<<4 | low)
				inUse++
			}
		}
	}
	if inUse == 0 || !z.readCodes(inUse+2) {
		return 0, errBzip2
	}
	// Runs grow by at most a quarter when they are counted.
	limit = min(limit, len(dst)+len(dst)/bzipRepeat+bzipRepeat+1)
	if cap(z.next) < limit {
		z.next = make([]uint32, limit)
	}
	n, counts, ok := z.sorted(z.next[:limit], &front, inUse)
	if !ok || origin >= n || r.over() {
		return 0, errBzip2
	}
	return unsort(dst, z.next[:n], counts, origin)
}

// readCodes reads the codes and which of them each group of symbols uses.
func (z *bunzip) readCodes(symbols int) bool {
	r := &z.bits
	codes, groups := int(r.take(3)), int(r.take(15))
	if codes < 2 || codes > bzipMaxCodes || groups < 1 {
		return false
	}
	if z.picks == nil {
		z.picks = make([]uint8, bzipPicks)
	}
	z.picks = z.picks[:groups]
	order := [bzipMaxCodes]uint8{0, 1, 2, 3, 4, 5}
	for i := range z.picks {
		k := 0
		for r.take(1) == 1 {
			if k++; k >= codes {
				return false
			}
		}
		pick := order[k]
		copy(order[1:k+1], order[:k])
		order[0] = pick
		z.picks[i] = pick
		if r.over() {
			return false
		}
	}
	var lengths [bzipMaxSymbols]uint8
	for c := range codes {
		n := int(r.take(5))
		for i := range symbols {
			for {
				if n < 1 || n > bzipMaxBits {
					return false
				}
				if r.take(1) == 0 {
					break
				}
				n += 1 - 2*int(r.take(1))
			}
			lengths[i] = uint8(n)
		}
		if r.over() || !z.codes[c].build(lengths[:symbols]) {
			return false
		}
	}
	return true
}

// sorted reads the symbols of a block and gives the number of its bytes, which are in the low bits of to, and how often
// each occurs.
func (z *bunzip) sorted(to []uint32, front *[256]byte, inUse int) (n int, counts *[256]uint32, ok bool) {
	r := &z.bits
	counts = new([256]uint32)
	end := inUse + 1
	run, weight := 0, 1
	var code *bzipCode
	for group, left := 0, 0; ; left-- {
		if left == 0 {
			if group == len(z.picks) || r.over() {
				return 0, nil, false
			}
			code = &z.codes[z.picks[group]]
			group++
			left = bzipGroup
		}
		s := code.symbol(r)
		if s <= bzipRunB {
			run += weight << s
			weight <<= 1
			if run > len(to)-n {
				return 0, nil, false
			}
			continue
		}
		if run > 0 {
			x := front[0]
			counts[x] += uint32(run)
			for i := range to[n : n+run] {
				to[n+i] = uint32(x)
			}
			n += run
			run, weight = 0, 1
		}
		if s == end {
			return n, counts, true
		}
		if s > end || n == len(to) {
			return 0, nil, false
		}
		k := s - 1
		x := front[k]
		if k < 16 {
			for ; k > 0; k-- {
				front[k] = front[k-1]
			}
		} else {
			copy(front[1:k+1], front[:k])
		}
		front[0] = x
		counts[x]++
		to[n] = uint32(x)
		n++
	}
}

// unsort undoes the sorting of a block, next having its bytes, and expands its runs into dst.
func unsort(dst []byte, next []uint32, counts *[256]uint32, origin int) (int, error) {
	sum := uint32(0)
	for i, n := range counts {
		counts[i] = sum
		sum += n
	}
	for i, v := range next {
		x := v & 255
		next[counts[x]] |= uint32(i) << 8
		counts[x]++
	}
	at := next[origin] >> 8
	out, equal, last := 0, 0, -1
	for range next {
		v := next[at]
		at = v >> 8
		x := int(v & 255)
		if equal == bzipRepeat {
			if x > len(dst)-out {
				return 0, errBzip2
			}
			run := dst[out : out+x]
			for i := range run {
				run[i] = byte(last)
			}
			out += x
			equal, last = 0, -1
			continue
		}
		if x != last {
			equal, last = 0, x
		}
		equal++
		if out == len(dst) {
			return 0, errBzip2
		}
		dst[out] = byte(x)
		out++
	}
	return out, nil
}

// bzipTables hold, for a byte and so many bytes of zeros behind it, the checksum, which is CRC-32 with the highest bit
// first.
var bzipTables = func() (t [8][256]uint32) {
	const polynomial = 0x04c11db7
	for i := range 256 {
		v := uint32(i) << 24
		for range 8 {
			v = v<<1 ^ polynomial&-(v>>31)
		}
		t[0][i] = v
	}
	for k := 1; k < 8; k++ {
		for i, v := range t[k-1] {
			t[k][i] = v<<8 ^ t[0][v>>24]
		}
	}
	return t
}()

func bzipSum(b []byte) uint32 {
	sum := ^uint32(0)
	t := &bzipTables
	for ; len(b) >= 8; b = b[8:] {
		v := sum ^ be.Uint32(b)
		sum = t[7][v>>24] ^ t[6][v>>16&255] ^ t[5][v>>8&255] ^ t[4][v&255] ^ t[3][b[4]] ^ t[2][b[5]] ^ t[1][b[6]] ^ t[0][b[7]]
	}
	for _, x := range b {
		sum = sum<<8 ^ t[0][byte(sum>>24)^x]
	}
	return ^sum
}
