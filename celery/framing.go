package celery

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// framedConn wraps the socket of the AMQP library and adds three things. The library leaves out a priority of 0,
// which Celery always sends: framedConn adds it to outgoing content headers. The library collects deliveries of any
// size in memory: framedConn cuts incoming bodies one byte above a limit, so that the consumer detects them. The
// library reads as fast as the broker sends: framedConn stops reading while too many bytes are unacknowledged. The
// broker closes a connection that is not read for about 15 seconds, and delivers again.

const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameEnd       = 0xCE
	frameHeaderLen = 7 // type, channel, size of the payload

	// maxFrame is the frame size that the client proposes when the connection is tuned, and RabbitMQ's own default.
	maxFrame = 128 << 10

	// afterWait is the time limit for the rest of a frame, after its header waited for free memory.
	afterWait = 30 * time.Second

	flagContentType     = 1 << 15
	flagContentEncoding = 1 << 14
	flagHeaders         = 1 << 13
	flagDeliveryMode    = 1 << 12
	flagPriority        = 1 << 11
)

type framedConn struct {
	net.Conn
	closeOnce sync.Once

	// Outgoing, guarded by the library's own write lock.
	greeted bool   // the protocol header, which is no frame, has been sent
	partial []byte // the beginning of a frame whose rest is still to come
	edited  []byte // reused

	// Incoming, touched only by the library's reader.
	reader   *bufio.Reader
	maxBody  uint64            // 0: no limit, and incoming frames aren't parsed
	left     map[uint16]uint64 // body bytes that may still pass, by channel
	frame    []byte            // reused
	unserved []byte            // the part of frame that was not yet returned to the library
	held     *held
}

func newFramedConn(conn net.Conn, maxBody uint64) *framedConn {
	c := &framedConn{Conn: conn, maxBody: maxBody, held: newHeld()}
	if maxBody > 0 {
		c.reader, c.left = bufio.NewReaderSize(conn, 64<<10), map[uint16]uint64{}
	}
	return c
}

func (c *framedConn) Close() (err error) {
	c.held.end()
	c.closeOnce.Do(func() { err = c.Conn.Close() })
	return err
}

func (c *framedConn) Write(p []byte) (int, error) {
	if !c.greeted {
		c.greeted = true
		return c.Conn.Write(p)
	}
	in := p
	if len(c.partial) > 0 {
		c.partial = append(c.partial, p...)
		in = c.partial
	}
	out := c.edited[:0]
	for len(in) >= frameHeaderLen {
		size := frameHeaderLen + int(binary.BigEndian.Uint32(in[3:])) + 1
		if len(in) < size {
			break
		}
		out = appendWithPriority(out, in[:size])
		in = in[size:]
	}
	c.partial = append(c.partial[:0], in...)
	c.edited = out[:0]
	if len(out) > 0 {
		if _, err := c.Conn.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// appendWithPriority copies one whole frame, adding priority 0 to a content
// header that has none.
func appendWithPriority(out, frame []byte) []byte {
	const fixed = frameHeaderLen + 2 + 2 + 8 // class, weight, body size
	if frame[0] != frameHeader || len(frame) < fixed+3 {
		return append(out, frame...)
	}
	flags := binary.BigEndian.Uint16(frame[fixed:])
	if flags&flagPriority != 0 {
		return append(out, frame...)
	}
	at := fixed + 2
	if flags&flagContentType != 0 {
		at += 1 + int(frame[at])
	}
	if flags&flagContentEncoding != 0 {
		at += 1 + int(frame[at])
	}
	if flags&flagHeaders != 0 {
		at += 4 + int(binary.BigEndian.Uint32(frame[at:]))
	}
	if flags&flagDeliveryMode != 0 {
		at++
	}
	start := len(out)
	out = append(append(append(out, frame[:at]...), 0), frame[at:]...)
	binary.BigEndian.PutUint32(out[start+3:], binary.BigEndian.Uint32(frame[3:])+1)
	binary.BigEndian.PutUint16(out[start+fixed:], flags|flagPriority)
	return out
}

func (c *framedConn) Read(p []byte) (n int, err error) {
	if c.maxBody == 0 {
		n, err = c.Conn.Read(p)
	} else {
		for len(c.unserved) == 0 && err == nil {
			err = c.nextFrame()
		}
		n = copy(p, c.unserved)
		c.unserved = c.unserved[n:]
	}
	if err != nil {
		// A writer may be stuck in a full socket while holding locks that the
		// library needs to shut down: closing frees it.
		_ = c.Close()
	}
	return n, err
}

// nextFrame reads one frame and sets unserved to the part that the library may read.
func (c *framedConn) nextFrame() error {
	c.frame = slices.Grow(c.frame[:0], frameHeaderLen)[:frameHeaderLen]
	if _, err := io.ReadFull(c.reader, c.frame); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(c.frame[3:])
	if size > maxFrame {
		return fmt.Errorf("the broker sent a frame of %d bytes, above the agreed %d", size, maxFrame)
	}
	c.frame = slices.Grow(c.frame, int(size)+1)[:frameHeaderLen+int(size)+1]
	if _, err := io.ReadFull(c.reader, c.frame[frameHeaderLen:]); err != nil {
		return err
	}
	c.unserved = c.frame
	channel := binary.BigEndian.Uint16(c.frame[1:])
	switch c.frame[0] {
	case frameMethod:
		if tag, ok := deliveryTag(c.frame[frameHeaderLen : frameHeaderLen+size]); ok {
			c.held.delivered(tag)
		}
	case frameHeader:
		if size < 12 {
			return nil
		}
		body := c.frame[frameHeaderLen+4:]
		c.left[channel] = min(binary.BigEndian.Uint64(body), c.maxBody+1)
		binary.BigEndian.PutUint64(body, c.left[channel])
		if c.held.take(c.left[channel]) {
			// The library's deadline may be over, and it sets the next one after this frame.
			return c.Conn.SetReadDeadline(time.Now().Add(afterWait))
		}
	case frameBody:
		left := c.left[channel]
		c.left[channel] -= min(left, uint64(size))
		switch {
		case uint64(size) <= left:
		case left == 0:
			c.unserved = nil
		default:
			binary.BigEndian.PutUint32(c.frame[3:], uint32(left))
			c.frame[frameHeaderLen+left] = frameEnd
			c.unserved = c.frame[:frameHeaderLen+left+1]
		}
	}
	return nil
}

// deliveryTag returns the delivery tag of a method frame's payload, if that is a basic.deliver.
func deliveryTag(payload []byte) (tag uint64, ok bool) {
	const basic, deliver = 60, 60
	if len(payload) < 5 || binary.BigEndian.Uint16(payload) != basic || binary.BigEndian.Uint16(payload[2:]) != deliver {
		return 0, false
	}
	at := 5 + int(payload[4]) // after the consumer's tag
	if len(payload) < at+8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(payload[at:]), true
}
