package celery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// EventSource is what every event says of who sent it and when.
type EventSource struct {
	Hostname  string    // the node's name, such as "celery@worker1"
	PID       int64     // the process that sent it
	Clock     uint64    // the node's logical clock
	UTCOffset float64   // of the node, in hours west of UTC
	Timestamp time.Time // by the node's own clock, in UTC; zero if missing
}

// TaskSource is what every event about a task has.
type TaskSource struct {
	EventSource
	UUID string
}

// WorkerSource is what a worker says of itself.
type WorkerSource struct {
	EventSource
	Interval  float64 // seconds between heartbeats
	Active    int64   // tasks being executed
	Processed int64   // tasks done since the start
	LoadAvg   []float64
	Software  string // "py-celery"
	Version   string
	System    string
}

// The events of Celery. Times and limits are as the sender wrote them.
type (
	// TaskSent says that a client sent a task; clients do so only if told to.
	TaskSent struct {
		TaskSource
		Name, Args, Kwargs          string
		RootID, ParentID            string
		Retries                     int64
		ETA, Expires                string // ISO 8601, empty if none
		Queue, Exchange, RoutingKey string
	}
	// TaskReceived says that a worker has a task in its own queue.
	TaskReceived struct {
		TaskSource
		Name, Args, Kwargs string
		RootID, ParentID   string
		Retries            int64
		ETA, Expires       string
	}
	// TaskStarted says that a process of the worker executes the task.
	TaskStarted struct{ TaskSource }
	// TaskSucceeded says that the task returned.
	TaskSucceeded struct {
		TaskSource
		Result  string        // as Python shows it, shortened
		Runtime time.Duration // zero if not known
	}
	// TaskFailed says that the task raised an exception, ran out of time, or
	// isn't known to the worker.
	TaskFailed struct {
		TaskSource
		Exception string // as Python shows it
		Traceback string // empty if there is none
	}
	// TaskRetried says that the task failed and will be tried again.
	TaskRetried struct {
		TaskSource
		Exception, Traceback string
	}
	// TaskRevoked says that the task was cancelled or has expired.
	TaskRevoked struct {
		TaskSource
		Terminated bool   // whether it was being executed
		Signal     string // that ended it: a number or a name
		Expired    bool
	}
	// TaskRejected says that the task was given back to the broker.
	TaskRejected struct {
		TaskSource
		Requeue bool
	}
	// TaskCancelled says that the worker gave up a task whose connection it lost.
	TaskCancelled struct{ TaskSource }
	// TaskResult is not Celery's own: Software Heritage's task class sends it
	// when a task has returned, from the process that executed the task. It may
	// come before TaskStarted.
	TaskResult struct {
		TaskSource
		Result json.RawMessage
	}

	// WorkerOnline says that a worker has started.
	WorkerOnline struct{ WorkerSource }
	// WorkerHeartbeat says that a worker lives.
	WorkerHeartbeat struct{ WorkerSource }
	// WorkerOffline says that a worker stops.
	WorkerOffline struct{ WorkerSource }

	// WorkerElect asks the workers to elect one of them.
	WorkerElect struct {
		EventSource
		ID, Topic string
		Action    json.RawMessage
	}
	// WorkerElectAck agrees to an election.
	WorkerElectAck struct {
		EventSource
		ID string
	}
)

// Decode gives an event the form of its type, one of the structs above, by
// value; an event of any other type is given back as it is. The error joins
// one *FieldError for each field that isn't what its type says; the field is
// then left zero and the others are good.
func (e Event) Decode() (any, error) {
	f := fieldReader{fields: e.Fields}
	decoded := f.decode(e)
	return decoded, errors.Join(f.errs...)
}

// FieldError says that a field of an event isn't what it should be.
type FieldError struct {
	Field, Want string
}

func (e *FieldError) Error() string { return fmt.Sprintf("field %q is no %s", e.Field, e.Want) }

type fieldReader struct {
	fields map[string]json.RawMessage
	errs   []error
}

