package celery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Event is one event that a worker or a client sent.
type Event struct {
	Type string // what happened, such as "task-started"
	UUID string // of the task that it happened to; "" if it has none, or one that is no text

	// Fields are all of the event's fields as JSON, whatever its type. NaN and
	// the infinities, which Python writes but JSON lacks, have become null.
	// The values may share memory with the message's body.
	Fields map[string]json.RawMessage
}

// EventError reports one event of a message that makes no sense.
type EventError struct {
	Index int // its place in the message
	Raw   json.RawMessage
	Err   error
}

func (e *EventError) Error() string {
	return fmt.Sprintf("event %d of the message: %v", e.Index, e.Err)
}

func (e *EventError) Unwrap() error { return e.Err }

// EventErrors are the events of a message that make no sense; the others of
// the same message are good.
type EventErrors []*EventError

func (e EventErrors) Error() string {
	if len(e) == 1 {
		return e[0].Error()
	}
	return fmt.Sprintf("%v (and %d more)", e[0], len(e)-1)
}

// Why an event makes no sense.
var (
	ErrNoObject    = errors.New("not an object")
	ErrNoEventType = errors.New("the type is missing or no text")
)

// DecodeEvents reads the body of one message, which holds one event or a list
// of them, in JSON or msgpack. It returns the good ones in their order. The
// error is an EventErrors if only some are bad; any other means that nothing
// could be read.
//
// The events may share memory with the body.
func DecodeEvents(body []byte, contentType string) ([]Event, error) {
	contentType, _, _ = strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(contentType)) {
	case contentTypeMsgpack, "application/msgpack", "application/vnd.msgpack":
		var err error
		if body, err = msgpackToJSON(body); err != nil {
			return nil, fmt.Errorf("reading events: %w", err)
		}
	case contentTypeJSON, "text/json", "text/plain", "":
	default:
		return nil, fmt.Errorf("reading events: content type %.60q is neither JSON nor msgpack", contentType)
	}
	events, bad, err := decodeJSONEvents(body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading events: %w", err)
	case bad != nil:
		return events, bad
	}
	return events, nil
}

// What an events message usually holds at the most.
const (
	usualBatch  = 24
	usualFields = 16
)

func decodeJSONEvents(body []byte) (events []Event, bad EventErrors, err error) {
	plain, err := validJSON(body)
	if err != nil {
		return nil, nil, err
	}
	s := scanner{src: plain}
	one := func() {
		start := s.pos
		var e Event
		problem := ErrNoObject
		if s.at('{') {
			e.Fields = s.object()
			e.Type, _ = plainText(e.Fields["type"])
			e.UUID, _ = plainText(e.Fields["uuid"])
			if problem = nil; e.Type == "" {
				problem = ErrNoEventType
			}
		} else {
			s.skip()
		}
		if problem != nil {
			bad = append(bad, &EventError{Index: len(events) + len(bad), Raw: s.src[start:s.pos], Err: problem})
		} else {
			events = append(events, e)
		}
	}
	if s.separators(); s.at('[') {
		events = make([]Event, 0, usualBatch)
		s.elements(one)
	} else {
		one()
	}
	return events, bad, s.err
}

// object reads the fields of the object that begins here.
func (s *scanner) object() map[string]json.RawMessage {
	fields := make(map[string]json.RawMessage, usualFields)
	s.elements(func() {
		key := s.value()
		name, known := knownFields[string(key[1:len(key)-1])]
		if !known {
			name, _ = plainText(key)
		}
		s.separators()
		fields[name] = s.value()
	})
	return fields
}

// knownFields keeps the names that every event repeats from being made anew.
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
