package parquet

import (
	"encoding/binary"
	"encoding/hex"
	"math"

	pq "github.com/apache/arrow-go/v18/parquet"

	"astropile/internal/shard"
)

// stored is the values of a data page, or of a dictionary, decoded on demand.
type stored struct {
	l     *leaf
	plain []byte // values still to come, PLAIN
	bits  hybrid // bools in runs, or dictionary indexes
	bit   int    // next bit of PLAIN bools
	mode  int
	text  texts // delta-encoded text; at is the next one
	at    int
}

const (
	modePlain = iota
	modeRuns  // bools
	modeDict
	modeTexts
)

// dictionary is a chunk's dictionary: values of leaf.size bytes, or text.
type dictionary struct {
	there bool
	n     int
	fixed []byte
	text  texts
}

// sink collects the values of rows, nulls left out, and their levels.
type sink struct {
	data     []byte
	off      []int64 // BYTE_ARRAY: ends of the values in data; starts with one 0
	def, rep []byte
	allDef   bool // every level in def is the largest
	drop     bool // values are passed over
	limit    int64
}

// maxSink bounds the bytes of one vector.
const maxSink = 4 << 30

func newSink(l *leaf) *sink {
	s := &sink{allDef: true, limit: maxSink}
	if l.phys == pq.Types.ByteArray {
		s.off = []int64{0}
	}
	return s
}

func (s *sink) reset() { s.def, s.rep, s.allDef = s.def[:0], s.rep[:0], true }

// openValues prepares the values of a data page of at most n values.
func openValues(l *leaf, b []byte, enc shard.Encoding, n int, d *dictionary) (stored, error) {
	v := stored{l: l, plain: b}
	switch enc {
	case shard.EncPlain:
		return v, nil
	case shard.EncPlainDictionary, shard.EncRLEDictionary:
		if !d.there {
			return v, damaged("a page refers to a dictionary that is not there")
		}
		v.mode = modeDict
		if len(b) == 0 {
			v.bits = newHybrid(nil, 0) // a page of nulls alone
			return v, nil
		}
		if b[0] > 32 {
			return v, damaged("dictionary indexes of %d bits", b[0])
		}
		v.bits = newHybrid(b[1:], int(b[0]))
		return v, nil
	case shard.EncRLE:
		if l.phys != pq.Types.Boolean {
			break
		}
		if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
			return v, damaged("bools run over their page's end")
		}
		v.mode, v.bits = modeRuns, newHybrid(b[4:4+binary.LittleEndian.Uint32(b)], 1)
		return v, nil
	case shard.EncDeltaBinary:
		if l.phys == pq.Types.Int32 || l.phys == pq.Types.Int64 {
			var err error
			v.plain, err = deltaFixed(b, l.width, n)
			return v, err
		}
	case shard.EncDeltaLength, shard.EncDeltaBytes:
		var err error
		if l.phys == pq.Types.ByteArray && enc == shard.EncDeltaLength {
			v.mode = modeTexts
			v.text, err = deltaLengths(b, n)
			return v, err
		}
		if enc == shard.EncDeltaBytes && l.phys == pq.Types.ByteArray {
			v.mode = modeTexts
			v.text, err = deltaBytes(b, n)
			return v, err
		}
		if enc == shard.EncDeltaBytes && l.phys == pq.Types.FixedLenByteArray {
			t, err := deltaBytes(b, n)
			for i := 1; err == nil && i < len(t.off); i++ {
				if t.off[i]-t.off[i-1] != int64(l.width) {
					err = damaged("a value of %d bytes, not %d", t.off[i]-t.off[i-1], l.width)
				}
			}
			v.plain = t.data
			return v, err
		}
	case shard.EncByteStreamSplit:
		if l.width > 0 && l.phys != pq.Types.Boolean {
			var err error
			v.plain, err = joinStreams(b, l.width)
			return v, err
		}
	}
	return v, unsupported("encoding %d of physical type %v", enc, l.phys)
}

