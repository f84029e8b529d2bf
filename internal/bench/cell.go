package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// ErrCell marks a cell that cannot be measured as asked.
var ErrCell = errors.New("bench: cell cannot be measured")

// Options are common to all cells.
type Options struct {
	Root    string // of the dataset
	Column  string
	Threads int // that read
	Batch   int // rows of a batch
	Slots   int // batches in memory at once
	Seed    uint64
	Passes  int  // the last one counts
	Check   bool // digest all values in one pass that is not timed
}

// Result is what a cell prints. Sum and Digest are there with Options.Check; they do not depend on the order of rows.
type Result struct {
	Rows    int64     `json:"rows"`
	Bytes   int64     `json:"bytes"`   // of one pass: values delivered, or bytes read by a control
	GBs     float64   `json:"gbs"`     // 10^9 bytes a second, last pass
	Seconds []float64 `json:"seconds"` // of every pass
	Sum     *uint64   `json:"sum,omitempty"`
	Digest  *uint64   `json:"digest,omitempty"`
	Peak    int64     `json:"peak"` // peak resident bytes of the process

	// Of the codec's cell: rates of its two parts, in bytes of decoded values.
	ReadGBs   float64 `json:"read_gbs,omitempty"`
	DecodeGBs float64 `json:"decode_gbs,omitempty"`
	// Of the payload's cell.
	Payload int64 `json:"payload,omitempty"`
	Stored  int64 `json:"stored,omitempty"`
	// Of the shuffle's quality: over so many consecutive positions.
	H256   float64 `json:"h256,omitempty"`
	H1024  float64 `json:"h1024,omitempty"`
	H4096  float64 `json:"h4096,omitempty"`
	H16384 float64 `json:"h16384,omitempty"`
	// Of seeking.
	ManifestSeconds float64 `json:"manifest_s,omitempty"`
	SeekMS          float64 `json:"seek_ms,omitempty"`
}

func (o *Options) check() error {
	if o.Threads < 1 || o.Batch < 1 || o.Slots < 1 || o.Passes < 1 {
		return fmt.Errorf("%w: threads, batch, slots and passes are at least 1", ErrCell)
	}
	return nil
}

// passes runs one pass after another and keeps the time of each; pass gives rows and bytes.
func (o *Options) passes(pass func(k int) (rows, bytes int64, err error)) (*Result, error) {
	r := &Result{}
	n := o.Passes
	if o.Check {
		n = 1
	}
	for k := range n {
		start := time.Now()
		rows, bytes, err := pass(k)
		if err != nil {
			return nil, err
		}
		r.Rows, r.Bytes = rows, bytes
		r.Seconds = append(r.Seconds, time.Since(start).Seconds())
	}
	r.GBs = float64(r.Bytes) / r.Seconds[len(r.Seconds)-1] / 1e9
	var err error
	r.Peak, err = peak()
	return r, err
}

// peak is the peak resident size of this process in bytes.
func peak() (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("%w: /proc/self/status has no VmHWM", ErrCell)
}

// digest sums up values so that the order of rows does not matter.
type digest struct{ sum, rows uint64 }

func (d *digest) add(values []byte, rowBytes int) {
	for ; len(values) >= rowBytes; values = values[rowBytes:] {
		row := values[:rowBytes]
		d.rows += uint64(crc32.ChecksumIEEE(row))
		for ; len(row) >= 8; row = row[8:] {
			d.sum += binary.LittleEndian.Uint64(row)
		}
	}
}

func (d *digest) merge(e digest) { d.sum += e.sum; d.rows += e.rows }

func (d *digest) into(r *Result) { r.Sum, r.Digest = &d.sum, &d.rows }

// pageSize is that of every Linux system the project runs on by default; a larger page is a multiple of it and only
// costs a little.
const pageSize = 4096

// aligned is n bytes that start at a page boundary and were touched.
func aligned(n int) []byte {
	raw := make([]byte, n+pageSize)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(raw))) & (pageSize - 1))
	b := raw[skip : skip+n : skip+n]
	for i := 0; i < n; i += pageSize {
		b[i] = 1
	}
	return b
}

// parallel runs work(thread) on each of so many goroutines, waits for all, and gives the first error.
func parallel(ctx context.Context, threads int, work func(ctx context.Context, thread int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for t := range threads {
		wg.Go(func() {
			if err := work(ctx, t); err != nil {
				cancel(err) // the first one counts
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// Slabs measures a reader of rows in slabs of step rows, in order, by one goroutine. read fills dst with rows [lo, hi).
func Slabs(ctx context.Context, o Options, rows, step int64, rowBytes int, read func(ctx context.Context, lo, hi int64, dst []byte) error) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if rows < 1 || step < 1 || rowBytes < 1 || step > math.MaxInt32/int64(rowBytes) {
		return nil, fmt.Errorf("%w: %d rows of %d bytes in slabs of %d", ErrCell, rows, rowBytes, step)
	}
	buf := aligned(int(min(step, rows)) * rowBytes)
	var d digest
	r, err := o.passes(func(int) (int64, int64, error) {
		for lo := int64(0); lo < rows; lo += step {
			hi := min(lo+step, rows)
			dst := buf[:(hi-lo)*int64(rowBytes)]
			if err := read(ctx, lo, hi, dst); err != nil {
				return 0, 0, err
			}
			if o.Check {
				d.add(dst, rowBytes)
			}
		}
		return rows, rows * int64(rowBytes), nil
	})
	if err == nil && o.Check {
		d.into(r)
	}
	return r, err
}
