package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/graphs"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// The searches serve the dashboard. A page never scans a whole table: it reads a bounded number of rows in
// the order of an index, and returns the place where it stopped.

const (
	// searchedOrigins bounds the origins that a page reads. A collation may ignore some characters; then
	// other URLs lie between those with the prefix.
	searchedOrigins = 200
	// searchedListers and searchedFailures bound OriginsByPart.
	searchedListers, searchedFailures = 1000, 10_000
	// searchTime bounds a page with large rows or a slow disk.
	searchTime = 5 * time.Second
)

// ErrSearchTooLong reports that a page of a search took too long.
var ErrSearchTooLong = errors.New("this search takes too long here; ask for less, such as one type of tasks, or a short time")

// TaskSearch is a search for tasks. An empty field is no condition.
type TaskSearch struct {
	IDs      []int64            `json:"ids,omitempty"`
	Types    []string           `json:"types,omitempty"`
	Statuses []model.TaskStatus `json:"statuses,omitempty"`
	Graph    int64              `json:"graph,omitempty"` // the graph of the tasks
	// Exception is the class of the exception of the task's last run ("": it had none). The search finds
	// tasks among the last 10,000 such failures of each type. It needs Types.
	Exception  *string              `json:"exception,omitempty"`
	Priorities []model.TaskPriority `json:"priorities,omitempty"`
	Policy     model.TaskPolicy     `json:"policy,omitempty"`
	After      *time.Time           `json:"after,omitempty"`  // next run then or later
	Before     *time.Time           `json:"before,omitempty"` // next run before then
	// Arguments is the object of a task's args and kwargs. It matches tasks with exactly these arguments;
	// with Containing, also tasks with further ones.
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Containing bool            `json:"containing,omitempty"`
}

// String returns the search as JSON.
func (f TaskSearch) String() string {
	text, _ := json.Marshal(f) // all fields can be encoded
	return string(text)
}

// FoundTask is a task in a list.
type FoundTask struct {
	ID          int64              `json:"id"`
	Type        string             `json:"type"`
	Status      model.TaskStatus   `json:"status"`
	Policy      model.TaskPolicy   `json:"policy"`
	Priority    model.TaskPriority `json:"priority"`
	NextRun     *time.Time         `json:"next_run"` // nil: infinite
	RetriesLeft int64              `json:"retries_left"`
	Arguments   string             `json:"arguments"` // the first 300 characters of the JSON text
}

// Found is a page of tasks, the newest first.
type Found struct {
	Tasks []FoundTask `json:"tasks"`
	Next  int64       `json:"next"` // the next page has numbers below it; 0: last page
	// Partial is whether the page ended before it was full, after its bound of tasks.
	Partial bool `json:"partial"`
}

// FindTasks returns up to limit tasks with numbers below the given one (0: all). It reads the next 4,000 tasks. If
// these are not enough, it reads all that meet an indexed condition, if they are fewer than 20,000; otherwise the next
// 20,000 tasks. It returns ErrSearchTooLong after five seconds.
func (s SearchStore) FindTasks(ctx context.Context, f TaskSearch, below int64, limit int) (found Found, err error) {
	err = s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		found, err = tx.findTasks(ctx, f, below, limit)
		return err
	})
	return found, err
}

func (tx *Tx) findTasks(ctx context.Context, f TaskSearch, below int64, limit int) (found Found, err error) {
	defer func() {
		if postgres.TimedOut(err) && ctx.Err() == nil {
			err = ErrSearchTooLong
		}
		err = stmt.Failed(err, "search tasks")
	}()
	if below <= 0 {
		below = 1<<63 - 1
	}
	if _, err := tx.Raw.Exec(ctx, `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
		set_config('statement_timeout', $1, true)`, fmt.Sprint(searchTime.Milliseconds())); err != nil {
		return found, err
	}
	q := taskQuery{args: pgx.NamedArgs{"below": below, "scanned": graphs.SearchedTasks, "limit": limit}}
	q.of(f)
	numbers := "select id from task where id < @below order by id desc limit @scanned"
	among, few := strings.Replace(numbers, "id", "*", 1), ""
	if f.Graph > 0 { // the graph's next 20,000 tasks
		q.args["graph"] = f.Graph
		numbers = "select task as id from scheduler_go.graph_tasks where graph = @graph and task < @below order by task desc limit @scanned"
		among = "select t.* from (" + numbers + ") n join task t using (id)"
	} else if f.Exception != nil {
		q.args["exception"] = *f.Exception
		numbers = `select f.task as id from (select distinct task from scheduler_go.failures
			where type = any(@types::text[]) and exception = @exception and task < @below) f order by f.task desc limit @scanned`
		among = "select t.* from (" + numbers + ") n join task t using (id)"
		q.where = append(q.where, "(select r.status in ('failed', 'permfailed', 'lost') from task_run r where r.task = t.id order by r.id desc limit 1)")
	} else {
		if q.common(f) {
			q.args["scanned"] = graphs.SearchedTasks / 5
			if found, err = q.find(ctx, tx.Raw, among, limit); err != nil || len(found.Tasks) == limit {
				return found, err
			}
			q.args["scanned"] = graphs.SearchedTasks
		}
		if few, err = q.selective(ctx, tx.Raw); err != nil {
			return found, err
		}
	}
	if few != "" {
		among = "select * from task where id < @below and " + few + " offset 0" // offset 0 keeps the subquery apart, so the planner uses this index
	}
	if found, err = q.find(ctx, tx.Raw, among, limit); err != nil || len(found.Tasks) == limit || few != "" {
		return found, err
	}
	err = tx.Raw.QueryRow(ctx, `select case when count(*) = @scanned then min(id) else 0 end
		from (`+numbers+`) t`, q.args).Scan(&found.Next)
	found.Partial = found.Next > 0
	return found, err
}

