package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
	"time"
	"unicode/utf8"
)

// FormatVersion is the version of the format on disk that this package reads and writes.
const FormatVersion = 1

// Piece sizes of torrents, and so the granularity of a shard's length.
const (
	MinPiece = 64 << 10
	MaxPiece = 4 << 20
)

// Dataset is what the first release fixes and later ones copy, but for licence and citation.
type Dataset struct {
	Format    int      `json:"format"`
	Name      string   `json:"name"`
	Columns   []Column `json:"columns"`
	ID        string   `json:"id"`
	RA        string   `json:"ra"`  // column of right ascension in degrees; empty without sky
	Dec       string   `json:"dec"` // column of declination in degrees; empty without sky
	ShardSize int64    `json:"shard_size"`
	Expect    int      `json:"expect"` // how many times the first release's bytes the dataset is expected to grow to
	Piece     int64    `json:"piece"`
	Digest    string   `json:"digest"` // algorithm of units and tails
	Licence   string   `json:"licence"`
	Citation  string   `json:"citation"`
	DOI       string   `json:"doi"`

	// What the first release that asked for it fixed, and no release takes back.
	Margin int64  `json:"margin,omitempty"` // radius in milliarcseconds; 0 without one
	Index  string `json:"index,omitempty"`  // column of the id index; empty without one
}

// MaxMargin is the largest radius of a margin, in milliarcseconds: two degrees.
const MaxMargin = 7_200_000

// IndexColumns are the columns of the shards of an id index over a column of the dataset, as HATS has them.
func IndexColumns(c *Column) []Column {
	return []Column{{Name: c.Name, Kind: Scalar, DType: c.DType, Unit: c.Unit, Codec: Zstd}, {Name: "Norder", Kind: Scalar, DType: Uint8, Codec: Zstd}, {Name: "Npix", Kind: Scalar, DType: Uint64, Codec: Zstd}}
}

// Indexed says whether an id index may stand over a column: it has to be text or whole numbers, one a row.
func (c *Column) Indexed() bool {
	switch c.DType {
	case String, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64:
		return c.Kind == Scalar
	}
	return false
}

// HasSky says whether rows have positions.
func (d *Dataset) HasSky() bool { return d.RA != "" }

// Column finds a column by name, or is nil.
func (d *Dataset) Column(name string) *Column {
	for i := range d.Columns {
		if d.Columns[i].Name == name {
			return &d.Columns[i]
		}
	}
	return nil
}

// PieceSize is the torrent piece, and the unit of a shard's length, of a dataset: 2^floor(log2(shard_size/expect/512)),
// between 64 KiB and 4 MiB.
func PieceSize(shardSize int64, expect int) int64 {
	p := int64(MinPiece)
	for p < MaxPiece && p*2 <= shardSize/int64(max(expect, 1))/512 {
		p *= 2
	}
	return p
}

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)

// CheckName says whether a dataset may have the name: it is a folder's, a repository's and a torrent's.
func CheckName(name string) error {
	if !nameRule.MatchString(name) || strings.HasSuffix(name, ".git") || strings.Contains(name, "..") || strings.Contains(name, "--") {
		return fmt.Errorf("%w: a dataset cannot be named %q; use letters, digits, '.', '_' and '-', at most 96", ErrDocument, name)
	}
	return nil
}

// Check says whether the format allows the dataset.
func (d *Dataset) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: dataset %q: %s", ErrDocument, d.Name, fmt.Sprintf(format, args...))
	}
	if d.Format != FormatVersion {
		return bad("format %d; this program reads format %d", d.Format, FormatVersion)
	}
	if err := CheckName(d.Name); err != nil {
		return err
	}
	if err := CheckColumns(d.Columns); err != nil {
		return err
	}
	if d.ShardSize < MinPiece {
		return bad("a shard size of %d bytes; at least %d (64 KiB)", d.ShardSize, MinPiece)
	}
	if d.Expect < 1 || d.Piece < MinPiece || d.Piece > MaxPiece || d.Piece&(d.Piece-1) != 0 {
		return bad("shard size %d, expect %d, piece %d do not fit together", d.ShardSize, d.Expect, d.Piece)
	}
	if c := d.Column(d.ID); c == nil || c.Kind != Scalar {
		return bad("the id column %q is not a scalar of the dataset", d.ID)
	}
	if (d.RA == "") != (d.Dec == "") {
		return bad("ra %q and dec %q: both or none", d.RA, d.Dec)
	}
	for _, n := range []string{d.RA, d.Dec} {
		if c := d.Column(n); n != "" && (c == nil || c.Kind != Scalar || c.DType == String) {
			return bad("the position column %q is not a number of the dataset", n)
		}
	}
	if d.Margin < 0 || d.Margin > MaxMargin || d.Margin > 0 && !d.HasSky() {
		return bad("a margin of %d milliarcseconds; at most %d, and only with positions", d.Margin, MaxMargin)
	}
	if c := d.Column(d.Index); d.Index != "" && (c == nil || !c.Indexed() || !d.HasSky()) {
		return bad("an index over %q; it has to be a column of text or whole numbers, and only with positions", d.Index)
	}
	return nil
}

