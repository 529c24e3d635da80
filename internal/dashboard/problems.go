package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/status"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// Problem is an alert (deploy/prometheus/alerts.yml) whose condition is true now, perhaps for a shorter time than the
// alert's.
type Problem struct {
	Alert    string `json:"alert"` // name of the alert and its runbook; "" if nothing is wrong
	Critical bool   `json:"critical"`
	Idle     bool   `json:"idle"` // nothing is wrong, but something does nothing
	Text     string `json:"text"`
	Page     string `json:"page"` // page with details, from the base; "": the problem's own page

	queue string // the queue that it holds up, if Page isn't the queue's
}

// problems collects problems.
type problems []Problem

func (p *problems) add(critical bool, alert, page, format string, args ...any) {
	*p = append(*p, Problem{Alert: alert, Critical: critical, Text: fmt.Sprintf(format, args...), Page: page})
}

// facts are the inputs of problems.
type facts struct {
	now     time.Time
	figures db.Figures
	ended   map[ledger.EndedKey]*ledger.Ended
	daemons []db.Daemon
	queues  []status.Queue
	groups  []status.Group
	lanes   []status.Lane
	hosters []status.Hoster
	unread  []string // reasons why facts are missing
}

// notHere are the alerts that only Prometheus can evaluate: they compare with past hours, or use data outside of the
// database.
var notHere = []string{
	"ConnectionsExhausted", "ListenerStalled", "EventsLag", "JournalLag", "FiguresStale", "VisitsFallBehind", "VisitPoolGrows", "RPCErrors", "LoginsRefused",
	"HostersRefuse", "WebhooksUnsigned",
}

// maxProblems is the number of problems shown.
const maxProblems = 50

// problems returns all current problems, critical ones first.
func (f facts) problems() problems {
	all := problems{}
	f.ofDaemons(&all)
	f.ofDatabase(&all)
	f.ofQueues(&all)
	f.ofGroupsAndLanes(&all)
	f.ofEnds(&all)
	slices.SortFunc(all, func(a, b Problem) int {
		switch {
		case a.Critical == b.Critical:
			return cmp.Or(strings.Compare(a.Alert, b.Alert), strings.Compare(a.Text, b.Text))
		case a.Critical:
			return -1
		}
		return 1
	})
	return all
}

// overdueAfter is the longest silence of a daemon, which updates its row once a minute.
const overdueAfter = 5 * time.Minute

func (f facts) ofDaemons(all *problems) {
	alive, newest := map[string]bool{}, map[string]time.Time{}
	type place struct{ name, host string }
	last := map[place]time.Time{} // last contains when the last silent daemon of each place was seen
	for _, d := range f.daemons {
		if d.Started.After(newest[d.Name]) {
			newest[d.Name] = d.Started
		}
		alive[d.Name] = alive[d.Name] || f.now.Sub(d.LastReport) < overdueAfter
		if p := (place{d.Name, d.Host}); d.LastReport.After(last[p]) && f.now.Sub(d.LastReport) >= overdueAfter {
			last[p] = d.LastReport
		}
	}
	for _, d := range f.daemons {
		if silent := f.now.Sub(d.LastReport); silent >= overdueAfter && (newest[d.Name].After(d.LastReport) || last[place{d.Name, d.Host}].After(d.LastReport)) {
			continue // it was replaced, or another one became silent later
		} else if silent >= overdueAfter {
			alert := "DaemonDown"
			if !alive[d.Name] {
				alert = "DaemonMissing"
			}
			all.add(true, alert, "/daemons", "%s on %s has not reported for %s.", d.Name, d.Host, explain.Roughly(silent))
			continue
		}
		if d.State.Open != "" {
			all.add(false, "RPCUnauthenticated", "/daemons", "%s on %s asks for no credentials, at %s: whoever reaches that can read and write the scheduler.", d.Name, d.Host, d.State.Open)
		}
		for name, seconds := range d.State.Waiting {
			switch {
			case name == "the management API" && seconds > 300:
				all.add(false, "ManagementUnreachable", "/daemons", "RabbitMQ's management API has not answered %s on %s for %s.", d.Name, d.Host, roughly(seconds))
			case slices.Contains([]string{"PostgreSQL", "RabbitMQ", "Kafka"}, name) && seconds > 120:
				all.add(true, "ServiceUnreachable", "/daemons", "%s on %s has waited for %s for %s.", d.Name, d.Host, name, roughly(seconds))
			}
		}
		for name, seconds := range d.State.Overdue {
			if seconds > 1800 {
				all.add(false, "RoundOverdue", "/daemons", "%s on %s: no round of %s has succeeded for %s.", d.Name, d.Host, name, roughly(seconds))
			}
		}
	}
}

