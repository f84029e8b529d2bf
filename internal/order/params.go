package order

import (
	"encoding"
	"errors"
	"fmt"
	"math/bits"
)

// Version names what this package computes. A state of another version is refused.
const Version = 1

// Mode says how rows are shuffled.
type Mode uint8

const (
	// ShuffleBlocks permutes blocks of neighbouring rows, then rows within windows of each lane: the default.
	ShuffleBlocks Mode = iota
	// ShuffleRows permutes single rows: uniform, and every row is a read of its own.
	ShuffleRows
	// ShuffleOff keeps the order of the release: contiguous rows.
	ShuffleOff
)

var modeNames = [...]string{ShuffleBlocks: "blocks", ShuffleRows: "rows", ShuffleOff: "off"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

var (
	_ encoding.TextMarshaler   = Mode(0)
	_ encoding.TextUnmarshaler = (*Mode)(nil)
)

// MarshalText gives "blocks", "rows" or "off".
func (m Mode) MarshalText() ([]byte, error) {
	if int(m) >= len(modeNames) {
		return nil, fmt.Errorf("%w: shuffle mode %d", ErrParams, uint8(m))
	}
	return []byte(modeNames[m]), nil
}

// UnmarshalText takes "blocks", "rows" or "off"; anything else is ErrParams.
func (m *Mode) UnmarshalText(text []byte) error {
	for i, name := range modeNames {
		if name == string(text) {
			*m = Mode(i)
			return nil
		}
	}
	return fmt.Errorf("%w: shuffle %q is none of blocks, rows, off", ErrParams, text)
}

// ErrParams is returned, wrapped, for numbers that define no order.
var ErrParams = errors.New("invalid order")

// Params are the numbers beside the rows that an order is a function of.
type Params struct {
	Lanes   uint64 // L: position p stands in lane p mod L; what divides L is a good number of ranks
	Window  uint64 // K: rows of a lane that are permuted among themselves
	Block   uint64 // n: neighbouring rows that stay together until the window
	Seed    uint64
	Shuffle Mode
}

const (
	// DefaultLanes is 2^6*3*5: 28 divisors, all usual node sizes among them.
	DefaultLanes = 960

	maxLanes    = 1 << 20
	maxParam    = 1 << 31 // of K and n
	maxRows     = 1 << 56
	blockBytes  = 1 << 20
	blockRows   = 256
	lanesBlocks = 64 // blocks a lane holds at least, before blocks are made smaller
)

// Defaults returns the parameters for a selection of rows of a release that stores storedBytes, all columns, for all its rows. It depends on nothing
// that a later run could change. Blocks are about 1 MiB, and smaller where a small set would leave a lane fewer than 64 of them; the smallest sets become uniform by row.
// Where only scalars are read, a block is rowsPerGroup, the rows of a row group of 4 MiB, as long as every lane holds at least one such block.
func Defaults(rows, all, storedBytes uint64, scalarOnly bool, rowsPerGroup uint64) Params {
	spread := rows / (lanesBlocks * DefaultLanes)
	if scalarOnly {
		n := min(max(rowsPerGroup, 1), maxParam)
		if rows/DefaultLanes < n {
			n = max(1, min(n, spread))
		}
		return Params{Lanes: DefaultLanes, Window: n, Block: n}
	}
	n := min(blockRows, spread)
	if hi, lo := bits.Mul64(blockBytes, all); storedBytes > 0 && hi < storedBytes {
		fit, _ := bits.Div64(hi, lo, storedBytes)
		n = min(n, fit)
	}
	n = max(n, 1)
	return Params{Lanes: DefaultLanes, Window: 4 * n, Block: n}
}

// With returns the parameters of another mode: one lane and no blocks when off, blocks of one row when by rows. The mode ShuffleBlocks leaves the numbers as they are.
func (p Params) With(mode Mode) Params {
	p.Shuffle = mode
	switch mode {
	case ShuffleOff:
		p.Lanes, p.Window, p.Block = 1, 1, 1
	case ShuffleRows:
		p.Window, p.Block = 4, 1
	}
	return p
}

func (p Params) check() error {
	for _, v := range []struct {
		name       string
		value, max uint64
	}{{"lanes", p.Lanes, maxLanes}, {"window", p.Window, maxParam}, {"block", p.Block, maxParam}} {
		if v.value < 1 || v.value > v.max {
			return fmt.Errorf("%w: %s is %d, must be 1 to %d", ErrParams, v.name, v.value, v.max)
		}
	}
	switch {
	case int(p.Shuffle) >= len(modeNames):
		return fmt.Errorf("%w: shuffle mode %d", ErrParams, uint8(p.Shuffle))
	case p.Shuffle == ShuffleOff && (p.Lanes != 1 || p.Window != 1 || p.Block != 1):
		return fmt.Errorf("%w: without shuffling, lanes, window and block are 1, not %d, %d, %d", ErrParams, p.Lanes, p.Window, p.Block)
	case p.Shuffle == ShuffleRows && p.Block != 1:
		return fmt.Errorf("%w: shuffling rows, block is 1, not %d", ErrParams, p.Block)
	}
	return nil
}
