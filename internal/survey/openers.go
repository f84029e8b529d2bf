package survey

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"astropile/internal/catalog"
	"astropile/internal/survey/fits"
	"astropile/internal/survey/parquet"
	"astropile/internal/survey/table"
	"astropile/internal/survey/text"
)

// known is what an earlier look into an input found out, and the next need not search again. It belongs to an Input and
// its copies.
type known struct {
	mu     sync.Mutex
	shapes map[string][]int // Parquet: by source, the shape of lists that are tensors; empty for those that are not
	scan   *text.Scan       // of text
}

// openers open the formats of one table a file.
var openers = map[format]func(ctx context.Context, in Input, r *Recipe) (table.Table, error){
	formatParquet: openParquet,
	formatCSV:     openText,
	formatECSV:    openText,
	formatJSONL:   openText,
}

func openText(ctx context.Context, in Input, _ *Recipe) (table.Table, error) {
	if in.known == nil {
		return text.Open(ctx, in.Path, text.Options{})
	}
	in.known.mu.Lock()
	scan := in.known.scan
	in.known.mu.Unlock()
	t, err := text.Open(ctx, in.Path, text.Options{Scan: scan})
	if err != nil {
		return nil, err
	}
	in.known.mu.Lock()
	in.known.scan = text.ScanOf(t)
	in.known.mu.Unlock()
	return t, nil
}

func openParquet(ctx context.Context, in Input, r *Recipe) (table.Table, error) {
	var images fits.Decoder
	opt := parquet.Options{Cutout: images.Decode, Shapes: map[string][]int{}, Pad: map[string]bool{}}
	if in.known != nil {
		in.known.mu.Lock()
		maps.Copy(opt.Shapes, in.known.shapes)
		in.known.mu.Unlock()
	}
	for source := range r.lists() {
		for other := range opt.Shapes {
			if strings.HasPrefix(other, source+".") {
				delete(opt.Shapes, other)
			}
		}
		opt.Shapes[source] = nil
	}
	for i := range r.Map {
		if m := &r.Map[i]; m.Pad != nil && m.Kind == catalog.Tensor {
			opt.Pad[m.Source] = true
			opt.Shapes[m.Source] = m.Shape
		}
	}
	for source := range r.Pad {
		opt.Pad[source] = true
	}
	t, err := parquet.Open(ctx, in.Path, opt)
	if err != nil || in.known == nil {
		return t, err
	}
	in.known.mu.Lock()
	defer in.known.mu.Unlock()
	if in.known.shapes == nil {
		in.known.shapes = map[string][]int{}
		for _, f := range t.Fields() {
			switch {
			case f.Err != nil:
			case f.Column.Kind == catalog.Tensor:
				in.known.shapes[f.Source] = f.Column.Shape
			case f.Column.Kind == catalog.List, f.Column.Kind == catalog.Struct:
				in.known.shapes[f.Source] = nil
			}
		}
	}
	return t, nil
}

// lists gives the sources that are lists or groups of lists, though an input by itself might show arrays of one shape.
func (r *Recipe) lists() map[string]bool {
	out := maps.Clone(r.ragged)
	if out == nil {
		out = map[string]bool{}
	}
	for i := range r.Map {
		m := &r.Map[i]
		switch {
		case m.Kind == catalog.List && m.DType != catalog.String:
			out[m.Source] = true
		case m.Kind == catalog.Struct:
			for _, x := range m.Members {
				// Members of their own sources are lists one by one.
				out[x.Source] = true
			}
		}
	}
	return out
}

// groups gives the structs of lists that some inputs show and of which others show the members one by one, because all
// their lists happen to have one length.
func (g *tableMerger) groups() map[string]bool {
	var out map[string]bool
	for _, s := range g.sources {
		if s.kind == catalog.Struct && slices.ContainsFunc(g.sources, func(x *tableSource) bool {
			return strings.HasPrefix(x.source, s.source+".") && x.kind != catalog.Struct && slices.ContainsFunc(s.members, func(m *tableSource) bool { return s.source+"."+m.member == x.source })
		}) {
			if out == nil {
				out = map[string]bool{}
			}
			out[s.source] = true
		}
	}
	return out
}
