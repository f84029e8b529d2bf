package fits

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sky is where on the sky something is: ICRS, in degrees, ra from 0 to 360.
type sky struct{ ra, dec float64 }

// celestial is the part of a header's world coordinates that gives a direction (FITS 4.0, section 8; Calabretta and
// Greisen 2002).
type celestial struct {
	hd       *Header
	axes     int
	lon, lat int // axis numbers, from 1
	system   string
	proj     string // "" where the axes are plain angles
	sip      bool
}

// centre gives the direction of the middle of an image's pixels; found is false where its header has no celestial axes. An
// error says what of the header is not understood.
func (h *HDU) centre(axes []int64) (at sky, found bool, err error) {
	c := celestial{hd: h.header, axes: len(axes)}
	if found, err = c.find(); err != nil || !found {
		return at, found, err
	}
	x, y, err := c.intermediate(axes)
	if err != nil {
		return at, true, err
	}
	lon, lat, err := c.project(x, y)
	if err == nil {
		at, err = c.icrs(lon, lat)
	}
	return at, true, err
}

// find looks for one axis of longitude and one of latitude.
func (c *celestial) find() (bool, error) {
	n := numbers{h: c.hd}
	c.axes = max(c.axes, int(min(n.get("WCSAXES", 0, 0), MaxAxes)))
	if n.err != nil {
		return false, n.err
	}
	projs := map[int]string{}
	for i := 1; i <= c.axes; i++ {
		ctype, found, err := c.hd.Text(key("CTYPE", i))
		if err != nil {
			return false, err
		}
		if !found {
			continue
		}
		name, proj := strings.TrimSpace(ctype), ""
		if len(name) >= 8 && name[4] == '-' {
			name, proj = strings.TrimRight(name[:5], "-"), name[5:]
		}
		system, isLon := "", false
		switch {
		case name == "RA" || name == "DEC":
			system, isLon = "equatorial", name == "RA"
		case name == "GLON" || name == "GLAT":
			system, isLon = "galactic", name == "GLON"
		case strings.HasSuffix(name, "LON") || strings.HasSuffix(name, "LAT"):
			return false, unsupportedf("coordinates of kind %s (%s = %q)", name, key("CTYPE", i), ctype)
		default:
			continue
		}
		if c.system != "" && c.system != system || isLon && c.lon != 0 || !isLon && c.lat != 0 {
			return false, corruptf("the axes' CTYPE give more than one direction")
		}
		c.system, projs[i] = system, proj
		if isLon {
			c.lon = i
		} else {
			c.lat = i
		}
	}
	if c.lon == 0 || c.lat == 0 {
		return false, nil
	}
	if projs[c.lon] != projs[c.lat] {
		return true, corruptf("the projections %q and %q of the two axes differ", projs[c.lon], projs[c.lat])
	}
	c.proj = projs[c.lon]
	if p, ok := strings.CutSuffix(c.proj, "-SIP"); ok {
		c.proj, c.sip = p, true
	}
	return true, c.distortions()
}

// distortions refuses what would move the direction and is not computed.
func (c *celestial) distortions() error {
	for _, card := range c.hd.Cards() {
		k := card.Keyword
		switch {
		case strings.HasPrefix(k, "CPDIS"), strings.HasPrefix(k, "CQDIS"), strings.HasPrefix(k, "D2IMDIS"):
			return unsupportedf("a distortion (%s)", k)
		case k == "A_ORDER" && !c.sip:
			return unsupportedf("a SIP distortion (A_ORDER) without -SIP in CTYPE")
		case len(k) == 8 && (k[:2] == "PC" || k[:2] == "CD") && isInteger(k[2:]):
			return unsupportedf("the old form of a matrix (%s)", k)
		}
	}
	return nil
}

// number gives a real keyword or what stands for it.
func (c *celestial) number(keyword string, instead float64) (float64, error) {
	v, ok, err := c.hd.Float(keyword)
	if err != nil || !ok {
		return instead, err
	}
	return v, nil
}

