package release

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"astropile/internal/catalog"
	"astropile/internal/shard"
	"astropile/internal/sky"
)

const (
	partFolders = 1000 // that the shards of a release without positions stand in at most
	sampleRows  = 64   // of a column whose codec is chosen
	sampleBytes = 8 << 20
)

// stage sorts the rows, cuts them into shards and writes them, and everything of the release that follows from them.
func (im *importer) stage(ctx context.Context) (*ImportReport, error) {
	if err := im.sort(ctx); err != nil {
		return nil, err
	}
	parts, growth, err := im.parts()
	if err != nil {
		return nil, err
	}
	if im.parent == nil {
		if err := im.choose(ctx); err != nil {
			return nil, err
		}
	}
	shards, infos, rowsDone, err := im.writeShards(ctx, parts)
	if err != nil {
		return nil, err
	}
	// The manifest's order is by place, then by path, which only the content decides.
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(shards[a].HpxMin, shards[b].HpxMin), cmp.Compare(shards[a].Path, shards[b].Path))
	})
	if !rowsDone {
		if err := im.writeRows(ctx, parts, order, im.budget.columns()); err != nil {
			return nil, err
		}
	}
	if err := im.writeTables(ctx, shards, infos, order); err != nil {
		return nil, err
	}
	j := &journal{State: staged, Release: im.n, Dataset: im.ds, Growth: growth, Skipped: im.skipped}
	if j.Parts, err = im.key(); err != nil {
		return nil, err
	}
	rep := &ImportReport{Release: im.n, Name: im.ds.Name, Inputs: im.used(), Repeated: im.repeated, Skipped: im.skipped, Growth: growth, Shards: len(shards), Continued: im.continued}
	for _, k := range order {
		j.Shards = append(j.Shards, shards[k])
		rep.Rows += shards[k].Rows
		rep.Bytes += shards[k].Bytes
		rep.Payload += infos[k].Payload
	}
	if rep.Rows != int64(len(im.rows)) {
		return nil, fmt.Errorf("%w: %d rows went in, %d came out", ErrDamaged, len(im.rows), rep.Rows)
	}
	if err := im.root.mark(im.n, j.Shards); err != nil {
		return nil, err
	}
	return rep, im.root.writeJournal(j)
}

func (im *importer) parts() ([]part, []Growth, error) {
	total := payloadOf(im.rows)
	if im.ra < 0 {
		var out []part
		n := shardsFor(total, im.ds.ShardSize, len(im.rows))
		for k := 0; k < n; k++ {
			out = append(out, part{pixel{catalog.NoSky, catalog.NoSky}, k * len(im.rows) / n, (k + 1) * len(im.rows) / n})
		}
		return out, nil, nil
	}
	old := map[pixel]int64{} // rows
	var existing []pixel
	if im.parent != nil {
		for i := range im.parent.manifest {
			if s := &im.parent.manifest[i]; s.Role == catalog.Primary {
				old[pixel{s.Order, s.Pix}] += s.Rows
			}
		}
		existing = heldPixels(im.parent.manifest)
	}
	parts, err := partition(im.rows, existing, im.ds.ShardSize, im.ds.Expect)
	if err != nil {
		return nil, nil, err
	}
	// Rows that are published count with the mean payload of those that come.
	for px, rows := range old {
		old[px] = meanOf(rows, total, int64(len(im.rows)))
	}
	growth, err := grown(parts, im.rows, old, im.ds.ShardSize)
	return parts, growth, err
}

// choose fixes layouts and codecs by measuring a sample that is spread over the sky.
func (im *importer) choose(ctx context.Context) error {
	groupRows := shard.GroupRows(payloadOf(im.rows) / int64(len(im.rows)))
	for k := range im.cols {
		c := &im.cols[k]
		c.Layout = shard.ChooseLayout(c, groupRows)
		n := min(len(im.rows), sampleRows)
		if b := c.RowBytes(); b > 0 {
			n = min(n, max(1, sampleBytes/b))
		}
		rows := make([]row, n)
		for i := range rows {
			rows[i] = im.rows[i*len(im.rows)/n]
		}
		w := window{im: im, room: windowLeast, whole: c.Kind == catalog.Tensor}
		b, err := w.batch(ctx, im.codec.gather(n, func(x *catalog.Column) bool { return x.Name == c.Name }), rows)
		if err != nil {
			return err
		}
		codec, err := shard.ChooseCodec(c, b.Vectors[0], im.opt.Compression)
		if err != nil {
			return err
		}
		c.Codec = codec
	}
	im.ds.Columns = im.cols
	return nil
}

