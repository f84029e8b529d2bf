package fits

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"astropile/internal/catalog"
	"astropile/internal/survey/table"
)

// HeaderPrefix begins the sources of keywords.
const HeaderPrefix = "header."

// imageTable is one file as a table of one row.
type imageTable struct {
	fields []table.Field
	images []*Image          // by field, nil for others
	values []*catalog.Vector // by field, nil for images
	bytes  int64
}

// Images gives a file that describes one object by images: a table of one row. Its fields are
//
//   - a tensor for every HDU with an image (compressed or not), named by its EXTNAME, else (and where it is the COMPRESSED_IMAGE of compressed images without a name) image, image_2, ...; a name that
//     is taken gets a number. Its unit is BUNIT. One of over catalog.MaxTensorBytes has an error;
//   - header.KEYWORD for keywords of the first HDU that has an image and then of the primary: text, int64, float64, bool,
//     complex128 as the value is written. The first card of a keyword counts. What describes the file and not the
//     object is left out: undefined values, structure (SIMPLE, XTENSION, BITPIX, NAXIS..., EXTEND, EXTNAME, EXTVER, EXTLEVEL,
//     INHERIT, PCOUNT, GCOUNT, GROUPS, BSCALE, BZERO, BLANK, BUNIT, DATAMIN, DATAMAX, LONGSTRN, columns and tiles),
//     checksums, COMMENT, HISTORY, and world coordinates (WCSAXES, WCSNAME, CTYPE, CRVAL, CRPIX, CDELT, CUNIT, CROTA, PC,
//     CD, PV, PS, CRDER, CSYER, LONPOLE, LATPOLE, RADESYS, EQUINOX, SIP's A, B, AP, BP, with their axes and versions);
//   - ra and dec, float64 degrees ICRS: of the middle of the first image's pixels by its world coordinates (TAN, SIN with its
//     slant, NCP, ARC, STG, ZEA, CAR, or no projection; CD, PC, CROTA; SIP; equatorial of ICRS and FK5 2000, galactic). Where
//     those are not understood the fields say why; where there are none, RA and DEC, RA_OBJ and DEC_OBJ, OBJRA and OBJDEC,
//     OBJ_RA and OBJ_DEC, RA_TARG and DEC_TARG or TARGRA and TARGDEC count, numbers in degrees;
//   - file: the file's name without folder and endings.
//
// A file without an image is refused (ErrUnsupported). Tables in it are not looked at. The table reads the file until that
// is closed; closing the table does nothing.
func Images(f *File) (table.Table, error) {
	t := &imageTable{}
	var first *HDU
	taken := map[string]bool{"ra": true, "dec": true, "file": true}
	for _, h := range f.hdus {
		if !h.HasImage() {
			continue
		}
		if first == nil {
			first = h
		}
		t.image(h, taken)
	}
	if first == nil {
		return nil, f.fail(-1, unsupportedf("no image in its %d HDUs", len(f.hdus)))
	}
	headers := []*Header{first.header}
	if first.index != 0 {
		headers = append(headers, f.hdus[0].header)
	}
	t.keywords(headers)
	t.position(first, headers)
	v := &catalog.Vector{Rows: 1, Data: []byte(stem(f.name))}
	v.Offsets = []int64{0, int64(len(v.Data))}
	t.add(table.Field{Source: "file", Column: catalog.Column{Name: "file", Kind: catalog.Scalar, DType: catalog.String}}, nil, v)
	return t, nil
}

func (t *imageTable) add(f table.Field, im *Image, v *catalog.Vector) {
	if f.Missing == nil {
		f.Missing = []bool{false}
	}
	t.fields, t.images, t.values = append(t.fields, f), append(t.images, im), append(t.values, v)
}

// defaultCompressed is the EXTNAME that writers of tile-compressed images give to those that have none.
const defaultCompressed = "COMPRESSED_IMAGE"

// image adds the field of an HDU.
func (t *imageTable) image(h *HDU, taken map[string]bool) {
	name := h.name
	if name == "" || name == defaultCompressed {
		name = "image"
	}
	base := name
	for n := 2; taken[name]; n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	taken[name] = true
	f := table.Field{Source: name, Column: catalog.Column{Name: name}}
	im, err := h.Image()
	if err == nil {
		f.Column = catalog.Column{Name: name, Kind: catalog.Tensor, DType: im.DType, Shape: im.Shape}
		if unit, ok, uerr := h.header.Text("BUNIT"); ok && uerr == nil {
			f.Column.Unit = unit
		}
		f.Note = im.Note
		if im.Bytes() > catalog.MaxTensorBytes {
			err = im.h.fail(nowhere, im.tooLarge(catalog.MaxTensorBytes))
		} else {
			t.bytes += im.Bytes()
		}
	}
	f.Err = err
	t.add(f, im, nil)
}

