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

	"swh-scheduler/internal/config"
	"swh-scheduler/internal/daemon"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func newShares(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shares [OPTIONS] COMMAND [ARGS]...",
		Short: "Shares of the groups that divide queues",
		RunE:  group,
	}
	cmd.AddCommand(newSharesStatus(a))
	return cmd
}

func newSharesStatus(a *app) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "status [OPTIONS] [TASK_TYPE]...",
		Short: "Shows what the groups of shared queues have and use",
		Long: `Shows, for the queues of the given task types (all shared ones if none is given),
what each group is entitled to now and what it has and uses.

  entitled  its part of the queue, by its weight among the groups that have work
            waiting
  now       its part of the work underway
  hour      its part of the work that ended in the last hour
  waiting   origins or tasks that could be claimed now (at most 10,000 are counted)
  in flight visits or tasks sent and not known to have ended
  used      the work that ended in the last hour`,
		DisableFlagsInUseLine: true,
	}
	outputFlag(cmd.Flags(), &output)
	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		for _, name := range args {
			if _, ok := a.config.Shares[name]; !ok {
				return usagef(cmd, "The configuration has no shares for task type %s", name)
			}
		}
		return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
			if err := store.CheckVersion(ctx); err != nil {
				return err
			}
			if err := store.CheckShares(ctx, a.config.Shares); err != nil {
				return err
			}
			names := args
			if len(names) == 0 {
				names = slices.Sorted(maps.Keys(a.config.Shares))
			}
			status := []shareStatus{}
			for _, name := range names {
				rows, err := shareStatusOf(ctx, store, name, a.config.Shares[name], time.Now())
				if err != nil {
					return err
				}
				status = append(status, rows...)
			}
			if output == "json" {
				return a.printJSON(status)
			}
			return a.print(shareTable(status))
		})
	})
	return cmd
}

// shareStatus is what one group of a queue has and uses. Parts are of 1.
type shareStatus struct {
	TaskType    string  `json:"task_type"`
	Queue       string  `json:"queue"`
	Group       string  `json:"group"`
	Weight      float64 `json:"weight"`
	Entitled    float64 `json:"entitled"`
	Now         float64 `json:"now"`
	Hour        float64 `json:"hour"`
	Waiting     int     `json:"waiting"`
	InFlight    int     `json:"in_flight"`
	Running     int     `json:"running"`
	HourSeconds float64 `json:"hour_seconds"`
	HourPieces  int     `json:"hour_pieces"`

	load float64
}

func shareStatusOf(ctx context.Context, store *sql.Store, taskType string, shares scheduler.Shares, now time.Time) ([]shareStatus, error) {
	tt, err := store.TaskType(ctx, taskType)
	if err != nil {
		return nil, err
	}
	queue := tt.Queue()
	states, err := store.ShareStates(ctx, queue, now, shares.HalfLife)
	if err != nil {
		return nil, err
	}
	used, err := store.ShareHistory(ctx, queue, now.Add(-time.Hour))
	if err != nil {
		return nil, err
	}
	waiting, err := store.WaitingByGroup(ctx, tt, shares.By, now)
	if err != nil {
		return nil, err
	}
	groups := make(map[string]bool)
	for _, names := range [][]string{
		slices.Collect(maps.Keys(states)), slices.Collect(maps.Keys(used)),
		slices.Collect(maps.Keys(waiting)), slices.Collect(maps.Keys(shares.Weights)),
	} {
		for _, name := range names {
			groups[name] = true
		}
	}
	var rows []shareStatus
	var weights, load, hour float64
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		row := shareStatus{
			TaskType: taskType, Queue: queue, Group: group, Weight: shares.Weight(group), Waiting: waiting[group],
			HourSeconds: used[group].Seconds, HourPieces: used[group].Pieces,
		}
		if s := states[group]; s != nil {
			row.InFlight, row.Running, row.load = s.InFlight, s.Started, s.InFlightLoad
		}
		if row.Waiting > 0 {
			weights += row.Weight
		}
		load += row.load
		hour += row.HourSeconds
		rows = append(rows, row)
	}
	part := func(of, all float64) float64 {
		if all == 0 {
			return 0
		}
		return of / all
	}
	for i := range rows {
		r := &rows[i]
		r.Now, r.Hour = part(r.load, load), part(r.HourSeconds, hour)
		if r.Waiting > 0 {
			r.Entitled = r.Weight / weights
		}
	}
	return rows, nil
}

