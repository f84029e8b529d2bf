package main

import (
	"context"
	"fmt"
	"math"

	"astropile/internal/bench"
	"astropile/internal/catalog"
	"astropile/internal/survey/fits"
	"astropile/internal/survey/hdf5"
	"astropile/internal/survey/table"
)

// benchRun is about how many bytes of a table are decoded at once.
const benchRun = 8 << 20

// benchHDF5 decodes a dataset of a file in slabs as high as its chunks, or of a batch where chunks have one row or there are
// none.
func benchHDF5(ctx context.Context, o bench.Options) (*bench.Result, error) {
	f, err := hdf5.Open(o.Root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	obj, err := f.Object("/" + o.Column)
	if err != nil {
		return nil, err
	}
	d, err := obj.Dataset()
	if err != nil {
		return nil, err
	}
	if d.Rows() > math.MaxInt64 || d.SlabRows() > math.MaxInt32 || d.RowBytes() > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %s is too large", bench.ErrCell, o.Column)
	}
	step := int64(d.SlabRows())
	if step == 1 {
		step = int64(o.Batch)
	}
	return bench.Slabs(ctx, o, int64(d.Rows()), step, int(d.RowBytes()), func(ctx context.Context, lo, hi int64, dst []byte) error {
		return d.ReadRows(ctx, uint64(lo), uint64(hi), dst, o.Threads)
	})
}

// benchFITSTable decodes every column of the first table of a file.
func benchFITSTable(ctx context.Context, o bench.Options) (*bench.Result, error) {
	f, err := fits.Open(o.Root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for _, h := range f.HDUs() {
		if h.Kind != fits.BinTable {
			continue
		}
		t, err := h.Table()
		if err != nil {
			return nil, err
		}
		defer func() { _ = t.Close() }()
		return benchTable(ctx, o, t)
	}
	return nil, fmt.Errorf("%w: %s holds no binary table", bench.ErrCell, o.Root)
}

// benchTable decodes all that a table offers, some megabytes at a time.
func benchTable(ctx context.Context, o bench.Options, t table.Table) (*bench.Result, error) {
	var want []table.Request
	var cols []catalog.Column
	for i, f := range t.Fields() {
		if f.Err != nil {
			return nil, fmt.Errorf("%w: %s: %w", bench.ErrCell, f.Source, f.Err)
		}
		want, cols = append(want, table.Request{Field: i}), append(cols, f.Column)
	}
	grain := max(t.Grain(), 1)
	step := max(benchRun/max(t.RowBytes(), 1)/grain, 1) * grain
	return bench.Columns(ctx, o, t.Rows(), step, func(ctx context.Context, lo, hi int64) (*catalog.Batch, error) {
		vs, err := t.Read(ctx, lo, hi, want)
		return &catalog.Batch{Columns: cols, Vectors: vs, Rows: int(hi - lo)}, err
	})
}

// benchFITSImages decodes every image of a file; all have to be of one size.
func benchFITSImages(ctx context.Context, o bench.Options) (*bench.Result, error) {
	f, err := fits.Open(o.Root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var images []*fits.Image
	for _, h := range f.HDUs() {
		if !h.HasImage() {
			continue
		}
		im, err := h.Image()
		if err != nil {
			return nil, err
		}
		if im.Bytes() > math.MaxInt32 || len(images) > 0 && im.Bytes() != images[0].Bytes() {
			return nil, fmt.Errorf("%w: %s: images of %d bytes and others", bench.ErrCell, o.Root, im.Bytes())
		}
		images = append(images, im)
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%w: %s holds no image", bench.ErrCell, o.Root)
	}
	return bench.Slabs(ctx, o, int64(len(images)), 1, int(images[0].Bytes()), func(ctx context.Context, lo, _ int64, dst []byte) error {
		return images[lo].Read(ctx, dst)
	})
}
