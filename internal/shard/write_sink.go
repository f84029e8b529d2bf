package shard

import (
	"crypto/sha1"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"sync"
)

// sink takes a shard's bytes in order, writes them and computes every digest of them. One buffer is in flight: while
// it is written and hashed, a goroutine each, its owner fills the next.
type sink struct {
	dst    io.Writer
	each   func(messages [][]byte, sum func(i int, digest [32]byte)) // digests units
	piece  int64
	file   hash.Hash // SHA-256 of the whole
	part   hash.Hash // SHA-1 of the piece that is open
	filled int64     // bytes in it
	pieces []byte
	units  []Unit
	pos    int64 // bytes taken
	work   sync.WaitGroup
	err    error // of dst; read only when no work is in flight
}

func newSink(dst io.Writer, each func([][]byte, func(int, [32]byte)), piece int64) *sink {
	return &sink{dst: dst, each: each, piece: piece, file: sha256.New(), part: sha1.New()}
}

// wait ends when nothing is in flight and says whether all was written.
func (s *sink) wait() error {
	s.work.Wait()
	return s.err
}

// emit takes b, which must not change until the next wait or emit. ends are where units end, in bytes of the file.
func (s *sink) emit(b []byte, ends []int64) error {
	if err := s.wait(); err != nil {
		return err
	}
	base := s.pos
	s.pos += int64(len(b))
	first := len(s.units)
	start := int64(0)
	if first > 0 {
		start = s.units[first-1].End
	}
	for _, end := range ends {
		s.units = append(s.units, Unit{Start: start, End: end})
		start = end
	}
	units := s.units[first:]
	s.work.Go(func() { s.write(b, base) })
	s.work.Go(func() { s.file.Write(b) })
	s.work.Go(func() { s.cutPieces(b) })
	s.work.Go(func() {
		messages := make([][]byte, len(units))
		for i, u := range units {
			messages[i] = b[u.Start-base : u.End-base]
		}
		s.each(messages, func(i int, digest [32]byte) { units[i].Digest = digest })
	})
	return nil
}

func (s *sink) write(b []byte, base int64) {
	n, err := s.dst.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.err = fmt.Errorf("shard: write %d bytes at byte %d: %w", len(b), base, err)
	}
}

// cutPieces hashes b as the pieces that it goes on with: the one that is open, whole ones, and the beginning of the next.
func (s *sink) cutPieces(b []byte) {
	if s.filled > 0 {
		b = s.open(b)
	}
	var whole [][]byte
	for ; int64(len(b)) >= s.piece; b = b[s.piece:] {
		whole = append(whole, b[:s.piece])
	}
	at := len(s.pieces)
	s.pieces = append(s.pieces, make([]byte, len(whole)*sha1.Size)...)
	sha1Each(whole, func(i int, digest [sha1.Size]byte) { copy(s.pieces[at+i*sha1.Size:], digest[:]) })
	s.open(b)
}

// open adds to the piece that is open, and gives what goes beyond it.
func (s *sink) open(b []byte) []byte {
	n := min(int64(len(b)), s.piece-s.filled)
	s.part.Write(b[:n])
	if s.filled += n; s.filled == s.piece {
		s.pieces = s.part.Sum(s.pieces)
		s.part.Reset()
		s.filled = 0
	}
	return b[n:]
}
