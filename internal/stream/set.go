package stream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"astropile/internal/catalog"
	"astropile/internal/order"
	"astropile/internal/query"
	"astropile/internal/shard"
	"astropile/internal/source"
)

// ErrSelect marks a selection that the dataset cannot give: a column, release or row that it does not have.
var ErrSelect = errors.New("stream: the dataset does not have what was asked for")

// ErrMismatch marks documents that do not match the digests that pin them.
var ErrMismatch = errors.New("stream: a document does not match what pins it")

// Limits of the documents that are read at opening.
const (
	maxLatest   = 1 << 20
	maxRelease  = 64 << 20
	maxManifest = 1 << 30
	maxReleases = 1 << 20
)

// DefaultMemory is the memory for decoded columns and tails where the caller sets none, in bytes.
const DefaultMemory = 256 << 20

// Select names a column of the dataset, and what it is to be called (Name where As is empty).
type Select struct {
	As   string `json:"as"`
	Name string `json:"name"`
	Transform
}

// SetOptions say what of a dataset is opened.
type SetOptions struct {
	Columns   []Select // nil selects all
	Release   int      // 0 is the latest
	ReleaseID string   // where the caller knows it: anything else is refused
	Threads   int      // goroutines that read and decode; 0 is as many as the process may use
	Memory    int64    // bytes for decoded columns and tails, slots not included; 0 is DefaultMemory
	CheckCRC  bool     // compare every page read with its CRC; tensors are then no longer read straight into slots

	Selection query.Selection // the rows that are wanted; the zero value takes all
	Cache     string          // folder in which a host keeps what selections found; empty keeps nothing
}

// ReleaseInfo is one release of the dataset.
type ReleaseInfo struct {
	Number  int    `json:"number"`
	ID      string `json:"id"`
	Time    string `json:"time"`
	Message string `json:"message"`
	Rows    int64  `json:"rows"`
	Bytes   int64  `json:"bytes"`
}

// Set is a release of a dataset, open for reading. It may be used from any number of goroutines; Close it when no
// stream of it is left.
type Set struct {
	src     source.Source
	opt     SetOptions
	name    string
	release *catalog.Release
	id      string
	latest  int
	lastID  string
	shards  []catalog.Shard // primary, in manifest order
	before  []int64         // selected rows before each shard, and all at the end
	stored  []catalog.Column
	columns []catalog.Column // as renamed and changed
	changes []*transform     // of each column; nil where none
	digest  func([]byte) [32]byte
	dec     *shard.Decoder
	open    *shardTable
	chunks  *chunkCache
	chunked []atomic.Pointer[shardChunks] // of each shard, once it was opened
	class   [][]atomic.Int32              // of each tensor column, by shard: see constants.go
	values  *constantValues

	selected  *query.Rows   // nil where all rows are
	old       []*query.Rows // earlier selections, closed with the set
	digestSel string        // of the selection
}

// OpenSet opens a release. latest.json is only a hint where to look; every document is checked against the digest
// that pins it, up to the release's own id, which ReleaseID pins if it is given.
func OpenSet(ctx context.Context, src source.Source, opt SetOptions) (*Set, error) {
	if opt.Threads <= 0 {
		opt.Threads = runtime.GOMAXPROCS(0)
	}
	if opt.Memory <= 0 {
		opt.Memory = DefaultMemory
	}
	s := &Set{src: src, opt: opt}
	if err := s.openRelease(ctx); err != nil {
		return nil, err
	}
	if err := s.openManifest(ctx); err != nil {
		return nil, err
	}
	if err := s.selectColumns(opt.Columns); err != nil {
		return nil, err
	}
	if err := s.selectRows(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.digest, err = shard.DigestFunc(s.release.Dataset.Digest); err != nil {
		return nil, err
	}
	dec, err := shard.NewDecoder(opt.Threads)
	if err != nil {
		return nil, err
	}
	s.dec = dec
	s.open = newShardTable(s, opt.Memory/4)
	s.chunks = newChunkCache(opt.Memory-opt.Memory/4, s.stored)
	s.chunked = make([]atomic.Pointer[shardChunks], len(s.shards))
	s.values = &constantValues{ids: map[string]int32{}}
	s.class = make([][]atomic.Int32, len(s.stored))
	for k := range s.stored {
		if s.stored[k].Kind == catalog.Tensor {
			s.class[k] = make([]atomic.Int32, len(s.shards))
		}
	}
	return s, nil
}

func (s *Set) releasePath(n int, file string) string {
	return path.Join(s.name, "releases", fmt.Sprint(n), file)
}

// readRelease reads release n and gives its id.
func (s *Set) readRelease(ctx context.Context, n int) (*catalog.Release, string, error) {
	p := s.releasePath(n, "release.json")
	b, err := s.src.ReadFile(ctx, p, maxRelease)
	if err != nil {
		return nil, "", err
	}
	r, err := catalog.DecodeRelease(b)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", p, err)
	}
	if r.Number != n || r.Dataset.Name != s.name {
		return nil, "", fmt.Errorf("%w: %s describes release %d of %q", ErrMismatch, p, r.Number, r.Dataset.Name)
	}
	return r, catalog.ReleaseID(b), nil
}

