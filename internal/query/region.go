package query

import (
	"fmt"
	"math"
	"slices"

	"astropile/internal/sky"
)

// Region is a part of the sky: exactly one of its fields is set. Angles are degrees, right ascension is taken modulo 360.
type Region struct {
	Cone    *Cone        `json:"cone,omitempty"`
	Box     *Box         `json:"box,omitempty"`
	Polygon [][2]float64 `json:"polygon,omitempty"` // corners (ra, dec) in either sense, sides are great circles
	Pixels  *Pixels      `json:"healpix,omitempty"`
}

// Cone holds every position within Radius of a position, the rim included.
type Cone struct {
	RA     float64 `json:"ra"`
	Dec    float64 `json:"dec"`
	Radius float64 `json:"radius"`
}

// Box holds the positions between two right ascensions, going east from the first, and two declinations, limits included.
type Box struct {
	RA  [2]float64 `json:"ra"`
	Dec [2]float64 `json:"dec"`
}

// Pixels holds the positions whose HEALPix pixel (NESTED) of an order is in a list.
type Pixels struct {
	Order int     `json:"order"`
	Pix   []int64 `json:"pixels"`
}

// Limits of a region.
const (
	maxCorners = 1 << 12
	maxPixels  = 1 << 24
)

// compiled is a region ready to be asked. Cover holds every pixel of order 29 that the region touches, as ranges; nil where
// it is the whole sky.
type compiled struct {
	cover  sky.Ranges
	inside func(ra, dec float64) bool // nil where cover decides
}

// compile checks a region.
func (r *Region) compile() (*compiled, error) {
	n := 0
	for _, set := range []bool{r.Cone != nil, r.Box != nil, r.Polygon != nil, r.Pixels != nil} {
		n += int(b2i(set))
	}
	if n != 1 {
		return nil, fmt.Errorf("%w: a region is one of a cone, a box, a polygon and a list of HEALPix pixels; %d are given", ErrQuery, n)
	}
	switch {
	case r.Cone != nil:
		return r.Cone.compile()
	case r.Box != nil:
		return r.Box.compile()
	case r.Polygon != nil:
		return polygon(r.Polygon)
	}
	return r.Pixels.compile()
}

// coverOrder is the order of the pixels that stand for a cone of a radius: some dozens across.
func coverOrder(radius float64) int {
	order := 0
	for width := 58.6; order < 20 && width > radius/8; width /= 2 {
		order++
	}
	return order
}

func (c *Cone) compile() (*compiled, error) {
	if !(c.Radius >= 0 && c.Radius <= 180) {
		return nil, fmt.Errorf("%w: a cone's radius of %v degrees is not from 0 to 180", ErrQuery, c.Radius)
	}
	cover, err := sky.Cone(c.RA, c.Dec, c.Radius, coverOrder(c.Radius))
	if err != nil {
		return nil, fmt.Errorf("%w: cone: %w", ErrQuery, err)
	}
	at := *c
	return &compiled{cover, func(ra, dec float64) bool { return sky.Separation(at.RA, at.Dec, ra, dec) <= at.Radius }}, nil
}

func modulo(ra float64) float64 {
	if ra = math.Mod(ra, 360); ra < 0 {
		ra += 360
	}
	if ra >= 360 { // a negative number too small to count
		ra = 0
	}
	return ra
}

func (b *Box) compile() (*compiled, error) {
	for _, x := range []float64{b.RA[0], b.RA[1], b.Dec[0], b.Dec[1]} {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%w: box: %v is no angle", ErrQuery, x)
		}
	}
	if b.Dec[0] < -90 || b.Dec[1] > 90 || b.Dec[0] > b.Dec[1] {
		return nil, fmt.Errorf("%w: box: declinations from %v to %v; give two of -90 to 90, the smaller first", ErrQuery, b.Dec[0], b.Dec[1])
	}
	lo, width := modulo(b.RA[0]), b.RA[1]-b.RA[0]
	if width < 0 {
		width = modulo(width)
	}
	dec := b.Dec
	return &compiled{nil, func(ra, d float64) bool {
		return d >= dec[0] && d <= dec[1] && (width >= 360 || modulo(ra-lo) <= width)
	}}, nil
}

func (p *Pixels) compile() (*compiled, error) {
	if p.Order < 0 || p.Order > sky.MaxOrder {
		return nil, fmt.Errorf("%w: healpix: %w: %d", ErrQuery, sky.ErrOrder, p.Order)
	}
	if len(p.Pix) > maxPixels {
		return nil, fmt.Errorf("%w: healpix: %d pixels, at most %d", ErrQuery, len(p.Pix), maxPixels)
	}
	ranges := make([]sky.Range, 0, len(p.Pix))
	for _, pix := range p.Pix {
		if pix < 0 || pix >= sky.Pixels(p.Order) {
			return nil, fmt.Errorf("%w: healpix: order %d has no pixel %d", ErrQuery, p.Order, pix)
		}
		lo, hi := sky.Span(p.Order, pix)
		ranges = append(ranges, sky.Range{Lo: lo, Hi: hi})
	}
	return &compiled{cover: sky.NewRanges(ranges)}, nil
}

