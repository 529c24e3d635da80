package rpc

import (
	"time"

	"swh-scheduler/internal/scheduler"
)

// The objects of the peer's model, as answers: their fields in the order of the
// peer's classes, with the name of the class at the end.

func openModel(e encoder, fields int) {
	e.openTag("scheduler_model")
	e.openDict(fields + 1)
}

func closeModel(e encoder, class string) {
	e.key("__type__")
	e.text(class)
	e.closeDict()
	e.closeTag()
}

func textField(e encoder, name, value string) {
	e.key(name)
	e.text(value)
}

func optionalTextField(e encoder, name string, value *string) {
	e.key(name)
	optional(e, value, e.text)
}

func integerField(e encoder, name string, value int64) {
	e.key(name)
	e.integer(value)
}

func optionalIntegerField(e encoder, name string, value *int64) {
	e.key(name)
	optional(e, value, e.integer)
}

func timeField(e encoder, name string, value time.Time) {
	e.key(name)
	e.time(value)
}

func optionalTimeField(e encoder, name string, value *time.Time) {
	e.key(name)
	optional(e, value, e.time)
}

func timedeltaField(e encoder, name string, value *time.Duration) {
	e.key(name)
	optional(e, value, func(d time.Duration) { writeTimedelta(e, d) })
}

func writeLister(e encoder, l scheduler.Lister) {
	openModel(e, 9)
	textField(e, "name", l.Name)
	textField(e, "instance_name", l.InstanceName)
	e.key("id")
	writeUUID(e, l.ID)
	e.key("current_state")
	e.json(l.CurrentState)
	timeField(e, "created", l.Created)
	timeField(e, "updated", l.Updated)
	optionalTimeField(e, "last_listing_finished_at", l.LastListingFinishedAt)
	optionalTextField(e, "first_visits_queue_prefix", l.FirstVisitsQueuePrefix)
	optionalTimeField(e, "first_visits_scheduled_at", l.FirstVisitsScheduledAt)
	closeModel(e, "Lister")
}

func writeListedOrigin(e encoder, o scheduler.ListedOrigin) {
	openModel(e, 10)
	e.key("lister_id")
	writeUUID(e, o.ListerID)
	textField(e, "url", o.URL)
	textField(e, "visit_type", o.VisitType)
	e.key("extra_loader_arguments")
	e.json(o.ExtraLoaderArguments)
	optionalTimeField(e, "last_update", o.LastUpdate)
	e.key("is_fork")
	optional(e, o.IsFork, e.boolean)
	optionalTextField(e, "forked_from_url", o.ForkedFromURL)
	e.key("enabled")
	e.boolean(o.Enabled)
	timeField(e, "first_seen", o.FirstSeen)
	timeField(e, "last_seen", o.LastSeen)
	closeModel(e, "ListedOrigin")
}

func writeVisitStats(e encoder, s scheduler.VisitStats) {
	openModel(e, 10)
	textField(e, "url", s.URL)
	textField(e, "visit_type", s.VisitType)
	optionalTimeField(e, "last_successful", s.LastSuccessful)
	optionalTimeField(e, "last_visit", s.LastVisit)
	e.key("last_visit_status")
	if s.LastVisitStatus == "" {
		e.null()
	} else {
		e.openTag("last_visit_status")
		e.text(string(s.LastVisitStatus))
		e.closeTag()
	}
	optionalTimeField(e, "last_scheduled", s.LastScheduled)
	e.key("last_snapshot")
	if s.LastSnapshot == nil {
		e.null()
	} else {
		e.bytes(s.LastSnapshot)
	}
	optionalIntegerField(e, "next_visit_queue_position", s.NextVisitQueuePosition)
	integerField(e, "next_position_offset", int64(s.NextPositionOffset))
	integerField(e, "successive_visits", int64(s.SuccessiveVisits))
	closeModel(e, "OriginVisitStats")
}

func writeMetrics(e encoder, m scheduler.Metrics) {
	openModel(e, 7)
	e.key("lister_id")
	writeUUID(e, m.ListerID)
	textField(e, "visit_type", m.VisitType)
	timeField(e, "last_update", m.LastUpdate)
	integerField(e, "origins_known", int64(m.OriginsKnown))
	integerField(e, "origins_enabled", int64(m.OriginsEnabled))
	integerField(e, "origins_never_visited", int64(m.OriginsNeverVisited))
	integerField(e, "origins_with_pending_changes", int64(m.OriginsWithPendingChanges))
	closeModel(e, "SchedulerMetrics")
}

func writeTaskType(e encoder, t scheduler.TaskType) {
	openModel(e, 10)
	textField(e, "type", t.Type)
	textField(e, "description", t.Description)
	textField(e, "backend_name", t.BackendName)
	timedeltaField(e, "default_interval", t.DefaultInterval)
	timedeltaField(e, "min_interval", t.MinInterval)
	timedeltaField(e, "max_interval", t.MaxInterval)
	e.key("backoff_factor")
	optional(e, t.BackoffFactor, e.float)
	optionalIntegerField(e, "max_queue_length", t.MaxQueueLength)
	optionalIntegerField(e, "num_retries", t.NumRetries)
	timedeltaField(e, "retry_delay", t.RetryDelay)
	closeModel(e, "TaskType")
}

func writeTask(e encoder, t scheduler.Task) {
	openModel(e, 9)
	textField(e, "type", t.Type)
	e.key("arguments")
	openModel(e, 2)
	e.key("args")
	e.json(t.Arguments.Args)
	e.key("kwargs")
	e.json(t.Arguments.Kwargs)
	closeModel(e, "TaskArguments")
	timeField(e, "next_run", t.NextRun)
	textField(e, "status", string(t.Status))
	textField(e, "policy", string(t.Policy))
	integerField(e, "retries_left", t.RetriesLeft)
	integerField(e, "id", t.ID)
	timedeltaField(e, "current_interval", t.CurrentInterval)
	e.key("priority")
	if t.Priority == "" {
		e.null()
	} else {
		e.text(string(t.Priority))
	}
	closeModel(e, "Task")
}

func writeTaskRun(e encoder, r scheduler.TaskRun) {
	openModel(e, 8)
	integerField(e, "task", r.Task)
	integerField(e, "id", r.ID)
	optionalTextField(e, "backend_id", r.BackendID)
	optionalTimeField(e, "scheduled", r.Scheduled)
	optionalTimeField(e, "started", r.Started)
	optionalTimeField(e, "ended", r.Ended)
	e.key("metadata")
	if r.Metadata == nil {
		e.null()
	} else {
		e.json(r.Metadata)
	}
	textField(e, "status", string(r.Status))
	closeModel(e, "TaskRun")
}
