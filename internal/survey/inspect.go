package survey

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"astropile/internal/catalog"
	"astropile/internal/survey/hdf5"
	"astropile/internal/survey/table"
)

// InspectOptions changes what Inspect does. The zero value infers everything.
type InspectOptions struct {
	Recipe   *Recipe // hints, or with columns a complete recipe that all inputs have to fit; it is not changed
	Workers  int     // files looked into at once; 0: as many as the process may run at once
	Progress func(done, total int)
	// Bad decides about an input that is damaged or whose sample cannot be used: true leaves it out of what is inferred
	// (and to the caller to leave out of what is read), false or no Bad ends Inspect with the error. What does not fit the
	// other inputs is not bad. It is called from one goroutine.
	Bad func(in Input, err error) bool
}

// leaveOut says whether an input is bad and to be left out. A file that the system does not let us read is not damaged.
func (o *InspectOptions) leaveOut(ctx context.Context, in Input, err error) bool {
	if o.Bad == nil || ctx.Err() != nil {
		return false
	}
	for _, other := range []error{ErrMapping, ErrRecipe, fs.ErrPermission, fs.ErrNotExist, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, other) {
			return false
		}
	}
	return o.Bad(in, err)
}

const (
	inspectBlock   = 256  // files whose descriptions are in memory at once
	groupsLooked   = 4096 // groups of a file that are described; the reader judges all
	sampleFiles    = 32
	sampleRows     = 4096
	sampleObjects  = 64
	sampleTensors  = 8       // rows of arrays that are compared
	sampleBytes    = 4 << 20 // of arrays of a file
	maxProblemText = 20      // problems that a message lists
)

// Inspect looks into the metadata of all sources and at a sample of their values, and gives a complete recipe with what a
// person should know about it. See the package documentation for the rules.
//
// The error wraps ErrInput where a source cannot be read, ErrMapping where columns cannot be inferred or do not fit the
// recipe given, ErrPosition where positions of the sample are off the sky. With ErrMapping the recipe may be there too: a
// draft to be changed by hand.
func Inspect(ctx context.Context, sources []string, opt InspectOptions) (*Recipe, []Warning, error) {
	inputs, passed, err := DiscoverAll(sources)
	if err != nil {
		return nil, nil, err
	}
	r, warnings, err := InspectInputs(ctx, inputs, opt)
	return r, append(passed, warnings...), err
}

// InspectInputs is Inspect for inputs that Discover gave.
func InspectInputs(ctx context.Context, inputs []Input, opt InspectOptions) (*Recipe, []Warning, error) {
	if len(inputs) == 0 {
		return nil, nil, fmt.Errorf("%w: no inputs", ErrInput)
	}
	r := &Recipe{}
	if opt.Recipe != nil {
		r = opt.Recipe.clone()
	}
	given := len(r.Map) > 0
	if given {
		if err := r.Check(); err != nil {
			return nil, nil, err
		}
	}
	g, tables := newMerger(), newTableMerger()
	all := inputs
	inputs, rows, err := survey(ctx, all, r, given, g, tables, opt)
	if err != nil {
		return nil, nil, err
	}
	if r.ragged = tables.groups(); r.ragged != nil {
		tables = newTableMerger()
		if inputs, rows, err = survey(ctx, inputs, r, given, g, tables, opt); err != nil {
			return nil, nil, err
		}
	}
	if len(inputs) == 0 {
		return nil, nil, fmt.Errorf("%w: no input can be read", ErrInput)
	}
	n := &inference{recipe: r}
	if len(g.attrs) > 0 {
		n.warn(WarnAttribute, "", g.attrsWhere, "attributes of the file become no column: %s", strings.Join(g.attrs[:min(len(g.attrs), maxProblemText)], ", "))
	}
	if !given {
		if r.Family.tabular() {
			n.tableColumns(tables)
		} else {
			n.columns(g)
		}
		n.pads()
		n.split(inputs)
		n.renames()
		r.ID, r.RA, r.Dec = n.before(r.ID), n.before(r.RA), n.before(r.Dec)
		n.keys(func(column string) bool { return n.unique(ctx, inputs[0], column) })
		for _, name := range []string{r.ID, r.RA, r.Dec} {
			if m := r.find(name); m != nil && r.Family.tabular() {
				m.Nullable = false // a row without is refused by name
				if class, _ := number(m.DType); name != r.ID && (class == 'i' || class == 'u') {
					// Whole degrees in these inputs do not mean whole degrees for ever.
					m.DType, m.Note = catalog.Float64, join("; ", "whole numbers in the file", m.Note)
				}
			}
		}
		if err := firstProblems(n.problems); err != nil {
			return r, n.warnings, err
		}
		if r.Family == Columnar {
			if err := n.groupLists(ctx, inputs); err != nil {
				return r, n.warnings, err
			}
		}
	}
	if err := n.finish(); err != nil {
		return r, n.warnings, err
	}
	if err := n.sample(ctx, inputs, given, opt); err != nil {
		return r, n.warnings, err
	}
	if err := r.Check(); err != nil {
		return r, n.warnings, err
	}
	n.notes(len(inputs), rows, given)
	r.ragged = nil
	return r, n.warnings, nil
}

