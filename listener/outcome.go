package listener

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/settle"
)

// Problem is a kind of error in an event: a label of a counter.
type Problem string

// The kinds of errors.
const (
	BadBody      Problem = "body"      // the message has no readable events
	BadEvent     Problem = "event"     // not an object, or no type
	BadUUID      Problem = "uuid"      // not a text, or not the id of a task
	BadHostname  Problem = "hostname"  // not a text
	BadTimestamp Problem = "timestamp" // not a number, negative, or in the future
	BadResult    Problem = "result"    // a task-result without one
	BadStatus    Problem = "status"    // a task-result whose status ends no run
	BadError     Problem = "error"     // not a text
	BadTraceback Problem = "traceback" // not a text
	BadRuntime   Problem = "runtime"   // not a number of seconds
	TooLarge     Problem = "too_large" // the message exceeds the size limit
	TooMany      Problem = "too_many"  // a message with too many events was delivered again
	Refused      Problem = "refused"   // PostgreSQL refused the outcome
	Panicked     Problem = "panic"     // it caused a fault of the program
)

var problems = []Problem{
	BadBody, BadEvent, BadUUID, BadHostname, BadTimestamp, BadResult, BadStatus, BadError, BadTraceback, BadRuntime,
	TooLarge, TooMany, Refused, Panicked,
}

// verdict is the treatment of an event.
type verdict int

const (
	ignored  verdict = iota // has no information on the state of a run
	accepted                // apply its outcome
	rejected                // should have an outcome, but is malformed
)

// interpret returns the outcome of an event received at the given time. It calls note for every malformed field;
// fields that are not essential then count as missing.
//
// The rules for task-started, task-result and task-failed are those of the
// Python scheduler's process_event.
func interpret(e celery.Event, received time.Time, note func(Problem, string)) (settle.Outcome, verdict) {
	o := settle.Outcome{BackendID: e.UUID, Received: received}
	switch e.Type {
	case "task-started":
		o.Start = &settle.Start{Worker: optionalText(e, "hostname", BadHostname, note), EventTime: eventTime(e, received, note)}
	case "task-result":
		if o.End = resultEnd(e, note); o.End == nil {
			return o, rejected
		}
	case "task-failed":
		line := lastLine(e, note)
		o.End = &settle.End{Status: model.RunFailed, Error: line, TimedOut: timeLimitFailed(e, line)}
		if exception, _ := text(e.Fields["exception"]); rejection.MatchString(exception) || line != nil && rejection.MatchString(*line) {
			o.End.Final = settle.Rejected
		}
	case "task-revoked":
		o.End = revokedEnd(e)
	case "task-rejected":
		// A message that goes back into its queue will run again.
		if truthy(e.Fields["requeue"]) {
			return o, ignored
		}
		o.End = &settle.End{Status: model.RunFailed, Final: settle.Rejected}
	case "task-succeeded":
		if o.Runtime = runtime(e, note); o.Runtime == nil {
			return o, ignored
		}
	default:
		return o, ignored
	}
	if o.End != nil {
		// The end is valid without a time, so problems of the time are not reported.
		o.End.EventTime = eventTime(e, received, func(Problem, string) {})
	}
	return o, accepted
}

// rejection matches the exception with which a task makes its worker drop the message: its repr, or the last line of
// its traceback. There is no task-failed of a message that goes back into its queue.
var rejection = regexp.MustCompile(`^(?:reject requeue=False|(?:\w+\.)*Reject(?:[:(]|$))`)

// revokedEnd returns the end of a task that did not run, or was terminated. A task that an operator revoked is not
// retried; one that expired in its queue is.
func revokedEnd(e celery.Event) *settle.End {
	end := &settle.End{Status: model.RunFailed, Final: settle.Revoked}
	switch signal, ok := number(e.Fields["signum"]); {
	case truthy(e.Fields["expired"]):
		end.Final, end.Unstarted, end.Error = "", true, new("expired before a worker began it")
	case !truthy(e.Fields["terminated"]):
		end.Unstarted, end.Error = true, new("revoked before a worker began it")
	case ok:
		end.Error = new(fmt.Sprintf("revoked, and its process terminated by signal %.0f", signal))
	default:
		end.Error = new("revoked, and its process terminated")
	}
	return end
}

// endStatuses are the statuses of a task's result that end its run. Unlike the Python scheduler, the listener
// doesn't accept statuses of a run that has not ended.
var endStatuses = map[string]model.RunStatus{
	"eventful":   model.RunEventful,
	"uneventful": model.RunUneventful,
	"failed":     model.RunFailed,
	"permfailed": model.RunPermFailed,
	"lost":       model.RunLost,
}

