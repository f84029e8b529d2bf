package hdf5

import (
	"fmt"
	"math/bits"
)

// Registered filter numbers that are read.
const (
	filterDeflate    = 1
	filterShuffle    = 2
	filterFletcher32 = 3
	filterLZF        = 32000
)

// filterName names filters that files may use, for refusals.
func filterName(id int) string {
	switch id {
	case filterDeflate:
		return "deflate"
	case filterShuffle:
		return "shuffle"
	case filterFletcher32:
		return "fletcher32"
	case 4:
		return "szip"
	case 5:
		return "nbit"
	case 6:
		return "scaleoffset"
	case 305:
		return "lzo"
	case 307:
		return "bzip2"
	case filterLZF:
		return "lzf"
	case 32001:
		return "blosc"
	case 32004:
		return "lz4"
	case 32008:
		return "bitshuffle"
	case 32013:
		return "zfp"
	case 32015:
		return "zstd"
	case 32017:
		return "sz"
	case 32024:
		return "sz3"
	case 32026:
		return "blosc2"
	}
	return ""
}

// String names the filter: "deflate (1)".
func (fl Filter) String() string {
	name := filterName(fl.ID)
	if name == "" {
		name = fl.Name
	}
	if name == "" {
		return fmt.Sprintf("filter %d", fl.ID)
	}
	return fmt.Sprintf("%s (%d)", name, fl.ID)
}

func (fl Filter) supported() bool {
	switch fl.ID {
	case filterDeflate, filterShuffle, filterFletcher32, filterLZF:
		return true
	}
	return false
}

func (fl Filter) unsupported() error { return unsupportedf("filter %s", fl) }

const (
	fletcherSize     = 4
	deflateExpansion = 1032     // a byte of deflate gives at most so many
	lzfExpansion     = 88       // 3 bytes of LZF give at most 264
	stackedLimit     = 64 << 20 // bytes of a chunk that only several compressors together can have made so small
	stackedSlack     = 4096     // what a compressor may add to incompressible data that another compresses again
)

// scratch is one worker's memory.
type scratch struct {
	stored  []byte
	decoded [2][]byte
	turn    int
	inflate inflater
	window  window
}

