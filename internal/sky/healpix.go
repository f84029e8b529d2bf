package sky

import (
	"errors"
	"fmt"
	"math"
)

// MaxOrder is the finest HEALPix order: 12*4^29 pixels of about 0.4 milliarcseconds.
const MaxOrder = 29

var (
	// ErrPosition is returned, wrapped, for a right ascension that is not finite or a declination outside [-90, 90].
	ErrPosition = errors.New("not a position on the sky")
	// ErrOrder is returned, wrapped, for an order outside 0..29.
	ErrOrder = errors.New("HEALPix order outside 0..29")
	// ErrPixel is returned, wrapped, for a pixel that its order does not have.
	ErrPixel = errors.New("no such HEALPix pixel")
)

const sqrt6 = 2.449489742783178098197284074705891391965947480656670128432692567250960377457315026539859433104640234680738

// Pixels returns the number of pixels of an order, 12*4^order. The order must lie in 0..29.
func Pixels(order int) int64 { return 12 << (2 * uint(order)) }

// Fraction returns the share of the whole sky that one pixel of an order covers. All pixels of an order have the same area.
func Fraction(order int) float64 { return 1 / float64(Pixels(order)) }

// Area returns the area of one pixel of an order in square degrees.
func Area(order int) float64 {
	const wholeSky = 129600 / math.Pi
	return wholeSky / float64(Pixels(order))
}

func checkOrder(order int) error {
	if order < 0 || order > MaxOrder {
		return fmt.Errorf("%w: %d", ErrOrder, order)
	}
	return nil
}

func checkPixel(order int, pix int64) error {
	if err := checkOrder(order); err != nil {
		return err
	}
	if pix < 0 || pix >= Pixels(order) {
		return fmt.Errorf("%w: pixel %d at order %d, which has %d", ErrPixel, pix, order, Pixels(order))
	}
	return nil
}

func checkPosition(ra, dec float64) error {
	if math.IsNaN(ra) || math.IsInf(ra, 0) {
		return fmt.Errorf("%w: right ascension %v is not finite", ErrPosition, ra)
	}
	if !(dec >= -90 && dec <= 90) {
		return fmt.Errorf("%w: declination %v is not in [-90, 90] degrees", ErrPosition, dec)
	}
	return nil
}

// wrap brings a finite angle into [0, 360).
func wrap(ra float64) float64 {
	if ra >= 0 && ra < 360 {
		return ra
	}
	ra = math.Mod(ra, 360)
	if ra < 0 {
		ra += 360
	}
	if ra >= 360 {
		// A tiny negative angle rounds up to the full turn.
		return 0
	}
	return ra
}

// Pix returns the NESTED pixel of an order that holds the position (ra, dec), in degrees.
// The error is ErrPosition or ErrOrder.
func Pix(order int, ra, dec float64) (int64, error) {
	if err := checkOrder(order); err != nil {
		return 0, err
	}
	if err := checkPosition(ra, dec); err != nil {
		return 0, err
	}
	face, x, y := locate(order, wrap(ra), dec)
	return join(order, face, x, y), nil
}

// Healpix29 returns the NESTED pixel at order 29, the value of HATS' column _healpix_29.
func Healpix29(ra, dec float64) (int64, error) { return Pix(MaxOrder, ra, dec) }

// locate returns the base pixel and the column (towards north-east) and row (towards north-west) in it.
func locate(order int, ra, dec float64) (face, x, y int64) {
	side := int64(1) << uint(order)
	ns := float64(side)
	quarter := math.Floor(ra / 90)
	t := (ra - float64(90*quarter)) / 90 // the subtraction is exact
	if t < 0 {
		// ra/90 rounded up to a whole number
		quarter--
		t = 1
	}
	q := int64(quarter)

	z := SinDeg(dec)
	if math.Abs(z) <= 2.0/3 {
		// Equatorial belt: lines of constant up and down run along the edges of the pixels.
		h := float64(0.75 * z)
		up := math.Floor(float64(ns * (0.5 + t - h)))   // counts lines that rise to the east
		down := math.Floor(float64(ns * (0.5 + t + h))) // counts lines that fall to the east
		// Each lies in [0, 2*ns]; t == 1 may touch the upper end.
		u, d := int64(up), int64(down)
		fu, fd := u>>uint(order), d>>uint(order)
		switch {
		case fu == fd: // an equatorial face, numbered from the one at ra 0
			face = 4 + (q+fu)&3
		case fu < fd: // north
			face = (q + fu) & 3
		default: // south
			face = 8 + (q+fd)&3
		}
		return face, d & (side - 1), side - 1 - u&(side-1)
	}

	// Polar caps: 1-|z| is taken from the distance to the pole, which keeps all digits.
	s := float64(sqrt6 * SinDeg(float64(0.5*(90-math.Abs(dec)))))
	limit := side - 1
	a := min(int64(float64(ns*float64(t*s))), limit)
	b := min(int64(float64(ns*float64((1-t)*s))), limit)
	if z > 0 {
		return q, limit - b, limit - a
	}
	return 8 + q, a, b
}

