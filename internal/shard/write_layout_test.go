package shard

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"astropile/internal/catalog"
)

// pagesOf lists where the pages of a shard stand, dictionaries included, by walking the column chunks; each must carry
// the checksum of its bytes.
func pagesOf(t *testing.T, b []byte, m *FileMetaData) (starts []int64, end int64) {
	t.Helper()
	end = 4
	for g := range m.RowGroups {
		for k := range m.RowGroups[g].Columns {
			c := &m.RowGroups[g].Columns[k].Meta
			at := c.DataPageOffset
			if c.DictPageOffset > 0 {
				at = c.DictPageOffset
			}
			if at != end {
				t.Fatalf("row group %d, leaf %d begins at byte %d, the one before ends at %d", g, k, at, end)
			}
			for end = at + c.TotalCompressed; at < end; {
				starts = append(starts, at)
				h, size, err := DecodePageHeader(b[at:])
				if err != nil {
					t.Fatal(err)
				}
				if !h.HasCRC {
					t.Fatalf("the page at byte %d has no checksum", at)
				}
				at += int64(size) + int64(h.CompressedSize)
			}
			if at != end {
				t.Fatalf("the pages of row group %d, leaf %d end at byte %d, its metadata says %d", g, k, at, end)
			}
		}
	}
	return starts, end
}

func TestUnitsCoverTheDataAndZerosFollow(t *testing.T) {
	for _, s := range append(samples(), mixed()) {
		t.Run(s.name, func(t *testing.T) {
			b, info := s.write(t, s.spec(), s.rows)
			m := footer(t, b)
			starts, end := pagesOf(t, b, m)
			table, _ := m.Value(KeyUnits)
			units, err := DecodeUnits(table, info.TailOffset)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(units, info.Units) {
				t.Error("the table in the footer is not the one that Info has")
			}
			dictionaries := map[int64]bool{} // starts of the pages that follow a dictionary
			groups := map[int64]bool{end: true}
			for g := range m.RowGroups {
				groups[m.RowGroups[g].FileOffset] = true
				for k := range m.RowGroups[g].Columns {
					if c := &m.RowGroups[g].Columns[k].Meta; c.DictPageOffset > 0 {
						dictionaries[c.DataPageOffset] = true
					}
				}
			}
			at := int64(0)
			for i, u := range units {
				if u.Start != at || u.End <= u.Start {
					t.Fatalf("unit %d is %d to %d, the one before ends at %d", i, u.Start, u.End, at)
				}
				at = u.End
				if _, page := slices.BinarySearch(starts, u.End); u.End != end && !page || dictionaries[u.End] {
					t.Errorf("unit %d ends at byte %d, which is no page's start or parts a dictionary from its page", i, u.End)
				}
				whole := groups[u.End] && (i == 0 || groups[u.Start])
				if u.End-u.Start < UnitBytes && !whole {
					t.Errorf("unit %d has %d bytes and is not a whole row group", i, u.End-u.Start)
				}
				for start := range groups {
					if start > max(u.Start, 4) && start < u.End {
						t.Errorf("unit %d, bytes %d to %d, spans the start of a row group at %d", i, u.Start, u.End, start)
					}
				}
			}
			if at != end {
				t.Errorf("units end at byte %d, pages at %d", at, end)
			}
			if len(bytes.Trim(b[end:info.TailOffset], "\x00")) != 0 {
				t.Error("what stands between data and tail is not zero")
			}
			if int64(len(b))%s.spec().Piece != 0 || info.TailOffset-end >= 2*s.spec().Piece {
				t.Errorf("%d bytes with %d zeros for pieces of %d", len(b), info.TailOffset-end, s.spec().Piece)
			}
		})
	}
}

func TestALengthIsAMultipleOfAnyPiece(t *testing.T) {
	s := newSample("s", 40, 3, scalar("id", catalog.Int64, false), tensor("t", catalog.Float32, 20, 20))
	for _, piece := range []int64{1, 7, 100, 4096, 64 << 10, 1 << 20, 4 << 20} {
		spec := s.spec()
		spec.Piece = piece
		b, info := s.write(t, spec, 9)
		if int64(len(b))%piece != 0 || int64(len(info.Pieces)) != int64(len(b))/piece*20 {
			t.Errorf("pieces of %d: %d bytes, %d bytes of piece hashes", piece, len(b), len(info.Pieces))
		}
	}
}

func TestPagesHoldTheRowsThatTheFormatSays(t *testing.T) {
	all := append(samples(), mixed(), newSample("edges", 70, 4, tensor("just", catalog.Uint8, 65536), tensor("over", catalog.Uint8, 65537), tensor("half", catalog.Float32, 8192), tensor("less", catalog.Float32, 8193)))
	seen := map[string]bool{}
	for _, s := range all {
		b, _ := s.write(t, s.spec(), s.rows)
		m := footer(t, b)
		for g := range m.RowGroups {
			for k := range m.RowGroups[g].Columns {
				chunk := &m.RowGroups[g].Columns[k]
				i := slices.IndexFunc(s.cols, func(c catalog.Column) bool { return c.Name == chunk.Meta.Path[0] })
				c := &s.cols[i]
				x, err := DecodeOffsetIndex(b[chunk.OffsetIndexOffset : chunk.OffsetIndexOffset+int64(chunk.OffsetIndexLength)])
				if err != nil {
					t.Fatal(err)
				}
				if c.Kind != catalog.Tensor {
					if x.Pages[0].FirstRow != 0 {
						t.Errorf("%s: the first page of %s begins with row %d", s.name, c.Name, x.Pages[0].FirstRow)
					}
					continue
				}
				row := c.DType.Size() * c.Elems()
				each := max(1, 65_536/row)
				if slices.Contains(s.constant, c.Name) {
					each = max(1, (1<<20)/row)
				}
				seen[fmt.Sprint(c.Layout, c.Codec)] = true
				if want := (m.RowGroups[g].NumRows + int64(each) - 1) / int64(each); int64(len(x.Pages)) != want {
					t.Errorf("%s: %s has %d pages in row group %d, want %d", s.name, c.Name, len(x.Pages), g, want)
					continue
				}
				for p, page := range x.Pages {
					if page.FirstRow != int64(p*each) {
						t.Errorf("%s: page %d of %s begins with row %d, want %d", s.name, p, c.Name, page.FirstRow, p*each)
					}
				}
			}
		}
	}
	if len(seen) < 7 {
		t.Errorf("only %v were seen", seen)
	}
}
