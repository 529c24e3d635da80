package celery

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TaskMessage is one task to run, as Celery's send_task takes it. Name, ID
// and Queue are required; the zero value of every other field is Celery's
// default.
type TaskMessage struct {
	ID    string // any text, a UUID by convention
	Name  string // the name that the worker registered the task under
	Queue string

	// Args is a JSON list and Kwargs a JSON object; nil and null are empty
	// ones. Numbers keep their kind and size, keys their order.
	Args, Kwargs json.RawMessage

	Priority uint8 // 0 to 255; only queues with x-max-priority heed it

	// ETA is when to run the task at the earliest, Expires when not to start it
	// any more; the broker drops it then too. Zero: none. Sent with their own
	// UTC offset, in microseconds.
	ETA, Expires time.Time

	// TimeLimit and SoftTimeLimit override the worker's. Zero: the worker's.
	TimeLimit, SoftTimeLimit time.Duration

	Retries int32 // how often it has been retried already

	RootID   string // of the whole workflow; default: ID
	ParentID string // of the task that sent this one
	Group    string
	// GroupIndex is the place in Group.
	GroupIndex *int32

	Shadow       string // the name to show in logs instead of Name
	IgnoreResult *bool  // nil leaves it to the worker

	// TraceParent is the W3C traceparent, by which the worker's instrumentation
	// (OpenTelemetry's for Celery) goes on with a trace; "" for none.
	TraceParent string

	// Stamps are stamped headers. Values may be of any type that an AMQP table
	// holds.
	Stamps map[string]any

	Serializer Serializer
}

// Serializer is how a message's body is written.
type Serializer uint8

// The serialisers that Software Heritage workers accept.
const (
	JSON Serializer = iota
	Msgpack
)

// EncodingError says that a message can never be sent as it is.
type EncodingError struct {
	ID, Name string // of the task
	Err      error
}

func (e *EncodingError) Error() string {
	return fmt.Sprintf("task %s (%s) can't be sent: %v", e.ID, e.Name, e.Err)
}

func (e *EncodingError) Unwrap() error { return e.Err }

// encoder turns task messages into AMQP publishings. It reuses its buffers
// and its headers: a publishing is good until the next one is made.
type encoder struct {
	values  values
	body    []byte
	repr    []byte
	headers amqp.Table
	replyTo string
	maxSize int
	now     func() time.Time
}

func newEncoder(origin, replyTo string, maxSize int) *encoder {
	return &encoder{
		replyTo: replyTo,
		maxSize: maxSize,
		now:     time.Now,
		headers: amqp.Table{
			"lang":                  "py", // what workers tell protocol 2 by
			"origin":                origin,
			"replaced_task_nesting": int32(0),
		},
	}
}

// defaultOrigin names this process as Celery's anon_nodename does.
func defaultOrigin() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return "gen" + strconv.Itoa(os.Getpid()) + "@" + host
}

// encode fills in the one publishing that stands for m. Errors are
// *EncodingError.
func (e *encoder) encode(m *TaskMessage) (amqp.Publishing, error) {
	p, err := e.publishing(m)
	if err != nil {
		return p, &EncodingError{ID: m.ID, Name: m.Name, Err: err}
	}
	return p, nil
}

func (e *encoder) publishing(m *TaskMessage) (amqp.Publishing, error) {
	switch {
	case m.ID == "":
		return amqp.Publishing{}, errors.New("it has no id")
	case m.Name == "":
		return amqp.Publishing{}, errors.New("it has no task name")
	case m.Queue == "":
		return amqp.Publishing{}, errors.New("it has no queue")
	case len(m.ID) > maxShortString:
		return amqp.Publishing{}, fmt.Errorf("its id is longer than %d bytes", maxShortString)
	case len(m.Queue) > maxShortString:
		return amqp.Publishing{}, fmt.Errorf("the name of its queue is longer than %d bytes", maxShortString)
	}
	e.values.reset()
	args, err := e.container(m.Args, kindList)
	if err != nil {
		return amqp.Publishing{}, fmt.Errorf("args: %w", err)
	}
	kwargs, err := e.container(m.Kwargs, kindDict)
	if err != nil {
		return amqp.Publishing{}, fmt.Errorf("kwargs: %w", err)
	}
	p := amqp.Publishing{
		Headers:       e.headers,
		DeliveryMode:  amqp.Persistent,
		Priority:      m.Priority,
		CorrelationId: m.ID,
		ReplyTo:       e.replyTo,
	}
	if p.Body, err = e.encodeBody(m.Serializer, args, kwargs); err != nil {
		return amqp.Publishing{}, err
	}
	if e.maxSize > 0 && len(p.Body) > e.maxSize {
		return amqp.Publishing{}, fmt.Errorf("its body has %d bytes, above the limit of %d", len(p.Body), e.maxSize)
	}
	p.ContentType, p.ContentEncoding = m.Serializer.content()
	if !m.Expires.IsZero() {
		// The broker closes the channel for a longer time to live; the header
		// tells the worker all the same.
		if ttl := max(0, m.Expires.Sub(e.now()).Milliseconds()); ttl <= math.MaxUint32 {
			p.Expiration = strconv.FormatInt(ttl, 10)
		}
	}
	return p, e.setHeaders(m, args, kwargs)
}

