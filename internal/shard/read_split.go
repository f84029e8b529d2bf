package shard

import "encoding/binary"

// joinStreams undoes BYTE_STREAM_SPLIT: byte k of value i stands at src[k*n+i].
func joinStreams(dst, src []byte, n, width int) {
	i := 0
	switch width {
	case 4:
		a, b, c, d := src[:n], src[n:2*n], src[2*n:3*n], src[3*n:4*n]
		for ; i+8 <= n; i += 8 {
			w0 := binary.LittleEndian.Uint64(a[i:])
			w1 := binary.LittleEndian.Uint64(b[i:])
			w2 := binary.LittleEndian.Uint64(c[i:])
			w3 := binary.LittleEndian.Uint64(d[i:])
			o := dst[4*i : 4*i+32]
			for k := 0; k < 4; k++ {
				lo := w0&0xff | w1&0xff<<8 | w2&0xff<<16 | w3&0xff<<24
				hi := w0>>8&0xff | w1>>8&0xff<<8 | w2>>8&0xff<<16 | w3>>8&0xff<<24
				binary.LittleEndian.PutUint64(o[8*k:], lo|hi<<32)
				w0, w1, w2, w3 = w0>>16, w1>>16, w2>>16, w3>>16
			}
		}
	case 8:
		for ; i+8 <= n; i += 8 {
			var w [8]uint64
			for k := range w {
				w[k] = binary.LittleEndian.Uint64(src[k*n+i:])
			}
			transpose8(&w)
			o := dst[8*i : 8*i+64]
			for k := range w {
				binary.LittleEndian.PutUint64(o[8*k:], w[k])
			}
		}
	}
	for ; i < n; i++ {
		for k := 0; k < width; k++ {
			dst[i*width+k] = src[k*n+i]
		}
	}
}

// transpose8 turns eight rows of eight bytes into their columns.
func transpose8(w *[8]uint64) {
	for i := 0; i < 8; i += 2 {
		a, b := w[i], w[i+1]
		w[i] = a&0x00ff00ff00ff00ff | b&0x00ff00ff00ff00ff<<8
		w[i+1] = a>>8&0x00ff00ff00ff00ff | b&0xff00ff00ff00ff00
	}
	for _, i := range [4]int{0, 1, 4, 5} {
		a, b := w[i], w[i+2]
		w[i] = a&0x0000ffff0000ffff | b&0x0000ffff0000ffff<<16
		w[i+2] = a>>16&0x0000ffff0000ffff | b&0xffff0000ffff0000
	}
	for i := 0; i < 4; i++ {
		a, b := w[i], w[i+4]
		w[i] = a&0x00000000ffffffff | b<<32
		w[i+4] = a>>32 | b&0xffffffff00000000
	}
}
