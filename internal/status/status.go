// Package status reads the state of queues, groups, lanes and hosters, and the last hour's history of groups and
// lanes. It formats them as tables.
package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// Group is the state of a group of a shared queue. Entitled, Now and Hour are fractions of 1.
type Group struct {
	TaskType    string  `json:"task_type"`
	Queue       string  `json:"queue"`
	Group       string  `json:"group"`
	Weight      float64 `json:"weight"`
	Priority    uint8   `json:"priority"` // of its messages
	Entitled    float64 `json:"entitled"`
	Now         float64 `json:"now"`
	Hour        float64 `json:"hour"`
	Waiting     int     `json:"waiting"`
	InFlight    int     `json:"in_flight"`
	MaxInFlight *int    `json:"max_in_flight"` // nil: no ceiling
	Running     int     `json:"running"`
	HourSeconds float64 `json:"hour_seconds"`
	HourPieces  int     `json:"hour_pieces"`

	load float64
}

// MaxWaiting bounds the waiting work of a group that commands count.
const MaxWaiting = 10_000

// Groups returns the state of the groups of a task type's queue with shares: groups with a configured weight, and
// groups with work now or in the last hour. It counts at most maxWaiting waiting messages of each.
func Groups(ctx context.Context, store *db.Store, c *config.Config, taskType string, maxWaiting int) ([]Group, error) {
	shares, now := c.Shares[taskType], store.Now()
	types, err := store.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	tt, prefix, ok := model.TypeOf(taskType, types)
	if !ok {
		return nil, fmt.Errorf("%w: %q", model.ErrUnknownTaskType, taskType)
	}
	queue := tt.QueueWith(prefix)
	states, err := store.ShareStates(ctx, queue, now, shares.HalfLife)
	if err != nil {
		return nil, err
	}
	used, err := store.ShareHistory(ctx, queue, now.Add(-time.Hour))
	if err != nil {
		return nil, err
	}
	var waiting map[string]int // not counted for queues with a prefix: first visits, and messages sent by hand
	if prefix == "" {
		if waiting, err = store.WaitingByGroup(ctx, tt, shares.By, c.SchedulingPolicy, now, maxWaiting); err != nil {
			return nil, err
		}
	}
	names := slices.Concat(slices.Collect(maps.Keys(states)), slices.Collect(maps.Keys(used)),
		slices.Collect(maps.Keys(waiting)), slices.Collect(maps.Keys(shares.Weights)))
	slices.Sort(names)
	var rows []Group
	for _, group := range slices.Compact(names) {
		row := Group{
			TaskType: taskType, Queue: queue, Group: group, Weight: shares.Weight(group), Priority: shares.Priorities[group], Waiting: waiting[group],
			HourSeconds: used[group].Seconds, HourPieces: used[group].Pieces,
		}
		if s := states[group]; s != nil {
			row.InFlight, row.Running, row.load = s.InFlight, s.Started, s.InFlightLoad
		}
		if ceiling, ok := shares.MaxInFlight[group]; ok {
			row.MaxInFlight = &ceiling
		}
		if _, configured := shares.Weights[group]; configured || row.hasWork() {
			rows = append(rows, row)
		}
	}
	setParts(rows)
	return rows, nil
}

// hasWork reports whether the group has work, or had some in the last hour.
func (g *Group) hasWork() bool {
	return g.Waiting+g.InFlight+g.HourPieces > 0 || g.HourSeconds > 0
}

// setParts sets the groups' fractions of the queue: now, in the last hour, and by weight.
func setParts(rows []Group) {
	var weights, load, hour float64
	for _, r := range rows {
		if r.divides() {
			weights += r.Weight
		}
		load += r.load
		hour += r.HourSeconds
	}
	for i := range rows {
		r := &rows[i]
		if load > 0 {
			r.Now = r.load / load
		}
		if hour > 0 {
			r.Hour = r.HourSeconds / hour
		}
		if r.divides() {
			r.Entitled = r.Weight / weights
		}
	}
}

// divides reports whether the group gets slots in a division.
func (g *Group) divides() bool {
	return g.Waiting > 0 && (g.MaxInFlight == nil || g.InFlight < *g.MaxInFlight)
}

// GroupTable formats rows for a terminal.
func GroupTable(t pytext.Terminal, rows []Group) string {
	lines := []string{"QUEUE\tGROUP\tWEIGHT>\tPRIORITY>\tTARGET>\tNOW>\tLAST HOUR>\tWAITING>\tIN FLIGHT>\tMAX>\tRUNNING>\tUSED>"}
	for _, r := range rows {
		most := "-"
		if r.MaxInFlight != nil {
			most = strconv.Itoa(*r.MaxInFlight)
		}
		lines = append(lines, fmt.Sprintf("%s\t%s\t%g\t%d\t%.1f %%\t%.1f %%\t%.1f %%\t%d\t%d\t%s\t%d\t%s", pytext.Visible(r.Queue), pytext.Visible(r.Group), r.Weight, r.Priority,
			100*r.Entitled, 100*r.Now, 100*r.Hour, r.Waiting, r.InFlight, most, r.Running, explain.RoughSeconds(r.HourSeconds)))
	}
	return t.Columns(lines)
}

