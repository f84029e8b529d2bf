package shard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// Levels are checked by run, without expanding them: a tensor's levels are known beforehand from its shape.

// errIrregular marks pages that obey Parquet but do not hold the shape that was asked for, or not in a way that the
// page reader knows.
var errIrregular = errors.New("levels do not repeat the shape")

// maxLevelWidth is the width in bits of the largest level that is accepted.
const maxLevelWidth = 5

// shapeLevels is what the levels of a tensor column must be.
type shapeLevels struct {
	elems   int   // elements a row
	strides []int // strides[j]: elements below dimension j, so strides[0] = elems and the last is 1; empty for scalars
	maxRep  int
	maxDef  int
}

func newShapeLevels(dims []int, maxRep, maxDef int) shapeLevels {
	s := shapeLevels{elems: 1, maxRep: maxRep, maxDef: maxDef, strides: make([]int, len(dims)+1)}
	s.strides[len(dims)] = 1
	for i := len(dims) - 1; i >= 0; i-- {
		s.elems *= dims[i]
		s.strides[i] = s.elems
	}
	return s
}

// repAt is the repetition level of element i of a row: the first dimension that starts anew there.
func (s *shapeLevels) repAt(i int) int {
	for j, n := range s.strides {
		if i%n == 0 {
			return j
		}
	}
	return s.maxRep
}

// hybridRun reads the header of one run of the RLE/bit-packed hybrid: n values, packed or all of one value.
func hybridRun(b []byte) (n int, packed bool, rest []byte, err error) {
	h, k := binary.Uvarint(b)
	if k <= 0 {
		return 0, false, nil, fmt.Errorf("%w: levels end early", ErrFormat)
	}
	if h>>1 > 1<<31-1 {
		return 0, false, nil, fmt.Errorf("%w: a run of %d levels", ErrFormat, h>>1)
	}
	n = int(h >> 1)
	if packed = h&1 == 1; packed {
		if n > 1<<28-1 {
			return 0, false, nil, fmt.Errorf("%w: a run of %d groups of levels", ErrFormat, n)
		}
		n *= 8
	}
	return n, packed, b[k:], nil
}

// packedAt is value i of bit-packed values of width w; b holds all of it.
func packedAt(b []byte, i, w int) int {
	at := i * w
	v := uint(b[at>>3]) >> (at & 7)
	if at&7+w > 8 {
		v |= uint(b[at>>3+1]) << (8 - at&7)
	}
	return int(v & (1<<w - 1))
}

// packedGroup is the bytes of eight equal values of width w, at most maxLevelWidth.
func packedGroup(v, w int) (g [maxLevelWidth]byte) {
	for i := 0; i < 8; i++ {
		at := i * w
		x := uint(v) << (at & 7)
		g[at>>3] |= byte(x)
		if at&7+w > 8 {
			g[at>>3+1] |= byte(x >> 8)
		}
	}
	return g
}

// checkDef says whether n definition levels are all the largest: nothing is null and no list is empty.
func (s *shapeLevels) checkDef(b []byte, n int) error {
	return s.checkRuns(b, n, s.maxDef, func(_, c, v int) (bool, error) {
		return v == s.maxDef, nil
	})
}

// checkRep says whether n repetition levels repeat the shape. phase is the place in its row of the first element.
func (s *shapeLevels) checkRep(b []byte, n, phase int) error {
	inner := s.elems
	if len(s.strides) > 1 {
		inner = s.strides[len(s.strides)-2]
	}
	return s.checkRuns(b, n, s.maxRep, func(i, c, v int) (bool, error) {
		at := (i + phase) % s.elems
		if v == s.maxRep {
			a := at % inner
			return a > 0 && a+c <= inner, nil
		}
		for j := 0; j < c; j++ {
			if s.repAt((at+j)%s.elems) != v {
				return false, nil
			}
		}
		return true, nil
	})
}

