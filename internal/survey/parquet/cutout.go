package parquet

import (
	"bytes"
	"compress/gzip"
	"io"
)

const fitsMagic = "SIMPLE  ="

// looksFITS says whether a value begins as a FITS file does, gzipped or not.
func looksFITS(raw []byte) (ok, zipped bool) {
	if bytes.HasPrefix(raw, []byte(fitsMagic)) {
		return true, false
	}
	if !bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		return false, false
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return false, true
	}
	head := make([]byte, len(fitsMagic))
	_, err = io.ReadFull(z, head)
	return err == nil && string(head) == fitsMagic, true
}
