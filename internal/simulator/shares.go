package simulator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/simulator/page"
	"swh-scheduler/recurrent"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// ListersOf returns the virtual listers of a run with shares: DefaultLister and one for each group with a weight.
func ListersOf(shares map[string]model.Shares) []ListerName {
	listers := []ListerName{DefaultLister}
	for _, taskType := range slices.Sorted(maps.Keys(shares)) {
		s := shares[taskType]
		for _, group := range slices.Sorted(maps.Keys(s.Weights)) {
			l := ListerName{Name: group}
			if s.By == model.ShareByListerInstance {
				l.Name, l.Instance, _ = strings.Cut(group, "/")
			}
			if !slices.Contains(listers, l) {
				listers = append(listers, l)
			}
		}
	}
	return listers
}

// sharedQueue is a visit type's queue with shares for groups of listers.
type sharedQueue struct{ dispatch.SharedQueue }

// sharedQueues returns the shared queues by visit type.
func sharedQueues(ctx context.Context, o Options, visitTypes []string) (map[string]sharedQueue, error) {
	queues := make(map[string]sharedQueue)
	for _, visitType := range visitTypes {
		name := model.LoaderTaskType(visitType)
		shares, ok := o.Shares[name]
		if !ok {
			continue
		}
		if !shares.By.OfVisits() {
			return nil, fmt.Errorf("shares of %s are by %s, and visits can only be shared by %s or %s",
				name, shares.By, model.ShareByLister, model.ShareByListerInstance)
		}
		tt, err := o.Store.TaskType(ctx, name)
		if err != nil {
			return nil, err
		}
		queues[visitType] = sharedQueue{dispatch.SharedQueue{Name: tt.Queue(), Shares: shares}}
	}
	if len(o.Shares) > 0 && len(queues) == 0 {
		return nil, fmt.Errorf("the shares are for %s, but the simulated task types are load-%s",
			strings.Join(slices.Sorted(maps.Keys(o.Shares)), ", "), strings.Join(visitTypes, ", load-"))
	}
	return queues, nil
}

// claim claims visits as schedule-recurrent does and adds them to the ledger as sent messages.
func (q sharedQueue) claim(ctx context.Context, tx *db.Tx, picker recurrent.Picker, now time.Time, n int, ageing time.Duration) (visits []visit, hostersFull bool, err error) {
	if err := tx.LockQueues(ctx, q.Name); err != nil {
		return nil, false, err
	}
	picked, err := picker.PickShared(ctx, tx, q.SharedQueue, now, n)
	if err == nil {
		err = picked.StepThreshold(ctx, tx, picker.VisitType, now, n, n < queueCapacity)
	}
	if err != nil {
		return nil, false, err
	}
	visits, work := claimed(q.Name, picked.Visits, now)
	sent := make([]ledger.Outgoing, len(work))
	for i, w := range work {
		sent[i] = ledger.Outgoing{Work: w, StaysInLedger: true}
	}
	if err := dispatch.LowerPriorities(ctx, tx, now, ageing, sent, func(string) {}); err != nil {
		return nil, false, err
	}
	for i := range visits {
		visits[i].priority = sent[i].Share.Priority
	}
	recurrent.Shuffle(visits)
	if err := tx.AddWork(ctx, work); err != nil {
		return nil, false, err
	}
	return visits, picked.HostersFull, tx.Confirm(ctx, sent)
}

// GroupUse is the workers' time that a group used.
type GroupUse struct {
	Group   string  `json:"group"`
	Seconds float64 `json:"seconds"`
	Part    float64 `json:"part"`   // fraction of all groups' time
	Waited  float64 `json:"waited"` // mean time in the queue, in seconds
}

// Shares returns the time that each group used in the whole run; nil without shares.
func (r *Report) Shares() []GroupUse {
	uses := r.sharesBetween(Measurement{}, r.Series[len(r.Series)-1])
	for i := range uses {
		uses[i].Waited = r.waits[uses[i].Group].mean().Seconds()
	}
	return uses
}

// sharesBetween returns the time that each group used between two measurements.
func (r *Report) sharesBetween(from, to Measurement) []GroupUse {
	var uses []GroupUse
	total := 0.0
	for _, group := range slices.Sorted(maps.Keys(r.Series[len(r.Series)-1].Worked)) {
		if group == "" {
			continue
		}
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

// SharesText formats Shares; "" without shares.
func (r *Report) SharesText() string {
	uses := r.Shares()
	if len(uses) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Shares of the workers' time:\n")
	for _, u := range uses {
		fmt.Fprintf(&b, "  %s: %.1f %% (%.0f seconds); mean wait in the queue: %.0f seconds\n", u.Group, 100*u.Part, u.Seconds, u.Waited)
	}
	return b.String()
}

// sharesOverTime returns the percentage of each group in each hour.
func (r *Report) sharesOverTime() []page.Line {
	var lines []page.Line
	for n := range len(r.Series) - 1 {
		from, to := r.Series[n], r.Series[n+1]
		for i, use := range r.sharesBetween(from, to) {
			if n == 0 {
				lines = append(lines, page.Line{Name: use.Group})
			}
			lines[i].Points = append(lines[i].Points, page.Point{X: to.At.Sub(r.Series[0].At).Hours(), Y: 100 * use.Part})
		}
	}
	return lines
}
