package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"astropile/internal/order"
)

// State is a checkpoint of a stream: the same on every rank. It is that of one set, or of a mix.
type State struct {
	Source order.State
	Mix    *MixState
}

// MixState is a checkpoint of a mix: its sources at their beginning, and where the mix stands.
type MixState struct {
	Sources  []order.State `json:"sources"`
	Weights  []uint64      `json:"weights"`
	End      order.End     `json:"end"`
	Epoch    uint64        `json:"epoch"`
	Position uint64        `json:"position"`
	Hash     string        `json:"hash"` // order.Seal of all other fields
}

func (m *MixState) digest() string { return order.Seal(m) }

// Epoch and Position say where the job stands.
func (s State) Epoch() uint64 {
	if s.Mix != nil {
		return s.Mix.Epoch
	}
	return s.Source.Epoch
}

// Position is the rows of the epoch up to and including the last batch.
func (s State) Position() uint64 {
	if s.Mix != nil {
		return s.Mix.Position
	}
	return s.Source.Position
}

// Params are the numbers of the order: of the first source of a mix.
func (s State) Params() order.Params {
	if s.Mix != nil {
		return s.Mix.Sources[0].Params()
	}
	return s.Source.Params()
}

// Releases are the numbers and ids of the releases that the state is of.
func (s State) Releases() (numbers []int64, ids []string) {
	list := []order.State{s.Source}
	if s.Mix != nil {
		list = s.Mix.Sources
	}
	for _, x := range list {
		numbers, ids = append(numbers, x.Release), append(ids, x.ReleaseID)
	}
	return numbers, ids
}

// Encode writes the state as one line of JSON.
func (s State) Encode() ([]byte, error) {
	if s.Mix != nil {
		return json.Marshal(s.Mix)
	}
	return s.Source.Encode()
}

const maxMixState = 8 << 20

// DecodeState reads and checks a state. The error wraps order.ErrState.
func DecodeState(raw []byte) (State, error) {
	var probe struct {
		Sources json.RawMessage `json:"sources"`
	}
	if len(raw) > maxMixState {
		return State{}, fmt.Errorf("%w: %d bytes", order.ErrState, len(raw))
	}
	if json.Unmarshal(raw, &probe) != nil || probe.Sources == nil {
		s, err := order.DecodeState(raw)
		return State{Source: s}, err
	}
	m := &MixState{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(m); err != nil {
		return State{}, fmt.Errorf("%w: %w", order.ErrState, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return State{}, fmt.Errorf("%w: something follows the JSON object", order.ErrState)
	}
	if m.Hash == "" || m.Hash != m.digest() {
		return State{}, fmt.Errorf("%w: its hash %q does not match its fields: it was changed or cut", order.ErrState, m.Hash)
	}
	if len(m.Sources) == 0 || len(m.Sources) != len(m.Weights) {
		return State{}, fmt.Errorf("%w: %d sources and %d weights", order.ErrState, len(m.Sources), len(m.Weights))
	}
	for i := range m.Sources {
		b, err := m.Sources[i].Encode()
		if err == nil {
			_, err = order.DecodeState(b)
		}
		if err != nil {
			return State{}, fmt.Errorf("source %d: %w", i, err)
		}
	}
	return State{Mix: m}, nil
}

// Check compares what two states are a function of; where they stand may differ. The error wraps order.ErrStateDiffers and names each difference,
// this state's value first.
func (s State) Check(other State) error {
	if (s.Mix == nil) != (other.Mix == nil) {
		kind := map[bool]string{true: "one dataset", false: "a mix"}
		return fmt.Errorf("%w: in the state %s, here %s", order.ErrStateDiffers, kind[s.Mix == nil], kind[other.Mix == nil])
	}
	if s.Mix == nil {
		return s.Source.Check(other.Source)
	}
	var diffs []string
	if a, b := fmt.Sprint(s.Mix.Weights), fmt.Sprint(other.Mix.Weights); a != b {
		diffs = append(diffs, fmt.Sprintf("weights are %s, here %s", a, b))
	}
	if s.Mix.End != other.Mix.End {
		diffs = append(diffs, fmt.Sprintf("the end is %d, here %d", s.Mix.End, other.Mix.End))
	}
	for i := range min(len(s.Mix.Sources), len(other.Mix.Sources)) {
		if err := s.Mix.Sources[i].Check(other.Mix.Sources[i]); err != nil {
			diffs = append(diffs, fmt.Sprintf("source %d: %s", i, strings.TrimPrefix(err.Error(), order.ErrStateDiffers.Error()+": ")))
		}
	}
	if len(s.Mix.Sources) != len(other.Mix.Sources) {
		diffs = append(diffs, fmt.Sprintf("%d sources, here %d", len(s.Mix.Sources), len(other.Mix.Sources)))
	}
	if diffs == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", order.ErrStateDiffers, strings.Join(diffs, "; "))
}
