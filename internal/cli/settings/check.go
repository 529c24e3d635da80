// Package settings has the commands of config.
package settings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"swh-scheduler/celery"
	"swh-scheduler/internal/cli/command"
	"swh-scheduler/internal/config"
	"swh-scheduler/internal/daemons"
	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/process"
	"swh-scheduler/internal/pytext"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

func New(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config [OPTIONS] COMMAND [ARGS]...",
		Short: "Check and show the configuration, and make a password's hash for it",
	}
	cmd.AddCommand(newConfigCheck(a), newConfigShow(a), newHashPassword(a))
	return cmd
}

func newConfigCheck(a *command.App) *cobra.Command {
	output, daemon := "text", ""
	cmd := &cobra.Command{
		Use:   "check [OPTIONS]",
		Short: "Check the configuration and the services it names",
		Long: `Check the configuration: read it, connect to each service that it names, and print all
errors. The exit code is 1 if there is an error. The command warns of secrets that other
users could read, and of databases whose identity is not checked. It changes nothing.

The users of the database, the broker and Kafka need the rights of all daemons, or with
--for those of one daemon. The command prints each missing right with the statement that
grants it.`,
	}
	cmd.Flags().StringVar(&daemon, "for", "", "the `DAEMON`, by its command, whose rights the users of the services need; all if not given")
	command.OutputFlag(cmd.Flags(), &output)
	cmd.RunE = a.Configured(func(cmd *cobra.Command, _ []string) error {
		if daemon != "" && !slices.Contains(migrate.Daemons, daemon) {
			return command.Usagef(cmd, "Invalid value for '--for': %q is not one of %s.", daemon, strings.Join(migrate.Daemons, ", "))
		}
		results := checkConfig(a, cmd, daemon)
		if err := printChecks(a, results, output); err != nil {
			return err
		}
		if wrong := slices.ContainsFunc(results, func(r checkResult) bool { return r.Problem != "" }); wrong {
			return errors.New("the configuration is not fit for use")
		}
		return nil
	})
	return cmd
}

const patience = 5 * time.Second

type checkResult struct {
	Name    string `json:"name"`
	Found   string `json:"found,omitempty"`
	Problem string `json:"problem,omitempty"`
	Warning string `json:"warning,omitempty"` // a usable setting that is a risk
}

// A warning is an error of a setting that is usable all the same.
type warning struct{ error }

func printChecks(a *command.App, results []checkResult, output string) error {
	var b strings.Builder
	for _, r := range results {
		mark, text := "ok", r.Found
		if r.Problem != "" {
			mark, text = "WRONG", r.Problem
		} else if r.Warning != "" {
			mark, text = "WARN", r.Warning
		}
		fmt.Fprintf(&b, "%-6s%s: %s\n", mark, a.Bold(r.Name), text)
	}
	return a.Show(output, results, b.String())
}

