package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// priorityPrefix is what the queues of tasks with priority, and the keys of their
// lanes, begin with.
var priorityPrefix = scheduler.PriorityLanes("")

func newLanes(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lanes [OPTIONS] COMMAND [ARGS]...",
		Short: "Lanes that keep quick work from waiting behind slow work",
		RunE:  group,
	}
	cmd.AddCommand(newLanesStatus(a))
	return cmd
}

func newLanesStatus(a *app) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "status [OPTIONS] [TASK_TYPE]...",
		Short: "Shows what the lanes of task types have, and how they did in the last hour",
		Long: `Shows, for the given task types (all that have lanes if none is given, where
save_code_now:TASK_TYPE is a type's tasks with priority), what each lane has now and
what happened in it in the last hour.

  limit     when the time of a piece of work is over, and when it is killed
  slots     how many messages the lane's queue may hold, as configured
  waiting   work in the lane's line that was not tried before
  again     work in its line whose time was over in a lane before
  sent      work in its queue, on the way there, or running
  running   work that is known to have begun
  ended     work that ended in this lane in the last hour
  timed out work whose time was over in it
  quick     work that was predicted to need it and would have fitted the lane before
  slow      work whose time was over in it at its first try
  wait      time from the claim to the start of a first try: the median, and p95`,
		DisableFlagsInUseLine: true,
	}
	outputFlag(cmd.Flags(), &output)
	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		for _, name := range args {
			if _, ok := a.config.Lanes[name]; !ok {
				return usagef(cmd, "The configuration has no lanes for task type %s", name)
			}
		}
		return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
			if err := store.CheckVersion(ctx); err != nil {
				return err
			}
			queues, err := a.lanedQueues(ctx, store)
			if err != nil {
				return err
			}
			status := []laneStatus{}
			for _, q := range queues {
				if len(args) > 0 && !slices.Contains(args, q.Lanes.Line) {
					continue
				}
				rows, err := laneStatusOf(ctx, store, q.Lanes, time.Now())
				if err != nil {
					return err
				}
				status = append(status, rows...)
			}
			if output == "json" {
				return a.printJSON(status)
			}
			return a.print(laneTable(status))
		})
	})
	return cmd
}

// laneStatus is what one lane has, and what happened in it in the last hour. Times
// are in seconds.
type laneStatus struct {
	TaskType        string  `json:"task_type"`
	Lane            string  `json:"lane"`
	Queue           string  `json:"queue"`
	SoftTimeLimit   float64 `json:"soft_time_limit"`
	TimeLimit       float64 `json:"time_limit"`
	Slots           int     `json:"slots"`
	Waiting         int     `json:"waiting"`
	Again           int     `json:"again"`
	Sent            int     `json:"sent"`
	Running         int     `json:"running"`
	Ended           int     `json:"ended"`
	TimedOut        int     `json:"timed_out"`
	QuickSentSlow   int     `json:"quick_sent_slow"`
	SlowSentExpress int     `json:"slow_sent_express"`
	Unheard         int     `json:"unheard"`
	WaitMedian      float64 `json:"wait_median"`
	WaitP95         float64 `json:"wait_p95"`
}

func laneStatusOf(ctx context.Context, store *sql.Store, l *dispatch.Lanes, now time.Time) ([]laneStatus, error) {
	states, err := store.LaneStates(ctx, l.Line, len(l.Lanes))
	if err != nil {
		return nil, err
	}
	history, err := store.LaneHistory(ctx, l.Line, now.Add(-time.Hour))
	if err != nil {
		return nil, err
	}
	rows := make([]laneStatus, len(l.Lanes))
	for i, lane := range l.Lanes {
		h := history[lane.Name]
		if h == nil {
			h = &sql.LaneRecord{}
		}
		rows[i] = laneStatus{
			TaskType: l.Line, Lane: lane.Name, Queue: lane.Queue,
			SoftTimeLimit: lane.SoftTimeLimit.Seconds(), TimeLimit: lane.TimeLimit.Seconds(), Slots: lane.Slots,
			Waiting: states[i].Waiting, Again: states[i].TimedOut, Sent: states[i].Sent, Running: states[i].Running,
			Ended: h.Ended, TimedOut: h.TimedOut, QuickSentSlow: h.QuickSentSlow, SlowSentExpress: h.SlowSentExpress,
			Unheard: h.Unheard, WaitMedian: h.Wait.Quantile(0.5), WaitP95: h.Wait.Quantile(0.95),
		}
	}
	return rows, nil
}

