package explain

import (
	"strings"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/sql/ledger"
)

// describeFailure adds the last failure of a visit, by workers' events.
func (e *Explanation) describeFailure(f *ledger.FoundFailure) {
	if f == nil {
		return
	}
	worker := ""
	if f.Worker != "" {
		worker = " on " + f.Worker
	}
	e.because("A visit of it failed last at %s, as %s%s: %s.", e.at(f.At), f.Type, worker, strings.TrimRight(failureText(*f), "."))
}

// failureText returns the exception and the message of a failure. Most messages begin with the exception.
func failureText(f ledger.FoundFailure) string {
	switch {
	case f.Exception == "" && f.Message == "":
		return "without a message"
	case f.Message == "":
		return f.Exception
	case f.Exception == "" || strings.HasPrefix(f.Message, f.Exception):
		return f.Message
	}
	return f.Exception + ": " + f.Message
}

// pending reports whether the origin was scheduled after its last recorded visit.
func (o Origin) pending() bool {
	s := o.Stats
	return s != nil && s.LastScheduled != nil && (s.LastVisit == nil || s.LastScheduled.After(*s.LastVisit))
}

// describeSent adds the state of the queue that has the message of a pending visit, unless the explanation has it. The
// ledger names the queue of a visit on a lane.
func (o Origin) describeSent(e *Explanation) {
	if !e.queued && o.Loader != nil && o.pending() && (o.Lanes == "" || o.Queue.OfLane) {
		e.describeQueue(o.Queue, dispatch.RefillByVisits)
	}
}