// resultEnd reads the result of a task that returned; nil if it has no status that ends the run.
func resultEnd(e celery.Event, note func(Problem, string)) *settle.End {
	raw, ok := e.Fields["result"]
	if !ok {
		note(BadResult, "missing")
		return nil
	}
	var result map[string]json.RawMessage
	if raw[0] != '{' || json.Unmarshal(raw, &result) != nil || isNull(result["status"]) {
		return &settle.End{Status: eventful(truthy(raw))}
	}
	word, ok := text(result["status"])
	if !ok {
		note(BadStatus, string(result["status"]))
		return nil
	}
	if word == "success" {
		return &settle.End{Status: eventful(truthy(result["eventful"]))}
	}
	status, ok := endStatuses[word]
	if !ok {
		note(BadStatus, word)
		return nil
	}
	end := &settle.End{Status: status}
	if raw, ok := result["error"]; ok && status == model.RunFailed {
		if message, ok := text(raw); ok {
			end.Error, end.TimedOut = &message, timeLimit.MatchString(message)
		} else {
			note(BadError, string(raw))
		}
	}
	return end
}

func eventful(yes bool) model.RunStatus {
	if yes {
		return model.RunEventful
	}
	return model.RunUneventful
}

// lastLine returns the last line of a failure's traceback, which names the error.
func lastLine(e celery.Event, note func(Problem, string)) *string {
	traceback := optionalText(e, "traceback", BadTraceback, note)
	if traceback == nil {
		return nil
	}
	text := pytext.RStrip(*traceback)
	return new(strings.Clone(text[strings.LastIndexByte(text, '\n')+1:])) // without the rest of the traceback
}

// optionalText returns the value of a field, or nil if it is missing, null, or no text. The last of these is
// reported as problem.
func optionalText(e celery.Event, field string, problem Problem, note func(Problem, string)) *string {
	raw := e.Fields[field]
	if isNull(raw) {
		return nil
	}
	value, ok := text(raw)
	if !ok {
		note(problem, string(raw))
		return nil
	}
	return &value
}

// clockSkew is how far a worker's clock may be ahead of ours.
const clockSkew = time.Hour

// eventTime returns the event's timestamp in seconds since 1970, by the worker's clock, or 0 if it has no valid one.
func eventTime(e celery.Event, received time.Time, note func(Problem, string)) float64 {
	raw, ok := e.Fields["timestamp"]
	if !ok {
		return 0
	}
	seconds, ok := number(raw)
	if !ok || seconds < 0 || seconds > float64(received.Add(clockSkew).Unix()) {
		note(BadTimestamp, string(raw))
		return 0
	}
	return seconds
}

// runtime returns the runtime of the task, nil if the event has none.
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
	return new(model.Duration(seconds))
}

// text returns the value of a JSON string, without the NULs that PostgreSQL can't
// store (the Python scheduler strips those at the ends and fails on others).
func text(raw json.RawMessage) (s string, ok bool) {
	ok = len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil
	return strings.ReplaceAll(s, "\x00", ""), ok
}

func number(raw json.RawMessage) (f float64, ok bool) {
	ok = !isNull(raw) && json.Unmarshal(raw, &f) == nil
	return f, ok
}

// isNull reports whether a value is missing or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || bytes.Equal(raw, []byte("null")) }

// truthy reports whether a JSON value is true in Python; a missing one isn't.
func truthy(raw json.RawMessage) bool {
	if len(raw) == 0 {
		return false
	}
	switch raw[0] {
	case 'n', 'f': // null, false
		return false
	case 't':
		return true
	case '"':
		return len(raw) > 2
	case '[', '{':
		return len(bytes.TrimSpace(raw[1:len(raw)-1])) > 0
	}
	// A number is zero if its mantissa is, or if it is too small for a float.
	f, ok := number(raw)
	return !ok || f != 0
}

// timeLimit matches the name of an exception with which a worker ends a task at a time limit: the class at the start
// of the text, as in Python's repr and str and in the last line of a traceback. Elsewhere in the text it is a part
// of a message.
var timeLimit = regexp.MustCompile(`^(?:\w+\.)*(?:Soft)?TimeLimitExceeded(?:[(:]|$)`)

// wrappedException is the exception's name in events for one raised by the worker's parent process, such as that of
// the hard limit: only the traceback has its class.
const wrappedException = "ExceptionWithTraceback()"

// timeLimitFailed reports whether a task failed by a time limit. line is the last line of its traceback, nil for
// none.
func timeLimitFailed(e celery.Event, line *string) bool {
	if exception, ok := text(e.Fields["exception"]); ok && exception != wrappedException {
		return timeLimit.MatchString(exception)
	}
	return line != nil && timeLimit.MatchString(*line)
}
