package sql

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/sql/internal/queries"
)

// The build of candidates, by what there is to do next. Each step is a short
// transaction that leaves behind how far it came, so an interrupted build goes
// on where it stopped, and others work meanwhile; what they change is noted, and
// drained when the build is done. A table that is emptied starts it anew.
//
//	empty ──► rows (copied along the key, a part at a time) ──► indexes ──► ready
//	  ▲                                                                      │
//	  └───────────────── truncate of a table of the peer's ──────────────────┘
const (
	phaseEmpty   = "empty"
	phaseRows    = "rows"
	phaseIndexes = "indexes"
	phaseReady   = "ready"
)

// copyBatch is how many candidates are copied in one step, about a second's
// worth.
const copyBatch = 50_000

// progressEvery is how often a build tells how far it is.
const progressEvery = 5 * time.Second

//go:embed candidates_indexes.sql
var candidateIndexesFile string

//go:embed candidates_lister_indexes.sql
var listerIndexesFile string

// candidateIndexes are the statements that make the indexes of candidates.
func candidateIndexes(byLister bool) []string {
	if byLister {
		return append(statements(candidateIndexesFile), statements(listerIndexesFile)...)
	}
	return statements(candidateIndexesFile)
}

// statements are those of a file.
func statements(file string) []string {
	var statements []string
	for statement := range strings.SplitSeq(file, ";\n") {
		if strings.TrimSpace(statement) != "" {
			statements = append(statements, statement)
		}
	}
	return statements
}

// beginner is a connection or a pool.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// errBuildAnew says that a table was emptied during a step, which is undone.
var errBuildAnew = errors.New("a table was emptied meanwhile")

// buildStep does one step of the build and returns the phase it found.
func buildStep(ctx context.Context, db beginner) (queries.BuildPhaseRow, error) {
	var build queries.BuildPhaseRow
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
		case phaseEmpty:
			return startBuild(ctx, tx, q)
		case phaseRows:
			copied, err := q.CopyCandidates(ctx, copyBatch)
			if err == nil && copied < 0 {
				return errBuildAnew
			}
			return err
		case phaseIndexes:
			return indexStep(ctx, tx, q, candidateIndexes(build.ByLister))
		}
		return nil
	})
	if err != nil && !errors.Is(err, errBuildAnew) {
		return build, fmt.Errorf("build candidates (%s): %w", build.Phase, err)
	}
	return build, nil
}

func startBuild(ctx context.Context, tx pgx.Tx, q *queries.Queries) error {
	indexes, err := collect[string](ctx, tx, `select indexrelid::regclass::text from pg_index
		where indrelid = 'scheduler_go.candidates'::regclass`)
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

// indexStep makes the next index that is missing, or finishes the build.
func indexStep(ctx context.Context, tx pgx.Tx, q *queries.Queries, statements []string) error {
	count := func() (n int, err error) {
		err = tx.QueryRow(ctx, "select count(*) from pg_index where indrelid = 'scheduler_go.candidates'::regclass").Scan(&n)
		return n, err
	}
	made, err := count()
	if err != nil {
		return err
	}
	if made < len(statements) {
		_, err := tx.Exec(ctx, "set local search_path = scheduler_go; set local maintenance_work_mem = '256MB'; "+statements[made])
		return err
	}
	if _, err := tx.Exec(ctx, "analyze scheduler_go.candidates"); err != nil {
		return err
	}
	finished, err := q.FinishBuild(ctx)
	if err == nil && finished == 0 {
		return errBuildAnew
	}
	return err
}

// buildCandidates builds candidates to the end, if they are not built, and tells
// how far it is.
func buildCandidates(ctx context.Context, db beginner, log *slog.Logger) error {
	var total int64
	began, told := time.Now(), time.Now()
	for steps := 0; ; steps++ {
		build, err := buildStep(ctx, db)
		if err != nil {
			return fmt.Errorf("%w; what is done stays done: run it again to go on", err)
		}
		if build.Phase == phaseReady {
			if steps > 0 {
				log.Info("candidates are built", "rows", build.Rows, "took", time.Since(began).Round(time.Millisecond))
			}
			return nil
		}
		if time.Since(told) < progressEvery {
			continue
		}
		told = time.Now()
		if total == 0 {
			if total, err = listedOriginsEstimate(ctx, db); err != nil {
				return err
			}
		}
		log.Info("building candidates", "phase", build.Phase, "rows", build.Rows, "of_about", total)
	}
}

// listedOriginsEstimate is about how many listed origins there are.
func listedOriginsEstimate(ctx context.Context, db beginner) (n int64, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "select greatest(reltuples, 0)::bigint from pg_class where oid = 'listed_origins'::regclass").Scan(&n)
	})
	return n, err
}

// buildListerIndexes makes the indexes of candidates by lister, which are built
// already, while others go on working with them. What an interrupted run left
// half-made is made anew.
func buildListerIndexes(ctx context.Context, conn *pgx.Conn, log *slog.Logger) error {
	if err := dropInvalidIndexes(ctx, conn); err != nil {
		return err
	}
	began := time.Now()
	all := statements(listerIndexesFile)
	for i, statement := range all {
		log.Info("building the indexes of candidates by lister", "index", i+1, "of", len(all))
		statement = strings.Replace(statement, "create index if", "create index concurrently if", 1)
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("build the indexes of candidates by lister: %w; what is done stays done: run it again to go on", err)
		}
	}
	log.Info("candidates have indexes by lister", "took", time.Since(began).Round(time.Millisecond))
	return queries.New(conn).KeepListerIndexes(ctx)
}

// dropInvalidIndexes drops what an interrupted concurrent build left.
func dropInvalidIndexes(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, `select indexrelid::regclass::text from pg_index
		where indrelid = 'scheduler_go.candidates'::regclass and not indisvalid`)
	if err != nil {
		return err
	}
	invalid, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, index := range invalid {
		if _, err := conn.Exec(ctx, "drop index concurrently "+index); err != nil {
			return err
		}
	}
	return nil
}
