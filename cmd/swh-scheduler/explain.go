package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/explain"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

func newExplain(a *app) *cobra.Command {
	var visitType string
	output := "text"
	cmd := &cobra.Command{
		Use:   "explain [OPTIONS] TASK_ID|URL",
		Short: "Say why a task or an origin has not been scheduled, and when it will be",
		Long: `Say why a task, given by its id, or an origin, given by its URL, has not been
scheduled, and when it will be. The answer comes from the database, the configuration
(scheduling_policy, lost_after) and, where it can be asked, the broker.`,
		Example: `  swh-scheduler explain 1234
  swh-scheduler explain https://forge.example/project.git --type git`,
		Args:                  arguments(false, false, "TASK_ID|URL"),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().StringVarP(&visitType, "type", "t", "", "explain the origin's visits of this `TYPE` only")
	outputFlag(cmd.Flags(), &output)
	cmd.RunE = a.configured(func(cmd *cobra.Command, args []string) error {
		return a.withStore(cmd, func(ctx context.Context, store *sql.Store) error {
			if err := store.CheckVersion(ctx); err != nil {
				return err
			}
			zone, err := serverZone(ctx, store)
			if err != nil {
				return err
			}
			x := explainer{app: a, store: store, now: time.Now(), zone: zone}
			defer x.close()
			var all []explain.Explanation
			if id, err := strconv.ParseInt(args[0], 10, 64); err == nil && visitType == "" {
				one, err := x.task(ctx, id)
				if err != nil {
					return err
				}
				all = []explain.Explanation{one}
			} else if all, err = x.origins(ctx, args[0], visitType); err != nil {
				return err
			}
			if output == "json" {
				return a.printJSON(all)
			}
			return a.print(a.explanations(all))
		})
	})
	return cmd
}

func (a *app) explanations(all []explain.Explanation) string {
	var b strings.Builder
	for i, e := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n%s\n", a.bold(e.Subject), e.Summary)
		for _, reason := range e.Reasons {
			fmt.Fprintf(&b, "  - %s\n", reason)
		}
	}
	return b.String()
}

// explainer gathers the facts.
type explainer struct {
	app       *app
	store     *sql.Store
	inspector *celery.QueueInspector // once it was needed
	now       time.Time
	zone      *time.Location
}

func (x *explainer) close() {
	if x.inspector != nil {
		_ = x.inspector.Close()
	}
}

// queue asks the broker how full a queue is; not getting an answer is a fact too.
func (x *explainer) queue(ctx context.Context, name string, limit *int64) explain.Queue {
	q := explain.Queue{Name: name, Limit: limit}
	if x.inspector == nil {
		broker, err := x.app.broker()
		if err != nil {
			q.Err = err
			return q
		}
		x.inspector = celery.NewQueueInspector(broker, string(x.app.config.RabbitMQ.ManagementURL), celery.InspectorOptions{
			ConnectionOptions: celery.ConnectionOptions{Name: "swh-scheduler explain"}, Logger: x.app.log, Timeout: serviceWait,
		})
	}
	ctx, cancel := context.WithTimeout(ctx, serviceWait)
	defer cancel()
	length, err := x.inspector.Length(ctx, name, 0)
	q.Ready, q.Working = length.Ready, length.Unacknowledged
	if err != nil {
		q.Err = oneLine{err}
	}
	return q
}

// serviceWait is how long a service is given to answer a question.
const serviceWait = 5 * time.Second

func (x *explainer) task(ctx context.Context, id int64) (explain.Explanation, error) {
	tasks, err := x.store.Tasks(ctx, []int64{id})
	if err != nil {
		return explain.Explanation{}, err
	}
	if len(tasks) == 0 {
		return explain.Explanation{}, fmt.Errorf("there is no task %d", id)
	}
	const mostAhead = 10_001
	t := explain.Task{Task: tasks[0], AheadLimit: mostAhead}
	for _, fact := range []func() error{
		func() (err error) { t.Type, err = x.store.TaskType(ctx, t.Task.Type); return err },
		func() (err error) { t.LastRun, t.Message, err = x.lastRun(ctx, id); return err },
		func() (err error) { t.Ahead, err = x.store.TasksAhead(ctx, id, x.now, mostAhead); return err },
		func() (err error) { t.Graph, err = x.store.GraphTask(ctx, id); return err },
		func() (err error) { t.WaitsFor, err = x.store.UnmetDependencies(ctx, id, 10); return err },
		func() (err error) { t.Runners, err = x.store.ConnectedPrograms(ctx, "start-runner"); return err },
	} {
		if err := fact(); err != nil {
			return explain.Explanation{}, err
		}
	}
	if t.LastRun != nil && t.LastRun.BackendID != nil {
		if t.Lane, err = x.store.LanePlaceOf(ctx, *t.LastRun.BackendID); err != nil {
			return explain.Explanation{}, err
		}
		x.nameLane(t.Lane)
	}
	var known bool
	if t.LostAfter, known = x.app.config.LostAfter[t.Task.Type]; !known {
		t.LostAfter = x.app.config.LostAfter["default"]
	}
	queue, line := t.Type.BackendName, t.Task.Type
	if t.Task.Priority != "" {
		queue, line = priorityPrefix+queue, scheduler.PriorityLanes(line)
	}
	t.Lanes = x.laned(line)
	t.SharedBy = x.app.config.Shares[t.Task.Type].By
	t.Queue = x.queue(ctx, queue, t.Type.MaxQueueLength)
	return t.Explain(x.now, x.zone), nil
}

