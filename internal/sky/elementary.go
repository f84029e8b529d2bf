package sky

import (
	"math"
	"math/big"
)

// Constants in two parts: the first is the float64 nearest to the value, the second what it leaves out.
// Untyped constant arithmetic is exact, so the compiler computes the second part.
const (
	halfPiHi = 0x1.921fb54442d18p+0
	halfPiLo = math.Pi/2 - halfPiHi

	ln2Hi = 0x1.62e42fefap-1 // 33 bits, so that k*ln2Hi is exact for every exponent k
	ln2Lo = math.Ln2 - ln2Hi

	radHi = 0x1.1df46a2529d39p-6 // one degree in radians
	radLo = math.Pi/180 - radHi

	degHi = 0x1.ca5dc1a63c1f8p+5 // one radian in degrees
	degLo = 180/math.Pi - degHi
)

// twoSum returns a+b rounded and what rounding lost.
func twoSum(a, b float64) (s, e float64) {
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// fastTwoSum is twoSum for |a| >= |b|.
func fastTwoSum(a, b float64) (s, e float64) {
	s = a + b
	return s, b - (s - a)
}

// twoProd returns a*b rounded and what rounding lost.
func twoProd(a, b float64) (p, e float64) {
	p = float64(a * b)
	return p, math.FMA(a, b, -p)
}

// sinKernel is sin(r+e) for |r| <= pi/4 (a little over is fine) and |e| below half a unit in the last place of r: the Taylor series to r^17.
func sinKernel(r, e float64) float64 {
	z := float64(r * r)
	const (
		c3  = -1.0 / (2 * 3)
		c5  = 1.0 / (2 * 3 * 4 * 5)
		c7  = -c5 / (6 * 7)
		c9  = -c7 / (8 * 9)
		c11 = -c9 / (10 * 11)
		c13 = -c11 / (12 * 13)
		c15 = -c13 / (14 * 15)
		c17 = -c15 / (16 * 17)
	)
	p := float64(z*c17) + c15
	p = float64(z*p) + c13
	p = float64(z*p) + c11
	p = float64(z*p) + c9
	p = float64(z*p) + c7
	p = float64(z*p) + c5
	p = float64(z*p) + c3
	tail := float64(float64(r*z)*p) + float64(e*(1-float64(0.5*z)))
	return r + tail
}

// cosKernel is cos(r+e) under the same conditions: the Taylor series to r^18.
func cosKernel(r, e float64) float64 {
	z, zlo := twoProd(r, r)
	const (
		c4  = 1.0 / (2 * 3 * 4)
		c6  = -c4 / (5 * 6)
		c8  = -c6 / (7 * 8)
		c10 = -c8 / (9 * 10)
		c12 = -c10 / (11 * 12)
		c14 = -c12 / (13 * 14)
		c16 = -c14 / (15 * 16)
		c18 = -c16 / (17 * 18)
	)
	p := float64(z*c18) + c16
	p = float64(z*p) + c14
	p = float64(z*p) + c12
	p = float64(z*p) + c10
	p = float64(z*p) + c8
	p = float64(z*p) + c6
	p = float64(z*p) + c4
	head, lost := fastTwoSum(1, float64(-0.5*z))
	tail := float64(float64(z*z)*p) - float64(r*e) - float64(0.5*zlo)
	return head + (lost + tail)
}

// reduce returns x - q*pi/2 in two parts, |r| <= pi/4, and q mod 4.
func reduce(x float64) (r, e float64, quadrant int) {
	if math.Abs(x) <= math.Pi/4 {
		return x, 0, 0
	}
	if math.Abs(x) >= 1<<25 {
		return reduceHuge(x)
	}
	q := math.Floor(float64(x*(2/math.Pi)) + 0.5)
	p, lost := twoProd(q, halfPiHi)
	r, e = twoSum(x-p, -lost)
	e -= float64(q * halfPiLo)
	r, e = fastTwoSum(r, e)
	return r, e, int(int64(q) & 3)
}

// reduceHuge is reduce in integers of as many bits as x needs. It is slow and exact, and ordinary callers never get here.
func reduceHuge(x float64) (r, e float64, quadrant int) {
	frac, exp := math.Frexp(math.Abs(x))
	const guard = 200
	bits := uint(max(exp, 0)) + guard
	// pi = 16 atan(1/5) - 4 atan(1/239), scaled by 2^(bits+32); the last 32 bits absorb the truncations.
	one := new(big.Int).Lsh(big.NewInt(1), bits+32)
	arccot := func(n int64) *big.Int {
		term := new(big.Int).Div(one, big.NewInt(n))
		sum := new(big.Int).Set(term)
		for k, sign := int64(3), -1; term.Sign() != 0; k, sign = k+2, -sign {
			term.Div(term, big.NewInt(n*n))
			part := new(big.Int).Div(term, big.NewInt(k))
			if sign < 0 {
				part.Neg(part)
			}
			sum.Add(sum, part)
		}
		return sum
	}
	pi := new(big.Int).Mul(arccot(5), big.NewInt(16))
	pi.Sub(pi, new(big.Int).Mul(arccot(239), big.NewInt(4)))
	half := pi.Rsh(pi, 1) // pi/2

	v := big.NewInt(int64(math.Ldexp(frac, 53)))
	if shift := exp - 53 + int(bits) + 32; shift >= 0 {
		v.Lsh(v, uint(shift))
	} else {
		v.Rsh(v, uint(-shift))
	}
	q, rem := new(big.Int).QuoRem(v, half, new(big.Int))
	if new(big.Int).Lsh(rem, 1).Cmp(half) > 0 {
		rem.Sub(rem, half)
		q.Add(q, big.NewInt(1))
	}
	scaled := new(big.Float).SetInt(rem)
	scaled.SetMantExp(scaled, -int(bits)-32)
	r, _ = scaled.Float64()
	e, _ = new(big.Float).Sub(scaled, new(big.Float).SetFloat64(r)).Float64()
	quadrant = int(new(big.Int).And(q, big.NewInt(3)).Int64())
	if x < 0 {
		r, e, quadrant = -r, -e, (4-quadrant)&3
	}
	return r, e, quadrant
}

// Sin returns the sine of x radians, within 1 unit in the last place for every finite x. NaN and infinities give NaN.
func Sin(x float64) float64 {
	if x == 0 {
		return x
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return math.NaN()
	}
	r, e, q := reduce(x)
	return sinQuadrant(r, e, q)
}

// Cos returns the cosine of x radians, within 1 unit in the last place for every finite x. NaN and infinities give NaN.
func Cos(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return math.NaN()
	}
	r, e, q := reduce(x)
	return sinQuadrant(r, e, q+1)
}

