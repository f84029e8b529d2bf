package query

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sort"

	"golang.org/x/sys/unix"

	"astropile/internal/order"
)

// Rows are the selected rows of a release: a bit for every row, in the order of the manifest. They never change.
type Rows struct {
	words  []uint64
	starts []int64  // first row of each shard, and all rows at the end
	before []uint64 // selected rows before each shard, and all at the end
	ranks  []uint64 // selected rows before each run of rankWords words
	mapped []byte   // the file that words are a view of, if any
}

// rankWords is the number of words that share an entry of ranks.
const rankWords = 8

// newRows counts what is selected; shard holds the rows of each shard.
func newRows(words []uint64, shard []int64) (*Rows, error) {
	r := &Rows{words: words, starts: make([]int64, len(shard)+1), before: make([]uint64, len(shard)+1)}
	for i, n := range shard {
		r.starts[i+1] = r.starts[i] + n
	}
	n := r.starts[len(shard)]
	if int64(len(words)) != (n+63)/64 {
		return nil, fmt.Errorf("query: a bitmap of %d words for %d rows", len(words), n)
	}
	if tail := n % 64; tail > 0 && words[len(words)-1]>>tail != 0 {
		return nil, fmt.Errorf("query: bits beyond row %d are set", n)
	}
	r.ranks = make([]uint64, len(words)/rankWords+1)
	total := uint64(0)
	for i, w := range words {
		if i%rankWords == 0 {
			r.ranks[i/rankWords] = total
		}
		total += uint64(bits.OnesCount64(w))
	}
	if len(words)%rankWords == 0 {
		r.ranks[len(words)/rankWords] = total
	}
	for i := range r.before {
		r.before[i] = r.rank(r.starts[i])
	}
	return r, nil
}

// Close lets go of memory that is shared with other processes; the rows are not to be used after it.
func (r *Rows) Close() error {
	b := r.mapped
	r.mapped, r.words = nil, nil
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}

// rank is the number of selected rows before a row.
func (r *Rows) rank(row int64) uint64 {
	w := row / 64
	n := r.ranks[w/rankWords]
	for i := w / rankWords * rankWords; i < w; i++ {
		n += uint64(bits.OnesCount64(r.words[i]))
	}
	if k := row % 64; k > 0 {
		n += uint64(bits.OnesCount64(r.words[w] & (1<<k - 1)))
	}
	return n
}

// Len is the number of selected rows.
func (r *Rows) Len() uint64 { return r.before[len(r.before)-1] }

// Counts is the number of selected rows of each shard, as package order takes them.
func (r *Rows) Counts() []uint64 {
	out := make([]uint64, len(r.before)-1)
	for i := range out {
		out[i] = r.before[i+1] - r.before[i]
	}
	return out
}

// Row is the row of a shard that its x-th selected row is, x below the shard's count.
func (r *Rows) Row(shard int, x uint64) int64 {
	if all := uint64(r.starts[shard+1] - r.starts[shard]); r.before[shard+1]-r.before[shard] == all {
		return int64(x)
	}
	return r.selected(r.before[shard]+x) - r.starts[shard]
}

// selected is the row that the k-th selected row is.
func (r *Rows) selected(k uint64) int64 {
	i := sort.Search(len(r.ranks), func(i int) bool { return r.ranks[i] > k }) - 1
	left := k - r.ranks[i]
	for w := i * rankWords; ; w++ {
		n := uint64(bits.OnesCount64(r.words[w]))
		if left < n {
			return int64(w)*64 + int64(nth(r.words[w], uint(left)))
		}
		left -= n
	}
}

// nth is the place of the k-th bit that is set.
func nth(w uint64, k uint) uint {
	at := uint(0)
	for width := uint(32); width > 0; width /= 2 {
		if n := uint(bits.OnesCount64(w & (1<<width - 1))); k >= n {
			k -= n
			w >>= width
			at += width
		}
	}
	return at
}

// Has says whether a row, counted over all shards, is selected.
func (r *Rows) Has(row int64) bool { return r.words[row/64]>>(row%64)&1 != 0 }

// Digest names what is selected, not how it was asked for; package order defines it.
func (r *Rows) Digest() string {
	return order.SelectionDigest(r.Counts(), func(shard int) []byte {
		lo, hi := r.starts[shard], r.starts[shard+1]
		if r.before[shard+1]-r.before[shard] == uint64(hi-lo) {
			return nil
		}
		out := make([]byte, 0, (hi-lo+63)/64*8)
		for at := lo; at < hi; at += 64 {
			w := r.words[at/64] >> (at % 64)
			if at%64 > 0 && at/64+1 < int64(len(r.words)) {
				w |= r.words[at/64+1] << (64 - at%64)
			}
			if left := hi - at; left < 64 {
				w &= 1<<left - 1
			}
			out = binary.LittleEndian.AppendUint64(out, w)
		}
		return out[:(hi-lo+7)/8]
	})
}
