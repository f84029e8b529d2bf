package release

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // torrents are made of SHA-1
	"errors"
	"hash"
	"os"
	"path"
)

const checksumsFile = "SHA256SUMS"

// errChecksums says that SHA256SUMS is there, and not what it has to be.
var errChecksums = errors.New("it does not say what release.json says")

// checksums checks the SHA256SUMS of a release, which nothing pins, against the one that its release.json makes.
func (v *verifier) checksums(p *published) {
	if _, err := v.root.checkChecksums(p); err != nil {
		v.find(path.Join(releaseDir(p.release), checksumsFile), "%v; `astropile verify --repair` writes it anew from release.json", err)
	}
}

// checkChecksums gives what a release's SHA256SUMS has to be, and an error where it is not that to the byte.
func (r root) checkChecksums(p *published) (want []byte, err error) {
	dir := releaseDir(p.release)
	raw, err := os.ReadFile(r.path(dir, "release.json"))
	if err != nil {
		return nil, err
	}
	want = sums(p.release, raw)
	st, err := os.Stat(r.path(dir, checksumsFile))
	if err != nil {
		return want, err
	}
	if st.Size() != int64(len(want)) || !st.Mode().IsRegular() {
		return want, errChecksums
	}
	got, err := os.ReadFile(r.path(dir, checksumsFile))
	if err == nil && !bytes.Equal(got, want) {
		err = errChecksums
	}
	return want, err
}

// writeChecksums writes every SHA256SUMS anew that is not what it has to be.
func (r root) writeChecksums(ctx context.Context, last *published) error {
	for n := 1; n <= last.release.Number; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, err := r.load(last.release.Dataset.Name, n)
		if err != nil {
			continue // its release.json is damaged, or what it pins: only a copy from elsewhere helps
		}
		want, err := r.checkChecksums(p)
		if err == nil {
			continue
		}
		if want == nil {
			return err
		}
		if err := r.writeFile(r.path(releaseDir(p.release), checksumsFile), want); err != nil {
			return err
		}
	}
	return nil
}

// pieceSums takes the SHA-1 of every piece of what is written to it, a whole number of pieces.
type pieceSums struct {
	sums []byte
	size int64
	left int64 // of the piece that is being written
	hash hash.Hash
}

func newPieceSums(size int64) *pieceSums {
	return &pieceSums{size: size, left: size, hash: sha1.New()} //nolint:gosec // torrents are made of SHA-1
}

func (p *pieceSums) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		k := min(int64(len(b)), p.left)
		_, _ = p.hash.Write(b[:k])
		b, p.left = b[k:], p.left-k
		if p.left == 0 {
			p.sums, p.left = p.hash.Sum(p.sums), p.size
			p.hash.Reset()
		}
	}
	return n, nil
}
