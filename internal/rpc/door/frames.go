package door

import (
	"encoding/binary"
	"errors"
)

// errFrame is the error of bytes that are not a stream of PostgreSQL's messages.
var errFrame = errors.New("the stream holds no messages of PostgreSQL's protocol")

const headLength = 5 // the type and the length of a message

// frames parses the messages of one direction. It stores heads only: a body may have a gigabyte.
type frames struct {
	head [headLength + 1]byte // head of the present message, with the status byte of readyForQuery
	have int                  // bytes of head
	size int                  // of the message, valid once its head is complete
	rest uint32               // bytes of the body that have not come yet
}

// between reports whether the stream is between two messages.
func (f *frames) between() bool { return f.have == 0 && f.rest == 0 }

// whole returns how many of the last have bytes of the stream can be passed on so that the other side is between two
// messages. It leaves out the beginning of a message, unless the message has more than room bytes or began before.
func (f *frames) whole(have, room int) int {
	begun, size := f.have, 0
	if f.rest > 0 {
		begun, size = f.size-int(f.rest), f.size
	}
	if begun > have || size > room {
		return have
	}
	return have - begun
}

// read reads the next bytes of the stream. It calls note for each message whose head is complete, for
// readyForQuery with its status.
func (f *frames) read(p []byte, note func(kind, status byte)) error {
	for len(p) > 0 {
		if f.rest > 0 {
			n := min(uint32(len(p)), f.rest)
			p, f.rest = p[n:], f.rest-n
			continue
		}
		n := copy(f.head[f.have:f.length()], p)
		p, f.have = p[n:], f.have+n
		if f.have < f.length() {
			continue
		}
		length := binary.BigEndian.Uint32(f.head[1:headLength])
		own := uint32(f.have - 1) // of the length, that head has
		if length < own || length > 1<<30 || f.head[0] == readyForQuery && length != own {
			return errFrame
		}
		f.rest, f.have, f.size = length-own, 0, int(length)+1
		note(f.head[0], f.head[headLength])
	}
	return nil
}

// length is the number of the message's bytes that go into head.
func (f *frames) length() int {
	if f.have > 0 && f.head[0] == readyForQuery {
		return headLength + 1
	}
	return headLength
}

// Types of messages, of the server and of the client.
const (
	readyForQuery  = 'Z'
	copyInResponse = 'G'
	errorResponse  = 'E'

	query        = 'Q'
	functionCall = 'F'
	syncMessage  = 'S'
	copyDone     = 'c'
	copyFail     = 'f'
)

// state is the protocol state of a session. The zero value is a session that has not begun.
type state struct {
	status  byte // of the last readyForQuery: I idle, T in a transaction, E in a failed one
	queries int  // messages that a readyForQuery will answer
	syncs   int
	copying bool // COPY to the server, which ignores syncs meanwhile
}

// idle reports whether the session is outside of a transaction and has answered everything.
func (s *state) idle() bool { return s.status == 'I' && s.queries == 0 && s.syncs == 0 }

// sent records a message of the client.
func (s *state) sent(kind, _ byte) {
	switch kind {
	case query, functionCall:
		s.queries++
	case syncMessage:
		if !s.copying {
			s.syncs++
		}
	case copyDone, copyFail:
		s.copying = false
	}
}

// answered records a message of the server.
func (s *state) answered(kind, status byte) {
	switch kind {
	case readyForQuery:
		s.status, s.copying = status, false
		if s.syncs > 0 {
			s.syncs--
		} else {
			s.queries = max(0, s.queries-1)
		}
	case copyInResponse:
		s.syncs, s.copying = 0, true
	case errorResponse:
		s.copying = false
	}
}
