package rpc

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// The classes of the peer's model, as arguments. A field that is None where our
// type has no such value is that type's zero value.

// class reads the objects of one class.
type class struct {
	signature
	read func(*fields) any
}

var classes = func() map[string]class {
	classes := map[string]class{}
	add := func(name string, required, optional []string, read func(*fields) any) {
		classes[name] = class{signature{name + ".__init__", required, optional}, read}
	}
	add("Lister", []string{"name", "instance_name"},
		[]string{"id", "current_state", "created", "updated", "last_listing_finished_at", "first_visits_queue_prefix", "first_visits_scheduled_at"},
		readLister)
	add("ListedOrigin", []string{"lister_id", "url", "visit_type"},
		[]string{"extra_loader_arguments", "last_update", "is_fork", "forked_from_url", "enabled", "first_seen", "last_seen"},
		readListedOrigin)
	add("OriginVisitStats", []string{"url", "visit_type"},
		[]string{"last_successful", "last_visit", "last_visit_status", "last_scheduled", "last_snapshot", "next_visit_queue_position", "next_position_offset", "successive_visits"},
		readVisitStats)
	add("SchedulerMetrics", []string{"lister_id", "visit_type"},
		[]string{"last_update", "origins_known", "origins_enabled", "origins_never_visited", "origins_with_pending_changes"},
		readMetrics)
	add("TaskType", []string{"type", "description", "backend_name"},
		[]string{"default_interval", "min_interval", "max_interval", "backoff_factor", "max_queue_length", "num_retries", "retry_delay"},
		readTaskType)
	add("TaskArguments", nil, []string{"args", "kwargs"}, readTaskArguments)
	add("Task", []string{"type", "arguments", "next_run"},
		[]string{"status", "policy", "retries_left", "id", "current_interval", "priority"},
		readTask)
	add("TaskRun", []string{"task"},
		[]string{"id", "backend_id", "scheduled", "started", "ended", "metadata", "status"},
		readTaskRun)
	return classes
}()

// untagModel reads a scheduler_model: its fields, and its class as __type__.
func untagModel(value any) (any, error) {
	d, ok := value.(dict)
	if !ok {
		return nil, attributeError("'%s' object has no attribute 'pop'", typeName(value))
	}
	kind, found := d.get("__type__")
	if !found {
		return nil, newException("KeyError", "__type__")
	}
	name, _ := kind.(string)
	c, known := classes[name]
	if !known {
		return nil, attributeError("module 'swh.scheduler.model' has no attribute '%v'", kind)
	}
	d = slices.DeleteFunc(d, func(e entry) bool { return e.key == "__type__" })
	if err := c.check(d); err != nil {
		return nil, err
	}
	f := &fields{class: name, dict: d}
	object := c.read(f)
	if f.err != nil {
		return nil, f.err
	}
	return object, nil
}

func readLister(f *fields) any {
	return scheduler.Lister{
		ID: f.optionalUUID("id"), Name: f.text("name"), InstanceName: f.text("instance_name"),
		Created: f.timeOrZero("created"), CurrentState: f.object("current_state"), Updated: f.timeOrZero("updated"),
		LastListingFinishedAt: f.optionalTime("last_listing_finished_at"), FirstVisitsQueuePrefix: f.optionalText("first_visits_queue_prefix"),
		FirstVisitsScheduledAt: f.optionalTime("first_visits_scheduled_at"),
	}
}

func readListedOrigin(f *fields) any {
	return scheduler.ListedOrigin{
		ListerID: f.uuid("lister_id"), URL: f.text("url"), VisitType: f.text("visit_type"),
		ExtraLoaderArguments: f.object("extra_loader_arguments"), Enabled: f.boolean("enabled", true),
		FirstSeen: f.timeOrZero("first_seen"), LastSeen: f.timeOrZero("last_seen"), LastUpdate: f.optionalTime("last_update"),
		IsFork: f.optionalBoolean("is_fork"), ForkedFromURL: f.optionalText("forked_from_url"),
	}
}

func readVisitStats(f *fields) any {
	return scheduler.VisitStats{
		URL: f.text("url"), VisitType: f.text("visit_type"),
		LastSuccessful: f.awareTime("last_successful"), LastVisit: f.awareTime("last_visit"),
		LastVisitStatus: f.visitStatus("last_visit_status"), LastScheduled: f.optionalTime("last_scheduled"),
		LastSnapshot: f.optionalBytes("last_snapshot"), NextVisitQueuePosition: f.optionalInteger("next_visit_queue_position"),
		NextPositionOffset: f.int32("next_position_offset", scheduler.DefaultPositionOffset),
		SuccessiveVisits:   f.int32("successive_visits", 1),
	}
}

