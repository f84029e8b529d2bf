package sky

import (
	"fmt"
	"math"
	"slices"
)

// Range is the pixels [Lo, Hi) of order 29.
type Range struct{ Lo, Hi int64 }

// Ranges is a region of the sky: sorted, disjoint, not touching.
type Ranges []Range

// NewRanges sorts and merges ranges in any order; empty ones are dropped. It changes its argument.
func NewRanges(in []Range) Ranges {
	in = slices.DeleteFunc(in, func(r Range) bool { return r.Lo >= r.Hi })
	slices.SortFunc(in, func(a, b Range) int {
		switch {
		case a.Lo < b.Lo:
			return -1
		case a.Lo > b.Lo:
			return 1
		}
		return 0
	})
	out := in[:0]
	for _, r := range in {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Contains tells whether an order-29 pixel lies in the region.
func (rs Ranges) Contains(pix29 int64) bool { return rs.Overlaps(pix29, pix29+1) }

// Overlaps tells whether any of the order-29 pixels [lo, hi) lies in the region.
func (rs Ranges) Overlaps(lo, hi int64) bool {
	i, _ := slices.BinarySearchFunc(rs, lo, func(r Range, lo int64) int {
		if r.Hi <= lo {
			return -1
		}
		return 1
	})
	return i < len(rs) && rs[i].Lo < hi && lo < hi
}

// Fraction returns the share of the sky the region covers.
func (rs Ranges) Fraction() float64 {
	var n int64
	for _, r := range rs {
		n += r.Hi - r.Lo
	}
	return float64(n) / float64(Pixels(MaxOrder))
}

// Separation returns the angle between two positions in degrees, in [0, 180], accurate at every distance, to a relative 1e-15.
// It is NaN where a coordinate is NaN or infinite.
func Separation(ra1, dec1, ra2, dec2 float64) float64 {
	s1, c1 := SinDeg(dec1), CosDeg(dec1)
	c2 := CosDeg(dec2)
	half := SinDeg(float64(0.5 * (ra2 - ra1)))
	h := 2 * float64(half*half)
	// Small differences are kept whole: cos(ra2-ra1) enters as 1 minus a small number.
	x := CosDeg(dec2-dec1) - float64(float64(c1*c2)*h)
	y := float64(c2 * SinDeg(ra2-ra1))
	w := SinDeg(dec2-dec1) + float64(float64(s1*c2)*h)
	return degrees(Atan2(math.Sqrt(float64(y*y)+float64(w*w)), x))
}

// maxFrontier bounds the pixels that a cone looks at in one order.
const maxFrontier = 1 << 14

// Cone returns a region that covers every position within radius degrees of (ra, dec), and every pixel that holds such a position. It is a superset,
// made of pixels of the given order or coarser: the descent also ends once its rim would cross more than 16,384 pixels, so a wide cone at a fine order costs no more
// memory than a narrow one. The error is ErrOrder, or ErrPosition (also for a radius outside [0, 180]).
func Cone(ra, dec, radius float64, order int) (Ranges, error) {
	if err := checkOrder(order); err != nil {
		return nil, err
	}
	if err := checkPosition(ra, dec); err != nil {
		return nil, err
	}
	if !(radius >= 0 && radius <= 180) {
		return nil, fmt.Errorf("%w: a cone's radius of %v is not in [0, 180] degrees", ErrPosition, radius)
	}
	ra = wrap(ra)
	var found []Range
	rim := make([]int64, 12)
	for i := range rim {
		rim[i] = int64(i)
	}
	for k := 0; ; k++ {
		reach := pixelReach(k)
		kept := rim[:0]
		for _, pix := range rim {
			face, x, y := split(k, pix)
			cra, cdec := place(k, face, 2*x+1, 2*y+1)
			d := Separation(ra, dec, cra, cdec)
			switch {
			case d > radius+reach:
			case d+reach <= radius:
				lo, hi := Span(k, pix)
				found = append(found, Range{lo, hi})
			default:
				kept = append(kept, pix)
			}
		}
		if k == order || 4*len(kept) > maxFrontier {
			for _, pix := range kept {
				lo, hi := Span(k, pix)
				found = append(found, Range{lo, hi})
			}
			return NewRanges(found), nil
		}
		rim = make([]int64, 0, 4*len(kept))
		for _, pix := range kept {
			rim = append(rim, 4*pix, 4*pix+1, 4*pix+2, 4*pix+3)
		}
	}
}

// pixelReach bounds, in degrees, how far a point of a pixel of an order lies from the pixel's centre.
// The widest pixels are those beside the meridians that part the base pixels, just polewards of |z| = 2/3; the bound is the distance
// between such a pixel's corner and its centre, and a hundredth more for safety.
func pixelReach(order int) float64 {
	ns := float64(int64(1) << uint(order))
	t := 1 - 1/ns
	centre := degrees(Atan2(2.0/3, math.Sqrt(5)/3))
	z := 1 - float64(t*t)/3
	corner := degrees(Atan2(z, math.Sqrt(float64((1-z)*(1+z)))))
	return float64(1.01*Separation(45/ns, centre, 0, corner)) + 1e-13
}
