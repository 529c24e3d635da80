package celery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Event is one event that a worker or a client sent. [Event.Decode] gives it
// the form that its type has.
type Event struct {
	// Type says what happened, such as "task-started".
	Type string

	// UUID is the id of the task that it happened to; empty if the event has
	// none, or one that is no text.
	UUID string

	// Fields are all of the event's fields as JSON, whatever its type. NaN and
	// the infinities, which Python writes and JSON hasn't, have become null.
	// The values may share memory with the message's body.
	Fields map[string]json.RawMessage
}

// EventError says that one event of a message makes no sense.
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

// Unwrap lets errors.Is and errors.As see each of them.
func (e EventErrors) Unwrap() []error {
	all := make([]error, len(e))
	for i := range e {
		all[i] = e[i]
	}
	return all
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
	events, err := decodeJSONEvents(body)
	var bad EventErrors
	if err != nil && !errors.As(err, &bad) {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	return events, err
}

// What an events message usually holds at the most.
const (
	usualBatch  = 24
	usualFields = 16
)

func decodeJSONEvents(body []byte) ([]Event, error) {
	s := scanner{src: body}
	s.space()
	if !s.at('[') {
		event, err := s.event(0)
		if err == nil {
			err = s.end()
		}
		if err != nil {
			return nil, err
		}
		if s.bad != nil {
			return nil, s.bad
		}
		return []Event{event}, nil
	}
	s.pos++
	events := make([]Event, 0, usualBatch)
	s.space()
	if s.at(']') {
		s.pos++
		return events, s.end()
	}
	for i := 0; ; i++ {
		before := len(s.bad)
		event, err := s.event(i)
		if err != nil {
			return nil, err
		}
		if len(s.bad) == before {
			events = append(events, event)
		}
		s.space()
		if s.at(',') {
			s.pos++
			continue
		}
		if !s.at(']') {
			return nil, s.unexpected()
		}
		s.pos++
		break
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	if s.bad != nil {
		return events, s.bad
	}
	return events, nil
}

// scanner walks over JSON without building anything from it.
type scanner struct {
	src   []byte
	pos   int
	depth int
	bad   EventErrors

	odd bool // whether a value held NaN or an infinity
}

func (s *scanner) at(c byte) bool { return s.pos < len(s.src) && s.src[s.pos] == c }

func (s *scanner) space() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) unexpected() error {
	if s.pos >= len(s.src) {
		return errors.New("JSON ends too early")
	}
	return fmt.Errorf("unexpected %q at byte %d of JSON", s.src[s.pos], s.pos)
}

func (s *scanner) end() error {
	s.space()
	if s.pos < len(s.src) {
		return s.unexpected()
	}
	return nil
}

func (s *scanner) complain(index, start int, err error) {
	s.bad = append(s.bad, &EventError{Index: index, Raw: s.src[start:s.pos], Err: err})
}

// event reads one element of the message. An element that is sound JSON and
// no event is noted in bad; an error is returned for what isn't JSON.
func (s *scanner) event(index int) (Event, error) {
	s.space()
	start := s.pos
	if !s.at('{') {
		if _, err := s.value(); err != nil {
			return Event{}, err
		}
		s.complain(index, start, ErrNoObject)
		return Event{}, nil
	}
	fields, err := s.object()
	if err != nil {
		return Event{}, err
	}
	e := Event{Fields: fields}
	e.Type, _ = plainText(e.Fields["type"])
	e.UUID, _ = plainText(e.Fields["uuid"])
	if e.Type == "" {
		s.complain(index, start, ErrNoEventType)
	}
	return e, nil
}

// object reads an object's fields.
func (s *scanner) object() (map[string]json.RawMessage, error) {
	s.space()
	if !s.at('{') {
		return nil, s.unexpected()
	}
	fields := make(map[string]json.RawMessage, usualFields)
	s.pos++
	s.space()
	if s.at('}') {
		s.pos++
		return fields, nil
	}
	for {
		s.space()
		key, err := s.key()
		if err != nil {
			return nil, err
		}
		if fields[key], err = s.value(); err != nil {
			return nil, err
		}
		s.space()
		switch {
		case s.at(','):
			s.pos++
		case s.at('}'):
			s.pos++
			return fields, nil
		default:
			return nil, s.unexpected()
		}
	}
}

// key reads a key and the colon after it.
func (s *scanner) key() (string, error) {
	start := s.pos
	if !s.at('"') {
		return "", s.unexpected()
	}
	if err := s.text(); err != nil {
		return "", err
	}
	raw := s.src[start:s.pos]
	s.space()
	if !s.at(':') {
		return "", s.unexpected()
	}
	s.pos++
	if name, ok := knownFields[string(raw[1:len(raw)-1])]; ok {
		return name, nil
	}
	name, _ := plainText(raw)
	return name, nil
}

// knownFields keeps the names that every event repeats from being made anew.
var knownFields = func() map[string]string {
	names := map[string]string{}
	for _, n := range []string{
		"type", "uuid", "hostname", "timestamp", "utcoffset", "pid", "clock", "local_received",
		"name", "args", "kwargs", "root_id", "parent_id", "retries", "eta", "expires", "queue",
		"exchange", "routing_key", "result", "runtime", "exception", "traceback", "terminated",
		"signum", "expired", "requeue", "freq", "active", "processed", "loadavg", "sw_ident",
		"sw_ver", "sw_sys",
	} {
		names[n] = n
	}
	return names
}()

// plainText is the value of a JSON string. Half a surrogate pair becomes the
// replacement character.
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

// value steps over one value and returns it.
func (s *scanner) value() (json.RawMessage, error) {
	s.space()
	start := s.pos
	s.odd = false
	if err := s.skip(); err != nil {
		return nil, err
	}
	raw := json.RawMessage(s.src[start:s.pos:s.pos])
	if s.odd {
		raw = withoutOddNumbers(raw)
	}
	return raw, nil
}

func (s *scanner) skip() error {
	if s.pos >= len(s.src) {
		return s.unexpected()
	}
	switch c := s.src[s.pos]; c {
	case '"':
		return s.text()
	case '{', '[':
		if s.depth++; s.depth > maxDepth {
			return errTooDeep
		}
		err := s.container(c == '{', c+2) // '}' and ']' come two after their opening ones
		s.depth--
		return err
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	case 'N':
		s.odd = true
		return s.word("NaN")
	case 'I':
		s.odd = true
		return s.word("Infinity")
	case '-':
		if bytes.HasPrefix(s.src[s.pos:], textNegInfinity) {
			s.odd = true
			return s.word("-Infinity")
		}
		return s.number()
	default:
		return s.number()
	}
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.src[s.pos:], []byte(w)) {
		return s.unexpected()
	}
	s.pos += len(w)
	return nil
}

