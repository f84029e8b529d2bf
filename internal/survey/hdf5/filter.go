package hdf5

import (
	"fmt"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// Registered filter numbers.
const (
	filterDeflate     = 1
	filterShuffle     = 2
	filterFletcher32  = 3
	filterSzip        = 4
	filterNbit        = 5
	filterScaleOffset = 6
	filterBzip2       = 307
	filterLZF         = 32000
	filterBlosc       = 32001
	filterLZ4         = 32004
	filterBitshuffle  = 32008
	filterZstd        = 32015
)

// step is how one kind of filter is undone.
type step struct {
	// expansion is how many bytes one stored byte can give at most; 1 where nothing is compressed.
	expansion uint64
	// undo decodes src into dst and gives the number of bytes written; src and dst do not overlap. What dst has room for
	// behind its end may be overwritten. Nil for filters that decode handles itself: they need no second buffer.
	undo func(s *scratch, fl *Filter, dst, src []byte) (int, error)
}

const (
	fletcherSize      = 4
	deflateExpansion  = 1032     // a byte of deflate gives at most so many
	lzfExpansion      = 88       // 3 bytes of LZF give at most 264
	unboundedFilter   = 0        // expansion of filters by which a few bytes can stand for a chunk of any size
	unboundedRatio    = 1032     // what a byte of these may give in a chunk that is larger than freeChunk
	freeChunk         = 64 << 20 // bytes of a chunk that may have been made as small as one pleases
	stackedSlack      = 4096     // what a compressor may add to incompressible data that another compresses again
	stackedSlackShift = 2        // and the part of the data that block headers may add: a quarter
)

// steps are the filters that are read.
var steps = map[int]step{
	filterDeflate:     {deflateExpansion, (*scratch).undoDeflate},
	filterShuffle:     {1, nil},
	filterFletcher32:  {1, nil},
	filterSzip:        {szipExpansion, (*scratch).undoSzip},
	filterNbit:        {unboundedFilter, (*scratch).undoNbit},
	filterScaleOffset: {unboundedFilter, (*scratch).undoScaleOffset},
	filterBzip2:       {unboundedFilter, (*scratch).undoBzip2},
	filterLZF:         {lzfExpansion, (*scratch).undoLZF},
	filterBlosc:       {zstdExpansion, (*scratch).undoBlosc},
	filterLZ4:         {lz4Expansion, (*scratch).undoLZ4},
	filterBitshuffle:  {zstdExpansion, (*scratch).undoBitshuffle},
	filterZstd:        {zstdExpansion, (*scratch).undoZstd},
}

// filterNames are filters that files may use, for messages.
var filterNames = map[int]string{
	filterDeflate: "deflate", filterShuffle: "shuffle", filterFletcher32: "fletcher32", filterSzip: "szip", filterNbit: "nbit",
	filterScaleOffset: "scaleoffset", 305: "lzo", filterBzip2: "bzip2", filterLZF: "lzf", filterBlosc: "blosc", 32002: "mafisc",
	32003: "snappy", filterLZ4: "lz4", 32005: "apax", 32006: "cbf", 32007: "jpeg-xr", filterBitshuffle: "bitshuffle", 32009: "spdp",
	32010: "lpc-rice", 32011: "ccsds-123", 32012: "jpeg-ls", 32013: "zfp", 32014: "fpzip", filterZstd: "zstd", 32016: "b3d", 32017: "sz",
	32018: "fcidecomp", 32019: "jpeg", 32020: "vbz", 32021: "fapec", 32022: "bitgroom", 32023: "granular-bitround", 32024: "sz3",
	32025: "delta-rice", 32026: "blosc2", 32027: "flac", 32028: "sperr", 32029: "trpx", 32030: "ffmpeg", 32031: "htj2k",
}

// String names the filter: "deflate (1)".
func (fl Filter) String() string {
	name := filterNames[fl.ID]
	if name == "" {
		name = fl.Name
	}
	if name == "" {
		return fmt.Sprintf("filter %d", fl.ID)
	}
	return fmt.Sprintf("%s (%d)", name, fl.ID)
}

func (fl Filter) supported() bool {
	_, ok := steps[fl.ID]
	return ok
}

func (fl Filter) unsupported() error { return unsupportedf("filter %s", fl) }

// param is parameter i, 0 if there are fewer.
func (fl *Filter) param(i int) uint32 {
	if i >= len(fl.Params) {
		return 0
	}
	return fl.Params[i]
}

// grown is how large n stored bytes can become.
func (fl Filter) grown(n uint64) uint64 {
	switch by := steps[fl.ID].expansion; by {
	case 1:
		return n
	case unboundedFilter:
		return max(saturate(n, unboundedRatio), freeChunk)
	default:
		return saturate(n, by)
	}
}

// scratch is one worker's memory.
type scratch struct {
	stored  []byte
	decoded [2][]byte
	turn    int
	inflate inflater
	window  window
	zstd    *zstd.Decoder
	block   []byte // of a codec that decodes in two steps
	planes  []byte
	roomy   []byte // of a codec that would write behind the end of its output
	samples []uint32
	bzip    *bunzip
}

// resize gives n bytes, in b if they fit, with roomBehind more behind them.
func resize(b []byte, n uint64) []byte {
	if uint64(cap(b)) < n+roomBehind {
		return make([]byte, n, n+roomBehind)
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
	limit, compressed, free := ref.size, false, false
	for i, fl := range d.Filters {
		if ref.mask>>i&1 == 1 || d.plainEdges && w.edge {
			continue
		}
		if !fl.supported() {
			return nil, fl.unsupported()
		}
		active[n] = i
		n++
		free = free || steps[fl.ID].expansion == unboundedFilter
		if larger := fl.grown(limit); larger > limit {
			if compressed {
				larger = max(limit, min(larger, freeChunk))
			}
			limit, compressed = larger, true
		}
	}
	if free && d.chunkBytes > limit {
		return nil, unsupportedf("chunk of %d bytes from %d stored ones; the most read is %d", d.chunkBytes, ref.size, limit)
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
		default:
			undo := steps[fl.ID].undo
			if undo == nil {
				return nil, fl.unsupported()
			}
			want := d.encodedSize(active[:k])
			out := direct
			if k > 0 || uint64(len(out)) != want {
				out = s.buffer(want)
			}
			var n int
			n, err = undo(s, &fl, out, b)
			b = out[:n]
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
		case steps[fl.ID].expansion != 1:
			n += n>>stackedSlackShift + stackedSlack
		}
	}
	return n
}

func (s *scratch) undoDeflate(_ *Filter, dst, src []byte) (int, error) {
	return s.inflate.zlib(dst, src)
}

func (s *scratch) undoLZF(_ *Filter, dst, src []byte) (int, error) { return decodeLZF(dst, src) }

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