type vector [3]float64

func unit(ra, dec float64) vector {
	c := sky.CosDeg(dec)
	return vector{c * sky.CosDeg(ra), c * sky.SinDeg(ra), sky.SinDeg(dec)}
}

func (a vector) dot(b vector) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

func (a vector) cross(b vector) vector {
	return vector{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

func (a vector) norm() float64 { return math.Sqrt(a.dot(a)) }

// onEdge is how near a side, in radians, a position counts as inside.
const onEdge = 1e-12

// polygon is the smaller part of the sky that its sides enclose: it has to fit into a hemisphere.
func polygon(corners [][2]float64) (*compiled, error) {
	if len(corners) < 3 || len(corners) > maxCorners {
		return nil, fmt.Errorf("%w: a polygon of %d corners; give 3 to %d", ErrQuery, len(corners), maxCorners)
	}
	var at []vector
	var sum vector
	for i, p := range corners {
		if math.IsNaN(p[0]) || math.IsInf(p[0], 0) || !(p[1] >= -90 && p[1] <= 90) {
			return nil, fmt.Errorf("%w: polygon: corner %d, (%v, %v), is no position", ErrQuery, i, p[0], p[1])
		}
		v := unit(p[0], p[1])
		if len(at) > 0 && v.cross(at[len(at)-1]).norm() < onEdge {
			continue // the same corner again, as some programs close a polygon
		}
		at = append(at, v)
		for k := range sum {
			sum[k] += v[k]
		}
	}
	if len(at) > 1 && at[0].cross(at[len(at)-1]).norm() < onEdge {
		at = at[:len(at)-1]
	}
	if len(at) < 3 || sum.norm() < 1e-9 {
		return nil, fmt.Errorf("%w: polygon: its corners are on one line or all over the sky", ErrQuery)
	}
	n := sum.norm()
	middle := vector{sum[0] / n, sum[1] / n, sum[2] / n}
	reach := 0.0
	for i, v := range at {
		if v.dot(middle) <= 1e-6 {
			return nil, fmt.Errorf("%w: polygon: corner %d is a quarter of the sky away from the middle; it has to fit into a hemisphere: part it", ErrQuery, i)
		}
		reach = max(reach, math.Acos(min(1, v.dot(middle))))
	}
	ra, dec := math.Atan2(middle[1], middle[0])*180/math.Pi, math.Asin(max(-1, min(1, middle[2])))*180/math.Pi
	// Sides bulge no farther than their corners inside a hemisphere around the middle.
	cover, err := sky.Cone(modulo(ra), dec, min(180, reach*180/math.Pi+1e-9), coverOrder(reach*180/math.Pi))
	if err != nil {
		return nil, fmt.Errorf("%w: polygon: %w", ErrQuery, err)
	}
	// In the gnomonic projection about the middle, great circles are straight lines.
	east := vector{-math.Sin(ra * math.Pi / 180), math.Cos(ra * math.Pi / 180), 0}
	north := middle.cross(east)
	flat := make([][2]float64, len(at))
	for i, v := range at {
		d := v.dot(middle)
		flat[i] = [2]float64{v.dot(east) / d, v.dot(north) / d}
	}
	return &compiled{cover, func(ra, dec float64) bool {
		v := unit(ra, dec)
		d := v.dot(middle)
		return d > 0 && within(flat, v.dot(east)/d, v.dot(north)/d)
	}}, nil
}

// within counts the sides that a ray from the point crosses; a point on a side is inside.
func within(corners [][2]float64, x, y float64) bool {
	in := false
	j := len(corners) - 1
	for i := range corners {
		a, b := corners[i], corners[j]
		j = i
		dx, dy := b[0]-a[0], b[1]-a[1]
		side := math.Hypot(dx, dy)
		if cross := dx*(y-a[1]) - dy*(x-a[0]); math.Abs(cross) <= onEdge*side {
			if t := (dx*(x-a[0]) + dy*(y-a[1])) / (side * side); t >= 0 && t <= 1 {
				return true
			}
		}
		if (a[1] > y) != (b[1] > y) && x < dx*(y-a[1])/dy+a[0] {
			in = !in
		}
	}
	return in
}

// overlaps says whether pixels lo to hi of order 29, both included, can hold a position of the region.
func (c *compiled) overlaps(lo, hi int64) bool {
	return c.cover == nil || hi < lo || c.cover.Overlaps(lo, hi+1)
}

// sortPixels puts a list into the form in which selections are compared.
func sortPixels(p []int64) []int64 {
	p = slices.Clone(p)
	slices.Sort(p)
	return slices.Compact(p)
}