func (s *Set) openRelease(ctx context.Context) error {
	b, err := s.src.ReadFile(ctx, "latest.json", maxLatest)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: there is no latest.json, so this is no dataset's root, or nothing was released yet (astropile release ROOT): %w", ErrSelect, err)
	}
	if err != nil {
		return err
	}
	l, err := catalog.DecodeLatest(b)
	if err != nil {
		return err
	}
	s.name = l.Name
	rel, id, err := s.readRelease(ctx, l.Release)
	if err != nil {
		return err
	}
	if id != l.ID {
		return fmt.Errorf("%w: latest.json names release %d by id %.12s, release.json has %.12s", ErrMismatch, l.Release, l.ID, id)
	}
	// A release may have been sealed after the hint was written.
	for {
		next, nextID, err := s.readRelease(ctx, rel.Number+1)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		if next.Parent != id {
			return fmt.Errorf("%w: release %d does not continue release %d", ErrMismatch, next.Number, rel.Number)
		}
		rel, id = next, nextID
	}
	s.latest, s.lastID = rel.Number, id
	if want := s.opt.Release; want != 0 {
		if want < 1 || want > rel.Number {
			return fmt.Errorf("%w: release %d; there are 1 to %d", ErrSelect, want, rel.Number)
		}
		for rel.Number > want {
			if rel, id, err = s.parentOf(ctx, rel); err != nil {
				return err
			}
		}
	}
	if s.opt.ReleaseID != "" && s.opt.ReleaseID != id {
		return fmt.Errorf("%w: release %d has id %.12s, %.12s was asked for", ErrMismatch, rel.Number, id, s.opt.ReleaseID)
	}
	s.release, s.id = rel, id
	return nil
}

func (s *Set) parentOf(ctx context.Context, r *catalog.Release) (*catalog.Release, string, error) {
	p, id, err := s.readRelease(ctx, r.Number-1)
	if err != nil {
		return nil, "", err
	}
	if id != r.Parent {
		return nil, "", fmt.Errorf("%w: release %d names its parent by id %.12s, release %d has %.12s", ErrMismatch, r.Number, r.Parent, p.Number, id)
	}
	return p, id, nil
}

func (s *Set) openManifest(ctx context.Context) error {
	p := s.releasePath(s.release.Number, "manifest.parquet")
	b, err := s.src.ReadFile(ctx, p, maxManifest)
	if err != nil {
		return err
	}
	if got, want := catalog.RefOf(b), s.release.Files["manifest.parquet"]; got != want {
		return fmt.Errorf("%w: %s has %d bytes and sha256 %.12s, its release pins %d and %.12s", ErrMismatch, p, got.Bytes, got.SHA256, want.Bytes, want.SHA256)
	}
	all, err := catalog.DecodeManifest(b)
	if err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	s.before = []int64{0}
	for _, sh := range all {
		if sh.Role != catalog.Primary {
			continue
		}
		if last := s.before[len(s.before)-1]; sh.Rows > 1<<56-last {
			return fmt.Errorf("%w: %s: too many rows", ErrMismatch, p)
		}
		s.shards = append(s.shards, sh)
		s.before = append(s.before, s.before[len(s.before)-1]+sh.Rows)
	}
	return nil
}

