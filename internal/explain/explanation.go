package explain

import (
	"fmt"
	"time"

	"swh-scheduler/internal/pytext"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// Explanation is what is said of a task or an origin.
type Explanation struct {
	Subject string `json:"subject"`
	// Summary is the state in one sentence, Reasons are sentences that say why and
	// what is needed.
	Summary string   `json:"summary"`
	Reasons []string `json:"reasons"`
	// When is the earliest moment at which it can be scheduled; nil if nothing
	// will without somebody's doing.
	When *time.Time `json:"when"`

	now  time.Time
	zone *time.Location
}

func (e *Explanation) because(format string, args ...any) {
	e.Reasons = append(e.Reasons, fmt.Sprintf(format, args...))
}

// at is a moment in words.
func (e *Explanation) at(t time.Time) string {
	text := pytext.Datetime(t.In(e.zone).Truncate(time.Second))
	if d := t.Sub(e.now); d > 0 {
		return fmt.Sprintf("%s (in %s)", text, Roughly(d))
	}
	return fmt.Sprintf("%s (%s ago)", text, Roughly(e.now.Sub(t)))
}

// Roughly is a duration with no more precision than people want.
func Roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d s", int(max(d, 0).Seconds()))
}

// Queue is a queue and what it holds.
type Queue struct {
	Name    string
	Limit   *int64 // nil or 0: none
	Ready   int
	Working int   // handed to workers
	Err     error // it could not be asked; then there are no numbers
}

// free says how many more messages the queue takes; ok is false if it has no
// limit or is not known.
func (q Queue) free() (n int64, ok bool) {
	if q.Err != nil || q.Limit == nil || *q.Limit == 0 {
		return 0, false
	}
	return max(0, *q.Limit-int64(q.Ready+q.Working)), true
}

// describeQueue tells how full a queue is. refill is the part of it that must be
// free before it is filled again.
func (e *Explanation) describeQueue(q Queue, refill float64) {
	switch free, limited := q.free(); {
	case q.Err != nil:
		e.because("How full its queue %s is cannot be told: %s.", q.Name, q.Err)
	case !limited:
		e.because("Its queue %s holds %d messages (%d with workers) and has no limit.", q.Name, q.Ready+q.Working, q.Working)
	case float64(free) < float64(*q.Limit)*refill || free == 0:
		e.because("Its queue %s is full: it holds %d of at most %d messages (%d with workers), and is filled again when more than %d%% of it is free.",
			q.Name, q.Ready+q.Working, *q.Limit, q.Working, int(refill*100))
	default:
		e.because("Its queue %s has room: it holds %d of at most %d messages (%d with workers).", q.Name, q.Ready+q.Working, *q.Limit, q.Working)
	}
}

// describeShares tells that a queue is divided between groups, if it is.
func (e *Explanation) describeShares(by scheduler.ShareKey, taskType string) {
	if by != "" {
		e.because("Its queue is divided between groups by %s, and the share of its group may be used up: see swh-scheduler shares status %s.", by, taskType)
	}
}

// describeMessage tells of a message in the outbox.
func (e *Explanation) describeMessage(m sql.WaitingMessage) {
	if m.Attempts == 0 {
		e.because("Its message for queue %s waits in the outbox since %s, with %d messages before it; any daemon that sends takes it from there.", m.Queue, e.at(m.Since), m.Ahead)
		return
	}
	e.because("The broker refused its message for queue %s %d times (%s); it is tried again at %s.", m.Queue, m.Attempts, m.Reason, e.at(m.Again))
}
