package db_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// peer is the Python scheduler's backend on a database, in a process of its own.
type peer struct{ *testenv.Script }

func startPeer(t *testing.T, dsn string) *peer {
	t.Helper()
	return &peer{testenv.StartScript(t, nil, "-W", "ignore", "testdata/peer.py", dsn)}
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// call calls a method of the backend. class is the class of the exception, or "".
func (p *peer) call(t fataler, method string, kwargs map[string]any) (result any, class string) {
	t.Helper()
	if kwargs == nil {
		kwargs = map[string]any{}
	}
	var answer struct {
		Result any
		Error  string
	}
	p.Ask(t, map[string]any{"method": method, "kwargs": kwargs}, &answer)
	return answer.Result, answer.Error
}

// must is call for methods that must succeed.
func (p *peer) must(t fataler, method string, kwargs map[string]any) any {
	t.Helper()
	result, class := p.call(t, method, kwargs)
	if class != "" {
		t.Fatalf("%s(%v): %s", method, kwargs, class)
	}
	return result
}

// The functions below encode our values as testdata/peer.py reads them (tagged) or as it answers them
// (plain).

func tagged(kind string, value any) any { return map[string]any{"$": kind, "v": value} }

func taggedTime(t *time.Time) any {
	if t == nil {
		return nil
	}
	return tagged("datetime", plainTime(t))
}

func taggedDuration(d *time.Duration) any {
	if d == nil {
		return nil
	}
	return tagged("timedelta", d.Microseconds())
}

func plainTime(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000+00:00")
}

func plainDuration(d *time.Duration) any {
	if d == nil {
		return nil
	}
	return d.Microseconds()
}

func plainJSON(text json.RawMessage) any {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return fmt.Sprintf("no JSON: %s", text)
	}
	return value
}

func orNil[T ~string](value T) any {
	if value == "" {
		return nil
	}
	return value
}

func plainTaskType(t model.TaskType) any {
	return map[string]any{
		"type": t.Type, "description": t.Description, "backend_name": t.BackendName,
		"default_interval": plainDuration(t.DefaultInterval), "min_interval": plainDuration(t.MinInterval),
		"max_interval": plainDuration(t.MaxInterval), "backoff_factor": t.BackoffFactor,
		"max_queue_length": t.MaxQueueLength, "num_retries": t.NumRetries, "retry_delay": plainDuration(t.RetryDelay),
	}
}

func taggedTaskType(t model.TaskType) any {
	fields := plainTaskType(t).(map[string]any)
	fields["default_interval"] = taggedDuration(t.DefaultInterval)
	fields["min_interval"] = taggedDuration(t.MinInterval)
	fields["max_interval"] = taggedDuration(t.MaxInterval)
	fields["retry_delay"] = taggedDuration(t.RetryDelay)
	if t.BackoffFactor != nil { // JSON writes 1.0 as 1
		fields["backoff_factor"] = tagged("float", *t.BackoffFactor)
	}
	return tagged("TaskType", fields)
}

func plainTask(t model.Task) any {
	return map[string]any{
		"id": t.ID, "type": t.Type, "next_run": plainTime(&t.NextRun), "status": t.Status, "policy": t.Policy,
		"arguments":    map[string]any{"args": plainJSON(t.Arguments.Args), "kwargs": plainJSON(t.Arguments.Kwargs)},
		"retries_left": t.RetriesLeft, "current_interval": plainDuration(t.CurrentInterval), "priority": orNil(t.Priority),
	}
}

func plainLister(l model.Lister) any {
	return map[string]any{
		"id": l.ID.String(), "name": l.Name, "instance_name": l.InstanceName, "current_state": plainJSON(l.CurrentState),
		"created": plainTime(&l.Created), "updated": plainTime(&l.Updated),
		"last_listing_finished_at":  plainTime(l.LastListingFinishedAt),
		"first_visits_queue_prefix": l.FirstVisitsQueuePrefix,
		"first_visits_scheduled_at": plainTime(l.FirstVisitsScheduledAt),
	}
}

func plainListedOrigin(o model.ListedOrigin) any {
	return map[string]any{
		"lister_id": o.ListerID.String(), "url": o.URL, "visit_type": o.VisitType,
		"extra_loader_arguments": plainJSON(o.ExtraLoaderArguments), "enabled": o.Enabled,
		"first_seen": plainTime(&o.FirstSeen), "last_seen": plainTime(&o.LastSeen),
		"last_update": plainTime(o.LastUpdate), "is_fork": o.IsFork, "forked_from_url": o.ForkedFromURL,
	}
}

func taggedListedOrigin(o model.ListedOrigin) any {
	fields := plainListedOrigin(o).(map[string]any)
	fields["lister_id"] = taggedUUID(o.ListerID)
	fields["first_seen"] = nil
	fields["last_seen"] = taggedTime(&o.LastSeen)
	fields["last_update"] = taggedTime(o.LastUpdate)
	return tagged("ListedOrigin", fields)
}

func taggedUUID(id uuid.UUID) any { return tagged("uuid", id.String()) }

// plainList converts a list of ours by way of JSON, so that it can be compared with the Python scheduler's
// answers.
func plainList[T any](t fataler, list []T, plain func(T) any) []any {
	t.Helper()
	values := make([]any, len(list))
	for i, v := range list {
		values[i] = plain(v)
	}
	return asJSON(t, values).([]any)
}

func asJSON(t fataler, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v", err)
	}
	return out
}
