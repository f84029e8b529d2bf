package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"astropile/internal/catalog"
)

var allTypes = []catalog.DType{catalog.Bool, catalog.Int8, catalog.Int16, catalog.Int32, catalog.Int64, catalog.Uint8, catalog.Uint16, catalog.Uint32,
	catalog.Uint64, catalog.Float16, catalog.Float32, catalog.Float64, catalog.Complex64, catalog.Complex128}

// sample is a shard's worth of made-up rows.
type sample struct {
	name     string
	rows     int
	cols     []catalog.Column
	constant []string
	vectors  []*catalog.Vector
}

func (s *sample) batch() *catalog.Batch {
	return &catalog.Batch{Columns: s.cols, Vectors: s.vectors, Rows: s.rows}
}

func (s *sample) slice(lo, hi int) *catalog.Batch {
	b := &catalog.Batch{Columns: s.cols, Rows: hi - lo}
	for i, v := range s.vectors {
		b.Vectors = append(b.Vectors, v.Slice(&s.cols[i], lo, hi))
	}
	return b
}

func (s *sample) spec() Spec {
	return Spec{Columns: s.cols, Constant: s.constant, Piece: 64 << 10, CreatedBy: "astropile test"}
}

func (s *sample) write(t testing.TB, spec Spec, batch int) ([]byte, *Info) {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter(&buf, spec)
	if err != nil {
		t.Fatal(err)
	}
	for lo := 0; lo < s.rows; lo += batch {
		if err := w.Write(context.Background(), s.slice(lo, min(s.rows, lo+batch))); err != nil {
			t.Fatal(err)
		}
	}
	info, err := w.Close(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), info
}

// appendElem appends a random element: every bit pattern but for bools; text of up to 12 runes.
func appendElem(b []byte, d catalog.DType, r *rand.Rand) []byte {
	switch d {
	case catalog.Bool:
		return append(b, byte(r.IntN(2)))
	case catalog.String:
		for range r.IntN(12) {
			b = append(b, string([]rune("abcgrizé☉")[r.IntN(9)])...)
		}
		return b
	case catalog.Float16: // no signalling NaN: clients that convert would quiet it
		v := uint16(r.Uint32())
		if v&0x7c00 == 0x7c00 && v&0x3ff != 0 {
			v |= 0x200
		}
		return binary.LittleEndian.AppendUint16(b, v)
	case catalog.Float32, catalog.Complex64:
		for range d.Size() / 4 {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(r.NormFloat64())))
		}
		return b
	case catalog.Float64, catalog.Complex128:
		for range d.Size() / 8 {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(r.NormFloat64()))
		}
		return b
	}
	for range d.Size() {
		b = append(b, byte(r.Uint32()))
	}
	return b
}

func randomVector(c *catalog.Column, rows int, r *rand.Rand) *catalog.Vector {
	v := catalog.NewVector(c)
	v.Rows = rows
	if c.Nullable {
		v.Valid = make([]bool, rows)
		for i := range v.Valid {
			v.Valid[i] = r.IntN(5) > 0
		}
	}
	switch {
	case c.Kind == catalog.Struct:
		lengths := make([]int, rows)
		for i := range lengths {
			if lengths[i] = r.IntN(6); v.Null(i) {
				lengths[i] = 0
			}
		}
		for k := range c.Members {
			v.Members[k] = randomList(&c.Members[k], lengths, r)
		}
	case c.Kind == catalog.List:
		lengths := make([]int, rows)
		for i := range lengths {
			if lengths[i] = r.IntN(6); v.Null(i) {
				lengths[i] = 0
			}
		}
		valid := v.Valid
		v = randomList(c, lengths, r)
		v.Valid = valid
	case c.DType == catalog.String:
		for i := range rows {
			if !v.Null(i) {
				v.Data = appendElem(v.Data, c.DType, r)
			}
			v.Offsets = append(v.Offsets, int64(len(v.Data)))
		}
	default:
		for i := range rows {
			if v.Null(i) {
				v.Data = append(v.Data, make([]byte, c.RowBytes())...)
				continue
			}
			for range c.Elems() {
				v.Data = appendElem(v.Data, c.DType, r)
			}
		}
	}
	return v
}

func randomList(c *catalog.Column, lengths []int, r *rand.Rand) *catalog.Vector {
	v := catalog.NewVector(c)
	v.Rows = len(lengths)
	n := int64(0)
	for _, l := range lengths {
		for range l {
			v.Data = appendElem(v.Data, c.DType, r)
			if c.DType == catalog.String {
				v.StrOffsets = append(v.StrOffsets, int64(len(v.Data)))
			}
		}
		n += int64(l)
		v.Offsets = append(v.Offsets, n)
	}
	return v
}

