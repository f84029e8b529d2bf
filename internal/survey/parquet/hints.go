package parquet

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"

	"astropile/internal/catalog"
	"astropile/internal/shard"
)

// hint is what metadata say of a node beyond the Parquet schema.
type hint struct {
	unit  string
	dims  []int         // shape of a row, of tensors that are declared as such
	size  int           // of a fixed-size list; 0 where none is declared
	dtype catalog.DType // of our own shards
	from  string        // who declares dims
}

const (
	extensionName  = "ARROW:extension:name"
	extensionMeta  = "ARROW:extension:metadata"
	fixedShapeName = "arrow.fixed_shape_tensor"
	keyHuggingFace = "huggingface"
)

// addHints reads Arrow's and Hugging Face's descriptions, where the footer has them. What cannot be read, or does not fit
// the schema, is passed over: it describes, and does not decide what the bytes are.
func addHints(m *shard.FileMetaData, nodes []*node) {
	if val, ok := m.Value(shard.KeyArrowSchema); ok {
		if b, err := base64.StdEncoding.DecodeString(val); err == nil {
			_ = guarded(func() error {
				r, err := ipc.NewReader(bytes.NewReader(b))
				if err != nil {
					return err
				}
				defer r.Release()
				for i, f := range r.Schema().Fields() {
					if i < len(nodes) && nodes[i].name == f.Name {
						nodes[i].describe(f)
					}
				}
				return nil
			})
		}
	}
	if val, ok := m.Value(keyHuggingFace); ok {
		var doc struct {
			Info struct {
				Features map[string]any `json:"features"`
			} `json:"info"`
		}
		if json.Unmarshal([]byte(val), &doc) == nil {
			for _, n := range nodes {
				n.feature(doc.Info.Features[n.name])
			}
		}
	}
}

func (n *node) describe(f arrow.Field) {
	meta := func(key string) string {
		v, _ := f.Metadata.GetValue(key)
		return v
	}
	for _, key := range []string{"unit", "units"} {
		if n.hint.unit == "" {
			n.hint.unit = meta(key)
		}
	}
	t := f.Type
	if meta(extensionName) == fixedShapeName {
		n.fixedShape(meta(extensionMeta))
	}
	if e, ok := t.(arrow.ExtensionType); ok {
		if e.ExtensionName() == fixedShapeName {
			n.fixedShape(e.Serialize())
		}
		t = e.StorageType()
	}
	if d := catalog.DType(meta(shard.FieldDType)); d.Valid() {
		var dims []int
		if s := meta(shard.FieldShape); s != "" && json.Unmarshal([]byte(s), &dims) == nil {
			n.hint.dims, n.hint.dtype, n.hint.from = dims, d, "the field's own metadata"
		}
	}
	switch n.kind {
	case kindLeaf:
		n.leaf.reveal(t)
	case kindList:
		switch x := t.(type) {
		case *arrow.FixedSizeListType:
			n.hint.size = int(x.Len())
			n.children[0].describe(x.ElemField())
		case arrow.ListLikeType:
			n.children[0].describe(x.ElemField())
		}
	case kindMap:
		if x, ok := t.(*arrow.MapType); ok && n.children[0].kind == kindGroup && len(n.children[0].children) == 2 {
			n.children[0].children[0].describe(x.KeyField())
			n.children[0].children[1].describe(x.ItemField())
		}
	case kindGroup:
		if x, ok := t.(*arrow.StructType); ok {
			for _, c := range n.children {
				if g, ok := x.FieldByName(c.name); ok {
					c.describe(g)
				}
			}
		}
	}
}

func (n *node) fixedShape(text string) {
	var doc struct {
		Shape       []int `json:"shape"`
		Permutation []int `json:"permutation"`
	}
	if json.Unmarshal([]byte(text), &doc) != nil || len(doc.Shape) == 0 {
		return
	}
	n.hint.dims, n.hint.from = doc.Shape, "Arrow's fixed shape tensor"
	if len(doc.Permutation) > 0 && !slices.IsSorted(doc.Permutation) {
		n.hint.from += ", axes in the order of memory"
	}
}

// feature takes a Hugging Face feature, the JSON of its description.
func (n *node) feature(f any) {
	m, ok := f.(map[string]any)
	if !ok {
		return
	}
	if shape, ok := m["shape"].([]any); ok {
		dims := make([]int, 0, len(shape))
		for _, s := range shape {
			if x, ok := s.(float64); ok && x == float64(int(x)) && x > 0 {
				dims = append(dims, int(x))
			}
		}
		if len(dims) == len(shape) && len(dims) > 0 && n.hint.dims == nil {
			n.hint.dims, n.hint.from = dims, "Hugging Face features"
		}
		return
	}
	inner, isSequence := m["feature"]
	if _, typed := m["_type"].(string); typed {
		if !isSequence {
			return
		}
		if x, ok := m["length"].(float64); ok && x > 0 && x < 1<<31 && n.kind == kindList && n.hint.size == 0 {
			n.hint.size = int(x)
		}
		switch n.kind {
		case kindList:
			n.children[0].feature(inner)
		case kindGroup: // a sequence of a group is a group of lists
			if members, ok := inner.(map[string]any); ok {
				for _, c := range n.children {
					if c.kind == kindList {
						c.children[0].feature(members[c.name])
					}
				}
			}
		}
		return
	}
	for _, c := range n.children {
		if n.kind == kindGroup {
			c.feature(m[c.name])
		}
	}
}