// taskQuery is a search in SQL: all conditions, and those with an index on task.
type taskQuery struct {
	where, indexed []string
	args           pgx.NamedArgs
}

func (q *taskQuery) of(f TaskSearch) {
	add := func(indexed bool, condition, name string, value any) {
		q.where = append(q.where, condition)
		q.args[name] = value
		if indexed {
			q.indexed = append(q.indexed, condition)
		}
	}
	if len(f.IDs) > 0 {
		add(true, "id = any(@ids::bigint[])", "ids", f.IDs)
	}
	if len(f.Arguments) > 0 {
		add(false, "arguments @> @arguments::jsonb", "arguments", f.Arguments)
		if !f.Containing {
			types := "array(select type from task_type)"
			if len(f.Types) > 0 {
				types = "@types::text[]"
			}
			exact := "type = any(" + types + ") and md5(arguments::text) = md5((@arguments::jsonb)::text)"
			q.where, q.indexed = append(q.where, exact), append(q.indexed, exact)
		}
	}
	if len(f.Types) > 0 {
		add(true, "type = any(@types::text[])", "types", f.Types)
	}
	if len(f.Statuses) > 0 {
		add(false, "status = any(@statuses::text[]::task_status[])", "statuses", stmt.TextsOf(f.Statuses))
	}
	if len(f.Types) > 0 && len(f.Statuses) == 1 && f.Statuses[0] == model.TaskNotScheduled {
		q.indexed = append(q.indexed, "type = any(@types::text[]) and status = 'next_run_not_scheduled'")
	}
	if len(f.Priorities) > 0 {
		add(true, "priority = any(@priorities::text[]::task_priority[])", "priorities", stmt.TextsOf(f.Priorities))
	}
	if f.Policy != "" {
		add(false, "policy = @policy::text::task_policy", "policy", string(f.Policy))
	}
	if f.After != nil || f.Before != nil {
		add(true, "next_run >= coalesce(@after::timestamptz, '-infinity') and next_run < coalesce(@before::timestamptz, 'infinity')", "after", f.After)
		q.args["before"] = f.Before
	}
}

// common reports whether the newest tasks probably have a page of those that are searched, and are cheap to check.
func (q *taskQuery) common(f TaskSearch) bool {
	return len(q.indexed) > 0 && len(f.IDs) == 0 && len(f.Arguments) == 0
}

// find returns the first limit tasks of a subquery that meet all conditions, with the next page if there are so many.
func (q *taskQuery) find(ctx context.Context, tx pgx.Tx, among string, limit int) (found Found, err error) {
	found.Tasks, err = stmt.Rows[FoundTask](ctx, tx, `select id, type, status, policy, coalesce(priority::text, ''), case when isfinite(next_run) then next_run end, retries_left,
		left(arguments::text, 300)
		from (`+among+`) t where `+strings.Join(append(q.where, "true"), " and ")+` order by id desc limit @limit`, q.args)
	if n := len(found.Tasks); n == limit && err == nil {
		found.Next = found.Tasks[n-1].ID
	}
	return found, err
}

// selective returns an indexed condition that fewer than graphs.SearchedTasks tasks meet, or "" if there is
// none.
func (q *taskQuery) selective(ctx context.Context, tx pgx.Tx) (string, error) {
	for _, condition := range q.indexed {
		var n int
		if err := tx.QueryRow(ctx, "select count(*) from (select from task where "+condition+" limit @scanned) t", q.args).Scan(&n); err != nil {
			return "", err
		}
		if n < graphs.SearchedTasks {
			return condition, nil
		}
	}
	return "", nil
}

