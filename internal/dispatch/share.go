package dispatch

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/shares"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// SharedQueue is a queue whose work is divided between groups.
type SharedQueue struct {
	Name   string
	Shares model.Shares

	// Type and Policies are for ShareGauges. Type is nil for a queue with a prefix. Policies are those by which the
	// process picks visits, by visit type.
	Type     *model.TaskType
	Policies map[string][]model.WeightedPolicy
}

// WaitingGroups are the kind of work that a claim read, and the groups with such work waiting.
type WaitingGroups struct {
	Groups []string // with work waiting
	Visits bool     // the work is visits; otherwise tasks
	Read   []string // the groups that were read; nil is all
}

// otherClaims is how long the waiting work left by a claim of the other kind counts.
const otherClaims = 10 * time.Minute

// since returns the group's fields VisitsWaited and TasksWaited, first that of this claim's kind: when a claim of that
// kind last left work of the group waiting, in seconds since 1970 UTC; 0 for never.
func (w WaitingGroups) since(s *ledger.ShareState) (same, other *float64) {
	if w.Visits {
		return &s.VisitsWaited, &s.TasksWaited
	}
	return &s.TasksWaited, &s.VisitsWaited
}

// busy reports whether the last claim of the same kind left work of a group waiting, or one of the other kind within
// otherClaims.
func (w WaitingGroups) busy(s *ledger.ShareState, now time.Time) bool {
	same, other := w.since(s)
	return *same > 0 || *other > model.UnixSeconds(now.Add(-otherClaims))
}

// GroupQuota is the number of messages to claim for a group, and their expected cost, in seconds.
type GroupQuota = ledger.TaskGroup

// Division divides free slots of a queue between the groups that have work waiting (see package shares), in rounds:
// slots that a group has no work for go to the others in the next round. A claim calls Next, claims, and calls
// RecordClaimed, until Next returns nothing; then it calls Save.
type Division struct {
	AtCeiling bool // a group that may have work waiting is at its ceiling

	queue   *SharedQueue // nil if it has no shares
	now     time.Time
	waiting WaitingGroups
	states  map[string]*ledger.ShareState
	groups  []shares.Group // groups that may get more
	asked   []GroupQuota
	left    int // free slots
}

// Divide begins the division of free slots in a transaction that holds the queue's lock. Groups that the claim
// didn't read keep their credit.
func Divide(ctx context.Context, tx *db.Tx, q SharedQueue, now time.Time, free int, waiting WaitingGroups) (*Division, error) {
	states, err := tx.Shares(ctx, q.Name, now, q.Shares.HalfLife)
	if err != nil {
		return nil, err
	}
	d := &Division{queue: &q, now: now, waiting: waiting, states: states, left: free}
	d.groups = join(states, q.Shares, waiting, now)
	d.AtCeiling = len(d.groups) < len(waiting.Groups)
	return d, nil
}

// SingleGroupDivision is the division of a queue without shares: all slots go to one group without a name.
func SingleGroupDivision(free int) *Division {
	return &Division{states: map[string]*ledger.ShareState{"": {}}, groups: []shares.Group{{Weight: 1, Cost: 1}}, left: free}
}

// Next returns the number of messages to claim for each group; nil if there is nothing to claim.
func (d *Division) Next() []GroupQuota {
	d.asked = nil
	if d.left > 0 && len(d.groups) > 0 {
		d.ask(shares.Divide(d.left, d.groups))
	}
	return d.asked
}

// RecordClaimed records the number of messages claimed for each group that Next returned. A group with fewer than asked has
// no more.
func (d *Division) RecordClaimed(given []int) {
	for i, ask := range d.asked {
		at := slices.IndexFunc(d.groups, func(g shares.Group) bool { return g.Name == ask.Name })
		g := &d.groups[at]
		full := given[i] == g.MaxSlots && g.MaxSlots > 0
		g.Load += float64(given[i]) * ask.Cost
		g.MaxSlots = max(0, g.MaxSlots-given[i])
		d.states[ask.Name].InFlight += given[i]
		d.left -= given[i]
		d.AtCeiling = d.AtCeiling || full
		if full || given[i] < ask.Count {
			d.groups = slices.Delete(d.groups, at, at+1)
		}
	}
}

// Save writes the state of the groups, if the queue has any, and which of them have work waiting.
func (d *Division) Save(ctx context.Context, tx *db.Tx) error {
	if d.queue == nil {
		return nil
	}
	for name, s := range d.states {
		if d.waiting.Read == nil || slices.Contains(d.waiting.Read, name) {
			same, _ := d.waiting.since(s)
			*same = 0
		}
	}
	for _, g := range d.groups { // the groups that are left still have work waiting
		same, _ := d.waiting.since(d.states[g.Name])
		*same = model.UnixSeconds(d.now)
	}
	return tx.SaveShares(ctx, d.queue.Name, d.now, d.states)
}

