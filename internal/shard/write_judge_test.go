package shard

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"astropile/internal/catalog"
)

// judgeColumn tells a judge where the raw parts of a column are: files of little-endian values beside the shard.
type judgeColumn struct {
	catalog.Column
	Data       string        `json:"data,omitempty"`
	Offsets    string        `json:"offsets,omitempty"`
	StrOffsets string        `json:"str_offsets,omitempty"`
	Valid      string        `json:"valid,omitempty"`
	Parts      []judgeColumn `json:"parts,omitempty"`
}

// TestWriteJudgeFiles writes every sample as a shard, its values as raw files and a description of both to the folder
// ASTROPILE_JUDGE_DIR, where other readers of Parquet are asked for their verdict (tests/judges).
func TestWriteJudgeFiles(t *testing.T) {
	dir := os.Getenv("ASTROPILE_JUDGE_DIR")
	if dir == "" {
		t.Skip("ASTROPILE_JUDGE_DIR is not set")
	}
	put := func(name string, b []byte) string {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	ints := func(name string, x []int64) string {
		var b []byte
		for _, v := range x {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
		return put(name, b)
	}
	var parts func(prefix string, c *catalog.Column, v *catalog.Vector) judgeColumn
	parts = func(prefix string, c *catalog.Column, v *catalog.Vector) judgeColumn {
		j := judgeColumn{Column: *c}
		prefix += "." + c.Name
		if v.Valid != nil {
			b := make([]byte, len(v.Valid))
			for i, ok := range v.Valid {
				if ok {
					b[i] = 1
				}
			}
			j.Valid = put(prefix+".valid", b)
		}
		for k := range v.Members {
			j.Parts = append(j.Parts, parts(prefix, &c.Members[k], v.Members[k]))
		}
		if c.Kind == catalog.Struct {
			return j
		}
		j.Data = put(prefix+".data", v.Data)
		if v.Offsets != nil {
			j.Offsets = ints(prefix+".offsets", v.Offsets)
		}
		if v.StrOffsets != nil {
			j.StrOffsets = ints(prefix+".stroffsets", v.StrOffsets)
		}
		return j
	}
	type judged struct {
		File     string        `json:"file"`
		Rows     int           `json:"rows"`
		Constant []string      `json:"constant"`
		Columns  []judgeColumn `json:"columns"`
		Piece    int64         `json:"piece"`
	}
	var all []judged
	for _, s := range samples() {
		b, _ := s.write(t, s.spec(), 77)
		j := judged{File: put(s.name+".parquet", b), Rows: s.rows, Constant: s.constant, Piece: s.spec().Piece}
		for i := range s.cols {
			j.Columns = append(j.Columns, parts(s.name, &s.cols[i], s.vectors[i]))
		}
		all = append(all, j)
		common, err := EncodeCommonMetadata(s.cols)
		if err != nil {
			t.Fatal(err)
		}
		put(s.name+".common_metadata", common)
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	put("judge.json", b)
}
