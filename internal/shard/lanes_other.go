//go:build !amd64 || purego

package shard

// canLanes says that the digests of this machine are the standard library's, one after the other.
func canLanes() bool { return false }

func sha256x16(*[8][laneCount]uint32, *[laneCount]*byte, int, *[64]uint32) {
	panic("shard: a machine without lanes was asked for them")
}

func sha1x16(*[5][laneCount]uint32, *[laneCount]*byte, int) {
	panic("shard: a machine without lanes was asked for them")
}
