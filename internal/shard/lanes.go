package shard

import (
	"crypto/fips140"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
)

// The digests of units, and of a torrent's pieces, are of many messages that lie side by side. Instructions made for SHA
// wait for the result of each round before the next; sixteen messages in the elements of wide registers wait for
// nothing, and are done in less than half of the time (docs/design/0001-unit-digest.md).

const (
	laneCount = 16 // messages at once
	laneBlock = 64 // bytes of a block of SHA-1 and SHA-256
	// Fewer messages than these are faster one after the other.
	leastLanes256 = 8
	leastLanes1   = 5
)

var sha256Rounds = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

var (
	sha256Initial = [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
	sha1Initial   = [5]uint32{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}
)

// sha256Each digests each message.
func sha256Each(messages [][]byte, sum func(i int, digest [32]byte)) {
	n := inLanes(len(messages), leastLanes256)
	if n > 0 {
		var state [8][laneCount]uint32
		l := lanes{
			start:    func(lane int) { setLane(state[:], sha256Initial[:], lane) },
			compress: func(at *[laneCount]*byte, n int) { sha256x16(&state, at, n, &sha256Rounds) },
			end: func(lane, i int) {
				var d [32]byte
				laneBytes(d[:], state[:], lane)
				sum(i, d)
			},
		}
		l.run(messages[:n])
	}
	for i := n; i < len(messages); i++ {
		sum(i, sha256.Sum256(messages[i]))
	}
}

// sha1Each is the same for SHA-1.
func sha1Each(messages [][]byte, sum func(i int, digest [20]byte)) {
	n := inLanes(len(messages), leastLanes1)
	if n > 0 {
		var state [5][laneCount]uint32
		l := lanes{
			start:    func(lane int) { setLane(state[:], sha1Initial[:], lane) },
			compress: func(at *[laneCount]*byte, n int) { sha1x16(&state, at, n) },
			end: func(lane, i int) {
				var d [20]byte
				laneBytes(d[:], state[:], lane)
				sum(i, d)
			},
		}
		l.run(messages[:n])
	}
	for i := n; i < len(messages); i++ {
		sum(i, sha1.Sum(messages[i]))
	}
}

// inLanes is how many of n messages are worth lanes: full rounds of them, and a last one that is full enough.
func inLanes(n, least int) int {
	if !canLanes() || fips140.Enabled() { // only the standard library's digests are validated
		return 0
	}
	if rest := n % laneCount; rest < least {
		n -= rest
	}
	return n
}

func setLane(state [][laneCount]uint32, initial []uint32, lane int) {
	for i, v := range initial {
		state[i][lane] = v
	}
}

func laneBytes(d []byte, state [][laneCount]uint32, lane int) {
	for i := range state {
		binary.BigEndian.PutUint32(d[4*i:], state[i][lane])
	}
}

// lanes carries messages through a hash of sixteen lanes. A message whose lane is done makes room for the next.
type lanes struct {
	start    func(lane int)                    // sets the state of a lane to the beginning
	compress func(at *[laneCount]*byte, n int) // n blocks of every lane
	end      func(lane, message int)           // the lane's state is the digest of the message
	lane     [laneCount]lane                   // what each works on
	last     [laneCount][2 * laneBlock]byte    // the end of a lane's message, padded
}

type lane struct {
	message int    // -1 where there is none
	left    []byte // whole blocks
	last    []byte // blocks after those
}

func (l *lanes) run(messages [][]byte) {
	next, busy := 0, 0
	take := func(k int) {
		l.lane[k] = lane{message: -1}
		if next == len(messages) {
			return
		}
		m := messages[next]
		whole := len(m) / laneBlock * laneBlock
		l.lane[k] = lane{message: next, left: m[:whole], last: padMessage(&l.last[k], m[whole:], uint64(len(m)))}
		l.start(k)
		next++
		busy++
	}
	for k := range l.lane {
		take(k)
	}
	for busy > 0 {
		n := 0
		var some *byte // what lanes that have nothing to do read
		for k := range l.lane {
			a := &l.lane[k]
			if len(a.left) == 0 {
				a.left, a.last = a.last, nil
			}
			if have := len(a.left) / laneBlock; have > 0 && (n == 0 || have < n) {
				n, some = have, &a.left[0]
			}
		}
		var at [laneCount]*byte
		for k := range l.lane {
			if at[k] = some; l.lane[k].message >= 0 {
				at[k] = &l.lane[k].left[0]
			}
		}
		l.compress(&at, n)
		for k := range l.lane {
			a := &l.lane[k]
			if a.message < 0 {
				continue
			}
			if a.left = a.left[n*laneBlock:]; len(a.left) == 0 && a.last == nil {
				l.end(k, a.message)
				busy--
				take(k)
			}
		}
	}
}

// padMessage is the end of a message of size bytes, of which less than a block is left: that, a one, zeros, the length.
func padMessage(buf *[2 * laneBlock]byte, left []byte, size uint64) []byte {
	clear(buf[:])
	n := copy(buf[:], left)
	buf[n] = 0x80
	end := laneBlock
	if n+1+8 > end {
		end += laneBlock
	}
	binary.BigEndian.PutUint64(buf[end-8:], size*8)
	return buf[:end]
}
