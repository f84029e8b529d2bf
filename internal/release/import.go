package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"astropile/internal/catalog"
	"astropile/internal/shard"
)

// Duplicates says what an id that occurs twice means.
type Duplicates string

// What can be done about an id that occurs twice.
const (
	DuplicatesError Duplicates = "error" // refuse, naming both files
	DuplicatesFirst Duplicates = "first" // keep the first, in the order of the inputs
	DuplicatesAll   Duplicates = "all"   // keep all
)

// DefaultShardSize is the payload a shard aims at, in bytes.
const DefaultShardSize = 512 << 20

// Progress is told how far a phase has come, in bytes or rows; it may be called from any goroutine.
type Progress func(phase string, done, total int64)

// ImportOptions say how an import works. The zero value is the default of everything.
type ImportOptions struct {
	Name        string // of the dataset; default: the root's folder. Fixed by the first release
	ShardSize   int64  // fixed by the first release
	Expect      int    // fixed by the first release
	Duplicates  Duplicates
	Jobs        int    // goroutines; default: as many as the process may run at once
	Memory      int64  // bytes that the import takes at most, beside the runtime's own; default: a third of what is available
	Compression string // shard.PolicyAuto, PolicyNone or PolicyZstd; fixed by the first release
	SkipBad     bool   // leave damaged inputs out and list them
	Discard     bool   // throw away what an earlier import staged, or read before it was interrupted
	Tool        string // program and version, for created_by
	Progress    Progress
	Notice      func(text string) // is told what a person should know at once; may be nil

	sortMemory int64 // of sorting and of the table of rows; 0: from Memory
}

// ImportReport says what an import staged.
type ImportReport struct {
	Release  int      `json:"release"` // that will have it
	Name     string   `json:"name"`
	Inputs   int      `json:"inputs"`
	Rows     int64    `json:"rows"`
	Repeated int64    `json:"repeated"` // rows left out because their id occurred before
	Payload  int64    `json:"payload"`
	Shards   int      `json:"shards"`
	Bytes    int64    `json:"bytes"`
	Skipped  []string `json:"skipped"`
	Growth   []Growth `json:"growth"`
	Again    bool     `json:"again"` // these inputs were staged already; nothing was done
	// Continued is how many inputs were not read, because an import that was interrupted had read them.
	Continued int `json:"continued"`
}

// importer is one import under way.
type importer struct {
	root    root
	opt     ImportOptions
	survey  *Survey
	ds      catalog.Dataset
	parent  *published
	n       int
	cols    []catalog.Column // of the shards, in file order
	source  []int            // column of the batches for each of cols; -1: _healpix_29
	id      int              // column of the batches
	ra, dec int              // -1 without positions

	hashes  [][32]byte
	sizes   []int64
	marks   []fileMark // what each file was when it was hashed
	hashed  []bool
	left    []bool // inputs that are left out as damaged
	rank    []int  // of each input in the order of Rel
	order   []int  // the inputs in that order
	given   int    // column of the batches that is their own _healpix_29, or -1
	state   []inputState
	budget  *budget
	codec   *recordCodec
	spool   *spool
	total   int64 // rows that were read
	drop    dropped
	counts  []int64 // rows that each input gives to the release
	longest int64   // bytes of the longest row
	sorted  *table[row]
	rows    []row
	idBuf   []byte

	blocksMu sync.Mutex
	blocks   []*openBlock

	skipped   []string
	repeated  int64
	continued int // inputs that an interrupted import had read
}

// Import reads a survey into the root's staging folder, as the next release's shards.
//
// It fails with ErrBusy where another command works on the root, ErrRefused where a gate refuses, ErrDamaged where an
// input does not decode (unless SkipBad). Whatever ends it, what it read of files stays in the staging folder: the next call with the
// same columns and recipe reads only the others, and those that changed since. An import whose inputs are staged already does
// nothing.
func Import(ctx context.Context, dir string, s *Survey, opt ImportOptions) (*ImportReport, error) {
	r, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	return importInto(ctx, r, s, opt)
}

func importInto(ctx context.Context, r root, s *Survey, opt ImportOptions) (rep *ImportReport, err error) {
	im := &importer{root: r, opt: opt, survey: s}
	unlock, err := im.root.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	im.skipped = slices.Clone(s.Skipped)
	if err := im.root.recover(); err != nil {
		return nil, err
	}
	if im.parent, err = im.root.latest(); err != nil {
		return nil, err
	}
	im.n = 1
	if im.parent != nil {
		im.n = im.parent.release.Number + 1
	}
	if err := im.prepare(); err != nil {
		return nil, err
	}
	if err := im.plan(); err != nil {
		return nil, err
	}
	if err := im.rankInputs(); err != nil {
		return nil, err
	}
	if rep, err := im.repeat(ctx); rep != nil || err != nil {
		return rep, err
	}
	if err := im.root.writeJournal(&journal{State: importing, Release: im.n, Dataset: im.ds, Inputs: len(s.Inputs)}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, im.abandon())
		}
	}()
	if err := im.resume(ctx); err != nil {
		return nil, err
	}
	if err := im.read(ctx); err != nil {
		return nil, err
	}
	im.blocks = nil
	if err := im.gate(ctx); err != nil {
		return nil, err
	}
	rep, err = im.stage(ctx)
	im.letGo()
	if err != nil {
		return nil, err
	}
	// The journal says that it is staged; what was read is of no use any more.
	return rep, im.root.disk.Remove(im.root.spoolPath(im.n))
}