// Lane is the state of a lane and its last hour's history. Times are in seconds.
type Lane struct {
	TaskType        string  `json:"task_type"`
	Lane            string  `json:"lane"`
	Queue           string  `json:"queue"`
	SoftTimeLimit   float64 `json:"soft_time_limit"`
	TimeLimit       float64 `json:"time_limit"`
	TargetWait      float64 `json:"target_wait"` // 0: none
	Slots           int     `json:"slots"`
	Waiting         int     `json:"waiting"`
	Again           int     `json:"again"`
	Sent            int     `json:"sent"`
	Running         int     `json:"running"`
	Consumers       *int    `json:"consumers"` // nil: the broker doesn't report it
	Waited          float64 `json:"waited"`    // of the first message of the backlog
	Ended           int     `json:"ended"`
	TimedOut        int     `json:"timed_out"`
	QuickSentSlow   int     `json:"quick_sent_slow"`
	SlowSentExpress int     `json:"slow_sent_express"`
	GivenUp         int     `json:"given_up"`
	WaitMedian      float64 `json:"wait_median"`
	WaitP95         float64 `json:"wait_p95"`
}

// Lanes returns the state of the lanes of a set. broker, which may be nil, reports their consumers.
func Lanes(ctx context.Context, store *db.Store, broker QueueSource, l *dispatch.LaneSet, now time.Time) ([]Lane, error) {
	states, err := store.LaneStates(ctx, l.Name, len(l.Lanes))
	if err != nil {
		return nil, err
	}
	history, err := store.LaneHistory(ctx, l.Name, now.Add(-time.Hour))
	if err != nil {
		return nil, err
	}
	rows := make([]Lane, len(l.Lanes))
	for i, lane := range l.Lanes {
		h := history[lane.Name]
		if h == nil {
			h = &ledger.LaneRecord{}
		}
		rows[i] = Lane{
			TaskType: l.Name, Lane: lane.Name, Queue: lane.Queue,
			SoftTimeLimit: lane.SoftTimeLimit.Seconds(), TimeLimit: lane.TimeLimit.Seconds(), Slots: lane.Slots,
			TargetWait: lane.TargetWait.Seconds(), Waited: states[i].Waited(now).Seconds(),
			Waiting: states[i].Waiting, Again: states[i].TimedOut, Sent: states[i].Sent, Running: states[i].Running,
			Ended: h.Ended, TimedOut: h.TimedOut, QuickSentSlow: h.QuickSentSlow, SlowSentExpress: h.SlowSentExpress,
			GivenUp: h.GivenUp, WaitMedian: h.Wait.Quantile(0.5), WaitP95: h.Wait.Quantile(0.95),
		}
		if broker == nil {
			continue
		}
		if length, err := broker.LengthSince(ctx, lane.Queue, celery.QueueFigures{}, 0); err == nil {
			rows[i].Consumers = &length.Consumers
		}
	}
	return rows, nil
}

// LaneTable formats rows for a terminal.
func LaneTable(t pytext.Terminal, rows []Lane) string {
	lines := []string{"TASK TYPE\tLANE\tLIMIT>\tSLOTS>\tCONSUMERS>\tWAITING>\tAGAIN>\tOLDEST>\tTARGET>\tSENT>\tRUNNING>\tENDED>\tTIMED OUT>\tQUICK>\tSLOW>\tWAIT>\tP95>"}
	for _, r := range rows {
		target := "-"
		if r.TargetWait > 0 {
			target = explain.RoughSeconds(r.TargetWait)
		}
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s / %s\t%d\t%s\t%d\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s", pytext.Visible(r.TaskType), pytext.Visible(r.Lane),
			timeLimit(r.SoftTimeLimit), timeLimit(r.TimeLimit), r.Slots, orUnknown(r.Consumers, strconv.Itoa),
			r.Waiting, r.Again, explain.RoughSeconds(r.Waited), target, r.Sent, r.Running, r.Ended, r.TimedOut, r.QuickSentSlow, r.SlowSentExpress, explain.RoughSeconds(r.WaitMedian), explain.RoughSeconds(r.WaitP95)))
	}
	return t.Columns(lines)
}

// timeLimit formats seconds as explain.RoughSeconds does, with the seconds after minutes, as two limits may differ
// only there.
func timeLimit(seconds float64) string {
	if rest := int(seconds) % 60; rest > 0 && seconds > 60 && seconds < 3600 {
		return fmt.Sprintf("%d min %d s", int(seconds)/60, rest)
	}
	return explain.RoughSeconds(seconds)
}
