package source

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// contract is what every Source promises; open makes one that holds the files given.
func contract(t *testing.T, open func(t *testing.T, files map[string]string) Source) {
	ctx := context.Background()
	files := map[string]string{"a.txt": "hello", "d/e/f.bin": "0123456789", "empty": ""}
	t.Run("a file is read whole, within a limit", func(t *testing.T) {
		s := open(t, files)
		for name, want := range files {
			b, err := s.ReadFile(ctx, name, int64(len(want)))
			if err != nil || string(b) != want {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
		if _, err := s.ReadFile(ctx, "d/e/f.bin", 9); !errors.Is(err, ErrTooLarge) {
			t.Errorf("a file over the limit: %v", err)
		}
	})
	t.Run("a handle reads at offsets and knows its size", func(t *testing.T) {
		s := open(t, files)
		h, err := s.Open(ctx, "d/e/f.bin")
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		}()
		if h.Size() != 10 {
			t.Errorf("size %d", h.Size())
		}
		b := make([]byte, 4)
		if n, err := h.ReadAt(b, 3); n != 4 || err != nil || string(b) != "3456" {
			t.Errorf("%d %v %q", n, err, b)
		}
		if n, err := h.ReadAt(b, 8); n != 2 || !errors.Is(err, io.EOF) || string(b[:n]) != "89" {
			t.Errorf("at the end: %d %v %q", n, err, b[:n])
		}
		if n, err := h.ReadAt(b, 100); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("behind the end: %d %v", n, err)
		}
	})
	t.Run("what is not there does not exist", func(t *testing.T) {
		s := open(t, files)
		if _, err := s.Open(ctx, "nothing"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if _, err := s.ReadFile(ctx, "d/nothing", 10); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("no path leaves the root", func(t *testing.T) {
		s := open(t, files)
		for _, p := range []string{"", "..", "../a.txt", "/a.txt", "d/../../x", "d//e", "./a.txt", "a.txt/", "a\x00b"} {
			if _, err := s.Open(ctx, p); !errors.Is(err, ErrPath) {
				t.Errorf("Open(%q): %v", p, err)
			}
			if _, err := s.ReadFile(ctx, p, 10); !errors.Is(err, ErrPath) {
				t.Errorf("ReadFile(%q): %v", p, err)
			}
		}
	})
	t.Run("many goroutines read at once", func(t *testing.T) {
		s := open(t, files)
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				h, err := s.Open(ctx, "d/e/f.bin")
				if err != nil {
					t.Error(err)
					return
				}
				defer h.Close()
				b := make([]byte, 10)
				for i := range 10 {
					if n, _ := h.ReadAt(b, int64(i)); string(b[:n]) != files["d/e/f.bin"][i:] {
						t.Errorf("at %d: %q", i, b[:n])
					}
				}
			})
		}
		wg.Wait()
	})
	t.Run("a context that has ended opens nothing", func(t *testing.T) {
		s := open(t, files)
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := s.Open(ctx, "a.txt"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestFileKeepsTheContract(t *testing.T) {
	contract(t, func(t *testing.T, files map[string]string) Source {
		root := t.TempDir()
		for name, text := range files {
			p := filepath.Join(root, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s, err := NewFile(root)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}

func TestFileRefusesLinksThatLeaveTheRoot(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret"), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	s, err := NewFile(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.ReadFile(context.Background(), "link", 10); err == nil {
		t.Error("a link led out of the root")
	}
}

func TestFileOpensMoreFilesThanItMayHold(t *testing.T) {
	root := t.TempDir()
	const n = 3000
	for i := range n {
		if err := os.WriteFile(filepath.Join(root, name(i)), []byte(name(i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := NewFile(root)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var held []Handle
	for i := range n {
		h, err := s.Open(context.Background(), name(i))
		if err != nil {
			t.Fatalf("file %d: %v", i, err)
		}
		held = append(held, h)
	}
	for i, h := range held {
		b := make([]byte, len(name(i)))
		if k, _ := h.ReadAt(b, 0); string(b[:k]) != name(i) {
			t.Fatalf("file %d reads %q", i, b[:k])
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func name(i int) string {
	return "f" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
}
