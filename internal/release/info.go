package release

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"astropile/internal/catalog"
	"astropile/internal/sky"
)

// ReleaseInfo is one release of a dataset for people.
type ReleaseInfo struct {
	Number  int    `json:"number"`
	ID      string `json:"id"`
	Time    string `json:"time"`
	Message string `json:"message"`
	Rows    int64  `json:"rows"`  // with those before
	Bytes   int64  `json:"bytes"` // with those before
}

// DatasetInfo describes a dataset.
type DatasetInfo struct {
	Root        string           `json:"root"`
	Name        string           `json:"name"`
	Rows        int64            `json:"rows"`
	Bytes       int64            `json:"bytes"`
	Shards      int              `json:"shards"`
	Pixels      int              `json:"pixels"`
	Orders      []int            `json:"orders"` // coarsest and finest HEALPix order; empty without positions
	SkyArea     float64          `json:"sky_area_deg2"`
	SkyFraction float64          `json:"sky_fraction"`
	ID          string           `json:"id_column"`
	RA          string           `json:"ra_column"`
	Dec         string           `json:"dec_column"`
	ShardSize   int64            `json:"shard_size"`
	Expect      int              `json:"expect"`
	Piece       int64            `json:"piece"`
	Digest      string           `json:"digest"`
	Licence     string           `json:"licence"`
	Citation    string           `json:"citation"`
	DOI         string           `json:"doi"`
	Columns     []catalog.Column `json:"columns"`
	Releases    []ReleaseInfo    `json:"releases"`
	Staged      int              `json:"staged"` // release that an import is staged for, or 0
	Interrupted *Interrupted     `json:"interrupted"`
	Margin      *FurtherInfo     `json:"margin,omitempty"`
	Index       *FurtherInfo     `json:"index,omitempty"`
}

// Interrupted is an import that did not come to its end.
type Interrupted struct {
	Release int `json:"release"` // that it was for
	Read    int `json:"read"`    // inputs
	Inputs  int `json:"inputs"`
}

// FurtherInfo describes the margin or the id index of a dataset, which its rows and bytes do not count.
type FurtherInfo struct {
	Name   string  `json:"name"`                    // its folder
	Radius float64 `json:"radius_arcsec,omitempty"` // of the margin
	Column string  `json:"column,omitempty"`        // of the index
	Pixels int     `json:"pixels,omitempty"`        // of the margin
	Rows   int64   `json:"rows"`
	Bytes  int64   `json:"bytes"`
	Shards int     `json:"shards"`
}

// furtherInfo adds up the shards of a role.
func furtherInfo(name, role string, shards []catalog.Shard) *FurtherInfo {
	out := &FurtherInfo{Name: name, Pixels: len(pixelsOf(shards, role))}
	for i := range shards {
		if s := &shards[i]; s.Role == role {
			out.Rows, out.Bytes, out.Shards = out.Rows+s.Rows, out.Bytes+s.Bytes, out.Shards+1
		}
	}
	return out
}

// Info describes the datasets at the paths given; a folder that is not a dataset stands for those in it.
func Info(ctx context.Context, paths []string) ([]DatasetInfo, error) {
	var out []DatasetInfo
	for _, p := range paths {
		one, err := info(p)
		if err == nil {
			out = append(out, *one)
			continue
		}
		if !errors.Is(err, ErrNothing) {
			return nil, err
		}
		entries, e := os.ReadDir(p)
		if e != nil {
			return nil, e
		}
		found := len(out)
		for _, d := range entries {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if !d.IsDir() {
				continue
			}
			one, e := info(filepath.Join(p, d.Name()))
			if errors.Is(e, ErrNothing) {
				continue
			}
			if e != nil {
				return nil, e
			}
			out = append(out, *one)
		}
		if len(out) == found {
			return nil, err
		}
	}
	return out, nil
}

func info(dir string) (*DatasetInfo, error) {
	r, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(r.dir); err != nil {
		return nil, err
	}
	p, err := r.latest()
	if err != nil {
		return nil, err
	}
	js, err := r.journals()
	if err != nil {
		return nil, err
	}
	if p == nil {
		for _, j := range js {
			switch j.State {
			case staged:
				return nil, fmt.Errorf("%w: %s has an import staged and no release yet: run `astropile release %s`", ErrNothing, dir, dir)
			case importing:
				return nil, fmt.Errorf("%w: in %s an import was interrupted when %d of %d inputs were read, and there is no release yet: run it again to go on", ErrNothing, dir, r.inputsRead(j.Release), j.Inputs)
			}
		}
		return nil, fmt.Errorf("%w: no release in %s", ErrNothing, dir)
	}
	d := &p.release.Dataset
	out := &DatasetInfo{Root: dir, Name: d.Name, Rows: p.release.Rows, Bytes: p.release.Bytes, Shards: furtherInfo(d.Name, catalog.Primary, p.manifest).Shards, ID: d.ID, RA: d.RA, Dec: d.Dec, ShardSize: d.ShardSize, Expect: d.Expect, Piece: d.Piece,
		Digest: d.Digest, Licence: d.Licence, Citation: d.Citation, DOI: d.DOI, Columns: d.Columns, Orders: []int{}}
	if d.Margin > 0 {
		out.Margin = furtherInfo(marginName(d.Name), catalog.Margin, p.manifest)
		out.Margin.Radius = float64(d.Margin) / 1000
	}
	if d.Index != "" {
		out.Index = furtherInfo(idsName(d.Name), catalog.IDs, p.manifest)
		out.Index.Column = d.Index
	}
	px := pixels(p.manifest)
	out.Pixels = len(px)
	for _, x := range px {
		o := int(x.order)
		if len(out.Orders) == 0 {
			out.Orders = []int{o, o}
		}
		out.Orders[0], out.Orders[1] = min(out.Orders[0], o), max(out.Orders[1], o)
	}
	if d.HasSky() {
		if out.SkyFraction, err = r.covered(p); err != nil {
			return nil, err
		}
		out.SkyArea = out.SkyFraction * float64(sky.Pixels(0)) * sky.Area(0)
	}
	past, err := r.history(d.Name, p.release.Number)
	if err != nil {
		return nil, err
	}
	for _, q := range past {
		out.Releases = append(out.Releases, ReleaseInfo{q.release.Number, q.id, q.release.Time, q.release.Message, q.release.Rows, q.release.Bytes})
	}
	for _, j := range js {
		switch j.State {
		case staged:
			out.Staged = j.Release
		case importing:
			out.Interrupted = &Interrupted{Release: j.Release, Read: r.inputsRead(j.Release), Inputs: j.Inputs}
		}
	}
	return out, nil
}

// covered is the share of the sky in the pixels of the sky map that hold rows.
func (r root) covered(p *published) (float64, error) {
	const word, block = 8, 2880 // of FITS
	b, err := r.document(releaseDir(p.release), "meta/skymap.fits", p.release)
	if err != nil {
		return 0, err
	}
	order := sky.MapOrder(p.release.Rows)
	n := sky.Pixels(order)
	start := int64(len(b)) - (n*word+block-1)/block*block
	if start < 0 {
		return 0, fmt.Errorf("%w: the sky map of release %d has %d bytes, too few for order %d", ErrDamaged, p.release.Number, len(b), order)
	}
	held := 0
	for i := range n {
		if binary.BigEndian.Uint64(b[start+i*word:]) > 0 {
			held++
		}
	}
	return float64(held) * sky.Fraction(order), nil
}
