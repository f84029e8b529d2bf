package fits

import "math"

// ditherMethod is how noise was taken off quantised floats, and has to be added again (FITS 4.0, section 10.2).
type ditherMethod uint8

const (
	noDither ditherMethod = iota
	dither1
	dither2
)

const (
	randoms     = 10000       // numbers in the table of the standard's generator
	ditherZero  = -2147483646 // in SUBTRACTIVE_DITHER_2 an exact zero
	randomSpan  = 500         // a row begins at one of the first 500 of the table
	randomScale = 16807       // of the generator (FITS 4.0, appendix I)
	randomMod   = 2147483647
)

// randomNumbers is the table of the standard: the minimal generator from seed 1, as float32.
func randomNumbers() []float32 {
	t := make([]float32, randoms)
	seed := int64(1)
	for i := range t {
		seed = seed * randomScale % randomMod
		t[i] = float32(float64(seed) / randomMod)
	}
	return t
}

// quantized is one tile of quantised floats.
type quantized struct {
	scale, zero float64
	blank       int64
	hasBlank    bool
	method      ditherMethod
	random      []float32
	row         int64 // number of the tile, from 0, and seed together
}

// dither walks over the table of random numbers.
type dither struct {
	random []float32
	start  int
	next   int
}

func (q *quantized) dither() dither {
	d := dither{random: q.random, start: int((q.row - 1) % randoms)}
	d.next = int(d.random[d.start] * randomSpan)
	return d
}

// advance goes on by n numbers, at most to the table's end.
func (d *dither) advance(n int) {
	if d.next += n; d.next == randoms {
		if d.start++; d.start == randoms {
			d.start = 0
		}
		d.next = int(d.random[d.start] * randomSpan)
	}
}

// blockFloats is how many floats are computed before they are stored.
const blockFloats = 256

// values computes the floats of vals, which are no more than blockFloats. The conversions keep a product from being fused
// with the sum.
func (q *quantized) values(out []float64, vals []int32, d *dither) {
	scale, zero := q.scale, q.zero
	out = out[:len(vals)]
	if q.method == noDither {
		for i, v := range vals {
			out[i] = float64(float64(v)*scale) + zero
		}
	}
	for done := 0; q.method != noDither && done < len(vals); {
		random := d.random[d.next:]
		random = random[:min(len(random), len(vals)-done)]
		part, to := vals[done:done+len(random)], out[done:done+len(random)]
		for i, r := range random {
			to[i] = float64((float64(part[i])-float64(r)+0.5)*scale) + zero
		}
		done += len(random)
		d.advance(len(random))
	}
	if q.method == dither2 {
		for i, v := range vals {
			if v == ditherZero {
				out[i] = 0
			}
		}
	}
	if q.hasBlank {
		for i, v := range vals {
			if int64(v) == q.blank {
				out[i] = nan()
			}
		}
	}
}

// store writes the floats of vals, of 4 or 8 bytes.
func (q *quantized) store(dst []byte, vals []int32, width int) {
	var d dither
	if q.method != noDither {
		d = q.dither()
	}
	var block [blockFloats]float64
	for len(vals) > 0 {
		n := min(len(vals), blockFloats)
		q.values(block[:], vals[:n], &d)
		if width == 4 {
			for _, v := range block[:n] {
				le.PutUint32(dst, math.Float32bits(float32(v)))
				dst = dst[4:]
			}
		} else {
			for _, v := range block[:n] {
				le.PutUint64(dst, math.Float64bits(v))
				dst = dst[8:]
			}
		}
		vals = vals[n:]
	}
}