func (s *scanner) container(dict bool, end byte) error {
	s.pos++
	s.space()
	if s.at(end) {
		s.pos++
		return nil
	}
	for {
		s.space()
		if dict {
			if !s.at('"') {
				return s.unexpected()
			}
			if err := s.text(); err != nil {
				return err
			}
			s.space()
			if !s.at(':') {
				return s.unexpected()
			}
			s.pos++
			s.space()
		}
		if err := s.skip(); err != nil {
			return err
		}
		s.space()
		switch {
		case s.at(','):
			s.pos++
		case s.at(end):
			s.pos++
			return nil
		default:
			return s.unexpected()
		}
	}
}

func (s *scanner) text() error {
	for s.pos++; s.pos < len(s.src); s.pos++ {
		switch c := s.src[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c < 0x20:
			return s.unexpected()
		case c == '\\':
			s.pos++
			if s.pos >= len(s.src) {
				return s.unexpected()
			}
			switch s.src[s.pos] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if _, ok := hex4(s.src[s.pos+1:]); !ok {
					return s.unexpected()
				}
				s.pos += 4
			default:
				return s.unexpected()
			}
		}
	}
	return s.unexpected()
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.src) && s.src[s.pos] >= '0' && s.src[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) number() error {
	if s.at('-') {
		s.pos++
	}
	zero := s.at('0')
	start := s.pos
	if !s.digits() || zero && s.pos > start+1 {
		return s.unexpected()
	}
	if s.at('.') {
		s.pos++
		if !s.digits() {
			return s.unexpected()
		}
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		if !s.digits() {
			return s.unexpected()
		}
	}
	return nil
}

// withoutOddNumbers replaces NaN and the infinities outside strings by null.
func withoutOddNumbers(raw json.RawMessage) json.RawMessage {
	out := make(json.RawMessage, 0, len(raw)+8)
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			s := scanner{src: raw, pos: i}
			if s.text() != nil {
				return out // never: the value has been scanned before
			}
			out = append(out, raw[i:s.pos]...)
			i = s.pos
		case c == 'N':
			out = append(out, "null"...)
			i += len(textNaN)
		case c == 'I':
			out = append(out, "null"...)
			i += len(textInfinity)
		case c == '-' && bytes.HasPrefix(raw[i:], textNegInfinity):
			out = append(out, "null"...)
			i += len(textNegInfinity)
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}
