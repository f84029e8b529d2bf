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
	// Read gives rows [lo, hi).
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
	// Open starts reading with at most so many goroutines.
	Open func(ctx context.Context, workers int) (Records, error)
}

// Survey is what an import reads.
type Survey struct {
	Columns     []catalog.Column // layout may be set to ask for it; codecs are chosen
	ID, RA, Dec string           // RA and Dec are empty without positions
	Inputs      []Input
	Recipe      []byte // kept with the release, and taken by the next import; may be nil
}

// FromFiles is the survey in HDF5 files: sources are files or folders. Without a recipe the one that the root's last
// release keeps is taken, and for a first release it is inferred.
func FromFiles(ctx context.Context, dir string, sources []string, recipe *survey.Recipe) (*Survey, []survey.Warning, error) {
	inputs, err := survey.Discover(sources)
	if err != nil {
		return nil, nil, err
	}
	if recipe == nil {
		if recipe, err = keptRecipe(dir); err != nil {
			return nil, nil, err
		}
	}
	r, warnings, err := survey.InspectInputs(ctx, inputs, survey.InspectOptions{Recipe: recipe})
	if err != nil {
		return nil, warnings, err
	}
	text, err := r.Marshal()
	if err != nil {
		return nil, warnings, err
	}
	s := &Survey{Columns: r.Columns(), ID: r.ID, RA: r.RA, Dec: r.Dec, Recipe: text}
	for _, in := range inputs {
		s.Inputs = append(s.Inputs, Input{Rel: in.Rel, Path: in.Path, Bytes: in.Bytes, Open: func(ctx context.Context, workers int) (Records, error) {
			return survey.Open(ctx, in, r, survey.Workers(workers))
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
	h := sha256.New()
	buf := make([]byte, 1<<20)
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
