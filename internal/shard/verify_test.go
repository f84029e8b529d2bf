package shard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"testing"

	"astropile/internal/catalog"
)

// everyKind is a shard of a few kilobytes with every layout, codec and kind of column.
func everyKind(t *testing.T) ([]byte, *Info) {
	t.Helper()
	z := tensor("z", catalog.Float32, 33)
	z.Codec = catalog.BSSZstd
	s := newSample("small", 6, 2, scalar("id", catalog.String, false), scalar("n", catalog.Float64, true), list("l", catalog.Float32, true), lightcurve("lc", true),
		tensor("t", catalog.Float32, 20, 20), tensor("u", catalog.Uint8, 9), tensor("w", catalog.Int16, 5), tensor("m", catalog.Bool, 70), z, tensor("wave", catalog.Float32, 40)).makeConstant("wave")
	spec := s.spec()
	spec.Piece = 2048
	return s.write(t, spec, 4)
}

func TestVerifyFindsAFlipOfEveryByte(t *testing.T) {
	b, info := everyKind(t)
	end := info.Units[len(info.Units)-1].End
	if info.TailOffset == end {
		t.Fatal("no zeros to flip")
	}
	ctx := context.Background()
	if c, err := Verify(ctx, bytes.NewReader(b), info.Bytes, VerifyOptions{Deep: true}); err != nil || c.TailDigest != info.TailDigest {
		t.Fatalf("%+v, %v", c, err)
	}
	for i := range b {
		mask := byte(1) << (i % 8)
		b[i] ^= mask
		c, err := Verify(ctx, bytes.NewReader(b), info.Bytes, VerifyOptions{Deep: true})
		switch {
		case err == nil && (int64(i) < info.TailOffset || c.TailDigest == info.TailDigest):
			t.Errorf("byte %d of %d (data to %d, tail from %d): a flip of %#02x is not found", i, len(b), end, info.TailOffset, mask)
		case err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrDigest):
			t.Errorf("byte %d: %v", i, err)
		}
		b[i] ^= mask
	}
	if sha256.Sum256(b) != info.SHA256 {
		t.Fatal("the sweep did not put back what it changed")
	}
}

func TestVerifyRefusesEveryOtherLength(t *testing.T) {
	b, info := everyKind(t)
	for n := range b {
		c, err := Verify(context.Background(), bytes.NewReader(b[:n]), int64(n), VerifyOptions{Deep: true})
		if err == nil {
			t.Fatalf("the first %d bytes of %d pass: %+v", n, len(b), c)
		}
	}
	longer := append(bytes.Clone(b), 0)
	if _, err := Verify(context.Background(), bytes.NewReader(longer), info.Bytes+1, VerifyOptions{Deep: true}); err == nil {
		t.Error("a byte too many passes")
	}
}

// counted counts the bytes that are read of a shard.
type counted struct {
	io.ReaderAt
	n int64
}

func (c *counted) ReadAt(b []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, at)
	c.n += int64(n)
	return n, err
}

func TestADeepVerifyGivesEveryByteInOrderAndReadsNoneOfTheDataTwice(t *testing.T) {
	b, info := everyKind(t)
	r := &counted{ReaderAt: bytes.NewReader(b)}
	var whole bytes.Buffer
	if _, err := Verify(context.Background(), r, info.Bytes, VerifyOptions{Deep: true, Sink: &whole}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(whole.Bytes(), b) {
		t.Errorf("%d bytes were given, and not those of the shard, which has %d", whole.Len(), len(b))
	}
	// The tail is read to open the shard, to be digested, and index by index.
	if tail := info.Bytes - info.TailOffset; r.n < info.Bytes || r.n > info.TailOffset+3*tail {
		t.Errorf("%d bytes were read of %d, of which the tail has %d", r.n, info.Bytes, tail)
	}
	full := errors.New("full")
	if _, err := Verify(context.Background(), r, info.Bytes, VerifyOptions{Deep: true, Sink: refusing{full}}); !errors.Is(err, full) {
		t.Errorf("a sink that fails: %v", err)
	}
}

type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }

func TestVerifyEndsWithItsContext(t *testing.T) {
	b, info := everyKind(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Verify(ctx, bytes.NewReader(b), info.Bytes, VerifyOptions{Deep: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