// checkConfig runs all checks at the same time, as each may wait for a timeout.
func checkConfig(a *command.App, cmd *cobra.Command, daemon string) []checkResult {
	type check struct {
		name string
		do   func(ctx context.Context) (found string, err error)
	}
	checks := []check{
		{"configuration", func(context.Context) (string, error) {
			return cmp.Or(a.Config.File, "no file, only defaults and options"), a.Config.Refused()
		}},
		{"scheduler", func(ctx context.Context) (string, error) { return checkScheduler(ctx, a, cmd, daemon) }},
	}
	if usesBroker(a.Config, daemon) {
		checks = append(checks,
			check{"celery.task_broker", func(ctx context.Context) (string, error) { return checkBroker(ctx, a, cmd, daemon) }},
			check{"rabbitmq.management_url", func(ctx context.Context) (string, error) { return checkManagement(ctx, a) }})
	}
	for _, further := range []struct {
		name string
		dsn  config.Secret
	}{{"database.direct", a.Config.Database.Direct}, {"database.replica", a.Config.Database.Replica}} {
		if further.dsn != "" {
			checks = append(checks, check{further.name, func(ctx context.Context) (string, error) { return checkDatabase(ctx, cmd, further.dsn) }})
		}
	}
	if door := a.Config.RPCServe.Door.DB; door != "" && a.Config.Scheduler.Cls != config.Remote {
		checks = append(checks, check{"rpc_serve.door.db", func(ctx context.Context) (string, error) { return checkDoor(ctx, a, cmd) }})
	}
	if a.Config.RPCServe.Door.DB == "" && a.Config.Scheduler.Cls != config.Remote && a.Config.Scheduler.DB != "" {
		checks = append(checks, check{"door", func(ctx context.Context) (string, error) { return checkOwnDoor(ctx, a) }})
	}
	if a.Config.Scheduler.Cls == config.Postgres && (daemon == "" || daemon == "rpc-serve") { // the kind that rpc-serve accepts
		checks = append(checks, check{"rpc_serve", func(context.Context) (string, error) { return checkClients(a) }})
	}
	if len(a.Config.Journal.Brokers) > 0 && (daemon == "" || daemon == "journal-client") {
		checks = append(checks, check{"journal", func(ctx context.Context) (string, error) { return checkJournal(ctx, a, cmd) }})
	}
	if address := a.Config.Metrics.Addr; address != "" {
		checks = append(checks, check{"metrics.addr", func(context.Context) (string, error) {
			_, err := net.ResolveTCPAddr("tcp", address)
			return "", err
		}})
	}
	warnings := exposed(a)
	directory := func(key, path string) {
		checks = append(checks, check{key, func(context.Context) (string, error) { return path, maintenance.CheckDirectory(key, path) }})
	}
	if len(a.Config.LostAfter) > 0 && a.Config.Scheduler.Cls == config.Postgres {
		checks = append(checks, check{"lost_after", func(ctx context.Context) (string, error) { return checkLostAfter(ctx, a, cmd) }})
	}
	if c := a.Config; c.Dashboard.InRPCServe && c.RPCServe.RequiresCredentials() && !c.Dashboard.HasLogins() {
		warnings = append(warnings, "dashboard.in_rpc_serve shows the dashboard to nobody: the credentials of rpc_serve don't open it. Name its users in dashboard.users: [{name: ann, password_hash: …, roles: [view]}] (swh-scheduler config hash-password makes a password_hash)")
	}
	if path := a.Config.Archive.Directory; path != "" && len(a.Config.Archive.After) > 0 {
		directory("archive.directory", path)
	}
	if path := a.Config.Dashboard.Reports; path != "" {
		directory("dashboard.reports", a.Config.Resolve(path))
	}
	results := make([]checkResult, len(checks))
	var all sync.WaitGroup
	for i, c := range checks {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(cmd.Context(), 2*patience)
			defer cancel()
			began := time.Now()
			found, err := c.do(ctx)
			results[i] = checkResult{Name: c.name, Found: found}
			if _, usable := errors.AsType[warning](err); usable {
				results[i].Warning = pytext.OneLine(err).Error()
			} else if err != nil {
				results[i].Problem = strings.TrimPrefix(pytext.OneLine(err).Error(), c.name+": ")
				// Not every service's error mentions the deadline, and some end a moment before it.
				if took := time.Since(began).Round(time.Second); took >= 2*patience || errors.Is(err, context.DeadlineExceeded) {
					results[i].Problem = fmt.Sprintf("no answer within %s: %s", took, results[i].Problem)
				}
			}
		})
	}
	all.Wait()
	for _, warning := range warnings {
		results = append(results, checkResult{Name: "security", Warning: warning})
	}
	return slices.DeleteFunc(results, func(r checkResult) bool { return r.Found == "" && r.Problem == "" && r.Warning == "" }) // checks without a result
}

// checkDatabase checks that a further address of the database is usable.
func checkDatabase(ctx context.Context, cmd *cobra.Command, dsn config.Secret) (string, error) {
	store, err := db.Open(ctx, string(dsn), postgres.Options{Command: cmd.Name()})
	if err != nil {
		return "", err
	}
	defer store.Close()
	if err := store.CheckSessions(ctx); err != nil {
		return "", err
	}
	return store.Name(), process.Describe(store, store.CheckVersion(ctx))
}

// checkDoor checks that the user of the RPC server's door has the rights of the daemons on the database, and no
// others.
func checkDoor(ctx context.Context, a *command.App, cmd *cobra.Command) (string, error) {
	dsn := string(a.Config.RPCServe.Door.DB)
	store, err := db.Open(ctx, dsn, postgres.Options{Command: cmd.Name()})
	if err != nil {
		return "", err
	}
	defer store.Close()
	return store.Name(), process.Describe(store, migrate.CheckDoor(ctx, store.DB))
}

