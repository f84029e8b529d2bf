package deflate

import (
	"encoding/binary"
	"errors"
)

// The decoder works on whole buffers: its callers know the size of what is decoded, so no window and no reader is needed. Bits
// wait in a 64-bit register; a symbol is one look into a table of litBits (or distBits) bits, longer codes go on to a
// second table. Matches are copied 8 bytes at a time while neither end of a buffer is near, byte by byte otherwise.

// ErrCorrupt says that the bytes are no sound deflate stream, end too soon, or give more than there is room for.
var ErrCorrupt = errors.New("bad deflate data")

var le = binary.LittleEndian

const (
	litBits     = 11
	distBits    = 8
	codeBits    = 7 // of the code that describes the other two
	maxCodeBits = 15
	litSymbols  = 288
	distSymbols = 32
	codeSymbols = 19
	endOfBlock  = 256
	litSpace    = 4096 // primary table and all second tables; a power of two, so that masks are bounds
	distSpace   = 1024
	codeSpace   = 1 << codeBits
	storedBlock = 0
	fixedBlock  = 1

	// fastInput and fastOutput are what the fast loop may read and write beyond a check: two refills, and literals
	// followed by a match of 258 bytes rounded up to words.
	fastInput  = 16
	fastOutput = 4 + 258 + 8
)

// A table entry has in bits 0-7 the bits to consume (code and extra bits together), in 8-11 the code's bits (of a link to
// a second table: that table's width), flags in 12-15, and in 16-31 the literal, the base of the length or distance, or
// the second table's place. An unused code is entryBad.
const (
	entryLiteral = 1 << 12
	entryLink    = 1 << 13
	entryEnd     = 1 << 14
	entryBad     = 1 << 15
	entryOther   = entryLink | entryEnd | entryBad
	entryBase    = 16
	entryCode    = 8
	oneCodeBit   = 1 | 1<<entryCode // what a bit of code adds to a symbol's entry
)

// Decoder decodes deflate streams; its zero value is ready, and it holds only tables, which every use fills anew. It is
// for one goroutine at a time.
type Decoder struct {
	lit    [litSpace]uint32
	dist   [distSpace]uint32
	code   [codeSpace]uint32
	lens   [litSymbols + distSymbols]uint8
	sorted [litSymbols]uint16
	fixed  bool // lit and dist hold the fixed codes
}

// litEntries and distEntries are the entries of symbols without the bits of their codes (RFC 1951, 3.2.5).
var (
	litEntries  = literalEntries()
	distEntries = distanceEntries()
	codeEntries = codeLengthEntries()
)

func literalEntries() (t [litSymbols]uint32) {
	for s := range endOfBlock {
		t[s] = uint32(s)<<entryBase | entryLiteral
	}
	t[endOfBlock] = entryEnd
	base := uint32(3)
	for s := endOfBlock + 1; s < litSymbols; s++ {
		extra := uint32(0)
		if k := s - endOfBlock - 1; k >= 8 {
			extra = uint32(k)/4 - 1
		}
		switch {
		case s == 285:
			t[s] = 258 << entryBase
		case s > 285:
			t[s] = entryBad
		default:
			t[s] = base<<entryBase | extra
			base += 1 << extra
		}
	}
	return t
}

func distanceEntries() (t [distSymbols]uint32) {
	base := uint32(1)
	for s := range t {
		if s >= 30 {
			t[s] = entryBad
			continue
		}
		extra := uint32(0)
		if s >= 4 {
			extra = uint32(s)/2 - 1
		}
		t[s] = base<<entryBase | extra
		base += 1 << extra
	}
	return t
}

func codeLengthEntries() (t [codeSymbols]uint32) {
	for s := range t {
		t[s] = uint32(s) << entryBase
	}
	return t
}

