package query

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/zeebo/xxh3"

	"astropile/internal/catalog"
)

// Selection says which rows of a release are wanted; what is left at its zero value does not restrict. Every part that is
// set restricts further; Limit comes last.
type Selection struct {
	Where  string   `json:"where,omitempty"`
	Region *Region  `json:"region,omitempty"`
	IDs    []string `json:"ids,omitempty"` // integers in decimal
	// Split is the name of a split: a value of the dataset's column "split", or without one a share of Splits (of
	// DefaultSplits, where that is empty), drawn for each id by Key.
	Split  string  `json:"split,omitempty"`
	Splits []Share `json:"splits,omitempty"`
	// Sample keeps this share of the rows, drawn for each id by Key; 0 keeps all.
	Sample float64 `json:"sample,omitempty"`
	Key    uint64  `json:"key,omitempty"`
	Limit  int64   `json:"limit,omitempty"` // the first so many, in the order of the release; 0 keeps all
}

// Share is a part of a dataset that is drawn by id.
type Share struct {
	Name     string  `json:"name"`
	Fraction float64 `json:"fraction"`
}

// DefaultSplits are the shares of a dataset that publishes no splits.
func DefaultSplits() []Share { return []Share{{"train", 0.8}, {"val", 0.1}, {"test", 0.1}} }

// splitColumn holds published splits.
const splitColumn = "split"

// maxIDs bounds a list of ids.
const maxIDs = 1 << 26

// Empty says whether the selection takes every row.
func (s *Selection) Empty() bool {
	return s.Where == "" && s.Region == nil && s.IDs == nil && s.Split == "" && s.Sample == 0 && s.Limit == 0
}

// plan is a selection that was checked against a dataset.
type plan struct {
	columns []catalog.Column // that are read
	where   predicate
	region  *compiled
	ra, dec int // columns, where the region needs them
	hpx     int
	id      int
	ids     map[string]int32 // number of each id that is wanted
	split   func(id []byte) bool
	sample  func(id []byte) bool
	limit   int64
}

// healpixColumn is the pixel of every row, order 29.
const healpixColumn = "_healpix_29"

// check makes a plan. The error is ErrQuery; nothing is read.
func (s *Selection) check(ds *catalog.Dataset) (*plan, error) {
	p := &plan{id: -1, ra: -1, dec: -1, hpx: -1, limit: s.Limit}
	var parts []predicate
	if s.Where != "" {
		w, err := ParseWhere(s.Where, ds.Columns)
		if err != nil {
			return nil, err
		}
		p.columns = w.Columns
		parts = append(parts, w.root)
	}
	need := func(name string) (int, error) {
		i := slices.IndexFunc(p.columns, func(c catalog.Column) bool { return c.Name == name })
		if i >= 0 {
			return i, nil
		}
		c := ds.Column(name)
		if c == nil || c.Kind != catalog.Scalar {
			return 0, fmt.Errorf("%w: the dataset has no scalar column %q", ErrQuery, name)
		}
		p.columns = append(p.columns, *c)
		return len(p.columns) - 1, nil
	}
	var err error
	if s.Region != nil {
		if !ds.HasSky() {
			return nil, fmt.Errorf("%w: a region, and the dataset has no positions", ErrQuery)
		}
		if p.region, err = s.Region.compile(); err != nil {
			return nil, err
		}
		if p.region.cover != nil {
			if p.hpx, err = need(healpixColumn); err != nil {
				return nil, err
			}
		}
		if p.region.inside != nil {
			if p.ra, err = need(ds.RA); err != nil {
				return nil, err
			}
			if p.dec, err = need(ds.Dec); err != nil {
				return nil, err
			}
		}
	}
	if s.Split != "" {
		part, draw, err := s.splitOf(ds)
		if err != nil {
			return nil, err
		}
		if part != "" {
			i, err := need(part)
			if err != nil {
				return nil, err
			}
			parts = append(parts, compareText(i, eq, s.Split))
		}
		p.split = draw
	} else if len(s.Splits) > 0 {
		return nil, fmt.Errorf("%w: shares of splits are given and no split", ErrQuery)
	}
	if s.Sample != 0 {
		if !(s.Sample > 0 && s.Sample <= 1) {
			return nil, fmt.Errorf("%w: sample=%v has to be above 0 and at most 1", ErrQuery, s.Sample)
		}
		p.sample = drawn("sample", s.Key, 0, s.Sample)
	}
	if s.Limit < 0 {
		return nil, fmt.Errorf("%w: limit=%d", ErrQuery, s.Limit)
	}
	if s.IDs != nil {
		if len(s.IDs) > maxIDs {
			return nil, fmt.Errorf("%w: %d ids, at most %d", ErrQuery, len(s.IDs), maxIDs)
		}
		p.ids = make(map[string]int32, len(s.IDs))
		for _, id := range s.IDs {
			if _, ok := p.ids[id]; !ok {
				p.ids[id] = int32(len(p.ids))
			}
		}
	}
	if p.ids != nil || p.split != nil || p.sample != nil {
		if p.id, err = need(ds.ID); err != nil {
			return nil, err
		}
	}
	switch len(parts) {
	case 0:
		p.where = all{}
	case 1:
		p.where = parts[0]
	default:
		p.where = and{parts}
	}
	return p, nil
}

