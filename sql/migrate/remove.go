package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"

	"github.com/jackc/pgx/v5"
)

// ErrWouldLose marks a database whose removal would lose work.
var ErrWouldLose = errors.New("removing the schema scheduler_go would lose work")

// removalBegun is the migration number that a removal records at its beginning. Every version of this
// program then refuses the database until the removal has ended.
const removalBegun = 999_999

// RemoveOptions configure Remove.
type RemoveOptions struct {
	DryRun bool         // change nothing; report what would be removed and lost
	Lose   bool         // remove even if work is lost
	Logger *slog.Logger // logs each step; may be nil
}

// Removal lists what Remove removed and lost, or would in a dry run.
type Removal struct {
	Database string   // its name, without password
	Removed  []string // in words; empty without objects of ours
	Lost     []string // in words
}

// Remove returns to the Python scheduler alone. It drops our triggers on its tables, one table at a time,
// then our indexes there, then the schema scheduler_go. The Python scheduler's tables keep their rows.
// While a step waits for a lock, writers wait behind it for at most deadlock_timeout and half a second.
// Then they pass, and the step is tried again.
//
// It returns ErrWouldLose, and changes nothing, if work would be lost and o.Lose is not set. Another call
// resumes an interrupted removal. Concurrent calls of Run and Remove wait for each other.
func Remove(ctx context.Context, dsn string, o RemoveOptions) (Removal, error) {
	log := cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	var r Removal
	err := withConn(ctx, dsn, func(conn *pgx.Conn) error {
		r.Database = postgres.RedactedConfig(conn.Config())
		if o.DryRun {
			return r.plan(ctx, conn)
		}
		unlock, err := lockMigrations(ctx, conn, log)
		if err != nil {
			return err
		}
		defer unlock()
		return withLocker(ctx, conn, log, func(l *locker) error { return r.remove(ctx, conn, l, o.Lose) })
	})
	return r, err
}

// plan fills in what Remove would do.
func (r *Removal) plan(ctx context.Context, conn *pgx.Conn) error {
	steps, err := removalSteps(ctx, conn)
	for _, s := range steps {
		r.Removed = append(r.Removed, s.What)
	}
	var roles []string // which remove drops before
	if err == nil && len(steps) > 0 {
		roles, err = rolesOfOurs(ctx, conn)
	}
	r.Removed = slices.Insert(r.Removed, 0, roles...)
	if err == nil && len(steps) > 0 {
		r.Lost, err = lostByRemoval(ctx, conn)
	}
	return err
}

func (r *Removal) remove(ctx context.Context, conn *pgx.Conn, l *locker, lose bool) error {
	steps, err := removalSteps(ctx, conn)
	if err != nil || len(steps) == 0 {
		return err
	}
	err = l.inTx(ctx, conn, "begin the removal", func(ctx context.Context, tx pgx.Tx) error {
		if r.Lost, err = lostByRemoval(ctx, tx); err != nil {
			return err
		}
		if len(r.Lost) > 0 && !lose {
			return fmt.Errorf("%w of %s: %s", ErrWouldLose, r.Database, strings.Join(r.Lost, "; "))
		}
		return noteRemoval(ctx, tx)
	})
	if err != nil {
		return err
	}
	doors, err := closeDoor(ctx, conn, "--remove")
	if err != nil {
		return err
	}
	r.Removed = append(r.Removed, inWords(ofDoor, doors)...)
	roles, err := dropGrants(ctx, conn, "--remove")
	if err != nil {
		return err
	}
	r.Removed = append(r.Removed, inWords(ofDaemon, roles)...)
	for _, s := range steps {
		do := func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, s.SQL)
			return err
		}
		if s.Concurrently {
			err = l.alone(ctx, conn, "remove "+s.What, s.SQL)
		} else {
			err = l.inTx(ctx, conn, "remove "+s.What, do)
		}
		if err != nil {
			return fmt.Errorf("%w; the removed part is gone: run the command again to continue", err)
		}
		l.log.Info("removed", "what", s.What)
		r.Removed = append(r.Removed, s.What)
	}
	return nil
}

// These describe the roles that a removal drops.
const (
	ofDoor   = "the role of the door, "
	ofDaemon = "the role of a daemon, "
)

func inWords(what string, roles []string) (words []string) {
	for _, role := range roles {
		words = append(words, what+role)
	}
	return words
}