func (f *fieldReader) decode(e Event) any {
	switch e.Type {
	case "task-sent":
		return TaskSent{
			TaskSource: f.task(),
			Name:       f.text("name"), Args: f.text("args"), Kwargs: f.text("kwargs"),
			RootID: f.text("root_id"), ParentID: f.text("parent_id"), Retries: f.integer("retries"),
			ETA: f.text("eta"), Expires: f.text("expires"),
			Queue: f.text("queue"), Exchange: f.text("exchange"), RoutingKey: f.text("routing_key"),
		}
	case "task-received":
		return TaskReceived{
			TaskSource: f.task(),
			Name:       f.text("name"), Args: f.text("args"), Kwargs: f.text("kwargs"),
			RootID: f.text("root_id"), ParentID: f.text("parent_id"), Retries: f.integer("retries"),
			ETA: f.text("eta"), Expires: f.text("expires"),
		}
	case "task-started":
		return TaskStarted{f.task()}
	case "task-succeeded":
		return TaskSucceeded{TaskSource: f.task(), Result: f.text("result"), Runtime: f.duration("runtime")}
	case "task-failed":
		return TaskFailed{TaskSource: f.task(), Exception: f.text("exception"), Traceback: f.text("traceback")}
	case "task-retried":
		return TaskRetried{TaskSource: f.task(), Exception: f.text("exception"), Traceback: f.text("traceback")}
	case "task-revoked":
		return TaskRevoked{TaskSource: f.task(), Terminated: f.boolean("terminated"), Signal: f.signal("signum"), Expired: f.boolean("expired")}
	case "task-rejected":
		return TaskRejected{TaskSource: f.task(), Requeue: f.boolean("requeue")}
	case "task-cancelled":
		return TaskCancelled{f.task()}
	case "task-result":
		return TaskResult{TaskSource: f.task(), Result: f.fields["result"]}
	case "worker-online":
		return WorkerOnline{f.worker()}
	case "worker-heartbeat":
		return WorkerHeartbeat{f.worker()}
	case "worker-offline":
		return WorkerOffline{f.worker()}
	case "worker-elect":
		return WorkerElect{EventSource: f.source(), ID: f.text("id"), Topic: f.text("topic"), Action: f.fields["action"]}
	case "worker-elect-ack":
		return WorkerElectAck{EventSource: f.source(), ID: f.text("id")}
	default:
		return e
	}
}

func (f *fieldReader) source() EventSource {
	s := EventSource{
		Hostname:  f.text("hostname"),
		PID:       f.integer("pid"),
		UTCOffset: f.float("utcoffset"),
		Clock:     uint64(max(0, f.integer("clock"))),
	}
	// Beyond this range of years a time has no agreed text.
	const lastSecond = 253402300799
	switch seconds := f.float("timestamp"); {
	case seconds > 0 && seconds <= lastSecond:
		whole, fraction := math.Modf(seconds)
		s.Timestamp = time.Unix(int64(whole), int64(fraction*1e9)).UTC()
	case seconds != 0:
		f.wrong("timestamp", "time")
	}
	return s
}

func (f *fieldReader) task() TaskSource {
	return TaskSource{EventSource: f.source(), UUID: f.text("uuid")}
}

func (f *fieldReader) worker() WorkerSource {
	w := WorkerSource{
		EventSource: f.source(),
		Interval:    f.float("freq"), Active: f.integer("active"), Processed: f.integer("processed"),
		Software: f.text("sw_ident"), Version: f.text("sw_ver"), System: f.text("sw_sys"),
	}
	f.get("loadavg", "list of numbers", &w.LoadAvg)
	return w
}

func (f *fieldReader) wrong(field, want string) {
	f.errs = append(f.errs, &FieldError{field, want})
}

// get decodes a field that is there and not null.
func (f *fieldReader) get(field, want string, into any) {
	raw, ok := f.fields[field]
	if ok && json.Unmarshal(raw, into) != nil {
		f.wrong(field, want)
	}
}

func (f *fieldReader) text(field string) string {
	raw, ok := f.fields[field]
	if !ok || string(raw) == "null" {
		return ""
	}
	s, ok := plainText(raw)
	if !ok {
		f.wrong(field, "text")
	}
	return s
}

func (f *fieldReader) boolean(field string) (b bool) {
	f.get(field, "boolean", &b)
	return b
}

func (f *fieldReader) float(field string) (v float64) {
	f.get(field, "number", &v)
	return v
}

func (f *fieldReader) integer(field string) (i int64) {
	f.get(field, "64-bit integer", &i)
	return i
}

func (f *fieldReader) duration(field string) time.Duration {
	seconds := f.float(field)
	if seconds < 0 || seconds > float64(math.MaxInt64/time.Second) {
		f.wrong(field, "time in seconds")
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// signal is a number or a name.
func (f *fieldReader) signal(field string) string {
	raw, ok := f.fields[field]
	if !ok || string(raw) == "null" {
		return ""
	}
	if bytes.HasPrefix(raw, []byte{'"'}) {
		return f.text(field)
	}
	return strconv.FormatInt(f.integer(field), 10)
}