func sinQuadrant(r, e float64, q int) float64 {
	switch q & 3 {
	case 0:
		return sinKernel(r, e)
	case 1:
		return cosKernel(r, e)
	case 2:
		return -sinKernel(r, e)
	}
	return -cosKernel(r, e)
}

// reduceDegrees returns d - 90q degrees in radians, in two parts. The subtraction is exact, which no reduction of
// radians can be: multiples of 90 degrees give exact zeros and ones.
func reduceDegrees(d float64) (r, e float64, q int) {
	if math.Abs(d) >= 1<<20 {
		d = math.Mod(d, 360)
	}
	k := math.Floor(float64(d*(1.0/90)) + 0.5)
	d -= float64(90 * k)
	r, e = twoProd(d, radHi)
	e += float64(d * radLo)
	return r, e, int(int64(k) & 3)
}

// SinDeg returns the sine of d degrees, within 1 unit in the last place; exact at multiples of 90.
func SinDeg(d float64) float64 {
	if d == 0 {
		return d
	}
	if math.IsNaN(d) || math.IsInf(d, 0) {
		return math.NaN()
	}
	r, e, q := reduceDegrees(d)
	return sinQuadrant(r, e, q)
}

// CosDeg returns the cosine of d degrees, within 1 unit in the last place; exact at multiples of 90.
func CosDeg(d float64) float64 {
	if math.IsNaN(d) || math.IsInf(d, 0) {
		return math.NaN()
	}
	r, e, q := reduceDegrees(d)
	return sinQuadrant(r, e, q+1)
}

