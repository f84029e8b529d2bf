package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"

	"astropile/internal/catalog"
)

const (
	maxPiece     = 64 << 20
	maxGroups    = math.MaxInt16 + 1 // a row group's ordinal has 16 bits
	zeroBytes    = 1 << 20           // zeros written at once
	groupSlack   = 16                // of a row group's buffer beyond its payload: one part in so many,
	groupLeast   = 64 << 10          // and so many bytes
	parquetMajor = 2
)

// Spec says what a shard holds and how.
type Spec struct {
	Columns   []catalog.Column // in file order (catalog.FileOrder), layouts and codecs set
	Constant  []string         // tensor columns whose rows are all bit-equal in this shard
	Piece     int64            // the length of the shard becomes a multiple of it
	Digest    string           // of units and tail; empty is DefaultDigest
	CreatedBy string           // the footer's created_by
}

// Info is what is known of a shard once it is written.
type Info struct {
	Rows, Bytes int64
	Payload     int64 // bytes of the rows before encoding, text as its length + 4
	SHA256      [32]byte
	Pieces      []byte // a SHA-1 of 20 bytes a piece
	TailOffset  int64
	TailDigest  [32]byte
	Units       []Unit
	// Stats is one row of catalog.StatColumns of the shard's columns, in their order.
	Stats []*catalog.Vector
}

// Writer writes one shard. It holds the rows of one row group and the bytes of two. A Writer that will not be closed
// must be given up with Abort before what it writes to is closed. It is used by one goroutine at a time.
type Writer struct {
	spec      Spec
	sink      *sink
	schema    []SchemaElement
	leaves    []leaf
	keyValues []KeyValue
	irregular *irregularWriter // nil where all columns are tensors
	tensors   []*tensorWriter
	enc       *zstd.Encoder
	digest    func([]byte) [32]byte

	rowPayload int64 // of every row, or 0 where it varies
	pending    []*catalog.Vector
	rows       int   // pending
	payload    int64 // of the pending rows
	bufs       [2][]byte
	turn       int

	total        int64
	totalPayload int64
	groups       []RowGroup
	indexes      [][]*OffsetIndex
	stats        []*statColumn
	err          error // ends the writer's use
}

var errClosed = errors.New("shard: the writer is closed")

// NewWriter starts a shard on dst, which it does not close.
func NewWriter(dst io.Writer, spec Spec) (*Writer, error) {
	if err := checkFileColumns(spec.Columns); err != nil {
		return nil, err
	}
	if spec.Piece < 1 || spec.Piece > maxPiece {
		return nil, fmt.Errorf("shard: a piece of %d bytes; it has 1 to %d", spec.Piece, maxPiece)
	}
	if spec.Digest == "" {
		spec.Digest = DefaultDigest
	}
	digest, err := DigestFunc(spec.Digest)
	if err != nil {
		return nil, err
	}
	each, err := digestEach(spec.Digest)
	if err != nil {
		return nil, err
	}
	w := &Writer{spec: spec, digest: digest, sink: newSink(dst, each, spec.Piece)}
	w.schema, w.leaves = parquetSchema(spec.Columns)
	schema, err := ArrowSchema(spec.Columns)
	if err != nil {
		return nil, err
	}
	w.keyValues = []KeyValue{{KeyArrowSchema, arrowSchemaValue(schema)}, {KeyDigest, spec.Digest}}
	if err := w.constants(); err != nil {
		return nil, err
	}
	if err := w.columnWriters(); err != nil {
		return nil, err
	}
	w.bufs[0] = append([]byte{}, magic...)
	return w, nil
}

// constants checks the names of the constant columns and brings them into file order.
func (w *Writer) constants() error {
	if len(w.spec.Constant) == 0 {
		return nil
	}
	var names []string
	for i := range w.spec.Columns {
		c := &w.spec.Columns[i]
		if !slices.Contains(w.spec.Constant, c.Name) {
			continue
		}
		if c.Kind != catalog.Tensor {
			return fmt.Errorf("%w: %q is a %s; only a tensor is stored as constant", catalog.ErrColumn, c.Name, c.Kind)
		}
		names = append(names, c.Name)
	}
	if len(names) != len(w.spec.Constant) {
		return fmt.Errorf("%w: the constant columns %q are not all columns of the shard", catalog.ErrColumn, w.spec.Constant)
	}
	v, err := encodeConstant(names)
	w.keyValues = append(w.keyValues, KeyValue{KeyConstant, v})
	return err
}

