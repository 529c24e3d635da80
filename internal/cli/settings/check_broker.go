package settings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
)

// usesBroker reports whether a daemon, given by its command, uses the broker; "" is all daemons.
func usesBroker(c *config.Config, daemon string) bool {
	switch daemon {
	case "journal-client", "update-metrics":
		return false
	case "rpc-serve":
		return c.Dashboard.InRPCServe && c.Celery.TaskBroker != ""
	case "dashboard":
		return c.Celery.TaskBroker != ""
	}
	return true
}

// checkBroker connects to each address of the broker, and checks that its user has the rights of a daemon; "" is all
// daemons. It returns a warning if only some can be used.
func checkBroker(ctx context.Context, a *command.App, cmd *cobra.Command, daemon string) (string, error) {
	broker, err := a.Config.Broker()
	if err != nil {
		return "", err
	}
	var queues []string
	if senders[daemon] { // another check reads the database; without it, one name stands for all queues
		asking, cancel := context.WithTimeout(ctx, patience)
		queues, _ = queuesOf(asking, a, cmd, daemon)
		cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	each := broker.Each()
	failures := make([]error, len(each))
	var all sync.WaitGroup
	for i, one := range each {
		all.Go(func() {
			failures[i] = celery.CheckRights(ctx, one, celery.ConnectionOptions{Name: "swh-scheduler config check"}, brokerUses(a.Config, daemon, queues)...)
		})
	}
	all.Wait()
	failures = slices.DeleteFunc(failures, func(err error) bool { return err == nil })
	err = errors.Join(failures...)
	if n := len(failures); 0 < n && n < len(each) {
		err = warning{fmt.Errorf("%d of %d addresses of %s can't be used: %w", n, len(each), broker, err)}
	}
	return broker.String(), err
}

// senders are the daemons that send to queues.
var senders = map[string]bool{"": true, "start-runner": true, "start-runner-first-visits": true, "schedule-recurrent": true}

// brokerUses returns the broker operations of a daemon.
func brokerUses(c *config.Config, daemon string, queues []string) (uses []celery.Use) {
	if senders[daemon] {
		uses = append(uses, celery.ToSend(queues, c.Celery.Sending))
	}
	if daemon == "" || daemon == "start-listener" {
		uses = append(uses, celery.ToReadEvents())
	}
	if daemon == "" || (daemon == "dashboard" || daemon == "rpc-serve") && asksWorkers(c.Dashboard) {
		uses = append(uses, celery.ToAskWorkers())
	}
	return uses
}

// asksWorkers reports whether any user may revoke tasks on the dashboard.
func asksWorkers(d config.Dashboard) bool {
	acts := func(roles []config.DashboardRole) bool {
		return slices.Contains(roles, config.RoleTasks) || slices.Contains(roles, config.RoleTerminate)
	}
	return slices.ContainsFunc(d.Users, func(u config.DashboardUser) bool { return acts(u.Roles) }) ||
		slices.ContainsFunc(slices.Collect(maps.Values(d.Proxy.Roles)), acts)
}

// queuesOf returns the names of the queues that a daemon sends to; "" is all daemons.
func queuesOf(ctx context.Context, a *command.App, cmd *cobra.Command, daemon string) (names []string, err error) {
	store, err := a.OpenStore(ctx, cmd)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	types, err := store.TaskTypes(ctx)
	if err != nil {
		return nil, err
	}
	var first []model.Lister
	if daemon == "" || daemon == "start-runner-first-visits" {
		if first, err = store.ListersWithFirstVisits(ctx); err != nil {
			return nil, err
		}
	}
	for _, tt := range types {
		_, loader := model.LoadedVisitType(tt.Type)
		if daemon == "" || daemon == "start-runner" {
			names = append(names, tt.Queue(), model.PriorityLanes(tt.BackendName))
		}
		if loader && (daemon == "" || daemon == "schedule-recurrent") {
			names = append(names, tt.BackendName)
		}
		for _, lister := range first {
			if loader {
				names = append(names, *lister.FirstVisitsQueuePrefix+":"+tt.BackendName)
			}
		}
	}
	laned, err := dispatch.LanedQueues(ctx, store, a.Config.Lanes)
	for _, queue := range laned {
		if slices.Contains(names, queue.Name) {
			for _, lane := range queue.Lanes.Lanes {
				names = append(names, lane.Queue)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}
