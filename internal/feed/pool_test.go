package feed

import (
	"context"
	"errors"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"astropile/internal/stream"
)

func TestASlotIsNeverWithTwoOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		max := rapid.IntRange(2, 5).Draw(t, "slots")
		p := newPool(Inline, max, &budget{max: 64 << 20})
		filling, lent := map[int]*slot{}, map[int]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				if len(filling)+len(lent) == max {
					ctx, cancel := context.WithCancel(context.Background())
					cancel()
					if _, err := p.Acquire(ctx); !errors.Is(err, context.Canceled) {
						t.Fatalf("a slot beyond the last: %v", err)
					}
					continue
				}
				s, err := p.Acquire(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				x := s.(*slot)
				if filling[x.id] != nil || lent[x.id] {
					t.Fatalf("slot %d has an owner", x.id)
				}
				if err := x.Grow(rapid.IntRange(1, 5<<20).Draw(t, "bytes")); err != nil {
					t.Fatal(err)
				}
				filling[x.id] = x
			case 2:
				for id, x := range filling {
					if _, err := p.lend(x); err != nil {
						t.Fatal(err)
					}
					delete(filling, id)
					lent[id] = true
					break
				}
			case 3:
				for id, x := range filling {
					p.Release(x)
					delete(filling, id)
					break
				}
			case 4:
				for id := range lent {
					b := byte(id)
					if rapid.Bool().Draw(t, "retire") {
						b |= creditRetire
					}
					if err := p.credit(b); err != nil {
						t.Fatal(err)
					}
					if err := p.credit(b); !errors.Is(err, ErrProtocol) {
						t.Fatalf("a second credit: %v", err)
					}
					delete(lent, id)
					break
				}
			}
		}
		if want := max - len(filling) - len(lent); len(p.avail) != want {
			t.Fatalf("%d slots to be had, want %d", len(p.avail), want)
		}
		if p.close(); p.budget.used.Load() != 0 {
			t.Fatalf("%d bytes are still counted", p.budget.used.Load())
		}
	})
}

func TestFreeSlotsMakeRoomForOneThatGrows(t *testing.T) {
	p := newPool(Inline, 3, &budget{max: 12 << 20})
	defer p.close()
	acquire := func() *slot {
		s, err := p.Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return s.(*slot)
	}
	a, b := acquire(), acquire()
	for _, s := range []*slot{a, b} {
		if err := s.Grow(6 << 20); err != nil {
			t.Fatal(err)
		}
	}
	c := acquire()
	if err := c.Grow(4 << 20); !errors.Is(err, ErrMemory) {
		t.Fatalf("18 MiB of 12: %v", err)
	}
	p.Release(a)
	if err := c.Grow(4 << 20); err != nil {
		t.Fatal(err)
	}
	if err := c.Grow(6 << 20); err != nil { // with room to spare it would be 8
		t.Fatal(err)
	}
	if used := p.budget.used.Load(); used != 12<<20 {
		t.Fatalf("%d bytes used", used)
	}
	if acquire() == nil {
		t.Fatal("no slot in place of the one that made room")
	}
}

func TestWaitingForASlotEndsWithACredit(t *testing.T) {
	p := newPool(Auto, 2, &budget{max: 64 << 20})
	defer p.close()
	var got []stream.Slot
	for range 2 {
		s, err := p.Acquire(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		fd, err := p.lend(s.(*slot))
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fd)
		got = append(got, s)
	}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		if s, err := p.Acquire(context.Background()); err != nil || s != got[1] {
			t.Error(s, err)
		}
	}()
	if err := p.credit(byte(got[1].(*slot).id)); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

func TestSharedMemoryIsAlignedAndCannotShrink(t *testing.T) {
	for _, k := range []Transport{Memfd, MemfdPlain, ShmFile, Inline} {
		b, err := newBacking(kinds(k))
		if err != nil {
			t.Logf("%s: %v", k, err)
			continue
		}
		for _, n := range []int{4096, 2 << 20, 6 << 20, 4096} {
			if err := b.grow(n); err != nil {
				t.Fatal(k, err)
			}
			if len(b.mem) < n {
				t.Fatalf("%s: %d bytes of %d", k, len(b.mem), n)
			}
			b.mem[0], b.mem[n-1] = 1, 2
			if at := uintptr(unsafe.Pointer(&b.mem[0])); at%4096 != 0 || n%hugePage == 0 && at%hugePage != 0 {
				t.Errorf("%s: %d bytes at %#x", k, n, at)
			}
			// All of it must take stores: what was reserved around it is gone, and it is not.
			for i := 0; i < len(b.mem); i += 4096 {
				b.mem[i] = 3
			}
		}
		if k == Memfd || k == MemfdPlain {
			if err := unix.Ftruncate(b.fd, 0); !errors.Is(err, unix.EPERM) {
				t.Errorf("%s shrank: %v", k, err)
			}
		}
		b.close()
	}
	if _, err := newBacking([]Transport{"pigeon"}); err == nil {
		t.Error("an unknown transport was taken")
	}
}

func TestAFullShmIsAnErrorNotASignal(t *testing.T) {
	b, err := newBacking([]Transport{ShmFile})
	if err != nil {
		t.Skip(err)
	}
	defer b.close()
	if err := b.grow(1 << 50); !errors.Is(err, ErrMemory) {
		t.Fatal(err)
	}
	if err := b.grow(1 << 20); err != nil {
		t.Fatal(err)
	}
}

func TestHugePagesOfASlotAreSharedByAnotherMapping(t *testing.T) {
	b, err := newBacking([]Transport{MemfdPlain})
	if err != nil {
		t.Skip(err)
	}
	defer b.close()
	const n = 3*collapseStep + 2*hugePage
	if err := b.grow(n); err != nil {
		t.Fatal(err)
	}
	client, err := unix.Mmap(b.fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(client) }()
	for i := 0; i < n; i += 4096 {
		b.mem[i] = byte(i >> 12)
	}
	for i := 0; i < n; i += 4096 {
		if client[i] != byte(i>>12) {
			t.Fatalf("byte %d is %d", i, client[i])
		}
	}
	// Collapsing again, while both look, must leave every byte in its place.
	b.collapse()
	for i := 0; i < n; i += 4096 {
		if client[i] != byte(i>>12) || b.mem[i] != byte(i>>12) {
			t.Fatalf("byte %d is %d and %d", i, client[i], b.mem[i])
		}
	}
}
