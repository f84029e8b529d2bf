//go:build !purego

package shard

import "golang.org/x/sys/cpu"

// canLanes says whether this machine has the instructions of sha256x16 and sha1x16.
func canLanes() bool { return cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW }

// sha256x16 compresses n blocks of 64 bytes, at least one, of each lane. k are the constants of the rounds.
//
//go:noescape
func sha256x16(state *[8][laneCount]uint32, lanes *[laneCount]*byte, n int, k *[64]uint32)

// sha1x16 is the same for SHA-1.
//
//go:noescape
func sha1x16(state *[5][laneCount]uint32, lanes *[laneCount]*byte, n int)
