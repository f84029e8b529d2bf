package sky

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrMap is returned, wrapped, for counts that do not make a map of their order.
var ErrMap = errors.New("not a HEALPix map")

const fitsBlock = 2880

// MapOrder returns the order at which a catalogue of that many rows keeps its sky map: the finest with at least four rows a pixel on a full sky,
// at least 4 (24 KiB) and at most 10 (96 MiB). So the map stays small beside the rows it counts.
func MapOrder(rows int64) int {
	order := 4
	for order < 10 && Pixels(order+1) <= rows/4 {
		order++
	}
	return order
}

// WriteMap writes the number of rows in each pixel of an order as a FITS file: a binary table of one int64 column, all pixels, NESTED,
// equatorial coordinates, as HATS' skymap.fits and healpy's read_map take it. The same counts give the same bytes. There must be 12*4^order counts, none
// negative; else the error is ErrMap.
func WriteMap(w io.Writer, order int, counts []int64) error {
	if err := checkOrder(order); err != nil {
		return err
	}
	if int64(len(counts)) != Pixels(order) {
		return fmt.Errorf("%w: %d counts, order %d has %d pixels", ErrMap, len(counts), order, Pixels(order))
	}
	for pix, n := range counts {
		if n < 0 {
			return fmt.Errorf("%w: pixel %d of order %d has the count %d", ErrMap, pix, order, n)
		}
	}
	out := bufio.NewWriterSize(w, 1<<16)
	writeHeader(out, []card{
		{"SIMPLE", "T"}, {"BITPIX", "8"}, {"NAXIS", "0"}, {"EXTEND", "T"},
	})
	writeHeader(out, []card{
		{"XTENSION", "'BINTABLE'"}, {"BITPIX", "8"}, {"NAXIS", "2"}, {"NAXIS1", "8"}, {"NAXIS2", fmt.Sprint(len(counts))},
		{"PCOUNT", "0"}, {"GCOUNT", "1"}, {"TFIELDS", "1"}, {"TTYPE1", "'COUNT   '"}, {"TFORM1", "'K       '"},
		{"PIXTYPE", "'HEALPIX '"}, {"ORDERING", "'NESTED  '"}, {"COORDSYS", "'CEL     '"}, {"EXTNAME", "'SKYMAP  '"},
		{"NSIDE", fmt.Sprint(int64(1) << uint(order))}, {"FIRSTPIX", "0"}, {"LASTPIX", fmt.Sprint(len(counts) - 1)},
		{"INDXSCHM", "'IMPLICIT'"}, {"OBJECT", "'FULLSKY '"}, {"CREATOR", "'astropile'"},
	})
	var word [8]byte
	for _, n := range counts {
		out.Write(binary.BigEndian.AppendUint64(word[:0], uint64(n)))
	}
	if rest := 8 * len(counts) % fitsBlock; rest != 0 {
		out.Write(make([]byte, fitsBlock-rest))
	}
	// A bufio.Writer keeps its first error and returns it here.
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing a sky map: %w", err)
	}
	return nil
}

type card struct{ key, value string }

// writeHeader writes 80-column cards, END, and spaces up to a whole block. Numbers and logicals end in column 30, strings begin in column 11.
func writeHeader(out *bufio.Writer, cards []card) {
	n := 0
	line := func(s string) {
		m, _ := fmt.Fprintf(out, "%-80s", s)
		n += m
	}
	for _, c := range cards {
		if c.value[0] == '\'' {
			line(fmt.Sprintf("%-8s= %s", c.key, c.value))
		} else {
			line(fmt.Sprintf("%-8s= %20s", c.key, c.value))
		}
	}
	line("END")
	for ; n%fitsBlock != 0; n++ {
		out.WriteByte(' ')
	}
}