func (s *Set) selectColumns(sel []Select) error {
	all := s.release.Dataset.Columns
	if sel == nil {
		for _, c := range all {
			sel = append(sel, Select{As: c.Name, Name: c.Name})
		}
	}
	if len(sel) == 0 {
		return fmt.Errorf("%w: no column is selected", ErrSelect)
	}
	seen := map[string]bool{}
	for _, x := range sel {
		c := s.release.Dataset.Column(x.Name)
		if c == nil {
			names := make([]string, len(all))
			for i := range all {
				names[i] = all[i].Name
			}
			return fmt.Errorf("%w: column %q; the dataset has %s", ErrSelect, x.Name, strings.Join(names, ", "))
		}
		out := *c
		if x.As != "" {
			out.Name = x.As
		}
		if seen[out.Name] {
			return fmt.Errorf("%w: two columns would be called %q", ErrSelect, out.Name)
		}
		seen[out.Name] = true
		t, err := newTransform(c, &x.Transform)
		if err != nil {
			return err
		}
		if t != nil {
			out.Shape, out.DType, out.Layout = t.out.Shape, t.out.DType, ""
		}
		s.stored = append(s.stored, *c)
		s.columns = append(s.columns, out)
		s.changes = append(s.changes, t)
	}
	return nil
}

