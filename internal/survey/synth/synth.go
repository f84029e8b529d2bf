package synth

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

// ErrKind marks a kind that does not exist.
var ErrKind = errors.New("synth: no such kind")

// Kinds are the kinds of record there are.
//
//	images       image_array float32 [4,96,96]: a galaxy with noise in every pixel; z, mag_r, image_scale
//	rgb          image_rgb uint8 [3,160,160]; z, mag_r
//	spectra      spectrum_flux, spectrum_ivar float32 [7781], spectrum_mask bool [7781], spectrum_lambda (constant); z
//	lightcurves  lightcurve struct<band, time, flux, flux_err>, 10 to 300 epochs; z, obj_type
//	table        20 scalars as Gaia has them
func Kinds() []string { return []string{"images", "rgb", "spectra", "lightcurves", "table"} }

const (
	imageBands, imageSide = 4, 96
	rgbSide               = 160
	spectrumPixels        = 7781
	minEpochs, maxEpochs  = 10, 300
	slabBytes             = 8 << 20
)

// Survey is a made-up survey of one kind. Its methods may be called from any goroutine.
type Survey struct {
	kind string
	seed uint64
	rows int64
	cols []catalog.Column
	row  func(s *Survey, r *rng, i int64, b *catalog.Batch)
	wave []byte
}

func scalar(name string, d catalog.DType, unit string) catalog.Column {
	return catalog.Column{Name: name, Kind: catalog.Scalar, DType: d, Unit: unit, Nullable: true}
}

func tensor(name string, d catalog.DType, unit string, shape ...int) catalog.Column {
	return catalog.Column{Name: name, Kind: catalog.Tensor, DType: d, Unit: unit, Shape: shape}
}

// New makes up a survey of as many rows as hold about the bytes given before encoding, at least one.
func New(kind string, size int64, seed uint64) (*Survey, error) {
	s := &Survey{kind: kind, seed: seed}
	cols := []catalog.Column{scalar("object_id", catalog.String, ""), scalar("ra", catalog.Float64, "deg"), scalar("dec", catalog.Float64, "deg")}
	f32 := func(names ...string) {
		for _, n := range names {
			cols = append(cols, scalar(n, catalog.Float32, ""))
		}
	}
	rowBytes := int64(64)
	switch kind {
	case "images":
		f32("z", "mag_r", "image_scale")
		cols = append(cols, tensor("image_array", catalog.Float32, "nanomaggy", imageBands, imageSide, imageSide))
		s.row = (*Survey).image
	case "rgb":
		f32("z", "mag_r")
		cols = append(cols, tensor("image_rgb", catalog.Uint8, "", 3, rgbSide, rgbSide))
		s.row = (*Survey).rgb
	case "spectra":
		f32("z")
		cols = append(cols, tensor("spectrum_flux", catalog.Float32, "1e-17 erg/(s cm2 Angstrom)", spectrumPixels), tensor("spectrum_ivar", catalog.Float32, "", spectrumPixels),
			tensor("spectrum_lambda", catalog.Float32, "Angstrom", spectrumPixels), tensor("spectrum_mask", catalog.Bool, "", spectrumPixels))
		s.row = (*Survey).spectrum
		for i := 0; i < spectrumPixels; i++ {
			s.wave = binary.LittleEndian.AppendUint32(s.wave, math.Float32bits(float32(3600+float64(float64(i)*0.8))))
		}
	case "lightcurves":
		f32("z")
		cols = append(cols, scalar("obj_type", catalog.String, ""), catalog.Column{Name: "lightcurve", Kind: catalog.Struct, Members: []catalog.Column{
			{Name: "band", Kind: catalog.List, DType: catalog.String}, {Name: "time", Kind: catalog.List, DType: catalog.Float64, Unit: "d"},
			{Name: "flux", Kind: catalog.List, DType: catalog.Float32}, {Name: "flux_err", Kind: catalog.List, DType: catalog.Float32}}, Nullable: true})
		rowBytes += (minEpochs + maxEpochs) / 2 * (5 + 8 + 8)
		s.row = (*Survey).lightcurve
	case "table":
		f32("parallax", "parallax_error", "pmra", "pmdec", "phot_g_mean_mag", "phot_bp_mean_mag", "phot_rp_mean_mag", "bp_rp", "radial_velocity", "teff_gspphot", "logg_gspphot", "mh_gspphot", "ruwe", "astrometric_chi2")
		cols = append(cols, scalar("source_id", catalog.Int64, ""), scalar("nobs", catalog.Int32, ""), scalar("variable", catalog.Bool, ""))
		s.row = (*Survey).table
	default:
		return nil, fmt.Errorf("%w: %q; there are %v", ErrKind, kind, Kinds())
	}
	for i := range cols {
		rowBytes += int64(cols[i].RowBytes())
	}
	if err := catalog.CheckColumns(cols); err != nil {
		return nil, err
	}
	s.cols = cols
	s.rows = max(1, (size+rowBytes-1)/rowBytes)
	return s, nil
}

