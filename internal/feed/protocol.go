package feed

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Version is the version of the protocol; client and feed must agree on it.
const Version = 2

// ErrProtocol marks messages that the protocol does not allow.
var ErrProtocol = errors.New("feed: message not allowed")

// Every message is a header of 64 little-endian bytes, then a body: JSON first, then plain bytes. Descriptors travel
// with the first byte of the header.
const headerLen = 64

// maxBody bounds a message from the client; the longest is a list of rows, 8 bytes each.
const maxBody = 64 << 20

// Messages of the client.
const (
	msgOpen   = 1 // control: JSON openRequest; answered by msgOpened
	msgAttach = 2 // control: two descriptors, session and credits; no answer
	msgStream = 3 // session: JSON streamRequest; answered by msgBatch..., msgEnd
	msgRead   = 4 // session: rows as int64; answered by msgBatch
	msgMap    = 5 // session: JSON mapRequest; answered by msgTable
	msgShards = 6 // session: no body; answered by msgShardRows
	msgStop   = 7 // session: ends the stream; no answer
	msgState  = 8 // session: JSON streamRequest; answered by msgStateIs
	msgChosen = 9 // session: JSON mapRequest, of which only the shard counts; answered by msgRows
)

// Messages of the feed.
const (
	msgOpened    = 65 // JSON Description
	msgBatch     = 66 // a filled slot; JSON stream.Layout unless it is the same as in the batch before
	msgEnd       = 67 // the stream is over
	msgError     = 68 // JSON wireError
	msgTable     = 69 // JSON mapReply, then First and Offsets as int64
	msgShardRows = 70 // selected rows of every shard as int64
	msgStateIs   = 71 // JSON checkpoint
	msgRows      = 72 // the selected rows of a shard as int64; none where all are
)

// Flags of msgBatch.
const (
	flagLast   = 1 // last batch of its epoch
	flagInline = 2 // the bytes of the batch follow the body: there is no shared memory
	flagValid  = 4 // plain bytes of the body: one a row, 0 where it only fills the batch up
	flagSource = 8 // plain bytes of the body, after those: two a row, the number of its source

	// The number of slots of the session stands above the flags: a client keeps one less.
	flagSlotsShift = 16
)

// creditRetire marks, on the credit channel, a slot that must not be written again: a forked process still sees it.
// Without it the byte is the number of a slot that may be written again.
const creditRetire = 0x80

// header is the fixed part of a message. Fields that a type does not use are zero.
type header struct {
	Body     uint32 // bytes that follow the header, without an inline batch
	Type     uint8
	FDs      uint8
	Slot     uint16
	Seq      uint32 // the request that a message answers
	Layout   uint32 // number of the batch's layout, counted from 1 in a session
	Rows     uint64
	Used     uint64 // bytes of the slot in use
	Size     uint64 // bytes of the slot
	Epoch    uint64
	Position uint64
	Flags    uint32
	JSON     uint32 // bytes of the body that are JSON
}

func (h *header) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], h.Body)
	b[4], b[5] = h.Type, h.FDs
	le.PutUint16(b[6:], h.Slot)
	le.PutUint32(b[8:], h.Seq)
	le.PutUint32(b[12:], h.Layout)
	le.PutUint64(b[16:], h.Rows)
	le.PutUint64(b[24:], h.Used)
	le.PutUint64(b[32:], h.Size)
	le.PutUint64(b[40:], h.Epoch)
	le.PutUint64(b[48:], h.Position)
	le.PutUint32(b[56:], h.Flags)
	le.PutUint32(b[60:], h.JSON)
}

func parseHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	h := header{Body: le.Uint32(b[0:]), Type: b[4], FDs: b[5], Slot: le.Uint16(b[6:]), Seq: le.Uint32(b[8:]), Layout: le.Uint32(b[12:]), Rows: le.Uint64(b[16:]),
		Used: le.Uint64(b[24:]), Size: le.Uint64(b[32:]), Epoch: le.Uint64(b[40:]), Position: le.Uint64(b[48:]), Flags: le.Uint32(b[56:]), JSON: le.Uint32(b[60:])}
	switch {
	case h.Body > maxBody:
		return h, fmt.Errorf("%w: a body of %d bytes, at most %d; ask for fewer rows at once", ErrProtocol, h.Body, maxBody)
	case h.JSON > h.Body:
		return h, fmt.Errorf("%w: %d bytes of JSON in a body of %d", ErrProtocol, h.JSON, h.Body)
	case h.FDs > 2 || (h.FDs != 0) != (h.Type == msgAttach):
		return h, fmt.Errorf("%w: %d descriptors with message %d", ErrProtocol, h.FDs, h.Type)
	}
	return h, nil
}

