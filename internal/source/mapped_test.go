package source

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func TestCopyPastCopiesAtEveryAlignmentAndLength(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	src := make([]byte, 20000)
	for i := range src {
		src[i] = byte(r.Uint32())
	}
	for i := 0; i < 3000; i++ {
		n, from, to := r.IntN(12000), r.IntN(300), r.IntN(300)
		if i < 300 {
			n = 4096 - 150 + i
		}
		dst := make([]byte, to+n+64)
		copyPast(dst[to:to+n], src[from:])
		if !bytes.Equal(dst[to:to+n], src[from:from+n]) {
			t.Fatalf("%d bytes from %d to %d differ", n, from, to)
		}
		if !bytes.Equal(dst[:to], make([]byte, to)) || !bytes.Equal(dst[to+n:], make([]byte, 64)) {
			t.Fatalf("%d bytes from %d to %d: bytes beside the destination changed", n, from, to)
		}
	}
}

// large makes a source with one file of n random bytes.
func large(t *testing.T, n int) (path string, want []byte, h Handle) {
	t.Helper()
	root := t.TempDir()
	want = make([]byte, n)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range want {
		want[i] = byte(r.Uint32())
	}
	path = filepath.Join(root, "f")
	if err := os.WriteFile(path, want, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := NewFile(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if h, err = s.Open(context.Background(), "f"); err != nil {
		t.Fatal(err)
	}
	return path, want, h
}

func TestVectorReadsGiveTheFilesBytesMappedOrNot(t *testing.T) {
	_, want, h := large(t, 1<<20)
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		off := r.IntN(len(want))
		left := len(want) - off
		var bufs [][]byte
		var total int
		for range 1 + r.IntN(4) {
			n := min(left-total, r.IntN(60000))
			bufs = append(bufs, make([]byte, n))
			total += n
		}
		n, err := h.(interface {
			ReadVectorAt(bufs [][]byte, off int64) (int, error)
		}).ReadVectorAt(bufs, int64(off))
		if err != nil || n != total {
			t.Fatalf("%d bytes at %d: %d, %v", total, off, n, err)
		}
		if got := bytes.Join(bufs, nil); !bytes.Equal(got, want[off:off+total]) {
			t.Fatalf("%d bytes at %d differ", total, off)
		}
	}
}

func TestAFileCutWhileMappedIsAnErrorAndNoCrash(t *testing.T) {
	path, want, h := large(t, 1<<20)
	v := h.(interface {
		ReadVectorAt(bufs [][]byte, off int64) (int, error)
	})
	b := make([]byte, 100000)
	if _, err := v.ReadVectorAt([][]byte{b}, 0); err != nil || !bytes.Equal(b, want[:len(b)]) {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := v.ReadVectorAt([][]byte{b}, 500000); err == nil {
		t.Fatal("bytes beyond the end were read")
	}
}

func TestAFaultInAMappingIsAnError(t *testing.T) {
	path, _, _ := large(t, 1<<20)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := mapFile(f, 1<<20)
	if m == nil {
		t.Skip("the temporary folder's file system is not one that is mapped")
	}
	defer m.close()
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100000)
	if err := m.copyOut([][]byte{b}, 500000); err == nil {
		t.Fatal("a fault went unseen")
	}
}
