package migrate

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/candidates"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// need is the indexes and columns that a configuration needs.
type need struct {
	candidates.Need
	tasks   []taskIndex
	indexes bool // indexes of candidates that should exist already
}

func needOf(shares map[string]model.Shares, hosters model.Hosters, policies map[string][]model.WeightedPolicy) (need need) {
	need.ByLister, need.ByFreshness = hosters.Any(), model.HasFreshness(policies)
	for _, list := range policies {
		for _, p := range list {
			need.ByFork = need.ByFork || p.Forks > 0
			need.ByCooldown = need.ByCooldown || len(p.Filter.Cooldowns.Shorter()) > 0
		}
	}
	for taskType, s := range shares {
		if model.Prefixed(taskType) {
			continue // no task goes there, and first visits read candidates by lister
		}
		if _, visits := model.LoadedVisitType(taskType); visits && s.By.OfVisits() {
			need.ByLister = true
		}
		if index := ofGroups(s.By); s.By != model.ShareByTaskType && !slices.Contains(need.tasks, index) {
			need.tasks = append(need.tasks, index)
		}
	}
	return need
}

// ownIndexPrefix is the prefix of our indexes on the Python scheduler's tables.
const ownIndexPrefix = "scheduler_go_"

// TaskGroup returns the SQL expression of a task's group, which ofGroups indexes. Its only input is a
// name of letters, digits and _.
func TaskGroup(by model.ShareKey) string {
	kwarg := func(name string) string {
		return fmt.Sprintf("coalesce(left(arguments #>> '{kwargs,%s}', %d), '')", name, model.MaxGroupArgument)
	}
	switch by {
	case model.ShareByLister:
		return kwarg("lister_name")
	case model.ShareByListerInstance:
		return "(" + kwarg("lister_name") + " || '/' || " + kwarg("lister_instance_name") + ")"
	}
	name, _ := by.Kwarg()
	return kwarg(name)
}

// taskIndex is an index of some ready tasks. It is in the Python scheduler's schema; Remove drops it. Its texts are made of
// fixed parts and TaskGroup.
type taskIndex struct {
	name, columns, of string
	has               string // a part of its definition that an older version's index of that name lacks
}

// ofPriority is the index of ready tasks with priority. Without it, a look for them would read all ready tasks, or
// all tasks that ever had a priority.
var ofPriority = taskIndex{ownIndexPrefix + "task_with_priority", "type, next_run", "priority is not null", ""}

// ofGroups returns the index of ready tasks by group.
func ofGroups(by model.ShareKey) taskIndex {
	return taskIndex{ownIndexPrefix + "task_by_" + strings.ReplaceAll(string(by), ".", "_"), "type, (" + TaskGroup(by) + "), next_run", "priority is null", `"left"(`}
}

// inWords names the indexes of a need.
func (n need) inWords() (indexes []string) {
	if n.ByLister || n.ByCooldown || n.indexes {
		indexes = append(indexes, "indexes of candidates")
	}
	for _, index := range n.tasks {
		indexes = append(indexes, "index "+index.name+" of ready tasks")
	}
	return indexes
}

// buildIndexes creates the missing indexes of candidates and tasks concurrently.
func buildIndexes(ctx context.Context, conn *pgx.Conn, missing need, log *slog.Logger) error {
	if missing.ByLister || missing.ByCooldown || missing.indexes {
		if err := candidates.BuildIndexes(ctx, conn, missing.Need, log); err != nil {
			return err
		}
	}
	for _, index := range missing.tasks {
		log.Info("building an index of ready tasks", "index", index.name)
		// An interrupted run may have left an invalid index, and an older version has another one of that name.
		if _, err := conn.Exec(ctx, "drop index concurrently if exists "+pgx.Identifier{"public", index.name}.Sanitize()); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "create index concurrently "+pgx.Identifier{index.name}.Sanitize()+" on public.task ("+index.columns+
			") where status = 'next_run_not_scheduled' and "+index.of)
		if err != nil {
			return fmt.Errorf("build the index %s of ready tasks: %w", index.name, err)
		}
	}
	return nil
}

