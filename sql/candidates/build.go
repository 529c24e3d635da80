package candidates

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/service"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// These are the phases of the build of candidates. Each step is a short transaction that records its
// progress, so an interrupted build resumes. Other processes work meanwhile; triggers record their changes,
// which are drained after the build. A truncate of a table restarts the build.
//
//	empty ──► rows (copied along the key, a part at a time) ──► indexes ──► ready
//	  ▲                                                                      │
//	  └───────────────── truncate of one of its two tables ──────────────────┘
const (
	PhaseEmpty   = "empty"
	phaseRows    = "rows"
	phaseIndexes = "indexes"
	PhaseReady   = "ready"
)

// HeldBy is the SQL expression for the cooldown that holds a candidate back. Parked candidates are indexed
// by it.
const HeldBy = "scheduler_go.held_by(c.due, c.last_scheduled)"

const (
	copyBatch     = 50_000          // candidates copied in one step, about a second
	progressEvery = 5 * time.Second // between log entries of a build
)

// Need is the set of indexes and columns of candidates that a configuration needs.
type Need struct {
	ByLister    bool // candidates by lister
	ByFork      bool // candidates that distinguish forks from originals
	ByFreshness bool // candidates with moments
	ByCooldown  bool // parked candidates, for cooldowns shorter than the default ones
}

// Has returns the indexes and columns that candidates have.
func Has(b queries.BuildPhaseRow) Need {
	return Need{ByLister: b.ByLister, ByFork: b.ByFork, ByFreshness: b.ByFreshness, ByCooldown: b.ByCooldown}
}

// candidateIndexes returns the statements that create the indexes of candidates after the rows. A statement
// does nothing if its index exists.
func candidateIndexes(build Need) []string {
	indexes := []string{
		// A hash index is a quarter of the size of the URLs; no query needs an order.
		"create index if not exists candidates_url_idx on scheduler_go.candidates using hash (url)",
		"create index if not exists candidates_parked_idx on scheduler_go.candidates (visit_type, due) where parked",
	}
	indexes = append(indexes, policyIndexes("candidates_", "visit_type", build)...)
	if build.ByLister { // for queues that groups of listers share
		indexes = append(indexes, policyIndexes("candidates_lister_", "visit_type, lister_id", build)...)
	}
	return indexes
}

// policyIndexes returns the statements for an index in the order of each policy: of all candidates; of
// originals and of forks for policies that divide them; of parked candidates, too, for shorter cooldowns.
func policyIndexes(prefix, key string, build Need) []string {
	var indexes []string
	if build.ByFork {
		build.ByFork = false
		indexes = policyIndexes(prefix+"fork_", key+", fork", build)
	}
	for _, p := range model.Policies {
		if p.Name == model.Freshness && !build.ByFreshness {
			continue
		}
		add := func(prefix, key, which string) {
			where := strings.Join(append([]string{which}, p.SQL()...), " and ")
			indexes = append(indexes, strings.ReplaceAll(fmt.Sprintf("create index if not exists %s%s_idx on scheduler_go.candidates (%s, %s) where %s",
				prefix, p.Index, key, p.OrderBy, where), "c.", ""))
		}
		add(prefix, key, "not parked")
		if build.ByCooldown {
			add(prefix+"parked_", key+", "+HeldBy, "parked")
		}
	}
	return indexes
}

// beginner is a connection or a pool.
type beginner interface {
	stmt.Session
	Begin(ctx context.Context) (pgx.Tx, error)
}

// errRebuild rolls back a step during which a table was truncated.
var errRebuild = errors.New("a table was emptied meanwhile")

