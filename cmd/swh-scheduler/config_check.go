package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/rpc"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/journal"
	"swh-scheduler/sql"
)

func newConfigCheck(a *app) *cobra.Command {
	output := "text"
	cmd := &cobra.Command{
		Use:   "check [OPTIONS]",
		Short: "Check the configuration and the services it names",
		Long: `Check the configuration: reads it, connects to each service that it names, and says
what is wrong. The exit code is 1 if anything is. Nothing is changed.`,
		Args:                  arguments(false, false),
		DisableFlagsInUseLine: true,
	}
	outputFlag(cmd.Flags(), &output)
	cmd.RunE = a.configured(func(cmd *cobra.Command, _ []string) error {
		results := a.checkConfig(cmd)
		if err := a.printChecks(results, output); err != nil {
			return err
		}
		if wrong := slices.ContainsFunc(results, func(r checkResult) bool { return r.Problem != "" }); wrong {
			return errors.New("the configuration is not fit for use")
		}
		return nil
	})
	return cmd
}

// checkResult is what became of one check.
type checkResult struct {
	Name    string `json:"name"`
	Found   string `json:"found,omitempty"`
	Problem string `json:"problem,omitempty"`
}

func (a *app) printChecks(results []checkResult, output string) error {
	if output == "json" {
		return a.printJSON(results)
	}
	var b strings.Builder
	for _, r := range results {
		mark, text := "ok", r.Found
		if r.Problem != "" {
			mark, text = "WRONG", r.Problem
		}
		fmt.Fprintf(&b, "%-6s%s: %s\n", mark, a.bold(r.Name), text)
	}
	return a.print(b.String())
}

// checkConfig makes all checks at once: each may have to wait for a service that
// does not answer.
func (a *app) checkConfig(cmd *cobra.Command) []checkResult {
	type check struct {
		name string
		do   func(ctx context.Context) (found string, err error)
	}
	checks := []check{
		{"configuration", func(context.Context) (string, error) { return a.configSource(), nil }},
		{"scheduler", func(ctx context.Context) (string, error) { return a.checkScheduler(ctx, cmd) }},
		{"celery.task_broker", a.checkBroker},
		{"rabbitmq.management_url", a.checkManagement},
	}
	if len(a.config.Journal.Brokers) > 0 {
		checks = append(checks, check{"journal", func(ctx context.Context) (string, error) { return a.checkJournal(ctx, cmd) }})
	}
	results := make([]checkResult, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*serviceWait)
			defer cancel()
			found, err := c.do(ctx)
			results[i] = checkResult{Name: c.name, Found: found}
			if err != nil {
				results[i].Problem = oneLine{err}.Error()
			}
		})
	}
	all.Wait()
	return results
}

func (a *app) configSource() string {
	if a.config.File == "" {
		return "no file, only defaults and options"
	}
	return a.config.File
}

// checkScheduler looks whether the database or RPC server is one that we can work
// with, and whether it has the task types that the configuration names.
func (a *app) checkScheduler(ctx context.Context, cmd *cobra.Command) (string, error) {
	if a.config.Scheduler.Cls == config.Remote {
		client, err := rpc.NewClient(string(a.config.Scheduler.URL))
		if err != nil {
			return "", err
		}
		defer client.Close()
		types, err := client.TaskTypes(ctx)
		if err == nil {
			err = a.checkNames(types)
		}
		return fmt.Sprintf("RPC server %s, %d task types", client, len(types)), err
	}
	store, err := a.openStore(ctx, cmd)
	if err != nil {
		return "", err
	}
	defer store.Close()
	if err := store.CheckVersion(ctx); err != nil {
		return "", describe(store, err)
	}
	types, err := store.TaskTypes(ctx)
	if err == nil {
		err = a.checkNames(types)
	}
	if err == nil && len(a.config.Shares) > 0 {
		err = store.CheckShares(ctx, a.config.Shares)
	}
	return fmt.Sprintf("%s, schema version %d, %d task types", serverName(store), sql.PeerVersion, len(types)), describe(store, err)
}

// checkNames is an error that lists the task types and visit types that the
// configuration has and the scheduler hasn't. Defaults don't count.
func (a *app) checkNames(types []scheduler.TaskType) error {
	var known []string
	for _, tt := range types {
		known = append(known, tt.Type)
	}
	var problems []string
	expect := func(section, key, taskType string) {
		if key == "default" || slices.Contains(known, taskType) {
			return
		}
		hint := ""
		if near := config.Nearest(taskType, known); near != "" {
			hint = fmt.Sprintf(" (did you mean %s?)", near)
		}
		problems = append(problems, fmt.Sprintf("%s.%s: there is no task type %s%s", section, key, taskType, hint))
	}
	for _, name := range namesOf(a.config.LostAfter) {
		expect("lost_after", name, name)
	}
	for _, name := range namesOf(a.config.Shares) {
		expect("shares", name, name)
	}
	for _, name := range namesOf(a.config.Lanes) {
		expect("lanes", name, strings.TrimPrefix(name, priorityPrefix))
	}
	defaults := config.DefaultSchedulingPolicy()
	for _, name := range namesOf(a.config.SchedulingPolicy) {
		if _, isDefault := defaults[name]; !isDefault {
			expect("scheduling_policy", name, scheduler.LoaderTaskType(name))
		}
	}
	if problems == nil {
		return nil
	}
	return errors.New(strings.Join(problems, "; "))
}

func (a *app) checkBroker(ctx context.Context) (string, error) {
	broker, err := a.broker()
	if err != nil {
		return "", err
	}
	// Measuring a queue, which need not exist, connects once and changes nothing.
	inspector := celery.NewQueueInspector(broker, string(a.config.RabbitMQ.ManagementURL), celery.InspectorOptions{
		ConnectionOptions: celery.ConnectionOptions{Name: "swh-scheduler config check"}, Logger: slog.New(slog.DiscardHandler), Timeout: serviceWait,
	})
	_, err = inspector.Length(ctx, "celeryev.listener", 0)
	return broker.String(), errors.Join(err, inspector.Close())
}

// checkManagement asks the management API, without which queue lengths are
// guessed.
func (a *app) checkManagement(ctx context.Context) (string, error) {
	broker, err := a.broker()
	if err != nil {
		return "", err
	}
	inspector := celery.NewQueueInspector(broker, string(a.config.RabbitMQ.ManagementURL), celery.InspectorOptions{Logger: a.log, Timeout: serviceWait})
	found := "the broker's host, its port + 10000"
	if shown, err := url.Parse(string(a.config.RabbitMQ.ManagementURL)); err == nil && shown.Host != "" {
		found = shown.Redacted()
	}
	return found, errors.Join(inspector.CheckManagement(ctx), inspector.Close())
}

// checkJournal looks for the topic. The journal client needs the database too,
// which is another check's business.
func (a *app) checkJournal(ctx context.Context, cmd *cobra.Command) (string, error) {
	if a.config.Journal.GroupID == "" {
		return "", a.config.Missing("journal.group_id", "the name of a Kafka consumer group")
	}
	store, err := a.openStore(ctx, cmd)
	if err != nil {
		return "", err
	}
	defer store.Close()
	client, warnings, err := journal.New(a.journalOptions(store))
	for _, w := range warnings {
		a.log.Warn(w)
	}
	if err != nil {
		return "", err
	}
	topic, err := client.Check(ctx)
	return fmt.Sprintf("%s at %s", topic, strings.Join(a.config.Journal.Brokers, ", ")), err
}