// column is the number of a column of the shards.
func (im *importer) column(name string) int {
	return slices.IndexFunc(im.cols, func(c catalog.Column) bool { return c.Name == name })
}

// letGo closes what is open.
func (im *importer) letGo() {
	if im.sorted != nil {
		im.sorted.close()
		im.sorted, im.rows = nil, nil
	}
	if im.spool != nil {
		im.spool.close()
		im.spool = nil
	}
}

// abandon removes what an import wrote that failed, but for what it read of files, if that is anything.
func (im *importer) abandon() error {
	im.letGo()
	for i := range im.state {
		if im.state[i].done && im.survey.Inputs[i].Path != "" {
			return im.root.rollBack(im.n)
		}
	}
	return im.root.discard(im.n)
}

func (im *importer) progress(phase string, done, total int64) {
	if im.opt.Progress != nil {
		im.opt.Progress(phase, done, total)
	}
}

// prepare fixes the dataset and its columns.
func (im *importer) prepare() error {
	o := &im.opt
	if o.Jobs <= 0 {
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	if o.Memory <= 0 {
		o.Memory = availableMemory() / 3
	}
	if o.Duplicates == "" {
		o.Duplicates = DuplicatesError
	}
	if o.Compression == "" {
		o.Compression = shard.PolicyAuto
	}
	s := im.survey
	if len(s.Inputs) == 0 {
		return fmt.Errorf("%w: no inputs", ErrNothing)
	}
	sky := s.RA != ""
	var cols []catalog.Column
	if sky {
		cols = append(cols, catalog.Column{Name: healpixColumn, Kind: catalog.Scalar, DType: catalog.Int64})
	}
	for _, c := range s.Columns {
		if c.Name == healpixColumn && sky {
			continue // ours is computed from the position and says the same
		}
		cols = append(cols, c)
	}
	im.cols = catalog.FileOrder(cols)
	index := func(name string) int {
		return slices.IndexFunc(s.Columns, func(c catalog.Column) bool { return c.Name == name })
	}
	for _, c := range im.cols {
		if c.Name == healpixColumn && sky {
			im.source = append(im.source, fromHealpix)
		} else {
			im.source = append(im.source, index(c.Name))
		}
	}
	im.id, im.ra, im.dec = index(s.ID), index(s.RA), index(s.Dec)
	if im.id < 0 || sky && (im.ra < 0 || im.dec < 0) {
		return fmt.Errorf("%w: the id %q or the position %q, %q is not among the columns; name them in the recipe", ErrRefused, s.ID, s.RA, s.Dec)
	}
	im.given = index(healpixColumn)
	if im.parent != nil {
		return im.adopt()
	}
	name := o.Name
	if name == "" {
		name = filepath.Base(im.root.dir)
	}
	if o.ShardSize == 0 {
		o.ShardSize = DefaultShardSize
	}
	if o.Expect == 0 {
		o.Expect = 1
	}
	im.ds = catalog.Dataset{Format: catalog.FormatVersion, Name: name, Columns: im.cols, ID: s.ID, RA: s.RA, Dec: s.Dec, ShardSize: o.ShardSize, Expect: o.Expect,
		Piece: catalog.PieceSize(o.ShardSize, o.Expect), Digest: shard.DefaultDigest}
	if err := im.ds.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil
}

// plan divides the memory and decides how rows are kept.
func (im *importer) plan() (err error) {
	readers := readersFor(im.opt.Memory, im.opt.Jobs, len(im.survey.Inputs), im.cols)
	if im.budget, err = newBudget(im.opt.Memory, readers, im.cols); err != nil {
		return err
	}
	if n := im.opt.sortMemory; n > 0 {
		im.budget.sort, im.budget.table = n, n
	}
	im.codec = newRecordCodec(im.cols, im.source, im.survey.ID)
	return nil
}

// adopt takes the dataset that earlier releases fixed, and refuses what does not fit it.
func (im *importer) adopt() error {
	im.ds = im.parent.release.Dataset
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: the first release fixed %s", ErrRefused, im.ds.Name, fmt.Sprintf(format, args...))
	}
	o := &im.opt
	if o.Name != "" && o.Name != im.ds.Name {
		return refuse("the name %q, not %q", im.ds.Name, o.Name)
	}
	if o.ShardSize != 0 && o.ShardSize != im.ds.ShardSize {
		return refuse("a shard size of %d bytes, not %d", im.ds.ShardSize, o.ShardSize)
	}
	if o.Expect != 0 && o.Expect != im.ds.Expect {
		return refuse("--expect %dx, not %dx", im.ds.Expect, o.Expect)
	}
	if im.survey.ID != im.ds.ID || im.survey.RA != im.ds.RA || im.survey.Dec != im.ds.Dec {
		return refuse("id %q and position %q, %q, not %q and %q, %q", im.ds.ID, im.ds.RA, im.ds.Dec, im.survey.ID, im.survey.RA, im.survey.Dec)
	}
	var source []int
	for i := range im.ds.Columns {
		want := &im.ds.Columns[i]
		k := slices.IndexFunc(im.cols, func(c catalog.Column) bool { return c.Name == want.Name })
		if k < 0 && want.Nullable {
			source = append(source, fromNothing)
			continue
		}
		if k < 0 {
			return refuse("the column %q as never null, and these inputs lack it", want.Name)
		}
		if !sameType(want, &im.cols[k]) {
			return refuse("%q as %s; these inputs have %s", want.Name, describe(want), describe(&im.cols[k]))
		}
		source = append(source, im.source[k])
	}
	for i := range im.cols {
		if im.ds.Column(im.cols[i].Name) == nil {
			return refuse("the columns, and %q is not among them; drop it in the recipe, or publish a new edition", im.cols[i].Name)
		}
	}
	im.cols, im.source = im.ds.Columns, source
	return nil
}

