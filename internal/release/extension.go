package release

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"astropile/internal/catalog"
	"astropile/internal/shard"
)

// MarginSize is what a release adds to the margin; it is known before a byte of it is written.
type MarginSize struct {
	Radius float64 `json:"radius_arcsec"`
	Rows   int64   `json:"rows"`
	Bytes  int64   `json:"bytes"` // as the rows weigh in their own shards, in whole pieces
	Pixels int     `json:"pixels"`
	Opened int     `json:"opened"` // of those, pixels without rows of their own
	First  bool    `json:"first"`  // the first release with a margin: rows of earlier releases are in it
}

// extension is the work on what a release publishes beside its primary shards: margin and id index.
type extension struct {
	root    root
	ds      *catalog.Dataset
	n       int
	opt     *SealOptions
	sources []source // of the margin or index at hand
	temps   atomic.Int64

	shards []stagedShard
	pieces []byte
}

func staged1(role string, info *shard.Info) stagedShard {
	return stagedShard{Role: role, Order: catalog.NoSky, Pix: catalog.NoSky, HpxMin: catalog.NoSky, HpxMax: catalog.NoSky, Rows: info.Rows, Bytes: info.Bytes, SHA256: info.SHA256[:], TailOffset: info.TailOffset, TailDigest: info.TailDigest[:]}
}

// marginName and idsName are the folders of the further catalogues of a dataset.
func marginName(dataset string) string { return dataset + "_margin" }
func idsName(dataset string) string    { return dataset + "_ids" }

func shardFile(sum [32]byte) string { return hex.EncodeToString(sum[:6]) + ".parquet" }

func marginPath(dataset string, p pixel, sum [32]byte) string {
	return path.Join(marginName(dataset), "dataset", fmt.Sprintf("Norder=%d", p.order), fmt.Sprintf("Dir=%d", p.pix/10000*10000), fmt.Sprintf("Npix=%d", p.pix), shardFile(sum))
}

// idsPath is where the k-th of the shards that a release adds to the id index stands. The release is part of it, because another
// may index the same ids of the same pixels.
func idsPath(dataset string, release, k int, sum [32]byte) string {
	return path.Join(idsName(dataset), "dataset", "index", strconv.Itoa(release), fmt.Sprintf("%05d", k), shardFile(sum))
}

