package fits

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"astropile/internal/catalog"
	"astropile/internal/testkit"
)

// record is one card.
func record(keyword, value string) string {
	return fmt.Sprintf("%-80s", fmt.Sprintf("%-8s= %20s", keyword, value))
}

// header makes a header of cards "KEY = value", END and the padding.
func header(cards ...string) []byte {
	var b strings.Builder
	for _, c := range cards {
		k, v, ok := strings.Cut(c, " = ")
		if ok {
			b.WriteString(record(k, v))
		} else {
			fmt.Fprintf(&b, "%-80s", c)
		}
	}
	b.WriteString(fmt.Sprintf("%-80s", "END"))
	return pad([]byte(b.String()), ' ')
}

func pad(b []byte, with byte) []byte {
	for len(b)%blockSize != 0 {
		b = append(b, with)
	}
	return b
}

// stamp is a float32 image like those in alerts.
func stamp(size int, more ...string) []byte {
	b := header(append([]string{"SIMPLE = T", "BITPIX = -32", "NAXIS = 2", fmt.Sprintf("NAXIS1 = %d", size), fmt.Sprintf("NAXIS2 = %d", size)}, more...)...)
	rng := rand.New(rand.NewPCG(1, 1))
	for range size * size {
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(float32(200+10*rng.NormFloat64())))
	}
	return pad(b, 0)
}

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestADecoderGivesTheFirstImageOfAFileInMemory(t *testing.T) {
	plain := stamp(9)
	pixels := make([]byte, 9*9*4)
	swap32(pixels, plain[blockSize:blockSize+9*9*4])
	empty := header("SIMPLE = T", "BITPIX = 8", "NAXIS = 0")
	extension := slices.Concat(header("XTENSION = 'IMAGE   '", "BITPIX = -32", "NAXIS = 2", "NAXIS1 = 9", "NAXIS2 = 9", "PCOUNT = 0", "GCOUNT = 1"), plain[blockSize:])
	var d Decoder
	for name, raw := range map[string][]byte{
		"plain":            plain,
		"gzipped":          zipped(t, plain),
		"in an extension":  slices.Concat(empty, extension),
		"more behind it":   slices.Concat(plain, extension, []byte("rubbish that nobody reads")),
		"padding cut":      plain[:blockSize+9*9*4],
		"other keywords":   stamp(9, "COMMENT of no use", "NAXISX = 7", "BZERO = 0.0", "BSCALE = 1.0"),
		"unusual position": stamp(9, "EXTEND = T"),
	} {
		dt, shape, data, err := d.Decode(raw, 1<<20)
		if err != nil || dt != catalog.Float32 || !slices.Equal(shape, []int{9, 9}) || !bytes.Equal(data, pixels) {
			t.Errorf("%s: %s %v, %d bytes, error %v", name, dt, shape, len(data), err)
		}
	}
	for name, c := range map[string]struct {
		raw  []byte
		max  int64
		want error
	}{
		"too large":          {plain, 9*9*4 - 1, ErrTooLarge},
		"truncated":          {plain[:blockSize+9*9*4-1], 1 << 20, ErrCorrupt},
		"no END":             {plain[:400], 1 << 20, ErrCorrupt},
		"no FITS":            {[]byte("GIF89a"), 1 << 20, ErrNotFITS},
		"nothing":            {nil, 1 << 20, ErrNotFITS},
		"no image":           {empty, 1 << 20, ErrUnsupported},
		"gzip cut":           {zipped(t, plain)[:300], 1 << 20, ErrCorrupt},
		"gzip says too much": {zipped(t, make([]byte, 4<<20)), 1 << 10, ErrTooLarge},
		"axis negative":      {header("SIMPLE = T", "BITPIX = 8", "NAXIS = 1", "NAXIS1 = -5"), 1 << 20, ErrCorrupt},
		"axes too large":     {header("SIMPLE = T", "BITPIX = 64", "NAXIS = 3", "NAXIS1 = 2147483647", "NAXIS2 = 2147483647", "NAXIS3 = 2147483647"), 1 << 20, ErrCorrupt},
		"wrong checksum":     {stamp(9, "DATASUM = '1'"), 1 << 20, ErrChecksum},
	} {
		if _, _, _, err := d.Decode(c.raw, c.max); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
}

func TestAGzippedFileIsReadOrRefusedByName(t *testing.T) {
	whole := zipped(t, stamp(9))
	bad := bytes.Clone(whole)
	bad[len(bad)-6] ^= 1
	for name, c := range map[string]struct {
		raw  []byte
		want error
	}{
		"whole":       {whole, nil},
		"two members": {slices.Concat(zipped(t, stamp(9)[:1000]), zipped(t, stamp(9)[1000:])), nil},
		"cut":         {whole[:len(whole)-9], ErrCorrupt},
		"bad crc":     {bad, ErrCorrupt},
		"no FITS":     {zipped(t, []byte("something else")), ErrNotFITS},
		"no gzip":     {[]byte{gzipID1, gzipID2, 0, 0}, ErrCorrupt},
	} {
		path := filepath.Join(t.TempDir(), "stamp.fits.gz")
		if err := os.WriteFile(path, c.raw, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err == nil {
			_, err = everything(f)
			err = errors.Join(err, f.Close())
		}
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), "stamp.fits.gz") {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// cutouts gives the binary values of a Parquet file, wherever they stand.
func cutouts(t testing.TB, name string) [][]byte {
	t.Helper()
	r, err := file.OpenParquetFile(testkit.Shared(t)+"/alerts/"+name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pr, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	tab, err := pr.ReadTable(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Release()
	var out [][]byte
	var walk func(a arrow.Array)
	walk = func(a arrow.Array) {
		switch a := a.(type) {
		case *array.Struct:
			for i := range a.NumField() {
				walk(a.Field(i))
			}
		case *array.Binary:
			for i := range a.Len() {
				if a.IsValid(i) {
					out = append(out, bytes.Clone(a.Value(i)))
				}
			}
		}
	}
	for i := range int(tab.NumCols()) {
		for _, c := range tab.Column(i).Data().Chunks() {
			walk(c)
		}
	}
	return out
}

func TestEveryCutoutOfRealAlertsIsDecoded(t *testing.T) {
	for name, want := range map[string]struct {
		count, least int
	}{"ztf.parquet": {201, 60}, "rubin.parquet": {81, 20}} {
		var d Decoder
		all := cutouts(t, name)
		if len(all) < want.count {
			t.Errorf("%s: %d cutouts, want %d", name, len(all), want.count)
		}
		for i, raw := range all {
			dt, shape, data, err := d.Decode(raw, 1<<20)
			if err != nil || dt != catalog.Float32 || len(shape) != 2 || shape[0] < want.least || len(data) != 4*shape[0]*shape[1] {
				t.Errorf("%s: cutout %d: %s %v, %d bytes, error %v", name, i, dt, shape, len(data), err)
			}
		}
	}
}

func BenchmarkDecodeImage(b *testing.B) {
	raw := stamp(63)
	for name, in := range map[string][]byte{"plain": raw, "gzipped": zipped(b, raw)} {
		b.Run(name, func(b *testing.B) {
			var d Decoder
			b.SetBytes(63 * 63 * 4)
			for b.Loop() {
				if _, _, _, err := d.Decode(in, 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("ztf", func(b *testing.B) {
		all := cutouts(b, "ztf.parquet")
		var d Decoder
		i := 0
		for b.Loop() {
			if _, _, _, err := d.Decode(all[i%len(all)], 1<<20); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}