func (f facts) ofDatabase(all *problems) {
	for _, o := range f.figures.Outgoing {
		if age := f.now.Sub(o.Oldest); age > 10*time.Minute {
			all.add(true, "OutgoingStuck", queuePath(o.Queue), "Messages for %s wait for %s.", o.Queue, explain.Roughly(age))
		}
		if o.Refused > 0 {
			all.add(false, "MessagesRefused", queuePath(o.Queue), "The broker rejects %s for %s.", model.Count(o.Refused, "message", "messages"), o.Queue)
		}
	}
	for _, r := range f.figures.Ready {
		if age := f.now.Sub(r.Oldest); r.Priority != "" && age > 15*time.Minute {
			all.add(false, "ReadyTasksDelayed", address("/tasks", "type", r.Type, "priority", r.Priority), "A task %s with priority %s waits for %s.", r.Type, r.Priority, explain.Roughly(age))
		}
	}
	if n := f.figures.Rejected.NewEvents; n > 0 {
		all.add(false, "EventsSetAside", "/aside#events", "Events rejected in the last hour: %d.", n)
	}
	if n := f.figures.Rejected.NewRecords; n > 0 {
		all.add(false, "JournalRecordsSetAside", "/aside#records", "Journal records rejected in the last hour: %d.", n)
	}
	if s := f.figures.SetAside; s.Tasks+s.Origins > 0 {
		all.add(false, "RowsSetAside", "/aside", "Tasks and origins rejected, as they can't be sent: %d and %d.", s.Tasks, s.Origins)
	}
	if n := f.figures.Runs.Unanswered; n > 1000 {
		all.add(false, "RunsWithoutEnd", "/", "%d runs are unanswered for more than a day.", n)
	}
	if n := f.figures.Silent.Left; n > 0 {
		all.add(false, "ForeignRunsSilent", "/", "lost_after ignores silent runs of another scheduler: %d.", n)
	}
	if n := f.figures.CandidateChanges; n > 100_000 {
		all.add(false, "CandidatesBacklog", "/listers", "%d changes of origins are not in candidates.", n)
	}
	for _, g := range f.figures.Gone {
		if g.Held > 0 {
			all.add(false, "ListingHeld", "/listers", "Full listings of %s lack more origins than may go at once: %s.", g.Lister, model.Count(g.Held, "instance waits for an answer", "instances wait for an answer"))
		}
	}
	for _, s := range f.figures.HintSources {
		if hintSourceSilent(s, f.now) {
			all.add(false, "HintSourceSilent", "/listers#hints", "The source of hints %s has sent none for %s.", s.Source, explain.Roughly(f.now.Sub(s.LastHint)))
		}
	}
	if part := f.figures.Build.Part(); part < 1 {
		all.add(false, "CandidatesBuilding", "/listers", "Candidates are built to %.0f %%; grabs of visits are slow.", 100*part)
	}
}

func (f facts) ofQueues(all *problems) {
	for _, q := range f.queues {
		alert, text := "", ""
		switch {
		case q.Problem != "": // OutgoingStuck and MessagesRefused are its consequences
			alert, text = "MessagesRefused", fmt.Sprintf("The queue %s can't be asked: %s", q.Queue, q.Problem)
		case q.Consumers == 0 && q.Lane != "" && q.Ready+q.Backlog > 0:
			alert, text = "LaneWithoutConsumer", fmt.Sprintf("No worker reads the lane %s, the queue %s.", q.Lane, q.Queue)
		case q.Consumers == 0 && q.Ready > 0:
			alert, text = "QueueWithoutConsumer", fmt.Sprintf("%s in %s: no worker reads it.", model.Count(q.Ready, "message waits", "messages wait"), q.Queue)
		case q.Unacknowledged == nil && q.Consumers > 0:
			alert, text = "UnacknowledgedUnknown", fmt.Sprintf("It is unknown how many messages workers hold of %s.", q.Queue)
		}
		if alert != "" {
			all.add(false, alert, queuePath(q.Queue), "%s", text)
		}
	}
}

