package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
)

// ErrDigest marks bytes that are not those a digest or checksum was taken of.
var ErrDigest = errors.New("shard: bytes do not match their digest")

// maxUnitBytes bounds a unit of a shard that is verified: the largest page, and what may join it.
const maxUnitBytes = 2 * maxPageBytes

// Of units that are verified together: how many, and how many bytes where they are more than one.
const (
	verifyUnits = 2 * laneCount
	verifyBytes = 8 << 20
)

// Check is what Verify found a shard to be.
type Check struct {
	Rows       int64
	TailOffset int64
	TailDigest [32]byte
	Units      []Unit
	Pages      int // that were read; 0 where the check was not deep
}

// VerifyOptions say how much of a shard is checked.
type VerifyOptions struct {
	Deep bool
	// Sink, where the check is deep, is written every byte of the shard once and in order, so that whoever wants a digest of
	// the whole reads nothing twice. Its error ends the check.
	Sink io.Writer
}

// Verify checks a shard of ours by what it says of itself: the footer, that units cover the data without a gap, that
// zeros stand between them and the tail; deep, the digest of every unit, the checksum of every page, and that the offset
// indexes name pages that are there. Whether the shard is the one that was published is for the caller, who compares
// TailDigest with the manifest. But for footer and offset indexes no byte is read twice. Errors wrap ErrFormat or ErrDigest
// and say where.
func Verify(ctx context.Context, r io.ReaderAt, size int64, opt VerifyOptions) (*Check, error) {
	d, err := Open(ctx, r, size, OpenOptions{Own: true})
	if err != nil {
		return nil, err
	}
	c := &Check{Rows: d.Rows()}
	digestName, _ := d.meta.Value(KeyDigest)
	digest, err := DigestFunc(digestName)
	if err != nil {
		return nil, err
	}
	each, err := digestEach(digestName)
	if err != nil {
		return nil, err
	}
	if c.TailOffset, err = d.tailStart(); err != nil {
		return nil, err
	}
	if size-c.TailOffset > MaxFooter+int64(len(d.meta.RowGroups)+1)*MaxOffsetIndex {
		return nil, fmt.Errorf("%w: a tail of %d bytes", ErrFormat, size-c.TailOffset)
	}
	tail := make([]byte, size-c.TailOffset)
	if err := d.readAt(tail, c.TailOffset); err != nil {
		return nil, err
	}
	c.TailDigest = digest(tail)
	table, ok := d.meta.Value(KeyUnits)
	if !ok {
		return nil, fmt.Errorf("%w: the footer has no table of units (%s)", ErrFormat, KeyUnits)
	}
	if c.Units, err = DecodeUnits(table, c.TailOffset); err != nil {
		return nil, err
	}
	end := c.Units[len(c.Units)-1].End
	if !opt.Deep {
		return c, d.zeros(ctx, end, c.TailOffset, io.Discard)
	}
	sink := opt.Sink
	if sink == nil {
		sink = io.Discard
	}
	pages, err := d.walkUnits(ctx, c.Units, each, sink)
	if err != nil {
		return nil, err
	}
	c.Pages = len(pages)
	if err := d.zeros(ctx, end, c.TailOffset, sink); err != nil {
		return nil, err
	}
	if _, err := sink.Write(tail); err != nil {
		return nil, err
	}
	return c, d.indexed(pages)
}

// tailStart is where the first offset index stands.
func (d *Reader) tailStart() (int64, error) {
	at := d.size
	for g := range d.meta.RowGroups {
		for k := range d.meta.RowGroups[g].Columns {
			x := &d.meta.RowGroups[g].Columns[k]
			if x.OffsetIndexOffset == 0 {
				return 0, fmt.Errorf("%w: row group %d, leaf %d has no offset index", ErrFormat, g, k)
			}
			at = min(at, x.OffsetIndexOffset)
		}
	}
	if at == d.size {
		return 0, fmt.Errorf("%w: the shard holds no rows", ErrFormat)
	}
	return at, nil
}