func newSample(name string, rows int, seed uint64, cols ...catalog.Column) *sample {
	s := &sample{name: name, rows: rows}
	for _, c := range cols {
		if c.Kind == catalog.Tensor {
			c.Layout = ChooseLayout(&c, 1)
			if c.Codec == "" {
				c.Codec = catalog.None
			}
		} else {
			c.Codec = catalog.Zstd
		}
		s.cols = append(s.cols, c)
	}
	s.cols = catalog.FileOrder(s.cols)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range s.cols {
		s.vectors = append(s.vectors, randomVector(&s.cols[i], rows, r))
	}
	return s
}

// constantSample makes the named columns constant.
func (s *sample) makeConstant(names ...string) *sample {
	s.constant = names
	for i := range s.cols {
		for _, n := range names {
			if s.cols[i].Name == n {
				w := s.cols[i].RowBytes()
				for k := 1; k < s.rows; k++ {
					copy(s.vectors[i].Data[k*w:(k+1)*w], s.vectors[i].Data[:w])
				}
			}
		}
	}
	return s
}

func tensor(name string, d catalog.DType, shape ...int) catalog.Column {
	return catalog.Column{Name: name, Kind: catalog.Tensor, DType: d, Shape: shape, Unit: "nmgy"}
}

func scalar(name string, d catalog.DType, null bool) catalog.Column {
	return catalog.Column{Name: name, Kind: catalog.Scalar, DType: d, Nullable: null}
}

func list(name string, d catalog.DType, null bool) catalog.Column {
	return catalog.Column{Name: name, Kind: catalog.List, DType: d, Nullable: null}
}

func lightcurve(name string, null bool) catalog.Column {
	return catalog.Column{Name: name, Kind: catalog.Struct, Nullable: null, Members: []catalog.Column{
		list("band", catalog.String, false), list("time", catalog.Float64, false), list("flux", catalog.Float32, false), list("good", catalog.Bool, false), list("n", catalog.Int16, false)}}
}

// samples are every kind of column, element type, layout and codec.
func samples() []*sample {
	var scalars, lists, tensors, identity, packed, split []catalog.Column
	for _, d := range append([]catalog.DType{catalog.String}, allTypes...) {
		if !d.Complex() {
			scalars = append(scalars, scalar("s_"+string(d), d, false), scalar("n_"+string(d), d, true))
			lists = append(lists, list("l_"+string(d), d, false), list("ln_"+string(d), d, true))
		}
		if d == catalog.String {
			continue
		}
		tensors = append(tensors, tensor("t_"+string(d), d, 3, 5, 7), tensor("v_"+string(d), d, 2))
		z := tensor("z_"+string(d), d, 5, 33)
		z.Codec = catalog.Zstd
		packed = append(packed, z)
		b := tensor("b_"+string(d), d, 40, 21)
		b.Layout, b.Codec = catalog.Plain, catalog.BSSZstd
		if CheckCodec(&b) == nil {
			split = append(split, b)
		}
		if d == catalog.Int16 || d == catalog.Uint16 {
			m := tensor("m_"+string(d), d, 3, 1875)
			m.Layout = catalog.Identity
			identity = append(identity, m)
			m.Name, m.Codec = "mz_"+string(d), catalog.Zstd
			identity = append(identity, m)
		}
	}
	constants := []catalog.Column{scalar("i", catalog.Int64, false), tensor("wave", catalog.Float32, 7781), tensor("grid", catalog.Uint8, 3, 9), tensor("mask", catalog.Bool, 65), tensor("x", catalog.Float64, 3)}
	odd := []catalog.Column{tensor("one", catalog.Float32, 1), tensor("ones", catalog.Float64, 1, 1, 1), tensor("edge", catalog.Int32, 4, 1), tensor("deep", catalog.Float32, 2, 1, 2, 2, 1, 2, 1, 2),
		tensor("u8", catalog.Uint8, 1875), tensor("c0", catalog.Complex64), tensor("k319", catalog.Float32, 319), tensor("k320", catalog.Float32, 320), tensor("big", catalog.Uint8, 70000)}
	return []*sample{
		newSample("scalars", 5000, 1, scalars...),
		newSample("ragged", 2000, 2, append(lists, lightcurve("lc", true), lightcurve("lc2", false))...),
		newSample("tensors", 700, 3, tensors...),
		newSample("identity", 60, 4, identity...),
		newSample("zstd", 400, 5, packed...),
		newSample("split", 200, 6, split...),
		newSample("constants", 500, 7, constants...).makeConstant("wave", "grid", "mask", "x"),
		newSample("odd", 333, 8, odd...),
		newSample("images", 130, 9, scalar("id", catalog.String, false), scalar("_healpix_29", catalog.Int64, false), tensor("image_array", catalog.Float32, 4, 96, 96), tensor("rgb", catalog.Uint8, 3, 160, 160)),
		newSample("table", 400_000, 10, scalar("id", catalog.Int64, false), scalar("z", catalog.Float64, true), scalar("ra", catalog.Float64, false), scalar("k", catalog.Int16, false), scalar("txt", catalog.String, true)),
		newSample("one_row", 1, 11, scalar("id", catalog.Int64, false), list("l", catalog.Float32, true), lightcurve("lc", true), tensor("t", catalog.Float32, 3)),
	}
}