// Exp returns e^x, within 1 unit in the last place (two among subnormal results). Above 709.78 it is +Inf, below -745.13 zero.
func Exp(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x > 710:
		return math.Inf(1)
	case x < -746:
		return 0
	}
	return expParts(x, 0)
}

// expParts is e^(x+e) for |x| below 746 and e within half a unit in the last place of x: the Taylor series on [-ln2/2, ln2/2].
func expParts(x, e float64) float64 {
	k := math.Floor(float64(x*(1/math.Ln2)) + 0.5)
	hi := x - float64(k*ln2Hi)
	r, lost := twoSum(hi, e-float64(k*ln2Lo))
	const (
		c2  = 1.0 / 2
		c3  = c2 / 3
		c4  = c3 / 4
		c5  = c4 / 5
		c6  = c5 / 6
		c7  = c6 / 7
		c8  = c7 / 8
		c9  = c8 / 9
		c10 = c9 / 10
		c11 = c10 / 11
		c12 = c11 / 12
		c13 = c12 / 13
		c14 = c13 / 14
	)
	p := float64(r*c14) + c13
	p = float64(r*p) + c12
	p = float64(r*p) + c11
	p = float64(r*p) + c10
	p = float64(r*p) + c9
	p = float64(r*p) + c8
	p = float64(r*p) + c7
	p = float64(r*p) + c6
	p = float64(r*p) + c5
	p = float64(r*p) + c4
	p = float64(r*p) + c3
	sq, sqLost := twoProd(r, r)
	tail := float64(float64(sq*r)*p) + float64(0.5*sqLost) + float64(lost*(1+r))
	// 1 + r + r*r/2 is summed with what each step loses, so that only the last addition rounds.
	head, h1 := fastTwoSum(1, r)
	head, h2 := fastTwoSum(head, float64(0.5*sq))
	return math.Ldexp(head+(h1+(h2+tail)), int(k))
}

// logParts returns the natural logarithm of a positive finite x as a sum of two parts, with a relative error below 2^-66.
func logParts(x float64) (hi, lo float64) {
	m, k := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		k--
	}
	// log m = 2 atanh(s), s = (m-1)/(m+1), |s| <= 0.1716
	f := m - 1
	den, denLost := twoSum(m, 1)
	s := f / den
	slo := (math.FMA(-s, den, f) - float64(s*denLost)) / den
	z, zlo := twoProd(s, s)
	zlo += float64(2 * float64(s*slo))

	const (
		t3, t3lo = 0x1.5555555555555p-1, 2.0/3 - 0x1.5555555555555p-1
		t5, t5lo = 0x1.999999999999ap-2, 2.0/5 - 0x1.999999999999ap-2
	)
	p := float64(z*(2.0/25)) + 2.0/23
	p = float64(z*p) + 2.0/21
	p = float64(z*p) + 2.0/19
	p = float64(z*p) + 2.0/17
	p = float64(z*p) + 2.0/15
	p = float64(z*p) + 2.0/13
	p = float64(z*p) + 2.0/11
	p = float64(z*p) + 2.0/9
	p = float64(z*p) + 2.0/7
	// The two largest terms are kept in two parts: z*(2/3 + z*(2/5 + z*p)).
	a, alo := fastTwoSum(t5, float64(z*p))
	alo += t5lo
	b, blo := mulParts(a, alo, z, zlo)
	c, clo := fastTwoSum(t3, b)
	clo += blo + t3lo
	d, dlo := mulParts(c, clo, z, zlo)
	d, dlo = mulParts(d, dlo, s, slo)
	// 2s + s*z*(...)
	hi, lo = fastTwoSum(float64(2*s), d)
	lo += float64(2*slo) + dlo
	if k != 0 {
		kf := float64(k)
		var e float64
		hi, e = fastTwoSum(float64(kf*ln2Hi), hi)
		lo += e + float64(kf*ln2Lo)
	}
	return fastTwoSum(hi, lo)
}

