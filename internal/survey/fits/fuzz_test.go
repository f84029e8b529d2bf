package fits

import (
	"bytes"
	"math"
	"slices"
	"testing"
)

func FuzzHeader(f *testing.F) {
	for _, raw := range goldens(f) {
		f.Add(raw[:2*blockSize])
	}
	f.Add([]byte(record("LONG", "'a&'") + "CONTINUE  'b&' / c" + record("X", "(1.5, -2D3)")))
	f.Add([]byte("HIERARCH a b = 'x''y' / z"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = append(raw, bytes.Repeat([]byte(" "), cardSize-len(raw)%cardSize)...)
		h, _, err := parseHeader(raw, 0)
		if err != nil {
			if !known(err) {
				t.Fatal(err)
			}
			return
		}
		for i, c := range h.Cards() {
			first, ok := h.Get(c.Keyword)
			if !ok || first.at > c.at {
				t.Fatalf("card %d: %q", i, c.Keyword)
			}
			if c.Kind == Text && unprintable(c.Text) >= 0 {
				t.Fatalf("card %d: %q", i, c.Text)
			}
			if _, _, err := h.Int(c.Keyword); err != nil && !known(err) {
				t.Fatal(err)
			}
		}
	})
}

// FuzzFile reads whatever opens, as though checksums fitted.
func FuzzFile(f *testing.F) {
	for _, raw := range goldens(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := New(bytes.NewReader(raw), int64(len(raw)), "fuzz.fits")
		if err == nil {
			file.unverified = true
			_, err = everything(file)
		}
		if err != nil && !known(err) && !bytes.Contains([]byte(err.Error()), []byte("has none that says so")) {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeImage(f *testing.F) {
	f.Add(stamp(5))
	f.Add(zipped(f, stamp(5)))
	f.Add(stamp(5, "BZERO = 3.5", "BLANK = 7"))
	for name, raw := range goldens(f) {
		if len(raw) < 12000 {
			f.Add(raw)
			f.Add(zipped(f, raw))
			_ = name
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		const most = 1 << 20
		var d Decoder
		dt, shape, data, err := d.Decode(raw, most)
		if err != nil {
			if !known(err) {
				t.Fatal(err)
			}
			return
		}
		n := dt.Size()
		for _, k := range shape {
			n *= k
		}
		if n != len(data) || n > most {
			t.Fatalf("%s %v, %d bytes", dt, shape, len(data))
		}
		// The short way and the whole reader agree.
		var other Decoder
		if raw[0] == gzipID1 {
			raw = d.unpacked
		}
		dt2, shape2, data2, err := other.any(raw, most)
		if err != nil || dt2 != dt || !slices.Equal(shape2, shape) || !bytes.Equal(data, data2) {
			t.Fatalf("%s %v; the whole reader: %s %v, %v", dt, shape, dt2, shape2, err)
		}
	})
}

// bitByBit is the Rice code in the plainest way.
func bitByBit(n int, src []byte, code riceCode, block int) ([]int32, bool) {
	at := 0
	bit := func() (int, bool) {
		if at >= 8*len(src) {
			return 0, false
		}
		at++
		return int(src[(at-1)/8]) >> (7 - (at-1)%8) & 1, true
	}
	number := func(k uint) (v uint32, ok bool) {
		for range k {
			b, ok := bit()
			if !ok {
				return 0, false
			}
			v = v<<1 | uint32(b)
		}
		return v, true
	}
	first, ok := number(code.bits)
	if !ok {
		return nil, false
	}
	last, out := int32(first), make([]int32, 0, n)
	for len(out) < n {
		k, ok := number(code.fsBits)
		if !ok || int(k)-1 > code.fsMax {
			return nil, false
		}
		for range min(block, n-len(out)) {
			var d uint32
			switch {
			case k == 0:
			case int(k)-1 == code.fsMax:
				if d, ok = number(code.bits); !ok {
					return nil, false
				}
			default:
				zeros := uint64(0)
				for {
					b, ok := bit()
					if !ok {
						return nil, false
					}
					if b == 1 {
						break
					}
					zeros++
				}
				low, ok := number(uint(k - 1))
				if !ok || zeros > math.MaxUint32>>(k-1) {
					return nil, false
				}
				d = uint32(zeros)<<(k-1) | low
			}
			last += unfold(d)
			out = append(out, last)
		}
	}
	return out, true
}

func FuzzRice(f *testing.F) {
	f.Add([]byte{0, 0, 0, 9, 0x30, 0x55, 0xaa, 0x13, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, uint16(20), uint8(2), uint8(32))
	f.Add([]byte{0, 9, 0xf0, 0x55, 0xaa, 0x13, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, uint16(9), uint8(1), uint8(4))
	f.Add(bytes.Repeat([]byte{0x5a, 0, 0xc3, 0xff}, 40), uint16(100), uint8(0), uint8(7))
	f.Fuzz(func(t *testing.T, src []byte, n uint16, width, block uint8) {
		code, _ := riceFor(1 << (width % 3))
		size := max(1, int(block))
		got := make([]int32, n%5000)
		err := rice(got, src, code, size)
		want, ok := bitByBit(len(got), src, code, size)
		if ok && err == nil && !slices.Equal(got, want) || !ok && err == nil {
			t.Fatalf("decoder %v, plain decoder %v", err, ok)
		}
		if ok && err != nil && code.bits == 32 {
			t.Fatalf("%v, where the plain decoder gives %d pixels", err, len(want))
		}
	})
}

func FuzzPlio(f *testing.F) {
	f.Add([]byte{0, 0, 0, 7, 0xff, 0x9c, 0, 10, 0, 0, 0, 0, 0, 0, 0x40, 5, 0x50, 3, 0x20, 9}, uint16(30))
	f.Add([]byte{0, 0, 0, 0, 0, 5, 0x60, 5, 0x10, 3, 0, 9}, uint16(3))
	f.Fuzz(func(t *testing.T, src []byte, n uint16) {
		if err := plio(make([]int32, n), src); err != nil && !known(err) {
			t.Fatal(err)
		}
	})
}

func FuzzHcompress(f *testing.F) {
	raw := goldens(f)["comp_HCOMPRESS_1_i2_1.fits"]
	file, err := New(bytes.NewReader(raw), int64(len(raw)), "seed")
	if err != nil {
		f.Fatal(err)
	}
	t, err := file.HDUs()[1].newTiling()
	if err != nil {
		f.Fatal(err)
	}
	r := &tileReader{tiling: t, heap: t.heap}
	row := raw[file.HDUs()[1].data:]
	src, err := r.cell(row, t.data)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(src), uint8(16), uint8(16), true)
	f.Fuzz(func(t *testing.T, src []byte, rows, cols uint8, smooth bool) {
		var d hdecompressor
		size := []int64{int64(cols), int64(rows)}
		if err := d.decode(make([]int32, int(rows)*int(cols)), src, size, smooth); err != nil && !known(err) {
			t.Fatal(err)
		}
	})
}