// invalidIndexes returns our invalid indexes, with their schemas: their concurrent creation was
// interrupted. PostgreSQL doesn't use them, but maintains them at each write.
func invalidIndexes(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	return stmt.Column[string](ctx, conn, `
		select format('%I.%I', n.nspname, i.relname)
		from pg_index x
		join pg_class i on i.oid = x.indexrelid
		join pg_class t on t.oid = x.indrelid
		join pg_namespace n on n.oid = i.relnamespace
		where not x.indisvalid
		  and (n.nspname = 'scheduler_go' or n.nspname = 'public' and t.relname = 'task' and starts_with(i.relname, $1))
		order by 1`, ownIndexPrefix)
}

// dropInvalidIndexes drops invalid indexes concurrently. The caller holds the lock of migrations, so no
// other process builds them.
func dropInvalidIndexes(ctx context.Context, conn *pgx.Conn, log *slog.Logger) ([]string, error) {
	invalid, err := invalidIndexes(ctx, conn)
	for _, index := range invalid {
		log.Info("dropping an index that an interrupted run left", "index", index)
		if _, err := conn.Exec(ctx, "drop index concurrently if exists "+index); err != nil {
			return nil, fmt.Errorf("drop the index %s, which an interrupted run left: %w", index, err)
		}
	}
	return invalid, err
}

func missingOf(ctx context.Context, db queries.DBTX, need need) (missing need, err error) {
	if need.ByLister || need.ByFork || need.ByFreshness || need.ByCooldown {
		build, err := queries.New(db).BuildPhase(ctx)
		if err != nil {
			return missing, err
		}
		has := candidates.Has(build)
		missing.ByLister, missing.ByFork = need.ByLister && !has.ByLister, need.ByFork && !has.ByFork
		missing.ByFreshness, missing.ByCooldown = need.ByFreshness && !has.ByFreshness, need.ByCooldown && !has.ByCooldown
		if build.Phase == candidates.PhaseReady {
			lacking, err := candidates.MissingIndexes(ctx, db, has)
			if err != nil {
				return missing, err
			}
			missing.indexes = len(lacking) > 0
		}
	}
	for _, index := range need.tasks {
		var made bool
		err := db.QueryRow(ctx, `select exists (select from pg_index
			where indexrelid = to_regclass($1) and indisvalid and strpos(pg_get_indexdef(indexrelid), $2) > 0)`, pgx.Identifier{"public", index.name}.Sanitize(), index.has).Scan(&made)
		if err != nil {
			return missing, err
		}
		if !made {
			missing.tasks = append(missing.tasks, index)
		}
	}
	return missing, nil
}

// CheckShares returns an error with the remedy if the database lacks indexes for shares.
func (s Checks) CheckShares(ctx context.Context, shares map[string]model.Shares) error {
	return check(ctx, s.db.Pool(), needOf(shares, model.Hosters{}, nil), "indexes that the configuration's shares need")
}

// CheckPolicies returns an error with the remedy if the database lacks indexes or columns for policies.
func (s Checks) CheckPolicies(ctx context.Context, policies map[string][]model.WeightedPolicy) error {
	return check(ctx, s.db.Pool(), needOf(nil, model.Hosters{}, policies), "what the configuration's scheduling_policy needs")
}

// check ignores indexes for shorter cooldowns: without them grabs are slower, but work.
func check(ctx context.Context, db queries.DBTX, need need, what string) error {
	missing, err := missingOf(ctx, db, need)
	if err != nil {
		return fmt.Errorf("find %s: %w", what, err)
	}
	if missing.ByLister || missing.ByFork || missing.ByFreshness || missing.indexes || len(missing.tasks) > 0 {
		return fmt.Errorf(`the database lacks %s: run "swh-scheduler migrate" with this configuration (others can go on meanwhile)`, what)
	}
	return nil
}
