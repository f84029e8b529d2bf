package survey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"astropile/internal/catalog"
	"astropile/internal/sky"
	"astropile/internal/survey/hdf5"
)

// healpixOrder is the order of the pixels that published folders are named after.
const healpixOrder = 4

// sentinels are numbers that published tables put where there is no value.
var sentinels = []float64{-99, -999, -9999, 9999, -99.99, -999.99}

// magnitudes has a few more, for columns whose names say that they hold magnitudes.
var magnitudes = []float64{99, 99.99, 999}

// sentinelsOf lists the sentinels of a column.
func sentinelsOf(name string) []float64 {
	if strings.Contains(strings.ToLower(name), "mag") {
		return slices.Concat(sentinels, magnitudes)
	}
	return sentinels
}

// columnStats is what the sample shows of a column.
type columnStats struct {
	rows      int
	first     []byte
	varies    bool
	sentinels map[float64]int
	file      string // of the first sentinel
}

// unique says whether no value of a column repeats in the first rows of an input, as far as they can be read.
func (n *inference) unique(ctx context.Context, in Input, column string) bool {
	r := n.recipe.clone()
	r.Map = slices.DeleteFunc(r.Map, func(m Mapping) bool { return m.Name != column })
	for _, m := range n.recipe.Map {
		if m.Name == column {
			continue
		}
		if m.Source != "" {
			r.Drop = append(r.Drop, m.Source)
		}
		for _, x := range m.Members {
			r.Drop = append(r.Drop, x.Source)
		}
	}
	if m := r.find(column); m != nil {
		m.Nullable = false
	}
	r.ID, r.RA, r.Dec, r.NoSky, r.Rename = column, "", "", true, nil
	rd, err := Open(ctx, in, r, func(o *options) { o.lenient = true })
	if err != nil {
		return true
	}
	defer rd.Close()
	b, err := rd.Read(ctx, 0, min(rd.Rows(), sampleRows))
	if errors.Is(err, ErrValue) && n.recipe.Family.tabular() {
		return false // a row has none
	}
	if err != nil || len(b.Columns) != 1 {
		return true
	}
	s := &sampler{n: n, ids: map[string]string{}}
	s.id(in, &b.Columns[0], b.Vectors[0])
	return s.duplicate == ""
}

// sampler looks at the values of some rows of some inputs.
type sampler struct {
	n         *inference
	stats     map[string]*columnStats
	ids       map[string]string // id to file
	duplicate string
	ra, dec   []float64
	idChanged string // input in which trimming changes an id
	nan       string
	outside   string
}

// sample reads scalars of up to 4096 rows of up to 32 inputs, and a few rows of arrays, and warns about what it sees.
func (n *inference) sample(ctx context.Context, inputs []Input, given bool, opt InspectOptions) error {
	s := &sampler{n: n, stats: map[string]*columnStats{}, ids: map[string]string{}}
	opts := []Option{func(o *options) { o.lenient = true }}
	if opt.Workers > 0 {
		opts = append(opts, Workers(opt.Workers))
	}
	for _, i := range spread(len(inputs), sampleFiles) {
		if err := s.file(ctx, inputs[i], opts); err != nil && !opt.leaveOut(ctx, inputs[i], err) {
			return err
		}
	}
	r := n.recipe
	if id := r.find(r.ID); s.idChanged != "" && !given && id.From != FromGroup && r.find(r.ID+"_raw") == nil {
		raw := *id
		raw.Name, raw.Text, raw.Note = r.ID+"_raw", TextExact, "the id as it stands in the file"
		id.Note = "decoded and trimmed"
		at := slices.IndexFunc(r.Map, func(m Mapping) bool { return m.Name == r.ID })
		r.Map = slices.Insert(r.Map, at+1, raw)
	}
	s.report()
	return nil
}

