package catalog

import "math"

// HalfToFloat widens an IEEE 754 binary16, the payload of a NaN included.
func HalfToFloat(h uint16) float64 {
	sign, exp, mant := uint64(h>>15)<<63, int(h>>10&31), uint64(h&1023)
	switch exp {
	case 31:
		return math.Float64frombits(sign | 2047<<52 | mant<<42)
	case 0:
		return math.Copysign(float64(mant)/(1<<24), math.Float64frombits(sign|1))
	}
	return math.Float64frombits(sign | uint64(exp-15+1023)<<52 | mant<<42)
}

// FloatToHalf rounds to the nearest IEEE 754 binary16, ties to even. NaN keeps its sign and loses its payload.
func FloatToHalf(f float64) uint16 {
	bits := math.Float64bits(f)
	sign := uint16(bits >> 48 & 0x8000)
	a := math.Abs(f)
	switch {
	case f != f:
		return sign | 0x7e00
	case a >= 65520:
		return sign | 0x7c00
	case a < 1.0/(1<<14):
		// A multiple of 2^-24; 1024 of them are the least normal number, whose bits follow.
		return sign | uint16(math.RoundToEven(a*(1<<24)))
	}
	exp := int(bits>>52&2047) - 1023
	mant := bits & (1<<52 - 1)
	// Ten bits stay of the mantissa; what rounds up carries into the exponent by the addition.
	half := uint64(1)<<41 - 1 + mant>>42&1
	return sign | (uint16(exp+15)<<10 + uint16((mant+half)>>42))
}
