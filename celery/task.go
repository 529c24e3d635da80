package celery

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"swh-scheduler/internal/pytext"
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

	// ETA is the earliest time to run the task; zero: at once. It is sent with its own UTC offset, in microseconds.
	ETA time.Time

	Priority uint8 // for a queue with x-max-priority; other queues ignore it

	// TimeLimit and SoftTimeLimit override the worker's; zero keeps the worker's.
	TimeLimit, SoftTimeLimit time.Duration

	RootID string // of the whole workflow; default: ID

	// TraceParent is the W3C traceparent with which the worker's instrumentation (OpenTelemetry's for Celery)
	// continues a trace; "" for none.
	TraceParent string
}

// EncodingError reports a message that can never be sent in this form.
type EncodingError struct {
	ID, Name string // of the task
	Err      error
}

func (e *EncodingError) Error() string {
	return fmt.Sprintf("task %s (%s) can't be sent: %v", e.ID, e.Name, e.Err)
}

func (e *EncodingError) Unwrap() error { return e.Err }

// encoder turns task messages into AMQP publishings. It reuses its buffers and its headers: a publishing is valid
// until the next one is made.
type encoder struct {
	values  values
	body    []byte
	repr    []byte
	headers amqp.Table
	replyTo string
	maxSize int

	compressor  compressor
	compression string // for the headers
}

func newEncoder(maxSize int, replyTo string) *encoder {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return &encoder{
		replyTo: replyTo,
		maxSize: maxSize,
		headers: amqp.Table{
			"lang":                  "py",                                       // by which workers recognise protocol 2
			"origin":                fmt.Sprintf("gen%d@%s", os.Getpid(), host), // as Celery's anon_nodename
			"replaced_task_nesting": int32(0),
			"parent_id":             nil,
			"group":                 nil,
			"group_index":           nil,
			"retries":               int32(0),
			"expires":               nil,
			"shadow":                nil,
			"ignore_result":         nil,
			"stamped_headers":       nil,
			"stamps":                amqp.Table{},
		},
	}
}

// encode returns the publishing of m in a form. Errors are *EncodingError.
func (e *encoder) encode(m *TaskMessage, form *Form) (amqp.Publishing, error) {
	p, err := e.publishing(m, form)
	if err != nil {
		return p, &EncodingError{ID: m.ID, Name: m.Name, Err: err}
	}
	return p, nil
}

const (
	contentTypeJSON    = "application/json"
	contentTypeMsgpack = "application/x-msgpack"

	maxShortString = 255 // bytes in an AMQP short string
)

func (e *encoder) publishing(m *TaskMessage, form *Form) (p amqp.Publishing, err error) {
	switch {
	case m.ID == "":
		return p, errors.New("it has no id")
	case m.Name == "":
		return p, errors.New("it has no task name")
	case m.Queue == "":
		return p, errors.New("it has no queue")
	case len(m.ID) > maxShortString:
		return p, fmt.Errorf("its id is longer than %d bytes", maxShortString)
	case len(m.Queue) > maxShortString:
		return p, fmt.Errorf("the name of its queue is longer than %d bytes", maxShortString)
	}
	e.values.reset()
	args, err := e.container(m.Args, kindList)
	if err != nil {
		return p, fmt.Errorf("args: %w", err)
	}
	kwargs, err := e.container(m.Kwargs, kindDict)
	if err != nil {
		return p, fmt.Errorf("kwargs: %w", err)
	}
	p = amqp.Publishing{
		Headers:       e.headers,
		DeliveryMode:  form.DeliveryMode,
		Priority:      cmp.Or(m.Priority, form.Priority),
		CorrelationId: m.ID,
		ReplyTo:       e.replyTo,
	}
	if err := e.setBody(&p, args, kwargs, form); err != nil {
		return p, err
	}
	e.setHeaders(m, args, kwargs)
	if form.Compression != e.compression {
		if e.compression = form.Compression; e.compression == "" {
			delete(e.headers, "compression")
		} else {
			e.headers["compression"] = e.compression
		}
	}
	return p, nil
}

// setBody serializes and compresses arguments as form says.
func (e *encoder) setBody(p *amqp.Publishing, args, kwargs int32, form *Form) (err error) {
	p.ContentType, p.ContentEncoding = contentTypeJSON, "utf-8"
	if form.Serializer == MsgpackSerializer {
		p.ContentType, p.ContentEncoding = contentTypeMsgpack, "binary"
		e.body, err = e.values.appendMsgpackBody(e.body[:0], args, kwargs)
	} else {
		e.body = e.values.appendJSON(append(e.body[:0], '['), args)
		e.body = e.values.appendJSON(append(e.body, ", "...), kwargs)
		// The tasks to run before, after or instead.
		e.body = append(e.body, `, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]`...)
	}
	p.Body = e.body
	if form.Compression != "" && err == nil {
		p.Body, err = e.compressor.compress(form.Compression, e.body)
	}
	if err == nil && len(p.Body) > e.maxSize {
		err = fmt.Errorf("its body has %d bytes, above the limit of %d", len(p.Body), e.maxSize)
	}
	return err
}

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

// setHeaders sets the headers that differ from message to message.
func (e *encoder) setHeaders(m *TaskMessage, args, kwargs int32) {
	h := e.headers
	h["task"] = m.Name
	h["id"] = m.ID
	h["root_id"] = cmp.Or(m.RootID, m.ID)
	h["timelimit"] = []any{seconds(m.TimeLimit), seconds(m.SoftTimeLimit)}
	h["eta"] = nil
	if !m.ETA.IsZero() {
		h["eta"] = pytext.ISOFormat(m.ETA)
	}
	delete(h, "traceparent")
	if m.TraceParent != "" {
		h["traceparent"] = m.TraceParent
	}
	h["argsrepr"] = e.show(args, "()") // Celery replaces an empty list by a tuple
	h["kwargsrepr"] = e.show(kwargs, "{}")
}

func (e *encoder) show(at int32, empty string) string {
	if e.values.items[at].count == 0 {
		return empty
	}
	e.repr = e.values.appendRepr(e.repr[:0], at)
	return string(e.repr)
}

// seconds returns a time limit as Celery sends it: whole seconds as an integer,
// none as nil.
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