// rolesOfOurs returns the roles that a removal drops, in words.
func rolesOfOurs(ctx context.Context, conn *pgx.Conn) (words []string, err error) {
	door, err := readDoor(ctx, conn)
	if err != nil {
		return nil, err
	}
	if door.noted {
		words = inWords(ofDoor, door.names())
	}
	roles, _, _, err := readDaemonRoles(ctx, conn)
	for _, r := range roles {
		if r.ours {
			words = append(words, ofDaemon+r.name)
		}
	}
	return words, err
}

// removalStep is a statement of a removal.
type removalStep struct {
	What, SQL    string
	Concurrently bool // it can't run in a transaction
}

// removalSteps returns the statements that remove all our objects, in order.
func removalSteps(ctx context.Context, db stmt.Session) ([]removalStep, error) {
	steps, err := stmt.Rows[removalStep](ctx, db, `
		select what, statement, alone from (
		  select 1, 'the triggers of table ' || tgrelid::regclass,
		         string_agg(format('drop trigger if exists %I on %s', tgname, tgrelid::regclass), '; '), false
		  from pg_trigger join pg_proc on pg_proc.oid = tgfoid
		  where pronamespace = to_regnamespace('scheduler_go') and not tgisinternal
		    and (select relnamespace from pg_class where oid = tgrelid) <> pronamespace -- those go with the schema
		  group by tgrelid
		  union all
		  select 2, 'the index ' || i.relname, format('drop index concurrently if exists %I.%I', n.nspname, i.relname), true
		  from pg_index x join pg_class i on i.oid = x.indexrelid join pg_namespace n on n.oid = i.relnamespace
		  where x.indrelid = to_regclass('public.task') and starts_with(i.relname, $1)
		  union all
		  select 3, 'the schema scheduler_go', 'drop schema scheduler_go cascade', false where to_regnamespace('scheduler_go') is not null
		) step (place, what, statement, alone) order by place, what`, ownIndexPrefix)
	return steps, stmt.Failed(err, "list our triggers, indexes and schema")
}

// losses are the rows that a removal loses, with messages for their number.
var losses = []struct{ rows, words string }{
	{"scheduler_go.work where state in ('backlog', 'outgoing')", "%d messages are claimed and not sent: their tasks and origins count as scheduled, and would not run"},
	{"scheduler_go.work where state = 'sent'", "%d messages of shares and lanes are underway: those that time out would not be tried on the next lane"},
	{"scheduler_go.graph_states where state = 'waiting'", "%d tasks of graphs wait for others: nothing would start them"},
	{"scheduler_go.held_visits", "%d failed visits are held back by the journal client: they would not be recorded"},
	{`pg_catalog.pg_stat_activity where datname = current_database() and application_name like 'swh-scheduler %'
		and application_name <> current_setting('application_name')`, "%d connections of this program are open: its daemons would fail"},
}

// lostByRemoval returns, in words, what a drop of the schema scheduler_go would lose. After an interrupted
// migration some tables are missing; the ledger is created first.
func lostByRemoval(ctx context.Context, db stmt.Session) ([]string, error) {
	lost, err := stmt.Column[string](ctx, db, `select 'what another version of swh-scheduler has in the schema scheduler_go'
		where to_regclass('scheduler_go.work') is null
		  and exists (select from pg_class where relnamespace = to_regnamespace('scheduler_go') and relkind = 'r' and relname <> 'migrations')`)
	for _, l := range losses {
		table, _, _ := strings.Cut(l.rows, " ")
		var found bool
		if err == nil {
			err = db.QueryRow(ctx, "select to_regclass($1) is not null", table).Scan(&found)
		}
		var n int64
		if err == nil && found {
			err = db.QueryRow(ctx, "select count(*) from "+l.rows).Scan(&n)
		}
		if n > 0 {
			lost = append(lost, fmt.Sprintf(l.words, n))
		}
	}
	return lost, stmt.Failed(err, "find what would be lost")
}

// noteRemoval records the removal, so that this program's daemons refuse the database.
func noteRemoval(ctx context.Context, tx pgx.Tx) error {
	migrated, err := stmt.Column[bool](ctx, tx, "select true where to_regclass('scheduler_go.migrations') is not null")
	if err != nil || len(migrated) == 0 {
		return err
	}
	_, err = tx.Exec(ctx, `insert into scheduler_go.migrations (version_id, is_applied)
		select $1, true where not exists (select from scheduler_go.migrations where version_id = $1)`, removalBegun)
	return err
}
