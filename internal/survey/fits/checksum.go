package fits

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"sync"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

const readChunk = 1 << 20

// sums is what is known of an HDU's checksums. The first reader of data has them verified for all.
type sums struct {
	head uint32 // of the header's bytes
	mu   sync.Mutex
	done bool
	err  error
}

// addWords adds the big-endian 32-bit words of b to a ones' complement sum (FITS 4.0, appendix J); zeros are thought after
// b where its last word is not whole. Two words are added at once and folded at the end.
func addWords(sum uint32, b []byte) uint32 {
	var acc, carry uint64
	for len(b) >= 32 {
		acc, carry = bits.Add64(acc, be.Uint64(b), carry)
		acc, carry = bits.Add64(acc, be.Uint64(b[8:]), carry)
		acc, carry = bits.Add64(acc, be.Uint64(b[16:]), carry)
		acc, carry = bits.Add64(acc, be.Uint64(b[24:]), carry)
		b = b[32:]
	}
	for len(b) > 0 {
		var word [8]byte
		n := copy(word[:], b)
		acc, carry = bits.Add64(acc, be.Uint64(word[:]), carry)
		b = b[n:]
	}
	acc, carry = bits.Add64(acc, 0, carry)
	acc += carry
	return addOnes(sum, addOnes(uint32(acc), uint32(acc>>32)))
}

// addOnes adds with the carry brought round.
func addOnes(a, b uint32) uint32 {
	s, c := bits.Add32(a, b, 0)
	return s + c
}

// VerifyChecksums compares DATASUM and CHECKSUM of every HDU, where they stand, with the bytes.
func (f *File) VerifyChecksums(ctx context.Context) error {
	for _, h := range f.hdus {
		if err := h.VerifyChecksums(ctx); err != nil {
			return err
		}
	}
	return nil
}

// VerifyChecksums compares DATASUM and CHECKSUM, where they stand, with the bytes of the HDU; that takes one pass over its
// data. An error wraps ErrChecksum. Images and tables do the same before they give the first value, once an HDU.
func (h *HDU) VerifyChecksums(ctx context.Context) error {
	want, hasData, err := h.stated("DATASUM")
	if err != nil {
		return h.fail(place{column: "DATASUM", row: -1, at: h.head}, err)
	}
	text, hasWhole, err := h.header.Text("CHECKSUM")
	if err != nil {
		return h.fail(place{column: "CHECKSUM", row: -1, at: h.head}, err)
	}
	hasWhole = hasWhole && text != ""
	if !hasData && !hasWhole {
		return nil
	}
	sum := uint32(0)
	buf := make([]byte, min(readChunk, padded(h.size)))
	for at, end := h.data, min(h.data+padded(h.size), h.f.size); at < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(int64(len(buf)), end-at)]
		if err := h.f.readAt(b, at); err != nil {
			return h.fail(place{row: -1, at: at}, err)
		}
		sum = addWords(sum, b)
		at += int64(len(b))
	}
	if hasData && sum != want {
		return h.fail(place{row: -1, at: h.data}, checksumf("DATASUM is %d, the data give %d", want, sum))
	}
	if whole := addOnes(h.sums.head, sum); hasWhole && whole != ^uint32(0) && whole != 0 {
		return h.fail(place{row: -1, at: h.head}, checksumf("CHECKSUM does not fit the bytes: they were changed after it was made"))
	}
	return nil
}

func checksumf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrChecksum, fmt.Sprintf(format, args...))
}

// stated is a sum that stands in the header as decimal text.
func (h *HDU) stated(keyword string) (uint32, bool, error) {
	text, found, err := h.header.Text(keyword)
	if err != nil {
		// Some writers leave the quotes out.
		n, ok, err := h.header.Int(keyword)
		if err != nil || n < 0 || n > 1<<32-1 {
			return 0, false, corruptf("it is no number of 32 bits")
		}
		return uint32(n), ok, nil
	}
	if text = strings.TrimSpace(text); !found || text == "" {
		return 0, false, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, false, corruptf("%q is no number of 32 bits", text)
	}
	return uint32(n), true, nil
}

// verify verifies once; a pass that was cancelled does not count.
func (h *HDU) verify(ctx context.Context) error {
	h.sums.mu.Lock()
	defer h.sums.mu.Unlock()
	if !h.sums.done && !h.f.unverified {
		err := h.VerifyChecksums(ctx)
		if err != nil && ctx.Err() != nil {
			return err
		}
		h.sums.done, h.sums.err = true, err
	}
	return h.sums.err
}
