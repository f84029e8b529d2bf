package shard

import (
	"encoding/binary"

	"astropile/internal/catalog"
)

// statColumn gathers the statistics of a scalar column over row groups.
type statColumn struct {
	at          int // of the column in the shard
	col         []catalog.Column
	bounds      *catalog.Vector // least and greatest value of each row group that has one
	nulls, nans int64
}

func newStatColumn(at int, c *catalog.Column) *statColumn {
	return &statColumn{at: at, col: []catalog.Column{*c}, bounds: catalog.NewVector(c)}
}

// add takes the statistics of a row group's rows.
func (s *statColumn) add(v *catalog.Vector) {
	row := catalog.Stats(s.col, []*catalog.Vector{v})
	for _, bound := range row[:2] {
		if !bound.Null(0) {
			appendRows(s.bounds, &s.col[0], bound, 0, 1)
		}
	}
	s.nulls += int64(binary.LittleEndian.Uint64(row[2].Data))
	s.nans += int64(binary.LittleEndian.Uint64(row[3].Data))
}

// result is min, max, nulls and nans, one row each.
func (s *statColumn) result() []*catalog.Vector {
	row := catalog.Stats(s.col, []*catalog.Vector{s.bounds})
	for i, n := range []int64{s.nulls, s.nans} {
		row[2+i].Data = binary.LittleEndian.AppendUint64(nil, uint64(n))
	}
	return row
}
