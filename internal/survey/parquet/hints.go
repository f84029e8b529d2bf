package parquet

import (
	"encoding/base64"
	"encoding/json"
	"slices"

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
			var fields []arrowField
			_ = guarded(func() error {
				fields = arrowSchema(b)
				return nil
			})
			for i := range fields {
				if i < len(nodes) && nodes[i].name == fields[i].name {
					nodes[i].describe(&fields[i])
				}
			}
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

func (n *node) describe(f *arrowField) {
	for _, key := range []string{"unit", "units"} {
		if n.hint.unit == "" {
			n.hint.unit = f.meta[key]
		}
	}
	if f.meta[extensionName] == fixedShapeName {
		n.fixedShape(f.meta[extensionMeta])
	}
	if d := catalog.DType(f.meta[shard.FieldDType]); d.Valid() {
		var dims []int
		if s := f.meta[shard.FieldShape]; s != "" && json.Unmarshal([]byte(s), &dims) == nil {
			n.hint.dims, n.hint.dtype, n.hint.from = dims, d, "the field's own metadata"
		}
	}
	switch n.kind {
	case kindLeaf:
		n.leaf.reveal(f)
	case kindList:
		if len(f.children) != 1 || f.typ == arrowStruct {
			return
		}
		if f.typ == arrowFixedSizeList {
			n.hint.size = f.size
		}
		n.children[0].describe(&f.children[0])
	case kindMap:
		if f.typ == arrowMap && len(f.children) == 1 {
			n.children[0].describe(&f.children[0])
		}
	case kindGroup:
		for _, c := range n.children {
			for i := range f.children {
				if f.typ == arrowStruct && f.children[i].name == c.name {
					c.describe(&f.children[i])
					break
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
