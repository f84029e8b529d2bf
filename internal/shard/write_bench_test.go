package shard

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"astropile/internal/catalog"
)

// benchRepeats is how often a shard of a benchmark holds its sample.
const benchRepeats = 8

// BenchmarkWriter writes shards of one column, everything that a release needs of them computed.
func BenchmarkWriter(b *testing.B) {
	zstd := tensor("image", catalog.Float32, 4, 96, 96)
	zstd.Codec = catalog.Zstd
	image := tensor("image", catalog.Float32, 4, 96, 96)
	for _, c := range []struct {
		name, digest string
		col          catalog.Column
		file         bool
		batch        int // rows; 0 is the sample at once
		atOnce       int
	}{
		{"float32_4x96x96/sha256", DigestSHA256, image, false, 0, 1},
		{"float32_4x96x96/blake3", DigestBLAKE3, image, false, 0, 1},
		{"float32_4x96x96/batches_of_16", DigestSHA256, image, false, 16, 1},
		{"float32_4x96x96/two_at_once", DigestSHA256, image, false, 16, 2},
		{"float32_4x96x96/file", DigestSHA256, image, true, 16, 1},
		{"float32_4x96x96_zstd/sha256", DigestSHA256, zstd, false, 0, 1},
		{"uint8_3x160x160/sha256", DigestSHA256, tensor("image", catalog.Uint8, 3, 160, 160), false, 0, 1},
		{"float32_7781/sha256", DigestSHA256, tensor("flux", catalog.Float32, 7781), false, 0, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newSample("s", 256, 3, c.col)
			spec := s.spec()
			spec.Piece, spec.Digest = 1<<20, c.digest
			batch := c.batch
			if batch == 0 {
				batch = s.rows
			}
			payload := int64(c.atOnce) * benchRepeats * int64(len(s.vectors[0].Data))
			name := filepath.Join(b.TempDir(), "shard")
			b.SetBytes(payload)
			from := cpuTime(b)
			for b.Loop() {
				var all sync.WaitGroup
				for range c.atOnce {
					all.Go(func() {
						var dst io.Writer = io.Discard
						if c.file {
							f, err := os.Create(name)
							if err != nil {
								b.Error(err)
								return
							}
							defer f.Close()
							dst = f
						}
						if err := benchShard(dst, s, spec, batch); err != nil {
							b.Error(err)
						}
					})
				}
				all.Wait()
			}
			// Of a machine that others use too, this says more than the rate does.
			b.ReportMetric((cpuTime(b)-from)/float64(b.N)/(float64(payload)/1e9), "cpu-s/GB")
		})
	}
}

func benchShard(dst io.Writer, s *sample, spec Spec, batch int) error {
	w, err := NewWriter(dst, spec)
	if err != nil {
		return err
	}
	defer w.Abort()
	for range benchRepeats {
		for lo := 0; lo < s.rows; lo += batch {
			if err := w.Write(context.Background(), s.slice(lo, min(s.rows, lo+batch))); err != nil {
				return err
			}
		}
	}
	_, err = w.Close(context.Background())
	return err
}

// cpuTime is the processor time of the process so far, in seconds.
func cpuTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
