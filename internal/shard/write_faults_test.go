package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"astropile/internal/catalog"
)

// groups is a sample of three row groups of one row each; the zeros behind them are several writes. It has no scalars,
// whose encoder shares channels with the rest of the process, which a bubble does not allow.
func groups() (*sample, Spec) {
	s := newSample("groups", 3, 7, tensor("image", catalog.Uint8, 9<<20))
	spec := s.spec()
	spec.Piece = 8 << 20
	return s, spec
}

// disk calls before with the number of each write, from 1 on, and fails where that does.
type disk struct {
	writes int
	before func(k int) error
}

func (d *disk) Write(b []byte) (int, error) {
	d.writes++
	if d.before != nil {
		if err := d.before(d.writes); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// shardOnto writes a sample row by row.
func shardOnto(dst io.Writer, s *sample, spec Spec) error {
	w, err := NewWriter(dst, spec)
	if err != nil {
		return err
	}
	defer w.Abort()
	for i := range s.rows {
		if err := w.Write(context.Background(), s.slice(i, i+1)); err != nil {
			return err
		}
	}
	_, err = w.Close(context.Background())
	return err
}

// In a bubble a goroutine that waits for what will never come is a failure, and so is one that is left behind.
func TestAFailureOfAnyWriteIsToldAndEndsEverything(t *testing.T) {
	s, spec := groups()
	whole := &disk{}
	if err := shardOnto(whole, s, spec); err != nil {
		t.Fatal(err)
	}
	if whole.writes < 6 {
		t.Fatalf("%d writes show little", whole.writes)
	}
	broken := errors.New("the disk is gone")
	for k := 1; k <= whole.writes; k++ {
		t.Run(fmt.Sprint("write ", k), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &disk{before: func(n int) error {
					if n == k {
						return broken
					}
					return nil
				}}
				err := shardOnto(d, s, spec)
				if !errors.Is(err, broken) || !strings.Contains(err.Error(), "at byte ") {
					t.Errorf("%v; want an error that wraps the disk's and says at which byte", err)
				}
				if d.writes != k {
					t.Errorf("%d writes; the one that failed was number %d", d.writes, k)
				}
			})
		})
	}
}

func TestAbortWaitsForTheWriteInFlight(t *testing.T) {
	s, spec := groups()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		d := &disk{before: func(int) error { <-free; return nil }}
		w, err := NewWriter(d, spec)
		if err != nil {
			t.Fatal(err)
		}
		// The row is a row group, whose bytes go to the disk and stay there.
		if err := w.Write(context.Background(), s.slice(0, 1)); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { w.Abort(); close(done) }()
		synctest.Wait()
		select {
		case <-done:
			t.Error("Abort returns while bytes are being written")
		default:
		}
		close(free)
		<-done
		writes := d.writes
		if writes != 1 {
			t.Fatalf("%d writes before Abort, want 1", writes)
		}
		if err := w.Write(context.Background(), s.slice(1, 2)); !errors.Is(err, errClosed) {
			t.Errorf("a write after Abort: %v", err)
		}
		if _, err := w.Close(context.Background()); !errors.Is(err, errClosed) {
			t.Errorf("Close after Abort: %v", err)
		}
		synctest.Wait()
		if d.writes != writes {
			t.Error("something is written after Abort")
		}
	})
}

func TestAbortLeavesNothingRunning(t *testing.T) {
	s, spec := groups()
	for rows := range s.rows + 1 {
		t.Run(fmt.Sprint(rows, " rows"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := NewWriter(io.Discard, spec)
				if err != nil {
					t.Fatal(err)
				}
				for i := range rows {
					if err := w.Write(context.Background(), s.slice(i, i+1)); err != nil {
						t.Fatal(err)
					}
				}
				w.Abort()
			})
		})
	}
}

func TestAbortAfterCloseDoesNothing(t *testing.T) {
	s := newSample("s", 5, 1, tensor("t", catalog.Float32, 3))
	d := &disk{}
	w, err := NewWriter(d, s.spec())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(context.Background(), s.batch()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	writes := d.writes
	w.Abort()
	if d.writes != writes {
		t.Error("Abort after Close writes")
	}
	if info, err := w.Close(context.Background()); !errors.Is(err, errClosed) || info != nil {
		t.Errorf("a second Close: %v, %v", info, err)
	}
}