// ShareVisits sets the groups of visits that no Division chose, such as visits sent by hand.
func ShareVisits(ctx context.Context, tx *db.Tx, q SharedQueue, visits []Visit, now time.Time) error {
	listers, err := listersOf(ctx, tx, Origins(visits))
	if err != nil {
		return err
	}
	shareOf, err := sharesOf(ctx, tx, q, now)
	if err != nil {
		return err
	}
	for i, v := range visits {
		visits[i].Share = shareOf(model.ListerGroup(q.Shares.By, listers[v.Origin.ListerID]))
	}
	return nil
}

// ShareWork sets the groups of other messages of a task type, by their keyword arguments.
func ShareWork(ctx context.Context, tx *db.Tx, q SharedQueue, taskType string, work []ledger.Work, now time.Time) error {
	shareOf, err := sharesOf(ctx, tx, q, now)
	if err != nil {
		return err
	}
	for i := range work {
		work[i].Share = shareOf(groupOf(q.Shares.By, taskType, work[i].Kwargs))
	}
	return nil
}

// sharesOf returns the function that makes the ledger.Share of a message of a group.
func sharesOf(ctx context.Context, tx *db.Tx, q SharedQueue, now time.Time) (func(group string) ledger.Share, error) {
	states, err := tx.ShareStates(ctx, q.Name, now, q.Shares.HalfLife)
	mean := meanCost(states)
	return func(group string) ledger.Share {
		state := states[group]
		if state == nil {
			state = &ledger.ShareState{Group: group}
		}
		return ledger.Share{Shared: true, Group: group, Cost: costOf(state, mean), Priority: q.Shares.Priorities[group]}
	}, err
}

// groupOf returns the group of a task, computed as claims compute it.
func groupOf(by model.ShareKey, taskType string, kwargs json.RawMessage) string {
	if by == model.ShareByTaskType {
		return taskType
	}
	var all map[string]json.RawMessage
	_ = json.Unmarshal(kwargs, &all) // arguments that are no object have none
	argument := func(name string) string {
		text := []rune(textArgument(all[name]))
		return string(text[:min(len(text), model.MaxGroupArgument)])
	}
	if name, ok := by.Kwarg(); ok {
		return argument(name)
	}
	return model.ListerGroup(by, model.Lister{Name: argument("lister_name"), InstanceName: argument("lister_instance_name")})
}

// join returns the groups that take part in a division: those with work waiting and below their ceilings, each at
// its starting level. It adds the credit that they forfeit to states.
func join(states map[string]*ledger.ShareState, s model.Shares, waiting WaitingGroups, now time.Time) []shares.Group {
	cost := meanCost(states)
	var groups, busy []shares.Group
	for _, name := range slices.Sorted(slices.Values(waiting.Groups)) {
		state := states[name]
		if state == nil {
			state = &ledger.ShareState{Group: name}
			states[name] = state
		}
		g := shares.Group{
			Name: name, Weight: s.Weight(name), Cost: costOf(state, cost),
			Load: state.Used + state.Forfeited + state.InFlightLoad,
		}
		if ceiling := s.MaxInFlight[name]; ceiling > 0 {
			if g.MaxSlots = ceiling - state.InFlight; g.MaxSlots <= 0 {
				continue
			}
		}
		groups = append(groups, g)
		if waiting.busy(state, now) {
			busy = append(busy, g)
		}
	}
	for i := range groups {
		if state := states[groups[i].Name]; !waiting.busy(state, now) {
			state.Forfeited += shares.Join(&groups[i], busy)
		}
	}
	return groups
}

// ask records the parts of the groups that get any.
func (d *Division) ask(parts []int) {
	for i, g := range d.groups {
		if parts[i] == 0 {
			continue
		}
		ask := GroupQuota{Name: g.Name, Count: parts[i], Cost: g.Cost}
		if d.queue != nil {
			ask.Priority = d.queue.Shares.Priorities[g.Name]
		}
		d.asked = append(d.asked, ask)
	}
}

// meanCost returns the recent mean runtime of a message of a queue, in seconds. It returns 1 if none is recorded, so
// that groups are compared by their number of messages.
func meanCost(states map[string]*ledger.ShareState) float64 {
	var used, pieces float64
	for _, s := range states {
		used += s.Used
		pieces += s.Pieces
	}
	if used <= 0 || pieces <= 0 {
		return 1
	}
	return used / pieces
}

// costOf returns the expected runtime of a message of a group, in seconds. It averages the group's recent runtimes
// with one mean message of the queue, so that a group's first message does not decide alone.
func costOf(s *ledger.ShareState, mean float64) float64 {
	return (s.Used + mean) / (s.Pieces + 1)
}
