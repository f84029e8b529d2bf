package shard

import (
	"bytes"
	"errors"
	"runtime/metrics"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Memory a decoder may take: so many bytes for each byte it is given, and so many besides. The smallest key and value
// that is accepted is one byte and becomes two strings in a slice that grows.
const (
	allocFactor = 300
	allocBase   = 512 << 10
)

// boundAlloc fails where f, given n bytes, takes more memory than the bound.
func boundAlloc(t *testing.T, n int, f func()) {
	t.Helper()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	before := sample[0].Value.Uint64()
	f()
	metrics.Read(sample)
	if got := sample[0].Value.Uint64() - before; got > uint64(n)*allocFactor+allocBase {
		t.Fatalf("%d bytes of memory for %d bytes", got, n)
	}
}

// FuzzThrift passes over a value of any type: it ends within the bytes it was given, and one byte less is an error.
func FuzzThrift(f *testing.F) {
	f.Add(fullMetaData().Encode(), byte(wireStruct), false)
	f.Add([]byte{0x2c, 0, 0}, byte(wireList), true)
	f.Add([]byte{2, wireBinary<<4 | wireTrue, 1, 'k', 1, 0, 2}, byte(wireMap), true)
	f.Add(bytes.Repeat([]byte{0x19}, 40), byte(wireSet), true)
	f.Fuzz(func(t *testing.T, b []byte, kind byte, element bool) {
		r := &thriftReader{b: b}
		var err error
		boundAlloc(t, len(b), func() { err = r.skip(kind, element) })
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		if r.pos > len(b) || r.depth != 0 {
			t.Fatalf("at byte %d of %d, %d deep", r.pos, len(b), r.depth)
		}
		if r.pos == 0 {
			return
		}
		short := &thriftReader{b: b[:r.pos-1]}
		if err := short.skip(kind, element); !errors.Is(err, ErrFormat) {
			t.Fatalf("a value of %d bytes without its last one: %v", r.pos, err)
		}
	})
}

func TestThriftValuesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Int16Range(1, 32767), 1, 12, rapid.ID[int16]).Draw(t, "ids")
		slices.Sort(ids)
		var want, got []any
		w := &thriftWriter{}
		w.body(func() {
			for _, id := range ids {
				switch rapid.IntRange(0, 5).Draw(t, "kind") {
				case 0:
					v := rapid.Int64().Draw(t, "v")
					w.i64(id, v)
					want = append(want, v)
				case 1:
					v := rapid.Int32().Draw(t, "v")
					w.i32(id, v)
					want = append(want, int64(v))
				case 2:
					v := rapid.Int16().Draw(t, "v")
					w.i16(id, v)
					want = append(want, int64(v))
				case 3:
					v := rapid.Int8().Draw(t, "v")
					w.i8(id, v)
					want = append(want, int64(v))
				case 4:
					v := rapid.Bool().Draw(t, "v")
					w.bool(id, v)
					want = append(want, v)
				default:
					v := rapid.String().Draw(t, "v")
					w.string(id, v)
					want = append(want, v)
				}
			}
		})
		r := &thriftReader{b: w.b}
		var seen []int16
		err := r.fields(wireStruct, func(id int16, kind byte) error {
			seen = append(seen, id)
			switch kind {
			case wireTrue, wireFalse:
				v, err := r.bool(kind)
				got = append(got, v)
				return err
			case wireBinary:
				v, err := r.string(kind)
				got = append(got, v)
				return err
			}
			v, err := r.i64(kind)
			got = append(got, v)
			return err
		})
		if err != nil || r.left() != 0 || !slices.Equal(seen, ids) || !slices.Equal(got, want) {
			t.Fatalf("%v %v, %v; want %v %v", seen, got, err, ids, want)
		}
	})
}
