package release

import (
	"context"
	"encoding/binary"
	"path/filepath"

	"astropile/internal/catalog"
)

// rowsWriter writes the scalars of all rows in the manifest's order.
type rowsWriter struct {
	im   *importer
	cols []catalog.Column // of the file: _shard, _row and the scalars
	of   []int            // column of the shards for each scalar
	in   window
	room int64 // bytes of columns held at once

	rows       []row
	shard, row catalog.Vector

	file  diskFile
	w     *catalog.ScalarsWriter
	files int
	count int // of the open file
}

// rowsLeast is what writing the rows files takes at least, beside one column of a row group.
const rowsLeast = 8 << 20

func (im *importer) writeRows(ctx context.Context, parts []part, order []int, room int64) (err error) {
	w := &rowsWriter{im: im, cols: catalog.RowColumns(im.cols), in: window{im: im, room: windowLeast}, room: room}
	for k := range im.cols {
		if im.cols[k].Kind == catalog.Scalar {
			w.of = append(w.of, k)
		}
	}
	defer func() {
		if w.file != nil {
			_ = w.file.Close()
		}
	}()
	for k, p := range order {
		for lo := parts[p].lo; lo < parts[p].hi; {
			n := min(parts[p].hi-lo, catalog.RowsGroup-len(w.rows))
			w.rows = append(w.rows, im.rows[lo:lo+n]...)
			for i := range n {
				w.shard.Data = binary.LittleEndian.AppendUint32(w.shard.Data, uint32(k))
				w.row.Data = binary.LittleEndian.AppendUint32(w.row.Data, uint32(lo-parts[p].lo+i))
			}
			if lo += n; len(w.rows) == catalog.RowsGroup {
				if err := w.group(ctx); err != nil {
					return err
				}
			}
		}
	}
	if len(w.rows) > 0 {
		if err := w.group(ctx); err != nil {
			return err
		}
	}
	return w.end()
}

// group writes the rows that are there as a row group.
func (w *rowsWriter) group(ctx context.Context) error {
	if w.file == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	w.shard.Rows, w.row.Rows = len(w.rows), len(w.rows)
	var have map[int]*catalog.Vector // columns of the shards that are in memory
	err := w.w.WriteGroup(len(w.rows), func(i int) (*catalog.Vector, error) {
		switch i {
		case 0:
			return &w.shard, nil
		case 1:
			return &w.row, nil
		}
		k := w.of[i-2]
		if have[k] == nil {
			have = nil // before more is read
			var err error
			if have, err = w.columns(ctx, i-2); err != nil {
				return nil, err
			}
		}
		v := have[k]
		delete(have, k)
		return v, nil
	})
	if err != nil {
		return err
	}
	w.count += len(w.rows)
	w.rows, w.shard.Data, w.row.Data = w.rows[:0], w.shard.Data[:0], w.row.Data[:0]
	if w.count == catalog.MaxRowsFile {
		return w.end()
	}
	return nil
}

// columns reads as many columns as there is room for, from the scalar number from on, one at least.
func (w *rowsWriter) columns(ctx context.Context, from int) (map[int]*catalog.Vector, error) {
	im := w.im
	var text int64 // bytes of all that varies
	for i := range w.rows {
		text += int64(w.rows[i].length) - int64(im.codec.tail+im.codec.prefix)
	}
	wanted := map[int]bool{}
	left := w.room
	for _, k := range w.of[from:] {
		need := int64(len(w.rows)) * 9 // offsets and validity
		if n := im.cols[k].RowBytes(); n > 0 {
			need += int64(len(w.rows) * n)
		} else {
			need += text
		}
		if need > left && len(wanted) > 0 {
			break
		}
		left -= need
		wanted[k] = true
	}
	b, err := w.in.batch(ctx, im.codec.gather(len(w.rows), func(c *catalog.Column) bool { return wanted[im.column(c.Name)] }), w.rows)
	if err != nil {
		return nil, err
	}
	out := map[int]*catalog.Vector{}
	for x := range b.Columns {
		out[im.column(b.Columns[x].Name)] = b.Vectors[x]
	}
	return out, nil
}

func (w *rowsWriter) begin() (err error) {
	if w.file, err = w.im.root.disk.Create(filepath.Join(w.im.root.workPath(w.im.n), rowsFile(w.files))); err != nil {
		return err
	}
	w.files, w.count = w.files+1, 0
	w.w, err = catalog.NewScalarsWriter(w.file, w.cols, w.im.opt.Tool)
	return err
}

func (w *rowsWriter) end() error {
	if w.file == nil {
		return nil
	}
	err := w.w.Close()
	if err == nil {
		err = w.file.Sync()
	}
	if e := w.file.Close(); err == nil {
		err = e
	}
	if w.file = nil; err != nil {
		return err
	}
	return w.im.root.disk.Sync(w.im.root.workPath(w.im.n))
}

// knownOrder gives the manifest's order of shards that are not written yet, where their places decide it.
func (im *importer) knownOrder(parts []part) []int {
	order := make([]int, len(parts))
	for k := range parts {
		order[k] = k
		if im.ra < 0 || k > 0 && im.rows[parts[k].lo].hpx == im.rows[parts[k-1].lo].hpx {
			return nil // their paths decide, which follow from what they hold
		}
	}
	return order
}
