package shard

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"astropile/internal/catalog"
)

// mixed is a sample of some row groups with every kind of column.
func mixed() *sample {
	z := tensor("z", catalog.Float32, 33, 20)
	z.Codec = catalog.Zstd
	return newSample("mixed", 500, 42, scalar("id", catalog.String, false), scalar("k", catalog.Int32, true), list("l", catalog.Float32, true), lightcurve("lc", true),
		tensor("image", catalog.Float32, 4, 48, 48), tensor("rgb", catalog.Uint8, 3, 100, 100), tensor("mask", catalog.Bool, 48, 48), z, tensor("wave", catalog.Float32, 781)).makeConstant("wave")
}

func TestTheSameRowsGiveTheSameBytes(t *testing.T) {
	s := mixed()
	want, info := s.write(t, s.spec(), s.rows)
	if len(info.Units) < 50 || info.Payload < 2*GroupPayload {
		t.Fatalf("the sample is too small to show anything: %d units", len(info.Units))
	}
	for _, batch := range []int{1, 7, 64, 499} {
		for _, procs := range []int{1, 4} {
			t.Run(fmt.Sprintf("batches of %d on %d", batch, procs), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				got, i := s.write(t, s.spec(), batch)
				if !bytes.Equal(got, want) {
					t.Fatal("other bytes")
				}
				if !reflect.DeepEqual(i, info) {
					t.Fatal("other information")
				}
			})
		}
	}
}

func TestInfoIsWhatTheBytesSay(t *testing.T) {
	for _, digest := range []string{"", DigestSHA256, DigestBLAKE3} {
		s := mixed()
		spec := s.spec()
		spec.Digest = digest
		b, info := s.write(t, spec, 100)
		if info.Bytes != int64(len(b)) || info.Bytes%spec.Piece != 0 || info.Rows != int64(s.rows) {
			t.Fatalf("%d bytes, %d rows", info.Bytes, info.Rows)
		}
		if info.SHA256 != sha256.Sum256(b) {
			t.Error("SHA-256")
		}
		var pieces []byte
		for p := b; len(p) > 0; p = p[spec.Piece:] {
			sum := sha1.Sum(p[:spec.Piece])
			pieces = append(pieces, sum[:]...)
		}
		if !bytes.Equal(info.Pieces, pieces) {
			t.Error("pieces")
		}
		sum, err := DigestFunc(digest)
		if err != nil {
			t.Fatal(err)
		}
		if info.TailDigest != sum(b[info.TailOffset:]) {
			t.Error("tail digest")
		}
		for i, u := range info.Units {
			if u.Digest != sum(b[u.Start:u.End]) {
				t.Errorf("unit %d", i)
			}
		}
		var payload int64
		for i := range s.rows {
			payload += s.batch().Payload(i)
		}
		if info.Payload != payload {
			t.Errorf("payload %d, want %d", info.Payload, payload)
		}
		check, err := Verify(context.Background(), bytes.NewReader(b), info.Bytes, VerifyOptions{Deep: true})
		if err != nil {
			t.Fatal(err)
		}
		if check.Rows != info.Rows || check.TailOffset != info.TailOffset || check.TailDigest != info.TailDigest || !reflect.DeepEqual(check.Units, info.Units) {
			t.Error("what Verify finds differs from what was written")
		}
		if want := catalog.Stats(s.cols, s.vectors); !reflect.DeepEqual(plain(info.Stats), plain(want)) {
			t.Errorf("statistics %+v, want %+v", plain(info.Stats), plain(want))
		}
	}
}

// plain shows vectors of one row as text.
func plain(vs []*catalog.Vector) []string {
	var out []string
	for _, v := range vs {
		out = append(out, fmt.Sprintf("%x %v", v.Data, v.Null(0)))
	}
	return out
}

