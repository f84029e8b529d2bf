package catalog

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Roles of a shard. Only primary rows enter the order.
const (
	Primary = "primary"
	Margin  = "margin"
	IDs     = "ids"
)

// NoSky stands for the order, pixel and pixel range of a shard without a place on the sky.
const NoSky = -1

// Shard is one line of a manifest: one immutable Parquet file.
type Shard struct {
	Path           string // slash-separated, relative to the root
	Role           string
	Release        int32 // the release that added it
	Order          int8  // HEALPix order, or NoSky
	Pix            int64 // NESTED pixel at that order, or NoSky
	HpxMin, HpxMax int64 // first and last value of _healpix_29 among its rows, or NoSky
	Rows, Bytes    int64
	SHA256         [32]byte
	TailOffset     int64
	TailDigest     [32]byte
}

var roleRank = map[string]int{Primary: 0, Margin: 1, IDs: 2}

// SortManifest sorts shards by (release, role, first _healpix_29, path).
func SortManifest(s []Shard) {
	slices.SortFunc(s, compareShards)
}

func compareShards(a, b Shard) int {
	return cmp.Or(cmp.Compare(a.Release, b.Release), cmp.Compare(roleRank[a.Role], roleRank[b.Role]),
		cmp.Compare(a.HpxMin, b.HpxMin), strings.Compare(a.Path, b.Path))
}

// CleanPath says whether p is a relative slash path that stays below the folder it is joined to.
func CleanPath(p string) bool {
	return p != "" && len(p) <= 4096 && p == path.Clean(p) && !path.IsAbs(p) && p != ".." && !strings.HasPrefix(p, "../") && !strings.ContainsAny(p, "\\\x00")
}

func (s *Shard) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: manifest: shard %q: %s", ErrDocument, s.Path, fmt.Sprintf(format, args...))
	}
	if !CleanPath(s.Path) || s.Path == "." {
		return bad("the path is not a clean relative path")
	}
	if _, ok := roleRank[s.Role]; !ok {
		return bad("role %q is unknown", s.Role)
	}
	if s.Release < 1 || s.Rows < 1 || s.Bytes < 12 || s.TailOffset < 4 || s.TailOffset >= s.Bytes {
		return bad("release %d, %d rows, %d bytes, tail at %d do not fit together", s.Release, s.Rows, s.Bytes, s.TailOffset)
	}
	if s.Order == NoSky {
		if s.Pix != NoSky || s.HpxMin != NoSky || s.HpxMax != NoSky {
			return bad("a shard without a HEALPix order has no pixel")
		}
		return nil
	}
	if s.Order < 0 || s.Order > 29 || s.Pix < 0 || s.Pix >= 12<<(2*s.Order) {
		return bad("pixel %d of order %d does not exist", s.Pix, s.Order)
	}
	if s.Role == Margin { // its rows lie around its pixel, not in it
		if s.HpxMin < 0 || s.HpxMin > s.HpxMax || s.HpxMax >= 12<<58 {
			return bad("_healpix_29 from %d to %d is not on the sky", s.HpxMin, s.HpxMax)
		}
		return nil
	}
	shift := 2 * (29 - s.Order)
	if s.HpxMin > s.HpxMax || s.HpxMin>>shift != s.Pix || s.HpxMax>>shift != s.Pix {
		return bad("_healpix_29 from %d to %d is not inside pixel %d of order %d", s.HpxMin, s.HpxMax, s.Pix, s.Order)
	}
	return nil
}

func manifestSchema() *arrow.Schema {
	i64, i32 := arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int32
	digest := &arrow.FixedSizeBinaryType{ByteWidth: 32}
	f := func(name string, t arrow.DataType, null bool) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: null}
	}
	return arrow.NewSchema([]arrow.Field{
		f("path", arrow.BinaryTypes.String, false), f("role", arrow.BinaryTypes.String, false), f("release", i32, false),
		f("norder", arrow.PrimitiveTypes.Int8, true), f("npix", i64, true), f("hpx_min", i64, true), f("hpx_max", i64, true),
		f("rows", i64, false), f("bytes", i64, false), f("sha256", digest, false), f("tail_offset", i64, false), f("tail_digest", digest, false),
	}, nil)
}

