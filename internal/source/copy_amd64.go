package source

import "golang.org/x/sys/cpu"

// canPast says whether this machine has the instructions of past.
var canPast = cpu.X86.HasAVX2

// past copies n bytes, a multiple of blockPast, to dst, which is a multiple of 64.
//
//go:noescape
func past(dst, src *byte, n int)
