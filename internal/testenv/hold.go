package testenv

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// Frame is a kind of AMQP frame, or of PostgreSQL's messages, that a proxy can hold.
type Frame struct {
	class, method uint16
	fromClient    bool
}

var (
	Publishes = Frame{60, 40, true}  // messages of clients
	Confirms  = Frame{60, 80, false} // basic.ack: the broker confirms messages
	Commits   = Frame{method: 'C'}   // PostgreSQL's answer to a commit
)

// hold stops each connection at its next frame of a kind.
type hold struct {
	frame   Frame
	pass    int // number of frames that pass before
	once    sync.Once
	reached chan struct{}
	ended   chan struct{}
}

// Hold lets pass frames of a kind pass. Then it holds the next one of each connection, and all data after it in its
// direction, until Release or Cut. The returned channel is closed once one is held.
func (x *Toxic) Hold(frame Frame, pass int) (reached <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.endHold()
	x.hold = &hold{frame: frame, pass: pass, reached: make(chan struct{}), ended: make(chan struct{})}
	return x.hold.reached
}

// Release forwards the held data.
func (x *Toxic) Release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.endHold()
}

// endHold is called with mu locked.
func (x *Toxic) endHold() {
	if x.hold != nil {
		close(x.hold.ended)
		x.hold = nil
	}
}

// holder returns the hold that stops a frame, or nil.
func (x *Toxic) holder(frame Frame) *hold {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := x.hold
	if h == nil || h.frame != frame {
		return nil
	}
	if h.pass > 0 {
		h.pass--
		return nil
	}
	return h
}

// copyFrames copies AMQP 0-9-1 from src until its end. A frame is its type, channel (2 bytes), length (4 bytes),
// payload and an end mark. The payload of a method (type 1) begins with its class and number. The protocol's header,
// "AMQP" and four bytes, has the length of a frame without payload.
func (x *Toxic) copyFrames(dst io.Writer, src net.Conn, fromClient bool) error {
	in, out := bufio.NewReaderSize(src, 64<<10), bufio.NewWriterSize(dst, 64<<10)
	for {
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		head, err := in.Peek(7)
		if err != nil {
			return end(err, head)
		}
		size := int64(8)
		if head[0] != 'A' {
			size += int64(binary.BigEndian.Uint32(head[3:]))
		}
		if head[0] == 1 {
			if head, err = in.Peek(11); err != nil {
				return err
			}
			if h := x.holder(Frame{binary.BigEndian.Uint16(head[7:]), binary.BigEndian.Uint16(head[9:]), fromClient}); h != nil {
				// Earlier data is not held.
				if err := out.Flush(); err != nil {
					return err
				}
				h.once.Do(func() { close(h.reached) })
				<-h.ended
			}
		}
		if _, err := io.CopyN(out, in, size); err != nil {
			return err
		}
	}
}

// copyMessages copies PostgreSQL's messages from src until its end. A message of the server is its type, its length
// (4 bytes), which includes itself, and its text. Before the first message, the server answers each request for
// encryption by a byte. The server must be without TLS.
func (x *Toxic) copyMessages(dst io.Writer, src net.Conn, fromClient bool) error {
	if fromClient {
		_, err := io.Copy(dst, src)
		return err
	}
	in, out := bufio.NewReaderSize(src, 64<<10), bufio.NewWriterSize(dst, 64<<10)
	for refused := true; ; {
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		head, err := in.Peek(1)
		if err != nil {
			return end(err, head)
		}
		size := int64(1)
		if refused = refused && head[0] == 'N'; !refused {
			if head, err = in.Peek(5); err != nil {
				return end(err, head)
			}
			size += int64(binary.BigEndian.Uint32(head[1:]))
		}
		const committed = "COMMIT\x00"
		if head[0] == 'C' && size == int64(5+len(committed)) {
			if head, err = in.Peek(int(size)); err != nil {
				return end(err, head)
			}
			if h := x.holder(Commits); string(head[5:]) == committed && h != nil {
				if err := out.Flush(); err != nil {
					return err
				}
				h.once.Do(func() { close(h.reached) })
				<-h.ended
			}
		}
		if _, err := io.CopyN(out, in, size); err != nil {
			return err
		}
	}
}

// end returns the error of a connection that ended within a message, after read, or between two.
func end(err error, read []byte) error {
	if err == io.EOF && len(read) == 0 {
		return nil
	}
	return err
}