// laned is a line if the configuration has lanes for it, or "".
func (x *explainer) laned(line string) string {
	if len(x.app.config.Lanes[line]) == 0 {
		return ""
	}
	return line
}

// nameLane gives the lane in whose line something waits its name, which work has only
// once it is sent.
func (x *explainer) nameLane(p *sql.LanePlace) {
	if p == nil || p.Sent {
		return
	}
	p.Lane = fmt.Sprintf("number %d", p.Number+1)
	if lanes := x.app.config.Lanes[p.Line]; len(lanes) > 0 {
		p.Lane = lanes[min(p.Number, len(lanes)-1)].Name
	}
}

// lastRun is a task's last run, and its message if that is still in the outbox.
func (x *explainer) lastRun(ctx context.Context, task int64) (*scheduler.TaskRun, *sql.WaitingMessage, error) {
	runs, err := x.store.TaskRuns(ctx, []int64{task}, 0)
	if err != nil || len(runs) == 0 {
		return nil, nil, err
	}
	last := runs[len(runs)-1]
	if last.BackendID == nil {
		return &last, nil, nil
	}
	message, err := x.store.WaitingMessageOf(ctx, *last.BackendID, x.now)
	return &last, message, err
}

// origins explains an origin for each lister and visit type.
func (x *explainer) origins(ctx context.Context, url, visitType string) ([]explain.Explanation, error) {
	listed, _, err := x.store.ListedOrigins(ctx, sql.ListedOriginFilter{URLs: []string{url}})
	if err != nil {
		return nil, err
	}
	schedulers, err := x.store.ConnectedPrograms(ctx, "schedule-recurrent")
	if err != nil {
		return nil, err
	}
	var all []explain.Explanation
	for _, l := range listed {
		if visitType != "" && l.VisitType != visitType {
			continue
		}
		o := explain.Origin{URL: url, VisitType: l.VisitType, Listed: &l, Schedulers: schedulers}
		if err := x.originFacts(ctx, &o); err != nil {
			return nil, err
		}
		all = append(all, o.Explain(x.now, x.zone))
	}
	if len(all) > 0 {
		return all, nil
	}
	// Not listed so; but there may have been visits.
	types := []string{visitType}
	if visitType == "" {
		if types, err = x.visitTypes(ctx); err != nil {
			return nil, err
		}
	}
	for _, t := range types {
		o := explain.Origin{URL: url, VisitType: t}
		if err := x.originFacts(ctx, &o); err != nil {
			return nil, err
		}
		if o.Stats != nil {
			all = append(all, o.Explain(x.now, x.zone))
		}
	}
	if len(all) == 0 {
		what := url
		if visitType != "" {
			what += " with visit type " + visitType
		}
		return nil, fmt.Errorf("no lister lists %s, and no visit of it is known", what)
	}
	return all, nil
}

// visitTypes are those that there are loaders for.
func (x *explainer) visitTypes(ctx context.Context) ([]string, error) {
	all, err := x.store.TaskTypes(ctx)
	var types []string
	for _, tt := range all {
		if t, ok := scheduler.LoadedVisitType(tt.Type); ok {
			types = append(types, t)
		}
	}
	return types, err
}

func (x *explainer) originFacts(ctx context.Context, o *explain.Origin) error {
	stats, err := x.store.VisitStats(ctx, []scheduler.OriginKey{{URL: o.URL, VisitType: o.VisitType}})
	if err != nil {
		return err
	}
	if len(stats) > 0 {
		o.Stats = &stats[0]
	}
	loader, err := x.store.TaskType(ctx, scheduler.LoaderTaskType(o.VisitType))
	switch {
	case errors.Is(err, scheduler.ErrUnknownTaskType):
	case err != nil:
		return err
	default:
		o.Loader = &loader
		if o.Message, err = x.store.WaitingVisit(ctx, loader.BackendName, o.URL, x.now); err != nil {
			return err
		}
		if o.Lane, err = x.store.LanePlaceOfVisit(ctx, o.URL, o.VisitType); err != nil {
			return err
		}
		x.nameLane(o.Lane)
		o.Lanes = x.laned(loader.Type)
	}
	if o.Listed == nil {
		return nil
	}
	listers, err := x.store.ListersByID(ctx, []uuid.UUID{o.Listed.ListerID})
	if err != nil {
		return err
	}
	if len(listers) > 0 {
		o.Lister = listers[0]
	}
	if o.Loader == nil || !o.Listed.Enabled {
		return nil
	}
	o.SharedBy = x.app.config.Shares[loader.Type].By
	o.Queue = x.queue(ctx, loader.BackendName, loader.MaxQueueLength)
	return x.policies(ctx, o)
}

// policies looks where the origin is in the order of each policy of its visit
// type.
func (x *explainer) policies(ctx context.Context, o *explain.Origin) error {
	configured, ok := x.app.config.SchedulingPolicy[o.VisitType]
	if !ok {
		configured = x.app.config.SchedulingPolicy["default"]
	}
	for _, w := range explain.Expand(configured) {
		w.Filter.VisitType = o.VisitType
		p := explain.Policy{WeightedPolicy: w}
		all := w.Filter
		all.TableSample = 0
		next, err := database{x.store}.GrabNextVisits(ctx, all, x.now, explain.Deepest, true)
		if err != nil {
			return err
		}
		p.Find(next, o.URL)
		o.Policies = append(o.Policies, p)
	}
	return nil
}