// EncodeManifest writes the manifest of a dataset as Parquet (docs/format.md, "manifest.parquet"). The shards are sorted.
func EncodeManifest(shards []Shard, created string) ([]byte, error) {
	shards = slices.Clone(shards)
	SortManifest(shards)
	b := array.NewRecordBuilder(memory.NewGoAllocator(), manifestSchema())
	defer b.Release()
	i64 := func(k int) *array.Int64Builder { return b.Field(k).(*array.Int64Builder) }
	opt := func(k int, v int64) {
		if v == NoSky {
			i64(k).AppendNull()
		} else {
			i64(k).Append(v)
		}
	}
	for i := range shards {
		s := &shards[i]
		if err := s.check(); err != nil {
			return nil, err
		}
		b.Field(0).(*array.StringBuilder).Append(s.Path)
		b.Field(1).(*array.StringBuilder).Append(s.Role)
		b.Field(2).(*array.Int32Builder).Append(s.Release)
		if s.Order == NoSky {
			b.Field(3).(*array.Int8Builder).AppendNull()
		} else {
			b.Field(3).(*array.Int8Builder).Append(s.Order)
		}
		opt(4, s.Pix)
		opt(5, s.HpxMin)
		opt(6, s.HpxMax)
		i64(7).Append(s.Rows)
		i64(8).Append(s.Bytes)
		b.Field(9).(*array.FixedSizeBinaryBuilder).Append(s.SHA256[:])
		i64(10).Append(s.TailOffset)
		b.Field(11).(*array.FixedSizeBinaryBuilder).Append(s.TailDigest[:])
	}
	return encodeRecord(b, created)
}

func encodeRecord(b *array.RecordBuilder, created string) ([]byte, error) {
	rec := b.NewRecordBatch()
	defer rec.Release()
	var buf bytes.Buffer
	w, err := newTableWriter(&buf, nil, rec.Schema(), created)
	if err != nil {
		return nil, err
	}
	if err := w.w.WriteBuffered(rec); err != nil {
		return nil, err
	}
	if err := w.close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// DecodeManifest reads a manifest. Its order, its paths and the sense of every line are checked.
func DecodeManifest(b []byte) ([]Shard, error) {
	var out []Shard
	err := readTable("manifest", b, nil, sameSchema("manifest", manifestSchema()), func(rec arrow.RecordBatch) error {
		col := func(k int) *array.Int64 { return rec.Column(k).(*array.Int64) }
		opt := func(k, i int) int64 {
			if rec.Column(k).IsNull(i) {
				return NoSky
			}
			return col(k).Value(i)
		}
		for _, k := range []int{0, 1, 2, 7, 8, 9, 10, 11} {
			if rec.Column(k).NullN() > 0 {
				return fmt.Errorf("%w: manifest: column %d holds a null", ErrDocument, k)
			}
		}
		for i := 0; i < int(rec.NumRows()); i++ {
			s := Shard{
				Path: strings.Clone(rec.Column(0).(*array.String).Value(i)), Role: strings.Clone(rec.Column(1).(*array.String).Value(i)), Release: rec.Column(2).(*array.Int32).Value(i),
				Order: NoSky, Pix: opt(4, i), HpxMin: opt(5, i), HpxMax: opt(6, i), Rows: col(7).Value(i), Bytes: col(8).Value(i), TailOffset: col(10).Value(i),
			}
			if rec.Column(3).IsValid(i) {
				s.Order = rec.Column(3).(*array.Int8).Value(i)
			}
			copy(s.SHA256[:], rec.Column(9).(*array.FixedSizeBinary).Value(i))
			copy(s.TailDigest[:], rec.Column(11).(*array.FixedSizeBinary).Value(i))
			if err := s.check(); err != nil {
				return err
			}
			if len(out) > 0 && compareShards(out[len(out)-1], s) >= 0 {
				return fmt.Errorf("%w: manifest: shard %q is out of order or stands twice", ErrDocument, s.Path)
			}
			out = append(out, s)
		}
		return nil
	})
	return out, err
}
