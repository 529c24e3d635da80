package simulator

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"strconv"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
)

// longRunTime is the least run time of a very long visit, in seconds.
const longRunTime = 3600

// Report is the result of a simulation.
type Report struct {
	Simulated  time.Duration
	Visits     int       // that ended
	Eventful   []float64 // run times, in seconds, of full visits that found something new
	Uneventful int       // full visits that found nothing new
	Partial    int       // visits that were given up
	Forks      int       // visits of origins known to be forks
	Series     []Measurement

	worked map[string]time.Duration // by group: working time of visits that ended
	waits  map[string]wait          // by group: waits of visits that began

	urgent map[model.TaskPriority]wait // waits of tasks with priority that began
}

// wait is the total waiting time of some visits.
type wait struct {
	total  time.Duration
	visits int
}

func (w wait) mean() time.Duration { return w.total / time.Duration(max(1, w.visits)) }

func (r *Report) began(v visit, now time.Time) {
	w := r.waits[v.group]
	r.waits[v.group] = wait{w.total + now.Sub(v.claimed), w.visits + 1}
	if v.urgency != "" {
		w := r.urgent[v.urgency]
		r.urgent[v.urgency] = wait{w.total + now.Sub(v.ready), w.visits + 1}
	}
}

// Measurement is the state of all origins at a time.
type Measurement struct {
	At time.Time
	counts
	Visits int                      // number of visits that had ended
	Worked map[string]time.Duration // working time by group; "" has the visits without a group
}

func (r *Report) visited(v running, eventful bool) {
	l := v.load
	r.worked[v.group] += model.Duration(l.runTime)
	r.Visits++
	if v.fork {
		r.Forks++
	}
	switch {
	case eventful:
		r.Eventful = append(r.Eventful, l.runTime)
	case l.full:
		r.Uneventful++
	default:
		r.Partial++
	}
}

func (r *Report) measure(at time.Time, c counts, underway map[uuid.UUID]running) {
	worked := maps.Clone(r.worked)
	for _, v := range underway {
		worked[v.group] += at.Sub(v.began)
	}
	r.Series = append(r.Series, Measurement{at, c, r.Visits, worked})
}

// VeryLong returns the number of eventful visits of more than an hour.
func (r *Report) VeryLong() (n int) {
	for _, t := range r.Eventful {
		if t > longRunTime {
			n++
		}
	}
	return n
}

// Text formats the report as the Python scheduler does.
func (r *Report) Text() string {
	return fmt.Sprintf("Total visits: %d\nUneventful visits: %d\nEventful visits: %d\nVery long running tasks: %d\n",
		r.Visits, r.Uneventful, len(r.Eventful), r.VeryLong())
}

// ForksText returns the number of visits of forks as a text, or "" if there were none.
func (r *Report) ForksText() string {
	if r.Forks == 0 {
		return ""
	}
	return fmt.Sprintf("Visits of forks: %d (%s)\n", r.Forks, r.forksPart())
}

// forksPart returns the fraction of the visits that were visits of forks, as a percentage.
func (r *Report) forksPart() string {
	return fmt.Sprintf("%.1f %%", 100*float64(r.Forks)/float64(r.Visits))
}

// WriteCSV writes the series as the Python scheduler does.
func (r *Report) WriteCSV(w io.Writer) error {
	rows := [][]string{{"timestamp", "known_origins", "enabled_origins", "never_visited_origins", "origins_with_pending_changes"}}
	for _, m := range r.Series {
		rows = append(rows, []string{pytext.Datetime(m.At), strconv.Itoa(m.Known), strconv.Itoa(m.Enabled), strconv.Itoa(m.NeverVisited), strconv.Itoa(m.PendingChanges)})
	}
	file := csv.NewWriter(w)
	file.UseCRLF = true
	return file.WriteAll(rows)
}

// Totals returns the report for JSON.
func (r *Report) Totals(kind Kind) map[string]any {
	totals := map[string]any{
		"scheduler": kind, "simulated": r.Simulated.Seconds(), "total_visits": r.Visits,
		"uneventful_visits": r.Uneventful, "eventful_visits": len(r.Eventful),
		"partial_visits": r.Partial, "very_long_running_tasks": r.VeryLong(),
	}
	if r.Forks > 0 {
		totals["visits_of_forks"] = r.Forks
	}
	if shares := r.Shares(); len(shares) > 0 {
		totals["shares"] = shares
	}
	if urgent := r.Urgent(); len(urgent) > 0 {
		totals["priorities"] = urgent
	}
	return totals
}