// Close lets go of files and caches. No stream of the set may be left.
func (s *Set) Close() error {
	s.chunks.clear()
	err := s.open.close()
	for _, r := range append(s.old, s.selected) {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	return err
}

// Wanted estimates the memory in bytes in which shuffled reading decodes what is no tensor once an epoch: the windows that
// a stream has open in all lanes, or all there is, whichever is less.
func (s *Set) Wanted() int64 {
	row, ragged, gathered := int64(s.chunks.layout.stride), false, false
	stored := int64(0)
	for i := range s.shards {
		stored += s.shards[i].Bytes
	}
	rest := stored / max(s.allRows(), 1)
	for i := range s.release.Dataset.Columns {
		if c := &s.release.Dataset.Columns[i]; c.Kind == catalog.Tensor {
			rest -= int64(c.RowBytes())
		}
	}
	for k := range s.stored {
		c := &s.stored[k]
		if c.Kind == catalog.Tensor {
			continue
		}
		gathered = true
		ragged = ragged || !c.Fixed() || c.Kind == catalog.Struct
		if c.Nullable {
			row++
		}
	}
	if !gathered {
		return 0
	}
	per := int64(chunkRows)
	if ragged {
		row += expands * max(rest, minRagged)
		per = max(1, shard.GroupPayload/row)
	}
	chunks := int64(0)
	for i := range s.shards {
		chunks += (s.shards[i].Rows-1)/per + 1
	}
	p := s.Params(Blocks, 0)
	open := min(chunks, int64(p.Lanes*(p.Window/p.Block+1))*(int64(p.Block)/per+2))
	return min(s.allRows(), open*per)*row + open*(chunkBytes+decodedColumnBytes*int64(len(s.stored)))
}

// Of text and ragged columns the size is known only when they were read.
const (
	expands   = 2  // how much compressed bytes grow
	minRagged = 64 // bytes a row
)

// allRows is the number of rows, selected or not.
func (s *Set) allRows() int64 {
	n := int64(0)
	for i := range s.shards {
		n += s.shards[i].Rows
	}
	return n
}

// SetMemory gives the set other bytes for decoded columns and tails than SetOptions.Memory.
func (s *Set) SetMemory(n int64) {
	s.open.setBudget(n / 4)
	s.chunks.setBudget(n - n/4)
}

// Columns describes the selected columns, renamed, in the order of the selection.
func (s *Set) Columns() []catalog.Column { return slices.Clone(s.columns) }

// Rows is the number of selected rows; dense row numbers go from 0 to Rows-1 in manifest order.
func (s *Set) Rows() int64 { return s.before[len(s.before)-1] }

// Release is the release that is open.
func (s *Set) Release() *catalog.Release { return s.release }

// ReleaseID is its id.
func (s *Set) ReleaseID() string { return s.id }

// Threads is the number of goroutines that read.
func (s *Set) Threads() int { return s.opt.Threads }

// Shards are the primary shards in manifest order, which is the order of the dense rows.
func (s *Set) Shards() []catalog.Shard { return s.shards }

// Releases lists all releases, the oldest first. Each is checked against the id that its successor pins.
func (s *Set) Releases(ctx context.Context) ([]ReleaseInfo, error) {
	var out []ReleaseInfo
	r, id, err := s.readRelease(ctx, s.latest)
	if err == nil && id != s.lastID {
		err = fmt.Errorf("%w: release %d has changed since it was opened", ErrMismatch, s.latest)
	}
	for err == nil {
		out = append(out, ReleaseInfo{Number: r.Number, ID: id, Time: r.Time, Message: r.Message, Rows: r.Rows, Bytes: r.Bytes})
		if r.Number == 1 || len(out) > maxReleases {
			slices.Reverse(out)
			return out, nil
		}
		r, id, err = s.parentOf(ctx, r)
	}
	return nil, err
}

// Counts is the number of selected rows of each shard, as the order takes them.
func (s *Set) Counts() []uint64 {
	out := make([]uint64, len(s.shards))
	for i := range s.shards {
		out[i] = uint64(s.before[i+1] - s.before[i])
	}
	return out
}

// Selected lists the rows of a shard that are selected, or nil where all are.
func (s *Set) Selected(shard int) []int64 {
	n := s.before[shard+1] - s.before[shard]
	if s.selected == nil || n == s.shards[shard].Rows {
		return nil
	}
	out := make([]int64, n)
	for x := range out {
		out[x] = s.selected.Row(shard, uint64(x))
	}
	return out
}

// SelectionDigest names the selected rows by what they are.
func (s *Set) SelectionDigest() string { return s.digestSel }

// table is the release as package query reads it.
func (s *Set) table() query.Table {
	return query.Table{Release: s.release, ID: s.id, Shards: s.shards, Open: func(ctx context.Context, p string) (query.File, error) {
		return s.src.Open(ctx, p)
	}}
}

// take makes rows the selection.
func (s *Set) take(rows *query.Rows) {
	if s.selected != nil && s.selected != rows {
		s.old = append(s.old, s.selected)
	}
	s.selected = rows
	for i, n := range rows.Counts() {
		s.before[i+1] = s.before[i] + int64(n)
	}
	s.digestSel = rows.Digest()
}

// selectRows finds the selected rows.
func (s *Set) selectRows(ctx context.Context) error {
	if !s.opt.Selection.Empty() {
		rows, err := query.Select(ctx, s.table(), s.opt.Selection, query.Options{Threads: s.opt.Threads, Cache: s.opt.Cache})
		if err != nil {
			return err
		}
		s.take(rows)
		return nil
	}
	s.digestSel = order.SelectionDigest(s.Counts(), nil)
	return nil
}

// groupBytes is the size of the row groups that scalar data are shuffled by.
const groupBytes = 4 << 20

// Params are the default numbers of the order; they depend on the release alone.
func (s *Set) Params(mode Mode, seed uint64) order.Params {
	var bytes uint64
	for i := range s.shards {
		bytes += uint64(s.shards[i].Bytes)
	}
	all := uint64(s.allRows())
	scalar := !slices.ContainsFunc(s.release.Dataset.Columns, func(c catalog.Column) bool { return c.Kind != catalog.Scalar })
	p := order.Defaults(uint64(s.Rows()), all, bytes, scalar, groupBytes/max(1, bytes/max(all, 1))).With(mode)
	p.Seed = seed
	return p
}

// ref is a row of a shard.
type ref struct {
	shard int
	row   int64
}
