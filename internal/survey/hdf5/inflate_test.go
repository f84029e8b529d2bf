package hdf5

import (
	"bytes"
	"compress/flate"
	"errors"
	"math/rand/v2"
	"testing"
)

// samples are inputs of every kind that a deflate encoder treats differently.
func samples() map[string][]byte {
	rng := rand.New(rand.NewPCG(9, 9))
	image := cutout(rng, 64)
	text := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog. "), 900)
	skewed := make([]byte, 70000) // code lengths up to 15
	for i := range skewed {
		k := byte(0)
		for k < 40 && rng.IntN(100) < 62 {
			k++
		}
		skewed[i] = k * 5
	}
	short := make([]byte, 5000) // matches of small distances
	for i := range short {
		short[i] = byte(i / 97 % (1 + i/600%9))
	}
	return map[string][]byte{
		"empty": nil, "one byte": {7}, "noise": randomBytes(rng, 70000), "zeros": make([]byte, 100000), "text": text,
		"float32": image, "shuffled": shuffled(image, 4), "skewed": skewed, "short": short, "tail": text[:300],
	}
}

func TestInflateDecodesWhatEveryLevelWrites(t *testing.T) {
	var z inflater
	for name, want := range samples() {
		for _, level := range []int{flate.HuffmanOnly, 0, 1, 4, 6, 9} {
			src := deflated(t, want, level)
			got := make([]byte, len(want))
			n, err := z.zlib(got, src)
			if err != nil || n != len(want) || !bytes.Equal(got, want) {
				t.Errorf("%s, level %d: %d bytes, error %v", name, level, n, err)
			}
			if len(want) > 0 {
				if _, err := z.zlib(got[:len(want)-1], src); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s, level %d: error %v for a buffer too small", name, level, err)
				}
			}
			for _, cut := range []int{1, 3, 4, 5, len(src) / 2, len(src) - 1} {
				if _, err := z.zlib(got, src[:max(0, len(src)-cut)]); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s, level %d: error %v for a stream short of %d bytes", name, level, err, cut)
				}
			}
			if bad := bytes.Clone(src); len(want) > 0 {
				bad[len(bad)-1] ^= 1
				if _, err := z.zlib(got, bad); !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s, level %d: error %v for a wrong checksum", name, level, err)
				}
			}
		}
	}
}

// plainLZF is the format's description in the plainest code.
func plainLZF(src []byte, limit int) ([]byte, bool) {
	var out []byte
	for i := 0; i < len(src); {
		c := int(src[i])
		i++
		if c < 32 {
			if i+c+1 > len(src) {
				return nil, false
			}
			out = append(out, src[i:i+c+1]...)
			i += c + 1
		} else {
			n := c>>5 + 2
			if n == 9 {
				if i >= len(src) {
					return nil, false
				}
				n += int(src[i])
				i++
			}
			if i >= len(src) {
				return nil, false
			}
			back := (c&31)*256 + int(src[i]) + 1
			i++
			if back > len(out) {
				return nil, false
			}
			for range n {
				out = append(out, out[len(out)-back])
			}
		}
		if len(out) > limit {
			return nil, false
		}
	}
	return out, true
}

func FuzzLZF(f *testing.F) {
	f.Add([]byte{2, 1, 2, 3, 0x40, 0, 0xe0, 5, 2, 0, 9}, uint16(40))
	f.Add([]byte{0, 7, 0xe0, 255, 0}, uint16(265))
	f.Fuzz(func(t *testing.T, src []byte, size uint16) {
		dst := make([]byte, size)
		n, err := decodeLZF(dst, src)
		want, ok := plainLZF(src, int(size))
		if ok != (err == nil) || ok && !bytes.Equal(dst[:n], want) {
			t.Fatalf("%d bytes and error %v; plain decoder: %d bytes, %v", n, err, len(want), ok)
		}
	})
}