func readMetrics(f *fields) any {
	return scheduler.Metrics{
		ListerID: f.uuid("lister_id"), VisitType: f.text("visit_type"), LastUpdate: f.timeOrZero("last_update"),
		OriginsKnown: f.int32("origins_known", 0), OriginsEnabled: f.int32("origins_enabled", 0),
		OriginsNeverVisited:       f.int32("origins_never_visited", 0),
		OriginsWithPendingChanges: f.int32("origins_with_pending_changes", 0),
	}
}

func readTaskType(f *fields) any {
	t := scheduler.TaskType{
		Type: f.text("type"), Description: f.text("description"), BackendName: f.text("backend_name"),
		DefaultInterval: f.optionalTimedelta("default_interval"), MinInterval: f.optionalTimedelta("min_interval"),
		MaxInterval: f.optionalTimedelta("max_interval"), BackoffFactor: f.optionalFloat("backoff_factor"),
		MaxQueueLength: f.optionalInteger("max_queue_length"), NumRetries: f.optionalInteger("num_retries"),
		RetryDelay: f.optionalTimedelta("retry_delay"),
	}
	if _, given := f.get("max_queue_length"); !given {
		t.MaxQueueLength = new(int64)
		*t.MaxQueueLength = defaultMaxQueueLength
	}
	return t
}

// defaultMaxQueueLength is the peer's, of a task type that names none.
const defaultMaxQueueLength = 1000

func readTaskArguments(f *fields) any {
	return scheduler.TaskArguments{Args: f.list("args"), Kwargs: f.object("kwargs")}
}

// task is a Task on its way: a client's has no number nor interval, an answer's
// has both.
type task struct {
	sql.NewTask
	id       *int64
	interval *time.Duration
}

func readTask(f *fields) any {
	t := sql.NewTask{
		Type: f.text("type"), Arguments: read(f, "arguments", "<class 'swh.scheduler.model.TaskArguments'>", scheduler.TaskArguments{}),
		NextRun: f.requiredTime("next_run"), RetriesLeft: f.optionalInteger("retries_left"),
		Status: literal(f, "status", scheduler.TaskNotScheduled, scheduler.TaskScheduled, scheduler.TaskCompleted, scheduler.TaskDisabled),
		Policy: literal(f, "policy", scheduler.Recurring, scheduler.Oneshot),
	}
	if v, _ := f.get("priority"); v != nil {
		t.Priority = literal(f, "priority", scheduler.PriorityHigh, scheduler.PriorityNormal, scheduler.PriorityLow)
	}
	return task{t, f.optionalInteger("id"), f.optionalTimedelta("current_interval")}
}

func readTaskRun(f *fields) any {
	r := scheduler.TaskRun{
		BackendID: f.optionalText("backend_id"), Scheduled: f.optionalTime("scheduled"),
		Started: f.optionalTime("started"), Ended: f.optionalTime("ended"),
		Status: literal(f, "status", scheduler.RunScheduled, scheduler.RunStarted, scheduler.RunEventful, scheduler.RunUneventful,
			scheduler.RunFailed, scheduler.RunPermFailed, scheduler.RunLost),
	}
	if task := f.optionalInteger("task"); task != nil {
		r.Task = *task
	}
	if id := f.optionalInteger("id"); id != nil {
		r.ID = *id
	}
	if v, _ := f.get("metadata"); v != nil {
		r.Metadata = f.object("metadata")
	}
	return r
}

// modelName is the name of the class of an object of the model.
func modelName(value any) string {
	switch value.(type) {
	case scheduler.Lister:
		return "Lister"
	case scheduler.ListedOrigin:
		return "ListedOrigin"
	case scheduler.VisitStats:
		return "OriginVisitStats"
	case scheduler.Metrics:
		return "SchedulerMetrics"
	case scheduler.TaskType:
		return "TaskType"
	case scheduler.TaskArguments:
		return "TaskArguments"
	case task:
		return "Task"
	case scheduler.TaskRun:
		return "TaskRun"
	}
	return "object"
}

// fields are the fields of an object. Its methods check the types that the
// peer's classes declare; the first that is wrong is err.
type fields struct {
	class string
	dict
	err error
}

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *fields) wrong(name, want string, value any) {
	f.fail(&exception{class: "AttributeTypeError", module: "attrs_strict._error",
		args: []any{name + " must be " + want + " (got a " + typeName(value) + ")"}})
}

// read is a field of type T; otherwise what it is where it is not given.
func read[T any](f *fields, name, want string, otherwise T) T {
	value, given := f.get(name)
	if !given {
		return otherwise
	}
	v, ok := value.(T)
	if !ok {
		f.wrong(name, want, value)
	}
	return v
}