func laneTable(rows []laneStatus) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TASK TYPE\tLANE\tLIMIT\tSLOTS\tWAITING\tAGAIN\tSENT\tRUNNING\tENDED\tTIMED OUT\tQUICK\tSLOW\tWAIT\tP95")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s/%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", r.TaskType, r.Lane,
			shortDuration(r.SoftTimeLimit), shortDuration(r.TimeLimit), r.Slots, r.Waiting, r.Again, r.Sent, r.Running,
			r.Ended, r.TimedOut, r.QuickSentSlow, r.SlowSentExpress, shortDuration(r.WaitMedian), shortDuration(r.WaitP95))
	}
	w.Flush()
	return b.String()
}

// shortDuration writes seconds as a duration, to a tenth of a second.
func shortDuration(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
}

// laning returns what keeps lanes; also where there are none, as a daemon that still
// has others in its configuration may leave work behind.
func (a *app) laning(ctx context.Context, store *sql.Store, d *dispatcher) ([]daemon.Component, error) {
	var types []scheduler.TaskType
	err := a.patiently(ctx, store, func(ctx context.Context) (err error) {
		types, err = store.TaskTypes(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(types))
	for i, tt := range types {
		names[i] = tt.Type
	}
	for _, line := range slices.Sorted(maps.Keys(a.config.Lanes)) {
		if name := strings.TrimPrefix(line, priorityPrefix); !slices.Contains(names, name) {
			a.warnOfName("lanes are configured for a task type that is not there", name, names)
		}
	}
	o := dispatch.LaneKeeperOptions{
		Store: store, Slots: d.slots, Lengths: d.inspector, Log: a.log, Reg: a.metrics,
		Queues: func(ctx context.Context) ([]dispatch.Queue, error) { return a.lanedQueues(ctx, store) },
		Home: func(ctx context.Context, line string) (dispatch.Queue, error) {
			tt, err := store.TaskType(ctx, strings.TrimPrefix(line, priorityPrefix))
			return homeQueue(line, tt), err
		},
	}
	if len(a.config.Lanes) > 0 {
		o.Listen = store.ListenLanes
	}
	return []daemon.Component{{Name: "keeper of lanes", Run: dispatch.NewLaneKeeper(o).Run}}, nil
}

// homeQueue is where the work of a line would go without lanes.
func homeQueue(line string, tt scheduler.TaskType) dispatch.Queue {
	name := tt.Queue()
	if strings.HasPrefix(line, priorityPrefix) {
		name = priorityPrefix + tt.BackendName
	}
	return dispatch.Queue{Name: name, Limit: tt.MaxQueueLength}
}

// lanedQueues are the queues that have lanes, by their lines.
func (a *app) lanedQueues(ctx context.Context, store *sql.Store) ([]dispatch.Queue, error) {
	if len(a.config.Lanes) == 0 {
		return nil, nil
	}
	types, err := store.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	var queues []dispatch.Queue
	for _, line := range slices.Sorted(maps.Keys(a.config.Lanes)) {
		at := slices.IndexFunc(types, func(tt scheduler.TaskType) bool { return tt.Type == strings.TrimPrefix(line, priorityPrefix) })
		if at >= 0 {
			queues = append(queues, homeQueue(line, types[at]).OnLanes(line, types[at], a.config.Lanes))
		}
	}
	return queues, nil
}
