package synth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"astropile/internal/catalog"
)

func digest(t *testing.T, b *catalog.Batch) string {
	t.Helper()
	h := sha256.New()
	var add func(v *catalog.Vector)
	add = func(v *catalog.Vector) {
		h.Write(v.Data)
		for _, o := range v.Offsets {
			h.Write([]byte{byte(o), byte(o >> 8), byte(o >> 16)})
		}
		for _, m := range v.Members {
			add(m)
		}
	}
	for _, v := range b.Vectors {
		add(v)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// The digests are the promise that a seed gives the same bytes on every machine and in every version.
func TestASeedGivesTheSameBytesForEver(t *testing.T) {
	golden := map[string]string{
		"images": "abafa7a0f7df3ba0", "rgb": "06ee9c4de7ce1f93", "spectra": "a42a1b0efc7a8c52", "lightcurves": "89cf5d4aaae8760e", "table": "8047bbcfb6942da1",
	}
	for _, kind := range Kinds() {
		s, err := New(kind, 1<<20, 1)
		if err != nil {
			t.Fatal(err)
		}
		n := min(s.Rows(), 7)
		b, err := s.Read(context.Background(), 0, n)
		if err != nil {
			t.Fatal(err)
		}
		if d := digest(t, b); d != golden[kind] {
			t.Errorf("%s: digest %s, want %s", kind, d, golden[kind])
		}
		parts, err := s.Read(context.Background(), 2, n)
		if err != nil {
			t.Fatal(err)
		}
		for k := range b.Columns {
			want := b.Vectors[k].Slice(&b.Columns[k], 2, int(n))
			if c := &b.Columns[k]; c.Fixed() && !bytes.Equal(want.Data, parts.Vectors[k].Data) {
				t.Errorf("%s: column %s depends on where reading starts", kind, c.Name)
			}
		}
		other, err := New(kind, 1<<20, 2)
		if err != nil {
			t.Fatal(err)
		}
		o, err := other.Read(context.Background(), 0, n)
		if err != nil {
			t.Fatal(err)
		}
		if digest(t, o) == digest(t, b) {
			t.Errorf("%s: another seed gives the same bytes", kind)
		}
	}
}

func TestAnUnknownKindAndBadRowsAreRefused(t *testing.T) {
	if _, err := New("cubes", 1, 1); !errors.Is(err, ErrKind) {
		t.Fatal(err)
	}
	s, err := New("table", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(context.Background(), 0, s.Rows()+1); err == nil {
		t.Fatal("rows beyond the end were made")
	}
}

func BenchmarkImages(b *testing.B) {
	s, err := New("images", 1<<30, 1)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(s.Slab() * 147456)
	for b.Loop() {
		if _, err := s.Read(context.Background(), 0, s.Slab()); err != nil {
			b.Fatal(err)
		}
	}
}
