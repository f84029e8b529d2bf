package hdf5

import (
	"fmt"
	"math/bits"
)

// Parameters of the szip filter (HDF5 library, "Szip filter") and its options.
const (
	szipOptions     = 0
	szipBlock       = 1 // samples of a block
	szipDepth       = 2 // bits of an element
	szipLine        = 3 // samples of a scan line
	szipParams      = 4
	szipBigEndian   = 1 << 4
	szipPredicted   = 1 << 5 // the option of nearest neighbours: samples are differences from the one before
	szipHead        = 4
	szipMaxBlock    = 64
	szipMaxInterval = 1 << 16 // samples between references; writers make at most 4096

	// szipExpansion: 11 bits or more stand for at most a segment of 64 blocks of 64 samples of 4 bytes.
	szipExpansion = 1 << 14
)

// Codes of CCSDS 121.0-B-3, "Lossless data compression", the blocks of which szip's data are.
const (
	aecSegment   = 64 // blocks
	aecRest      = 5  // a run of zero blocks of this number reaches to the segment's end
	aecExtension = 91 // values of a pair in the second extension, of which writers use no others
)

var errSzip = fmt.Errorf("%w: bad szip data", ErrCorrupt)

// undoSzip decodes filter 4: 4 bytes of decoded size, then blocks of samples. Elements of 32 and 64 bits are stored by
// byte, all first bytes first, as samples of 8 bits. A scan line that is no multiple of a block is filled up.
func (s *scratch) undoSzip(fl *Filter, dst, src []byte) (int, error) {
	options, block, depth, line := fl.param(szipOptions), int(fl.param(szipBlock)), int(fl.param(szipDepth)), int(fl.param(szipLine))
	if len(fl.Params) != szipParams || block < 2 || block > szipMaxBlock || block%2 != 0 || line < 1 || line > szipMaxInterval || depth < 1 {
		return 0, fmt.Errorf("%w: blocks of %d samples, elements of %d bits, lines of %d", ErrCorrupt, block, depth, line)
	}
	width := 1 // bytes by which elements are stored apart
	if depth == 32 || depth == 64 {
		width, depth = depth/8, 8
	}
	if depth > 32 || len(src) < szipHead {
		return 0, fmt.Errorf("%w: elements of %d bits in %d bytes", ErrCorrupt, depth, len(src))
	}
	size := int(le.Uint32(src))
	sample := 1
	if depth > 16 {
		sample = 4
	} else if depth > 8 {
		sample = 2
	}
	if size > len(dst) || size%(sample*width) != 0 {
		return 0, fmt.Errorf("%w: %d bytes where %d fit", ErrCorrupt, size, len(dst))
	}
	out := dst[:size]
	if width > 1 {
		s.block = resize(s.block, uint64(size))
		out = s.block
	}
	d := aec{bits: msbReader{b: src[szipHead:]}, depth: depth, block: block, blocks: (line + block - 1) / block, predicted: options&szipPredicted != 0}
	d.idBits = 3
	if depth > 16 {
		d.idBits = 5
	} else if depth > 8 {
		d.idBits = 4
	}
	interval := d.blocks * block
	if cap(s.samples) < interval {
		s.samples = make([]uint32, interval)
	}
	all := s.samples[:interval]
	for at := 0; at < size; at += line * sample {
		n := min(line, (size-at)/sample)
		if err := d.interval(all[:(n+block-1)/block*block]); err != nil {
			return 0, err
		}
		if d.predicted {
			d.sum(all[:n])
		}
		putSamples(out[at:at+n*sample], all[:n], sample, options&szipBigEndian != 0)
	}
	if width > 1 {
		unshuffle(dst[:size], out, width)
	}
	return size, nil
}