// checkOwnDoor checks the door of the configured database, if there is one. Other checks report why the database
// can't be read.
func checkOwnDoor(ctx context.Context, a *command.App) (string, error) {
	var daemons []string // the commands of the clients of the door
	for _, client := range a.Config.RPCServe.Clients {
		daemons = append(daemons, client.Daemons...)
	}
	slices.Sort(daemons)
	door, err := migrate.ReadDoor(ctx, cmp.Or(string(a.Config.Database.Direct), string(a.Config.Scheduler.DB)), slices.Compact(daemons)...)
	if err != nil || door.Role == "" {
		return "", nil
	}
	return command.DoorState(door), door.Wrong
}

// checkScheduler checks that the database can be used, also through an RPC server, that it takes writes, and that it
// has the task types that the configuration names. The user needs the rights of daemon; "" is all daemons.
func checkScheduler(ctx context.Context, a *command.App, cmd *cobra.Command, daemon string) (string, error) {
	store, err := a.OpenStore(ctx, cmd)
	if err != nil {
		return "", err
	}
	defer store.Close()
	if !store.IsProxied() && a.Config.Database.Direct == "" {
		if err := store.CheckSessions(ctx); err != nil {
			return "", err
		}
	}
	if err := store.CheckUsable(ctx, daemon); err != nil {
		return "", process.Describe(store, err)
	}
	types, err := store.TaskTypes(ctx)
	if err == nil {
		err = store.CheckWrites(ctx)
	}
	if err == nil {
		err = a.Config.CheckTaskTypes(types)
	}
	if err == nil && len(a.Config.Shares) > 0 {
		err = store.CheckShares(ctx, a.Config.Shares)
	}
	if err == nil {
		err = store.CheckPolicies(ctx, a.Config.SchedulingPolicy)
	}
	var status migrate.Status
	if err == nil {
		status, err = store.Status(ctx)
	}
	return fmt.Sprintf("%s, schema version %d, %s", store.Name(), status.PythonSchemaVersion, model.Count(len(types), "task type", "task types")), process.Describe(store, err)
}

// checkLostAfter returns the number of silent runs left alone by the last sweep for lost runs.
func checkLostAfter(ctx context.Context, a *command.App, cmd *cobra.Command) (string, error) {
	store, err := a.OpenStore(ctx, cmd)
	if err != nil {
		return "", err
	}
	defer store.Close()
	swept, err := store.SilentRuns(ctx)
	if err != nil {
		return "", process.Describe(store, err)
	}
	inForce := true // --lost-after is not checked
	for taskType, after := range a.Config.LostAfter {
		inForce = inForce && swept.After[taskType] == after
	}
	switch {
	case !inForce:
		return "no start-runner has searched for lost runs with it yet; the search will count, and leave alone, silent runs from before this program first sent here", nil
	case swept.Left > 0:
		return model.Count(swept.Left, "silent run", "silent runs") + " from before this program first sent here, left alone (start-runner --lost-before gives them up)", nil
	}
	return "lost runs are given up; none is left alone", nil
}

// checkManagement calls the management API, without which queue lengths are guesses.
func checkManagement(ctx context.Context, a *command.App) (string, error) {
	broker, err := a.Config.Broker()
	if err != nil {
		return "", err
	}
	inspector := celery.NewQueueInspector(broker, string(a.Config.RabbitMQ.ManagementURL), celery.InspectorOptions{Logger: a.Log, Timeout: patience})
	found := "the broker's host, its port + 10000"
	if shown, err := url.Parse(string(a.Config.RabbitMQ.ManagementURL)); err == nil && shown.Host != "" {
		found = shown.Redacted()
	}
	return found, errors.Join(inspector.CheckManagement(ctx), inspector.Close())
}

func checkJournal(ctx context.Context, a *command.App, cmd *cobra.Command) (string, error) {
	if a.Config.Journal.GroupID == "" {
		return "", a.Config.Missing("journal.group_id", "the name of a Kafka consumer group")
	}
	d := a.Daemon(cmd)
	client, err := daemons.NewJournalClient(d, daemons.JournalOptions(d, (*db.Store)(nil))) // the check reads no rows
	if err != nil {
		return "", err
	}
	topic, err := client.Check(ctx)
	return fmt.Sprintf("%s at %s", topic, strings.Join(a.Config.Journal.Brokers, ", ")), err
}