func shareTable(rows []shareStatus) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "QUEUE\tGROUP\tWEIGHT\tENTITLED\tNOW\tHOUR\tWAITING\tIN FLIGHT\tRUNNING\tUSED")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%g\t%.1f %%\t%.1f %%\t%.1f %%\t%d\t%d\t%d\t%s\n", r.Queue, r.Group, r.Weight,
			100*r.Entitled, 100*r.Now, 100*r.Hour, r.Waiting, r.InFlight, r.Running,
			(time.Duration(r.HourSeconds * float64(time.Second))).Round(time.Second))
	}
	w.Flush()
	return b.String()
}

// sharing checks that the database is ready for the configuration's shares, warns
// of names that nothing has, and returns what keeps their ledger: nothing if no
// queue is shared.
func (a *app) sharing(ctx context.Context, store *sql.Store, d *dispatcher) ([]daemon.Component, error) {
	if len(a.config.Shares) == 0 {
		return nil, nil
	}
	var queues []dispatch.SharedQueue
	err := a.patiently(ctx, store, func(ctx context.Context) (err error) {
		if err := store.CheckShares(ctx, a.config.Shares); err != nil {
			return err
		}
		queues, err = a.sharedQueues(ctx, store)
		return err
	})
	if err != nil {
		return nil, err
	}
	keeper := dispatch.NewShareKeeper(store, d.inspector, queues, a.log, a.metrics)
	return []daemon.Component{{Name: "ledger of shared queues", Run: keeper.Run}}, nil
}

func (a *app) sharedQueues(ctx context.Context, store *sql.Store) ([]dispatch.SharedQueue, error) {
	types, err := store.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	listers, err := store.Listers(ctx)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]scheduler.TaskType, len(types))
	for _, tt := range types {
		byName[tt.Type] = tt
	}
	var queues []dispatch.SharedQueue
	for _, name := range slices.Sorted(maps.Keys(a.config.Shares)) {
		shares := a.config.Shares[name]
		tt, ok := byName[name]
		if !ok {
			a.warnOfName("shares are configured for a task type that is not there", name, slices.Collect(maps.Keys(byName)))
			continue
		}
		queues = append(queues, dispatch.SharedQueue{Name: tt.Queue(), Shares: shares, Lanes: homeQueue(name, tt).OnLanes(name, tt, a.config.Lanes).Lanes})
		known := groupsThatCanBe(shares.By, types, listers)
		for _, group := range slices.Sorted(maps.Keys(shares.Weights)) {
			if known != nil && !slices.Contains(known, group) {
				a.warnOfName("shares give a weight to a group that is not there", group, known)
			}
		}
	}
	return queues, nil
}

// groupsThatCanBe are the groups that there are; nil where that cannot be known.
func groupsThatCanBe(by scheduler.ShareKey, types []scheduler.TaskType, listers []scheduler.Lister) []string {
	var names []string
	switch by {
	case scheduler.ShareByTaskType:
		for _, tt := range types {
			names = append(names, tt.Type)
		}
	case scheduler.ShareByLister, scheduler.ShareByListerInstance:
		for _, l := range listers {
			names = append(names, scheduler.ListerGroup(by, l))
		}
	default:
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

func (a *app) warnOfName(problem, name string, known []string) {
	if near := config.Nearest(name, known); near != "" {
		a.log.Warn(problem, "name", name, "did_you_mean", near)
		return
	}
	a.log.Warn(problem, "name", name)
}