// codeOrder is the order in which lengths of the code-length code are sent.
var codeOrder = [codeSymbols]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// build fills table, whose first 1<<width entries are indexed by the next bits of input, for a canonical code of the
// given lengths. It refuses a code with too many words, and an incomplete one unless it has at most one word, of 1 bit.
func (z *Decoder) build(table []uint32, width uint, lens []uint8, entries []uint32, mayBeShort bool) bool {
	var count, next [maxCodeBits + 2]int
	for _, l := range lens {
		count[l]++
	}
	used := len(lens) - count[0]
	count[0] = 0
	longest, room := 0, 1
	for l := 1; l <= maxCodeBits; l++ {
		if count[l] > 0 {
			longest = l
		}
		if room = room<<1 - count[l]; room < 0 {
			return false
		}
		next[l+1] = next[l] + count[l]
	}
	if room > 0 {
		if !mayBeShort || longest > 1 {
			return false
		}
		for i := range table[:1<<width] {
			table[i] = entryBad
		}
		if used == 0 {
			return true
		}
	}
	for s, l := range lens {
		if l != 0 {
			z.sorted[next[l]] = uint16(s)
			next[l]++
		}
	}
	if room > 0 {
		for i := 0; i < 1<<width; i += 2 {
			table[i] = entries[z.sorted[0]] + oneCodeBit
		}
		return true
	}
	// Code words are counted up bit-reversed, as they stand in the input. While words fit the width, the table holds
	// 1<<l entries, and doubles with each further bit.
	symbols := z.sorted[:used]
	word := uint(0)
	l := 0
	size := 1
	for l < int(width) && len(symbols) > 0 {
		l++
		copy(table[size:2*size], table[:size])
		size *= 2
		for range count[l] {
			table[word] = entries[symbols[0]] + uint32(l)*oneCodeBit
			symbols = symbols[1:]
			word = increment(word, uint(l))
		}
	}
	for ; size < 1<<width; size *= 2 {
		copy(table[size:2*size], table[:size])
	}
	free, link := 1<<width, ^uint(0)
	var subBits, start int
	for l < longest {
		l++
		for k := range count[l] {
			if low := word & (1<<width - 1); low != link {
				link = low
				subBits = l - int(width)
				// The words that share these low bits fill the second table: as wide as they need.
				for space := count[l] - k; space < 1<<subBits; {
					subBits++
					space = space<<1 + count[int(width)+subBits]
				}
				start = free
				if free += 1 << subBits; free > len(table) {
					return false
				}
				table[link] = uint32(start)<<entryBase | entryLink | uint32(subBits)<<entryCode | uint32(width)
			}
			rest := l - int(width)
			e := entries[symbols[0]] + uint32(rest)*oneCodeBit
			symbols = symbols[1:]
			for i := int(word >> width); i < 1<<subBits; i += 1 << rest {
				table[start+i] = e
			}
			word = increment(word, uint(l))
		}
	}
	return true
}

// increment adds 1 to a word of n bits, highest bit first in the input: the carry runs downwards. The word after the last
// is 0.
func increment(word, n uint) uint {
	bit := uint(1) << (n - 1)
	for word&bit != 0 {
		word ^= bit
		bit >>= 1
	}
	return word | bit
}

// bitReader holds input bits. After a fast refill the high bits of buf may already hold bits beyond n, the true next ones.
type bitReader struct {
	buf uint64
	n   uint // bits that count
	in  int  // next byte of input
	src []byte
}

func (r *bitReader) refill() {
	for r.n <= 56 && r.in < len(r.src) {
		r.buf |= uint64(r.src[r.in]) << r.n
		r.in++
		r.n += 8
	}
}

// take removes n bits, of which there must be enough.
func (r *bitReader) take(n uint) (uint64, bool) {
	v := r.buf & (1<<n - 1)
	if n > r.n {
		return 0, false
	}
	r.buf >>= n
	r.n -= n
	return v, true
}

// Inflate decodes the deflate stream (RFC 1951) at the start of src into dst and gives the bytes written and read. Where
// dst is too small, and for any other fault, it gives ErrCorrupt; dst may then hold anything.
func (z *Decoder) Inflate(dst, src []byte) (out, used int, err error) {
	r := bitReader{src: src}
	for {
		r.refill()
		head, ok := r.take(3)
		if !ok {
			return 0, 0, ErrCorrupt
		}
		switch head >> 1 {
		case storedBlock:
			out, ok = r.stored(dst, out)
		case fixedBlock:
			z.buildFixed()
			out, ok = z.block(&r, dst, out)
		default:
			ok = head>>1 == 2 && z.readCodes(&r)
			if ok {
				out, ok = z.block(&r, dst, out)
			}
		}
		if !ok {
			return 0, 0, ErrCorrupt
		}
		if head&1 == 1 {
			return out, r.in - int(r.n>>3), nil
		}
	}
}

