package listener

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"time"
	"unicode"

	"swh-scheduler/celery"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// Problem is a way in which an event can make no sense. The values are few and
// fixed: they are labels of a counter.
type Problem string

// The problems of events.
const (
	BadBody      Problem = "body"      // no events can be read from a message
	BadEvent     Problem = "event"     // not an object, or no type
	BadUUID      Problem = "uuid"      // not a text, or one that can be no task's
	BadHostname  Problem = "hostname"  // not a text
	BadTimestamp Problem = "timestamp" // not a number, negative, or in the future
	BadResult    Problem = "result"    // a task-result without one
	BadStatus    Problem = "status"    // a task-result whose status ends no run
	BadError     Problem = "error"     // not a text
	BadTraceback Problem = "traceback" // not a text
	BadRuntime   Problem = "runtime"   // not a number of seconds
	TooLarge     Problem = "too_large" // the message was longer than is read
	Refused      Problem = "refused"   // PostgreSQL refused the outcome
)

var problems = []Problem{
	BadBody, BadEvent, BadUUID, BadHostname, BadTimestamp, BadResult, BadStatus, BadError, BadTraceback, BadRuntime,
	TooLarge, Refused,
}

// verdict is what is to be done with an event.
type verdict int

const (
	ignored  verdict = iota // it tells nothing about the state of a run
	accepted                // its outcome is to be applied
	rejected                // it should have one, but can't be understood
)

// interpret says what an event that was got at heard tells about a run. Every
// field that can't be understood is reported to note; those that are not
// essential leave a gap in the outcome, as if they were missing.
//
// The rules for task-started, task-result and task-failed are those of the
// peer's process_event.
func interpret(e celery.Event, heard time.Time, note func(Problem, string)) (sql.Outcome, verdict) {
	o := sql.Outcome{BackendID: e.UUID, Heard: heard}
	switch e.Type {
	case "task-started":
		o.Start = &sql.RunStart{Worker: worker(e, note), EventTime: eventTime(e, heard, note)}
	case "task-result":
		if o.End = resultEnd(e, note); o.End == nil {
			return o, rejected
		}
	case "task-failed":
		line := lastLine(e, note)
		o.End = &sql.RunEnd{Status: scheduler.RunFailed, Error: line, TimedOut: timeLimitFailed(e, line)}
	case "task-revoked":
		// Cancelled by an operator or expired: it will not run (again).
		o.End = &sql.RunEnd{Status: scheduler.RunFailed}
	case "task-rejected":
		// One that is put back in its queue will run again.
		if truthy(e.Fields["requeue"]) {
			return o, ignored
		}
		o.End = &sql.RunEnd{Status: scheduler.RunFailed}
	case "task-succeeded":
		if o.Runtime = runtime(e, note); o.Runtime == nil {
			return o, ignored
		}
	default:
		return o, ignored
	}
	if o.End != nil {
		// The end counts without it, so nobody needs to hear that it is missing.
		o.End.EventTime = eventTime(e, heard, func(Problem, string) {})
	}
	return o, accepted
}

// endStatuses are the statuses by which a task's result can end its run. Those
// of a run that has not ended are none, though the peer takes them.
var endStatuses = map[string]scheduler.RunStatus{
	"eventful":   scheduler.RunEventful,
	"uneventful": scheduler.RunUneventful,
	"failed":     scheduler.RunFailed,
	"permfailed": scheduler.RunPermFailed,
	"lost":       scheduler.RunLost,
}

