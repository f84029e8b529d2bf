package sky

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Stream reads positions, each two little-endian float64 (ra, dec, degrees), and writes the NESTED pixel of each as a little-endian int64.
// It stops at the first position that is not one, naming its index, after writing those before it; input that ends inside a
// pair is io.ErrUnexpectedEOF.
func Stream(r io.Reader, w io.Writer, order int) error {
	if err := checkOrder(order); err != nil {
		return err
	}
	in, out := bufio.NewReaderSize(r, 1<<16), bufio.NewWriterSize(w, 1<<16)
	var pair [16]byte
	for i := 0; ; i++ {
		if _, err := io.ReadFull(in, pair[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return out.Flush()
			}
			return errors.Join(fmt.Errorf("reading position %d: %w", i, err), out.Flush())
		}
		ra := math.Float64frombits(binary.LittleEndian.Uint64(pair[:8]))
		dec := math.Float64frombits(binary.LittleEndian.Uint64(pair[8:]))
		pix, err := Pix(order, ra, dec)
		if err != nil {
			return errors.Join(fmt.Errorf("position %d: %w", i, err), out.Flush())
		}
		if _, err := out.Write(binary.LittleEndian.AppendUint64(pair[:0], uint64(pix))); err != nil {
			return fmt.Errorf("writing pixel %d: %w", i, err)
		}
	}
}