// join interleaves the bits of column and row behind the base pixel.
func join(order int, face, x, y int64) int64 {
	return face<<(2*uint(order)) | int64(spread(uint64(x))|spread(uint64(y))<<1)
}

func split(order int, pix int64) (face, x, y int64) {
	in := uint64(pix) & (1<<(2*uint(order)) - 1)
	return pix >> (2 * uint(order)), int64(gather(in)), int64(gather(in >> 1))
}

// spread puts a zero before each of the low 32 bits.
func spread(v uint64) uint64 {
	v &= 0xffffffff
	v = (v | v<<16) & 0x0000ffff0000ffff
	v = (v | v<<8) & 0x00ff00ff00ff00ff
	v = (v | v<<4) & 0x0f0f0f0f0f0f0f0f
	v = (v | v<<2) & 0x3333333333333333
	return (v | v<<1) & 0x5555555555555555
}

// gather keeps the even bits; it undoes spread.
func gather(v uint64) uint64 {
	v &= 0x5555555555555555
	v = (v | v>>1) & 0x3333333333333333
	v = (v | v>>2) & 0x0f0f0f0f0f0f0f0f
	v = (v | v>>4) & 0x00ff00ff00ff00ff
	v = (v | v>>8) & 0x0000ffff0000ffff
	return (v | v>>16) & 0xffffffff
}

// Center returns the position of a pixel's centre in degrees, ra in [0, 360). The error is ErrOrder or ErrPixel.
func Center(order int, pix int64) (ra, dec float64, err error) {
	if err := checkPixel(order, pix); err != nil {
		return 0, 0, err
	}
	face, x, y := split(order, pix)
	ra, dec = place(order, face, 2*x+1, 2*y+1)
	return ra, dec, nil
}

// Corners returns the positions of a pixel's south, east, north and west corners, each as {ra, dec} in degrees.
// The error is ErrOrder or ErrPixel.
func Corners(order int, pix int64) (corners [4][2]float64, err error) {
	if err := checkPixel(order, pix); err != nil {
		return corners, err
	}
	face, x, y := split(order, pix)
	for i, step := range [4][2]int64{{0, 0}, {2, 0}, {2, 2}, {0, 2}} {
		corners[i][0], corners[i][1] = place(order, face, 2*x+step[0], 2*y+step[1])
	}
	return corners, nil
}

// place returns the position of a point of a base pixel; x and y count half pixels of the order.
func place(order int, face, x, y int64) (ra, dec float64) {
	unit := int64(2) << uint(order) // half pixels along a side
	row, col := face>>2, face&3
	// down is the distance from the north pole in the flat picture of the sphere, 4 units from pole to pole.
	down := (row+2)*unit - x - y
	middle := 2*col + 1 // the face's centre in units of 45 degrees
	if row == 1 {
		middle = 2 * col
	}
	east := x - y
	u := float64(unit)
	polar := func(d int64) (ra, fromPole float64) {
		if d == 0 {
			return float64(45 * middle), 0
		}
		s := float64(d) / u / sqrt6
		return 45 * (float64(middle) + float64(east)/float64(d)), 2 * degrees(Atan2(s, math.Sqrt(1-float64(s*s))))
	}
	switch {
	case down < unit:
		ra, dec = polar(down)
		dec = 90 - dec
	case down > 3*unit:
		ra, dec = polar(4*unit - down)
		dec -= 90
	default:
		z := float64(2*unit-down) * (2.0 / 3) / u
		ra = 45 * (float64(middle) + float64(east)/u)
		dec = degrees(Atan2(z, math.Sqrt(float64((1-z)*(1+z)))))
	}
	return wrap(ra), dec
}