func firstProblems(list []error) error {
	if len(list) > maxProblemText {
		list = append(list[:maxProblemText:maxProblemText], fmt.Errorf("%w: %d more", ErrMapping, len(list)-maxProblemText))
	}
	return errors.Join(list...)
}

func (r *Recipe) clone() *Recipe {
	out := *r
	out.Rename, out.Pad, out.Drop, out.Notes = maps.Clone(r.Rename), maps.Clone(r.Pad), slices.Clone(r.Drop), nil
	out.Map = slices.Clone(r.Map)
	for i := range out.Map {
		out.Map[i].Members = slices.Clone(out.Map[i].Members)
	}
	return &out
}

// pads checks that every hint of padding was of use; what it says stands with the columns now.
func (n *inference) pads() {
	r := n.recipe
	for _, source := range slices.Sorted(maps.Keys(r.Pad)) {
		if !slices.ContainsFunc(r.Map, func(m Mapping) bool { return m.Pad != nil && m.key().String() == source }) {
			n.problem("pad: %q is no source of tensors", source)
		}
	}
	r.Pad = nil
}

// padded sets what fills up smaller values of a tensor, where the recipe hints at it.
func (n *inference) padded(m *Mapping) bool {
	x, ok := n.recipe.Pad[m.key().String()]
	if ok {
		m.Pad = &x
	}
	return ok
}

// renames checks what is to be renamed, and puts the names of columns where a recipe named their sources.
func (n *inference) renames() {
	r := n.recipe
	for _, from := range slices.Sorted(maps.Keys(r.Rename)) {
		column := n.named(from)
		if column == "" {
			n.problem("rename: there is no column %q", from)
		} else if column != from {
			r.Rename[column] = r.Rename[from]
			delete(r.Rename, from)
		}
	}
}

// named is the column of that name, or else the one that is read from the source of that name; empty if there is none.
func (n *inference) named(name string) string {
	r := n.recipe
	if r.find(name) != nil {
		return name
	}
	for i := range r.Map {
		if m := &r.Map[i]; name != "" && m.Source == name && m.Member == "" {
			return m.Name
		}
	}
	return ""
}

// before gives the name that a column has before it is renamed; recipes may name the source instead.
func (n *inference) before(name string) string {
	if column := n.named(name); column != "" {
		return column
	}
	for from, to := range n.recipe.Rename {
		if to == name && n.recipe.find(name) == nil {
			return from
		}
	}
	return name
}

// look is what one input shows.
type look struct {
	family  Family
	rows    int64
	objects []*object
	attrs   []string // of the root, which become no column
	format  format
	fields  []table.Field   // of a table
	weak    map[string]bool // sources of lists that look like arrays because there is one row
	misfit  error           // of a table, where the recipe is complete
}