// ask settles whether there is a margin and an index: what an earlier release fixed, else what this one asks for.
func (j *journal) ask(parent *published, opt *SealOptions) error {
	d := &j.Dataset
	d.Margin, d.Index = 0, ""
	if parent != nil {
		d.Margin, d.Index = parent.release.Dataset.Margin, parent.release.Dataset.Index
	}
	if (opt.Margin != 0 || opt.Index != "") && !d.HasSky() {
		return fmt.Errorf("%w: %s has no positions: a margin and an index say where on the sky rows are", ErrRefused, d.Name)
	}
	switch {
	case opt.Margin == 0 || opt.Margin == d.Margin:
	case d.Margin != 0:
		return fmt.Errorf("%w: %s: an earlier release fixed a margin of %s arcsec, not %s; leave --margin out, or publish a new edition (a new root)", ErrRefused, d.Name, arcsec(d.Margin), arcsec(opt.Margin))
	case opt.Margin < 0 || opt.Margin > catalog.MaxMargin:
		return fmt.Errorf("%w: a margin of %s arcsec; it has up to %s", ErrRefused, arcsec(opt.Margin), arcsec(catalog.MaxMargin))
	default:
		d.Margin = opt.Margin
	}
	switch c := d.Column(opt.Index); {
	case opt.Index == "" || opt.Index == d.Index:
	case d.Index != "":
		return fmt.Errorf("%w: %s: an earlier release fixed an index over %q, not %q; leave --index out, or publish a new edition (a new root)", ErrRefused, d.Name, d.Index, opt.Index)
	case c == nil || !c.Indexed():
		return fmt.Errorf("%w: --index %q: it has to be a column of text or whole numbers of %s, such as %q", ErrRefused, opt.Index, d.Name, d.ID)
	case strings.ContainsAny(opt.Index, listBreaks):
		return fmt.Errorf("%w: --index %q: HATS cannot name a column with a space, comma or semicolon in it", ErrRefused, opt.Index)
	default:
		d.Index = opt.Index
	}
	for _, of := range []string{marginName(d.Name), idsName(d.Name)} {
		if err := catalog.CheckName(of); err != nil && (d.Margin != 0 || d.Index != "") {
			return fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	return nil
}

// arcsec says milliarcseconds as arcseconds.
func arcsec(mas int64) string {
	return strconv.FormatFloat(float64(mas)/1000, 'f', -1, 64)
}

// extend writes what a release adds to margin and id index into the staging folder, and brings pieces.sha1 in line.
// Nothing is announced or written where there is neither.
func (r root) extend(ctx context.Context, j *journal, parent *published, opt *SealOptions) (*extension, *MarginSize, error) {
	x := &extension{root: r, ds: &j.Dataset, n: j.Release, opt: opt}
	var size *MarginSize
	// An attempt that failed may have left what this one does not publish.
	for _, name := range []string{"margin", "ids"} {
		if p := filepath.Join(r.workPath(j.Release), "meta", name); exists(p) {
			if err := r.disk.Remove(p); err != nil {
				return nil, nil, err
			}
		}
	}
	var old, now []source
	for i := range j.Shards {
		s := j.Shards[i].shard(j.Release)
		now = append(now, source{s, filepath.Join(r.shardsPath(j.Release), filepath.FromSlash(s.Path))})
	}
	var manifest []catalog.Shard
	if parent != nil {
		manifest = parent.manifest
	}
	for _, s := range manifest {
		if s.Role == catalog.Primary {
			old = append(old, source{s, r.path(s.Path)})
		}
	}
	from := func(had bool) []source {
		if had || parent == nil {
			return now
		}
		return append(old[:len(old):len(old)], now...)
	}
	if x.ds.Margin > 0 {
		had := parent != nil && parent.release.Dataset.Margin > 0
		x.sources = from(had)
		held := manifest
		for i := range now {
			held = append(held[:len(held):len(held)], now[i].Shard)
		}
		var err error
		if size, err = x.margin(ctx, heldPixels(held), had); err != nil {
			return nil, nil, err
		}
		for i := range x.shards {
			for k := range manifest {
				if manifest[k].Path == x.shards[i].Path {
					return nil, nil, fmt.Errorf("%w: the margin of pixel %d of order %d would be the same to the byte as %s: its rows are all repeated; import with --duplicates first", ErrRefused, x.shards[i].Pix, x.shards[i].Order, manifest[k].Path)
				}
			}
		}
	}
	if x.ds.Index != "" {
		x.sources = from(parent != nil && parent.release.Dataset.Index != "")
		if err := x.ids(ctx); err != nil {
			return nil, nil, err
		}
		var all []source
		for _, s := range manifest {
			if s.Role == catalog.IDs {
				all = append(all, source{s, r.path(s.Path)})
			}
		}
		for i := range x.shards {
			if s := x.shards[i].shard(x.n); s.Role == catalog.IDs {
				all = append(all, source{s, filepath.Join(r.shardsPath(x.n), filepath.FromSlash(s.Path))})
			}
		}
		b, err := idsMetadata(ctx, x.ds, opt.Tool, all)
		if err != nil {
			return nil, nil, err
		}
		if err := r.writeFile(filepath.Join(r.workPath(x.n), "meta", "ids", "_metadata"), b); err != nil {
			return nil, nil, err
		}
	}
	if err := x.settle(); err != nil {
		return nil, nil, err
	}
	return x, size, x.allPieces(j)
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// margin finds the rows of the sources that are near other pixels, says how much they are, and writes them.
func (x *extension) margin(ctx context.Context, pixels []pixel, had bool) (*MarginSize, error) {
	plan, err := planMargin(ctx, x.ds, x.sources, pixels, x.opt.Jobs, x.opt.Progress)
	if err != nil {
		return nil, err
	}
	groups := plan.groups()
	size := &MarginSize{Radius: float64(x.ds.Margin) / 1000, Rows: int64(len(plan.rows)), Pixels: len(groups), Opened: len(plan.opened), First: !had}
	for _, g := range groups {
		var n float64
		for _, row := range g {
			s := &x.sources[row.shard]
			n += float64(s.Bytes) / float64(s.Rows)
		}
		size.Bytes += (int64(n) + x.ds.Piece - 1) / x.ds.Piece * x.ds.Piece
	}
	if x.opt.Announce != nil {
		if err := x.opt.Announce(*size); err != nil {
			return nil, err
		}
	}
	shards, pieces := make([][]stagedShard, len(groups)), make([][][]byte, len(groups))
	var done counter
	err = parallel(ctx, x.opt.Jobs, len(groups), func(ctx context.Context, k int) error {
		var err error
		shards[k], pieces[k], err = x.writeMargin(ctx, plan.pixels[groups[k][0].pixel], groups[k])
		if x.opt.Progress != nil {
			x.opt.Progress("write margins", done.add(int64(len(groups[k]))), size.Rows)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	x.take(shards, pieces)
	return size, nil
}

// take adds shards in the manifest's order.
func (x *extension) take(shards [][]stagedShard, pieces [][][]byte) {
	of := map[string][]byte{}
	var all []catalog.Shard
	byPath := map[string]stagedShard{}
	for k := range shards {
		for i := range shards[k] {
			s := &shards[k][i]
			of[s.Path], byPath[s.Path] = pieces[k][i], *s
			all = append(all, s.shard(x.n))
		}
	}
	catalog.SortManifest(all)
	for i := range all {
		x.shards = append(x.shards, byPath[all[i].Path])
		x.pieces = append(x.pieces, of[all[i].Path]...)
	}
}

// write writes one shard into the staging folder.
func (x *extension) write(ctx context.Context, spec shard.Spec, rows func(*shard.Writer) error) (info *shard.Info, tmp string, err error) {
	tmp = filepath.Join(x.root.shardsPath(x.n), fmt.Sprintf("tmp-further-%d", x.temps.Add(1)))
	spec.Piece, spec.Digest, spec.CreatedBy = x.ds.Piece, x.ds.Digest, x.opt.Tool
	f, err := x.root.disk.Create(tmp)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = e
		}
		if err != nil {
			err = errors.Join(err, x.root.disk.Remove(tmp))
		}
	}()
	w, err := shard.NewWriter(f, spec)
	if err != nil {
		return nil, "", err
	}
	if err = rows(w); err == nil {
		info, err = w.Close(ctx)
	}
	if err != nil {
		w.Abort()
		return nil, "", err
	}
	return info, tmp, f.Sync()
}

// keep gives a written shard the name under which it waits. The name is durable after settle.
func (x *extension) keep(tmp, to string) error {
	return x.root.disk.Rename(tmp, filepath.Join(x.root.shardsPath(x.n), filepath.FromSlash(to)))
}

// settle makes the names of all shards durable.
func (x *extension) settle() error {
	if len(x.shards) == 0 {
		return nil
	}
	below := x.root.shardsPath(x.n)
	folders := map[string]bool{}
	for i := range x.shards {
		for d := filepath.Dir(filepath.Join(below, filepath.FromSlash(x.shards[i].Path))); len(d) >= len(below) && !folders[d]; d = filepath.Dir(d) {
			folders[d] = true
		}
	}
	return x.root.syncAll(folders)
}

// ids writes the index of the sources' rows: shards of equal rows, sorted by id.
func (x *extension) ids(ctx context.Context) error {
	s, err := sortIDs(ctx, x.ds, x.sources, x.root.path(stagingDir), x.opt.Progress)
	if err != nil {
		return err
	}
	defer s.close()
	c := x.ds.Column(x.ds.Index)
	cols := catalog.IndexColumns(c)
	each := int64(cols[1].RowBytes() + cols[2].RowBytes())
	if c.DType == catalog.String {
		each += 4
	}
	if s.rows == 0 {
		return nil
	}
	n := shardsFor(s.bytes+each*s.rows, x.ds.ShardSize, int(s.rows))
	// The entries come in one stream, which is cut where the next shard begins.
	entries, stop := make(chan *catalog.Batch), make(chan struct{})
	failed := make(chan error, 1)
	cut := func(k int) int64 { return int64(k) * s.rows / int64(n) }
	go func() {
		defer close(entries)
		b, at, k := newIDBatch(cols), int64(0), 1
		send := func() error {
			if b.Rows == 0 {
				return nil
			}
			select {
			case entries <- b:
			case <-stop:
				return context.Canceled
			}
			b = newIDBatch(cols)
			return nil
		}
		err := s.each(ctx, func(e *idEntry) error {
			appendKey(b.Vectors[0], c.DType, e.key)
			b.Vectors[1].Data, b.Vectors[1].Rows = append(b.Vectors[1].Data, e.order), b.Vectors[1].Rows+1
			b.Vectors[2].Data, b.Vectors[2].Rows = binary.LittleEndian.AppendUint64(b.Vectors[2].Data, e.pix), b.Vectors[2].Rows+1
			b.Rows++
			at++
			if at == cut(k) {
				k++
				return send()
			}
			if b.Rows == scanRows {
				return send()
			}
			return nil
		})
		if err == nil {
			err = send()
		}
		failed <- err
	}()
	err = x.idShards(ctx, cols, n, cut, entries)
	close(stop)
	for range entries { // the other side ends
	}
	if e := <-failed; err == nil && e != nil {
		err = e
	}
	return err
}

func newIDBatch(cols []catalog.Column) *catalog.Batch {
	b := &catalog.Batch{Columns: cols}
	for i := range cols {
		b.Vectors = append(b.Vectors, catalog.NewVector(&cols[i]))
	}
	return b
}

func (x *extension) idShards(ctx context.Context, cols []catalog.Column, n int, cut func(int) int64, entries <-chan *catalog.Batch) error {
	shards, pieces := make([][]stagedShard, n), make([][][]byte, n)
	for k := range n {
		left := cut(k+1) - cut(k)
		info, tmp, err := x.write(ctx, shard.Spec{Columns: cols}, func(w *shard.Writer) error {
			for left > 0 {
				b, ok := <-entries
				if !ok {
					return errors.New("the ids end early")
				}
				if err := w.Write(ctx, b); err != nil {
					return err
				}
				left -= int64(b.Rows)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("release: write the index of %s: %w", x.ds.Name, err)
		}
		s := staged1(catalog.IDs, info)
		s.Path = idsPath(x.ds.Name, x.n, k, info.SHA256)
		if err := x.keep(tmp, s.Path); err != nil {
			return err
		}
		shards[k], pieces[k] = []stagedShard{s}, [][]byte{info.Pieces}
	}
	x.take(shards, pieces)
	return nil
}

// idsMetadata gathers the footers of all shards of the index, as HATS has it.
func idsMetadata(ctx context.Context, d *catalog.Dataset, tool string, shards []source) ([]byte, error) {
	m, err := shard.NewMetadata(catalog.IndexColumns(d.Column(d.Index)), tool)
	if err != nil {
		return nil, err
	}
	add := func(s *source) (err error) {
		f, err := os.Open(s.file)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := m.Add(ctx, strings.TrimPrefix(s.Path, idsName(d.Name)+"/dataset/"), f, s.Bytes); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrDamaged, s.Path, err)
		}
		return nil
	}
	for i := range shards {
		if err := add(&shards[i]); err != nil {
			return nil, err
		}
	}
	return m.Encode()
}

// allPieces makes pieces.sha1 that of all shards of the release. The import wrote those of the primary ones, and an attempt that
// failed may have added others.
func (x *extension) allPieces(j *journal) error {
	p := filepath.Join(x.root.workPath(x.n), "pieces.sha1")
	b, err := os.ReadFile(p)
	if err != nil {
		return err
	}
	var primary int64
	for i := range j.Shards {
		primary += j.Shards[i].Bytes / x.ds.Piece * 20
	}
	if int64(len(b)) < primary {
		return fmt.Errorf("%w: %s has %d bytes, %d at least", ErrDamaged, p, len(b), primary)
	}
	if int64(len(b)) == primary && len(x.pieces) == 0 {
		return nil
	}
	return x.root.writeFile(p, append(b[:primary:primary], x.pieces...))
}