func (w *Writer) columnWriters() error {
	enc, err := zstdEncoder()
	if err != nil {
		return err
	}
	w.enc = enc
	cols, k := w.spec.Columns, 0
	fixed := true
	first := slices.IndexFunc(cols, func(c catalog.Column) bool { return c.Kind == catalog.Tensor })
	if first < 0 {
		first = len(cols)
	}
	for i := range cols {
		c := &cols[i]
		w.pending = append(w.pending, catalog.NewVector(c))
		w.rowPayload += int64(c.RowBytes())
		fixed = fixed && c.Fixed()
		if i < first {
			if err := CheckCodec(c); err != nil {
				return err
			}
			k += max(1, len(c.Members))
			if c.Kind == catalog.Scalar {
				w.stats = append(w.stats, newStatColumn(i, c))
			}
			continue
		}
		t, err := newTensorWriter(c, w.leaves[k], slices.Contains(w.spec.Constant, c.Name), enc)
		if err != nil {
			return err
		}
		w.tensors = append(w.tensors, t)
		k++
	}
	if !fixed {
		w.rowPayload = 0
	}
	if first > 0 {
		w.irregular, err = newIrregularWriter(cols[:first], w.leaves[:len(w.leaves)-len(w.tensors)])
	}
	return err
}

// Write appends the rows of a batch, whose columns are those of the shard in the same order. The batch may be used
// again when Write returns. After an error the writer can only be aborted.
func (w *Writer) Write(ctx context.Context, b *catalog.Batch) error {
	if w.err != nil {
		return w.err
	}
	if err := w.write(ctx, b); err != nil {
		w.err = err
		return err
	}
	return nil
}

