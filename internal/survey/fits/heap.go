package fits

// heap reads what descriptors of an HDU point at.
type heap struct {
	h    *HDU
	at   int64 // byte of the file where the heap begins
	size int64
	buf  []byte
	lo   int64 // bytes [lo, lo+len(buf)) of the heap are in buf
}

const heapWindow = 1 << 20 // read ahead where arrays follow one another

// newHeap finds the heap: behind the table, or where THEAP says.
func (h *HDU) newHeap() (heap, error) {
	table := h.size - h.pcount
	theap, found, err := h.header.Int("THEAP")
	if err != nil {
		return heap{}, err
	}
	if !found {
		theap = table
	}
	if theap < table || theap > h.size {
		return heap{}, corruptf("THEAP = %d, the table has %d bytes and the data %d", theap, table, h.size)
	}
	return heap{h: h, at: h.data + theap, size: h.size - theap}, nil
}

// check says whether n bytes at off are in the heap.
func (p *heap) check(off, n int64) error {
	if off < 0 || n < 0 || off > p.size || n > p.size-off {
		return corruptf("a descriptor points at bytes %d to %d of a heap of %d", off, off+n, p.size)
	}
	return nil
}

// load makes bytes [lo, hi) the next to be had without a read.
func (p *heap) load(lo, hi int64) error {
	if lo >= p.lo && hi <= p.lo+int64(len(p.buf)) {
		return nil
	}
	n := hi - lo
	if int64(cap(p.buf)) < n {
		p.buf = make([]byte, n)
	}
	p.buf, p.lo = p.buf[:n], lo
	if err := p.h.f.readAt(p.buf, p.at+lo); err != nil {
		p.buf = p.buf[:0]
		return err
	}
	return nil
}

// get gives n bytes at off, until the next call.
func (p *heap) get(off, n int64) ([]byte, error) {
	if err := p.check(off, n); err != nil {
		return nil, err
	}
	end := p.lo + int64(len(p.buf))
	if off < p.lo || off+n > end {
		hi := off + n
		if off >= p.lo && off <= end+heapWindow/16 {
			hi = min(p.size, max(hi, off+heapWindow))
		}
		if err := p.load(off, hi); err != nil {
			return nil, err
		}
	}
	return p.buf[off-p.lo : off-p.lo+n], nil
}
