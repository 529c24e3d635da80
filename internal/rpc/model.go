package rpc

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/tasks"
)

// The classes of the Python scheduler's model, their fields in the order of the
// Python scheduler's. A field that is None where our type has no such value is
// that type's zero value.

var (
	// classes read the objects of each class.
	classes = map[string]func(dict, *limits) (any, error){}

	classNames = map[reflect.Type]string{}

	// constructors are the fields of the classes, in the order of definition.
	constructors []*signature

	emptyObject = json.RawMessage("{}")
	emptyArray  = json.RawMessage("[]")
)

// objectSize is what the names of an object's fields take as JSON, about.
const objectSize = 200

// class makes the kind of a class's objects, whose fields visit visits.
func class[T any](name string, visit func(*fields, *T)) *kind[T] {
	s := signatureOf(name+".__init__", visit)
	constructors = append(constructors, s)
	classNames[reflect.TypeFor[T]()] = name
	classes[name] = func(d dict, l *limits) (any, error) {
		f := fields{jsonLeft: l.json}
		if err := s.bind(&f, d); err != nil {
			return nil, err
		}
		var v T
		f.spend(objectSize)
		visit(&f, &v)
		return v, f.err
	}
	return &kind[T]{pythonType{name: "swh.scheduler.model." + name}, func(f *fields, value any) T {
		v, ok := value.(T)
		switch {
		case ok:
		case f.mode == ofModel:
			f.wrong(value)
		default:
			f.refuse(value, attributeError("'%s' object has no attribute 'to_dict'", typeName(value)))
		}
		return v
	}, func(f *fields, v *T) {
		f.out.openTag("scheduler_model")
		f.out.openDict()
		visit(f, v)
		f.out.key("__type__")
		f.out.text(name)
		f.out.closeDict()
		f.out.closeTag()
	}}
}

// className returns the name of the class of an object of the model.
func className(value any) string { return cmp.Or(classNames[reflect.TypeOf(value)], "object") }

// untagModel reads a scheduler_model: its fields, and its class as __type__.
func untagModel(value any, l *limits) (any, error) {
	d, ok := value.(dict)
	if !ok {
		return nil, attributeError("'%s' object has no attribute 'pop'", typeName(value))
	}
	kind, found := d.get("__type__")
	if !found {
		return nil, newException("KeyError", "__type__")
	}
	name, _ := kind.(string)
	read, known := classes[name]
	if !known {
		return nil, attributeError("module 'swh.scheduler.model' has no attribute '%v'", kind)
	}
	return read(slices.DeleteFunc(d, func(e entry) bool { return e.key == "__type__" }), l)
}

var listers = class("Lister", func(f *fields, l *model.Lister) {
	required(f, "name", text, &l.Name)
	required(f, "instance_name", text, &l.InstanceName)
	optional(f, "id", idOrNone, &l.ID)
	optional(f, "current_state", jsonObject, &l.CurrentState, emptyObject)
	optional(f, "created", momentOrNone, &l.Created)
	optional(f, "updated", momentOrNone, &l.Updated)
	optional(f, "last_listing_finished_at", optionalMoment, &l.LastListingFinishedAt)
	optional(f, "first_visits_queue_prefix", optionalText, &l.FirstVisitsQueuePrefix)
	optional(f, "first_visits_scheduled_at", optionalMoment, &l.FirstVisitsScheduledAt)
})

var listedOrigins = class("ListedOrigin", func(f *fields, o *model.ListedOrigin) {
	required(f, "lister_id", id, &o.ListerID)
	required(f, "url", text, &o.URL)
	required(f, "visit_type", text, &o.VisitType)
	optional(f, "extra_loader_arguments", jsonObject, &o.ExtraLoaderArguments, emptyObject)
	optional(f, "last_update", optionalMoment, &o.LastUpdate)
	optional(f, "is_fork", optionalBoolean, &o.IsFork)
	optional(f, "forked_from_url", optionalText, &o.ForkedFromURL)
	optional(f, "enabled", boolean, &o.Enabled, true)
	optional(f, "first_seen", momentOrNone, &o.FirstSeen)
	optional(f, "last_seen", momentOrNone, &o.LastSeen)
})

var visitStats = class("OriginVisitStats", func(f *fields, s *model.VisitStats) {
	required(f, "url", text, &s.URL)
	required(f, "visit_type", text, &s.VisitType)
	optional(f, "last_successful", optionalAware, &s.LastSuccessful)
	optional(f, "last_visit", optionalAware, &s.LastVisit)
	optional(f, "last_visit_status", visitStatus, &s.LastVisitStatus)
	optional(f, "last_scheduled", optionalMoment, &s.LastScheduled)
	optional(f, "last_snapshot", blob, &s.LastSnapshot)
	optional(f, "next_visit_queue_position", optionalInteger, &s.NextVisitQueuePosition)
	optional(f, "next_position_offset", integer32, &s.NextPositionOffset, model.DefaultPositionOffset)
	optional(f, "successive_visits", integer32, &s.SuccessiveVisits, 1)
})

