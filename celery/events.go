package celery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"unicode/utf8"
)

// Event is one event that a worker or a client sent.
type Event struct {
	Type string // such as "task-started"
	UUID string // of the event's task; "" if there is none, or if it is no text

	// Fields are the event's fields as JSON, of any type. Of fields that Celery's events don't have, Fields holds at
	// most 256. Python writes NaN and the infinities, which JSON lacks; Fields has 1e999 instead: a number, and
	// true, as in Python, but too large for a float. The values may share memory with the message's body.
	Fields map[string]json.RawMessage

	Raw json.RawMessage // the whole event, with the same replacements
}

// EventError reports one malformed event of a message.
type EventError struct {
	Index int // its index in the message
	Raw   json.RawMessage
	Err   error
}

func (e *EventError) Error() string {
	return fmt.Sprintf("event %d of the message: %v", e.Index, e.Err)
}

func (e *EventError) Unwrap() error { return e.Err }

// EventErrors are the malformed events of a message; the other events of the message are valid.
type EventErrors []*EventError

func (e EventErrors) Error() string {
	if len(e) == 1 {
		return e[0].Error()
	}
	return fmt.Sprintf("%v (and %d more)", e[0], len(e)-1)
}

// The reasons why an event is malformed.
var (
	ErrNoObject    = errors.New("not an object")
	ErrNoEventType = errors.New("the type is missing or no text")
)

// Events are the events of one message, read one at a time. So a message takes no more memory than its body,
// whatever the number of its events.
type Events struct {
	s      scanner
	list   bool
	ended  bool
	index  int
	fields map[string]json.RawMessage
}

// ReadEvents begins to read the body of one message, which holds one event or a list of
// them, in msgpack by its content type, else in JSON. An error means that nothing can be read.
//
// The events may share memory with the body.
func ReadEvents(body []byte, contentType string) (*Events, error) {
	contentType, _, _ = strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(contentType)) {
	case contentTypeMsgpack, "application/msgpack", "application/vnd.msgpack":
		var err error
		if body, err = msgpackToJSON(body, beyondNumbers); err != nil {
			return nil, fmt.Errorf("reading events: %w", err)
		}
	default: // kombu labels bytes as application/data, and the Python scheduler reads JSON of any type
		body = bytes.TrimPrefix(body, byteOrderMark)
	}
	plain, err := validJSON(body, beyondNumbers)
	if err != nil {
		return nil, fmt.Errorf("reading events of content type %.60q: %w", contentType, err)
	}
	r := &Events{s: scanner{src: plain}, fields: make(map[string]json.RawMessage, usualFields)}
	if r.s.separators(); r.s.at('[') {
		r.list = true
		r.s.depth, r.s.pos = 1, r.s.pos+1
	}
	return r, nil
}

// byteOrderMark is at the start of texts of some programs. Python skips it.
var byteOrderMark = []byte("\ufeff")

const (
	// usualFields is above the usual number of fields of an event.
	usualFields = 32
	// maxFields is how many fields of one event are stored, besides those of knownFields.
	maxFields = 256
)

// More reports whether there is another event, valid or malformed.
func (r *Events) More() bool {
	r.s.separators()
	return !r.ended && !(r.list && r.s.at(']'))
}

// Next returns the next event. Its Fields are valid until the next call. The error is an *EventError if this event
// is malformed, and io.EOF at the end.
func (r *Events) Next() (e Event, err error) {
	s := &r.s
	if !r.More() {
		return e, io.EOF
	}
	r.ended = !r.list
	start := s.pos
	problem := ErrNoObject
	if s.at('{') {
		e.Fields = s.object(r.fields)
		e.Type, _ = plainText(e.Fields["type"])
		e.UUID, _ = plainText(e.Fields["uuid"])
		if problem = nil; e.Type == "" {
			problem = ErrNoEventType
		}
	} else {
		s.skip()
	}
	if s.err != nil {
		problem, s.err = s.err, nil
	}
	r.index++
	e.Raw = s.src[start:s.pos:s.pos]
	if problem != nil {
		return Event{}, &EventError{Index: r.index - 1, Raw: e.Raw, Err: problem}
	}
	return e, nil
}

// DecodeEvents reads all events of one message at once: see ReadEvents. It returns the valid ones in their order.
// The error is an EventErrors if only some are malformed.
func DecodeEvents(body []byte, contentType string) (events []Event, err error) {
	r, err := ReadEvents(body, contentType)
	if err != nil {
		return nil, err
	}
	var all EventErrors
	for {
		e, err := r.Next()
		bad, isBad := errors.AsType[*EventError](err)
		switch {
		case err == io.EOF && all == nil:
			return events, nil
		case err == io.EOF:
			return events, all
		case isBad:
			all = append(all, bad)
		default:
			e.Fields = maps.Clone(e.Fields)
			events = append(events, e)
		}
	}
}

// object reads the fields of the object that begins here into fields, after clearing the map.
func (s *scanner) object(fields map[string]json.RawMessage) map[string]json.RawMessage {
	clear(fields)
	s.elements(func() {
		key := s.value()
		name, known := knownFields[string(key[1:len(key)-1])]
		if !known {
			name, _ = plainText(key)
		}
		s.separators()
		value := s.value()
		if _, again := fields[name]; known || again || len(fields) < maxFields {
			fields[name] = value
		}
	})
	return fields
}

// knownFields holds the names of usual fields, so that each event does not allocate them.
var knownFields = func() map[string]string {
	names := map[string]string{}
	for _, name := range strings.Fields(`type uuid hostname timestamp utcoffset pid clock local_received
		name args kwargs root_id parent_id retries eta expires queue exchange routing_key
		result runtime exception traceback terminated signum expired requeue
		freq active processed loadavg sw_ident sw_ver sw_sys`) {
		names[name] = name
	}
	return names
}()

// plainText returns the value of a JSON string. Half a surrogate pair becomes
// the replacement character.
func plainText(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}
