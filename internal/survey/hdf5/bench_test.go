package hdf5

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// cutout makes float32 pixels like a survey's: noise and a source.
func cutout(rng *rand.Rand, size int) []byte {
	var b []byte
	for y := range size {
		for x := range size {
			r2 := float64((x-size/2)*(x-size/2) + (y-size/2)*(y-size/2))
			v := 0.02*rng.NormFloat64() + 5*math.Exp(-r2/20)
			b = le.AppendUint32(b, math.Float32bits(float32(v)))
		}
	}
	return b
}

func shuffled(b []byte, width int) []byte {
	n := len(b) / width
	out := make([]byte, len(b))
	for i := range n {
		for k := range width {
			out[k*n+i] = b[i*width+k]
		}
	}
	copy(out[n*width:], b[n*width:])
	return out
}

func deflated(t testing.TB, b []byte, level int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zlib.NewWriterLevel(&out, level)
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

func BenchmarkInflate(b *testing.B) {
	raw := cutout(rand.New(rand.NewPCG(1, 1)), 192)
	for _, c := range []struct {
		name string
		raw  []byte
	}{{"float32", raw}, {"shuffled-float32", shuffled(raw, 4)}, {"zeros", make([]byte, len(raw))}} {
		b.Run(c.name, func(b *testing.B) {
			src := deflated(b, c.raw, 4)
			dst := make([]byte, len(c.raw))
			var z inflater
			b.SetBytes(int64(len(dst)))
			for b.Loop() {
				if _, err := z.zlib(dst, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkUnshuffle(b *testing.B) {
	src := make([]byte, 4*96*96*4)
	dst := make([]byte, len(src))
	for _, width := range []int{2, 4, 8, 12} {
		b.Run(fmt.Sprintf("%d-bytes", width), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				unshuffle(dst, src, width)
			}
		})
		b.Run(fmt.Sprintf("%d-bytes-plain", width), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				unshuffleFrom(dst, src, width, len(src)/width, 0)
			}
		})
	}
}

func BenchmarkAdler32(b *testing.B) {
	src := make([]byte, 4*96*96*4)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		adler32(src)
	}
}

func BenchmarkFletcher32(b *testing.B) {
	src := make([]byte, 4*96*96*4)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		fletcher32(src)
	}
}

// BenchmarkReadRows reads, in slabs of about 256 rows, the first dataset of each file in the folder that
// ASTROPILE_HDF5_BENCH names.
func BenchmarkReadRows(b *testing.B) {
	dir := os.Getenv("ASTROPILE_HDF5_BENCH")
	files, _ := filepath.Glob(filepath.Join(dir, "*.h5"))
	if dir == "" || len(files) == 0 {
		b.Skip("ASTROPILE_HDF5_BENCH names no folder of .h5 files")
	}
	for _, path := range files {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/%d-workers", filepath.Base(path), workers), func(b *testing.B) {
				f, err := Open(path)
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				o, err := f.Object("/image_array")
				if err != nil {
					b.Fatal(err)
				}
				d, err := o.Dataset()
				if err != nil {
					b.Fatal(err)
				}
				slab := max(1, 256/d.SlabRows()) * d.SlabRows()
				buf := make([]byte, slab*d.RowBytes())
				b.SetBytes(int64(d.Rows() * d.RowBytes()))
				for b.Loop() {
					for r := uint64(0); r < d.Rows(); r += slab {
						end := min(r+slab, d.Rows())
						if err := d.ReadRows(context.Background(), r, end, buf[:(end-r)*d.RowBytes()], workers); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
