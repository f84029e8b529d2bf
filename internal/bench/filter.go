package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

// The table that Filter scans.
const (
	filterRows     = 100_000_000
	filterFileRows = 16 << 20 // of a rows file, at most
	filterStep     = 131072   // rows of a row group
)

// Find counts the rows of a release below a root for which a predicate is true. kept is a folder for decoded columns.
type Find func(ctx context.Context, root string, release *catalog.Release, shards []catalog.Shard, where, kept string, threads int) (uint64, error)

// Filter scans the three scalar columns of a release of 10^8 rows (int64 id, float32 z and mag) for a predicate, Passes
// times, each time for another one. The first pass decodes the columns and keeps them, the others map what it kept.
// The rows files are written below the root when they are not there. Bytes are those of the decoded columns.
func Filter(ctx context.Context, o Options, find Find) (*Result, error) {
	return filter(ctx, o, filterRows, find)
}

func filter(ctx context.Context, o Options, rows int64, find Find) (*Result, error) {
	rel, err := filterRelease(ctx, o, rows)
	if err != nil {
		return nil, err
	}
	shards := []catalog.Shard{{Release: 1, Rows: rows, HpxMax: sky.Pixels(29) - 1}}
	kept, err := os.MkdirTemp(o.Root, "kept-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(kept) }()
	return o.passes(func(k int) (int64, int64, error) {
		where := fmt.Sprintf("z < %g and mag < 19 and id >= %d", 0.5+float64(k)/1000, 1000+k)
		n, err := find(ctx, o.Root, rel, shards, where, kept, o.Threads)
		if err != nil {
			return 0, 0, err
		}
		// z is even in [0, 5) and mag in [0, 25).
		if share := float64(n) / float64(rows); math.Abs(share-(0.1+float64(k)/5000)*19/25) > 0.01 {
			return 0, 0, fmt.Errorf("%w: %s selects %d of %d rows", ErrCell, where, n, rows)
		}
		return rows, rows * 16, nil
	})
}

// filterRelease describes the release, and writes its files.
func filterRelease(ctx context.Context, o Options, rows int64) (*catalog.Release, error) {
	scalar := func(name string, d catalog.DType) catalog.Column {
		return catalog.Column{Name: name, Kind: catalog.Scalar, DType: d, Codec: catalog.Zstd}
	}
	columns := []catalog.Column{scalar("id", catalog.Int64), scalar("z", catalog.Float32), scalar("mag", catalog.Float32)}
	rel := &catalog.Release{Number: 1, Rows: rows, Files: map[string]catalog.FileRef{}, Dataset: catalog.Dataset{Name: "sky", ID: "id", Columns: columns}}
	folder := filepath.Join(o.Root, "sky", "releases", "1")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for lo := int64(0); lo < rows; lo += filterFileRows {
		name := fmt.Sprintf("rows-%05d.parquet", lo/filterFileRows)
		hi := min(lo+filterFileRows, rows)
		full := filepath.Join(folder, name)
		if _, err := os.Stat(full); err != nil {
			if err := writeRows(ctx, full, columns, lo, hi, o.Seed); err != nil {
				return nil, err
			}
		}
		st, err := os.Stat(full)
		if err != nil {
			return nil, err
		}
		rel.Files[name] = catalog.FileRef{Bytes: st.Size(), SHA256: path.Base(name)}
	}
	whole := make([]*catalog.Vector, len(columns))
	for i := range columns {
		least := filterValues(&columns[i], 0, 1, func() float32 { return 0 })
		most := filterValues(&columns[i], rows-1, 1, func() float32 { return 1 })
		whole[i] = &catalog.Vector{Rows: 2, Data: append(least.Data, most.Data...)}
	}
	stats, err := catalog.EncodeScalars(catalog.StatColumns(columns), catalog.Stats(columns, whole), 1, "bench")
	if err != nil {
		return nil, err
	}
	return rel, os.WriteFile(filepath.Join(folder, "stats.parquet"), stats, 0o644)
}

// filterValues are rows [lo, lo+n) of a column; random gives numbers in [0, 1).
func filterValues(c *catalog.Column, lo int64, n int, random func() float32) *catalog.Vector {
	v := &catalog.Vector{Rows: n, Data: make([]byte, n*c.DType.Size())}
	for i := range n {
		switch c.Name {
		case "z":
			binary.LittleEndian.PutUint32(v.Data[4*i:], math.Float32bits(5*random()))
		case "mag":
			binary.LittleEndian.PutUint32(v.Data[4*i:], math.Float32bits(25*random()))
		case "id":
			binary.LittleEndian.PutUint64(v.Data[8*i:], uint64(lo+int64(i)))
		case "_row":
			binary.LittleEndian.PutUint32(v.Data[4*i:], uint32(lo+int64(i)))
		}
	}
	return v
}

// writeRows writes a rows file under another name and renames it.
func writeRows(ctx context.Context, name string, columns []catalog.Column, lo, hi int64, seed uint64) error {
	f, err := os.Create(name + ".part")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	stored := catalog.RowColumns(columns)
	w, err := catalog.NewScalarsWriter(f, stored, "bench")
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, uint64(lo)))
	vs := make([]*catalog.Vector, len(stored))
	for ; lo < hi; lo += filterStep {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := int(min(filterStep, hi-lo))
		for i := range stored {
			vs[i] = filterValues(&stored[i], lo, n, rng.Float32)
		}
		if err := w.Write(vs, n); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}
