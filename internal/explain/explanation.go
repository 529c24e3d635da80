package explain

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
)

// Explanation explains the state of a task or an origin.
type Explanation struct {
	Subject string     `json:"subject"`
	Summary string     `json:"summary"` // the state, in one sentence
	Reasons []string   `json:"reasons"` // sentences: causes and remedies
	When    *time.Time `json:"when"`    // the earliest time at which it can be scheduled; nil if that needs an operator

	now    time.Time
	queued bool // it describes the queue
}

func (e *Explanation) because(format string, args ...any) {
	e.Reasons = append(e.Reasons, fmt.Sprintf(format, args...))
}

func (e *Explanation) at(t time.Time) string {
	text := pytext.Datetime(t.UTC().Truncate(time.Second))
	d := t.Sub(e.now)
	apart := Roughly(d.Abs())
	if d == math.MaxInt64 || d == math.MinInt64 { // Sub's result for a longer time
		apart = fmt.Sprintf("%d days", max(t.Unix()-e.now.Unix(), e.now.Unix()-t.Unix())/(24*60*60))
	}
	if d > 0 {
		return fmt.Sprintf("%s (in %s)", text, apart)
	}
	return fmt.Sprintf("%s (%s ago)", text, apart)
}

// Roughly formats a duration in its largest units.
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

// RoughSeconds formats seconds as Roughly does, with two digits below ten seconds.
func RoughSeconds(seconds float64) string {
	if 0 < seconds && seconds < 10 {
		return strconv.FormatFloat(seconds, 'g', 2, 64) + " s"
	}
	return Roughly(model.Duration(seconds))
}

type Queue struct {
	Name    string
	Limit   *int64 // nil or 0: none
	Ready   int
	Working int  // unacknowledged messages
	OfLane  bool // of a lane, whose limits "lanes status" shows
	// Consumers is the number of the queue's consumers.
	Consumers int
	Err       error // why the broker's numbers are unknown; they are then zero
}

// free returns the remaining capacity; ok is false if the queue has no limit or the capacity is unknown.
func (q Queue) free() (n int64, ok bool) {
	if q.Err != nil || q.Limit == nil || *q.Limit == 0 {
		return 0, false
	}
	return max(0, *q.Limit-int64(q.Ready+q.Working)), true
}

func messages[N int | int64](n N) string { return model.Count(n, "message", "messages") }

// describeQueue adds the state of a queue that is filled by refill.
func (e *Explanation) describeQueue(q Queue, refill dispatch.Refill) {
	e.queued = true
	switch free, limited := q.free(); {
	case q.Err != nil:
		e.because("The number of messages in its queue %s is unknown: %s.", q.Name, q.Err)
	case q.OfLane:
		e.because("Its queue %s holds %s (%d unacknowledged).", q.Name, messages(q.Ready+q.Working), q.Working)
	case !limited:
		e.because("Its queue %s holds %s (%d unacknowledged) and has no limit.", q.Name, messages(q.Ready+q.Working), q.Working)
	case free < int64(refill(q.Limit)):
		e.because("Its queue %s is full: it holds %d of at most %s (%d unacknowledged), and is filled again when %d more fit.",
			q.Name, q.Ready+q.Working, messages(*q.Limit), q.Working, refill(q.Limit))
	default:
		e.because("Its queue %s has room: it holds %d of at most %s (%d unacknowledged).", q.Name, q.Ready+q.Working, messages(*q.Limit), q.Working)
	}
	if q.Err == nil && q.Consumers == 0 {
		e.because("No worker reads queue %s.", q.Name)
	}
}

// describeMessage adds the state of an outgoing message.
func (e *Explanation) describeMessage(m db.WaitingMessage) {
	if m.Attempts == 0 {
		e.because("Its message for queue %s is being sent since %s, with %s before it; any daemon that sends takes it from there.", m.Queue, e.at(m.Since), messages(int(m.Ahead)))
		return
	}
	e.because("The broker rejected its message for queue %s %s (%s); it is tried again at %s.", m.Queue, model.Count(m.Attempts, "time", "times"), m.Reason, e.at(m.Again))
}