// BuildStep does one step of the build, with up to size rows. It returns the phase that it found.
func BuildStep(ctx context.Context, db beginner, size *bulk.BatchSize) (queries.BuildPhaseRow, error) {
	var build queries.BuildPhaseRow
	rows := size.Of(copyBatch)
	err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		q := queries.New(tx)
		if err := q.LockCandidates(ctx); err != nil {
			return err
		}
		var err error
		if build, err = q.BuildPhase(ctx); err != nil {
			return err
		}
		switch build.Phase {
		case PhaseEmpty:
			return startBuild(ctx, tx, q)
		case phaseRows:
			copied, err := q.CopyCandidates(ctx, int64(rows))
			if err == nil && copied < 0 {
				return errRebuild
			}
			return err
		case phaseIndexes:
			return indexStep(ctx, tx, q, candidateIndexes(Has(build)))
		}
		return nil
	})
	if build.Phase == phaseRows {
		size.Adjust(rows, err)
	}
	if err != nil && !errors.Is(err, errRebuild) {
		return build, fmt.Errorf("build candidates (%s): %w", build.Phase, err)
	}
	return build, nil
}

// candidateIndexNames lists the indexes of candidates that meet a condition, with their schema for any
// search path.
func candidateIndexNames(ctx context.Context, db stmt.Session, condition string) ([]string, error) {
	return stmt.Column[string](ctx, db, `select 'scheduler_go.' || relname from pg_index join pg_class c on c.oid = indexrelid
		where indrelid = 'scheduler_go.candidates'::regclass and `+condition)
}

// startBuild waits for the table a little longer than PostgreSQL takes to cancel an autovacuum: all claims of visits wait
// behind it, and a dump may hold the table for hours.
func startBuild(ctx context.Context, tx pgx.Tx, q *queries.Queries) error {
	if _, err := tx.Exec(ctx, "select set_config('lock_timeout', (setting::bigint + 500)::text, true) from pg_settings where name = 'deadlock_timeout'"); err != nil {
		return err
	}
	indexes, err := candidateIndexNames(ctx, tx, "true")
	if err != nil {
		return err
	}
	statements := []string{"truncate scheduler_go.candidates"}
	for _, index := range indexes {
		statements = append(statements, "drop index "+index)
	}
	if _, err := tx.Exec(ctx, strings.Join(statements, "; ")); err != nil {
		return err
	}
	return q.StartBuild(ctx)
}

// indexStep creates the next missing index, or finishes the build.
func indexStep(ctx context.Context, tx pgx.Tx, q *queries.Queries, statements []string) error {
	made, err := candidateIndexNames(ctx, tx, "true")
	if err != nil {
		return err
	}
	if len(made) < len(statements) {
		_, err := tx.Exec(ctx, "set local search_path = scheduler_go; set local maintenance_work_mem = '256MB'; "+statements[len(made)])
		return err
	}
	if _, err := tx.Exec(ctx, "analyze scheduler_go.candidates"); err != nil {
		return err
	}
	finished, err := q.FinishBuild(ctx)
	if err == nil && finished == 0 {
		return errRebuild
	}
	return err
}

// GiveUp waits for the lock of candidates and marks them for a rebuild with the missing parts.
func GiveUp(ctx context.Context, conn *pgx.Conn, missing Need) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		q := queries.New(tx)
		if err := q.LockCandidates(ctx); err != nil {
			return fmt.Errorf("wait for the lock of candidates: %w", err)
		}
		return stmt.Failed(q.GiveUpCandidates(ctx, queries.GiveUpCandidatesParams{ByFork: missing.ByFork, ByFreshness: missing.ByFreshness}), "give candidates up")
	})
}

// Build is the progress of a build.
type Build queries.BuildPhaseRow

// Part returns the finished part of a build, from 0 to 1; 1 if candidates can be used.
func (b Build) Part() float64 {
	if b.Phase == PhaseReady {
		return 1
	}
	return min(0.99, float64(b.Rows)/float64(max(b.Origins, 1)))
}

// BuildLog logs the progress and the end of builds, one after another. Its zero value is ready.
type BuildLog struct {
	began, logged time.Time
	first         int64 // candidates at the beginning
}