func (im *importer) writeShards(ctx context.Context, parts []part) (shards []stagedShard, infos []*shard.Info, rowsDone bool, err error) {
	shards, infos = make([]stagedShard, len(parts)), make([]*shard.Info, len(parts))
	total := payloadOf(im.rows)
	var largest int64
	for _, p := range parts {
		largest = max(largest, payloadOf(im.rows[p.lo:p.hi]))
	}
	jobs, room := im.budget.writers(im.opt.Jobs, largest, im.longest)
	// The rows files are written beside the shards where memory lets it.
	order := im.knownOrder(parts)
	var scalars int64
	for _, p := range im.codec.scalars {
		scalars += int64(p.n) + 9
	}
	forRows := catalog.RowsGroup*scalars + rowsLeast
	first := 0
	if jobs > 1 && order != nil && im.budget.spare(jobs-1, room, largest, im.longest) >= forRows {
		first = 1
	}
	var done counter
	var mu sync.Mutex
	firstPart, eachPart := im.partFolders(len(parts))
	paths, taken := map[string]bool{}, map[string]bool{}
	if im.parent != nil {
		for i := range im.parent.manifest {
			taken[im.parent.manifest[i].Path] = true
		}
	}
	err = parallel(ctx, jobs, first+len(parts), func(ctx context.Context, k int) error {
		if k -= first; k < 0 {
			return im.writeRows(ctx, parts, order, forRows)
		}
		rows := im.rows[parts[k].lo:parts[k].hi]
		tmp := filepath.Join(im.root.shardsPath(im.n), "tmp-"+strconv.Itoa(k))
		info, err := im.writeShard(ctx, tmp, rows, room, func(n int64) { im.progress("write shards", done.add(n), total) })
		if err != nil {
			return errors.Join(fmt.Errorf("release: write a shard of %s: %w", im.ds.Name, err), im.root.disk.Remove(tmp))
		}
		s := &shards[k]
		*s = stagedShard{Order: parts[k].order, Pix: parts[k].pix, HpxMin: catalog.NoSky, HpxMax: catalog.NoSky, Rows: info.Rows, Bytes: info.Bytes, SHA256: info.SHA256[:], TailOffset: info.TailOffset, TailDigest: info.TailDigest[:]}
		if im.ra >= 0 {
			s.HpxMin, s.HpxMax = rows[0].hpx, rows[len(rows)-1].hpx
		}
		infos[k] = info
		s.Path = im.shardPath(parts[k].pixel, firstPart+k/eachPart, info.SHA256)
		to := filepath.Join(im.root.shardsPath(im.n), filepath.FromSlash(s.Path))
		mu.Lock()
		defer mu.Unlock()
		if taken[s.Path] {
			return fmt.Errorf("%w: a shard would be the same to the byte as %s: its rows are all repeated; import with --duplicates first", ErrRefused, s.Path)
		}
		taken[s.Path] = true
		paths[to] = true
		return im.root.disk.Rename(tmp, to)
	})
	if err != nil {
		return nil, nil, false, err
	}
	folders := map[string]bool{}
	for to := range paths {
		for d := filepath.Dir(to); len(d) >= len(im.root.path(stagingDir)); d = filepath.Dir(d) {
			folders[d] = true
		}
	}
	return shards, infos, first == 1, im.root.syncAll(folders)
}

// partFolders says in which folders of dataset/part the shards of a release without positions stand: shard k in folder
// first + k/each. A manifest is sorted by path and a file is named by its content, so that only folders keep the order of the
// input: as a rule each shard has its own. The numbers of a release have as many digits as each other, and follow those there are.
func (im *importer) partFolders(shards int) (first, each int) {
	if im.parent != nil {
		for i := range im.parent.manifest {
			if n, err := strconv.Atoi(path.Base(path.Dir(im.parent.manifest[i].Path))); err == nil {
				first = max(first, n+1)
			}
		}
	}
	each = (shards + partFolders - 1) / partFolders
	folders := (shards + each - 1) / each
	for wide := partFolders; wide < first+folders; wide *= 10 {
		if first < wide {
			first = wide
		}
	}
	return first, each
}