func (s *sampler) file(ctx context.Context, in Input, opts []Option) error {
	r := s.n.recipe
	read := func(rows int64, only func(*Mapping) bool) error {
		rd, err := Open(ctx, in, r, append(opts, func(o *options) { o.only = only })...)
		if err != nil {
			return err
		}
		defer rd.Close()
		if r.Family == Grouped {
			rows = min(rows, sampleObjects)
		}
		hi := min(rows, rd.Rows())
		if hi == 0 {
			return nil
		}
		b, err := rd.Read(ctx, 0, hi)
		if err != nil {
			return err
		}
		if x, ok := rd.(interface{ idsChanged() bool }); ok && x.idsChanged() && s.idChanged == "" {
			s.idChanged = in.Path
		}
		return s.batch(in, b)
	}
	if err := read(sampleRows, func(m *Mapping) bool { return m.Kind == catalog.Scalar }); err != nil {
		return err
	}
	budget := int64(sampleBytes)
	return read(sampleTensors, func(m *Mapping) bool {
		c := m.Column()
		if m.Kind != catalog.Tensor || budget < sampleTensors*int64(c.RowBytes()) {
			return false
		}
		budget -= sampleTensors * int64(c.RowBytes())
		return true
	})
}

func (s *sampler) batch(in Input, b *catalog.Batch) error {
	r := s.n.recipe
	var ra, dec *catalog.Vector
	var raCol, decCol *catalog.Column
	for k := range b.Columns {
		c, v := &b.Columns[k], b.Vectors[k]
		s.column(in, c, v)
		switch c.Name {
		case r.ID:
			s.id(in, c, v)
		case r.RA:
			ra, raCol = v, c
		case r.Dec:
			dec, decCol = v, c
		}
	}
	if ra == nil || dec == nil || r.NoSky {
		return nil
	}
	var off []int64
	for i := range b.Rows {
		x, y := scalarFloat(ra, raCol, i), scalarFloat(dec, decCol, i)
		if math.IsNaN(x) || math.IsNaN(y) {
			if s.nan == "" {
				s.nan = fmt.Sprintf("%s, row %d", in.Path, i)
			}
			continue
		}
		if !(x >= 0 && x < 360 && y >= -90 && y <= 90) {
			off = append(off, int64(i))
			continue
		}
		s.ra, s.dec = append(s.ra, x), append(s.dec, y)
		if in.Healpix >= 0 && s.outside == "" {
			if p, err := sky.Pix(healpixOrder, x, y); err == nil && p != in.Healpix {
				s.outside = fmt.Sprintf("%s, row %d: pixel %d", in.Path, i, p)
			}
		}
	}
	if off != nil {
		wrapped := true
		for _, i := range off {
			x, y := scalarFloat(ra, raCol, int(i)), scalarFloat(dec, decCol, int(i))
			wrapped = wrapped && x >= -360 && x <= 360 && y >= -90 && y <= 90
		}
		return &RowsError{File: in.Path, Reason: fmt.Sprintf("position outside of 0 <= %s < 360, -90 <= %s <= 90 degrees (the first: %v, %v)%s", r.RA, r.Dec,
			scalarFloat(ra, raCol, int(off[0])), scalarFloat(dec, decCol, int(off[0])), r.remedy(wrapped)), Rows: off, Err: ErrPosition}
	}
	return nil
}

func (s *sampler) column(in Input, c *catalog.Column, v *catalog.Vector) {
	st := s.stats[c.Name]
	if st == nil {
		st = &columnStats{sentinels: map[float64]int{}}
		s.stats[c.Name] = st
	}
	class, _ := number(c.DType)
	for i := range v.Rows {
		if v.Null(i) {
			continue
		}
		var b []byte
		if c.Fixed() {
			b = v.Data[i*c.RowBytes() : (i+1)*c.RowBytes()]
		} else {
			b = v.Str(i)
		}
		if st.rows == 0 {
			st.first = bytes.Clone(b)
		} else if !st.varies {
			st.varies = !bytes.Equal(b, st.first)
		}
		st.rows++
		if c.Kind != catalog.Scalar || class != 'f' && class != 'i' {
			continue
		}
		if x := scalarFloat(v, c, i); slices.Contains(sentinelsOf(c.Name), x) {
			if st.file == "" {
				st.file = in.Path
			}
			st.sentinels[x]++
		}
	}
}

