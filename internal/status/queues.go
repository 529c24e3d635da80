package status

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"swh-scheduler/celery"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// Queue is the state of a queue. Unknown figures are nil.
type Queue struct {
	Queue          string         `json:"queue"`
	TaskType       string         `json:"task_type"`
	Lane           string         `json:"lane"`  // its lane set and lane, or ""
	Limit          int64          `json:"limit"` // 0: none
	Outgoing       int            `json:"outgoing"`
	Ready          int            `json:"ready"`
	Unacknowledged *int           `json:"unacknowledged"`
	Consumers      int            `json:"consumers"`
	In             *float64       `json:"in"`  // messages a second
	Out            *float64       `json:"out"` // messages a second, to workers
	Oldest         *float64       `json:"oldest"`
	Backlog        int            `json:"backlog"` // of the lane
	Groups         map[string]int `json:"groups"`  // messages in flight by group
	Problem        string         `json:"problem"` // why the broker reports no figures
}

// QueueSource returns the broker's figures of queues.
type QueueSource = dispatch.QueueLengths

// Queues returns the state of the known queues that exist or have work. It takes no locks, so that its figures are
// from slightly different times.
func Queues(ctx context.Context, store *db.Store, broker QueueSource, known []dispatch.KnownQueue, shares map[string]model.Shares) ([]Queue, error) {
	now := store.Now()
	entries, err := store.LedgerQueues(ctx)
	if err != nil {
		return nil, err
	}
	of := make(map[string]db.LedgerQueue, len(entries))
	for _, l := range entries {
		of[l.Queue] = l
	}
	backlogs := map[string][]ledger.LaneState{}
	rows := []Queue{}
	for _, k := range known {
		figures := broker.Figures(ctx, k.Name)
		length, err := broker.LengthSince(ctx, k.Name, figures, 0)
		if err != nil && !celery.IsOfQueue(err) {
			return nil, err
		}
		l, holds := of[k.Name]
		if err == nil && !length.Exists && !holds && k.LaneSet == "" {
			continue
		}
		row := Queue{
			Queue: k.Name, TaskType: k.TaskType, Limit: k.Limit, Outgoing: int(l.Outgoing), Ready: length.Ready, Consumers: length.Consumers,
			Groups: map[string]int{},
		}
		if err != nil {
			row.Problem = err.Error()
		} else if !length.Unknown {
			row.Unacknowledged = &length.Unacknowledged
		}
		if in, out, known := figures.Rates(); known {
			row.In, row.Out = &in, &out
		}
		if holds && l.Oldest.Unix() > 0 {
			row.Oldest = new(max(0, now.Sub(l.Oldest).Seconds()))
		}
		if k.LaneSet != "" {
			if backlogs[k.LaneSet] == nil {
				if backlogs[k.LaneSet], err = store.LaneStates(ctx, k.LaneSet, len(k.Lanes.Lanes)); err != nil {
					return nil, err
				}
			}
			waiting := backlogs[k.LaneSet][k.Lane].Backlog
			row.Lane, row.Backlog = k.LaneSet+" "+k.Lanes.Lanes[k.Lane].Name, waiting.Waiting+waiting.TimedOut
		}
		if s, shared := shares[k.TaskType]; shared {
			if row.Groups, err = inFlight(ctx, store, k.Name, s.HalfLife, now); err != nil {
				return nil, err
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// inFlight returns the messages in flight of each group of a shared queue.
func inFlight(ctx context.Context, store *db.Store, queue string, halfLife time.Duration, now time.Time) (map[string]int, error) {
	states, err := store.ShareStates(ctx, queue, now, halfLife)
	messages := map[string]int{}
	for group, state := range states {
		if state.InFlight > 0 {
			messages[group] = state.InFlight
		}
	}
	return messages, err
}

// QueueTable formats rows for a terminal.
func QueueTable(t pytext.Terminal, rows []Queue) string {
	lines := []string{"QUEUE\tLIMIT>\tBEING SENT>\tREADY>\tUNACKED>\tCONSUMERS>\tIN/S>\tOUT/S>\tOLDEST>\tLANE\tBACKLOG>\tGROUPS"}
	for _, r := range rows {
		if r.Problem != "" {
			lines = append(lines, fmt.Sprintf("%s\t%s\t%d\t%s", pytext.Visible(r.Queue), limit(r.Limit, "none"), r.Outgoing, pytext.Visible(r.Problem)))
			continue
		}
		lane, backlog := "-", "-"
		if r.Lane != "" {
			lane, backlog = pytext.Visible(r.Lane), strconv.Itoa(r.Backlog)
		}
		lines = append(lines, fmt.Sprintf("%s\t%s\t%d\t%d\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s", pytext.Visible(r.Queue), limit(r.Limit, "none"), r.Outgoing, r.Ready,
			orUnknown(r.Unacknowledged, strconv.Itoa), r.Consumers, orUnknown(r.In, perSecond), orUnknown(r.Out, perSecond),
			orUnknown(r.Oldest, explain.RoughSeconds),
			lane, backlog, groups(r.Groups)))
	}
	return t.Columns(lines)
}

// limit formats a limit; none is the text for 0.
func limit[N int | int64](n N, none string) string {
	if n == 0 {
		return none
	}
	return fmt.Sprint(n)
}

func perSecond(rate float64) string { return strconv.FormatFloat(rate, 'f', 1, 64) }

func orUnknown[V any](v *V, format func(V) string) string {
	if v == nil {
		return "?"
	}
	return format(*v)
}

// shownGroups bounds the groups in a row of the table.
const shownGroups = 5

// groups lists the groups with most messages in flight.
func groups(inFlight map[string]int) string {
	if len(inFlight) == 0 {
		return "-"
	}
	names := slices.SortedFunc(maps.Keys(inFlight), func(a, b string) int {
		return cmp.Or(inFlight[b]-inFlight[a], strings.Compare(a, b))
	})
	var shown []string
	for _, name := range names[:min(len(names), shownGroups)] {
		shown = append(shown, fmt.Sprintf("%s %d", pytext.Visible(name), inFlight[name]))
	}
	if more := len(names) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(shown, ", ")
}