// keywords adds the fields of headers; the first that has a keyword counts.
func (t *imageTable) keywords(headers []*Header) {
	seen := map[string]bool{}
	for _, h := range headers {
		for _, c := range h.cards {
			if seen[c.Keyword] || c.Kind == NoValue || c.Kind == Undefined || describesFile(c.Keyword) {
				continue
			}
			seen[c.Keyword] = true
			name := HeaderPrefix + c.Keyword
			f := table.Field{Source: name, Column: catalog.Column{Name: name, Kind: catalog.Scalar}}
			v := &catalog.Vector{Rows: 1}
			switch c.Kind {
			case Text:
				f.Column.DType, v.Data = catalog.String, []byte(c.Text)
				v.Offsets = []int64{0, int64(len(v.Data))}
			case Bool:
				f.Column.DType, v.Data = catalog.Bool, []byte{0}
				if c.Bool {
					v.Data[0] = 1
				}
			case Int:
				f.Column.DType, v.Data = catalog.Int64, le.AppendUint64(nil, uint64(c.Int))
			case Float:
				f.Column.DType, v.Data = catalog.Float64, le.AppendUint64(nil, math.Float64bits(c.Float))
			case Complex:
				f.Column.Kind, f.Column.DType = catalog.Tensor, catalog.Complex128
				v.Data = le.AppendUint64(le.AppendUint64(nil, math.Float64bits(c.Float)), math.Float64bits(c.Imag))
			case BigInt:
				f.Err = corruptf("%s = %s, which 64 bits do not hold", c.Keyword, c.Text)
			default:
				f.Err = corruptf("%s = %s, which is no value of FITS", c.Keyword, c.Text)
			}
			t.add(f, nil, v)
		}
	}
}

// positions are pairs of keywords that give an object's direction in degrees.
var positions = [][2]string{{"RA", "DEC"}, {"RA_OBJ", "DEC_OBJ"}, {"OBJRA", "OBJDEC"}, {"OBJ_RA", "OBJ_DEC"}, {"RA_TARG", "DEC_TARG"}, {"TARGRA", "TARGDEC"}}

// position adds ra and dec.
func (t *imageTable) position(h *HDU, headers []*Header) {
	at, found, err := h.centre(h.imageAxes())
	note := "of the middle of the first image, by its world coordinates"
	if err != nil {
		err = h.fail(nowhere, err)
	} else if !found {
		if at, note, err = fromKeywords(headers); note == "" && err == nil {
			return
		}
		err = h.fail(nowhere, err)
	}
	for i, name := range []string{"ra", "dec"} {
		f := table.Field{Source: name, Note: note, Err: err, Column: catalog.Column{Name: name, Kind: catalog.Scalar, DType: catalog.Float64, Unit: "deg"}}
		v := at.ra
		if i == 1 {
			v = at.dec
		}
		t.add(f, nil, &catalog.Vector{Rows: 1, Data: le.AppendUint64(nil, math.Float64bits(v))})
	}
}

// fromKeywords takes a direction from a pair of keywords; without one the note is empty.
func fromKeywords(headers []*Header) (at sky, note string, err error) {
	for _, h := range headers {
		for _, p := range positions {
			a, hasA := h.Get(p[0])
			b, hasB := h.Get(p[1])
			if !hasA || !hasB || a.Kind == Undefined || b.Kind == Undefined {
				continue
			}
			note = fmt.Sprintf("from the keywords %s and %s", p[0], p[1])
			for _, c := range []Card{a, b} {
				if c.Kind != Int && c.Kind != Float {
					return at, note, unsupportedf("%s = %s is no number of degrees", c.Keyword, c.Text)
				}
			}
			if math.Abs(a.Float) > 360 || math.Abs(b.Float) > 90 {
				return at, note, corruptf("%s = %s and %s = %s are no direction in degrees", a.Keyword, a.Text, b.Keyword, b.Text)
			}
			return sky{wrap(a.Float), b.Float}, note, nil
		}
	}
	return at, "", nil
}

// stem is a file's name without folder and endings.
func stem(path string) string {
	name := filepath.Base(path)
	for _, end := range []string{".gz", ".fz", ".fits", ".fit", ".fts"} {
		if k := len(name) - len(end); k > 0 && strings.EqualFold(name[k:], end) {
			name = name[:k]
		}
	}
	return name
}

