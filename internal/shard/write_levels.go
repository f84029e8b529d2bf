package shard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	alignment    = 64  // of the values of uncompressed tensor pages in the file
	minAligned   = 320 // values below which a page is not padded: its definition levels cannot be cut into enough runs
	maxPad       = 66  // bytes of padding that minAligned values give room for
	padVariants  = 64  // ways to cut the same padding, which give other checksums
	shortPadRun  = 8   // values of a padding run of two bytes
	longPadRun   = 64  // values of a padding run of three bytes
	maxFrameHead = 64  // bytes of the header of a tensor page
)

// repetitionLevels encodes the levels of rows of a tensor with the given sides: the shorter of runs and one packed run.
func repetitionLevels(dims []int, rows int) []byte {
	depth := len(dims)
	elems := 1
	for _, d := range dims {
		elems *= d
	}
	// level is the depth less the number of innermost sides that start anew at element i of a row.
	level := func(i int) byte {
		for k := depth - 1; k >= 0; k-- {
			if i%dims[k] != 0 {
				return byte(k + 1)
			}
			i /= dims[k]
		}
		return 0
	}
	width := bitWidth(depth)
	packedSize := len(binary.AppendUvarint(nil, uint64((rows*elems+7)/8)<<1|1)) + (rows*elems+7)/8*width
	var runs []byte
	n, last := 0, byte(0)
	line := dims[depth-1]
	put := func(v byte, count int) {
		if count == 0 {
			return
		}
		if n > 0 && v != last {
			runs = appendRun(runs, n, last)
			n = 0
		}
		n, last = n+count, v
	}
	for range rows {
		for i := 0; i < elems; i += line {
			put(level(i), 1)
			put(byte(depth), line-1)
		}
		if len(runs) > packedSize {
			return appendPacked(nil, rows*elems, width, func(i int) byte { return level(i % elems) })
		}
	}
	runs = appendRun(runs, n, last)
	if len(runs) > packedSize {
		return appendPacked(nil, rows*elems, width, func(i int) byte { return level(i % elems) })
	}
	return runs
}

// definitionSize is the length of definition levels of n values with pad bytes of padding, and how many values stand in
// the padding.
func definitionSize(n, pad int) (size, padded int) {
	if pad%2 == 1 {
		padded, pad = longPadRun, pad-3
		size = 3
	}
	padded += pad / 2 * shortPadRun
	size += pad
	return size + uvarintLen(uint64(n-padded)<<1) + 1, padded
}

// appendDefinition appends definition levels of n values, all of level v: one run, or with padding several.
// A variant moves values from the first padding runs to the last run; it changes neither size nor meaning.
func appendDefinition(b []byte, n int, v byte, pad, variant int) []byte {
	left := n
	if pad%2 == 1 {
		run := longPadRun + variant%8
		b = appendRun(b, run, v)
		left, pad = left-run, pad-3
		variant /= 8
	}
	for k := 0; k < pad/2; k++ {
		run := shortPadRun - variant%8
		variant /= 8
		b = appendRun(b, run, v)
		left -= run
	}
	return appendRun(b, left, v)
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

func zigzagLen(v int32) int { return uvarintLen(uint64(uint32(v<<1) ^ uint32(v>>31))) }

// frameSpec is what stands before the values of a V1 tensor page.
type frameSpec struct {
	values    int
	depth     int // maximum definition and repetition level
	encoding  Encoding
	rep       []byte // encoded repetition levels
	prefix    []byte // between the levels and the values: width and run header of dictionary indexes
	valueSize int    // bytes of the values
	valueCRC  uint32
	shift     *crcShift // for valueSize bytes
}

// appendFrame appends header, levels and prefix of an uncompressed V1 page to b, whose first byte stands at pos in the
// file, so that the values that follow stand at a multiple of 64 bytes; a page of under 320 values is not padded.
func appendFrame(b []byte, pos int64, f *frameSpec) ([]byte, error) {
	head := PageHeader{Type: PageData, HasCRC: true, Data: &DataPageHeader{NumValues: int32(f.values), Encoding: f.encoding, DefEncoding: EncRLE, RepEncoding: EncRLE}}
	var room [maxFrameHead]byte
	baseHead := len(head.Append(room[:0])) - 3 // without sizes and checksum
	fixed := 4 + len(f.rep) + 4 + len(f.prefix)
	start := len(b)
	write := func(pad, variant, wantHead int) ([]byte, bool) {
		var body []byte
		if cap(b)-start >= maxFrameHead+fixed+maxPad+16 {
			body = b[start+maxFrameHead : start+maxFrameHead] // behind the header's place
		}
		body = binary.LittleEndian.AppendUint32(body, uint32(len(f.rep)))
		body = append(body, f.rep...)
		mark := len(body)
		body = append(body, 0, 0, 0, 0)
		body = appendDefinition(body, f.values, byte(f.depth), pad, variant)
		binary.LittleEndian.PutUint32(body[mark:], uint32(len(body)-mark-4))
		body = append(body, f.prefix...)
		head.CRC = joinCRC(crc32.ChecksumIEEE(body), f.valueCRC, f.shift)
		head.UncompressedSize = int32(len(body) + f.valueSize)
		head.CompressedSize = head.UncompressedSize
		h := head.Append(room[:0])
		if wantHead > 0 && len(h) != wantHead {
			return nil, false
		}
		out := append(b, h...)
		return append(out, body...), true
	}
	if f.values < minAligned {
		out, _ := write(0, 0, 0)
		return out, nil
	}
	for variant := range padVariants {
		for pad := 0; pad <= maxPad; pad++ {
			if pad == 1 || variant > 0 && pad == 0 {
				continue
			}
			def, _ := definitionSize(f.values, pad)
			// A variant that moves values must not change the length of the last run.
			if variant > 0 && def != len(appendDefinition(nil, f.values, byte(f.depth), pad, variant)) {
				continue
			}
			size := int32(fixed + def + f.valueSize)
			before := baseHead + 2*zigzagLen(size) + fixed + def
			crcLen := int((alignment - (pos+int64(before))%alignment) % alignment)
			if crcLen < 1 || crcLen > 5 {
				continue
			}
			if out, ok := write(pad, variant, baseHead+2*zigzagLen(size)+crcLen); ok {
				return out, nil
			}
		}
	}
	return nil, fmt.Errorf("shard: no cut of the levels of %d values aligns a page at byte %d", f.values, pos)
}