// survey describes all inputs, several at once, and merges them in their order. It sets the recipe's family and gives the
// inputs that are not bad, and how many objects they hold.
func survey(ctx context.Context, inputs []Input, r *Recipe, given bool, g *merger, tables *tableMerger, opt InspectOptions) (good []Input, rows int64, err error) {
	maps, cols := r.mappings(), r.Columns()
	workers := opt.Workers
	if workers < 1 {
		workers = runtime.GOMAXPROCS(0)
	}
	firstFamily := ""
	var firstFormat format
	var misfits []error
	for lo := 0; lo < len(inputs); lo += inspectBlock {
		block := inputs[lo:min(len(inputs), lo+inspectBlock)]
		looks := make([]*look, len(block))
		errs := make([]error, len(block))
		jobs := make(chan int)
		var wg sync.WaitGroup
		for range min(workers, len(block)) {
			wg.Go(func() {
				for i := range jobs {
					if errs[i] = ctx.Err(); errs[i] == nil {
						looks[i], errs[i] = lookInto(ctx, block[i], r, given)
					}
				}
			})
		}
		for i := range block {
			jobs <- i
		}
		close(jobs)
		wg.Wait()
		for i, l := range looks {
			if errs[i] != nil {
				if opt.leaveOut(ctx, block[i], errs[i]) {
					continue
				}
				return nil, 0, errs[i]
			}
			good = append(good, block[i])
			switch {
			case r.Family == "":
				r.Family = l.family
				firstFamily = block[i].Path
			case l.family != r.Family && firstFamily != "":
				return nil, 0, fmt.Errorf("%w: %s is of family %s and %s of %s; import them apart, or decide with the line \"family: %s\" in a recipe", ErrMapping, firstFamily, r.Family, block[i].Path, l.family, r.Family)
			}
			switch {
			case firstFormat == "":
				firstFormat = l.format
			case l.format != firstFormat && !given:
				return nil, 0, fmt.Errorf("%w: %s is %s and %s is %s; import them apart (files of several formats fit a complete recipe only)", ErrMapping, good[0].Path, firstFormat, block[i].Path, l.format)
			}
			rows += l.rows
			if g.attrs == nil && len(l.attrs) > 0 {
				g.attrs, g.attrsWhere = l.attrs, block[i].Path
			}
			if l.fields != nil {
				tables.add(block[i].Path, l.fields, l.weak)
			}
			if l.misfit != nil && len(misfits) < maxProblemText {
				misfits = append(misfits, l.misfit)
			}
			for _, o := range l.objects {
				if !given {
					g.add(o)
				} else if _, err := bind(o, r, maps, cols); err != nil && len(misfits) < maxProblemText {
					misfits = append(misfits, err)
				}
			}
		}
		if opt.Progress != nil {
			opt.Progress(lo+len(block), len(inputs))
		}
	}
	return good, rows, errors.Join(misfits...)
}

