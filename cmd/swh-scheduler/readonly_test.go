package main

import (
	"fmt"
	"syscall"
	"testing"

	"swh-scheduler/internal/testenv"
)

// A daemon that starts while the database takes no writes, as a standby before its promotion, waits for them.
func TestDaemonWaitsForWrites(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	mq := testenv.RabbitMQ(t)
	config := configFile(t, fmt.Sprintf("scheduler: {cls: postgresql, db: %q}\ncelery: {task_broker: %q}\nrabbitmq: {management_url: %q}\n", dsn, mq.URL, mq.ManagementURL))
	execute(t, dsn, `do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$`)
	runner := startWith(t, []string{ownFile}, "-C", config, "start-runner", "-p", "1")
	recurrent := startWith(t, []string{ownFile}, "-C", config, "schedule-recurrent")
	runner.logs(t, "read-only transaction")
	recurrent.logs(t, "read-only transaction")
	execute(t, dsn, `begin read write; do $$ begin execute format('alter database %I reset default_transaction_read_only', current_database()); end $$; commit;
		select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`)
	runner.logs(t, "msg=started")
	recurrent.logs(t, "msg=started")
	runner.stop(t, syscall.SIGTERM)
	recurrent.stop(t, syscall.SIGTERM)
}
