package release

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

const healpixColumn = "_healpix_29"

// chunk is a run of rows of one input, as it was read.
type chunk struct {
	input int
	first int64 // row of the input
	batch *catalog.Batch
}

// row is one row on its way: its place on the sky (its number where there is none), its size, and where it is.
type row struct {
	hpx, payload int64
	chunk, at    int32
}

// read takes in every input. Chunks and rows stand in the order of the inputs' names, whoever read them.
func (im *importer) read(ctx context.Context) error {
	inputs := im.survey.Inputs
	readers := min(im.opt.Jobs, len(inputs))
	workers := max(1, im.opt.Jobs/readers)
	order := make([]int, len(inputs))
	var total int64
	for i := range inputs {
		order[im.rank[i]] = i
		total += inputs[i].Bytes
	}
	perInput := make([][]*chunk, len(inputs))
	var mu sync.Mutex
	var done counter
	err := parallel(ctx, readers, len(inputs), func(ctx context.Context, k int) error {
		i := order[k]
		report := func(share float64) {
			im.progress("read inputs", done.n.Load()+int64(share*float64(inputs[i].Bytes)), total)
		}
		chunks, err := im.readInput(ctx, i, workers, report)
		done.add(inputs[i].Bytes)
		if err != nil {
			if ctx.Err() != nil || !errors.Is(err, ErrDamaged) || !im.opt.SkipBad {
				return err
			}
			mu.Lock()
			im.left[i] = true
			im.skipped = append(im.skipped, fmt.Sprintf("%s: %v", inputs[i].Rel, err))
			mu.Unlock()
			return nil
		}
		perInput[i] = chunks
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(im.skipped)
	for _, i := range order {
		im.chunks = append(im.chunks, perInput[i]...)
	}
	if len(im.chunks) > math.MaxInt32 {
		return fmt.Errorf("%w: %d runs of rows, at most %d", ErrRefused, len(im.chunks), math.MaxInt32)
	}
	return im.index(ctx)
}

// readInput reads one input whole.
func (im *importer) readInput(ctx context.Context, i, workers int, report func(share float64)) (chunks []*chunk, err error) {
	in := &im.survey.Inputs[i]
	damaged := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var file *fs.PathError
		if g := graded(err); errors.Is(g, ErrRefused) || errors.Is(g, ErrDamaged) || errors.As(err, &file) {
			return g
		}
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	// Hashing brings the file into the page cache, from which it is then read.
	if err := im.hash(ctx, i); err != nil {
		return nil, err
	}
	r, err := in.Open(ctx, workers)
	if err != nil {
		return nil, damaged(err)
	}
	defer func() {
		if e := r.Close(); err == nil && e != nil {
			err = damaged(e)
		}
	}()
	rows, slab := r.Rows(), max(1, r.Slab())
	for lo := int64(0); lo < rows; lo += slab {
		hi := min(rows, lo+slab)
		b, err := r.Read(ctx, lo, hi)
		if err != nil {
			return nil, damaged(err)
		}
		if int64(b.Rows) != hi-lo || len(b.Vectors) != len(im.survey.Columns) {
			return nil, fmt.Errorf("release: %s: rows %d to %d came as %d rows of %d columns", in.Rel, lo, hi, b.Rows, len(b.Vectors))
		}
		if err := im.spool.keep(b); err != nil {
			return nil, err
		}
		chunks = append(chunks, &chunk{input: i, first: lo, batch: b})
		report(float64(hi) / float64(rows))
	}
	return chunks, im.unchanged(i)
}

// unchanged makes sure that the file that was read is the one that was hashed.
func (im *importer) unchanged(i int) error {
	in := &im.survey.Inputs[i]
	if in.Path == "" {
		return nil
	}
	st, err := os.Stat(in.Path)
	if err != nil {
		return err
	}
	if st.Size() != im.sizes[i] || !st.ModTime().Equal(im.changed[i]) {
		return fmt.Errorf("%w: %s changed while it was read; import again when nothing writes to it", ErrRefused, in.Path)
	}
	return nil
}

// index lists the rows with their place and size.
func (im *importer) index(ctx context.Context) error {
	n := 0
	for _, c := range im.chunks {
		n += c.batch.Rows
	}
	if n == 0 {
		return fmt.Errorf("%w: the inputs hold no rows%s", ErrNothing, im.skippedText())
	}
	if n > math.MaxInt32 {
		return fmt.Errorf("%w: %d rows in one import, at most %d: import in parts", ErrRefused, n, math.MaxInt32)
	}
	im.rows = make([]row, n)
	starts := make([]int, len(im.chunks)+1)
	for k, c := range im.chunks {
		starts[k+1] = starts[k] + c.batch.Rows
	}
	given := slices.IndexFunc(im.survey.Columns, func(c catalog.Column) bool { return c.Name == healpixColumn })
	off, other := make([][]int64, len(im.chunks)), make([][]int64, len(im.chunks)) // rows of the inputs that are refused
	err := parallel(ctx, im.opt.Jobs, len(im.chunks), func(_ context.Context, k int) error {
		c := im.chunks[k]
		for i := 0; i < c.batch.Rows; i++ {
			r := &im.rows[starts[k]+i]
			r.chunk, r.at = int32(k), int32(i)
			r.hpx = int64(starts[k] + i)
			if im.ra >= 0 {
				r.payload = 8
				p, err := im.place(c.batch, i)
				if err != nil {
					off[k] = append(off[k], c.first+int64(i))
				} else if given >= 0 && !im.agrees(c.batch, given, i) {
					other[k] = append(other[k], c.first+int64(i))
				}
				r.hpx = p
			}
			for x, v := range c.batch.Vectors {
				if im.ra >= 0 && c.batch.Columns[x].Name == healpixColumn {
					continue
				}
				r.payload += v.Payload(&im.survey.Columns[x], i)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if rows := im.named(off); rows != "" {
		return fmt.Errorf("%w: %s: no position on the sky (%s, %s); correct them, or import with --no-sky", ErrRefused, rows, im.survey.RA, im.survey.Dec)
	}
	if rows := im.named(other); rows != "" {
		return fmt.Errorf("%w: %s: column %q is not the HEALPix pixel of the position at order 29; give it another name in the recipe (rename: {%s: other_name}), or leave it out (drop: [%s])",
			ErrRefused, rows, healpixColumn, healpixColumn, healpixColumn)
	}
	return nil
}

// named names rows, listed by chunk, of the first input that has any.
func (im *importer) named(rows [][]int64) string {
	const most = 10
	var list []string
	first, more, inputs := -1, 0, map[int]bool{}
	for k, r := range rows {
		if len(r) == 0 {
			continue
		}
		in := im.chunks[k].input
		inputs[in] = true
		if first < 0 {
			first = in
		}
		for _, n := range r {
			if in == first && len(list) < most {
				list = append(list, strconv.FormatInt(n, 10))
			} else if in == first {
				more++
			}
		}
	}
	if first < 0 {
		return ""
	}
	s := fmt.Sprintf("%s, rows %s", im.survey.Inputs[first].Rel, strings.Join(list, ", "))
	if more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	if len(inputs) > 1 {
		s += fmt.Sprintf(" (and rows of %d other files)", len(inputs)-1)
	}
	return s
}

func (im *importer) place(b *catalog.Batch, i int) (int64, error) {
	ra, ok1 := number(im.survey.Columns[im.ra].DType, b.Vectors[im.ra], i)
	dec, ok2 := number(im.survey.Columns[im.dec].DType, b.Vectors[im.dec], i)
	if !ok1 || !ok2 {
		return 0, sky.ErrPosition
	}
	return sky.Healpix29(ra, dec)
}

// samePlace is how far, in degrees, a pixel's centre may be from a position for the pixel to be that of the position: other
// programs decide edges otherwise, and some place rows by coordinates of lower precision.
const samePlace = 1e-3

// agrees says whether the inputs' own _healpix_29 of a row means what ours does.
func (im *importer) agrees(b *catalog.Batch, column, i int) bool {
	c, v := &im.survey.Columns[column], b.Vectors[column]
	if c.Kind != catalog.Scalar || c.DType != catalog.Int64 || v.Null(i) {
		return false
	}
	ra, dec, err := sky.Center(sky.MaxOrder, int64(binary.LittleEndian.Uint64(v.Data[8*i:])))
	if err != nil {
		return false
	}
	x, _ := number(im.survey.Columns[im.ra].DType, b.Vectors[im.ra], i)
	y, _ := number(im.survey.Columns[im.dec].DType, b.Vectors[im.dec], i)
	return sky.Separation(ra, dec, x, y) < samePlace
}

func number(d catalog.DType, v *catalog.Vector, i int) (float64, bool) {
	if v.Null(i) {
		return 0, false
	}
	switch d {
	case catalog.Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(v.Data[8*i:])), true
	case catalog.Float32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(v.Data[4*i:]))), true
	case catalog.Int32:
		return float64(int32(binary.LittleEndian.Uint32(v.Data[4*i:]))), true
	case catalog.Int64:
		return float64(int64(binary.LittleEndian.Uint64(v.Data[8*i:]))), true
	}
	return 0, false
}

// idText appends the id of a row as text: what rows are sorted and compared by.
func idText(dst []byte, d catalog.DType, v *catalog.Vector, i int) []byte {
	b := v.Data
	switch d {
	case catalog.String:
		return append(dst, v.Str(i)...)
	case catalog.Int8:
		return strconv.AppendInt(dst, int64(int8(b[i])), 10)
	case catalog.Int16:
		return strconv.AppendInt(dst, int64(int16(binary.LittleEndian.Uint16(b[2*i:]))), 10)
	case catalog.Int32:
		return strconv.AppendInt(dst, int64(int32(binary.LittleEndian.Uint32(b[4*i:]))), 10)
	case catalog.Int64:
		return strconv.AppendInt(dst, int64(binary.LittleEndian.Uint64(b[8*i:])), 10)
	case catalog.Uint8:
		return strconv.AppendUint(dst, uint64(b[i]), 10)
	case catalog.Uint16:
		return strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint16(b[2*i:])), 10)
	case catalog.Uint32:
		return strconv.AppendUint(dst, uint64(binary.LittleEndian.Uint32(b[4*i:])), 10)
	case catalog.Uint64:
		return strconv.AppendUint(dst, binary.LittleEndian.Uint64(b[8*i:]), 10)
	}
	n := d.Size()
	return append(dst, b[i*n:(i+1)*n]...)
}

func (im *importer) rowID(dst []byte, r *row) []byte {
	return idText(dst, im.survey.Columns[im.id].DType, im.chunks[r.chunk].batch.Vectors[im.id], int(r.at))
}

// where names a row for people.
func (im *importer) where(r *row) string {
	c := im.chunks[r.chunk]
	return fmt.Sprintf("%s, row %d", im.survey.Inputs[c.input].Rel, c.first+int64(r.at))
}

// used is how many inputs were read whole.
func (im *importer) used() int {
	n := 0
	for _, left := range im.left {
		if !left {
			n++
		}
	}
	return n
}

func (im *importer) skippedText() string {
	if len(im.skipped) == 0 {
		return ""
	}
	return fmt.Sprintf("; %d inputs were skipped: %s", len(im.skipped), im.skipped[0])
}
