package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// poorRole creates a login role without rights, and returns its name and DSN.
func poorRole(t *testing.T, dsn string) (role, own string) {
	t.Helper()
	role = "poor_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	execute(t, dsn, "create role "+role+" login")
	t.Cleanup(func() { execute(t, dsn, "drop owned by "+role+"; drop role "+role) })
	u := testenv.URL(t, dsn)
	q := u.Query()
	q.Set("user", role)
	u.RawQuery = q.Encode()
	return role, u.String()
}

// grantFor grants a role the documented rights of a daemon.
func grantFor(t *testing.T, dsn, own, daemon string) {
	t.Helper()
	store := testenv.Open(t, own)
	for range 5 {
		err := store.CheckRights(t.Context(), daemon)
		missing, ok := errors.AsType[*migrate.RightsError](err)
		if err != nil && !ok {
			t.Fatal(err)
		}
		if missing == nil {
			return
		}
		for _, l := range missing.Missing {
			execute(t, dsn, l.Grant(missing.User))
		}
	}
	t.Fatal("the grants don't give what is missing")
}

// A daemon whose user lacks rights lists them at its start, with the user's name and the statements that grant them. It
// doesn't report an unreachable database. Once they are granted, it starts, and its work and maintenance lack none.
func TestDaemonsSayWhichRightsAreMissing(t *testing.T) {
	t.Parallel()
	for daemon, lacks := range map[string]string{
		"start-runner --period 1":              "INSERT on table public.task_run",
		"start-runner-first-visits --period 1": "UPDATE on table public.listers",
		"schedule-recurrent":                   "INSERT, UPDATE on table public.origin_visit_stats",
		"start-listener":                       "UPDATE on table public.task, public.task_run",
		"rpc-serve --host 127.0.0.1 --port 0":  "USAGE on sequence public.task_id_seq",
	} {
		t.Run(daemon, func(t *testing.T) {
			t.Parallel()
			dsn, mq := testenv.Database(t), testenv.RabbitMQ(t)
			execute(t, dsn, someTaskTypes+";"+someOrigins+"; insert into task (type, arguments, next_run, status, policy) values ('bare', '{\"args\": [], \"kwargs\": {}}', now(), 'next_run_not_scheduled', 'oneshot')")
			role, own := poorRole(t, dsn)
			conn := testenv.Connect(t, dsn)
			count := func(query string) int64 { return testenv.Value[int64](t, conn, "select count(*) from "+query) }
			config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n", own, mq.URL, mq.ManagementURL))
			args := strings.Fields(daemon)
			p := startWith(t, []string{ownFile}, append([]string{"-C", config}, args...)...) // the door's role has all rights
			p.logs(t, "is reachable, but refuses; retrying")
			p.logs(t, "user="+role)
			// The report names only this daemon's rights.
			for _, want := range []string{lacks, "SELECT, INSERT, UPDATE, DELETE on table scheduler_go.", ": grant select, insert, update, delete on table scheduler_go.", " to " + role} {
				p.logs(t, want)
			}
			if log := p.log(); strings.Contains(log, "on all tables in schema") {
				t.Error("rights are to be granted that it doesn't need")
			}
			check := ours(t, "-C", config, "config", "check")
			for _, want := range []string{"WRONG scheduler: PostgreSQL (", "its user " + role + " lacks rights", "INSERT on table public.task_run (needed by start-runner, rpc-serve): grant insert on table public.task_run to " + role} {
				if check.code != 1 || !strings.Contains(check.stdout, want) {
					t.Errorf("config check says no %q: %+v", want, check)
				}
			}
			grantFor(t, dsn, own, args[0])
			p.logs(t, "msg=started")
			jobs := "'old notes', 'set aside'"
			if args[0] == "start-listener" { // the listener has no rights on origins, and leaves these to other daemons
				jobs = "'graphs', 'count of runs'"
			}
			testenv.Becomes(t, "maintenance was done", true, func() bool {
				return count("scheduler_go.keeper where job in ("+jobs+") and seconds > 0 and not failed") == 2
			})
			switch args[0] {
			case "start-runner":
				testenv.Becomes(t, "a task was sent", true, func() bool { return count("task_run") > 0 })
			case "schedule-recurrent":
				testenv.Becomes(t, "a visit was sent", true, func() bool {
					return count("origin_visit_stats where last_scheduled > now() - interval '1 hour'") > 0
				})
			}
			p.stop(t, syscall.SIGTERM)
			if log := p.log(); strings.Contains(log, "is not reachable") || strings.Contains(log, "permission denied") || strings.Count(log, "is reachable, but refuses") != 1 {
				t.Error("see the log")
			}
		})
	}
}
