package release

import (
	"fmt"
	"math"

	"astropile/internal/catalog"
	"astropile/internal/shard"
)

// budget divides the memory that an import may take. Its phases follow each other, so that each may have nearly all:
//
//	reading   a reader has what it decodes (its slab many times over: a chunk may be larger) and a block of records
//	sorting   a quarter for values to be sorted, as much for those of runs that are merged, a sixteenth for the table of rows
//	writing   that table, and for each shard at a time the rows of a row group as records and as columns, and what the writer has:
//	          the rows again where they vary, and two row groups encoded
//
// Beside it there are an entry an input, about half a kilobyte, a bit a row where ids occur twice, and what the language's runtime takes.
type budget struct {
	memory int64
	row    int64 // bytes of a row, as far as they are fixed
	slab   int64 // bytes that a reader gives at once
	block  int64 // bytes of records that are written at once
	sort   int64
	table  int64
}

const (
	memoryLeast  = 64 << 20
	rowTimes     = 5 // copies of a row that exist at once, at most
	slabMost     = 32 << 20
	slabShare    = 40 // of a reader's memory: a slab is up to 16 slabs where chunks are large, its bytes exist twice, and 8 slabs are kept
	blockMost    = 256 << 20
	windowMost   = 16 << 20
	windowLeast  = 1 << 20
	groupCopies  = 4 // of a row group's bytes while a shard is written
	sharedMemory = 16 << 20
)

func newBudget(memory int64, readers int, cols []catalog.Column) (*budget, error) {
	b := &budget{memory: memory}
	for i := range cols {
		b.row += int64(cols[i].RowBytes())
	}
	if need := max(memoryLeast, rowTimes*b.row+sharedMemory); memory < need {
		return nil, fmt.Errorf("%w: --memory %d bytes does not do for rows of %d bytes: at least %d (%d MiB)", ErrRefused, memory, b.row, need, (need+1<<20-1)>>20)
	}
	each := memory / int64(max(1, readers))
	b.slab = max(64<<10, min(slabMost, each/slabShare))
	b.block = min(blockMost, each/8)
	b.sort, b.table = memory/4, memory/16
	return b, nil
}

// readers is how many inputs can be read at once.
func readersFor(memory int64, jobs, inputs int, cols []catalog.Column) int {
	var row int64
	for i := range cols {
		row += int64(cols[i].RowBytes())
	}
	return int(max(1, min(int64(jobs), int64(inputs), memory/max(16<<20, rowTimes*row))))
}

// fits refuses a row that the budget cannot hold.
func (b *budget) fits(payload, length int64) error {
	n := max(payload, length)
	if n > math.MaxInt32 {
		return fmt.Errorf("the row takes %d bytes, at most %d", n, math.MaxInt32)
	}
	if need := rowTimes*n + sharedMemory; need > b.memory {
		return fmt.Errorf("the row takes %d bytes: import with --memory %dMiB or more", n, (need+1<<20-1)>>20)
	}
	return nil
}

// writers says how many shards can be written at once, and how many bytes of records each reads at once. largest is the payload of
// the largest shard, longest that of the longest row.
func (b *budget) writers(jobs int, largest, longest int64) (n int, window int64) {
	group := max(longest, min(largest, shard.GroupPayload))
	left := b.memory - b.table
	n = int(max(1, min(int64(jobs), left/(groupCopies*group+windowLeast))))
	window = left/int64(n) - groupCopies*group
	return n, max(windowLeast, min(windowMost, window))
}

// spare is what so many writers leave.
func (b *budget) spare(writers int, window, largest, longest int64) int64 {
	return b.memory - b.table - int64(writers)*(window+groupCopies*max(longest, min(largest, shard.GroupPayload)))
}

// columns is how many bytes of columns are held for the rows files.
func (b *budget) columns() int64 { return (b.memory - b.table) / 3 }
