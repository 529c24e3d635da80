package simulator

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/pytext"
)

// longRunTime is what visits take that are very long, in seconds.
const longRunTime = 3600

// Report is what a simulation came to.
type Report struct {
	Simulated time.Duration
	Visits    int // that ended
	// Eventful are the run times, in seconds, of the full visits that found
	// something new.
	Eventful   []float64
	Uneventful int // full visits that found nothing new
	Partial    int // visits that were given up
	Series     []Measurement

	worked map[string]time.Duration // by group: visits that ended
}

// Measurement is how the origins of all listers stood at a moment.
type Measurement struct {
	At             time.Time
	Known          int
	Enabled        int
	NeverVisited   int
	PendingChanges int
	Visits         int // that had ended
	// Worked is how long workers had worked for each group, those that share a queue
	// and "" for all other visits.
	Worked map[string]time.Duration
}

func (r *Report) visited(v running, eventful bool) {
	l := v.load
	r.worked[v.group] += seconds(l.runTime)
	r.Visits++
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
	r.Series = append(r.Series, Measurement{
		At: at, Known: c.known, Enabled: c.enabled, NeverVisited: c.neverVisited, PendingChanges: c.pendingChanges,
		Visits: r.Visits, Worked: worked,
	})
}

// VeryLong is how many eventful visits took more than an hour.
func (r *Report) VeryLong() int {
	n := 0
	for _, t := range r.Eventful {
		if t > longRunTime {
			n++
		}
	}
	return n
}

// Text is the peer's report.
func (r *Report) Text() string {
	return fmt.Sprintf("Total visits: %d\nUneventful visits: %d\nEventful visits: %d\nVery long running tasks: %d\n",
		r.Visits, r.Uneventful, len(r.Eventful), r.VeryLong())
}

// WriteCSV writes the series as the peer does.
func (r *Report) WriteCSV(w io.Writer) error {
	var b strings.Builder
	row := func(fields ...string) { b.WriteString(pytext.CSVRow(fields) + "\r\n") }
	row("timestamp", "known_origins", "enabled_origins", "never_visited_origins", "origins_with_pending_changes")
	for _, m := range r.Series {
		row(pytext.Datetime(m.At), strconv.Itoa(m.Known), strconv.Itoa(m.Enabled), strconv.Itoa(m.NeverVisited), strconv.Itoa(m.PendingChanges))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