// Report logs a step if the last entry is older than every, and the end of the build.
func (l *BuildLog) Report(log *slog.Logger, b Build, now time.Time, every time.Duration) {
	building := !l.began.IsZero()
	switch {
	case b.Phase == PhaseReady && building:
		log.Info("candidates are built", "rows", b.Rows, "took", now.Sub(l.began).Round(time.Millisecond))
		*l = BuildLog{}
	case b.Phase == PhaseReady:
	case !building || b.Rows < l.first:
		*l = BuildLog{began: now, logged: now, first: b.Rows}
	case now.Sub(l.logged) >= every:
		l.logged = now
		attributes := []any{"phase", b.Phase, "rows", b.Rows, "of_about", b.Origins}
		if copied := b.Rows - l.first; b.Phase == phaseRows && copied > 0 && b.Origins > b.Rows {
			left := now.Sub(l.began).Seconds() * float64(b.Origins-b.Rows) / float64(copied)
			attributes = append(attributes, "copied_in_about", model.Duration(left).Round(time.Second))
		}
		log.Info("building candidates", attributes...)
	}
}

// BuildAll builds candidates to the end, if they are not built, and logs the progress.
func BuildAll(ctx context.Context, db beginner, log *slog.Logger) error {
	var progress BuildLog
	var size bulk.BatchSize
	for {
		rows := size.Of(copyBatch)
		build, err := BuildStep(ctx, db, &size)
		if postgres.TimedOut(err) && ctx.Err() == nil && size.Of(copyBatch) < rows {
			continue // half as many rows at the next step
		}
		if postgres.SQLState(err) == postgres.LockNotAvailable && build.Phase == PhaseEmpty { // a dump reads the old candidates
			if waited := service.Sleep(ctx, progressEvery); waited == nil {
				log.Info("waiting for the table of candidates, which others use")
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("%w; the finished part remains: run the command again to continue", err)
		}
		progress.Report(log, Build(build), time.Now(), progressEvery)
		if build.Phase == PhaseReady {
			return nil
		}
	}
}

// MissingIndexes returns the statements for the indexes of candidates that are missing, as after a build by
// an older program, or invalid.
func MissingIndexes(ctx context.Context, db stmt.Session, build Need) (missing []string, err error) {
	made, err := candidateIndexNames(ctx, db, "indisvalid")
	for _, statement := range candidateIndexes(build) {
		if name := strings.Fields(statement)[5]; !slices.Contains(made, "scheduler_go."+name) {
			missing = append(missing, statement)
		}
	}
	return missing, err
}

// BuildIndexes creates the missing indexes of candidates concurrently, and records which ones later builds
// create. It first drops invalid indexes of an interrupted run.
func BuildIndexes(ctx context.Context, conn *pgx.Conn, more Need, log *slog.Logger) error {
	invalid, err := candidateIndexNames(ctx, conn, "not indisvalid")
	if err != nil {
		return err
	}
	for _, index := range invalid {
		if _, err := conn.Exec(ctx, "drop index concurrently "+index); err != nil {
			return err
		}
	}
	began := time.Now()
	build, err := queries.New(conn).BuildPhase(ctx)
	if err != nil {
		return err
	}
	build.ByLister, build.ByCooldown = build.ByLister || more.ByLister, build.ByCooldown || more.ByCooldown
	missing, err := MissingIndexes(ctx, conn, Has(build))
	if err != nil {
		return err
	}
	for i, statement := range missing {
		log.Info("building the indexes that candidates lack", "index", i+1, "of", len(missing))
		statement = strings.Replace(statement, "create index if", "create index concurrently if", 1)
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("build the indexes that candidates lack: %w; the finished part remains: run the command again to continue", err)
		}
	}
	log.Info("candidates have all indexes", "took", time.Since(began).Round(time.Millisecond))
	return queries.New(conn).KeepIndexes(ctx, queries.KeepIndexesParams{ByLister: build.ByLister, ByCooldown: build.ByCooldown})
}
