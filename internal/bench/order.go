package bench

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"astropile/internal/catalog"
	"astropile/internal/order"
	"astropile/internal/shard"
	"astropile/internal/source"
	"astropile/internal/stream"
)

// The set whose order ShuffleQuality judges: shards of unequal length, rows of images of float32 [4,96,96].
const (
	qualityShards = 6000
	qualityRow    = 4 * 96 * 96 * 4 // bytes
	qualityTaken  = 2 << 20         // positions looked at for each length
)

// ShuffleQuality says how evenly a shuffled order takes a set. A covariate that is constant in runs of n neighbouring rows
// (n the length of the order's blocks) and independent between them has, over H rows of which m_b are of run b, a mean of
// variance s^2 sum(m_b^2)/H^2; rows drawn at random give s^2/H, as long as H is far below the number of rows. The result
// is the first over the second, sum(m_b^2)/H, averaged over many runs of H consecutive positions of several epochs, at the
// default parameters. 1 is as good as random.
func ShuffleQuality(ctx context.Context, o Options) (*Result, error) {
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	counts := make([]uint64, qualityShards)
	rows := uint64(0)
	for i := range counts {
		counts[i] = 2000 + rng.Uint64N(3000)
		rows += counts[i]
	}
	p := order.Defaults(rows, rows, rows*qualityRow, false, 0)
	p.Seed = o.Seed
	l, err := order.NewLayout(counts, p)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r := &Result{Rows: int64(rows)}
	var taken []order.Row
	seen := map[uint64]int{}
	for _, h := range []struct {
		length uint64
		out    *float64
	}{{256, &r.H256}, {1024, &r.H1024}, {4096, &r.H4096}, {16384, &r.H16384}} {
		sum, runs := 0.0, uint64(qualityTaken)/h.length
		for k := range runs {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			clear(seen)
			taken = l.Epoch(k%8).Cursor().Batch(taken[:0], rng.Uint64N(rows-h.length), int(h.length))
			for _, x := range taken {
				seen[uint64(x.Shard)<<32|x.Index/p.Block]++
			}
			for _, m := range seen {
				sum += float64(m * m)
			}
		}
		*h.out = sum / float64(runs*h.length)
	}
	r.Seconds = []float64{time.Since(start).Seconds()}
	return r, nil
}

// The release that Seek opens: 10^9 rows of which only the documents are there.
const (
	seekShards = 100_000
	seekRows   = 10_000 // of a shard
	seekTimes  = 200
)

// Seek writes the documents of a release of 10^9 rows in 10^5 shards below the root, opens it as a loader does, and goes to
// positions all over an epoch: the state is decoded and checked, the order set up, the row found. ManifestSeconds is the
// time to open, SeekMS the 95th percentile of the seeks in milliseconds.
func Seek(ctx context.Context, o Options) (*Result, error) {
	if err := seekRoot(o.Root); err != nil {
		return nil, err
	}
	src, err := source.NewFile(o.Root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = src.Close() }()
	start := time.Now()
	set, err := stream.OpenSet(ctx, src, stream.SetOptions{Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	defer func() { _ = set.Close() }()
	view := set.View()
	r := &Result{Rows: set.Rows(), ManifestSeconds: time.Since(start).Seconds()}
	rng := rand.New(rand.NewPCG(o.Seed, 1))
	var times []float64
	for range seekTimes {
		at := stream.StreamOptions{Batch: o.Batch, Seed: o.Seed, Epoch: rng.Uint64N(100), Position: rng.Uint64N(uint64(set.Rows()))}
		state, err := view.State(at)
		if err != nil {
			return nil, err
		}
		raw, err := state.Encode()
		if err != nil {
			return nil, err
		}
		start := time.Now()
		back, err := stream.DecodeState(raw)
		if err != nil {
			return nil, err
		}
		if _, err := view.State(stream.StreamOptions{Batch: o.Batch, Seed: o.Seed, State: &back}); err != nil {
			return nil, err
		}
		l, err := order.NewLayout(set.Counts(), back.Params())
		if err != nil {
			return nil, err
		}
		row := l.Epoch(back.Epoch()).At(back.Position())
		times = append(times, time.Since(start).Seconds()*1e3)
		if row.Shard >= seekShards || row.Index >= seekRows {
			return nil, fmt.Errorf("%w: position %d is row %d of shard %d", ErrCell, back.Position(), row.Index, row.Shard)
		}
	}
	slices.Sort(times)
	r.SeekMS = times[len(times)*95/100]
	r.Seconds = []float64{time.Since(start).Seconds()}
	return r, nil
}

// seekRoot writes latest.json, release.json and manifest.parquet.
func seekRoot(root string) error {
	shards := make([]catalog.Shard, seekShards)
	for i := range shards {
		s := &shards[i]
		*s = catalog.Shard{Path: fmt.Sprintf("sky/dataset/Norder=8/Dir=%d/Npix=%d/%012x.parquet", i/10000*10000, i, i*0x9e3779b1), Role: catalog.Primary, Release: 1, Order: 8, Pix: int64(i),
			HpxMin: int64(i) << 42, HpxMax: int64(i)<<42 + 1, Rows: seekRows, Bytes: seekRows * qualityRow, TailOffset: seekRows*qualityRow - 1<<16}
		binary.LittleEndian.PutUint64(s.SHA256[:], uint64(i))
		binary.LittleEndian.PutUint64(s.TailDigest[:], uint64(i))
	}
	man, err := catalog.EncodeManifest(shards, "bench")
	if err != nil {
		return err
	}
	columns := []catalog.Column{{Name: "id", Kind: catalog.Scalar, DType: catalog.Int64, Codec: catalog.Zstd}, {Name: "image", Kind: catalog.Tensor, DType: catalog.Float32, Shape: []int{4, 96, 96}}}
	rel := &catalog.Release{Number: 1, Time: "2026-01-01T00:00:00Z", Message: "for a benchmark", Tool: "bench", Rows: seekShards * seekRows, Files: map[string]catalog.FileRef{"manifest.parquet": catalog.RefOf(man)},
		Dataset: catalog.Dataset{Format: catalog.FormatVersion, Name: "sky", Columns: columns, ID: "id", ShardSize: 64 << 20, Expect: 1, Piece: 64 << 10, Digest: shard.DefaultDigest}}
	doc, err := rel.Encode()
	if err != nil {
		return err
	}
	latest, err := json.Marshal(catalog.Latest{Format: catalog.FormatVersion, Release: 1, ID: catalog.ReleaseID(doc), Name: "sky"})
	if err != nil {
		return err
	}
	folder := filepath.Join(root, "sky", "releases", "1")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for path, b := range map[string][]byte{filepath.Join(folder, "manifest.parquet"): man, filepath.Join(folder, "release.json"): doc, filepath.Join(root, "latest.json"): latest} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