// waitsInBacklog explains work in the backlog of a lane.
func (e *Explanation) waitsInBacklog(p db.LanePlace) {
	e.Summary = "It is scheduled, and waits in the backlog for a slot of lane " + p.LaneName + "."
	if p.TimedOut > 0 {
		e.because("It timed out on %s, so it goes before all work that was not tried before.", model.Count(int(p.TimedOut), "lane", "lanes"))
	}
	e.because("It was claimed at %s and has waited in this backlog since %s, with %d before it.", e.at(p.Claimed), e.at(p.Since), p.Ahead)
	e.because(`"swh-scheduler lanes status %s" shows how full the lane is; "swh-scheduler queue status", whether workers read it.`, p.LaneSet)
}

// describeLane adds the state of work that was sent to a lane.
func (e *Explanation) describeLane(p db.LanePlace) {
	e.because("It was sent on lane %s, to queue %s, at %s.", p.LaneName, p.Queue, e.at(p.Since))
	if limit := model.Duration(p.SoftLimit); p.Started != nil {
		e.because("Its time limit there is over at %s.", e.at(model.UnixTime(*p.Started).Add(limit)))
	} else {
		e.because("Its time limit there is %s from when a worker begins it.", Roughly(limit))
	}
	if p.TimedOut > 0 {
		e.because("It timed out on %s before.", model.Count(int(p.TimedOut), "lane", "lanes"))
	}
}

// isSetAside explains a task or an origin that is set aside.
func (e *Explanation) isSetAside(s db.SetAside) {
	e.Summary = fmt.Sprintf("It is rejected since %s: it can't be sent.", e.at(s.Since))
	e.When = &s.Until
	e.because("The reason: %s.", strings.TrimRight(s.Reason, "."))
	e.because("It is tried again within a minute of a change, or at %s.", e.at(s.Until))
}

// hasInfinite explains a task or an origin with infinite dates, which this program can't read.
func (e *Explanation) hasInfinite(dates []db.InfiniteDate) {
	e.Summary = "It has infinite dates, so nothing else is known about it."
	for _, d := range dates {
		switch {
		case d.What != "task.next_run":
			e.because("%s is %s.", d.What, d.Value)
		case d.Value == "infinity":
			e.because("%s is infinity: the task is never ready, and nothing sends it.", d.What)
		default:
			e.because("%s is -infinity: the task is ready, before all others.", d.What)
		}
	}
}

// Share is the group of some work in a shared queue.
type Share struct {
	TaskType    string // the key of the shares in the configuration
	By          model.ShareKey
	Group       string
	InFlight    int
	MaxInFlight int // 0: no ceiling
	Priority    uint8
}

// describeCapacity adds the state of the queue, unless there is a lane set, and the state of the group.
func (e *Explanation) describeCapacity(laneSet string, q Queue, refill dispatch.Refill, s *Share) {
	if laneSet != "" {
		e.because(`It is sent on lanes; "swh-scheduler lanes status %s" shows how full they are.`, laneSet)
	} else {
		e.describeQueue(q, refill)
	}
	if s == nil {
		return
	}
	e.because(`Its queue is divided between groups by %s, and the share of its group, %q, may be used up: see "swh-scheduler shares status %s".`, s.By, s.Group, s.TaskType)
	switch {
	case s.MaxInFlight == 0:
	case s.InFlight >= s.MaxInFlight:
		e.because("Its group is at its ceiling: %s in flight, of at most %d (max_in_flight). More of it is sent as these end.", model.Count(s.InFlight, "message is", "messages are"), s.MaxInFlight)
	default:
		e.because("Its group is below its ceiling: %s in flight, of at most %d (max_in_flight).", model.Count(s.InFlight, "message is", "messages are"), s.MaxInFlight)
	}
	if s.Priority > 0 {
		e.because("Messages of its group have priority %d: in a queue with x-max-priority they pass by those of a lower one.", s.Priority)
	}
}