func (s *sampler) id(in Input, c *catalog.Column, v *catalog.Vector) {
	for i := range v.Rows {
		var id string
		if c.DType == catalog.String {
			id = string(v.Str(i))
		} else {
			id = string(v.Data[i*c.RowBytes() : (i+1)*c.RowBytes()])
		}
		if other, ok := s.ids[id]; ok && s.duplicate == "" {
			if c.DType != catalog.String {
				id = fmt.Sprint(int64(getInt([]byte(id), c.DType[0] == 'i')))
			}
			s.duplicate = fmt.Sprintf("%q in %s and %s", id, other, in.Path)
		} else if !ok {
			s.ids[id] = in.Path
		}
	}
}

func (s *sampler) report() {
	n, r := s.n, s.n.recipe
	if s.duplicate != "" {
		n.warn(WarnID, r.ID, "", "ids repeat in the sample: %s", s.duplicate)
	}
	for i := range r.Map {
		m := &r.Map[i]
		st := s.stats[m.Name]
		if st == nil {
			continue
		}
		for _, x := range sentinelsOf(m.Name) {
			if k := st.sentinels[x]; k > 0 && st.varies {
				n.warn(WarnSentinel, m.Name, st.file, "%v in %d of %d rows of the sample; it is kept as a number", x, k, st.rows)
			}
		}
		if st.rows > 1 && !st.varies && m.From != FromSplit {
			n.warn(WarnConstant, m.Name, "", "the same in all %d rows of the sample", st.rows)
		}
	}
	if r.NoSky {
		return
	}
	for _, name := range []string{r.RA, r.Dec} {
		if m := r.find(name); m.DType == catalog.Float32 || m.DType == catalog.Float16 {
			n.warn(WarnFloat32, name, "", "positions of %s are exact to 0.1 arcsec at best", m.DType)
		}
	}
	if s.nan != "" {
		n.warn(WarnPosition, r.RA, s.nan, "positions that are NaN or missing; the import refuses such rows")
	}
	if s.outside != "" {
		n.warn(WarnPosition, r.RA, s.outside, "the position is not in the pixel (order %d, NESTED) that the folder is named after", healpixOrder)
	}
	s.units()
	if len(s.ra) < 8 {
		return
	}
	loDec, hiDec, hiRA := slices.Min(s.dec), slices.Max(s.dec), slices.Max(s.ra)
	loRA := slices.Min(s.ra)
	switch {
	case hiRA <= 2*math.Pi && loDec >= -math.Pi/2 && hiDec <= math.Pi/2 && (hiRA-loRA > 1 || hiDec-loDec > 0.5):
		n.warn(WarnUnits, r.RA, "", "ra is within [0, 2 pi] and dec within [-pi/2, pi/2]: radians? Degrees belong here (scale: 57.29577951308232 for both)")
	case hiRA < 24 && hiRA-loRA > 6 && hiDec-loDec > 20, hiRA < 24 && hiRA-loRA > 12 && len(s.ra) >= 100:
		n.warn(WarnUnits, r.RA, "", "ra is within [0, 24) while dec spans %.0f degrees: hours? Degrees belong here (scale: 15)", hiDec-loDec)
	}
}

// units warns of positions whose unit or name says something other than degrees.
func (s *sampler) units() {
	n, r := s.n, s.n.recipe
	for _, name := range []string{r.RA, r.Dec} {
		m := r.find(name)
		unit := strings.ToLower(m.Unit)
		switch {
		case m.Scale != 0:
		case strings.Contains(strings.ToLower(name), "hour"):
			n.warn(WarnUnits, name, "", "its name says hours: they become degrees with scale: 15")
		case slices.Contains([]string{"h", "hr", "hour", "hours", "hourangle", "hms"}, unit):
			n.warn(WarnUnits, name, "", "its unit is %q: hours become degrees with scale: 15", m.Unit)
		case slices.Contains([]string{"rad", "radian", "radians"}, unit):
			n.warn(WarnUnits, name, "", "its unit is %q: radians become degrees with scale: 57.29577951308232", m.Unit)
		case slices.Contains([]string{"arcsec", "arcsecond", "arcseconds", "arcmin", "arcminute", "arcminutes", "mas"}, unit):
			n.warn(WarnUnits, name, "", "its unit is %q; degrees belong here (scale:)", m.Unit)
		}
	}
}

