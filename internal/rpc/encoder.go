package rpc

import (
	"encoding/json"
	"math/big"
	"time"

	"github.com/google/uuid"
)

// encoder writes an answer in one of the two formats, value by value: no tree is
// built of what goes out. A list or dict says first how many elements it has.
type encoder interface {
	null()
	boolean(bool)
	integer(int64)
	bigInteger(*big.Int)
	float(float64)
	text(string)
	bytes([]byte)
	time(time.Time)
	// json writes what a JSON text stands for, with nothing read as a tag.
	json(json.RawMessage)

	openList(n int)
	closeList()
	openDict(n int)
	key(string)
	intKey(int)
	closeDict()
	// openTag begins an object that travels by the name of its type.
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

// Helpers for what any encoder writes in the same way.

func writeUUID(e encoder, id uuid.UUID) {
	e.openTag("uuid")
	e.text(id.String())
	e.closeTag()
}

func writeTimedelta(e encoder, d time.Duration) {
	const day = 24 * time.Hour
	days, rest := d/day, d%day
	if rest < 0 { // Python's have days below 0 only
		days--
		rest += day
	}
	e.openTag("timedelta")
	e.openDict(3)
	e.key("days")
	e.integer(int64(days))
	e.key("seconds")
	e.integer(int64(rest / time.Second))
	e.key("microseconds")
	e.integer(int64(rest % time.Second / time.Microsecond))
	e.closeDict()
	e.closeTag()
}

// optional writes *value, or None where there is none.
func optional[T any](e encoder, value *T, write func(T)) {
	if value == nil {
		e.null()
		return
	}
	write(*value)
}

// list writes a list whose elements write writes.
func list[T any](e encoder, elements []T, write func(encoder, T)) {
	e.openList(len(elements))
	for _, element := range elements {
		write(e, element)
	}
	e.closeList()
}