// zeros checks that nothing but zeros stands between the last unit and the tail.
func (d *Reader) zeros(ctx context.Context, lo, hi int64, sink io.Writer) error {
	buf := make([]byte, min(hi-lo, 1<<20))
	for at := lo; at < hi; at += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := buf[:min(int64(len(buf)), hi-at)]
		if err := d.readAt(b, at); err != nil {
			return err
		}
		for i, x := range b {
			if x != 0 {
				return fmt.Errorf("%w: byte %d, between the data and the tail, is %#x and has to be zero", ErrDigest, at+int64(i), x)
			}
		}
		if _, err := sink.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// walkUnits checks every unit and every page in it, and gives where the pages stand.
func (d *Reader) walkUnits(ctx context.Context, units []Unit, each func([][]byte, func(int, [32]byte)), sink io.Writer) ([]int64, error) {
	var pages []int64
	var buf []byte
	for first, last := 0, 0; first < len(units); first = last {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// Units that lie together are digested faster than one by one.
		for last < len(units) && last-first < verifyUnits && (last == first || units[last].End-units[first].Start <= verifyBytes) {
			last++
		}
		some := units[first:last]
		from, n := some[0].Start, some[len(some)-1].End-some[0].Start
		if n > maxUnitBytes {
			return nil, fmt.Errorf("%w: unit %d has %d bytes, at most %d", ErrFormat, first, n, int64(maxUnitBytes))
		}
		if int64(cap(buf)) < n {
			buf = make([]byte, n)
		}
		b := buf[:n]
		if err := d.readAt(b, from); err != nil {
			return nil, err
		}
		if _, err := sink.Write(b); err != nil {
			return nil, err
		}
		messages, got := make([][]byte, len(some)), make([][32]byte, len(some))
		for i, u := range some {
			messages[i] = b[u.Start-from : u.End-from]
		}
		each(messages, func(i int, digest [32]byte) { got[i] = digest })
		for i, u := range some {
			if got[i] != u.Digest {
				return nil, fmt.Errorf("%w: unit %d, bytes %d to %d, has digest %x, the tail says %x", ErrDigest, first+i, u.Start, u.End, got[i], u.Digest)
			}
			var err error
			if pages, err = unitPages(pages, &u, messages[i]); err != nil {
				return nil, err
			}
		}
	}
	return pages, nil
}

// unitPages checks the pages of a unit and appends where they stand.
func unitPages(pages []int64, u *Unit, b []byte) ([]int64, error) {
	at := 0
	if u.Start == 0 {
		at = len(magic)
	}
	for at < len(b) {
		var h pageHead
		if err := h.parse(b[at:]); err != nil {
			return nil, fmt.Errorf("page at byte %d: %w", u.Start+int64(at), err)
		}
		if h.stored > len(b)-at-h.size {
			return nil, fmt.Errorf("%w: the page at byte %d goes on beyond its unit, which ends at %d", ErrFormat, u.Start+int64(at), u.End)
		}
		if !h.hasCRC {
			return nil, fmt.Errorf("%w: the page at byte %d has no CRC", ErrFormat, u.Start+int64(at))
		}
		if err := h.checkCRC(b[at+h.size : at+h.size+h.stored]); err != nil {
			return nil, fmt.Errorf("page at byte %d: %w", u.Start+int64(at), err)
		}
		pages = append(pages, u.Start+int64(at))
		at += h.size + h.stored
	}
	return pages, nil
}

// indexed checks that every entry of every offset index is a page.
func (d *Reader) indexed(pages []int64) error {
	for g := range d.meta.RowGroups {
		for k := range d.meta.RowGroups[g].Columns {
			c := &d.meta.RowGroups[g].Columns[k]
			b := make([]byte, c.OffsetIndexLength)
			if err := d.readAt(b, c.OffsetIndexOffset); err != nil {
				return err
			}
			x, err := DecodeOffsetIndex(b)
			if err != nil {
				return fmt.Errorf("offset index of row group %d, leaf %d: %w", g, k, err)
			}
			for _, p := range x.Pages {
				i := sort.Search(len(pages), func(i int) bool { return pages[i] >= p.Offset })
				if i == len(pages) || pages[i] != p.Offset {
					return fmt.Errorf("%w: the offset index of row group %d, leaf %d names byte %d, where no page begins", ErrFormat, g, k, p.Offset)
				}
			}
		}
	}
	return nil
}
