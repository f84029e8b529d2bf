package fits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	// MaxHeader bounds the bytes of headers in one file.
	MaxHeader = 64 << 20
	// MaxAxes is the number of axes an image may have (FITS 4.0, section 4.4.1).
	MaxAxes = 999
	// MaxHDUs bounds the HDUs of one file.
	MaxHDUs = 1 << 16

	headerChunk = 16 * blockSize // bytes of a header that are read at a time
)

// Kind says what an HDU holds.
type Kind uint8

// The kinds of an HDU.
const (
	ImageHDU      Kind = iota // an array, which may be empty
	BinTable                  // BINTABLE
	ASCIITable                // TABLE
	Compressed                // a BINTABLE whose rows are tiles of an image
	CompressedTab             // a BINTABLE whose columns are compressed, which is not read
	Other                     // random groups and extensions this package does not know
)

func (k Kind) String() string {
	return [...]string{"image", "binary table", "ASCII table", "compressed image", "compressed table", "other"}[k]
}

// HDU is one header and data unit of a file.
type HDU struct {
	Kind Kind

	f      *File
	index  int
	name   string
	header *Header
	head   int64 // byte of the header
	data   int64 // byte of the data
	size   int64 // bytes of data without padding
	bitpix int
	axes   []int64 // NAXIS1 first
	pcount int64
	sums   sums
}

// Index is the HDU's number in the file, 0 for the primary.
func (h *HDU) Index() int { return h.index }

// Name is the HDU's EXTNAME, or "".
func (h *HDU) Name() string { return h.name }

// Version is the HDU's EXTVER, 1 if it has none.
func (h *HDU) Version() int64 {
	if v, ok, err := h.header.Int("EXTVER"); ok && err == nil {
		return v
	}
	return 1
}

// Header is the HDU's header as it stands in the file; that of a compressed image describes the table of tiles.
func (h *HDU) Header() *Header { return h.header }

// HasImage says whether the HDU holds an image with at least one pixel.
func (h *HDU) HasImage() bool {
	return h.size > 0 && (h.Kind == ImageHDU || h.Kind == Compressed && h.axes[1] > 0)
}

// imageAxes are the axes of the image that the HDU holds, NAXIS1 first.
func (h *HDU) imageAxes() []int64 {
	if h.Kind != Compressed {
		return h.axes
	}
	n := numbers{h: h.header}
	var axes []int64
	for i := range min(n.get("ZNAXIS", 0, 0), MaxAxes) {
		axes = append(axes, n.get(key("ZNAXIS", int(i)+1), 0, 0))
	}
	return axes
}

// File is an open FITS file. Its HDUs may be used from several goroutines at once; a Table of one may not.
type File struct {
	r      io.ReaderAt
	closer io.Closer
	name   string
	size   int64
	hdus   []*HDU

	unverified bool // set by tests alone, to get past checksums
}

// Open opens the file at path, gzipped or not, whatever its name, and reads all headers. The error wraps ErrNotFITS,
// ErrCorrupt, ErrUnsupported, ErrTooLarge or one of the system's.
func Open(path string) (*File, error) {
	fd, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := fd.Stat()
	if err != nil {
		fd.Close()
		return nil, err
	}
	f := &File{r: fd, closer: fd, name: path, size: st.Size()}
	var magic [2]byte
	if _, err := fd.ReadAt(magic[:], 0); err == nil && magic == [2]byte{gzipID1, gzipID2} {
		err = f.unpack(fd)
		if err != nil {
			fd.Close()
			return nil, f.fail(-1, err)
		}
	}
	if err := f.scan(nil); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// New reads a FITS file of size bytes, not gzipped, from r; name stands in error messages. Close leaves r alone.
func New(r io.ReaderAt, size int64, name string) (*File, error) {
	f := &File{r: r, name: name, size: size}
	if err := f.scan(nil); err != nil {
		return nil, err
	}
	return f, nil
}

// Name is the name given to Open or New.
func (f *File) Name() string { return f.name }

// HDUs lists the file's HDUs in order.
func (f *File) HDUs() []*HDU { return f.hdus }

// Close closes what Open opened.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	err := f.closer.Close()
	f.closer = nil
	return err
}

// readAt fills b from byte at; what is not there is a truncated file, also where it was cut while it was open.
func (f *File) readAt(b []byte, at int64) error {
	if at < 0 || int64(len(b)) > f.size-at {
		return corruptf("the file is truncated: bytes %d to %d are needed, it has %d", at, at+int64(len(b)), f.size)
	}
	_, err := f.r.ReadAt(b, at)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return corruptf("the file was cut while it was read")
	}
	return err
}

