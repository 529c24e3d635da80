package db

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/model"
)

// sharesNeed is what the database needs to find the work of each group of shares, and of
// each lister beside hosters that take no more.
type sharesNeed struct {
	byLister bool             // candidates by lister
	tasks    []model.ShareKey // indexes of ready tasks by these keys
}

func needOf(shares map[string]model.Shares, hosters model.Hosters) (need sharesNeed) {
	need.byLister = hosters.Any()
	for taskType, s := range shares {
		if model.Prefixed(taskType) {
			continue // no tasks go there, and first visits have each lister's candidates looked up
		}
		if _, visits := model.LoadedVisitType(taskType); visits && s.By.OfVisits() {
			need.byLister = true
		}
		if s.By != model.ShareByTaskType {
			need.tasks = append(need.tasks, s.By)
		}
	}
	slices.Sort(need.tasks)
	need.tasks = slices.Compact(need.tasks)
	return need
}

// ownIndexPrefix is what the names of our indexes on the peer's tables begin with.
const ownIndexPrefix = "scheduler_go_"

// taskGroupIndex is the name of the index on ready tasks by group. It is in the peer's
// schema; Remove drops it.
func taskGroupIndex(by model.ShareKey) string {
	return ownIndexPrefix + "task_by_" + strings.ReplaceAll(string(by), ".", "_")
}

// buildForShares creates the indexes that shares and hosters need and the database lacks,
// concurrently with other work.
func buildForShares(ctx context.Context, conn *pgx.Conn, need sharesNeed, log *slog.Logger) error {
	missing, err := missingForShares(ctx, conn, need)
	if err != nil {
		return err
	}
	if missing.byLister {
		if err := buildListerIndexes(ctx, conn, log); err != nil {
			return err
		}
	}
	for _, by := range missing.tasks {
		name := taskGroupIndex(by)
		quoted := pgx.Identifier{"public", name}.Sanitize()
		log.Info("building the index of ready tasks by group", "by", by)
		// An interrupted run may have left it half-made.
		if _, err := conn.Exec(ctx, "drop index concurrently if exists "+quoted); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "create index concurrently "+pgx.Identifier{name}.Sanitize()+" on public.task (type, ("+taskGroup(by)+
			"), next_run) where status = 'next_run_not_scheduled' and priority is null")
		if err != nil {
			return fmt.Errorf("build the index of ready tasks by %s: %w", by, err)
		}
	}
	return nil
}

func missingForShares(ctx context.Context, db querier, need sharesNeed) (sharesNeed, error) {
	var missing sharesNeed
	if need.byLister {
		var made bool
		if err := db.QueryRow(ctx, "select by_lister from scheduler_go.candidate_build").Scan(&made); err != nil {
			return missing, err
		}
		missing.byLister = !made
	}
	for _, by := range need.tasks {
		var made bool
		err := db.QueryRow(ctx, `select exists (select from pg_index
			where indexrelid = to_regclass($1) and indisvalid)`, pgx.Identifier{"public", taskGroupIndex(by)}.Sanitize()).Scan(&made)
		if err != nil {
			return missing, err
		}
		if !made {
			missing.tasks = append(missing.tasks, by)
		}
	}
	return missing, nil
}

// CheckShares returns an error that says what to do if the database lacks indexes that
// shares need.
func (s ShareStore) CheckShares(ctx context.Context, shares map[string]model.Shares) error {
	missing, err := missingForShares(ctx, s.pool, needOf(shares, model.Hosters{}))
	if err != nil {
		return fmt.Errorf("look for the indexes that shares need: %w", err)
	}
	if missing.byLister || len(missing.tasks) > 0 {
		return fmt.Errorf("the database lacks indexes that the configuration's shares need: " +
			"run swh-scheduler migrate with this configuration (others can go on meanwhile)")
	}
	return nil
}