// has says whether a keyword of a matrix stands in the header.
func (c *celestial) has(prefix string) bool {
	for i := 1; i <= c.axes; i++ {
		for j := 1; j <= c.axes; j++ {
			if _, ok := c.hd.Get(fmt.Sprintf("%s%d_%d", prefix, i, j)); ok {
				return true
			}
		}
	}
	return false
}

// degrees is what an axis' unit is in degrees.
func (c *celestial) degrees(axis int) (float64, error) {
	unit, _, err := c.hd.Text(key("CUNIT", axis))
	if err != nil {
		return 0, err
	}
	switch strings.TrimSpace(unit) {
	case "", "deg", "degree", "degrees":
		return 1, nil
	case "arcmin":
		return 1. / 60, nil
	case "arcsec":
		return 1. / 3600, nil
	case "mas":
		return 1. / 3600e3, nil
	case "rad":
		return 180 / math.Pi, nil
	}
	return 0, unsupportedf("coordinates in units of %q", unit)
}

// intermediate gives the projection plane coordinates of the middle of the image, in degrees.
func (c *celestial) intermediate(axes []int64) (x, y float64, err error) {
	off := make([]float64, c.axes) // of the middle from the reference pixel
	for j := range off {
		ref, err := c.number(key("CRPIX", j+1), 0)
		if err != nil {
			return 0, 0, err
		}
		if j < len(axes) {
			off[j] = (float64(axes[j])+1)/2 - ref
		}
	}
	if c.sip {
		if len(off) < 2 {
			return 0, 0, corruptf("a SIP distortion of one axis")
		}
		du, err := c.polynomial("A", off[0], off[1])
		if err != nil {
			return 0, 0, err
		}
		dv, err := c.polynomial("B", off[0], off[1])
		if err != nil {
			return 0, 0, err
		}
		off[0] += du
		off[1] += dv
	}
	for k, axis := range []int{c.lon, c.lat} {
		v, err := c.row(axis, off)
		if err != nil {
			return 0, 0, err
		}
		unit, err := c.degrees(axis)
		if err != nil {
			return 0, 0, err
		}
		if k == 0 {
			x = v * unit
		} else {
			y = v * unit
		}
	}
	return x, y, nil
}

// polynomial is the SIP correction of one pixel axis.
func (c *celestial) polynomial(name string, u, v float64) (float64, error) {
	n := numbers{h: c.hd}
	order := int(n.get(name+"_ORDER", 0, -1))
	if n.err != nil {
		return 0, n.err
	}
	if order > 9 {
		return 0, corruptf("%s_ORDER = %d", name, order)
	}
	sum := 0.0
	for p := range order + 1 {
		for q := range order + 1 - p {
			a, err := c.number(fmt.Sprintf("%s_%d_%d", name, p, q), 0)
			if err != nil {
				return 0, err
			}
			sum += a * math.Pow(u, float64(p)) * math.Pow(v, float64(q))
		}
	}
	return sum, nil
}

// row multiplies one row of the header's matrix with pixel offsets: CD, or CDELT times PC or the rotation CROTA.
func (c *celestial) row(i int, off []float64) (float64, error) {
	cd, pc := c.has("CD"), c.has("PC")
	if cd && pc {
		return 0, corruptf("both CDi_j and PCi_j")
	}
	delt, err := c.number(key("CDELT", i), 1)
	if err != nil {
		return 0, err
	}
	if !cd && delt == 0 {
		return 0, corruptf("CDELT%d = 0", i)
	}
	rotation, err := c.number(key("CROTA", c.lat), 0)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for j := 1; j <= c.axes; j++ {
		var m float64
		switch {
		case cd:
			m, err = c.number(fmt.Sprintf("CD%d_%d", i, j), 0)
		case pc:
			m, err = c.number(fmt.Sprintf("PC%d_%d", i, j), unitMatrix(i, j))
			m *= delt
		case rotation != 0 && (j == c.lon || j == c.lat):
			// The other axis' step multiplies what comes from it.
			var step float64
			step, err = c.number(key("CDELT", j), 1)
			sin, cos := math.Sincos(rotation * math.Pi / 180)
			switch {
			case i == j:
				m = step * cos
			case i == c.lon:
				m = -step * sin
			default:
				m = step * sin
			}
		default:
			m = delt * unitMatrix(i, j)
		}
		if err != nil {
			return 0, err
		}
		sum += m * off[j-1]
	}
	return sum, nil
}