// shardPath is where a shard stands in the root. Without positions folder is the one of partFolders.
func (im *importer) shardPath(p pixel, folder int, sum [32]byte) string {
	file := hex.EncodeToString(sum[:6]) + ".parquet"
	if p.order == catalog.NoSky {
		return path.Join(im.ds.Name, "dataset", "part", fmt.Sprintf("%03d", folder), file)
	}
	return path.Join(im.ds.Name, "dataset", fmt.Sprintf("Norder=%d", p.order), fmt.Sprintf("Dir=%d", p.pix/10000*10000), fmt.Sprintf("Npix=%d", p.pix), file)
}

func (im *importer) writeShard(ctx context.Context, tmp string, rows []row, room int64, wrote func(int64)) (info *shard.Info, err error) {
	constant, err := im.constant(ctx, rows)
	if err != nil {
		return nil, err
	}
	f, err := im.root.disk.Create(tmp)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = e
		}
	}()
	w, err := shard.NewWriter(f, shard.Spec{Columns: im.cols, Constant: constant, Piece: im.ds.Piece, Digest: im.ds.Digest, CreatedBy: im.opt.Tool})
	if err != nil {
		return nil, err
	}
	in := window{im: im, room: room, whole: true}
	var g *gathering
	for lo := 0; lo < len(rows); {
		hi, n := lo, int64(0)
		for hi < len(rows) && (hi == lo || n+int64(rows[hi].payload) <= shard.GroupPayload) {
			n += int64(rows[hi].payload)
			hi++
		}
		if g == nil {
			g = im.codec.gather(hi-lo, nil)
		}
		b, err := in.batch(ctx, g, rows[lo:hi])
		if err == nil {
			err = w.Write(ctx, b)
		}
		if err != nil {
			w.Abort()
			return nil, err
		}
		wrote(n)
		lo = hi
	}
	if info, err = w.Close(ctx); err != nil {
		w.Abort()
		return nil, err
	}
	return info, f.Sync()
}

// writeTables writes what a release says of its shards: rows, statistics, inputs, pieces, and the map of the sky.
func (im *importer) writeTables(ctx context.Context, shards []stagedShard, infos []*shard.Info, order []int) error {
	put := func(name string, b []byte) error {
		return im.root.writeFile(filepath.Join(im.root.workPath(im.n), name), b)
	}
	var pieces []byte
	statCols := catalog.StatColumns(im.cols)
	stats := make([]*catalog.Vector, len(statCols))
	for i := range stats {
		stats[i] = catalog.NewVector(&statCols[i])
	}
	for _, k := range order {
		pieces = append(pieces, infos[k].Pieces...)
		for i := range stats {
			stats[i].AppendRow(&statCols[i], infos[k].Stats[i], 0)
		}
	}
	if err := put("pieces.sha1", pieces); err != nil {
		return err
	}
	b, err := catalog.EncodeScalars(statCols, stats, len(order), im.opt.Tool)
	if err != nil {
		return err
	}
	if err := put("stats.parquet", b); err != nil {
		return err
	}
	if b, err = im.inputsTable(im.counts); err != nil {
		return err
	}
	if err := put("inputs.parquet", b); err != nil {
		return err
	}
	if im.survey.Recipe != nil {
		if err := put("meta/"+recipeFile, im.survey.Recipe); err != nil {
			return err
		}
	}
	if im.ra < 0 {
		return nil
	}
	return im.writeSkymap(ctx, put)
}

// writeSkymap counts the rows of all releases on the sky.
func (im *importer) writeSkymap(ctx context.Context, put func(string, []byte) error) error {
	total := int64(len(im.rows))
	if im.parent != nil {
		total += im.parent.release.Rows
	}
	order := sky.MapOrder(total)
	counts := make([]int64, sky.Pixels(order))
	shift := 2 * (sky.MaxOrder - order)
	for i := range im.rows {
		counts[im.rows[i].hpx>>shift]++
	}
	if im.parent != nil {
		err := im.root.rows(ctx, im.parent, []string{healpixColumn}, func(_ int, vs []*catalog.Vector, rows int) error {
			for i := 0; i < rows; i++ {
				p := int64(binary.LittleEndian.Uint64(vs[0].Data[8*i:])) >> shift
				if p < 0 || p >= int64(len(counts)) {
					return fmt.Errorf("%w: a row of %s has _healpix_29 off the sky", ErrDamaged, im.ds.Name)
				}
				counts[p]++
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	var buf bytes.Buffer
	if err := sky.WriteMap(&buf, order, counts); err != nil {
		return err
	}
	return put("meta/skymap.fits", buf.Bytes())
}