// FoundOrigin is a listed origin in a list. Infinite dates are nil.
type FoundOrigin struct {
	URL           string             `json:"url"`
	VisitType     string             `json:"visit_type"`
	ListerID      uuid.UUID          `json:"lister_id"`
	Lister        string             `json:"lister"`
	InstanceName  string             `json:"instance_name"`
	Enabled       bool               `json:"enabled"`
	LastUpdate    *time.Time         `json:"last_update"`
	LastVisit     *time.Time         `json:"last_visit"`
	Status        *model.VisitStatus `json:"last_visit_status"`
	LastScheduled *time.Time         `json:"last_scheduled"`
}

// OriginPlace is the last origin of a page.
type OriginPlace struct {
	URL, VisitType string
	Lister         uuid.UUID
}

// FindOrigins returns up to limit listed origins whose URLs have the prefix, in the database's collation
// order. next is where the next page begins, nil after the last page.
func (s SearchStore) FindOrigins(ctx context.Context, prefix string, after *OriginPlace, limit int) (found []FoundOrigin, next *OriginPlace, err error) {
	if after == nil {
		after = &OriginPlace{URL: prefix}
	}
	scanned, err := s.origins(ctx, "(url, visit_type, lister_id) > ($2, $3, $4)", searchedOrigins, after.URL, after.VisitType, after.Lister)
	if err != nil {
		return nil, nil, err
	}
	for _, o := range scanned {
		if !strings.HasPrefix(o.URL, prefix) {
			continue
		}
		if found = append(found, o); len(found) == limit {
			return found, &OriginPlace{o.URL, o.VisitType, o.ListerID}, nil
		}
	}
	if n := len(scanned); n == searchedOrigins && strings.HasPrefix(scanned[n-1].URL, prefix) {
		last := scanned[n-1]
		next = &OriginPlace{last.URL, last.VisitType, last.ListerID}
	}
	return found, next, nil
}

// OriginsByPart returns up to limit URLs of origins that have a part, without reading all origins. It searches URLs whose
// paths begin with the part, on the hosts of the first and the last origin of up to searchedListers listers. It also
// searches the origins of the last searchedFailures failures for the part anywhere.
func (s SearchStore) OriginsByPart(ctx context.Context, part string, limit int) ([]string, error) {
	urls, err := stmt.Column[string](ctx, s.db.Pool(), `
with roots as materialized (
	select distinct substring(f.url from '^[a-z+.-]+://[^/]*/') as root
	from (select id from listers order by id limit $3) l
	cross join lateral (
		(select o.url from listed_origins o where o.lister_id = l.id order by o.url limit 1)
		union all
		(select o.url from listed_origins o where o.lister_id = l.id order by o.url desc limit 1)) f
)
select url from (
	select o.url from roots r cross join lateral (
		(select e.url from listed_origins e where e.url = r.root || $1 limit 1)
		union all
		(select b.url from listed_origins b where b.url >= r.root || $1 order by b.url limit 5)) o
	where starts_with(o.url, r.root || $1)
	union
	select f.url from (select n.url from scheduler_go.failures n order by n.id desc limit $4) f where strpos(f.url, $1) > 0
) found
order by url limit $2`, part, limit, searchedListers, searchedFailures)
	return urls, stmt.Failed(err, "search origins by a part of their URLs")
}

// OriginsOf returns up to limit listed origins with the URL, of all visit types and listers.
func (s SearchStore) OriginsOf(ctx context.Context, url string, limit int) ([]FoundOrigin, error) {
	return s.origins(ctx, "url = $2", limit, url)
}

// origins returns the first listed origins that meet a condition with the parameters $2 and up, in the
// database's collation order.
func (s SearchStore) origins(ctx context.Context, condition string, limit int, args ...any) ([]FoundOrigin, error) {
	// sqlc types a nullable case expression as not null.
	found, err := stmt.Rows[FoundOrigin](ctx, s.db.Pool(), `
select o.url, o.visit_type, o.lister_id, l.name, l.instance_name, o.enabled, case when isfinite(o.last_update) then o.last_update end,
       case when isfinite(v.last_visit) then v.last_visit end, v.last_visit_status, case when isfinite(v.last_scheduled) then v.last_scheduled end
from (select * from listed_origins where `+condition+` order by url, visit_type, lister_id limit $1) o
join listers l on l.id = o.lister_id
left join origin_visit_stats v on v.url = o.url and v.visit_type = o.visit_type
order by o.url, o.visit_type, o.lister_id`, append([]any{limit}, args...)...)
	return found, stmt.Failed(err, "search origins")
}

// CeleryID is the owner of a Celery task id: the task of a run, or the origin of work in the ledger (then
// Task is 0).
type CeleryID = queries.OfCeleryIDRow

// OfCeleryID returns the owners of a Celery task id.
func (s SearchStore) OfCeleryID(ctx context.Context, id string) ([]CeleryID, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return nil, err
	}
	rows, err := s.q.OfCeleryID(ctx, queries.OfCeleryIDParams{BackendID: parsed.String(), TaskID: parsed})
	return rows, stmt.Failed(err, "find Celery's id %s", id)
}