func (f facts) ofGroupsAndLanes(all *problems) {
	add := func(alert, queue, format string, args ...any) {
		all.add(false, alert, queuePath(queue), format, args...)
	}
	for _, g := range f.groups {
		if g.Waiting > 0 && g.InFlight == 0 && g.HourPieces == 0 {
			add("GroupStarves", g.Queue, "Work of the group %s waits for the queue %s, and none was sent in the last hour.", g.Group, g.Queue)
		}
	}
	for _, l := range f.lanes {
		if l.Again > l.Slots {
			add("LaneBacklogGrows", l.Queue, "Timed-out messages of %s that wait for the lane %s: %d.", l.TaskType, l.Lane, l.Again)
		}
		if l.WaitP95 > 6*3600 {
			add("LaneDelayed", l.Queue, "Work of %s waits for %s for the lane %s.", l.TaskType, roughly(l.WaitP95), l.Lane)
		}
		if waiting := l.Waiting + l.Again; waiting > 0 && l.Sent == 0 {
			add("LaneStarves", l.Queue, "Messages of %s that wait for the lane %s: %d. None is sent.", l.TaskType, l.Lane, waiting)
		}
		if l.SlowSentExpress > 100 && 2*l.SlowSentExpress > l.Ended {
			add("LanePredictionsWrong", l.Queue, "A third of the work of %s in the lane %s times out: %d in the last hour.", l.TaskType, l.Lane, l.SlowSentExpress)
		}
		if l.GivenUp > 100 {
			add("WorkGivenUp", l.Queue, "%d messages of the lane %s of %s were given up in the last hour.", l.GivenUp, l.Lane, l.TaskType)
		}
	}
}

// massFailure is the least number of failures in five minutes that can be a problem. They must also be most of the ended
// work.
const massFailure = 10

// ofEnds adds types whose work fails mostly. For visits in both events and the journal it counts the events, which have
// the exceptions.
func (f facts) ofEnds(all *problems) {
	for key, e := range f.ended {
		if !massFails(key.Source, e) {
			continue
		}
		taskType, what := key.Type, ""
		if key.Source == ledger.EndedByJournal {
			taskType, what = model.LoaderTaskType(key.Type), " visits"
			if e := f.ended[ledger.EndedKey{Source: ledger.EndedByWorker, Type: taskType}]; e != nil && massFails(ledger.EndedByWorker, e) {
				continue
			}
		}
		page, queue := typePath(taskType), "" // the journal has no exceptions
		reasons := mostReasons(e.FiveExceptions)
		if len(reasons) > 0 {
			page = errorPath(taskType, reasons[0].Exception)
		}
		if at := slices.IndexFunc(f.queues, func(q status.Queue) bool { return q.TaskType == taskType }); at >= 0 {
			queue = f.queues[at].Queue
		}
		all.add(false, "FailureRateHigh", page, "Of %s, %d of the %d%s that ended in five minutes failed%s.", taskType, failures(key.Source, e.FiveStatuses), e.Five, what, by(reasons))
		(*all)[len(*all)-1].queue = queue
	}
}

// massFails reports whether most of the work that ended in five minutes failed.
func massFails(source string, e *ledger.Ended) bool {
	failed := failures(source, e.FiveStatuses)
	return failed >= massFailure && 2*failed > e.Five
}

// failures returns the number of failures in counts by status.
func failures(source string, statuses map[string]int64) int64 {
	if source == ledger.EndedByJournal {
		return statuses[string(model.VisitFailed)]
	}
	return statuses[string(model.RunFailed)] + statuses[string(model.RunPermFailed)] + statuses[string(model.RunLost)]
}