func (s Serializer) content() (contentType, encoding string) {
	if s == Msgpack {
		return contentTypeMsgpack, "binary"
	}
	return contentTypeJSON, "utf-8"
}

const (
	contentTypeJSON    = "application/json"
	contentTypeMsgpack = "application/x-msgpack"

	maxShortString = 255 // bytes in an AMQP short string
)

// container parses args or kwargs. Celery replaces whatever is empty by an
// empty tuple or dict.
func (e *encoder) container(raw json.RawMessage, want itemKind) (int32, error) {
	if len(raw) == 0 {
		return e.values.add(item{kind: want}), nil
	}
	at, err := e.values.parse(raw)
	if err != nil {
		return none, err
	}
	it := &e.values.items[at]
	switch {
	case it.kind == want:
	case it.kind == kindNull, (it.kind == kindList || it.kind == kindDict) && it.count == 0:
		it.kind = want
	case want == kindList:
		return none, errors.New("must be a JSON list")
	default:
		return none, errors.New("must be a JSON object")
	}
	return at, nil
}

// The options every body ends with: what to run before, after or instead.
const (
	jsonOptions    = `, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]`
	msgpackOptions = "\x84\xa9callbacks\xc0\xa8errbacks\xc0\xa5chain\xc0\xa5chord\xc0"
)

func (e *encoder) encodeBody(s Serializer, args, kwargs int32) (_ []byte, err error) {
	body := e.body[:0]
	switch s {
	case JSON:
		body = e.values.appendJSON(append(body, '['), args)
		body = e.values.appendJSON(append(body, ", "...), kwargs)
		body = append(body, jsonOptions...)
	case Msgpack:
		if body, err = e.values.appendMsgpack(append(body, 0x93), args); err != nil {
			return nil, err
		}
		if body, err = e.values.appendMsgpack(body, kwargs); err != nil {
			return nil, err
		}
		body = append(body, msgpackOptions...)
	default:
		return nil, fmt.Errorf("unknown serialiser %d", s)
	}
	e.body = body
	return body, nil
}

func (e *encoder) setHeaders(m *TaskMessage, args, kwargs int32) error {
	h := e.headers
	if m.TraceParent != "" {
		h["traceparent"] = m.TraceParent
	} else {
		delete(h, "traceparent")
	}
	h["task"] = m.Name
	h["id"] = m.ID
	h["root_id"] = m.ID
	if m.RootID != "" {
		h["root_id"] = m.RootID
	}
	h["parent_id"] = textOrNil(m.ParentID)
	h["group"] = textOrNil(m.Group)
	h["group_index"] = nil
	if m.GroupIndex != nil {
		h["group_index"] = *m.GroupIndex
	}
	h["retries"] = m.Retries
	h["timelimit"] = noTimeLimit
	if m.TimeLimit != 0 || m.SoftTimeLimit != 0 {
		h["timelimit"] = []any{seconds(m.TimeLimit), seconds(m.SoftTimeLimit)}
	}
	h["eta"] = isoFormat(m.ETA)
	h["expires"] = isoFormat(m.Expires)
	h["shadow"] = textOrNil(m.Shadow)
	h["ignore_result"] = nil
	if m.IgnoreResult != nil {
		h["ignore_result"] = *m.IgnoreResult
	}
	h["stamped_headers"], h["stamps"] = nil, noStamps
	if len(m.Stamps) > 0 {
		if err := validTable(m.Stamps); err != nil {
			return fmt.Errorf("stamps: %w", err)
		}
		names := []any{}
		for _, name := range slices.Sorted(maps.Keys(m.Stamps)) {
			names = append(names, name)
		}
		h["stamped_headers"], h["stamps"] = names, amqp.Table(m.Stamps)
	}
	// An empty list of arguments is replaced by a tuple before it is shown.
	h["argsrepr"] = "()"
	if e.values.items[args].count > 0 {
		e.repr = e.values.appendRepr(e.repr[:0], args, reprMaxLen, reprMaxLevels)
		h["argsrepr"] = string(e.repr)
	}
	h["kwargsrepr"] = "{}"
	if e.values.items[kwargs].count > 0 {
		e.repr = e.values.appendRepr(e.repr[:0], kwargs, reprMaxLen, reprMaxLevels)
		h["kwargsrepr"] = string(e.repr)
	}
	return nil
}

// validTable finds what the library would fail to write only half-way, which
// costs the connection.
func validTable(t amqp.Table) error {
	for name, value := range t {
		if len(name) > maxShortString {
			return fmt.Errorf("a name is longer than %d bytes", maxShortString)
		}
		if inner, ok := value.(amqp.Table); ok {
			if err := validTable(inner); err != nil {
				return err
			}
		}
	}
	return t.Validate()
}

var (
	noTimeLimit = []any{nil, nil}
	noStamps    = amqp.Table{}
)

func textOrNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// seconds is a time limit as Celery sends it: whole seconds as an integer.
func seconds(d time.Duration) any {
	switch {
	case d == 0:
		return nil
	case d%time.Second == 0 && d/time.Second <= 1<<31-1:
		return int32(d / time.Second)
	default:
		return d.Seconds()
	}
}

// isoFormat writes a time as Python's datetime.isoformat does.
func isoFormat(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	if t.Nanosecond()/1000 == 0 {
		return t.Format("2006-01-02T15:04:05-07:00")
	}
	return t.Format("2006-01-02T15:04:05.000000-07:00")
}