// Parent returns the pixel of a coarser order that holds a pixel. The error is ErrOrder (also for a finer order) or ErrPixel.
func Parent(order int, pix int64, coarser int) (int64, error) {
	if err := checkPixel(order, pix); err != nil {
		return 0, err
	}
	if coarser < 0 || coarser > order {
		return 0, fmt.Errorf("%w: the parents of order %d have orders 0..%d, not %d", ErrOrder, order, order, coarser)
	}
	return pix >> (2 * uint(order-coarser)), nil
}

// Children returns the pixels [lo, hi) of a finer order that make up a pixel. The error is ErrOrder (also for a coarser order) or ErrPixel.
func Children(order int, pix int64, finer int) (lo, hi int64, err error) {
	if err := checkPixel(order, pix); err != nil {
		return 0, 0, err
	}
	if finer < order || finer > MaxOrder {
		return 0, 0, fmt.Errorf("%w: the children of order %d have orders %d..%d, not %d", ErrOrder, order, order, MaxOrder, finer)
	}
	shift := 2 * uint(finer-order)
	return pix << shift, (pix + 1) << shift, nil
}

// Span returns the range [lo, hi) of order-29 pixels that a pixel covers. Order and pixel must exist: a pixel that does not
// gives an empty range, 0, 0.
func Span(order int, pix int64) (lo, hi int64) {
	lo, hi, err := Children(order, pix, MaxOrder)
	if err != nil {
		return 0, 0
	}
	return lo, hi
}

// Neighbours returns the pixels that share an edge or a corner with a pixel, clockwise from the south-west:
// 8, or 7 and 6 where base pixels meet in threes; fewer, without repeats, at order 0. The error is ErrOrder or ErrPixel.
func Neighbours(order int, pix int64) ([]int64, error) {
	if err := checkPixel(order, pix); err != nil {
		return nil, err
	}
	face, x, y := split(order, pix)
	out := make([]int64, 0, 8)
	for _, step := range [8][2]int64{{-1, 0}, {-1, 1}, {0, 1}, {1, 1}, {1, 0}, {1, -1}, {0, -1}, {-1, -1}} {
		f, nx, ny, ok := across(int64(1)<<uint(order), face, x+step[0], y+step[1])
		if ok {
			out = append(out, join(order, f, nx, ny))
		}
	}
	return out, nil
}

// across finds the pixel at column x and row y counted from a base pixel, where either may be one step outside it.
// Three base pixels, not four, meet at the corners at |z| = 2/3: there ok is false for the diagonal step.
func across(side, face, x, y int64) (f, nx, ny int64, ok bool) {
	last := side - 1
	in := func(v int64) int {
		switch {
		case v < 0:
			return -1
		case v > last:
			return 1
		}
		return 0
	}
	dx, dy := in(x), in(y)
	row, col := face>>2, face&3
	north, belt, south := func(c int64) int64 { return c & 3 }, func(c int64) int64 { return 4 + c&3 }, func(c int64) int64 { return 8 + c&3 }
	if dx == 0 && dy == 0 {
		return face, x, y, true
	}
	switch row {
	case 0:
		switch [2]int{dx, dy} {
		case [2]int{1, 0}: // along the meridian to the pole the two grids meet turned by a right angle
			return north(col + 1), y, last, true
		case [2]int{0, 1}:
			return north(col - 1), last, x, true
		case [2]int{-1, 0}:
			return belt(col), last, y, true
		case [2]int{0, -1}:
			return belt(col + 1), x, last, true
		case [2]int{1, 1}:
			return north(col + 2), last, last, true
		case [2]int{-1, -1}:
			return south(col), last, last, true
		}
	case 1:
		switch [2]int{dx, dy} {
		case [2]int{1, 0}:
			return north(col), 0, y, true
		case [2]int{0, 1}:
			return north(col - 1), x, 0, true
		case [2]int{-1, 0}:
			return south(col - 1), last, y, true
		case [2]int{0, -1}:
			return south(col), x, last, true
		case [2]int{1, -1}:
			return belt(col + 1), 0, last, true
		case [2]int{-1, 1}:
			return belt(col - 1), last, 0, true
		}
	case 2:
		switch [2]int{dx, dy} {
		case [2]int{1, 0}:
			return belt(col + 1), 0, y, true
		case [2]int{0, 1}:
			return belt(col), x, 0, true
		case [2]int{-1, 0}:
			return south(col - 1), y, 0, true
		case [2]int{0, -1}:
			return south(col + 1), 0, x, true
		case [2]int{1, 1}:
			return north(col), 0, 0, true
		case [2]int{-1, -1}:
			return south(col + 2), 0, 0, true
		}
	}
	return 0, 0, 0, false
}