// loadDictionary decodes a dictionary page of n values.
func loadDictionary(l *leaf, b []byte, n int) (dictionary, error) {
	d := dictionary{there: true, n: n}
	if l.phys == pq.Types.Boolean {
		return d, damaged("a dictionary of bools")
	}
	s := newSink(l)
	v := stored{l: l, plain: b}
	if err := v.take(s, n, nil); err != nil {
		return d, err
	}
	d.fixed, d.text = s.data, texts{s.data, s.off}
	return d, nil
}

const shortEnd = "a page ends before its values do"

// take appends n values to s.
func (v *stored) take(s *sink, n int, d *dictionary) error {
	if n == 0 {
		return nil
	}
	l := v.l
	if int64(len(s.data))+int64(n)*int64(max(l.size, 1)) > s.limit {
		return badValue("over %d MiB at once; ask for fewer rows", s.limit>>20)
	}
	switch {
	case v.mode == modeDict:
		return v.lookup(s, n, d)
	case v.mode == modeRuns:
		at := len(s.data)
		s.data = grow(s.data, n)
		_, err := v.bits.small(s.data[at:], 1)
		if s.drop {
			s.data = s.data[:at]
		}
		return err
	case v.mode == modeTexts:
		if n > len(v.text.off)-1-v.at {
			return damaged(shortEnd)
		}
		lo, hi := v.text.off[v.at], v.text.off[v.at+n]
		if !s.drop {
			base := int64(len(s.data)) - lo
			s.data = append(s.data, v.text.data[lo:hi]...)
			for _, o := range v.text.off[v.at+1 : v.at+n+1] {
				s.off = append(s.off, base+o)
			}
		}
		v.at += n
		return nil
	case l.phys == pq.Types.Boolean:
		if v.bit+n > 8*len(v.plain) {
			return damaged(shortEnd)
		}
		if !s.drop {
			at := len(s.data)
			s.data = grow(s.data, n)
			for i := range n {
				s.data[at+i] = v.plain[(v.bit+i)>>3] >> ((v.bit + i) & 7) & 1
			}
		}
		v.bit += n
		return nil
	case l.phys == pq.Types.ByteArray:
		return v.plainText(s, n)
	}
	if n > len(v.plain)/l.width {
		return damaged(shortEnd)
	}
	src := v.plain[:n*l.width]
	v.plain = v.plain[n*l.width:]
	if s.drop {
		return nil
	}
	if l.conv == nil {
		s.data = append(s.data, src...)
		return nil
	}
	at := len(s.data)
	s.data = grow(s.data, n*l.size)
	return l.conv(s.data[at:], src)
}

func (v *stored) plainText(s *sink, n int) error {
	b := v.plain
	for range n {
		if len(b) < 4 {
			return damaged(shortEnd)
		}
		k := int64(binary.LittleEndian.Uint32(b))
		if k > int64(len(b)-4) {
			return damaged("a text runs over its page's end")
		}
		if !s.drop {
			s.data = append(s.data, b[4:4+k]...)
			s.off = append(s.off, int64(len(s.data)))
		}
		b = b[4+k:]
	}
	v.plain = b
	return v.tooMuch(s)
}

func (v *stored) tooMuch(s *sink) error {
	if int64(len(s.data)) > s.limit {
		return badValue("over %d MiB of text at once; ask for fewer rows", s.limit>>20)
	}
	return nil
}

