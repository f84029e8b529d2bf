package source

import "unsafe"

// blockPast is what the assembly copies at once, in bytes.
const blockPast = 256

// copyPast copies len(dst) bytes of src, as copy does. Large copies go past the caches where the machine can do so: what
// they overwrite is not fetched first.
func copyPast(dst, src []byte) {
	if len(dst) < 4096 || !canPast {
		copy(dst, src)
		return
	}
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) & 63)
	copy(dst[:head], src)
	n := (len(dst) - head) / blockPast * blockPast
	past(&dst[head], &src[head], n)
	copy(dst[head+n:], src[head+n:])
}
