package release

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"

	"astropile/internal/catalog"
	"astropile/internal/survey"
)

// Records gives the rows of one input, in the columns of its Survey. It is used by one goroutine at a time.
type Records interface {
	Rows() int64
	// Read gives rows [lo, hi). The batch is the caller's: the next call does not change it.
	Read(ctx context.Context, lo, hi int64) (*catalog.Batch, error)
	// Slab is a good number of rows to read at once.
	Slab() int64
	Close() error
}

// Input is one file, or something like it, that rows come from.
type Input struct {
	Rel   string // its name, the same on every machine; rows with equal place and id are sorted by it
	Path  string // the file whose bytes are hashed; empty where there is none
	Bytes int64
	// Open starts reading with at most so many goroutines; slab is about how many bytes of rows are wanted at once.
	Open func(ctx context.Context, workers int, slab int64) (Records, error)
}

// Survey is what an import reads.
type Survey struct {
	Columns     []catalog.Column // layout may be set to ask for it; codecs are chosen
	ID, RA, Dec string           // RA and Dec are empty without positions
	RawID       string           // column of text that keeps the id as the input has it; empty where none does
	Inputs      []Input
	Recipe      []byte   // kept with the release, and taken by the next import; may be nil
	Skipped     []string // inputs that were left out as damaged before the import
}

// FilesOptions say how survey files are taken.
type FilesOptions struct {
	Recipe   *survey.Recipe // nil: the one that the root's last release keeps, and for a first release an inferred one
	SkipBad  bool           // leave damaged files out and list them
	Progress Progress
}

// FromFiles is the survey in files; sources are files or folders. The error wraps ErrRefused where columns or
// positions do not fit, ErrDamaged where a file does not decode.
func FromFiles(ctx context.Context, dir string, sources []string, opt FilesOptions) (*Survey, []survey.Warning, error) {
	inputs, passed, err := survey.DiscoverAll(sources)
	if err != nil {
		return nil, nil, err
	}
	recipe := opt.Recipe
	if recipe == nil {
		if recipe, err = keptRecipe(dir); err != nil {
			return nil, nil, err
		}
	}
	s := &Survey{}
	bad := map[string]bool{}
	inspect := survey.InspectOptions{Recipe: recipe}
	if opt.Progress != nil {
		inspect.Progress = func(done, total int) { opt.Progress("inspect files", int64(done), int64(total)) }
	}
	if opt.SkipBad {
		inspect.Bad = func(in survey.Input, err error) bool {
			bad[in.Rel] = true
			s.Skipped = append(s.Skipped, fmt.Sprintf("%s: %v", in.Rel, err))
			return true
		}
	}
	r, warnings, err := survey.InspectInputs(ctx, inputs, inspect)
	warnings = append(passed, warnings...)
	if err != nil {
		return nil, warnings, graded(err)
	}
	if s.Recipe, err = r.Marshal(); err != nil {
		return nil, warnings, err
	}
	s.Columns, s.ID, s.RA, s.Dec = r.Columns(), r.ID, r.RA, r.Dec
	s.RawID = r.RawID()
	for _, in := range inputs {
		if bad[in.Rel] {
			continue
		}
		s.Inputs = append(s.Inputs, Input{Rel: in.Rel, Path: in.Path, Bytes: in.Bytes, Open: func(ctx context.Context, workers int, slab int64) (Records, error) {
			return survey.Open(ctx, in, r, survey.Workers(workers), survey.SlabBytes(slab))
		}})
	}
	return s, warnings, nil
}

const recipeFile = "recipe.yaml"

func keptRecipe(dir string) (*survey.Recipe, error) {
	r, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	p, err := r.latest()
	if err != nil || p == nil {
		return nil, err
	}
	d := releaseDir(p.release)
	if _, ok := p.release.Files["meta/"+recipeFile]; !ok {
		return nil, nil
	}
	b, err := r.document(d, "meta/"+recipeFile, p.release)
	if err != nil {
		return nil, err
	}
	return survey.LoadRecipe(b)
}

// hashFile is the SHA-256 of a file's bytes.
func hashFile(ctx context.Context, p string) (sum [32]byte, n int64, err error) {
	f, err := os.Open(p)
	if err != nil {
		return sum, 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return sum, 0, err
	}
	h := sha256.New()
	buf := make([]byte, max(512, min(1<<20, st.Size()+1))) // a survey may be of very many small files
	for {
		if err := ctx.Err(); err != nil {
			return sum, n, err
		}
		k, err := f.Read(buf)
		h.Write(buf[:k])
		n += int64(k)
		if errors.Is(err, io.EOF) {
			return [32]byte(h.Sum(nil)), n, nil
		}
		if err != nil {
			return sum, n, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
}

// releaseDir is a release's folder relative to the root.
func releaseDir(r *catalog.Release) string {
	return path.Join(r.Dataset.Name, "releases", strconv.Itoa(r.Number))
}
