package survey

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"

	"astropile/internal/catalog"
	"astropile/internal/survey/hdf5"
)

// Reader gives the rows of one input. It is used by one goroutine at a time.
type Reader interface {
	// Rows is the number of objects in the input.
	Rows() int64
	// Read gives the rows [lo, hi) with the columns of Recipe.Columns. A position that is missing, no number or off the
	// sky gives a *RowsError that wraps ErrPosition, an id that is empty or was trimmed without a column that keeps it
	// raw one that wraps ErrValue; each names all such rows of the range. Memory is about the rows asked for, twice over.
	Read(ctx context.Context, lo, hi int64) (*catalog.Batch, error)
	// Slab is a good number of rows to read at once from a multiple of it: whole chunks, some 32 MiB.
	Slab() int64
	Close() error
}

// Option changes how Open reads.
type Option func(*options)

type options struct {
	workers int
	slab    int64
	only    func(*Mapping) bool // columns to read; nil: all
	lenient bool                // positions and ids are not judged
	vlen    uint64              // bytes of contents of varying length that one Read takes; 0: as begin says
}

// Workers sets how many goroutines decode chunks; without it, as many as the process may run at once.
func Workers(n int) Option { return func(o *options) { o.workers = max(1, n) } }

// SlabBytes sets the bytes that Slab aims at; without it, 32 MiB.
func SlabBytes(n int64) Option { return func(o *options) { o.slab = max(1, n) } }