func (r *bitReader) stored(dst []byte, out int) (int, bool) {
	in := r.in - int(r.n>>3) // whole bytes go back, the rest of one is padding
	r.buf, r.n = 0, 0
	if in+4 > len(r.src) {
		return 0, false
	}
	n := int(le.Uint16(r.src[in:]))
	if n != int(^le.Uint16(r.src[in+2:])) {
		return 0, false
	}
	in += 4
	if n > len(r.src)-in || n > len(dst)-out {
		return 0, false
	}
	copy(dst[out:], r.src[in:in+n])
	r.in = in + n
	return out + n, true
}

func (z *Decoder) buildFixed() {
	if z.fixed {
		return
	}
	l := z.lens[:]
	for i := range litSymbols {
		switch {
		case i < 144:
			l[i] = 8
		case i < 256:
			l[i] = 9
		case i < 280:
			l[i] = 7
		default:
			l[i] = 8
		}
	}
	for i := range distSymbols {
		l[litSymbols+i] = 5
	}
	z.build(z.lit[:], litBits, l[:litSymbols], litEntries[:], false)
	z.build(z.dist[:], distBits, l[litSymbols:], distEntries[:], false)
	z.fixed = true
}

// readCodes reads the two codes of a dynamic block.
func (z *Decoder) readCodes(r *bitReader) bool {
	z.fixed = false
	r.refill()
	v, ok := r.take(14)
	lits, dists, codes := int(v&31)+257, int(v>>5&31)+1, int(v>>10&15)+4
	if !ok || lits > 286 || dists > 30 {
		return false
	}
	var short [codeSymbols]uint8
	for i := range codes {
		r.refill()
		v, ok := r.take(3)
		if !ok {
			return false
		}
		short[codeOrder[i]] = uint8(v)
	}
	if !z.build(z.code[:], codeBits, short[:], codeEntries[:], false) {
		return false
	}
	l := z.lens[:]
	for i := 0; i < lits+dists; {
		r.refill()
		e := z.code[r.buf&(codeSpace-1)]
		if _, ok := r.take(uint(e & 0xff)); !ok {
			return false
		}
		symbol := e >> entryBase
		if symbol < 16 {
			l[i] = uint8(symbol)
			i++
			continue
		}
		value, least, extra := uint8(0), 3, uint(3)
		switch symbol {
		case 16:
			if i == 0 {
				return false
			}
			value, extra = l[i-1], 2
		case 18:
			least, extra = 11, 7
		}
		v, ok := r.take(extra)
		n := least + int(v)
		if !ok || n > lits+dists-i {
			return false
		}
		for range n {
			l[i] = value
			i++
		}
	}
	return l[endOfBlock] != 0 &&
		z.build(z.lit[:], litBits, l[:lits], litEntries[:], true) &&
		z.build(z.dist[:], distBits, l[lits:lits+dists], distEntries[:], true)
}

// block decodes the symbols of one block.
func (z *Decoder) block(r *bitReader, dst []byte, out int) (int, bool) {
	out, ended, ok := z.fast(r, dst, out)
	if !ok || ended {
		return out, ok
	}
	return z.careful(r, dst, out)
}

// careful decodes to the end of the block, checking every step.
func (z *Decoder) careful(r *bitReader, dst []byte, out int) (int, bool) {
	for {
		r.refill()
		e, v, ok := r.symbol(z.lit[:], litBits)
		if !ok || e&entryEnd != 0 {
			return out, ok
		}
		if e&entryLiteral != 0 {
			if out == len(dst) {
				return 0, false
			}
			dst[out] = byte(e >> entryBase)
			out++
			continue
		}
		n := int(v)
		r.refill()
		if _, v, ok = r.symbol(z.dist[:], distBits); !ok {
			return 0, false
		}
		if int(v) > out || n > len(dst)-out {
			return 0, false
		}
		for end := out + n; out < end; out++ { // may repeat what it just wrote
			dst[out] = dst[out-int(v)]
		}
	}
}

// symbol takes one symbol with its extra bits and gives its entry and its value, base and extra bits together.
func (r *bitReader) symbol(table []uint32, width uint) (e uint32, v uint64, ok bool) {
	e = table[r.buf&(1<<width-1)]
	if e&entryLink != 0 {
		if _, ok = r.take(width); !ok {
			return 0, 0, false
		}
		e = table[uint64(e>>entryBase)+r.buf&(1<<(e>>entryCode&15)-1)]
	}
	if e&entryBad != 0 {
		return 0, 0, false
	}
	code := e >> entryCode & 15
	bits, ok := r.take(uint(e & 0xff))
	return e, uint64(e>>entryBase) + bits>>code, ok
}
