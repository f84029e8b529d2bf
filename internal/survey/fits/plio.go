package fits

// The instructions of a line list, in the high 4 bits of a word; the low 12 are their operand (FITS 4.0, section 10.4.3).
const (
	plioZeros   = 0 // operand zeros
	plioSet     = 1 // the value becomes operand and the next word, times 4096
	plioAdd     = 2 // the value grows
	plioTake    = 3 // the value shrinks
	plioRun     = 4 // operand pixels of the value
	plioLast    = 5 // operand pixels: zeros, and the value as the last
	plioAddOne  = 6 // the value grows, and one pixel has it
	plioTakeOne = 7 // the value shrinks, and one pixel has it
)

// plio decodes a line list of big-endian 16-bit words. Pixels after its last instruction are zero.
func plio(dst []int32, src []byte) error {
	words := len(src) / 2
	word := func(i int) int { return int(int16(be.Uint16(src[2*i:]))) }
	if words < 3 {
		return corruptf("PLIO_1: a line list of %d words", words)
	}
	first, length := 3, word(2)
	if length <= 0 {
		// The newer header says itself how long it is, and the length takes two words.
		if words < 5 {
			return corruptf("PLIO_1: a line list of %d words", words)
		}
		first, length = word(1), word(4)<<15+word(3)
	}
	if first < 3 || length > words || first > max(length, 7) {
		return corruptf("PLIO_1: a list of words %d to %d in %d", first, length, words)
	}
	clear(dst)
	value, at := int32(1), 0
	for i := first; i < length && at < len(dst); i++ {
		w := word(i)
		operand := w & 0xfff
		run := min(operand, len(dst)-at)
		switch w >> 12 {
		case plioZeros:
			at += run
		case plioSet:
			if i++; i == length {
				return corruptf("PLIO_1: the list ends inside an instruction")
			}
			value = int32(word(i)<<12 + operand)
		case plioAdd:
			value += int32(operand)
		case plioTake:
			value -= int32(operand)
		case plioRun:
			for k := range run {
				dst[at+k] = value
			}
			at += run
		case plioLast:
			at += run
			if run == operand && run > 0 {
				dst[at-1] = value
			}
		case plioAddOne, plioTakeOne:
			if w>>12 == plioTakeOne {
				operand = -operand
			}
			value += int32(operand)
			dst[at] = value
			at++
		default:
			return corruptf("PLIO_1: word %d is no instruction", i)
		}
	}
	return nil
}
