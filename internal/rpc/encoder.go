package rpc

import (
	"encoding/json"
	"math/big"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/pytext"
)

// encoder writes an answer in one of the two formats, value by value, without
// building a tree.
type encoder interface {
	null()
	boolean(bool)
	integer(int64)
	bigInteger(*big.Int)
	float(float64)
	text(string)
	bytes([]byte)
	time(time.Time)
	// json writes the value of a JSON text, in which tags have no meaning.
	json(json.RawMessage)

	openList(n int)
	closeList()
	openDict()
	key(string)
	intKey(int)
	closeDict()
	// openTag begins a tagged object, of the type of that name.
	openTag(name string)
	closeTag()

	contentType() string
	// finish returns the document, or the first error of a json text.
	finish() ([]byte, error)
}

const (
	mimeMsgpack = "application/x-msgpack"
	mimeJSON    = "application/json"
)

// newEncoder makes an encoder that appends to buf.
func newEncoder(mime string, buf []byte) encoder {
	if mime == mimeMsgpack {
		return &msgpackWriter{buf: buf}
	}
	return &jsonWriter{buf: buf}
}

// bound makes an encoder call room before its document grows.
func bound(e encoder, room func(size int) error) encoder {
	switch w := e.(type) {
	case *msgpackWriter:
		w.room = room
	case *jsonWriter:
		w.room = room
	}
	return e
}

func writeUUID(e encoder, id uuid.UUID) {
	e.openTag("uuid")
	e.text(id.String())
	e.closeTag()
}

func writeTimedelta(e encoder, d time.Duration) {
	days, rest := pytext.InDays(d)
	e.openTag("timedelta")
	e.openDict()
	e.key("days")
	e.integer(int64(days))
	e.key("seconds")
	e.integer(int64(rest / time.Second))
	e.key("microseconds")
	e.integer(int64(rest % time.Second / time.Microsecond))
	e.closeDict()
	e.closeTag()
}
