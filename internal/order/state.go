package order

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

var (
	// ErrState is returned, wrapped, for a checkpoint that is damaged or impossible.
	ErrState = errors.New("invalid state")
	// ErrStateDiffers is returned, wrapped, for a checkpoint of another order; it names every field that differs.
	ErrStateDiffers = errors.New("the state belongs to another order")
)

// State is a checkpoint: where a job stands in the order, and what the order is a function of. It is the same on every rank.
type State struct {
	Order     int    `json:"order"`      // Version
	Release   int64  `json:"release"`    // number of the release
	ReleaseID string `json:"release_id"` // SHA-256 of its release.json, 64 lower-case hex digits; or whatever names a set that is no release
	Rows      uint64 `json:"rows"`       // N
	Selection string `json:"selection"`  // SelectionDigest
	Shuffle   Mode   `json:"shuffle"`
	Seed      uint64 `json:"seed"`
	Block     uint64 `json:"block"`
	Lanes     uint64 `json:"lanes"`
	Window    uint64 `json:"window"`
	Epoch     uint64 `json:"epoch"`
	Position  uint64 `json:"position"` // rows of this epoch up to and including the batch whose state this is
	Hash      string `json:"hash"`     // SHA-256 of the canonical JSON of all other fields
}

// NewState returns the state of a layout at a position, sealed.
func NewState(l *Layout, release int64, releaseID, selection string, epoch, position uint64) State {
	s := State{
		Order: Version, Release: release, ReleaseID: releaseID, Rows: l.rows, Selection: selection, Shuffle: l.p.Shuffle,
		Seed: l.p.Seed, Block: l.p.Block, Lanes: l.p.Lanes, Window: l.p.Window, Epoch: epoch, Position: position,
	}
	s.Hash = s.digest()
	return s
}

// Params returns the parameters the state was made with.
func (s State) Params() Params {
	return Params{Lanes: s.Lanes, Window: s.Window, Block: s.Block, Seed: s.Seed, Shuffle: s.Shuffle}
}

// digest is the Seal of the state. Only a mode without a name does not encode; such a state has none and no check accepts it.
func (s State) digest() string { return Seal(s) }

// Seal hashes what v is as JSON, an object: with sorted keys, without spaces and without its field "hash", so that any language can do the
// same. It is empty for what is no such object.
func Seal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	fields := map[string]any{}
	if err := dec.Decode(&fields); err != nil {
		return ""
	}
	delete(fields, "hash")
	var canonical bytes.Buffer
	enc := json.NewEncoder(&canonical)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		return ""
	}
	sum := sha256.Sum256(bytes.TrimRight(canonical.Bytes(), "\n"))
	return hex.EncodeToString(sum[:])
}

// Encode returns the state as one line of JSON, some 400 bytes.
func (s State) Encode() ([]byte, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	return raw, nil
}

// maxState bounds the bytes of a state.
const maxState = 1 << 16

// DecodeState reads a state and checks it: unknown or missing fields, another version, a hash that does not match, or a position beyond the rows are ErrState.
func DecodeState(raw []byte) (State, error) {
	var s State
	if len(raw) > maxState {
		return s, fmt.Errorf("%w: %d bytes, at most %d are expected", ErrState, len(raw), maxState)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrState, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return State{}, fmt.Errorf("%w: something follows the JSON object, after byte %d", ErrState, dec.InputOffset())
	}
	switch {
	case s.Order != Version:
		return State{}, fmt.Errorf("%w: order version %d, this program computes version %d", ErrState, s.Order, Version)
	case s.Hash == "" || s.Hash != s.digest():
		return State{}, fmt.Errorf("%w: its hash %q does not match its fields: it was changed or cut", ErrState, s.Hash)
	case s.Position > s.Rows:
		return State{}, fmt.Errorf("%w: position %d of an epoch of %d rows", ErrState, s.Position, s.Rows)
	}
	if err := s.Params().check(); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrState, err)
	}
	return s, nil
}

// Check compares what two states are a function of; epoch and position may differ. The error is ErrStateDiffers and names each field with both values, this state's first.
func (s State) Check(other State) error {
	var diffs []string
	differ := func(name string, a, b any) {
		if a != b {
			diffs = append(diffs, fmt.Sprintf("%s is %v, here %v", name, a, b))
		}
	}
	differ("order version", s.Order, other.Order)
	differ("release", s.Release, other.Release)
	differ("release id", s.ReleaseID, other.ReleaseID)
	differ("number of rows", s.Rows, other.Rows)
	differ("selection", s.Selection, other.Selection)
	differ("shuffle", s.Shuffle, other.Shuffle)
	differ("seed", s.Seed, other.Seed)
	differ("block", s.Block, other.Block)
	differ("lanes", s.Lanes, other.Lanes)
	differ("window", s.Window, other.Window)
	if len(diffs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: in the state %s", ErrStateDiffers, strings.Join(diffs, "; "))
}

// SelectionDigest names a set of selected rows by what is selected, not by how it was asked for: SHA-256, in hex, of "selection1", the number of shards, and
// for each shard its count of selected rows and the length and bytes of its bitmap. A shard of which every row is selected has none; bitmap may be nil when that is so for all.
func SelectionDigest(counts []uint64, bitmap func(shard int) []byte) string {
	h := sha256.New()
	var word [16]byte
	h.Write([]byte("selection1"))
	binary.LittleEndian.PutUint64(word[:8], uint64(len(counts)))
	h.Write(word[:8])
	for i, c := range counts {
		var bits []byte
		if bitmap != nil {
			bits = bitmap(i)
		}
		binary.LittleEndian.PutUint64(word[:8], c)
		binary.LittleEndian.PutUint64(word[8:], uint64(len(bits)))
		h.Write(word[:])
		h.Write(bits)
	}
	return hex.EncodeToString(h.Sum(nil))
}