func unitMatrix(i, j int) float64 {
	if i == j {
		return 1
	}
	return 0
}

// parameters are the PVi_m of the axes; those that no projection here has are refused.
func (c *celestial) parameters() (pv [3]float64, err error) {
	for _, card := range c.hd.Cards() {
		rest, ok := strings.CutPrefix(card.Keyword, "PV")
		axis, m, ok2 := strings.Cut(rest, "_")
		if !ok || !ok2 || !isInteger(axis) || !isInteger(m) || card.Float == 0 {
			continue
		}
		i, _ := strconv.Atoi(axis)
		k, _ := strconv.Atoi(m)
		switch {
		case i == c.lat && c.proj == "SIN" && (k == 1 || k == 2):
			pv[k] = card.Float
		case i == c.lon || i == c.lat:
			return pv, unsupportedf("%s with %s", c.proj, card.Keyword)
		}
	}
	return pv, nil
}

// project gives the longitude and latitude of the header's system, in degrees.
func (c *celestial) project(x, y float64) (lon, lat float64, err error) {
	var ref [2]float64
	for k, axis := range []int{c.lon, c.lat} {
		unit, err := c.degrees(axis)
		if err != nil {
			return 0, 0, err
		}
		v, err := c.number(key("CRVAL", axis), 0)
		if err != nil {
			return 0, 0, err
		}
		ref[k] = v * unit
	}
	if math.Abs(ref[1]) > 90 {
		return 0, 0, corruptf("CRVAL%d gives a latitude of %v", c.lat, ref[1])
	}
	if c.proj == "" {
		lon, lat = ref[0]+x, ref[1]+y
		if math.Abs(lat) > 90 {
			return 0, 0, corruptf("the image's middle has a latitude of %v", lat)
		}
		return lon, lat, nil
	}
	phi, theta, zenithal, err := c.native(x, y, ref[1])
	if err != nil {
		return 0, 0, err
	}
	pole, err := c.pole(ref, zenithal)
	if err != nil {
		return 0, 0, err
	}
	lon, lat = pole.rotate(phi, theta)
	return lon, lat, nil
}

// native undoes the projection: native longitude and latitude in radians. Coordinates of the plane are degrees.
func (c *celestial) native(x, y, refLat float64) (phi, theta float64, zenithal bool, err error) {
	pv, err := c.parameters()
	if err != nil {
		return 0, 0, false, err
	}
	x, y = x*math.Pi/180, y*math.Pi/180
	r := math.Hypot(x, y)
	if r > 0 {
		phi = math.Atan2(x, -y)
	}
	outside := corruptf("the image's middle is outside of the projection %s", c.proj)
	switch c.proj {
	case "TAN":
		return phi, math.Atan2(1, r), true, nil
	case "STG":
		return phi, math.Pi/2 - 2*math.Atan(r/2), true, nil
	case "ARC":
		if r > math.Pi {
			return 0, 0, true, outside
		}
		return phi, math.Pi/2 - r, true, nil
	case "ZEA":
		if r > 2 {
			return 0, 0, true, outside
		}
		return phi, math.Pi/2 - 2*math.Asin(r/2), true, nil
	case "NCP", "SIN":
		xi, eta := pv[1], pv[2]
		if c.proj == "NCP" {
			// The north-celestial-pole projection is a slant orthographic one.
			sin, cos := math.Sincos(refLat * math.Pi / 180)
			if sin == 0 {
				return 0, 0, true, corruptf("NCP with its reference on the equator")
			}
			xi, eta = 0, cos/sin
		}
		if xi == 0 && eta == 0 {
			if r > 1 {
				return 0, 0, true, outside
			}
			return phi, math.Acos(r), true, nil
		}
		a := xi*xi + eta*eta + 1
		b := xi*(x-xi) + eta*(y-eta)
		d := b*b - a*((x-xi)*(x-xi)+(y-eta)*(y-eta)-1)
		if d < 0 {
			return 0, 0, true, outside
		}
		s := (-b + math.Sqrt(d)) / a
		if s > 1 {
			s = (-b - math.Sqrt(d)) / a
		}
		if s < -1 || s > 1 {
			return 0, 0, true, outside
		}
		return math.Atan2(x-xi*(1-s), -(y - eta*(1-s))), math.Asin(s), true, nil
	case "CAR":
		if math.Abs(y) > math.Pi/2 {
			return 0, 0, false, outside
		}
		return x, y, false, nil
	}
	return 0, 0, false, unsupportedf("the projection %q", c.proj)
}