// groupLists joins lists that belong together into one struct: those beside a time whose lengths agree with it in every
// row. Lengths stand in the references of variable-length elements, so no values are read.
func (n *inference) groupLists(ctx context.Context, inputs []Input) error {
	r := n.recipe
	var lists []*Mapping
	for i := range r.Map {
		m := &r.Map[i]
		if m.Kind == catalog.List && m.From == FromDataset && m.Member == "" && m.Split == "" {
			lists = append(lists, m)
		}
	}
	for _, m := range lists {
		name, prefix := strings.ToLower(m.Name), ""
		if !slices.Contains(timeNames, name) {
			at := strings.LastIndexByte(name, '_')
			if at <= 0 || !slices.Contains(timeNames, name[at+1:]) {
				continue
			}
			prefix = m.Name[:at]
		}
		group := []*Mapping{m}
		for _, x := range lists {
			if x != m && (prefix == "" || strings.HasPrefix(x.Name, prefix+"_")) {
				group = append(group, x)
			}
		}
		agree, err := agreeing(ctx, inputs, r, group)
		if err != nil {
			return err
		}
		if len(agree) > 1 {
			n.makeStruct(prefix, agree)
		}
		return nil
	}
	return nil
}

func (n *inference) makeStruct(prefix string, group []*Mapping) {
	r := n.recipe
	out := Mapping{Name: prefix, From: FromDataset, Kind: catalog.Struct, Note: "lists whose lengths agree in every row"}
	if prefix == "" {
		out.Name = "lightcurve"
	}
	taken := map[string]bool{}
	for _, m := range group {
		x := *m
		x.Note = ""
		if prefix != "" {
			x.Name = x.Name[len(prefix)+1:]
		}
		out.Members = append(out.Members, x)
		taken[m.Name] = true
	}
	if m := r.find(out.Name); m != nil && !taken[out.Name] {
		return // the name is a column's; the lists stay flat
	}
	at := slices.IndexFunc(r.Map, func(m Mapping) bool { return taken[m.Name] })
	r.Map = slices.DeleteFunc(r.Map, func(m Mapping) bool { return taken[m.Name] })
	r.Map = slices.Insert(r.Map, at, out)
}

// agreeing gives the members of group whose lengths agree with the first's in every row of every input; only it, where
// some are no variable-length elements in the files.
func agreeing(ctx context.Context, inputs []Input, r *Recipe, group []*Mapping) ([]*Mapping, error) {
	for _, in := range inputs {
		f, err := hdf5.Open(in.Path)
		if err != nil {
			return nil, err
		}
		root, err := f.Root()
		if err == nil {
			group, err = agreeingIn(ctx, root, group)
		}
		f.Close()
		if err != nil || len(group) < 2 {
			return group, err
		}
	}
	return group, nil
}

func agreeingIn(ctx context.Context, root *hdf5.Object, group []*Mapping) ([]*Mapping, error) {
	const rowsAtOnce, rowsAtMost = 1 << 16, 1 << 28
	sets := make([]*hdf5.Dataset, len(group))
	for i, m := range group {
		o, err := root.Child(m.Source)
		if err != nil {
			return nil, err
		}
		if sets[i], err = o.Dataset(); err != nil {
			return nil, err
		}
		if sets[i].Type.Class != hdf5.ClassVlen || len(sets[i].Dims) != 1 || sets[i].Rows() > rowsAtMost {
			return group[:1], nil
		}
	}
	differs := make([]bool, len(group))
	for lo := uint64(0); lo < sets[0].Rows(); lo += rowsAtOnce {
		hi := min(sets[0].Rows(), lo+rowsAtOnce)
		var want []byte
		for i, d := range sets {
			size := d.Type.Size
			raw := make([]byte, int(hi-lo)*size)
			if err := d.ReadRows(ctx, lo, hi, raw, 1); err != nil {
				return nil, err
			}
			counts := make([]byte, 0, 4*(hi-lo))
			for at := 0; at < len(raw); at += size {
				counts = append(counts, raw[at:at+4]...)
			}
			if i == 0 {
				want = counts
			} else if !bytes.Equal(counts, want) {
				differs[i] = true
			}
		}
	}
	var out []*Mapping
	for i, m := range group {
		if !differs[i] {
			out = append(out, m)
		}
	}
	return out, nil
}