// checkRuns walks n levels of at most maxv and calls ok with runs of equal values; a false answer is errIrregular.
func (s *shapeLevels) checkRuns(b []byte, n, maxv int, ok func(at, count, value int) (bool, error)) error {
	w := bits.Len(uint(maxv))
	if w > maxLevelWidth {
		return fmt.Errorf("%w: levels up to %d", errIrregular, maxv)
	}
	all := packedGroup(maxv, w)
	try := func(at, c, v int) error {
		if v > maxv {
			return fmt.Errorf("%w: level %d, at most %d", ErrFormat, v, maxv)
		}
		good, err := ok(at, c, v)
		if err == nil && !good {
			err = fmt.Errorf("%w: level %d at element %d of the page", errIrregular, v, at)
		}
		return err
	}
	for i := 0; i < n; {
		c, packed, rest, err := hybridRun(b)
		if err != nil {
			return err
		}
		b = rest
		if !packed {
			if c > n-i {
				return fmt.Errorf("%w: %d levels in a page of %d values", ErrFormat, i+c, n)
			}
			if len(b) < 1 {
				return fmt.Errorf("%w: levels end early", ErrFormat)
			}
			v := int(b[0])
			b = b[1:]
			if c > 0 {
				if err := try(i, c, v); err != nil {
					return err
				}
			}
			i += c
			continue
		}
		if c/8*w > len(b) {
			return fmt.Errorf("%w: levels end early", ErrFormat)
		}
		for g := 0; g < c && i < n; g += 8 {
			group := b[g/8*w : g/8*w+w]
			if n-i >= 8 && bytes.Equal(group, all[:w]) {
				if good, err := ok(i, 8, maxv); err != nil {
					return err
				} else if good {
					i += 8
					continue
				}
			}
			for k := 0; k < 8 && i < n; k++ {
				if err := try(i, 1, packedAt(group, k, w)); err != nil {
					return err
				}
				i++
			}
		}
		b = b[c/8*w:]
	}
	return nil
}

// inferDims finds the shape of the first row from the repetition levels of a chunk's first page (n of them), given
// that all rows have elems elements. It is a guess until every page was checked.
func inferDims(b []byte, n, maxRep, elems int) ([]int, error) {
	strides := make([]int, maxRep+1)
	strides[0], strides[maxRep] = elems, 1
	w := bits.Len(uint(maxRep))
	if w > maxLevelWidth {
		return nil, fmt.Errorf("%w: lists nested %d deep", errIrregular, maxRep)
	}
	see := func(i, v int) {
		for j := max(v, 1); j < maxRep; j++ {
			if strides[j] == 0 {
				strides[j] = i
			}
		}
	}
	n = min(n, elems)
	for i := 0; i < n; {
		c, packed, rest, err := hybridRun(b)
		if err != nil {
			return nil, err
		}
		b = rest
		if packed {
			if c/8*w > len(b) {
				return nil, fmt.Errorf("%w: levels end early", ErrFormat)
			}
			for k := 0; k < c && i+k < n; k++ {
				if v := packedAt(b, k, w); i+k > 0 {
					see(i+k, v)
				}
			}
			b = b[c/8*w:]
		} else {
			if len(b) < 1 {
				return nil, fmt.Errorf("%w: levels end early", ErrFormat)
			}
			v := int(b[0])
			b = b[1:]
			if i > 0 && c > 0 {
				see(i, v)
			} else if c > 1 {
				see(1, v)
			}
		}
		i += c
	}
	dims := make([]int, maxRep)
	for j := 1; j < maxRep; j++ {
		if strides[j] == 0 {
			strides[j] = elems
		}
	}
	for j := range dims {
		if strides[j+1] == 0 || strides[j]%strides[j+1] != 0 || strides[j] == 0 {
			return nil, fmt.Errorf("%w: the first row is no box", errIrregular)
		}
		dims[j] = strides[j] / strides[j+1]
	}
	return dims, nil
}
