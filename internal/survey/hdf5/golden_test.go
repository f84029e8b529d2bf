package hdf5

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// manifest is what testdata/make.py wrote about a file, from what h5py reads.
type manifest struct {
	Datasets map[string]golden `json:"datasets"`
	Attrs    map[string]golden `json:"attrs"`
}

type golden struct {
	Shape []uint64 `json:"shape"` // nil: null dataspace
	Kind  string   `json:"kind"`
	CRC   *uint32  `json:"crc"` // of the canonical bytes; nil: not to be read
	N     int      `json:"n"`
	Err   string   `json:"err"`
}

// canonical appends elements packed, variable-length ones as a count of 32 bits and their contents.
func canonical(f *File, out []byte, t *Type, b []byte) ([]byte, error) {
	var err error
	for at := 0; at < len(b); at += t.Size {
		e := b[at : at+t.Size]
		switch t.Class {
		case ClassCompound:
			for _, m := range t.Members {
				if out, err = canonical(f, out, m.Type, e[m.Offset:m.Offset+m.Type.Size]); err != nil {
					return nil, err
				}
			}
		case ClassArray:
			if out, err = canonical(f, out, t.Base, e); err != nil {
				return nil, err
			}
		case ClassVlen:
			v, n, err := f.ReadVlen(t, e)
			if err != nil {
				return nil, err
			}
			out = binary.LittleEndian.AppendUint32(out, uint32(n))
			if t.VarString {
				out = append(out, v...)
			} else if out, err = canonical(f, out, t.Base, v); err != nil {
				return nil, err
			}
		default:
			out = append(out, e...)
		}
	}
	return out, nil
}

// walk visits every object that hard links lead to, once a path, cutting cycles.
func walk(o *Object, visit func(*Object) error) error {
	return walkFrom(o, visit, map[uint64]bool{}, 0)
}

func walkFrom(o *Object, visit func(*Object) error, above map[uint64]bool, depth int) error {
	if above[o.Addr()] || depth > 32 {
		return nil
	}
	if err := visit(o); err != nil {
		return err
	}
	above[o.Addr()] = true
	defer delete(above, o.Addr())
	links, err := o.Links()
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.Kind != HardLink {
			continue
		}
		child, err := o.Child(l.Name)
		if err == nil {
			err = walkFrom(child, visit, above, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const readLimit = 1 << 30 // a dataset larger than this is not read by tests

func readAll(d *Dataset, slab uint64, workers int) ([]byte, error) {
	if d.Null {
		return nil, nil
	}
	size, ok := product(d.RowBytes(), []uint64{d.Rows()})
	if !ok || size > readLimit {
		return nil, errors.New("larger than tests read")
	}
	b := make([]byte, size)
	for r := uint64(0); r < d.Rows(); r += slab {
		end := min(r+slab, d.Rows())
		if err := d.ReadRows(context.Background(), r, end, b[r*d.RowBytes():end*d.RowBytes()], workers); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func checkGolden(t *testing.T, f *File, want manifest) {
	t.Helper()
	root, err := f.Root()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	check := func(key string, g golden, typ *Type, dims []uint64, null bool, data []byte, err error) {
		seen[key] = true
		if err != nil {
			t.Errorf("%s: %v", key, err)
			return
		}
		if null != (g.Shape == nil) || !null && !slices.Equal(dims, g.Shape) {
			t.Errorf("%s: shape %v (null %v), want %v", key, dims, null, g.Shape)
			return
		}
		b, err := canonical(f, nil, typ, data)
		if err != nil {
			t.Errorf("%s: %v", key, err)
			return
		}
		if sum := crc32.ChecksumIEEE(b); sum != *g.CRC || len(b) != g.N {
			t.Errorf("%s (%s, %v): crc %08x of %d bytes, want %08x of %d", key, typ, dims, sum, len(b), *g.CRC, g.N)
		}
	}
	err = walk(root, func(o *Object) error {
		attrs, err := o.Attrs()
		if err != nil {
			return err
		}
		for _, a := range attrs {
			key := o.Path() + "@" + a.Name
			g, ok := want.Attrs[key]
			if !ok {
				t.Errorf("%s: not in the manifest", key)
				continue
			}
			if g.CRC == nil {
				if _, err := a.Value(); !errors.Is(err, ErrUnsupported) {
					t.Errorf("%s: error %v, want a refusal", key, err)
				}
				seen[key] = true
				continue
			}
			check(key, g, a.Type, a.Dims, a.Null, a.Data, nil)
		}
		if !o.IsDataset() {
			return nil
		}
		g, ok := want.Datasets[o.Path()]
		if !ok { // h5py visits an object once
			return nil
		}
		d, err := o.Dataset()
		if err != nil {
			return err
		}
		for _, slab := range []uint64{max(1, d.Rows()), 3 * d.SlabRows(), max(1, d.Rows()/3)} {
			data, err := readAll(d, slab, 1+int(slab%3))
			if g.CRC == nil || d.Readable() != nil {
				if !errors.Is(err, ErrUnsupported) {
					t.Errorf("%s: error %v, want a refusal", o.Path(), err)
				} else {
					t.Logf("refused: %v", err)
				}
				seen[o.Path()] = true
				continue
			}
			check(o.Path(), g, d.Type, d.Dims, d.Null, data, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, all := range []map[string]golden{want.Datasets, want.Attrs} {
		for key := range all {
			if !seen[key] && all[key].Err == "" {
				t.Errorf("%s: in the manifest, not found", key)
			}
		}
	}
	t.Logf("%d datasets, %d attributes", len(want.Datasets), len(want.Attrs))
}

func readManifest(t testing.TB, dir string) map[string]manifest {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]manifest
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func checkFolder(t *testing.T, dir string) {
	for name, want := range readManifest(t, dir) {
		t.Run(strings.TrimSuffix(name, ".h5"), func(t *testing.T) {
			f, err := Open(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			checkGolden(t, f, want)
		})
	}
}

// A larger set of files made elsewhere, with a manifest.json like the one in testdata, is read as well where the
// variable ASTROPILE_HDF5_CORPUS names its folder.
func TestEveryValueOfACorpusReadsAsWithH5py(t *testing.T) {
	dir := os.Getenv("ASTROPILE_HDF5_CORPUS")
	if dir == "" {
		t.Skip("ASTROPILE_HDF5_CORPUS names no folder")
	}
	checkFolder(t, dir)
}

func TestEveryGoldenValueReadsAsWithH5py(t *testing.T) { checkFolder(t, "testdata") }