// splitOf finds out whether a split is published, and is then named by a column, or drawn.
func (s *Selection) splitOf(ds *catalog.Dataset) (column string, draw func([]byte) bool, err error) {
	if c := ds.Column(splitColumn); c != nil && c.Kind == catalog.Scalar && c.DType == catalog.String {
		if len(s.Splits) > 0 {
			return "", nil, fmt.Errorf("%w: the dataset publishes its splits (column %q); shares are for datasets that do not: use where, or another sample", ErrQuery, splitColumn)
		}
		return splitColumn, nil, nil
	}
	shares := s.Splits
	if len(shares) == 0 {
		shares = DefaultSplits()
	}
	sum := 0.0
	seen := map[string]bool{}
	var names []string
	for _, x := range shares {
		if !(x.Fraction > 0) || x.Name == "" || seen[x.Name] {
			return "", nil, fmt.Errorf("%w: split %q has a share of %v; names differ and shares are above 0", ErrQuery, x.Name, x.Fraction)
		}
		seen[x.Name] = true
		names = append(names, x.Name)
		if x.Name == s.Split {
			draw = drawn("split", s.Key, sum, sum+x.Fraction)
		}
		sum += x.Fraction
	}
	if sum > 1+1e-9 {
		return "", nil, fmt.Errorf("%w: the shares of the splits sum to %v, which is more than 1", ErrQuery, sum)
	}
	if draw == nil {
		return "", nil, fmt.Errorf("%w: there is no split %q among %v", ErrQuery, s.Split, names)
	}
	return "", draw, nil
}

// drawn is whether an id falls into a share [lo, hi) of the unit interval: its place there is the 64-bit XXH3 of the
// purpose, a NUL and the id's text, seeded with key, over 2^64.
func drawn(purpose string, key uint64, lo, hi float64) func(id []byte) bool {
	bound := func(f float64) (uint64, bool) {
		if f >= 1-1e-12 {
			return 0, true
		}
		return uint64(math.Round(f * (1 << 63) * 2)), false
	}
	from, _ := bound(lo)
	to, end := bound(hi)
	prefix := append([]byte(purpose), 0)
	return func(id []byte) bool {
		var buf [256]byte
		h := xxh3.HashSeed(append(append(buf[:0], prefix...), id...), key)
		return h >= from && (end || h < to)
	}
}

// canonicalKey names a selection of a release: equal text for what is asked the same way.
func (s *Selection) canonicalKey(releaseID string) (string, error) {
	c := *s
	if c.IDs != nil {
		c.IDs = slices.Compact(slices.Sorted(slices.Values(c.IDs)))
	}
	if c.Region != nil && c.Region.Pixels != nil {
		r := *c.Region
		r.Pixels = &Pixels{r.Pixels.Order, sortPixels(r.Pixels.Pix)}
		c.Region = &r
	}
	b, err := json.Marshal(struct {
		Version   int       `json:"version"`
		Release   string    `json:"release"`
		Selection Selection `json:"selection"`
	}{1, releaseID, c})
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrQuery, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