// Name says what the survey is, as an input's path.
func (s *Survey) Name() string { return "synth-" + s.kind + "-" + strconv.FormatUint(s.seed, 10) }

// Columns are the survey's columns; object_id is the id, ra and dec the position in degrees.
func (s *Survey) Columns() []catalog.Column { return slices.Clone(s.cols) }

// Rows is how many records there are.
func (s *Survey) Rows() int64 { return s.rows }

// Slab is a number of rows worth reading at once.
func (s *Survey) Slab() int64 {
	n := int64(32)
	for i := range s.cols {
		n += int64(s.cols[i].RowBytes())
	}
	return max(1, slabBytes/n)
}

// Close does nothing; nothing is open.
func (s *Survey) Close() error { return nil }

// Read makes rows [lo, hi).
func (s *Survey) Read(ctx context.Context, lo, hi int64) (*catalog.Batch, error) {
	if lo < 0 || hi < lo || hi > s.rows {
		return nil, fmt.Errorf("synth: rows %d to %d of %d", lo, hi, s.rows)
	}
	b := &catalog.Batch{Columns: s.cols, Rows: int(hi - lo)}
	for i := range s.cols {
		v := catalog.NewVector(&s.cols[i])
		if n := s.cols[i].RowBytes(); n > 0 {
			v.Data = make([]byte, 0, n*b.Rows)
		}
		b.Vectors = append(b.Vectors, v)
	}
	for i := lo; i < hi; i++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := &rng{s: mix(mix(s.seed) ^ uint64(i))}
		text(b.Vectors[0], fmt.Appendf(nil, "synth-%012d", i))
		ra := 360 * r.unit()
		z := 2*r.unit() - 1
		dec := sky.Atan2(z, math.Sqrt(1-float64(z*z))) * (180 / math.Pi)
		putF64(b.Vectors[1], ra)
		putF64(b.Vectors[2], dec)
		s.row(s, r, i, b)
	}
	for i, v := range b.Vectors {
		v.Rows = b.Rows
		for _, m := range v.Members {
			m.Rows = b.Rows
		}
		if err := v.Check(&s.cols[i]); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (s *Survey) image(r *rng, _ int64, b *catalog.Batch) {
	mag := 16 + float64(7*r.unit())
	putF32(b.Vectors[3], r.unit()*r.unit())
	putF32(b.Vectors[4], mag)
	putF32(b.Vectors[5], 0.262)
	v := b.Vectors[6]
	amp := 40 * (24 - mag)
	cx, cy := 47+float64(2*r.unit()), 47+float64(2*r.unit())
	rad2 := 4 + float64(80*r.unit())
	shear := r.unit() - 0.5
	for c := 0; c < imageBands; c++ {
		a := amp * (0.5 + float64(0.3*float64(c)))
		for y := 0; y < imageSide; y++ {
			dy := float64(y) - cy
			for x := 0; x < imageSide; x += 4 {
				n := r.next()
				for k := 0; k < 4; k++ {
					dx := float64(x+k) - cx + float64(shear*dy)
					q := 1 + (float64(dx*dx)+float64(dy*dy))/rad2
					noise := float64(int16(n>>(16*k))) / 4096
					v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(float32(a/float64(q*q)+noise)))
				}
			}
		}
	}
}