// FileRef pins one file by its length and content.
type FileRef struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // lower-case hex
}

// RefOf pins the bytes given.
func RefOf(b []byte) FileRef {
	s := sha256.Sum256(b)
	return FileRef{Bytes: int64(len(b)), SHA256: hex.EncodeToString(s[:])}
}

// Release is the content of release.json. Files are named relative to <name>/releases/<number>/, but for rows of
// earlier releases ("../<n>/rows-00000.parquet").
type Release struct {
	Number  int                `json:"number"`
	Parent  string             `json:"parent"` // id of the release before, empty for the first
	Time    string             `json:"time"`   // UTC, RFC 3339, seconds
	Message string             `json:"message"`
	Tool    string             `json:"tool"`
	Files   map[string]FileRef `json:"files"`
	Rows    int64              `json:"rows"`  // of primary shards, all releases so far
	Bytes   int64              `json:"bytes"` // of primary shards, all releases so far
	Dataset Dataset            `json:"dataset"`
}

const maxReleaseBytes = 64 << 20

// Encode writes release.json: canonical JSON (UTF-8, sorted keys, no spaces).
func (r *Release) Encode() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return Canonical(r)
}

// Canonical writes v as JSON with sorted keys, without spaces and without escapes that JSON does not need. Numbers are integers.
func Canonical(v any) ([]byte, error) {
	var first bytes.Buffer
	e := json.NewEncoder(&first)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	d := json.NewDecoder(&first)
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := canonical(&out, tree); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func canonical(out *bytes.Buffer, v any) error {
	switch x := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		out.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				out.WriteByte(',')
			}
			canonicalString(out, k)
			out.WriteByte(':')
			if err := canonical(out, x[k]); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i := range x {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := canonical(out, x[i]); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case string:
		canonicalString(out, x)
	case json.Number:
		if strings.ContainsAny(x.String(), ".eE") {
			return fmt.Errorf("%w: %s is not an integer", ErrDocument, x)
		}
		out.WriteString(x.String())
	case bool:
		fmt.Fprintf(out, "%t", x)
	case nil:
		out.WriteString("null")
	}
	return nil
}

// canonicalString escapes quote, backslash and control characters, and nothing else.
func canonicalString(out *bytes.Buffer, s string) {
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r < 0x20:
			fmt.Fprintf(out, `\u%04x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
}

// ReleaseID is the id of the release whose release.json is given: the lower-case hex of its SHA-256.
func ReleaseID(releaseJSON []byte) string { return RefOf(releaseJSON).SHA256 }

var idRule = regexp.MustCompile(`^[0-9a-f]{64}$`)

// DecodeRelease reads release.json. It is the caller's to compare ReleaseID with the id that was asked for.
func DecodeRelease(b []byte) (*Release, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: release.json: %s", ErrDocument, fmt.Sprintf(format, args...))
	}
	if len(b) > maxReleaseBytes {
		return nil, bad("%d bytes, at most %d", len(b), maxReleaseBytes)
	}
	if !utf8.Valid(b) {
		return nil, bad("not UTF-8")
	}
	var r Release
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&r); err != nil {
		return nil, bad("%v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, bad("something follows the object")
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return &r, nil
}

func (r *Release) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: release %d: %s", ErrDocument, r.Number, fmt.Sprintf(format, args...))
	}
	if r.Number < 1 || r.Number > 1<<30 {
		return bad("the number must be at least 1")
	}
	if (r.Number == 1) != (r.Parent == "") || r.Parent != "" && !idRule.MatchString(r.Parent) {
		return bad("parent %q: the first release has none, others the 64 hex digits of theirs", r.Parent)
	}
	if _, err := time.Parse(time.RFC3339, r.Time); err != nil || !strings.HasSuffix(r.Time, "Z") {
		return bad("time %q is not UTC in RFC 3339", r.Time)
	}
	for name, f := range r.Files {
		if !CleanPath(strings.TrimPrefix(name, "../")) || f.Bytes < 0 || !idRule.MatchString(f.SHA256) {
			return bad("file %q, %d bytes, sha256 %q do not fit together", name, f.Bytes, f.SHA256)
		}
	}
	if _, ok := r.Files["manifest.parquet"]; !ok {
		return bad("it names no manifest.parquet")
	}
	return r.Dataset.Check()
}

// Latest is the content of latest.json: where to look first; a hint, never trusted.
type Latest struct {
	Format  int    `json:"format"`
	Release int    `json:"release"`
	ID      string `json:"id"`
	Name    string `json:"name"`
}

// DecodeLatest reads latest.json.
func DecodeLatest(b []byte) (*Latest, error) {
	var l Latest
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, fmt.Errorf("%w: latest.json: %v", ErrDocument, err)
	}
	if l.Format != FormatVersion || l.Release < 1 || !idRule.MatchString(l.ID) || CheckName(l.Name) != nil {
		return nil, fmt.Errorf("%w: latest.json: format %d, release %d, id %q, name %q do not fit together", ErrDocument, l.Format, l.Release, l.ID, l.Name)
	}
	return &l, nil
}