// Open opens an input as a complete recipe says. What the file has and the recipe does not name, lacks, or has in another
// shape is refused by name: the error wraps ErrMapping. Other errors wrap ErrRecipe or those of package hdf5.
func Open(ctx context.Context, in Input, r *Recipe, opts ...Option) (Reader, error) {
	opt := options{workers: runtime.GOMAXPROCS(0), slab: 32 << 20}
	for _, o := range opts {
		o(&opt)
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.Family.tabular() {
		return openTabular(ctx, in, r, opt)
	}
	if is := named(in.Path); is != formatHDF5 && is != "" {
		return nil, fmt.Errorf("%w: %s is %s, and the recipe's family %s is of HDF5", ErrMapping, in.Path, is, r.Family)
	}
	file, err := hdf5.Open(in.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	st, err := os.Stat(in.Path)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	b := base{in: in, size: st.Size(), file: file, recipe: r, opt: opt, maps: r.mappings(), cols: r.Columns()}
	out, err := b.open()
	if err != nil {
		file.Close()
		return nil, err
	}
	return out, nil
}

func openTabular(ctx context.Context, in Input, r *Recipe, opt options) (Reader, error) {
	is, err := formatOf(in.Path)
	if err != nil {
		return nil, err
	}
	if is == formatHDF5 {
		return nil, fmt.Errorf("%w: %s is %s, and the recipe's family %s is not", ErrMapping, in.Path, is, r.Family)
	}
	t, family, err := openTable(ctx, in, is, r)
	if err != nil {
		return nil, err
	}
	if family != r.Family {
		err = fmt.Errorf("%w: %s is of family %s, and the recipe of %s", ErrMapping, in.Path, family, r.Family)
		return nil, errors.Join(err, t.Close())
	}
	b := base{in: in, recipe: r, opt: opt, maps: r.mappings(), cols: r.Columns()}
	if err := b.prepare(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	out, err := b.openTable(t)
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return out, nil
}

type base struct {
	in     Input
	file   *hdf5.File
	recipe *Recipe
	opt    options
	maps   []*Mapping
	cols   []catalog.Column
	size   int64 // bytes of the file
	vlen   *hdf5.VlenReader

	rawKept bool    // a column keeps the ids as they stand in the file
	trimmed []int64 // rows of the range being read whose ids do not
}

// idsChanged says whether decoding and trimming changed an id of the last range read.
func (b *base) idsChanged() bool { return b.trimmed != nil }

func (b *base) Close() error { return b.file.Close() }

func (b *base) open() (Reader, error) {
	if err := b.prepare(); err != nil {
		return nil, err
	}
	root, err := b.file.Root()
	if err != nil {
		return nil, err
	}
	if b.recipe.Family == Columnar {
		return b.openColumnar(root)
	}
	return b.openObjects(root)
}

// prepare finds out what all families ask of a recipe.
func (b *base) prepare() error {
	b.rawKept = b.recipe.RawID() != ""
	if b.in.Split == "" {
		for _, m := range b.maps {
			if m.From == FromSplit && !m.Nullable {
				return fmt.Errorf("%w: %s: column %q is the published split, and neither the file's name nor a folder tells it", ErrMapping, b.in.Path, m.Name)
			}
		}
	}
	return nil
}

// narrow leaves the bindings that are wanted.
func (b *base) narrow(all []binding) []binding {
	if b.opt.only == nil {
		return all
	}
	return slices.DeleteFunc(all, func(x binding) bool { return !b.opt.only(x.m) })
}

func (b *base) rangeError(lo, hi, rows int64) error {
	if lo < 0 || hi < lo || hi > rows {
		return fmt.Errorf("%w: %s: rows [%d, %d) of %d", ErrValue, b.in.Path, lo, hi, rows)
	}
	return nil
}

func (b *base) valueError(row int64, column string, err error) error {
	kind := ErrValue
	if errors.Is(err, hdf5.ErrCorrupt) {
		kind = hdf5.ErrCorrupt
	}
	return &RowsError{File: b.in.Path, Reason: fmt.Sprintf("column %q: %v", column, err), Rows: []int64{row}, Err: kind}
}

// vlenBytes is how much the contents of varying length of one Read may have beyond the file's size. They stand
// uncompressed in the file, so that sound ones never reach its size; damaged ones may lead to the same bytes many times.
const vlenBytes = 64 << 20

// begin starts a Read.
func (b *base) begin() {
	b.trimmed = nil
	limit := b.opt.vlen
	if limit == 0 {
		limit = uint64(b.size) + vlenBytes
	}
	b.vlen = b.file.NewVlenReader(limit)
}

// finish puts a batch together and judges its positions and ids.
func (b *base) finish(binds []binding, vectors []*catalog.Vector, lo int64, n int) (*catalog.Batch, error) {
	out := &catalog.Batch{Rows: n}
	at := map[string]int{}
	for i := range binds {
		at[binds[i].col.Name] = i
		out.Columns = append(out.Columns, binds[i].col)
		v := vectors[i]
		if m := binds[i].m; m.Kind == catalog.Struct {
			for k := range m.Members {
				scale(v.Members[k], &m.Members[k])
			}
		} else {
			scale(v, m)
		}
		if v.Valid != nil && !slices.Contains(v.Valid, false) {
			v.Valid = nil
		}
		out.Vectors = append(out.Vectors, v)
	}
	if b.opt.lenient {
		return out, nil
	}
	if i, ok := at[b.recipe.ID]; ok {
		if err := b.judgeID(&binds[i], vectors, at, lo); err != nil {
			return nil, err
		}
	}
	if b.recipe.NoSky {
		return out, nil
	}
	ri, rok := at[b.recipe.RA]
	di, dok := at[b.recipe.Dec]
	if !rok || !dok {
		return out, nil
	}
	var missing, off []int64
	first, outer := "", true
	for i := range n {
		ra, dec := scalarFloat(vectors[ri], &binds[ri].col, i), scalarFloat(vectors[di], &binds[di].col, i)
		switch {
		case math.IsNaN(ra) || math.IsNaN(dec):
			missing = append(missing, lo+int64(i))
		case !(ra >= 0 && ra < 360 && dec >= -90 && dec <= 90):
			if first == "" {
				first = fmt.Sprintf(" (the first: %s %v, %s %v)", b.recipe.RA, ra, b.recipe.Dec, dec)
			}
			outer = outer && dec >= -90 && dec <= 90 && ra >= -360 && ra <= 360
			off = append(off, lo+int64(i))
		}
	}
	var errs []error
	if missing != nil {
		errs = append(errs, &RowsError{File: b.in.Path, Reason: fmt.Sprintf("%s or %s is missing or NaN", b.recipe.RA, b.recipe.Dec), Rows: missing, Err: ErrPosition})
	}
	if off != nil {
		errs = append(errs, &RowsError{File: b.in.Path, Reason: "position outside of 0 <= ra < 360, -90 <= dec <= 90 degrees" + first + b.recipe.remedy(outer), Rows: off, Err: ErrPosition})
	}
	if len(errs) == 1 {
		return nil, errs[0]
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// remedy is what helps against positions off the sky; wrapped says whether right ascensions are only counted from elsewhere.
func (r *Recipe) remedy(wrapped bool) string {
	if m := r.find(r.RA); wrapped && m != nil && !m.Wrap {
		return fmt.Sprintf("; right ascensions that count from -180, or to 360, become right with wrap: true (and dtype: float64) at column %q of the recipe", r.RA)
	}
	return ""
}

// judgeID refuses empty ids, and ids that trimming changed where no column keeps what they were.
func (b *base) judgeID(id *binding, vectors []*catalog.Vector, at map[string]int, lo int64) error {
	if id.m.DType != catalog.String || id.f == nil {
		return nil
	}
	v := vectors[at[id.m.Name]]
	var empty []int64
	for i := range v.Rows {
		if v.Offsets[i] == v.Offsets[i+1] {
			empty = append(empty, lo+int64(i))
		}
	}
	if empty != nil {
		return &RowsError{File: b.in.Path, Reason: fmt.Sprintf("column %q, the id, is empty", id.m.Name), Rows: empty, Err: ErrValue}
	}
	if b.trimmed != nil && !b.rawKept {
		return &RowsError{File: b.in.Path, Rows: slices.Clone(b.trimmed), Err: ErrValue, Reason: fmt.Sprintf(
			"decoding and trimming changes the id; a column has to keep what stood there: {name: %s_raw, source: %s, kind: scalar, dtype: string, text: exact}", id.m.Name, id.m.Source)}
	}
	return nil
}

// append appends a row to a column, which may be a struct.
func (b *base) append(v *catalog.Vector, x *binding, cells []*cell, row int64) error {
	var err error
	if x.m.Kind == catalog.Struct {
		err = appendStruct(v, x.m, cells)
	} else if err = appendCell(v, x.m, cells[0]); cells[0].changed && x.m.Name == b.recipe.ID {
		b.trimmed = append(b.trimmed, row)
	}
	if err != nil {
		return b.valueError(row, x.m.Name, err)
	}
	return nil
}

// scalarFloat is a scalar of numbers as float64; NaN where it is null.
func scalarFloat(v *catalog.Vector, c *catalog.Column, i int) float64 {
	if v.Null(i) {
		return math.NaN()
	}
	size := c.DType.Size()
	b := v.Data[i*size : (i+1)*size]
	switch class, _ := number(c.DType); class {
	case 'f':
		return getFloat(b)
	case 'i':
		return float64(int64(getInt(b, true)))
	}
	return float64(getInt(b, false))
}