// message is one message as received; the receiver closes FDs.
type message struct {
	header
	Body []byte
	FDs  []int
}

func (m *message) decode(v any) error {
	if err := json.Unmarshal(m.Body[:m.JSON], v); err != nil {
		return fmt.Errorf("%w: message %d: %v", ErrProtocol, m.Type, err)
	}
	return nil
}

// link is one connection: any goroutine may send, one receives.
type link struct {
	conn *net.UnixConn
	mu   sync.Mutex
	out  []byte
}

// receive waits for the next message; io.EOF means that the client closed the connection between two messages.
func (l *link) receive() (*message, error) {
	var hb [headerLen]byte
	oob := make([]byte, unix.CmsgSpace(4*4))
	m := &message{}
	fail := func(err error) (*message, error) {
		closeAll(m.FDs)
		return nil, err
	}
	for got := 0; got < headerLen; {
		n, on, flags, _, err := l.conn.ReadMsgUnix(hb[got:], oob)
		if on > 0 {
			fds, perr := rights(oob[:on])
			m.FDs = append(m.FDs, fds...)
			if perr != nil {
				return fail(perr)
			}
		}
		if err != nil {
			return fail(err)
		}
		if n == 0 {
			if got == 0 {
				return fail(io.EOF)
			}
			return fail(io.ErrUnexpectedEOF)
		}
		if flags&unix.MSG_CTRUNC != 0 {
			return fail(fmt.Errorf("%w: too many descriptors", ErrProtocol))
		}
		got += n
	}
	h, err := parseHeader(hb[:])
	if err != nil {
		return fail(err)
	}
	m.header = h
	if int(h.FDs) != len(m.FDs) {
		return fail(fmt.Errorf("%w: %d descriptors came, %d were announced", ErrProtocol, len(m.FDs), h.FDs))
	}
	m.Body = make([]byte, h.Body)
	if _, err := io.ReadFull(l.conn, m.Body); err != nil {
		return fail(err)
	}
	return m, nil
}

// send writes a message: header, JSON, plain bytes, and inline bytes that the header's Body does not count.
func (l *link) send(h header, js, plain, inline []byte, fd int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.JSON, h.Body = uint32(len(js)), uint32(len(js)+len(plain))
	need := headerLen + len(js) + len(plain)
	if cap(l.out) < need {
		l.out = make([]byte, need)
	}
	b := l.out[:need]
	copy(b[headerLen:], js)
	copy(b[headerLen+len(js):], plain)
	var oob []byte
	if fd >= 0 {
		h.FDs = 1
		oob = unix.UnixRights(fd)
	}
	h.put(b)
	n, _, err := l.conn.WriteMsgUnix(b, oob, nil)
	if err == nil && n < len(b) {
		_, err = l.conn.Write(b[n:])
	}
	if err == nil && len(inline) > 0 {
		_, err = l.conn.Write(inline)
	}
	if cap(l.out) > 1<<20 {
		l.out = nil
	}
	return err
}

func rights(oob []byte) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrProtocol, err)
	}
	var fds []int
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			return fds, fmt.Errorf("%w: %v", ErrProtocol, err)
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// connFrom makes a connection of a descriptor, which it takes over.
func connFrom(fd int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(fd), "session")
	if f == nil {
		return nil, fmt.Errorf("%w: descriptor %d is not open", ErrProtocol, fd)
	}
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("%w: descriptor %d: %v", ErrProtocol, fd, err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		_ = c.Close()
		return nil, fmt.Errorf("%w: descriptor %d is a %T, not a unix socket", ErrProtocol, fd, c)
	}
	return u, nil
}
