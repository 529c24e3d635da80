package migrate

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/service"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

const (
	// lockMargin is the time beyond deadlock_timeout that a step waits for a lock. By then PostgreSQL has
	// cancelled an autovacuum that held it.
	lockMargin = 500 * time.Millisecond

	// lockRetry is the least time between two tries. Writers that waited behind the first pass in it.
	lockRetry = time.Second

	// lockPollPeriod is the period at which a locker reads what a step waits for.
	lockPollPeriod = 250 * time.Millisecond
)

// deadlockDetected is the SQLSTATE of a step that is tried again, as one with postgres.LockNotAvailable is.
const deadlockDetected = "40P01"

// locker runs steps that lock tables in use by others: creating or dropping a trigger locks a table of the
// Python scheduler. While a step waits for a lock, all later writers of the table wait behind it. So a step
// gives up after timeout and is tried again.
//
// A step should lock only one of those tables, so that no table is locked while the step waits for another.
type locker struct {
	watch   *pgx.Conn // reads what the steps' connection waits for
	log     *slog.Logger
	timeout string // lock_timeout of the steps, in milliseconds
}

// withLocker runs do with a locker for steps on the server of conn.
func withLocker(ctx context.Context, conn *pgx.Conn, log *slog.Logger, do func(l *locker) error) error {
	watch, err := pgx.ConnectConfig(ctx, conn.Config())
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = watch.Close(context.WithoutCancel(ctx)) }()
	var deadlockTimeout int64 // milliseconds
	if err := watch.QueryRow(ctx, "select setting::bigint from pg_settings where name = 'deadlock_timeout'").Scan(&deadlockTimeout); err != nil {
		return fmt.Errorf("read deadlock_timeout: %w", err)
	}
	return do(&locker{watch: watch, log: log, timeout: fmt.Sprint(deadlockTimeout + lockMargin.Milliseconds())})
}

// inTx runs a step in a transaction of conn.
func (l *locker) inTx(ctx context.Context, conn *pgx.Conn, step string, do func(ctx context.Context, tx pgx.Tx) error) error {
	return l.try(ctx, conn.PgConn().PID(), step, func() error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "set local lock_timeout = "+l.timeout); err != nil {
				return err
			}
			return do(ctx, tx)
		})
	})
}

// alone runs a statement that can't run in a transaction.
func (l *locker) alone(ctx context.Context, conn *pgx.Conn, step, statement string) error {
	return l.try(ctx, conn.PgConn().PID(), step, func() error {
		if _, err := conn.Exec(ctx, "set lock_timeout = "+l.timeout); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

// try runs a step of the server process pid until it gets its locks, and logs what it waits for.
func (l *locker) try(ctx context.Context, pid uint32, step string, do func() error) error {
	backoff := service.Backoff{Min: lockRetry}
	for {
		ended, found := make(chan struct{}), make(chan string)
		go func() { found <- l.poll(ctx, pid, ended) }()
		err := do()
		close(ended)
		waitsFor := <-found
		if state := postgres.SQLState(err); state != postgres.LockNotAvailable && state != deadlockDetected {
			return stmt.Failed(err, "%s", step)
		}
		l.log.Info("waiting for a table that others use", "step", step, "waits_for", waitsFor)
		if backoff.Wait(ctx) != nil {
			return fmt.Errorf("%s: wait for %s: %w", step, waitsFor, ctx.Err())
		}
	}
}

// poll polls until ended is closed. It returns the table that pid last waited for, and the holders of its
// lock.
func (l *locker) poll(ctx context.Context, pid uint32, ended <-chan struct{}) string {
	ticker := time.NewTicker(lockPollPeriod)
	defer ticker.Stop()
	seen := "a lock"
	for {
		select {
		case <-ended:
			return seen
		case <-ticker.C:
			if found, err := l.pollOnce(ctx, pid); err == nil && found != "" {
				seen = found
			}
		}
	}
}

func (l *locker) pollOnce(ctx context.Context, pid uint32) (string, error) {
	tables, err := stmt.Column[string](ctx, l.watch, `
		select case when relation is null then locktype else 'table ' || relation::regclass end
		from pg_locks where pid = $1 and not granted`, int32(pid))
	if err != nil || len(tables) == 0 {
		return "", err
	}
	holders, err := stmt.Column[string](ctx, l.watch, `
		select case when a.backend_type = 'autovacuum worker' then 'an autovacuum'
		       else format('%s of role %s', coalesce(nullif(a.application_name, ''), 'a client'), coalesce(a.usename, '(unknown)')) end
		       || format(' (process %s, %s, transaction began %s)', a.pid, coalesce(a.state, 'active'), coalesce(date_trunc('second', a.xact_start)::text, 'at an unknown time'))
		from unnest(pg_blocking_pids($1)) b join pg_stat_activity a on a.pid = b`, int32(pid))
	if err != nil || len(holders) == 0 { // the step has its lock by now
		return "", err
	}
	return tables[0] + ", held by " + strings.Join(holders, " and "), nil
}