var originMetrics = class("SchedulerMetrics", func(f *fields, m *model.Metrics) {
	required(f, "lister_id", id, &m.ListerID)
	required(f, "visit_type", text, &m.VisitType)
	optional(f, "last_update", momentOrNone, &m.LastUpdate)
	optional(f, "origins_known", integer32, &m.OriginsKnown)
	optional(f, "origins_enabled", integer32, &m.OriginsEnabled)
	optional(f, "origins_never_visited", integer32, &m.OriginsNeverVisited)
	optional(f, "origins_with_pending_changes", integer32, &m.OriginsWithPendingChanges)
})

var taskTypes = class("TaskType", func(f *fields, t *model.TaskType) {
	required(f, "type", text, &t.Type)
	required(f, "description", text, &t.Description)
	required(f, "backend_name", text, &t.BackendName)
	optional(f, "default_interval", optionalTimedelta, &t.DefaultInterval)
	optional(f, "min_interval", optionalTimedelta, &t.MinInterval)
	optional(f, "max_interval", optionalTimedelta, &t.MaxInterval)
	optional(f, "backoff_factor", optionalFloat, &t.BackoffFactor)
	optional(f, "max_queue_length", optionalInteger, &t.MaxQueueLength, new(int64(1000)))
	optional(f, "num_retries", optionalInteger, &t.NumRetries)
	optional(f, "retry_delay", optionalTimedelta, &t.RetryDelay)
})

var taskArguments = class("TaskArguments", func(f *fields, a *model.TaskArguments) {
	optional(f, "args", jsonArray, &a.Args, emptyArray)
	optional(f, "kwargs", jsonObject, &a.Kwargs, emptyObject)
})

// task is a Task on its way: a client's has no number nor interval, an answer's
// has both.
type task struct {
	tasks.NewTask
	id       *int64
	interval *time.Duration
}

var (
	taskStatuses   = literal(model.TaskNotScheduled, model.TaskScheduled, model.TaskCompleted, model.TaskDisabled)
	taskPolicies   = literal(model.Recurring, model.Oneshot)
	taskPriorities = orNone(literal(model.PriorityHigh, model.PriorityNormal, model.PriorityLow))
)

var travellingTasks = class("Task", func(f *fields, t *task) {
	required(f, "type", text, &t.Type)
	required(f, "arguments", taskArguments, &t.Arguments)
	required(f, "next_run", moment, &t.NextRun)
	optional(f, "status", taskStatuses, &t.Status, model.TaskNotScheduled)
	optional(f, "policy", taskPolicies, &t.Policy, model.Recurring)
	optional(f, "retries_left", optionalInteger, &t.RetriesLeft)
	optional(f, "id", nullable(unused), &t.id)
	optional(f, "current_interval", optionalTimedelta, &t.interval)
	optional(f, "priority", taskPriorities, &t.Priority)
})

// newTasks are tasks that are to be created.
var newTasks = &kind[tasks.NewTask]{travellingTasks.pythonType, func(f *fields, value any) tasks.NewTask {
	return travellingTasks.read(f, value).NewTask
}, func(f *fields, t *tasks.NewTask) {
	travelling := task{NewTask: *t}
	if t.Arguments.Args == nil {
		travelling.Arguments.Args = emptyArray
	}
	if t.Arguments.Kwargs == nil {
		travelling.Arguments.Kwargs = emptyObject
	}
	travelling.Status = cmp.Or(t.Status, model.TaskNotScheduled)
	travelling.Policy = cmp.Or(t.Policy, model.Recurring)
	travelling.NextRun = t.NextRun.UTC().Truncate(time.Microsecond)
	travellingTasks.write(f, &travelling)
}}

// taskKind are taskKind as they are in the database.
var taskKind = &kind[model.Task]{travellingTasks.pythonType, func(f *fields, value any) model.Task {
	t := travellingTasks.read(f, value)
	stored := model.Task{
		Type: t.Type, Arguments: t.Arguments, NextRun: t.NextRun, CurrentInterval: t.interval,
		Status: t.Status, Policy: t.Policy, Priority: t.Priority,
	}
	if t.id == nil {
		f.refuse(value, unexpected(value))
	} else {
		stored.ID = *t.id
	}
	if t.RetriesLeft != nil {
		stored.RetriesLeft = *t.RetriesLeft
	}
	return stored
}, func(f *fields, t *model.Task) {
	if f.onItsWay == nil {
		f.onItsWay = new(task)
	}
	*f.onItsWay = task{tasks.NewTask{
		Type: t.Type, Arguments: t.Arguments, NextRun: t.NextRun, Status: t.Status, Policy: t.Policy,
		RetriesLeft: &t.RetriesLeft, Priority: t.Priority,
	}, &t.ID, t.CurrentInterval}
	travellingTasks.write(f, f.onItsWay)
}}

var runStatuses = literal(model.RunScheduled, model.RunStarted, model.RunEventful, model.RunUneventful,
	model.RunFailed, model.RunPermFailed, model.RunLost)

var taskRuns = class("TaskRun", func(f *fields, r *model.TaskRun) {
	required(f, "task", integerOrNone, &r.Task)
	optional(f, "id", orNone(unused), &r.ID)
	optional(f, "backend_id", optionalText, &r.BackendID)
	optional(f, "scheduled", optionalMoment, &r.Scheduled)
	optional(f, "started", optionalMoment, &r.Started)
	optional(f, "ended", optionalMoment, &r.Ended)
	optional(f, "metadata", objectOrNone, &r.Metadata)
	optional(f, "status", runStatuses, &r.Status, model.RunScheduled)
})