func mulParts(a, alo, b, blo float64) (p, e float64) {
	p, e = twoProd(a, b)
	e += float64(a*blo) + float64(alo*b)
	return fastTwoSum(p, e)
}

// Log returns the natural logarithm of x, within 1 unit in the last place. Log(0) is -Inf, of a negative number NaN.
func Log(x float64) float64 {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case x < 0:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	}
	hi, lo := logParts(x)
	return hi + lo
}

// Pow returns x^y, within 1 unit in the last place (two among subnormal results). Special cases are those of IEEE 754.
func Pow(x, y float64) float64 {
	switch {
	case y == 0 || x == 1:
		return 1
	case math.IsNaN(x) || math.IsNaN(y):
		return math.NaN()
	}
	whole := y == math.Floor(y) && !math.IsInf(y, 0)
	odd := whole && math.Abs(y) < 1<<53 && int64(y)&1 == 1
	negative := odd && math.Signbit(x)
	sign := func(v float64) float64 {
		if negative {
			return -v
		}
		return v
	}
	ax := math.Abs(x)
	switch {
	case math.IsInf(y, 0):
		if ax == 1 {
			return 1
		}
		if (ax > 1) == (y > 0) {
			return math.Inf(1)
		}
		return 0
	case ax == 0 || math.IsInf(ax, 1):
		if (ax == 0) == (y > 0) {
			return sign(0)
		}
		return sign(math.Inf(1))
	case x < 0 && !whole:
		return math.NaN()
	}
	hi, lo := logParts(ax)
	if est := float64(hi * y); est > 710 {
		return sign(math.Inf(1))
	} else if est < -746 {
		return sign(0)
	}
	p, e := twoProd(hi, y)
	e += float64(lo * y)
	p, e = fastTwoSum(p, e)
	return sign(expParts(p, e))
}

// atanTable holds atan(i/8) in two parts.
var atanTable = [9][2]float64{
	{0, 0},
	{0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
	{0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
	{0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
	{0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
	{0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
	{0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
	{0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
	{0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
}

// Atan2 returns the angle of the point (x, y) in radians, in (-pi, pi], within 2 units in the last place; 0 for the origin.
func Atan2(y, x float64) float64 {
	if math.IsNaN(x) || math.IsNaN(y) {
		return math.NaN()
	}
	ax, ay := math.Abs(x), math.Abs(y)
	if math.IsInf(ax, 1) || math.IsInf(ay, 1) {
		lim := func(v float64) float64 {
			if math.IsInf(v, 1) {
				return 1
			}
			return 0
		}
		ax, ay = lim(ax), lim(ay)
	}
	if ax == 0 && ay == 0 {
		return 0
	}
	// Scaling by a power of two keeps the products below from overflowing or vanishing.
	_, top := math.Frexp(max(ax, ay))
	ax, ay = math.Ldexp(ax, -top), math.Ldexp(ay, -top)
	swap := ay > ax
	if swap {
		ax, ay = ay, ax
	}
	i := int(float64(8*ay)/ax + 0.5)
	c := float64(i) / 8
	// atan(ay/ax) = atan(c) + atan(t), |t| <= 1/16
	den := ax + float64(c*ay)
	t := math.FMA(-c, ax, ay) / den
	z := float64(t * t)
	p := float64(z*(-1.0/15)) + 1.0/13
	p = float64(z*p) - 1.0/11
	p = float64(z*p) + 1.0/9
	p = float64(z*p) - 1.0/7
	p = float64(z*p) + 1.0/5
	p = float64(z*p) - 1.0/3
	a, lost := twoSum(atanTable[i][0], t)
	lost += atanTable[i][1] + float64(float64(t*z)*p)
	if swap {
		var e float64
		a, e = twoSum(halfPiHi, -a)
		lost = e + halfPiLo - lost
	}
	if x < 0 {
		var e float64
		a, e = twoSum(2*halfPiHi, -a)
		lost = e + 2*halfPiLo - lost
	}
	return math.Copysign(a+lost, y)
}

// degrees converts radians with an error of half a unit in the last place.
func degrees(r float64) float64 {
	p, e := twoProd(r, degHi)
	return p + (e + float64(r*degLo))
}
