package deflate

// fast decodes while neither the input's nor the output's end is near; ended says that the block is over. It is the one
// loop that decides how fast compressed chunks are read: state is in local variables, one check covers several symbols.
func (z *Decoder) fast(r *bitReader, dst []byte, out int) (_ int, ended, ok bool) {
	const litMask, distMask = 1<<litBits - 1, 1<<distBits - 1
	src, in, buf, n := r.src, r.in, r.buf, r.n
	lit, dist := &z.lit, &z.dist
	inEnd, outEnd := len(src)-fastInput, len(dst)-fastOutput
	ok = true
	for in <= inEnd && out <= outEnd {
		// Only the low 8 bits of n count from here to the end of the loop: an entry is subtracted whole.
		buf |= le.Uint64(src[in:]) << (n & 63)
		in += int(63-n&63) >> 3
		n |= 56
		e := lit[buf&litMask]
		if e&entryLiteral != 0 {
			// Four codes of the first table fit into 56 bits; after three a match's length does still.
			buf >>= e & 63
			n -= uint(e)
			dst[out] = byte(e >> entryBase)
			out++
			e = lit[buf&litMask]
			if e&entryLiteral != 0 {
				buf >>= e & 63
				n -= uint(e)
				dst[out] = byte(e >> entryBase)
				out++
				e = lit[buf&litMask]
				if e&entryLiteral != 0 {
					buf >>= e & 63
					n -= uint(e)
					dst[out] = byte(e >> entryBase)
					out++
					e = lit[buf&litMask]
					if e&entryLiteral != 0 {
						buf >>= e & 63
						n -= uint(e)
						dst[out] = byte(e >> entryBase)
						out++
						continue
					}
				}
			}
		}
		if e&entryOther != 0 {
			if e&entryLink != 0 {
				buf >>= e & 63
				n -= uint(e)
				e = lit[(uint64(e>>entryBase)+buf&(1<<(e>>entryCode&15)-1))&(litSpace-1)]
				if e&entryLiteral != 0 {
					buf >>= e & 63
					n -= uint(e)
					dst[out] = byte(e >> entryBase)
					out++
					continue
				}
			}
			if e&entryEnd != 0 {
				buf >>= e & 63
				n -= uint(e)
				ended = true
				break
			}
			if e&entryBad != 0 {
				return 0, false, false
			}
		}
		length := int(e>>entryBase) + int(buf&(1<<(e&63)-1)>>(e>>entryCode&15))
		buf >>= e & 63
		n -= uint(e)
		buf |= le.Uint64(src[in:]) << (n & 63)
		in += int(63-n&63) >> 3
		n |= 56
		e = dist[buf&distMask]
		if e&entryOther != 0 {
			if e&entryLink != 0 {
				buf >>= e & 63
				n -= uint(e)
				e = dist[(uint64(e>>entryBase)+buf&(1<<(e>>entryCode&15)-1))&(distSpace-1)]
			}
			if e&entryBad != 0 {
				return 0, false, false
			}
		}
		distance := int(e>>entryBase) + int(buf&(1<<(e&63)-1)>>(e>>entryCode&15))
		buf >>= e & 63
		n -= uint(e)
		from := out - distance
		if from < 0 {
			return 0, false, false
		}
		// Up to 7 bytes too many are written; fastOutput has room for them and what follows overwrites them.
		if distance >= 8 {
			for k := 0; k < length; k += 8 {
				le.PutUint64(dst[out+k:], le.Uint64(dst[from+k:]))
			}
		} else if distance == 1 {
			word := uint64(dst[from]) * 0x0101010101010101
			for k := 0; k < length; k += 8 {
				le.PutUint64(dst[out+k:], word)
			}
		} else {
			// Each word stored makes distance more bytes right.
			for k := 0; k < length; k += distance {
				le.PutUint64(dst[out+k:], le.Uint64(dst[from+k:]))
			}
		}
		out += length
	}
	// The careful loop wants an exact count, and bits it has not counted cleared.
	n &= 63
	r.in, r.n, r.buf = in, n, buf&(1<<n-1)
	return out, ended, ok
}