func (w *Writer) write(ctx context.Context, b *catalog.Batch) error {
	if err := checkBatch(w.spec.Columns, b, w.total+int64(w.rows)); err != nil {
		return err
	}
	for lo := 0; lo < b.Rows; {
		if err := writeContext(ctx); err != nil {
			return err
		}
		hi, payload, full := w.fit(b, lo)
		if full && w.rows == 0 {
			// A whole row group of the batch is encoded where it stands.
			vs := make([]*catalog.Vector, len(b.Vectors))
			for i, v := range b.Vectors {
				vs[i] = v.Slice(&w.spec.Columns[i], lo, hi)
			}
			if err := w.writeGroup(vs, hi-lo, payload); err != nil {
				return err
			}
			lo = hi
			continue
		}
		for i, v := range b.Vectors {
			appendRows(w.pending[i], &w.spec.Columns[i], v, lo, hi)
		}
		w.rows += hi - lo
		w.payload += payload
		lo = hi
		if full {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// fit says up to which row the batch still belongs to the open row group, what those rows weigh, and whether the
// group is complete with them.
func (w *Writer) fit(b *catalog.Batch, lo int) (hi int, payload int64, full bool) {
	room := GroupPayload - w.payload
	if p := w.rowPayload; p > 0 {
		n := int(min(int64(b.Rows-lo), room/p))
		if n == 0 && w.rows == 0 {
			n = 1
		}
		payload = int64(n) * p
		return lo + n, payload, room-payload < p
	}
	for hi = lo; hi < b.Rows; hi++ {
		p := b.Payload(hi)
		if payload+p > room && w.rows+hi-lo > 0 {
			return hi, payload, true
		}
		payload += p
	}
	return hi, payload, false
}

func (w *Writer) flush() error {
	if w.rows == 0 {
		return nil
	}
	if err := w.writeGroup(w.pending, w.rows, w.payload); err != nil {
		return err
	}
	for i, v := range w.pending {
		resetRows(v, &w.spec.Columns[i])
	}
	w.rows, w.payload = 0, 0
	return nil
}

// writeGroup encodes a row group and hands its bytes on.
func (w *Writer) writeGroup(vs []*catalog.Vector, rows int, payload int64) error {
	if len(w.groups) == maxGroups {
		return fmt.Errorf("shard: more than %d row groups; make shards smaller", maxGroups)
	}
	// What is written is about the payload; a small shard must not cost the buffers of a large one.
	b := slices.Grow(w.bufs[w.turn], int(payload+payload/groupSlack)+groupLeast)
	base := w.sink.pos // of the buffer's first byte
	start := base + int64(len(b))
	var chunks []*chunkPages
	var err error
	if w.irregular != nil {
		n := len(w.irregular.cols)
		if b, chunks, err = w.irregular.writeGroup(b, base, vs[:n], rows); err != nil {
			return err
		}
	}
	for k, t := range w.tensors {
		var c *chunkPages
		t.first = w.total
		if b, c, err = t.writeChunk(b, base, vs[len(vs)-len(w.tensors)+k].Data, rows); err != nil {
			return err
		}
		chunks = append(chunks, c)
	}
	for _, s := range w.stats {
		s.add(vs[s.at])
	}
	group := RowGroup{NumRows: int64(rows), FileOffset: start, Ordinal: int16(len(w.groups))}
	index := make([]*OffsetIndex, len(chunks))
	items := make([][]int, len(chunks))
	for i, c := range chunks {
		group.Columns = append(group.Columns, c.chunk)
		group.TotalByteSize += c.chunk.Meta.TotalUncompressed
		group.TotalCompressed += c.chunk.Meta.TotalCompressed
		index[i], items[i] = &OffsetIndex{Pages: c.pages}, c.items
	}
	ends := unitEnds(base, start, items)
	w.groups = append(w.groups, group)
	w.indexes = append(w.indexes, index)
	w.total += int64(rows)
	w.totalPayload += payload
	w.bufs[w.turn] = b
	if err := w.sink.emit(b, ends); err != nil {
		return err
	}
	w.turn = 1 - w.turn
	w.bufs[w.turn] = w.bufs[w.turn][:0]
	return nil
}

// Abort gives the shard up: it ends when nothing is written any more. After Close it does nothing.
func (w *Writer) Abort() {
	_ = w.sink.wait()
	if w.err == nil {
		w.err = errClosed
	}
	w.release()
}

func (w *Writer) release() {
	_ = w.enc.Close()
	w.bufs, w.pending = [2][]byte{}, nil
}

// Close writes the last rows and the tail, and says what was written. It does not close what it wrote to.
func (w *Writer) Close(ctx context.Context) (*Info, error) {
	if w.err != nil {
		return nil, w.err
	}
	info, err := w.finish(ctx)
	_ = w.sink.wait()
	w.err = errClosed
	if err != nil {
		w.err = err
	}
	w.release()
	return info, err
}

func (w *Writer) finish(ctx context.Context) (*Info, error) {
	if err := writeContext(ctx); err != nil {
		return nil, err
	}
	if w.total+int64(w.rows) == 0 {
		return nil, errors.New("shard: a shard of no rows is not written")
	}
	if err := w.flush(); err != nil {
		return nil, err
	}
	if err := w.sink.wait(); err != nil { // the units' digests go into the footer
		return nil, err
	}
	zeros, tail, err := w.tail()
	if err != nil {
		return nil, err
	}
	blank := make([]byte, min(zeros, zeroBytes))
	for n := zeros; n > 0; n -= int64(len(blank)) {
		if err := w.sink.emit(blank[:min(n, int64(len(blank)))], nil); err != nil {
			return nil, err
		}
	}
	at := w.sink.pos
	if err := w.sink.emit(tail, nil); err != nil {
		return nil, err
	}
	info := &Info{Rows: w.total, Payload: w.totalPayload, TailOffset: at, TailDigest: w.digest(tail), Units: w.sink.units}
	if err := w.sink.wait(); err != nil {
		return nil, err
	}
	if w.sink.filled != 0 {
		return nil, fmt.Errorf("shard: %d bytes are not a number of pieces of %d", w.sink.pos, w.spec.Piece)
	}
	info.Bytes, info.Pieces = w.sink.pos, w.sink.pieces
	info.SHA256 = [32]byte(w.sink.file.Sum(nil))
	for _, s := range w.stats {
		info.Stats = append(info.Stats, s.result()...)
	}
	return info, nil
}

// tail makes the offset indexes and the footer, and says how many zeros stand before them.
func (w *Writer) tail() (zeros int64, tail []byte, err error) {
	var lengths []int32
	for _, g := range w.indexes {
		for _, x := range g {
			from := len(tail)
			tail = append(tail, x.Encode()...)
			lengths = append(lengths, int32(len(tail)-from))
		}
	}
	meta := &FileMetaData{Version: parquetMajor, Schema: w.schema, NumRows: w.total, RowGroups: w.groups, CreatedBy: w.spec.CreatedBy,
		KeyValues: append(slices.Clone(w.keyValues), KeyValue{KeyUnits, EncodeUnits(w.sink.units)}), Orders: len(w.leaves)}
	data := w.sink.pos
	footer := func(zeros int64) []byte {
		at, k := data+zeros, 0
		for g := range w.groups {
			for c := range w.groups[g].Columns {
				w.groups[g].Columns[c].OffsetIndexOffset, w.groups[g].Columns[c].OffsetIndexLength = at, lengths[k]
				at += int64(lengths[k])
				k++
			}
		}
		return closeFooter(meta.Encode())
	}
	zeros, last, err := padTo(data+int64(len(tail)), w.spec.Piece, footer)
	if err != nil {
		return 0, nil, err
	}
	if len(last) > MaxFooter {
		return 0, nil, fmt.Errorf("shard: a footer of %d bytes, at most %d; make shards smaller", len(last), MaxFooter)
	}
	return zeros, append(tail, last...), nil
}

// padTo finds how many zeros bring a file to a multiple of piece. The footer names offsets behind the zeros, so it
// may grow with them, and some multiples cannot be met; then the next one is.
func padTo(fixed, piece int64, footer func(zeros int64) []byte) (int64, []byte, error) {
	const attempts, rounds = 1 << 10, 4
	b := footer(0)
	goal := (fixed + int64(len(b)) + piece - 1) / piece * piece
	for range attempts {
		for range rounds {
			zeros := goal - fixed - int64(len(b))
			if zeros < 0 {
				break
			}
			if b = footer(zeros); fixed+zeros+int64(len(b)) == goal {
				return zeros, b, nil
			}
		}
		goal += piece
	}
	return 0, nil, fmt.Errorf("shard: no padding brings the shard to a multiple of %d bytes", piece)
}
