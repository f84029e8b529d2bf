package deflate

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	kflate "github.com/klauspost/compress/flate"
)

// samples are inputs that an encoder treats differently.
func samples() [][]byte {
	rng := rand.New(rand.NewPCG(9, 9))
	noise := make([]byte, 70000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	short := make([]byte, 5000) // matches of small distances
	for i := range short {
		short[i] = byte(i / 97 % (1 + i/600%9))
	}
	return [][]byte{nil, {7}, noise, make([]byte, 100000), bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog. "), 900), short}
}

func deflated(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, 6)
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAStreamIsDecodedWholeOrRefused(t *testing.T) {
	var z Decoder
	for i, want := range samples() {
		src := deflated(t, want)
		got := make([]byte, len(want))
		n, used, err := z.Inflate(got, append(src[:len(src):len(src)], 1, 2, 3))
		if err != nil || n != len(want) || used != len(src) || !bytes.Equal(got, want) {
			t.Errorf("sample %d: %d bytes from %d of %d, error %v", i, n, used, len(src), err)
		}
		if _, _, err := z.Inflate(got, src[:len(src)-1]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("sample %d: error %v for a stream cut short", i, err)
		}
	}
}

// FuzzInflate compares with another decoder: on the input as a stream, and on what an encoder makes of the input.
func FuzzInflate(f *testing.F) {
	for _, b := range samples() {
		f.Add(deflated(f, b[:min(len(b), 3000)]), uint16(len(b)))
	}
	f.Add([]byte{3, 0}, uint16(4))
	f.Add([]byte{5, 0xe0, 0x81, 8, 0, 0, 0, 0, 0x10, 0x7f}, uint16(300))
	f.Fuzz(func(t *testing.T, in []byte, size uint16) {
		var z Decoder
		dst := make([]byte, int(size), int(size)+64)
		guard := dst[:cap(dst)][size:]
		n, used, err := z.Inflate(dst, in)
		for _, x := range guard {
			if x != 0 {
				t.Fatal("wrote beyond the buffer")
			}
		}
		want, theirs := io.ReadAll(io.LimitReader(kflate.NewReader(bytes.NewReader(in)), int64(size)+1))
		switch {
		case err == nil && (theirs != nil || !bytes.Equal(dst[:n], want)):
			t.Fatalf("decoded %d bytes; the other decoder gives %d and %v", n, len(want), theirs)
		case err == nil && used > len(in):
			t.Fatalf("used %d bytes of %d", used, len(in))
		}
		var out bytes.Buffer
		w, err := kflate.NewWriter(&out, int(size)%10)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(in); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		back := make([]byte, len(in))
		if n, used, err := z.Inflate(back, out.Bytes()); err != nil || n != len(in) || used != out.Len() || !bytes.Equal(back, in) {
			t.Fatalf("%d bytes of %d come back from %d of %d, error %v", n, len(in), used, out.Len(), err)
		}
	})
}
