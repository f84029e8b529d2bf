package shard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"astropile/internal/catalog"
)

func indexShard(t *testing.T, cols []catalog.Column, from, rows int) []byte {
	t.Helper()
	b := &catalog.Batch{Columns: cols, Rows: rows}
	for i := range cols {
		v := catalog.NewVector(&cols[i])
		for k := range rows {
			v.Data = append(v.Data, binary.LittleEndian.AppendUint64(nil, uint64(from+k))[:cols[i].RowBytes()]...)
		}
		v.Rows = rows
		b.Vectors = append(b.Vectors, v)
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, Spec{Columns: cols, Piece: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestMetadataNamesTheRowGroupsOfEveryShard(t *testing.T) {
	cols := catalog.IndexColumns(&catalog.Column{Name: "id", Kind: catalog.Scalar, DType: catalog.Int64})
	m, err := NewMetadata(cols, "astropile test")
	if err != nil {
		t.Fatal(err)
	}
	for k, path := range []string{"index/1/00000/a.parquet", "index/2/00000/b.parquet"} {
		b := indexShard(t, cols, 100*k, 10+k)
		if err := m.Add(context.Background(), path, bytes.NewReader(b), int64(len(b))); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	n := int(binary.LittleEndian.Uint32(raw[len(raw)-8:]))
	got, err := DecodeFileMetaData(raw[len(raw)-8-n : len(raw)-8])
	if err != nil {
		t.Fatal(err)
	}
	if got.NumRows != 21 || len(got.RowGroups) != 2 || got.CreatedBy != "astropile test" {
		t.Fatalf("%+v", got)
	}
	for k, g := range got.RowGroups {
		if int(g.Ordinal) != k || g.NumRows != int64(10+k) {
			t.Errorf("row group %d: %+v", k, g)
		}
		for _, c := range g.Columns {
			if c.FilePath != []string{"index/1/00000/a.parquet", "index/2/00000/b.parquet"}[k] || c.Meta.Statistics == nil {
				t.Errorf("row group %d: %+v", k, c)
			}
		}
		if least := binary.LittleEndian.Uint64(g.Columns[0].Meta.Statistics.Min); least != uint64(100*k) {
			t.Errorf("row group %d: least %d", k, least)
		}
	}
	other := catalog.IndexColumns(&catalog.Column{Name: "id", Kind: catalog.Scalar, DType: catalog.Int32})
	b := indexShard(t, other, 0, 3)
	if err := m.Add(context.Background(), "c", bytes.NewReader(b), int64(len(b))); !errors.Is(err, ErrFormat) {
		t.Errorf("other columns: %v", err)
	}
	if err := m.Add(context.Background(), "d", bytes.NewReader(b[:100]), 100); !errors.Is(err, ErrFormat) {
		t.Errorf("half a shard: %v", err)
	}
}