// readOptional is a field of type T or None.
func readOptional[T any](f *fields, name, want string) *T {
	value, _ := f.get(name)
	if value == nil {
		return nil
	}
	v, ok := value.(T)
	if !ok {
		f.wrong(name, "typing.Optional["+want+"]", value)
	}
	return &v
}

func (f *fields) text(name string) string          { return read(f, name, "<class 'str'>", "") }
func (f *fields) uuid(name string) uuid.UUID       { return read(f, name, "<class 'uuid.UUID'>", uuid.Nil) }
func (f *fields) boolean(name string, d bool) bool { return read(f, name, "<class 'bool'>", d) }

func (f *fields) optionalText(name string) *string   { return readOptional[string](f, name, "str") }
func (f *fields) optionalBoolean(name string) *bool  { return readOptional[bool](f, name, "bool") }
func (f *fields) optionalFloat(name string) *float64 { return readOptional[float64](f, name, "float") }

func (f *fields) optionalTimedelta(name string) *time.Duration {
	return readOptional[time.Duration](f, name, "datetime.timedelta")
}

func (f *fields) optionalUUID(name string) uuid.UUID {
	if id := readOptional[uuid.UUID](f, name, "uuid.UUID"); id != nil {
		return *id
	}
	return uuid.Nil
}

func (f *fields) optionalBytes(name string) []byte {
	if b := readOptional[[]byte](f, name, "bytes"); b != nil {
		return *b
	}
	return nil
}

// optionalInteger takes True and False too, which are integers in Python.
func (f *fields) optionalInteger(name string) *int64 {
	value, _ := f.get(name)
	if b, ok := value.(bool); ok {
		i := int64(0)
		if b {
			i = 1
		}
		return &i
	}
	return readOptional[int64](f, name, "int")
}

// int32 is an integer for a column of 32 bits.
func (f *fields) int32(name string, otherwise int32) int32 {
	value, given := f.get(name)
	if !given {
		return otherwise
	}
	i := f.optionalInteger(name)
	switch {
	case i == nil:
		f.wrong(name, "<class 'int'>", value)
		return 0
	case *i != int64(int32(*i)):
		f.fail(&exception{class: "NumericValueOutOfRange", module: "psycopg.errors", args: []any{"integer out of range"}})
	}
	return int32(*i)
}

// optionalTime is a time or nil. One without a zone is in UTC.
func (f *fields) optionalTime(name string) *time.Time {
	value, _ := f.get(name)
	if naive, ok := value.(naiveTime); ok {
		return &naive.Time
	}
	return readOptional[time.Time](f, name, "datetime.datetime")
}

func (f *fields) timeOrZero(name string) time.Time {
	if t := f.optionalTime(name); t != nil {
		return *t
	}
	return time.Time{}
}

func (f *fields) requiredTime(name string) time.Time {
	if value, _ := f.get(name); value == nil {
		f.wrong(name, "<class 'datetime.datetime'>", nil)
	}
	return f.timeOrZero(name)
}

func (f *fields) awareTime(name string) *time.Time {
	if value, _ := f.get(name); typeName(value) == "datetime" {
		if _, naive := value.(naiveTime); naive {
			f.fail(valueError("date must be a timezone-aware datetime."))
		}
	}
	return f.optionalTime(name)
}

func (f *fields) visitStatus(name string) scheduler.VisitStatus {
	value, _ := f.get(name)
	if value == nil {
		return ""
	}
	status, err := visitStatusOf(value)
	if err != nil {
		f.fail(err)
		return ""
	}
	return status.(scheduler.VisitStatus)
}

// object is a dict with texts as keys, as JSON; {} where it is not given.
func (f *fields) object(name string) json.RawMessage {
	d := read(f, name, "typing.Dict[str, typing.Any]", dict{})
	for _, e := range d {
		if _, ok := e.key.(string); !ok {
			f.wrong(name, "typing.Dict[str, typing.Any]", e.key)
		}
	}
	return f.asJSON(d)
}

// list is a list, as JSON; [] where it is not given.
func (f *fields) list(name string) json.RawMessage {
	return f.asJSON(read(f, name, "typing.List[typing.Any]", []any{}))
}

func (f *fields) asJSON(value any) json.RawMessage {
	text, err := appendJSONValue(nil, value)
	if err != nil {
		f.fail(err)
	}
	return text
}

// literal is a field that is one of a few texts, the first of them if it is not
// given.
func literal[T ~string](f *fields, name string, values ...T) T {
	value, given := f.get(name)
	if !given {
		return values[0]
	}
	text, ok := value.(string)
	if !ok || !slices.Contains(values, T(text)) {
		f.fail(&exception{class: "LiteralError", module: "attrs_strict._error",
			args: []any{"Value of " + name + " is not any of the literals specified"}})
	}
	return T(text)
}