func sameType(a, b *catalog.Column) bool {
	if a.Kind != b.Kind || a.DType != b.DType || a.Unit != b.Unit || !slices.Equal(a.Shape, b.Shape) || len(a.Members) != len(b.Members) {
		return false
	}
	for i := range a.Members {
		if a.Members[i].Name != b.Members[i].Name || !sameType(&a.Members[i], &b.Members[i]) {
			return false
		}
	}
	return true
}

func describe(c *catalog.Column) string {
	s := fmt.Sprintf("%s of %s", c.Kind, c.DType)
	if len(c.Shape) > 0 {
		s += fmt.Sprintf(" %v", c.Shape)
	}
	if c.Unit != "" {
		s += " in " + c.Unit
	}
	for i := range c.Members {
		s += " " + c.Members[i].Name + ": " + string(c.Members[i].DType)
	}
	return s
}

// rankInputs orders the inputs by name.
func (im *importer) rankInputs() error {
	n := len(im.survey.Inputs)
	im.hashes, im.sizes, im.rank = make([][32]byte, n), make([]int64, n), make([]int, n)
	im.marks, im.hashed, im.left, im.state = make([]fileMark, n), make([]bool, n), make([]bool, n), make([]inputState, n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(a, b int) bool { return im.survey.Inputs[order[a]].Rel < im.survey.Inputs[order[b]].Rel })
	for r, i := range order {
		im.rank[i] = r
		if r > 0 && im.survey.Inputs[order[r-1]].Rel == im.survey.Inputs[i].Rel {
			return fmt.Errorf("%w: two inputs are named %q", ErrRefused, im.survey.Inputs[i].Rel)
		}
	}
	return nil
}

// hash takes the SHA-256 of an input, once.
func (im *importer) hash(ctx context.Context, i int) error {
	in := &im.survey.Inputs[i]
	if in.Path == "" {
		im.sizes[i] = in.Bytes
		return nil
	}
	if im.hashed[i] || im.state[i].done {
		return nil
	}
	st, err := os.Stat(in.Path)
	if err != nil {
		return err
	}
	if im.hashes[i], im.sizes[i], err = hashFile(ctx, in.Path); err != nil {
		return err
	}
	im.marks[i], im.hashed[i] = markOf(st), true
	return nil
}

// hashAll takes the SHA-256 of every input before any is read.
func (im *importer) hashAll(ctx context.Context) error {
	var total int64
	for i := range im.survey.Inputs {
		total += im.survey.Inputs[i].Bytes
	}
	var done counter
	return parallel(ctx, im.opt.Jobs, len(im.survey.Inputs), func(ctx context.Context, i int) error {
		err := im.hash(ctx, i)
		im.progress("hash inputs", done.add(im.sizes[i]), total)
		return err
	})
}

