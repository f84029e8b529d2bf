package catalog

import (
	"bytes"
	"errors"
	"testing"
)

func TestAMarginAndAnIndexAreInACanonicalDatasetOnlyWhereThereAre(t *testing.T) {
	d := testDataset()
	plain, err := Canonical(d)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(plain, []byte("margin")) || bytes.Contains(plain, []byte("index")) {
		t.Errorf("%s", plain)
	}
	d.Margin, d.Index = 10_000, d.ID
	with, err := Canonical(d)
	if err != nil || !bytes.Contains(with, []byte(`"margin":10000`)) || !bytes.Contains(with, []byte(`"index":"`+d.ID+`"`)) {
		t.Errorf("%s, %v", with, err)
	}
	if err := d.Check(); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*Dataset){
		"negative":          func(d *Dataset) { d.Margin = -1 },
		"too wide":          func(d *Dataset) { d.Margin = MaxMargin + 1 },
		"without positions": func(d *Dataset) { d.RA, d.Dec = "", "" },
		"no such column":    func(d *Dataset) { d.Index = "nothing" },
		"of a float":        func(d *Dataset) { d.Index = d.RA },
	} {
		bad := d
		change(&bad)
		if err := bad.Check(); !errors.Is(err, ErrDocument) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAMarginsShardHoldsRowsAroundItsPixel(t *testing.T) {
	s := testShards(1)[0]
	s.Role, s.Order, s.Pix, s.HpxMin, s.HpxMax = Margin, 1, 3, 0, 12<<58-1
	if _, err := EncodeManifest([]Shard{s}, "test"); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Shard){func(s *Shard) { s.HpxMax = 12 << 58 }, func(s *Shard) { s.HpxMin = -5 }, func(s *Shard) { s.HpxMin, s.HpxMax = 2, 1 }, func(s *Shard) { s.Role = Primary }} {
		bad := s
		change(&bad)
		if _, err := EncodeManifest([]Shard{bad}, "test"); !errors.Is(err, ErrDocument) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestTheNamesOfAnIndexStandInItsFilesAlone(t *testing.T) {
	cols := IndexColumns(&Column{Name: "id", Kind: Scalar, DType: String})
	if err := CheckFileColumns(cols); err != nil {
		t.Error(err)
	}
	if err := CheckColumns(cols); !errors.Is(err, ErrColumn) {
		t.Errorf("a dataset with a column Norder: %v", err)
	}
}