// scan reads the headers of all HDUs, or up to the first that last says is enough.
func (f *File) scan(last func(*HDU) bool) error {
	spent := int64(0)
	for at := int64(0); ; {
		if at > 0 && at < f.size {
			more, err := f.more(at)
			if err != nil {
				return err
			}
			if !more {
				return nil
			}
		} else if at > 0 {
			return nil
		}
		if len(f.hdus) == MaxHDUs {
			return f.fail(at, fmt.Errorf("%w: over %d HDUs", ErrTooLarge, MaxHDUs))
		}
		h := &HDU{f: f, index: len(f.hdus), head: at}
		length, err := h.readHeader(MaxHeader - spent)
		if err != nil {
			return err
		}
		spent += length
		f.hdus = append(f.hdus, h)
		if h.size > f.size-h.data {
			return h.fail(place{row: -1, at: h.data}, corruptf("the file is truncated: the data take %d bytes, %d are left", h.size, max(0, f.size-h.data)))
		}
		if last != nil && last(h) {
			return nil
		}
		at = h.data + padded(h.size)
	}
}

// padded rounds up to whole blocks; n is no larger than a file.
func padded(n int64) int64 { return (n + blockSize - 1) / blockSize * blockSize }

// more says whether an HDU begins at byte at. Zeros and blanks may fill the rest of a file; anything else is damage, since
// an extension that is not seen would be missing without a word.
func (f *File) more(at int64) (bool, error) {
	b := make([]byte, min(blockSize, f.size-at))
	if err := f.readAt(b, at); err != nil {
		return false, f.fail(at, err)
	}
	if bytes.HasPrefix(b, []byte("XTENSION")) {
		return true, nil
	}
	for p := at; ; {
		for i, x := range b {
			if x != 0 && x != ' ' {
				return false, f.fail(p+int64(i), corruptf("what follows HDU %d is no extension", len(f.hdus)-1))
			}
		}
		if p += int64(len(b)); p == f.size {
			return false, nil
		}
		b = b[:min(int64(len(b)), f.size-p)]
		if err := f.readAt(b, p); err != nil {
			return false, f.fail(p, err)
		}
	}
}

// readHeader reads and understands the header at h.head, of at most limit bytes, and gives its length.
func (h *HDU) readHeader(limit int64) (int64, error) {
	var b []byte
	end := -1
	for end < 0 {
		n := int64(len(b))
		take := min(headerChunk, h.f.size-h.head-n)
		take -= take % cardSize
		switch {
		case h.index == 0 && n == 0 && take < cardSize:
			return 0, h.f.fail(-1, fmt.Errorf("%w: it has %d bytes", ErrNotFITS, h.f.size))
		case take <= 0:
			return 0, h.fail(place{row: -1, at: h.head}, corruptf("the file is truncated: no END in the header"))
		case n+take > limit:
			return 0, h.fail(place{row: -1, at: h.head}, fmt.Errorf("%w: headers of over %d bytes", ErrTooLarge, MaxHeader))
		}
		b = append(b, make([]byte, take)...)
		if err := h.f.readAt(b[n:], h.head+n); err != nil {
			return 0, h.fail(place{row: -1, at: h.head + n}, err)
		}
		if h.index == 0 && n == 0 && !bytes.HasPrefix(b, []byte("SIMPLE  =")) {
			return 0, h.f.fail(0, fmt.Errorf("%w: it does not begin with SIMPLE", ErrNotFITS))
		}
		if end = findEnd(b[n:]); end >= 0 {
			end += int(n)
		}
	}
	header, at, err := parseHeader(b[:end], h.head)
	if err != nil {
		return 0, h.fail(place{row: -1, at: at}, err)
	}
	h.header = header
	length := padded(int64(end + cardSize))
	h.data = h.head + length
	h.sums.head = addWords(0, b[:min(length, int64(len(b)))])
	if rest := length - int64(len(b)); rest > 0 {
		tail := make([]byte, min(rest, max(0, h.f.size-h.head-int64(len(b)))))
		if err := h.f.readAt(tail, h.head+int64(len(b))); err != nil {
			return 0, h.fail(nowhere, err)
		}
		h.sums.head = addWords(h.sums.head, tail)
	}
	if err := h.understand(); err != nil {
		return 0, h.fail(place{row: -1, at: h.head}, err)
	}
	return length, nil
}

