package dashboard

import (
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

// stretch is a period of a task and its position on a timeline.
type stretch struct {
	Kind     string    `json:"kind"` // between (since the previous run), queued, ran, failed (ran and failed), expected or now
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	X, Width float64   `json:"-"` // in per cent of the timeline
}

func (s stretch) Seconds() float64 { return s.To.Sub(s.From).Seconds() }

// label marks a time on a timeline.
type label struct {
	At time.Time
	X  float64 // in per cent
}

// timeline sets the positions of stretches on a common axis. It returns the labels of the axis, the last one at its end.
// It shortens long idle times: otherwise runs of a minute a day would be hairlines.
func timeline(lines ...[]stretch) []label {
	var busy []stretch // the times in which something is queued or runs, without overlaps
	for _, s := range slices.SortedFunc(slices.Values(slices.Concat(lines...)), func(a, b stretch) int { return a.From.Compare(b.From) }) {
		if last := len(busy) - 1; s.Kind == "between" {
			continue
		} else if last < 0 || s.From.After(busy[last].To) {
			busy = append(busy, s)
		} else if s.To.After(busy[last].To) {
			busy[last].To = s.To
		}
	}
	if len(busy) == 0 {
		return nil
	}
	all := 0.
	for _, s := range busy {
		all += s.Seconds()
	}
	longest := all / float64(9+len(busy)) // the longest idle time that is shown in full
	length := 0.
	for i := range busy {
		if i > 0 {
			length += min(longest, busy[i].From.Sub(busy[i-1].To).Seconds())
		}
		busy[i].X = length
		length += busy[i].Seconds()
	}
	scale := 0.
	if length > 0 {
		scale = 100 / length
	}
	place := func(at time.Time) float64 {
		i := slices.IndexFunc(busy, func(s stretch) bool { return !at.After(s.To) })
		if i < 0 {
			return 100
		}
		return scale * (busy[i].X + max(0, at.Sub(busy[i].From).Seconds()))
	}
	for _, line := range lines {
		for i := range line {
			line[i].X = place(line[i].From)
			line[i].Width = place(line[i].To) - line[i].X
		}
	}
	const apart = 30 // least distance of labels, so that they don't overlap
	var labels []label
	for _, s := range busy {
		if x := scale * s.X; x <= 100-2*apart && (len(labels) == 0 || x >= labels[len(labels)-1].X+apart) {
			labels = append(labels, label{s.From, x})
		}
	}
	return append(labels, label{busy[len(busy)-1].To, 100})
}

// lineOf returns the stretches of a run, until now if it has not ended. before is the end of the previous run; nil if
// unknown.
func lineOf(run db.FoundRun, before *time.Time, now time.Time) (line []stretch) {
	end := run.Ended
	if end == nil && (run.Status == model.RunScheduled || run.Status == model.RunStarted) {
		end = &now
	}
	add := func(kind string, from, to *time.Time) {
		if from != nil && to != nil && !to.Before(*from) {
			line = append(line, stretch{Kind: kind, From: *from, To: *to})
		}
	}
	add("between", before, run.Scheduled)
	if run.Started == nil {
		add("queued", run.Scheduled, end)
		return line
	}
	add("queued", run.Scheduled, run.Started)
	kind := "ran"
	if run.Status.Failed() {
		kind = "failed"
	}
	add(kind, run.Started, end)
	return line
}