func footer(t *testing.T, b []byte) *FileMetaData {
	t.Helper()
	n := int(binary.LittleEndian.Uint32(b[len(b)-8:]))
	m, err := DecodeFileMetaData(b[len(b)-8-n : len(b)-8])
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestARowGroupHoldsTheMostRowsThatFit(t *testing.T) {
	for _, s := range []*sample{mixed(), newSample("text", 40_000, 5, scalar("id", catalog.String, true), list("l", catalog.Float64, false), tensor("t", catalog.Float32, 300)),
		newSample("large", 3, 6, tensor("t", catalog.Uint8, 17<<20))} {
		b, _ := s.write(t, s.spec(), 333)
		row := 0
		for g, group := range footer(t, b).RowGroups {
			sum := int64(0)
			for range group.NumRows {
				sum += s.batch().Payload(row)
				row++
			}
			if sum > GroupPayload && group.NumRows > 1 {
				t.Errorf("%s: row group %d holds %d bytes", s.name, g, sum)
			}
			if row < s.rows && sum+s.batch().Payload(row) <= GroupPayload {
				t.Errorf("%s: row %d would fit row group %d of %d bytes", s.name, row, g, sum)
			}
		}
		if row != s.rows {
			t.Errorf("%s: %d rows", s.name, row)
		}
	}
}

func TestUncompressedValuesStandAtMultiplesOf64(t *testing.T) {
	for _, s := range []*sample{mixed(), samples()[2], samples()[7]} {
		b, _ := s.write(t, s.spec(), s.rows)
		aligned := 0
		for _, g := range footer(t, b).RowGroups {
			for _, c := range g.Columns {
				i := len(s.cols)
				for k := range s.cols {
					if s.cols[k].Name == c.Meta.Path[0] {
						i = k
					}
				}
				col := &s.cols[i]
				if col.Kind != catalog.Tensor || c.Meta.Codec != CompressNone || col.Layout == catalog.RLE {
					continue
				}
				x, err := DecodeOffsetIndex(b[c.OffsetIndexOffset : c.OffsetIndexOffset+int64(c.OffsetIndexLength)])
				if err != nil {
					t.Fatal(err)
				}
				for _, p := range x.Pages {
					h, _, err := DecodePageHeader(b[p.Offset:])
					if err != nil {
						t.Fatal(err)
					}
					n := int64(h.Data.NumValues)
					if n < minAligned {
						continue
					}
					size := n * int64(col.DType.Component().Size())
					switch col.Layout {
					case catalog.Widened:
						size = 4 * n
					case catalog.Identity:
						size = (n + 7) / 8 * 8 * int64(col.DType.Size())
					}
					if at := p.Offset + int64(p.Size) - size; at%alignment != 0 {
						t.Fatalf("%s: values of %d at byte %d", col.Name, n, at)
					}
					aligned++
				}
			}
		}
		if aligned == 0 {
			t.Errorf("%s: nothing to align", s.name)
		}
	}
}

func TestOurSchemaIsTheOneThatArrowMakes(t *testing.T) {
	for _, s := range samples() {
		arrowSchema, err := ArrowSchema(s.cols)
		if err != nil {
			t.Fatal(err)
		}
		var buf bytes.Buffer
		w, err := pqarrow.NewFileWriter(arrowSchema, struct{ io.Writer }{&buf}, nil, pqarrow.DefaultWriterProps())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		want := footer(t, buf.Bytes()).Schema
		got, _ := parquetSchema(s.cols)
		for i := 1; i < len(want); i++ {
			if got[i] != want[i] && !(want[i].Logical == LogicalNone || want[i].Converted == ConvertedNone) {
				t.Errorf("%s: element %d is %+v, arrow-go has %+v", s.name, i, got[i], want[i])
			}
			a, b := got[i], want[i]
			if a.Name != b.Name || a.Leaf != b.Leaf || a.Type != b.Type || a.Repetition != b.Repetition || a.Children != b.Children || a.TypeLength != b.TypeLength {
				t.Errorf("%s: element %d is %+v, arrow-go has %+v", s.name, i, a, b)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d elements, arrow-go has %d", s.name, len(got), len(want))
		}
	}
}

func TestUnitsAreCutByTheRule(t *testing.T) {
	k := func(n int) int { return n << 10 }
	for _, c := range []struct {
		name        string
		from, start int64
		chunks      [][]int
		want        []int64
	}{
		{"a small row group is one unit", 0, 4, [][]int{{k(1)}, {k(2), k(3)}}, []int64{4 + 6<<10}},
		{"pages until 128 KiB", 0, 0, [][]int{{k(64), k(64), k(64), k(64)}}, []int64{128 << 10, 256 << 10}},
		{"the rest joins the last unit of its chunk", 0, 0, [][]int{{k(64), k(64), k(64)}, {k(130)}}, []int64{192 << 10, 322 << 10}},
		{"small chunks join each other", 0, 0, [][]int{{k(50)}, {k(50)}, {k(50)}, {k(130)}}, []int64{150 << 10, 280 << 10}},
		{"a small chunk joins the pages after it", 0, 0, [][]int{{k(100)}, {k(30), k(120)}}, []int64{250 << 10}},
		{"a small chunk is not cut", 0, 0, [][]int{{k(100)}, {k(60), k(60)}}, []int64{220 << 10}},
		{"what is left at the end joins the unit before", 0, 0, [][]int{{k(130)}, {k(5)}, {k(6)}}, []int64{141 << 10}},
		{"the file's magic counts", 0, 4, [][]int{{k(128) - 4, k(128)}}, []int64{128 << 10, 256 << 10}},
		{"a later row group starts anew", 1000, 1000, [][]int{{k(128)}}, []int64{1000 + 128<<10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := unitEnds(c.from, c.start, c.chunks); !reflect.DeepEqual(got, c.want) {
				t.Fatalf("%v, want %v", got, c.want)
			}
		})
	}
}

// fullDisk takes so many bytes.
type fullDisk struct{ room int }

func (d *fullDisk) Write(b []byte) (int, error) {
	if len(b) > d.room {
		n := d.room
		d.room = 0
		return n, syscall.ENOSPC
	}
	d.room -= len(b)
	return len(b), nil
}

// shortDisk says that all is well and does not take everything.
type shortDisk struct{}

func (shortDisk) Write(b []byte) (int, error) { return len(b) - 1, nil }

func TestADiskThatFailsIsAnError(t *testing.T) {
	s := mixed()
	whole, _ := s.write(t, s.spec(), s.rows)
	try := func(dst io.Writer) error {
		w, err := NewWriter(dst, s.spec())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		for lo := 0; lo < s.rows; lo += 50 {
			if err := w.Write(context.Background(), s.slice(lo, lo+50)); err != nil {
				if again := w.Write(context.Background(), s.slice(lo, lo+50)); again == nil {
					t.Error("a writer that failed goes on")
				}
				return err
			}
		}
		info, err := w.Close(context.Background())
		if err == nil || info != nil {
			t.Error("a shard that was not written is reported as written")
		}
		return err
	}
	for _, room := range []int{0, 3, len(whole) / 3, len(whole) / 2, len(whole) - 70_000, len(whole) - 1} {
		if err := try(&fullDisk{room}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
	if err := try(shortDisk{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a short write: %v", err)
	}
}

func TestACancelledWriterStops(t *testing.T) {
	s := mixed()
	w, err := NewWriter(io.Discard, s.spec())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.Write(ctx, s.batch()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	w.Abort()
	w.Abort()
	if _, err := w.Close(context.Background()); err == nil {
		t.Error("a writer that was aborted closes")
	}
}

func TestWhatWouldNotComeBackIsRefused(t *testing.T) {
	base := func() *sample {
		return newSample("s", 20, 1, scalar("id", catalog.String, false), scalar("ok", catalog.Bool, true), list("l", catalog.String, true), lightcurve("lc", true), tensor("t", catalog.Float32, 3), tensor("m", catalog.Bool, 3))
	}
	at := func(s *sample, name string) (*catalog.Column, *catalog.Vector) {
		for i := range s.cols {
			if s.cols[i].Name == name {
				return &s.cols[i], s.vectors[i]
			}
		}
		t.Fatal(name)
		return nil, nil
	}
	for _, c := range []struct {
		name   string
		change func(s *sample, spec *Spec)
		says   string
	}{
		{"a null where none may be", func(s *sample, _ *Spec) {
			_, v := at(s, "id")
			v.Valid = make([]bool, s.rows)
			for i := range v.Valid {
				v.Valid[i] = i != 13
			}
		}, `"id" is null in row 13`},
		{"a bool of 2", func(s *sample, _ *Spec) { _, v := at(s, "m"); v.Data[3*5] = 2 }, "row 5"},
		{"text that is not UTF-8", func(s *sample, _ *Spec) { _, v := at(s, "id"); v.Data[v.Offsets[1]-1] = 0xff }, "UTF-8"},
		{"members of different lengths", func(s *sample, _ *Spec) {
			_, v := at(s, "lc")
			v.Members[1].Offsets[s.rows]--
		}, "elements"},
		{"a null list with elements", func(s *sample, _ *Spec) {
			_, v := at(s, "l")
			v.Valid = make([]bool, s.rows)
		}, "null and has elements"},
		{"rows that differ in a constant column", func(_ *sample, spec *Spec) { spec.Constant = []string{"t"} }, "announced as constant"},
		{"a constant column that is not there", func(_ *sample, spec *Spec) { spec.Constant = []string{"nope"} }, "nope"},
		{"a constant scalar", func(_ *sample, spec *Spec) { spec.Constant = []string{"id"} }, "only a tensor"},
		{"columns out of order", func(s *sample, spec *Spec) {
			spec.Columns = append([]catalog.Column{s.cols[len(s.cols)-1]}, s.cols[:len(s.cols)-1]...)
		}, "order"},
		{"another column", func(s *sample, spec *Spec) {
			spec.Columns = append([]catalog.Column{}, s.cols...)
			spec.Columns[0].Name = "other"
		}, "other"},
		{"rows of another shape", func(s *sample, spec *Spec) {
			spec.Columns = slices.Clone(s.cols)
			spec.Columns[len(s.cols)-2].Shape = []int{1, 3}
		}, "[1 3]"},
		{"members in another order", func(s *sample, spec *Spec) {
			spec.Columns = slices.Clone(s.cols)
			at := slices.IndexFunc(s.cols, func(c catalog.Column) bool { return c.Name == "lc" })
			m := slices.Clone(s.cols[at].Members)
			m[1], m[2] = m[2], m[1]
			spec.Columns[at].Members = m
		}, "lc"},
		{"no piece size", func(_ *sample, spec *Spec) { spec.Piece = 0 }, "piece"},
		{"an unknown digest", func(_ *sample, spec *Spec) { spec.Digest = "md5" }, "md5"},
		{"a layout that does not suit", func(s *sample, spec *Spec) {
			spec.Columns = append([]catalog.Column{}, s.cols...)
			spec.Columns[len(s.cols)-1].Layout = catalog.Identity
		}, "layout"},
		{"no rows", func(s *sample, _ *Spec) { s.rows = 0 }, "no rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := base()
			spec := s.spec()
			c.change(s, &spec)
			err := func() error {
				w, err := NewWriter(io.Discard, spec)
				if err != nil {
					return err
				}
				defer w.Abort()
				if s.rows > 0 {
					if err := w.Write(context.Background(), s.batch()); err != nil {
						return err
					}
				}
				_, err = w.Close(context.Background())
				return err
			}()
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v; want an error that says %q", err, c.says)
			}
		})
	}
}

func TestStatisticsLeaveOutWhatDoesNotCompare(t *testing.T) {
	s := newSample("s", 3, 1, scalar("x", catalog.Float64, true))
	v := s.vectors[0]
	v.Valid = []bool{true, false, true}
	for i, x := range []float64{math.NaN(), 0, -3} {
		binary.LittleEndian.PutUint64(v.Data[8*i:], math.Float64bits(x))
	}
	_, info := s.write(t, s.spec(), 1)
	got := plain(info.Stats)
	want := []string{fmt.Sprintf("%x false", binary.LittleEndian.AppendUint64(nil, math.Float64bits(-3))), "", "0100000000000000 false", "0100000000000000 false"}
	want[1] = want[0]
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestVerifyFindsEveryChangedByte(t *testing.T) {
	s := newSample("s", 300, 2, scalar("id", catalog.String, false), list("l", catalog.Float32, true), tensor("t", catalog.Float32, 30, 30), tensor("u", catalog.Uint8, 999))
	b, info := s.write(t, s.spec(), s.rows)
	ctx := context.Background()
	end := info.Units[len(info.Units)-1].End
	if info.TailOffset-end < 100 || len(info.Units) < 3 {
		t.Fatalf("%d zeros and %d units show nothing", info.TailOffset-end, len(info.Units))
	}
	r := rand.New(rand.NewPCG(5, 5))
	for try := range 300 {
		at := r.Int64N(info.Bytes)
		if try%3 == 0 {
			at = end + r.Int64N(info.TailOffset-end)
		}
		if try%3 == 1 {
			at = info.TailOffset + r.Int64N(info.Bytes-info.TailOffset)
		}
		bad := bytes.Clone(b)
		bad[at] ^= 1 << r.IntN(8)
		check, err := Verify(ctx, bytes.NewReader(bad), info.Bytes, VerifyOptions{Deep: true})
		if err == nil && check.TailDigest == info.TailDigest {
			t.Fatalf("byte %d is changed and nothing is said", at)
		}
		if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrDigest) {
			t.Fatalf("byte %d: %v", at, err)
		}
		if shallow, err := Verify(ctx, bytes.NewReader(bad), info.Bytes, VerifyOptions{}); at >= end && err == nil && shallow.TailDigest == info.TailDigest {
			t.Fatalf("byte %d, behind the data, is changed and a check that is not deep says nothing", at)
		}
	}
	if _, err := Verify(ctx, bytes.NewReader(b[:len(b)-1]), info.Bytes-1, VerifyOptions{Deep: true}); err == nil {
		t.Error("a shard that lacks a byte is accepted")
	}
}