// fileKeywords describe a file, not what was observed. With a digit, or an underscore and digits, as structure demands it.
var fileKeywords = map[string]bool{
	"SIMPLE": true, "XTENSION": true, "BITPIX": true, "NAXIS": true, "EXTEND": true, "EXTNAME": true, "EXTVER": true, "EXTLEVEL": true,
	"INHERIT": true, "PCOUNT": true, "GCOUNT": true, "GROUPS": true, "BSCALE": true, "BZERO": true, "BLANK": true, "BUNIT": true,
	"DATAMIN": true, "DATAMAX": true, "LONGSTRN": true, "BLOCKED": true, "CHECKSUM": true, "DATASUM": true, "CONTINUE": true,
	"TFIELDS": true, "THEAP": true, "TTYPE": true, "TFORM": true, "TUNIT": true, "TNULL": true, "TSCAL": true, "TZERO": true, "TDISP": true, "TDIM": true, "TBCOL": true,
	"ZIMAGE": true, "ZTABLE": true, "ZCMPTYPE": true, "ZBITPIX": true, "ZNAXIS": true, "ZTILE": true, "ZNAME": true, "ZVAL": true,
	"ZMASKCMP": true, "ZQUANTIZ": true, "ZDITHER": true, "ZBLANK": true, "ZSCALE": true, "ZZERO": true, "ZSIMPLE": true, "ZTENSION": true,
	"ZEXTEND": true, "ZBLOCKED": true, "ZPCOUNT": true, "ZGCOUNT": true, "ZHECKSUM": true, "ZDATASUM": true,
	"WCSAXES": true, "WCSNAME": true, "CTYPE": true, "CRVAL": true, "CRPIX": true, "CDELT": true, "CUNIT": true, "CROTA": true,
	"PC": true, "CD": true, "PV": true, "PS": true, "CRDER": true, "CSYER": true, "LONPOLE": true, "LATPOLE": true,
	"RADESYS": true, "RADECSYS": true, "EQUINOX": true, "A_ORDER": true, "B_ORDER": true, "AP_ORDER": true, "BP_ORDER": true,
	"A_DMAX": true, "B_DMAX": true, "A": true, "B": true, "AP": true, "BP": true,
}

// versioned are keywords of world coordinates that a letter for another version may follow.
var versioned = map[string]bool{
	"WCSAXES": true, "WCSNAME": true, "CTYPE": true, "CRVAL": true, "CRPIX": true, "CDELT": true, "CUNIT": true,
	"PC": true, "CD": true, "PV": true, "PS": true, "CRDER": true, "CSYER": true, "LONPOLE": true, "LATPOLE": true, "RADESYS": true, "EQUINOX": true,
}

// describesFile says whether a keyword, its numbers and version aside, describes the file.
func describesFile(keyword string) bool {
	bare := func(k string) string { return strings.TrimRight(k, "0123456789_") }
	k := bare(keyword)
	if fileKeywords[keyword] && !single[keyword] || fileKeywords[k] && k != keyword && !single[k] || single[k] && axisPair(keyword[len(k):]) {
		return true
	}
	if n := len(keyword); n > 1 && keyword[n-1] >= 'A' && keyword[n-1] <= 'Z' {
		return versioned[keyword[:n-1]] || versioned[bare(keyword[:n-1])] && bare(keyword[:n-1]) != keyword[:n-1]
	}
	return false
}

// single are names so short that only a pair of numbers behind them makes them what they are here: A_1_2, CD1_2.
var single = map[string]bool{"A": true, "B": true, "AP": true, "BP": true, "PC": true, "CD": true, "PV": true, "PS": true}

func axisPair(s string) bool {
	a, b, ok := strings.Cut(strings.TrimPrefix(s, "_"), "_")
	return ok && isInteger(a) && isInteger(b)
}

func (t *imageTable) Rows() int64           { return 1 }
func (t *imageTable) Grain() int64          { return 1 }
func (t *imageTable) RowBytes() int64       { return max(1, t.bytes) }
func (t *imageTable) Fields() []table.Field { return t.fields }
func (t *imageTable) Close() error          { return nil }

func (t *imageTable) Read(ctx context.Context, lo, hi int64, want []table.Request) ([]*catalog.Vector, error) {
	if lo < 0 || hi < lo || hi > 1 {
		return nil, fmt.Errorf("rows %d to %d of a file of one", lo, hi)
	}
	out := make([]*catalog.Vector, len(want))
	for i, w := range want {
		if w.Field < 0 || w.Field >= len(t.fields) {
			return nil, fmt.Errorf("field %d of a table of %d", w.Field, len(t.fields))
		}
		f := &t.fields[w.Field]
		if f.Err != nil {
			return nil, f.Err
		}
		out[i] = catalog.NewVector(&f.Column)
		if lo == hi {
			continue
		}
		if out[i] = t.values[w.Field]; out[i] != nil {
			continue
		}
		out[i] = &catalog.Vector{Rows: 1, Data: make([]byte, f.Column.RowBytes())}
		if err := t.images[w.Field].Read(ctx, out[i].Data); err != nil {
			return nil, err
		}
	}
	return out, nil
}