func (v *stored) lookup(s *sink, n int, d *dictionary) error {
	var idx [1024]uint32
	for n > 0 {
		k := min(n, len(idx))
		if err := v.bits.words(idx[:k]); err != nil {
			return err
		}
		n -= k
		for _, x := range idx[:k] {
			if uint64(x) >= uint64(d.n) {
				return damaged("index %d in a dictionary of %d", x, d.n)
			}
		}
		if s.drop {
			continue
		}
		at := len(s.data)
		switch size := v.l.size; {
		case v.l.phys == pq.Types.ByteArray:
			for _, x := range idx[:k] {
				s.data = append(s.data, d.text.data[d.text.off[x]:d.text.off[x+1]]...)
				s.off = append(s.off, int64(len(s.data)))
			}
			if err := v.tooMuch(s); err != nil {
				return err
			}
		case size == 4:
			s.data = grow(s.data, 4*k)
			out := s.data[at:]
			for i, x := range idx[:k] {
				binary.LittleEndian.PutUint32(out[4*i:], binary.LittleEndian.Uint32(d.fixed[4*int(x):]))
			}
		case size == 8:
			s.data = grow(s.data, 8*k)
			out := s.data[at:]
			for i, x := range idx[:k] {
				binary.LittleEndian.PutUint64(out[8*i:], binary.LittleEndian.Uint64(d.fixed[8*int(x):]))
			}
		default:
			for _, x := range idx[:k] {
				s.data = append(s.data, d.fixed[int(x)*size:(int(x)+1)*size]...)
			}
		}
	}
	return nil
}

// grow lengthens b by n bytes of any content.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b[:len(b)+n]
	}
	return append(b, make([]byte, n)...)
}

// narrow keeps the low bytes of 32-bit integers that fit into fewer bits.
func narrow(bits int, signed bool) func(dst, src []byte) error {
	return func(dst, src []byte) error {
		for i := range len(src) / 4 {
			u := binary.LittleEndian.Uint32(src[4*i:])
			fits := u < 1<<bits
			if signed {
				fits = int32(u)<<(32-bits)>>(32-bits) == int32(u)
			}
			if !fits {
				return damaged("%d is no integer of %d bits", int32(u), bits)
			}
			if bits == 8 {
				dst[i] = byte(u)
			} else {
				binary.LittleEndian.PutUint16(dst[2*i:], uint16(u))
			}
		}
		return nil
	}
}

// bigEndian turns big-endian integers of any width into int64.
func bigEndian(dst, src []byte) error {
	n := len(dst) / 8
	width := len(src) / n
	for i := range n {
		b := src[i*width : (i+1)*width]
		high := max(0, width-8)
		sign := int64(int8(b[high])) >> 7
		for _, c := range b[:high] {
			if int64(int8(c)) != sign {
				return badValue("a decimal does not fit 64 bits; cast the column to text, or drop it")
			}
		}
		x := sign
		for _, c := range b[high:] {
			x = x<<8 | int64(c)
		}
		binary.LittleEndian.PutUint64(dst[8*i:], uint64(x))
	}
	return nil
}

// Days from the beginning of Julian days to 1970-01-01, and the length of a day.
const (
	julianEpoch = 2440588
	dayNanos    = 86400_000_000_000
)

// julian turns INT96 timestamps (nanoseconds of the day, then the Julian day) into nanoseconds since 1970.
func julian(dst, src []byte) error {
	for i := range len(src) / 12 {
		nanos, day := int64(binary.LittleEndian.Uint64(src[12*i:])), int64(int32(binary.LittleEndian.Uint32(src[12*i+8:])))-julianEpoch
		const most = math.MaxInt64/dayNanos - 1
		if nanos < 0 || nanos > dayNanos || day > most || day < -most {
			return badValue("a timestamp of 96 bits, Julian day %d and %d ns, is not within 64-bit nanoseconds (1677 to 2262); cast the column, or drop it", day+julianEpoch, nanos)
		}
		binary.LittleEndian.PutUint64(dst[8*i:], uint64(day*dayNanos+nanos))
	}
	return nil
}

// uuidText spells 16 bytes as UUIDs are spelled, in 36.
func uuidText(dst, src []byte) error {
	for i := range len(src) / 16 {
		b, t := src[16*i:], dst[36*i:36*i]
		for k, n := range []int{4, 2, 2, 2, 6} {
			if k > 0 {
				t = append(t, '-')
			}
			t = hex.AppendEncode(t, b[:n])
			b = b[n:]
		}
	}
	return nil
}