// poleOf is where the native pole stands on the sky, and the native longitude of the celestial pole; radians.
type poleOf struct{ lon, lat, phi float64 }

// pole finds the native pole (Calabretta and Greisen 2002, section 2.4) for a reference in degrees.
func (c *celestial) pole(ref [2]float64, zenithal bool) (poleOf, error) {
	theta0 := 0.0
	if zenithal {
		theta0 = 90
	}
	instead := 180.0
	if ref[1] >= theta0 {
		instead = 0
	}
	phi, err := c.number("LONPOLE", instead)
	if err != nil {
		return poleOf{}, err
	}
	latPole, err := c.number("LATPOLE", 90)
	if err != nil {
		return poleOf{}, err
	}
	lon, lat := ref[0]*math.Pi/180, ref[1]*math.Pi/180
	phi *= math.Pi / 180
	if zenithal {
		return poleOf{lon, lat, phi}, nil
	}
	// The reference is at native (0, 0): its latitude fixes that of the pole up to a sign.
	sinPhi, cosPhi := math.Sincos(phi)
	if math.Abs(cosPhi) < 1e-15 {
		cosPhi = 0
	}
	base, cos := math.Atan2(0, cosPhi), math.Sin(lat)/math.Abs(cosPhi)
	if cosPhi == 0 {
		if math.Sin(lat) != 0 {
			return poleOf{}, corruptf("LONPOLE = %v leaves no place for the pole", phi*180/math.Pi)
		}
		base, cos = latPole*math.Pi/180, 1
	}
	if math.Abs(cos) > 1+1e-12 {
		return poleOf{}, corruptf("LONPOLE = %v leaves no place for the pole", phi*180/math.Pi)
	}
	spread := math.Acos(max(-1, min(1, cos)))
	pole, found := 0.0, false
	for _, p := range []float64{base + spread, base - spread} {
		p = math.Remainder(p, 2*math.Pi)
		if math.Abs(p) > math.Pi/2+1e-12 {
			continue
		}
		if !found || math.Abs(p-latPole*math.Pi/180) < math.Abs(pole-latPole*math.Pi/180) {
			pole, found = max(-math.Pi/2, min(math.Pi/2, p)), true
		}
	}
	if !found {
		return poleOf{}, corruptf("LONPOLE = %v leaves no place for the pole", phi*180/math.Pi)
	}
	out := poleOf{lat: pole, phi: phi}
	const near = 1e-12
	switch {
	case math.Abs(math.Abs(lat)-math.Pi/2) < near:
		out.lon = lon
	case math.Abs(pole-math.Pi/2) < near:
		out.lon = lon + phi - math.Pi
	case math.Abs(pole+math.Pi/2) < near:
		out.lon = lon - phi
	default:
		out.lon = lon - math.Atan2(sinPhi/math.Cos(lat), -math.Sin(pole)*math.Sin(lat)/(math.Cos(pole)*math.Cos(lat)))
	}
	return out, nil
}