// resultEnd reads the result of a task that returned. It is nil if that says
// nothing about how the run ended.
func resultEnd(e celery.Event, note func(Problem, string)) *sql.RunEnd {
	raw, ok := e.Fields["result"]
	if !ok {
		note(BadResult, "missing")
		return nil
	}
	var result map[string]json.RawMessage
	if raw[0] != '{' || json.Unmarshal(raw, &result) != nil || isNull(result["status"]) {
		return &sql.RunEnd{Status: eventful(truthy(raw))}
	}
	word, ok := text(result["status"])
	if !ok {
		note(BadStatus, string(result["status"]))
		return nil
	}
	if word == "success" {
		return &sql.RunEnd{Status: eventful(truthy(result["eventful"]))}
	}
	status, ok := endStatuses[word]
	if !ok {
		note(BadStatus, word)
		return nil
	}
	end := &sql.RunEnd{Status: status}
	if raw, ok := result["error"]; ok && status == scheduler.RunFailed {
		if message, ok := text(raw); ok {
			end.Error, end.TimedOut = &message, namesTimeLimit(message)
		} else {
			note(BadError, string(raw))
		}
	}
	return end
}

func eventful(yes bool) scheduler.RunStatus {
	if yes {
		return scheduler.RunEventful
	}
	return scheduler.RunUneventful
}

// lastLine is the last line of a failure's traceback, which names the error.
func lastLine(e celery.Event, note func(Problem, string)) *string {
	raw, ok := e.Fields["traceback"]
	if !ok {
		return nil
	}
	traceback, ok := text(raw)
	if !ok {
		// Celery writes null where it has none.
		if !isNull(raw) {
			note(BadTraceback, string(raw))
		}
		return nil
	}
	traceback = strings.TrimRightFunc(traceback, isPythonSpace)
	line := traceback[strings.LastIndexByte(traceback, '\n')+1:]
	return &line
}

// worker is nil if the event names none.
func worker(e celery.Event, note func(Problem, string)) *string {
	raw, ok := e.Fields["hostname"]
	if !ok || isNull(raw) {
		return nil
	}
	name, ok := text(raw)
	if !ok {
		note(BadHostname, string(raw))
		return nil
	}
	return &name
}

// clockSkew is how far a worker's clock may be ahead of ours.
const clockSkew = time.Hour

// eventTime is the event's timestamp, or 0, before all others, if it has none
// that makes sense.
func eventTime(e celery.Event, heard time.Time, note func(Problem, string)) float64 {
	raw, ok := e.Fields["timestamp"]
	if !ok {
		return 0
	}
	seconds, ok := number(raw)
	if !ok || seconds < 0 || seconds > float64(heard.Add(clockSkew).Unix()) {
		note(BadTimestamp, string(raw))
		return 0
	}
	return seconds
}

// runtime is nil if the event has none.
func runtime(e celery.Event, note func(Problem, string)) *time.Duration {
	raw, ok := e.Fields["runtime"]
	if !ok || isNull(raw) {
		return nil
	}
	seconds, ok := number(raw)
	if !ok || seconds < 0 || seconds > math.MaxInt64/float64(time.Second) {
		note(BadRuntime, string(raw))
		return nil
	}
	d := time.Duration(seconds * float64(time.Second))
	return &d
}

// text is the value of a JSON string, without the NULs that PostgreSQL can't
// store (the peer strips those at the ends and fails on others).
func text(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return strings.ReplaceAll(s, "\x00", ""), true
}

func number(raw json.RawMessage) (float64, bool) {
	var f float64
	if isNull(raw) || json.Unmarshal(raw, &f) != nil {
		return 0, false
	}
	return f, true
}

// isNull says whether a value is missing or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// truthy says whether Python takes a JSON value as true; a missing one isn't.
func truthy(raw json.RawMessage) bool {
	if len(raw) == 0 {
		return false
	}
	switch raw[0] {
	case 'n', 'f': // null, false
		return false
	case '"', '[', '{':
		// Empty if nothing but space is between the two ends.
		return len(bytes.TrimSpace(raw[1:len(raw)-1])) > 0 || raw[0] == '"' && len(raw) > 2
	case 't':
		return true
	}
	// A number is zero if its mantissa is, or if it is too small for a float.
	f, ok := number(raw)
	return !ok || f != 0
}

// isPythonSpace is what Python's str.rstrip removes: Unicode's white space and
// the four separators of ASCII.
func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
