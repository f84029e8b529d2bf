package sky

import (
	"fmt"
	"math"
	"slices"
)

const (
	// marginSlack is how much further than its radius, as a part of it, a margin may reach.
	marginSlack = 1e-6
	// deepest is the order at which a question about a pixel ends: half pixels are still exact numbers there.
	deepest = 45
	// narrowest is less than the least distance, in radians times 2^order, from a pixel to those that do not touch it.
	narrowest = 0.5
)

// Margin is the sky within a fixed radius of something. It answers for positions and pixels, and may be used from any number
// of goroutines.
//
// Distances are those on the sphere to the pixel's true edges, which are no great circles. What lies within the radius is
// always said to; what lies up to a millionth of the radius outside may be.
type Margin struct {
	radius float64 // degrees
	reach  [deepest + 1]float64
	order  int
}

// NewMargin makes a margin of radius degrees. The error is ErrPosition for a radius outside [0, 10].
func NewMargin(radius float64) (*Margin, error) {
	const widest = 10
	if !(radius >= 0 && radius <= widest) {
		return nil, fmt.Errorf("%w: a margin of %v degrees is not in [0, %d]", ErrPosition, radius, widest)
	}
	m := &Margin{radius: radius}
	for k := range m.reach {
		m.reach[k] = pixelReach(k)
	}
	for m.order < MaxOrder && float64(radius*math.Pi/180) <= narrowest/float64(int64(2)<<uint(m.order)) {
		m.order++
	}
	return m, nil
}

// Order is the finest order, at most MaxOrder, at which all that is within the radius of a pixel lies in the pixel or in its
// neighbours; it is 0 for radii too large for any.
func (m *Margin) Order() int { return m.order }

// Touches tells whether a point of a pixel lies within the radius of a position. Order, pixel and position must exist; for others it is false.
func (m *Margin) Touches(order int, pix int64, ra, dec float64) bool {
	if checkPixel(order, pix) != nil || checkPosition(ra, dec) != nil {
		return false
	}
	face, x, y := split(order, pix)
	c := child{face: face, x: x, y: y}
	c.measure(order, ra, dec)
	return m.touches(order, c, ra, dec)
}

// child is a pixel and how far its centre is from a position.
type child struct {
	face, x, y int64
	far        float64
}

func (c *child) measure(order int, ra, dec float64) {
	cra, cdec := place(order, c.face, 2*c.x+1, 2*c.y+1)
	c.far = Separation(ra, dec, cra, cdec)
}

func (c *child) children(order int, ra, dec float64) [4]child {
	var out [4]child
	for i := range out {
		out[i] = child{face: c.face, x: 2*c.x + int64(i&1), y: 2*c.y + int64(i>>1)}
		out[i].measure(order+1, ra, dec)
	}
	slices.SortFunc(out[:], func(a, b child) int {
		switch {
		case a.far < b.far:
			return -1
		case a.far > b.far:
			return 1
		}
		return 0
	})
	return out
}

func (m *Margin) touches(order int, c child, ra, dec float64) bool {
	switch reach := m.reach[order]; {
	case c.far <= m.radius:
		return true
	case c.far > m.radius+reach:
		return false
	case reach <= float64(marginSlack*m.radius) || order == deepest:
		return true
	}
	for _, k := range c.children(order, ra, dec) {
		if m.touches(order+1, k, ra, dec) {
			return true
		}
	}
	return false
}

// Pixels lists the pixels of an order that lie within the radius of a position, ascending, that of the position among them.
// It looks at each of them and their neighbours: an order much finer than the radius gives many. The error is ErrOrder or ErrPosition.
func (m *Margin) Pixels(order int, ra, dec float64) ([]int64, error) {
	first, err := Pix(order, ra, dec)
	if err != nil {
		return nil, err
	}
	// What a disc touches hangs together.
	out, seen := []int64{first}, map[int64]bool{first: true}
	for i := 0; i < len(out); i++ {
		around, err := Neighbours(order, out[i])
		if err != nil {
			return nil, err
		}
		for _, p := range around {
			if !seen[p] {
				seen[p] = true
				if m.Touches(order, p, ra, dec) {
					out = append(out, p)
				}
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// Distance returns how far, in degrees, a position is from the nearest point of a pixel: 0 inside it. It is within a part
// in 10^6, and 10^-12 degrees, of the true distance, and never below it by more than rounding. The error is ErrOrder, ErrPixel or ErrPosition.
func Distance(order int, pix int64, ra, dec float64) (float64, error) {
	if err := checkPixel(order, pix); err != nil {
		return 0, err
	}
	if err := checkPosition(ra, dec); err != nil {
		return 0, err
	}
	if at, err := Pix(order, ra, dec); err != nil || at == pix {
		return 0, err
	}
	var m Margin
	for k := range m.reach {
		m.reach[k] = pixelReach(k)
	}
	face, x, y := split(order, pix)
	c := child{face: face, x: x, y: y}
	c.measure(order, ra, dec)
	best := c.far
	m.nearest(order, c, ra, dec, &best)
	return best, nil
}

// nearest brings best down to the distance of the nearest point of a pixel.
func (m *Margin) nearest(order int, c child, ra, dec float64, best *float64) {
	*best = math.Min(*best, c.far)
	// The corners are points of the pixel, and the nearest one is mostly at an edge.
	for _, step := range [4][2]int64{{0, 0}, {2, 0}, {0, 2}, {2, 2}} {
		pra, pdec := place(order, c.face, 2*c.x+step[0], 2*c.y+step[1])
		*best = math.Min(*best, Separation(ra, dec, pra, pdec))
	}
	const part, least = 1e-6, 1e-12
	if order == deepest || m.reach[order] < float64(part*(*best))+least {
		return
	}
	for _, k := range c.children(order, ra, dec) {
		if k.far-m.reach[order+1] < float64(*best*(1-part))-least {
			m.nearest(order+1, k, ra, dec, best)
		}
	}
}

// OnRim tells whether a pixel lies along the inner edge of the pixel of a coarser order that holds it. It is true for a pixel that does not exist,
// and where the orders are equal.
func OnRim(order int, pix int64, coarser int) bool {
	if checkPixel(order, pix) != nil || coarser < 0 || coarser >= order {
		return true
	}
	last := int64(1)<<uint(order-coarser) - 1
	_, x, y := split(order-coarser, pix&(1<<(2*uint(order-coarser))-1))
	return x == 0 || y == 0 || x == last || y == last
}