func resize(b []byte, n uint64) []byte {
	if uint64(cap(b)) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// buffer gives n bytes that do not overlap those it gave before.
func (s *scratch) buffer(n uint64) []byte {
	s.turn ^= 1
	s.decoded[s.turn] = resize(s.decoded[s.turn], n)
	return s.decoded[s.turn]
}

// readChunk reads and decodes a chunk into direct, or if that is nil into memory of s, valid until its next use.
func (d *Dataset) readChunk(ref chunkRef, w *window, s *scratch, direct []byte) ([]byte, error) {
	f := d.o.f
	if err := f.inside(ref.addr, ref.size); err != nil {
		return nil, err
	}
	var active [maxFilters]int
	n := 0
	limit, compressed := ref.size, false
	for i, fl := range d.Filters {
		if ref.mask>>i&1 == 1 || d.plainEdges && w.edge {
			continue
		}
		if !fl.supported() {
			return nil, fl.unsupported()
		}
		active[n] = i
		n++
		if by := fl.expansion(); by > 1 {
			larger := saturate(limit, by)
			if compressed {
				larger = max(limit, min(larger, stackedLimit))
			}
			limit, compressed = larger, true
		}
	}
	if d.chunkBytes > limit || n == 0 && ref.size != d.chunkBytes {
		return nil, fmt.Errorf("%w: %d stored bytes cannot be a chunk of %d", ErrCorrupt, ref.size, d.chunkBytes)
	}
	stored := direct
	if n > 0 || direct == nil {
		s.stored = resize(s.stored, ref.size)
		stored = s.stored
	}
	if err := f.readAt(stored, ref.addr); err != nil {
		return nil, err
	}
	if n == 0 {
		return stored, nil
	}
	b, err := d.decode(stored, active[:n], s, direct)
	if err != nil {
		return nil, err
	}
	if uint64(len(b)) != d.chunkBytes {
		return nil, fmt.Errorf("%w: chunk decodes to %d bytes of %d", ErrCorrupt, len(b), d.chunkBytes)
	}
	if direct != nil && &b[0] != &direct[0] {
		copy(direct, b)
		b = direct
	}
	return b, nil
}

// expansion is how many bytes one stored byte can give at most.
func (fl Filter) expansion() uint64 {
	switch fl.ID {
	case filterDeflate:
		return deflateExpansion
	case filterLZF:
		return lzfExpansion
	}
	return 1
}

func saturate(a, b uint64) uint64 {
	if hi, lo := bits.Mul64(a, b); hi == 0 {
		return lo
	}
	return ^uint64(0)
}

// decode undoes the active filters, last first; the last step writes to direct if it can.
func (d *Dataset) decode(b []byte, active []int, s *scratch, direct []byte) ([]byte, error) {
	for k := len(active) - 1; k >= 0; k-- {
		fl := d.Filters[active[k]]
		var err error
		switch fl.ID {
		case filterFletcher32:
			b, err = checkFletcher32(b)
		case filterShuffle:
			width := d.Type.Size
			if len(fl.Params) > 0 {
				width = int(fl.Params[0])
			}
			if width < 1 {
				return nil, fmt.Errorf("%w: shuffle of elements of %d bytes", ErrCorrupt, width)
			}
			if width == 1 || len(b)/width < 2 {
				continue
			}
			out := direct
			if k > 0 || len(out) != len(b) {
				out = s.buffer(uint64(len(b)))
			}
			unshuffle(out, b, width)
			b = out
		case filterDeflate, filterLZF:
			want := d.encodedSize(active[:k])
			out := direct
			if k > 0 || uint64(len(out)) != want {
				out = s.buffer(want)
			}
			var n int
			if fl.ID == filterLZF {
				n, err = decodeLZF(out, b)
			} else {
				n, err = s.inflate.zlib(out, b)
			}
			b = out[:n]
		default:
			return nil, fl.unsupported()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fl, err)
		}
	}
	return b, nil
}

// encodedSize is how large a chunk is after the active filters given, at most.
func (d *Dataset) encodedSize(active []int) uint64 {
	n := d.chunkBytes
	for _, i := range active {
		switch fl := d.Filters[i]; {
		case fl.ID == filterFletcher32:
			n += fletcherSize
		case fl.expansion() > 1:
			n += n/100 + stackedSlack
		}
	}
	return n
}

// checkFletcher32 verifies and cuts the checksum at the end of b. Some old writers swapped the bytes of its halves.
func checkFletcher32(b []byte) ([]byte, error) {
	if len(b) < fletcherSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(b))
	}
	n := len(b) - fletcherSize
	stored, sum := le.Uint32(b[n:]), fletcher32(b[:n])
	swapped := sum>>8&0x00ff00ff | sum&0x00ff00ff<<8
	if stored != sum && stored != swapped {
		return nil, fmt.Errorf("%w: checksum is %08x, the bytes give %08x", ErrCorrupt, stored, sum)
	}
	return b[:n], nil
}

// fletcher32 is the Fletcher checksum over big-endian 16-bit words, an odd byte standing for a high half.
func fletcher32(b []byte) uint32 {
	const run = 360 // words whose sums fit 32 bits
	fold := func(v uint32) uint32 { return v&0xffff + v>>16 }
	var low, high uint32
	for len(b) >= 2 {
		n := min(len(b)/2, run)
		for w := b[:2*n]; len(w) >= 2; w = w[2:] {
			low += uint32(w[0])<<8 | uint32(w[1])
			high += low
		}
		b = b[2*n:]
		low, high = fold(low), fold(high)
	}
	if len(b) == 1 {
		low += uint32(b[0]) << 8
		high += low
		low, high = fold(low), fold(high)
	}
	return fold(high)<<16 | fold(low)
}
