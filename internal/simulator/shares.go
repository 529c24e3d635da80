package simulator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/internal/simulator/page"
	"swh-scheduler/recurrent"
	"swh-scheduler/sql"
)

// ListersOf are the virtual listers of a run with shares: one for each group that
// has a weight, and DefaultLister, whose group has none unless it is named too.
func ListersOf(shares map[string]scheduler.Shares) []ListerName {
	listers := []ListerName{DefaultLister}
	for _, taskType := range slices.Sorted(maps.Keys(shares)) {
		s := shares[taskType]
		for _, group := range slices.Sorted(maps.Keys(s.Weights)) {
			l := ListerName{Name: group}
			if s.By == scheduler.ShareByListerInstance {
				l.Name, l.Instance, _ = strings.Cut(group, "/")
			}
			if !slices.Contains(listers, l) {
				listers = append(listers, l)
			}
		}
	}
	return listers
}

// sharedQueue is the queue of a visit type that groups of listers share.
type sharedQueue struct{ dispatch.SharedQueue }

// sharedQueues are those that the options' shares are of.
func sharedQueues(ctx context.Context, o Options, visitTypes []string) (map[string]sharedQueue, error) {
	queues := make(map[string]sharedQueue)
	for _, visitType := range visitTypes {
		name := scheduler.LoaderTaskType(visitType)
		shares, ok := o.Shares[name]
		if !ok {
			continue
		}
		if !shares.By.OfVisits() {
			return nil, fmt.Errorf("shares of %s are by %s, and visits can only be shared by %s or %s",
				name, shares.By, scheduler.ShareByLister, scheduler.ShareByListerInstance)
		}
		tt, err := o.Store.TaskType(ctx, name)
		if err != nil {
			return nil, err
		}
		queues[visitType] = sharedQueue{dispatch.SharedQueue{Name: tt.Queue(), Shares: shares}}
	}
	if len(o.Shares) > 0 && len(queues) == 0 {
		return nil, fmt.Errorf("shares are of %s, and what is simulated is of the visit types %s (a task type is load- and a visit type)",
			strings.Join(slices.Sorted(maps.Keys(o.Shares)), ", "), strings.Join(visitTypes, ", "))
	}
	return queues, nil
}

// claim claims as schedule-recurrent does. What it claims is in the ledger of shares
// until its end is heard of.
func (q sharedQueue) claim(ctx context.Context, tx *sql.Tx, picker recurrent.Picker, now time.Time, n int) ([]visit, error) {
	if err := tx.LockQueue(ctx, q.Name); err != nil {
		return nil, err
	}
	picked, _, err := picker.PickShared(ctx, tx, q.SharedQueue, now, n)
	if err != nil {
		return nil, err
	}
	visits := make([]visit, len(picked))
	underway := make([]sql.InFlight, len(picked))
	for i, p := range picked {
		visits[i] = newVisit(p.Origin, p.Group)
		underway[i] = sql.InFlight{TaskID: visits[i].id, Queue: q.Name, Group: p.Group, Cost: p.Cost, Claimed: now}
	}
	mix(visits)
	return visits, tx.RecordInFlight(ctx, underway)
}

// GroupUse is what a group used of the workers' time.
type GroupUse struct {
	Group   string  `json:"group"`
	Seconds float64 `json:"seconds"`
	Part    float64 `json:"part"` // of what all groups used; of 1
}

// groups are those that visits were claimed for, sorted.
func (r *Report) groups() []string {
	var names []string
	for name := range r.Series[len(r.Series)-1].Worked {
		if name != "" {
			names = append(names, name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// Shares is what each group used in the whole run; nothing where none shared.
func (r *Report) Shares() []GroupUse {
	none := Measurement{}
	return r.sharesBetween(none, r.Series[len(r.Series)-1])
}

// sharesBetween is what each group used between two moments.
func (r *Report) sharesBetween(from, to Measurement) []GroupUse {
	var uses []GroupUse
	total := 0.0
	for _, group := range r.groups() {
		used := (to.Worked[group] - from.Worked[group]).Seconds()
		total += used
		uses = append(uses, GroupUse{Group: group, Seconds: used})
	}
	for i := range uses {
		if total > 0 {
			uses[i].Part = uses[i].Seconds / total
		}
	}
	return uses
}

// SharesText is a table of what each group used; empty where none shared.
func (r *Report) SharesText() string {
	uses := r.Shares()
	if len(uses) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Shares of the workers' time:\n")
	for _, u := range uses {
		fmt.Fprintf(&b, "  %s: %.1f %% (%.0f seconds)\n", u.Group, 100*u.Part, u.Seconds)
	}
	return b.String()
}

// sharesOverTime is the part of each group in each hour, in per cent; nothing where
// there is no hour.
func (r *Report) sharesOverTime() []page.Line {
	if len(r.Series) < 2 {
		return nil
	}
	var lines []page.Line
	for i, group := range r.groups() {
		l := page.Line{Name: group}
		for n := range len(r.Series) - 1 {
			from, to := r.Series[n], r.Series[n+1]
			l.Points = append(l.Points, page.Point{X: to.At.Sub(r.Series[0].At).Hours(), Y: 100 * r.sharesBetween(from, to)[i].Part})
		}
		lines = append(lines, l)
	}
	return lines
}