// lookInto describes one input.
func lookInto(ctx context.Context, in Input, r *Recipe, given bool) (*look, error) {
	is, err := formatOf(in.Path)
	if err != nil {
		return nil, err
	}
	if is != formatHDF5 {
		return lookIntoTable(ctx, in, is, r, given)
	}
	if r.Family.tabular() {
		return nil, fmt.Errorf("%w: %s is %s, which is never of family %s; import it apart", ErrMapping, in.Path, is, r.Family)
	}
	f, err := hdf5.Open(in.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	defer f.Close()
	root, err := f.Root()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	mine := *r
	if mine.Family == "" {
		if mine.Family, err = detect(root, in.Path, r); err != nil {
			return nil, err
		}
	}
	l := &look{family: mine.Family, rows: 1, format: formatHDF5}
	attrs, err := root.Attrs()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	for _, a := range attrs {
		l.attrs = append(l.attrs, a.Name)
	}
	if mine.Family != Grouped {
		o, err := describe(root, in.Path, &mine)
		if err != nil {
			return nil, err
		}
		l.rows = o.rows
		l.objects = []*object{o}
		return l, nil
	}
	b := base{in: in, file: f, recipe: &mine}
	sets, groups, err := children(root, r)
	if err != nil {
		return nil, err
	}
	if len(sets) > 0 || len(groups) == 0 {
		return nil, fmt.Errorf("%w: %s: a file of family %s holds groups and no datasets at its root (here %d and %d)", ErrMapping, in.Path, Grouped, len(groups), len(sets))
	}
	o := &objects{base: b, root: root, names: groups}
	l.rows = int64(len(groups))
	for _, i := range spread(len(groups), groupsLooked) {
		d, err := o.describe(int64(i))
		if err != nil {
			return nil, err
		}
		l.objects = append(l.objects, d)
	}
	return l, nil
}

// lookIntoTable describes an input that is read as a table.
func lookIntoTable(ctx context.Context, in Input, is format, r *Recipe, given bool) (_ *look, err error) {
	if r.Family != "" && !r.Family.tabular() {
		return nil, fmt.Errorf("%w: %s is %s, which is never of family %s; import it apart", ErrMapping, in.Path, is, r.Family)
	}
	t, family, err := openTable(ctx, in, is, r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	l := &look{family: family, rows: t.Rows(), format: is}
	if !given {
		l.fields = slices.Clone(kept(r, t.Fields()))
		return l, l.single(ctx, t, r)
	}
	b := base{in: in, recipe: r, maps: r.mappings(), cols: r.Columns(), opt: options{slab: 1}}
	_, l.misfit = b.openTable(keptOpen{t})
	return l, nil
}

// single finds the lengths of the lists of a table of one row. By itself a row does not tell a list from an array of fixed
// shape; beside other inputs it does.
func (l *look) single(ctx context.Context, t table.Table, r *Recipe) error {
	if t.Rows() != 1 {
		return nil
	}
	for i, f := range t.Fields() {
		if f.Err != nil || f.Column.Kind != catalog.List || f.Column.DType == catalog.String || f.Column.DType.Complex() || r.lists()[f.Source] {
			continue
		}
		v, err := t.Read(ctx, 0, 1, []table.Request{{Field: i, Fill: []any{0.0}}})
		if err != nil || v[0].Null(0) || v[0].Offsets[1] == v[0].Offsets[0] {
			continue // it stays a list, and is judged when it is read
		}
		if k := slices.IndexFunc(l.fields, func(x table.Field) bool { return x.Source == f.Source }); k >= 0 {
			l.fields[k].Column.Kind, l.fields[k].Column.Shape = catalog.Tensor, []int{int(v[0].Offsets[1] - v[0].Offsets[0])}
			if l.weak == nil {
				l.weak = map[string]bool{}
			}
			l.weak[f.Source] = true
		}
	}
	return nil
}

// keptOpen is a table that another closes.
type keptOpen struct{ table.Table }

func (keptOpen) Close() error { return nil }

// spread gives at most k of the numbers 0 to n-1, evenly, the first and the last among them.
func spread(n, k int) []int {
	if n <= k {
		k = n
	}
	out := make([]int, k)
	for i := range out {
		if k > 1 {
			out[i] = int(int64(i) * int64(n-1) / int64(k-1))
		}
	}
	return out
}

// split adds the published split where every input tells one.
func (n *inference) split(inputs []Input) {
	with, without := "", ""
	for _, in := range inputs {
		if in.Split != "" && with == "" {
			with = in.Path
		}
		if in.Split == "" && without == "" {
			without = in.Path
		}
	}
	switch {
	case with == "":
	case n.recipe.find("split") != nil || n.recipe.drops(fieldKey{path: "split"}):
	case without != "":
		n.warn(WarnSplit, "split", without, "%s tells a published split and this input does not, so there is no column for it", with)
	default:
		n.recipe.Map = append(n.recipe.Map, Mapping{Name: "split", From: FromSplit, Kind: catalog.Scalar, DType: catalog.String, Note: "published split, told by the names of files or folders"})
	}
}

// notes writes down why, for the comment at the top of the recipe and beside id and positions.
func (n *inference) notes(inputs int, rows int64, given bool) {
	r := n.recipe
	if given {
		return
	}
	why := map[Family]string{
		Columnar:  "axis 0 of every dataset is the object",
		OneObject: "one object a file",
		Grouped:   "one group an object",
		Table:     "one row an object",
		Image:     "one file an object, its images and their header",
	}
	r.Notes = append(r.Notes, fmt.Sprintf("Inferred from %d files, %d objects; family %s: %s.", inputs, rows, r.Family, why[r.Family]),
		"Every source in the files has to be in a column or in drop.")
	for _, w := range n.warnings {
		w.File = "" // a recipe is published; where its inputs lay is not
		r.Notes = append(r.Notes, "look at "+w.String())
	}
	for i := range r.Map {
		if m := &r.Map[i]; m.Note == "" {
			m.Note = m.why()
		}
	}
	for _, x := range [][2]string{{r.ID, "the id"}, {r.RA, "right ascension in degrees"}, {r.Dec, "declination in degrees"}} {
		if m := r.find(x[0]); m != nil {
			if m.Note != "" {
				m.Note = "; " + m.Note
			}
			m.Note = x[1] + m.Note
		}
	}
}

// why says what made a column what it is, where nothing special did.
func (m *Mapping) why() string {
	switch m.Kind {
	case catalog.Tensor:
		return fmt.Sprintf("shape %v in every row of every input", m.Shape)
	case catalog.List:
		return "of varying length"
	case catalog.Struct:
		return "lists that belong together"
	}
	if m.Nullable {
		return "one value a row, or none"
	}
	return "one value a row"
}