func (s *Survey) rgb(r *rng, _ int64, b *catalog.Batch) {
	putF32(b.Vectors[3], r.unit()*r.unit())
	putF32(b.Vectors[4], 16+float64(7*r.unit()))
	v := b.Vectors[5]
	rad := 10 + int(r.next()%50)
	for c := 0; c < 3; c++ {
		for y := 0; y < rgbSide; y++ {
			for x := 0; x < rgbSide; x += 8 {
				n := r.next()
				for k := 0; k < 8; k++ {
					dx, dy := x+k-rgbSide/2, y-rgbSide/2
					g := 200 * rad * rad / (rad*rad + dx*dx + dy*dy)
					v.Data = append(v.Data, byte(g+int(n>>(8*k)&31)))
				}
			}
		}
	}
}

func (s *Survey) spectrum(r *rng, _ int64, b *catalog.Batch) {
	z := r.unit() * r.unit()
	putF32(b.Vectors[3], z)
	flux, ivar, wave, mask := b.Vectors[4], b.Vectors[5], b.Vectors[6], b.Vectors[7]
	level := 1 + float64(20*r.unit())
	line := int(float64(1500 * (1 + z)))
	for i := 0; i < spectrumPixels; i++ {
		n := r.next()
		d := float64(i-line) / 6
		f := float64(level*(1-float64(i)/20000)) + 3*level/(1+float64(d*d)) + float64(int32(n))/(1<<30)
		putF32(flux, f)
		putF32(ivar, 0.5+float64(n>>40)/(1<<24))
		mask.Data = append(mask.Data, byte(bits.TrailingZeros64(n|1<<9)/9))
	}
	wave.Data = append(wave.Data, s.wave...)
}

func (s *Survey) lightcurve(r *rng, _ int64, b *catalog.Batch) {
	putF32(b.Vectors[3], r.unit()*r.unit())
	text(b.Vectors[4], []byte([]string{"SN Ia", "SN II", "AGN", "RR Lyr"}[r.next()%4]))
	m := b.Vectors[5].Members
	n := minEpochs + int64(r.next()%(maxEpochs-minEpochs+1))
	t := 53000 + float64(1000*r.unit())
	for e := int64(0); e < n; e++ {
		t += float64(r.unit() * 3)
		band := m[0]
		band.Data = append(band.Data, "griz"[r.next()%4])
		band.StrOffsets = append(band.StrOffsets, int64(len(band.Data)))
		putF64(m[1], t)
		putF32(m[2], 100*r.unit())
		putF32(m[3], 1+r.unit())
	}
	for _, v := range m {
		v.Offsets = append(v.Offsets, v.Offsets[len(v.Offsets)-1]+n)
	}
}

func (s *Survey) table(r *rng, i int64, b *catalog.Batch) {
	for k := 3; k < 17; k++ {
		putF32(b.Vectors[k], float64(k)*r.unit())
	}
	v := b.Vectors[17]
	v.Data = binary.LittleEndian.AppendUint64(v.Data, uint64(i)<<20|r.next()>>44)
	v = b.Vectors[18]
	v.Data = binary.LittleEndian.AppendUint32(v.Data, uint32(r.next()%500))
	v = b.Vectors[19]
	v.Data = append(v.Data, byte(r.next()&1))
}

func text(v *catalog.Vector, s []byte) {
	v.Data = append(v.Data, s...)
	v.Offsets = append(v.Offsets, int64(len(v.Data)))
}

func putF32(v *catalog.Vector, x float64) {
	v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(float32(x)))
}

func putF64(v *catalog.Vector, x float64) {
	v.Data = binary.LittleEndian.AppendUint64(v.Data, math.Float64bits(x))
}

// rng is splitmix64.
type rng struct{ s uint64 }

func mix(z uint64) uint64 {
	z += 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

func (r *rng) next() uint64 {
	x := mix(r.s)
	r.s += 0x9E3779B97F4A7C15
	return x
}

// unit is uniform in [0, 1) with 53 bits.
func (r *rng) unit() float64 { return float64(r.next()>>11) / (1 << 53) }
