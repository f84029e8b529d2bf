package order

import (
	"errors"
	"fmt"
)

// ErrDeal is returned, wrapped, for ranks and batches that cannot be dealt.
var ErrDeal = errors.New("invalid ranks or batch")

// Deal says how the rows of a step are divided: World ranks, Batch rows each. It never changes which rows a step has.
type Deal struct {
	Rank, World int
	Batch       int
	DropLast    bool // leave out the step that would not be full, instead of filling it up
}

// Place is a position dealt to a rank. Where Valid is false the epoch ended before, and Position is one of its first again, there only to
// make the batches of all ranks equally long.
type Place struct {
	Position uint64
	Valid    bool
}

// maxStep bounds the rows of a step, all ranks together.
const maxStep = 1 << 32

// Check returns ErrDeal for a rank outside [0, World), or a batch or step that is empty or too large.
func (d Deal) Check() error {
	switch {
	case d.World < 1 || d.Rank < 0 || d.Rank >= d.World:
		return fmt.Errorf("%w: rank %d of %d", ErrDeal, d.Rank, d.World)
	case d.Batch < 1:
		return fmt.Errorf("%w: a batch of %d rows", ErrDeal, d.Batch)
	case d.Batch > maxStep/d.World:
		return fmt.Errorf("%w: %d ranks of %d rows are more than %d rows a step", ErrDeal, d.World, d.Batch, uint64(maxStep))
	}
	return nil
}

// Global returns the rows of a step, all ranks together.
func (d Deal) Global() uint64 { return uint64(d.World) * uint64(d.Batch) }

// Steps returns how many steps are left of an epoch of so many rows from a position on. It is the same for every rank.
func (d Deal) Steps(rows, position uint64) uint64 {
	if position >= rows {
		return 0
	}
	left, g := rows-position, d.Global()
	if d.DropLast {
		return left / g
	}
	return (left-1)/g + 1
}

// Step appends to dst what the rank reads in the step that begins at a position, Batch places in the order of the batch, and returns the position at which the next
// step begins: at most rows. When no step is left it appends nothing and returns rows: the epoch is over, and the next begins at position 0.
func (d Deal) Step(dst []Place, lanes, rows, position uint64) (places []Place, next uint64) {
	if d.Steps(rows, position) == 0 {
		return dst, rows
	}
	walk := func(p uint64) {
		if p < rows {
			dst = append(dst, Place{p, true})
			return
		}
		dst = append(dst, Place{p % rows, false})
	}
	rankPositions(walk, lanes, position, uint64(d.Batch), uint64(d.Rank), uint64(d.World))
	return dst, min(rows, position+d.Global())
}

// RankPositions appends to dst the positions that a rank takes of a step [position, position+world*batch): first, in order, those of its own lanes, (p mod lanes) mod world == rank,
// up to batch of them; then its share of what overflowed from other ranks, dealt in order to the ranks that have room, from rank 0 on.
// Where world divides lanes nothing overflows.
func RankPositions(dst []uint64, lanes, position, batch, rank, world uint64) []uint64 {
	rankPositions(func(p uint64) { dst = append(dst, p) }, lanes, position, batch, rank, world)
	return dst
}

func rankPositions(yield func(p uint64), lanes, position, batch, rank, world uint64) {
	end := position + batch*world
	if lanes%world == 0 {
		for p := position + (rank+world-position%world)%world; p < end; p += world {
			yield(p)
		}
		return
	}
	held := make([]uint64, world)
	lane := position % lanes
	owner := lane % world
	step := func() {
		lane++
		owner++
		if lane == lanes {
			lane, owner = 0, 0
		} else if owner == world {
			owner = 0
		}
	}
	for p := position; p < end; p++ {
		if held[owner] < batch {
			held[owner]++
			if owner == rank {
				yield(p)
			}
		}
		step()
	}
	// skip is how much of the overflow goes to ranks before this one, take how much comes here.
	var skip uint64
	for r := range rank {
		skip += batch - held[r]
	}
	take := batch - held[rank]
	if take == 0 {
		return
	}
	clear(held)
	lane = position % lanes
	owner = lane % world
	for p := position; p < end; p++ {
		switch {
		case held[owner] < batch:
			held[owner]++
		case skip > 0:
			skip--
		default:
			yield(p)
			if take--; take == 0 {
				return
			}
		}
		step()
	}
}