// rotate turns native coordinates (radians) into those of the sky (degrees).
func (p poleOf) rotate(phi, theta float64) (lon, lat float64) {
	sinT, cosT := math.Sincos(theta)
	sinD, cosD := math.Sincos(p.lat)
	sinP, cosP := math.Sincos(phi - p.phi)
	x := sinT*cosD - cosT*sinD*cosP
	y := -cosT * sinP
	z := sinT*sinD + cosT*cosD*cosP
	return (p.lon + math.Atan2(y, x)) * 180 / math.Pi, math.Atan2(z, math.Hypot(x, y)) * 180 / math.Pi
}

// icrs gives the direction as ICRS; FK5 of equinox 2000 is taken for it (they differ by 0.03 arcseconds at most).
func (c *celestial) icrs(lon, lat float64) (sky, error) {
	if c.system == "galactic" {
		lon, lat = galacticToICRS(lon, lat)
		return sky{wrap(lon), lat}, nil
	}
	equinox, has, err := c.hd.Float("EQUINOX")
	if err != nil {
		equinox, has = 0, false
	}
	if !has {
		if v, ok, err := c.hd.Float("EPOCH"); ok && err == nil {
			equinox, has = v, true
		}
	}
	system, found, err := c.hd.Text("RADESYS")
	if err == nil && !found {
		system, found, err = c.hd.Text("RADECSYS")
	}
	if err != nil {
		return sky{}, err
	}
	switch {
	case found:
		system = strings.ToUpper(strings.TrimSpace(system))
	case !has:
		system = "ICRS"
	case equinox < 1984:
		system = "FK4"
	default:
		system = "FK5"
	}
	switch {
	case system == "ICRS":
	case system == "FK5" && (!has || equinox == 2000):
	default:
		if has {
			return sky{}, unsupportedf("coordinates of %s, equinox %v; ICRS and FK5 of 2000 are read", system, equinox)
		}
		return sky{}, unsupportedf("coordinates of %s; ICRS and FK5 of 2000 are read", system)
	}
	return sky{wrap(lon), lat}, nil
}

// wrap brings a longitude into [0, 360).
func wrap(lon float64) float64 {
	if lon = math.Mod(lon, 360); lon < 0 {
		lon += 360
	}
	if lon >= 360 {
		lon = 0
	}
	return lon
}

// vector is a direction of unit length.
type vector [3]float64

// turn rotates the axes about one of them (0 is x) by degrees.
func (v vector) turn(axis int, degrees float64) vector {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	i, j := (axis+1)%3, (axis+2)%3
	v[i], v[j] = cos*v[i]+sin*v[j], cos*v[j]-sin*v[i]
	return v
}

// galacticToICRS goes by FK5 of equinox 2000, in which the galactic pole and node are given (Reid and Brunthaler 2004),
// and the rotation of FK5 against ICRS (Mignard and Froeschle 2000).
func galacticToICRS(l, b float64) (ra, dec float64) {
	const (
		poleRA, poleDec, node = 192.8594812065348, 27.12825118085622, 122.9319185680026
		eta, xi, da           = -19.9 / 3600e3, 9.1 / 3600e3, -22.9 / 3600e3
	)
	sinL, cosL := math.Sincos(l * math.Pi / 180)
	sinB, cosB := math.Sincos(b * math.Pi / 180)
	v := vector{cosB * cosL, cosB * sinL, sinB}
	v = v.turn(2, node-180).turn(1, poleDec-90).turn(2, -poleRA)
	v = v.turn(0, eta).turn(1, -xi).turn(2, -da)
	return math.Atan2(v[1], v[0]) * 180 / math.Pi, math.Atan2(v[2], math.Hypot(v[0], v[1])) * 180 / math.Pi
}