// understand takes from the header what the HDU is and how long its data are.
func (h *HDU) understand() error {
	hd := h.header
	if name, ok, err := hd.Text("EXTNAME"); ok && err == nil {
		h.name = name
	}
	if err := hd.contradiction(); err != nil {
		return err
	}
	extension := ""
	if h.index == 0 {
		standard, found, err := hd.Bool("SIMPLE")
		if err != nil {
			return err
		}
		if !found || !standard {
			return unsupportedf("SIMPLE is not T: the file says that it does not follow the standard")
		}
	} else {
		var err error
		if extension, _, err = hd.Text("XTENSION"); err != nil {
			return err
		}
	}
	n := numbers{h: hd}
	h.bitpix = int(n.get("BITPIX", -64, -65))
	axes := n.get("NAXIS", 0, -1)
	if n.err != nil {
		return n.err
	}
	switch h.bitpix {
	case 8, 16, 32, 64, -32, -64:
	default:
		return corruptf("BITPIX = %d", h.bitpix)
	}
	if axes > MaxAxes {
		return corruptf("NAXIS = %d, at most %d is allowed", axes, MaxAxes)
	}
	for i := range int(axes) {
		h.axes = append(h.axes, n.get(key("NAXIS", i+1), 0, -1))
	}
	h.pcount = n.get("PCOUNT", 0, 0)
	gcount := n.get("GCOUNT", 0, 1)
	if n.err != nil {
		return n.err
	}
	groups, _, _ := hd.Bool("GROUPS")
	groups = groups && h.index == 0 && axes > 0 && h.axes[0] == 0
	sizes := h.axes
	if groups {
		sizes = sizes[1:]
	}
	elems := int64(1)
	if axes == 0 {
		elems = 0
	}
	for _, n := range sizes {
		var ok bool
		if elems, ok = mul(elems, n); !ok {
			return corruptf("the axes %v multiply to more than a file can hold", h.axes)
		}
	}
	var ok bool
	if h.size, ok = h.bytes(elems, gcount, extension != "" || groups); !ok {
		return corruptf("axes %v, PCOUNT %d and GCOUNT %d give more bytes than a file can hold", h.axes, h.pcount, gcount)
	}
	return h.classify(extension, groups, gcount)
}

// bytes is the size of the data (FITS 4.0, equations 1 and 2).
func (h *HDU) bytes(elems, gcount int64, counts bool) (int64, bool) {
	width := int64(max(h.bitpix, -h.bitpix) / 8)
	if counts {
		if elems > 1<<62-h.pcount {
			return 0, false
		}
		var ok bool
		if elems, ok = mul(elems+h.pcount, gcount); !ok {
			return 0, false
		}
	}
	n, ok := mul(elems, width)
	return n, ok && n < 1<<62
}

func mul(a, b int64) (int64, bool) {
	if a != 0 && b > (1<<62)/a {
		return 0, false
	}
	return a * b, true
}

func (h *HDU) classify(extension string, groups bool, gcount int64) error {
	switch {
	case groups:
		h.Kind = Other
	case extension == "" || extension == "IMAGE" || extension == "IUEIMAGE":
		h.Kind = ImageHDU
		if extension != "" && (h.pcount != 0 || gcount != 1) {
			return corruptf("an image with PCOUNT = %d and GCOUNT = %d", h.pcount, gcount)
		}
	case extension == "BINTABLE" || extension == "TABLE":
		if h.bitpix != 8 || len(h.axes) != 2 || gcount != 1 || extension == "TABLE" && h.pcount != 0 {
			return corruptf("a %s with BITPIX = %d, NAXIS = %d, PCOUNT = %d, GCOUNT = %d", extension, h.bitpix, len(h.axes), h.pcount, gcount)
		}
		h.Kind = BinTable
		if extension == "TABLE" {
			h.Kind = ASCIITable
			break
		}
		if image, _, err := h.header.Bool("ZIMAGE"); err != nil {
			return err
		} else if image {
			h.Kind = Compressed
		} else if table, _, _ := h.header.Bool("ZTABLE"); table {
			h.Kind = CompressedTab
		}
	default:
		h.Kind = Other
	}
	return nil
}

// what names an HDU in an error.
func (h *HDU) what() string {
	if h.Kind == Other {
		if x, ok, err := h.header.Text("XTENSION"); ok && err == nil {
			return "an extension " + strings.TrimSpace(x)
		}
		return "random groups"
	}
	return "a " + h.Kind.String()
}
