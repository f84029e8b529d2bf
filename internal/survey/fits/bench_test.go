package fits

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"astropile/internal/survey/table"
)

// BenchmarkFile decodes, by one goroutine, every image and every column of the FITS files in the folder that
// ASTROPILE_FITS_BENCH names.
func BenchmarkFile(b *testing.B) {
	dir := os.Getenv("ASTROPILE_FITS_BENCH")
	files, _ := filepath.Glob(filepath.Join(dir, "*.fits"))
	if dir == "" || len(files) == 0 {
		b.Skip("ASTROPILE_FITS_BENCH names no folder of .fits files")
	}
	for _, path := range files {
		b.Run(filepath.Base(path), func(b *testing.B) {
			f, err := Open(path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			var reads []func() (int64, error)
			for _, h := range f.HDUs() {
				switch {
				case h.HasImage():
					reads = append(reads, readImage(b, h))
				case h.Kind == BinTable || h.Kind == ASCIITable:
					reads = append(reads, readTable(b, h))
				}
			}
			for b.Loop() {
				total := int64(0)
				for _, read := range reads {
					n, err := read()
					if err != nil {
						b.Fatal(err)
					}
					total += n
				}
				b.SetBytes(total)
			}
		})
	}
}

func readImage(b *testing.B, h *HDU) func() (int64, error) {
	b.Helper()
	im, err := h.Image()
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, im.Bytes())
	return func() (int64, error) { return im.Bytes(), im.Read(b.Context(), dst) }
}

func readTable(b *testing.B, h *HDU) func() (int64, error) {
	b.Helper()
	t, err := h.Table()
	if err != nil {
		b.Fatal(err)
	}
	var want []table.Request
	for i, f := range t.Fields() {
		if f.Err == nil {
			want = append(want, table.Request{Field: i})
		}
	}
	step := max(1, 8<<20/t.RowBytes())
	return func() (n int64, err error) {
		for lo := int64(0); lo < t.Rows(); lo += step {
			v, err := t.Read(b.Context(), lo, min(lo+step, t.Rows()), want)
			if err != nil {
				return 0, err
			}
			for _, v := range v {
				n += int64(len(v.Data))
			}
		}
		return n, nil
	}
}

func BenchmarkRice(b *testing.B) {
	for _, fs := range []int{0, 2, 5, 10} {
		b.Run(fmt.Sprintf("%d-low-bits", fs), func(b *testing.B) {
			src, n := riceStream(fs)
			dst := make([]int32, n)
			code, _ := riceFor(4)
			b.SetBytes(int64(4 * n))
			for b.Loop() {
				if err := rice(dst, src, code, 32); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// riceStream writes blocks of differences with fs low bits and runs of zeros as they come with them.
func riceStream(fs int) (src []byte, n int) {
	acc, have := uint64(0), 0
	put := func(v uint64, bits int) {
		acc, have = acc<<bits|v, have+bits
		for have >= 8 {
			src, have = append(src, byte(acc>>(have-8))), have-8
		}
	}
	put(0, 32)
	seed := uint64(1)
	for range 500 {
		put(uint64(fs+1), 5)
		for range 32 {
			seed = seed*6364136223846793005 + 1442695040888963407
			zeros := int(seed>>60) % 4 * int(seed>>58&1)
			put(1, zeros+1)
			put(seed>>20&(1<<fs-1), fs)
			n++
		}
	}
	put(0, 7)
	return append(src, make([]byte, 8)...), n
}