func putSamples(dst []byte, samples []uint32, size int, bigEndian bool) {
	switch size {
	case 1:
		dst = dst[:len(samples)]
		for i, v := range samples {
			dst[i] = byte(v)
		}
	case 2:
		for i, v := range samples {
			le.PutUint16(dst[2*i:], uint16(v))
		}
	default:
		for i, v := range samples {
			le.PutUint32(dst[4*i:], v)
		}
	}
	if bigEndian && size > 1 {
		reverse(dst, size)
	}
}

// aec decodes blocks of samples.
type aec struct {
	bits      msbReader
	depth     int // bits of a sample
	idBits    int
	block     int // samples
	blocks    int // of a reference interval
	predicted bool
}

// interval decodes whole blocks into out, the first of which begins with a reference if samples are predicted.
func (d *aec) interval(out []uint32) error {
	r := &d.bits
	for b := 0; b*d.block < len(out); b++ {
		samples := out[b*d.block : (b+1)*d.block]
		id := int(r.take(d.idBits))
		extended := id == 0 && r.take(1) == 1
		ref := 0
		if d.predicted && b == 0 && id != 1<<d.idBits-1 {
			samples[0] = uint32(r.take(d.depth))
			ref = 1
		}
		switch {
		case extended:
			if !d.pairs(samples, ref) {
				return errSzip
			}
		case id == 0:
			n := int(r.zeros()) + 1
			if n == aecRest {
				n = min(d.blocks-b, aecSegment-b%aecSegment)
			} else if n > aecRest {
				n--
			}
			if n > d.blocks-b {
				return errSzip
			}
			// The last interval may hold fewer blocks than a run says.
			n = min(n, len(out)/d.block-b)
			clear(out[b*d.block+ref : (b+n)*d.block])
			b += n - 1
		case id == 1<<d.idBits-1:
			for i := range samples {
				samples[i] = uint32(r.take(d.depth))
			}
		default:
			split(r, samples[ref:], id-1)
		}
		if r.over() {
			return errSzip
		}
	}
	return nil
}

// split reads samples as a unary number of high bits each, and then k low bits of each.
func split(r *msbReader, samples []uint32, k int) {
	acc, n := r.acc, r.n
	for i := range samples {
		if n < 32 {
			r.acc, r.n = acc, n
			r.fill()
			acc, n = r.acc, r.n
		}
		z := bits.LeadingZeros64(acc)
		if z >= n {
			r.acc, r.n = acc, n
			samples[i] = r.zeros() << k
			acc, n = r.acc, r.n
			continue
		}
		acc <<= uint(z + 1)
		n -= z + 1
		samples[i] = uint32(z) << k
	}
	if k > 0 {
		for i := range samples {
			if n < k {
				r.acc, r.n = acc, n
				r.fill()
				acc, n = r.acc, r.n
			}
			samples[i] |= uint32(acc >> (64 - k))
			acc <<= k
			n -= k
		}
	}
	r.acc, r.n = acc, n
}

// pairs reads samples of the second extension: two small numbers a code.
func (d *aec) pairs(samples []uint32, ref int) bool {
	for i := ref; i < len(samples); i++ {
		m := int(d.bits.zeros())
		if m >= aecExtension {
			return false
		}
		// m counts pairs by their sum, and those of one sum by the second.
		sum, first := 0, 0
		for first+sum+1 <= m {
			first += sum + 1
			sum++
		}
		second := uint32(m - first)
		if i%2 == 0 {
			samples[i] = uint32(sum) - second
			i++
		}
		samples[i] = second
	}
	return true
}

// sum turns samples behind the first, which are mapped differences, into values (CCSDS 121.0-B-3, 4.3 and 4.4).
func (d *aec) sum(samples []uint32) {
	if len(samples) == 0 {
		return
	}
	most := uint32(1<<d.depth - 1)
	x := samples[0]
	half := most/2 + 1
	for i, v := range samples[1:] {
		var mask uint32 // all ones if the upper limit is nearer
		if x&half != 0 {
			mask = most
		}
		if v>>1+v&1 <= mask^x {
			x += v>>1 ^ -(v & 1)
		} else {
			x = mask ^ v
		}
		samples[i+1] = x
	}
}
