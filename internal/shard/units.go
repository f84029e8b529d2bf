package shard

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/zeebo/blake3"
)

// UnitBytes is what a unit holds at least, unless its row group is smaller.
const UnitBytes = 128 << 10

// Names of the digests of units and tail (docs/design/0001-unit-digest.md).
const (
	DigestSHA256  = "sha256"
	DigestBLAKE3  = "blake3"
	DefaultDigest = DigestSHA256
)

const unitEntryBytes = 8 + 32

// DigestFunc is the 32-byte digest of a name; an empty name is the default.
func DigestFunc(name string) (func([]byte) [32]byte, error) {
	switch name {
	case DigestSHA256, "":
		return sha256.Sum256, nil
	case DigestBLAKE3:
		return blake3.Sum256, nil
	}
	return nil, fmt.Errorf("%w: digest %q is unknown; this version knows sha256 and blake3", ErrFormat, name)
}

// digestEach digests each message with the digest of a name; messages that lie together are faster so than one by one.
func digestEach(name string) (func(messages [][]byte, sum func(i int, digest [32]byte)), error) {
	digest, err := DigestFunc(name)
	if err != nil {
		return nil, err
	}
	if name == DigestSHA256 || name == "" {
		return sha256Each, nil
	}
	return func(messages [][]byte, sum func(int, [32]byte)) {
		for i, m := range messages {
			sum(i, digest(m))
		}
	}, nil
}

// Unit is a run of whole pages of a shard: bytes [Start, End) of the file, and their digest.
type Unit struct {
	Start, End int64
	Digest     [32]byte
}

// unitEnds cuts a row group into units and gives their ends. chunks are the sizes of what may not be cut, a list for
// each column chunk in file order; start is where the first stands, and the first unit begins at from (0 for the first
// row group, whose first unit holds the file's magic too).
func unitEnds(from, start int64, chunks [][]int) []int64 {
	var ends []int64
	pos, open := start, from
	for _, items := range chunks {
		size := int64(0)
		for _, n := range items {
			size += int64(n)
		}
		if size < UnitBytes {
			if pos += size; pos-open >= UnitBytes {
				ends, open = append(ends, pos), pos
			}
			continue
		}
		for _, n := range items {
			if pos += int64(n); pos-open >= UnitBytes {
				ends, open = append(ends, pos), pos
			}
		}
		if open < pos { // the rest of a larger chunk joins its last unit
			ends[len(ends)-1], open = pos, pos
		}
	}
	if open < pos {
		if len(ends) == 0 {
			return append(ends, pos)
		}
		ends[len(ends)-1] = pos
	}
	return ends
}

// EncodeUnits is the value of KeyUnits.
func EncodeUnits(units []Unit) string {
	b := make([]byte, 0, len(units)*unitEntryBytes)
	for i := range units {
		b = binary.LittleEndian.AppendUint64(b, uint64(units[i].End))
		b = append(b, units[i].Digest[:]...)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// DecodeUnits reads the value of KeyUnits. Units follow each other without a gap from byte 0 and end at or before end,
// where the tail begins. What is taken is in proportion to the value, which a footer bounds.
func DecodeUnits(value string, end int64) ([]Unit, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil {
		return nil, fmt.Errorf("%w: the table of units is not base64: %v", ErrFormat, err)
	}
	if len(b)%unitEntryBytes != 0 || len(b) == 0 {
		return nil, fmt.Errorf("%w: a table of units of %d bytes is not a number of entries of %d", ErrFormat, len(b), unitEntryBytes)
	}
	units := make([]Unit, len(b)/unitEntryBytes)
	at := int64(0)
	for i := range units {
		e := b[i*unitEntryBytes:]
		u := binary.LittleEndian.Uint64(e)
		if u > uint64(max(end, 0)) || int64(u) <= at {
			return nil, fmt.Errorf("%w: unit %d ends at byte %d; it begins at %d and the tail at %d", ErrFormat, i, u, at, end)
		}
		units[i] = Unit{Start: at, End: int64(u), Digest: [32]byte(e[8:40])}
		at = int64(u)
	}
	return units, nil
}

// encodeConstant is the value of KeyConstant: a JSON list of names in file order.
func encodeConstant(names []string) (string, error) {
	b, err := json.Marshal(names)
	return string(b), err
}

// DecodeConstant reads the value of KeyConstant.
func DecodeConstant(value string) ([]string, error) {
	var names []string
	if err := json.Unmarshal([]byte(value), &names); err != nil {
		return nil, fmt.Errorf("%w: the list of constant columns: %v", ErrFormat, err)
	}
	return names, nil
}