// inputsTable is inputs.parquet: the inputs that were read, and the rows that each gave. Before any was read, rows is nil.
func (im *importer) inputsTable(rows []int64) ([]byte, error) {
	var out []catalog.Input
	for i, in := range im.survey.Inputs {
		if rows == nil {
			out = append(out, catalog.Input{Path: in.Rel, Bytes: im.sizes[i], SHA256: im.hashes[i]})
		} else if !im.left[i] {
			out = append(out, catalog.Input{Path: in.Rel, Bytes: im.sizes[i], SHA256: im.hashes[i], Rows: rows[i]})
		}
	}
	slices.SortFunc(out, func(a, b catalog.Input) int { return strings.Compare(a.Path, b.Path) })
	return catalog.EncodeInputs(out, im.opt.Tool)
}

// keyParts tell imports apart: by their inputs, recipe and whatever else changes what is staged.
type keyParts struct {
	Inputs  string `json:"inputs"`
	Recipe  string `json:"recipe"`
	Options string `json:"options"`
}

func (im *importer) inputsKey() (string, error) {
	b, err := im.inputsTable(nil)
	return catalog.RefOf(b).SHA256, err
}

func (im *importer) optionsKey() string {
	o, d := im.opt, &im.ds
	s := fmt.Sprintf("--name %s --shard-size %d --expect %dx --duplicates %s --compression %s", d.Name, d.ShardSize, d.Expect, o.Duplicates, o.Compression)
	if o.SkipBad {
		s += " --skip-bad"
	}
	return s + " by " + o.Tool
}

func (im *importer) key() (keyParts, error) {
	inputs, err := im.inputsKey()
	return keyParts{inputs, catalog.RefOf(im.survey.Recipe).SHA256, im.optionsKey()}, err
}

// Discard throws away what imports staged in a root, or read before they were interrupted, and says whether there was any.
func Discard(_ context.Context, dir string) (bool, error) {
	r, err := openRoot(dir)
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(r.path(stagingDir)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	unlock, err := r.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	if err := r.recover(); err != nil {
		return false, err
	}
	js, err := r.journals()
	if err != nil {
		return false, err
	}
	for _, j := range js {
		if err := r.discard(j.Release); err != nil {
			return false, err
		}
	}
	return len(js) > 0, nil
}

// repeat finds that an import is staged: the same one, or one that is in the way.
func (im *importer) repeat(ctx context.Context) (*ImportReport, error) {
	js, err := im.root.journals()
	if err != nil {
		return nil, err
	}
	for _, j := range js {
		if j.State != staged {
			if im.opt.Discard || j.Release != im.n {
				if err := im.root.discard(j.Release); err != nil {
					return nil, err
				}
			}
			continue
		}
		if !im.opt.Discard {
			if err := im.hashAll(ctx); err != nil {
				return nil, err
			}
		}
		key, err := im.key()
		if err != nil {
			return nil, err
		}
		if j.Release == im.n && j.Parts == key && !im.opt.Discard {
			rep := &ImportReport{Release: j.Release, Name: j.Dataset.Name, Inputs: len(im.survey.Inputs), Shards: len(j.Shards), Growth: j.Growth, Skipped: j.Skipped, Again: true}
			for i := range j.Shards {
				rep.Rows += j.Shards[i].Rows
				rep.Bytes += j.Shards[i].Bytes
			}
			return rep, nil
		}
		if !im.opt.Discard {
			return nil, fmt.Errorf("%w: %s: seal it with `astropile release`, or throw it away with --discard", ErrRefused, im.inTheWay(j))
		}
		if err := im.root.discard(j.Release); err != nil {
			return nil, err
		}
	}
	return nil, ctx.Err()
}

// inTheWay says of a staged import how it differs from this one.
func (im *importer) inTheWay(j *journal) string {
	inputs, err := im.inputsKey()
	switch {
	case err != nil || j.Parts.Inputs != inputs:
		return fmt.Sprintf("an import of other inputs is staged in %s", im.root.dir)
	case j.Parts.Recipe != catalog.RefOf(im.survey.Recipe).SHA256:
		return fmt.Sprintf("an import of the same inputs by another recipe is staged in %s", im.root.dir)
	case j.Parts.Options != im.optionsKey():
		return fmt.Sprintf("an import of the same inputs is staged in %s with other options (%s; now %s)", im.root.dir, j.Parts.Options, im.optionsKey())
	}
	return fmt.Sprintf("an import of the same inputs for release %d is staged in %s", j.Release, im.root.dir)
}

// availableMemory is what the machine, or the control group of this process, has to give, in bytes.
func availableMemory() int64 {
	var si unix.Sysinfo_t
	n := int64(4 << 30)
	if unix.Sysinfo(&si) == nil {
		n = int64(si.Totalram) * int64(si.Unit)
	}
	for _, p := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		var limit int64
		if _, err := fmt.Sscan(string(b), &limit); err == nil && limit > 0 {
			n = min(n, limit)
		}
	}
	return n
}

// stamp is a time as documents hold it.
func stamp(t time.Time) string { return t.UTC().Truncate(time.Second).Format("2006-01-02T15:04:05Z") }
