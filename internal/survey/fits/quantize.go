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

func (d *dither) draw() float64 {
	v := float64(d.random[d.next])
	if d.next++; d.next == randoms {
		if d.start++; d.start == randoms {
			d.start = 0
		}
		d.next = int(d.random[d.start] * randomSpan)
	}
	return v
}

// value gives the float of v. The conversions keep a product from being fused with the sum.
func (q *quantized) value(v int32, d *dither) float64 {
	if q.method == noDither {
		if q.hasBlank && int64(v) == q.blank {
			return nan()
		}
		return float64(float64(v)*q.scale) + q.zero
	}
	r := d.draw()
	switch {
	case q.hasBlank && int64(v) == q.blank:
		return nan()
	case q.method == dither2 && v == ditherZero:
		return 0
	}
	return float64((float64(v)-r+0.5)*q.scale) + q.zero
}

func (q *quantized) float32(dst []byte, vals []int32) {
	var d dither
	if q.method != noDither {
		d = q.dither()
	}
	for i, v := range vals {
		le.PutUint32(dst[4*i:], math.Float32bits(float32(q.value(v, &d))))
	}
}

func (q *quantized) float64(dst []byte, vals []int32) {
	var d dither
	if q.method != noDither {
		d = q.dither()
	}
	for i, v := range vals {
		le.PutUint64(dst[8*i:], math.Float64bits(q.value(v, &d)))
	}
}
