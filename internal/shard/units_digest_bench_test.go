package shard

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"
)

// BenchmarkDigests compares what could digest a unit, by the unit's size; sha1 and crc32 stand beside them because a
// writer computes those too.
func BenchmarkDigests(b *testing.B) {
	for _, size := range []int{4 << 10, 128 << 10, 1 << 20} {
		p := make([]byte, size)
		for i := range p {
			p[i] = byte(i * 7)
		}
		for _, c := range []struct {
			name string
			f    func([]byte)
		}{
			{"sha256", func(p []byte) { sha256.Sum256(p) }},
			{"sha512_256", func(p []byte) { sha512.Sum512_256(p) }},
			{"blake3", func(p []byte) { blake3.Sum256(p) }},
			{"xxh3_128", func(p []byte) { xxh3.Hash128(p) }},
			{"sha1", func(p []byte) { sha1.Sum(p) }},
			{"crc32", func(p []byte) { crc32.ChecksumIEEE(p) }},
		} {
			b.Run(fmt.Sprintf("%s/%dKiB", c.name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				for range b.N {
					c.f(p)
				}
			})
		}
	}
}
