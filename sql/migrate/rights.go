package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"swh-scheduler/sql/postgres"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// dashboards are the daemons that use the dashboard's sessions and begin its actions. Other daemons lack
// these rights, as they would allow to act as a person. So do clients of an RPC server's door, where the
// dashboard is read-only.
const dashboards = "rpc-serve dashboard"

// ofDashboards are the tables that only dashboards read.
const ofDashboards = "scheduler_go.sessions, scheduler_go.form_key"

// dashboardRights are the rights that only dashboards have.
var dashboardRights = []right{
	{"table", "SELECT INSERT UPDATE DELETE", "sessions", dashboards},
	{"table", "SELECT INSERT", "form_key", dashboards},
	{"table", "INSERT UPDATE", "actions", dashboards},
}

// keepers are the daemons that run all maintenance jobs on the database; senders are those that send. The
// listener runs only the jobs without origins.
const (
	senders = "start-runner start-runner-first-visits schedule-recurrent"
	keepers = senders + " journal-client rpc-serve"
	tasks   = keepers + " start-listener"
)

// ofOrigins are the daemons that read origins.
const ofOrigins = keepers + " dashboard update-metrics"

// Daemons are the commands with rights of their own, in the order of their table.
var Daemons = []string{
	"start-runner", "start-runner-first-visits", "schedule-recurrent", "start-listener", "journal-client", "rpc-serve", "dashboard", "update-metrics",
}

// A right is the set of privileges that daemons need on tables or sequences of one schema. Names may be
// patterns of LIKE.
type right struct{ kind, rights, names, daemons string } // by spaces; no daemons: all

// peerRights are the rights on the Python scheduler's tables and sequences.
var peerRights = []right{
	{"table", "SELECT", "dbversion dbmodule task_type task task_run listers scheduler_metrics", ""},
	{"table", "SELECT", "listed_origins origin_visit_stats visit_scheduler_queue_position", ofOrigins},
	{"table", "UPDATE", "task task_run", "start-runner start-listener rpc-serve dashboard"},
	{"table", "DELETE", "task task_run", "start-runner"},
	{"table", "INSERT", "task_run", "start-runner rpc-serve"},
	{"sequence", "USAGE", "task_run_id_seq", "start-runner rpc-serve"},
	{"table", "INSERT", "task task_type listed_origins listers", "rpc-serve"},
	{"sequence", "USAGE", "task_id_seq", "rpc-serve"},
	{"table", "UPDATE", "listers", "start-runner-first-visits rpc-serve"},
	{"table", "UPDATE", "listed_origins", "journal-client rpc-serve"},
	{"table", "INSERT UPDATE", "origin_visit_stats", "start-runner-first-visits schedule-recurrent journal-client rpc-serve"},
	{"table", "INSERT UPDATE", "visit_scheduler_queue_position", "schedule-recurrent rpc-serve"},
	{"table", "INSERT UPDATE", "scheduler_metrics", senders + " rpc-serve update-metrics"},
}

// ownRights are the rights on our schema. No daemon has the door's password, and only migrations record
// migrations.
var ownRights = []right{
	{"table", "SELECT", "%", keepers + " dashboard"},
	{"table", "SELECT", "migrations compatible", "update-metrics start-listener"},
	{"table", "SELECT", "configured_lanes daemons deliveries ended event_queues event_readers graph_changes graph_checks graph_dependencies graph_edges graph_gone " +
		"graph_keys graph_states graph_tasks graphs keeper lane_history lane_memory lane_sketches lane_timeouts low_water queue_looks rejected_events " +
		"refused_visits refusing_hosters run_durations run_starts share_charges shares walks work", "start-listener"},
	{"table", "INSERT UPDATE DELETE", "daemons", tasks + " dashboard"},

	// Maintenance.
	{"table", "INSERT UPDATE", "keeper walks", tasks},
	{"table", "INSERT UPDATE DELETE", "candidates", keepers},
	{"table", "INSERT UPDATE", "candidate_groups", keepers},
	{"table", "INSERT UPDATE DELETE", "ended_past errors figures running", keepers},
	{"table", "INSERT DELETE", "candidate_changes", keepers},
	{"table", "UPDATE", "candidate_build", keepers},
	{"table", "UPDATE DELETE", "hint_sources hints listings set_aside_tasks set_aside_origins", keepers},
	{"table", "UPDATE DELETE", "refused_visits", "schedule-recurrent"},
	{"table", "DELETE", "refusing_hosters", "schedule-recurrent " + dashboards},
	{"table", "INSERT", "graph_checks", tasks},
	{"table", "DELETE", "graphs graph_keys graph_tasks graph_edges graph_gone", tasks},
	{"table", "DELETE", "actions configured_lanes deliveries ended event_readers failures freshness held_visits lane_history lane_memory lane_sketches lane_timeouts " +
		"queue_looks rejected_events rejected_records run_durations run_starts share_charges share_history shares visit_turns", keepers},
	{"table", "INSERT UPDATE DELETE", "full_listings gone_origins", "journal-client rpc-serve"},
	{"sequence", "USAGE SELECT", "%_place_seq", keepers},

	// Work on its way out.
	{"table", "INSERT UPDATE DELETE", "work", senders},
	{"table", "INSERT UPDATE", "configured_lanes event_queues share_history shares", senders},
	{"table", "INSERT", "deliveries lane_history queue_looks share_charges", senders},
	{"table", "UPDATE", "lane_history low_water queue_looks", senders},
	{"table", "INSERT DELETE", "hoster_claims", senders + " rpc-serve"},
	{"table", "INSERT UPDATE", "sending", "start-runner"},
	{"table", "INSERT", "set_aside_tasks", "start-runner rpc-serve dashboard"},
	{"table", "INSERT", "set_aside_origins", keepers},

	// What becomes of it.
	{"table", "UPDATE", "work", "start-listener journal-client"},
	{"table", "DELETE", "work", "start-listener"},
	{"table", "SELECT", "held_visits", "start-listener"},
	{"table", "DELETE", "held_visits rejected_events", "start-listener"},
	{"table", "INSERT UPDATE", "ended", "start-listener journal-client"},
	{"table", "INSERT UPDATE", "event_queues event_readers lane_history lane_memory lane_sketches lane_timeouts refused_visits refusing_hosters run_starts", "start-listener"},
	{"table", "INSERT", "deliveries failures rejected_events run_durations share_charges", "start-listener"},
	{"table", "INSERT UPDATE", "freshness freshness_news visit_failures", "journal-client"},
	{"table", "INSERT", "held_visits rejected_records visit_turns", "journal-client"},

	// Visits by freshness.
	{"table", "INSERT UPDATE DELETE", "freshness_control", "schedule-recurrent"},
	{"table", "INSERT UPDATE", "freshness freshness_listers", "schedule-recurrent"},
	{"table", "DELETE", "freshness_listers freshness_news", "schedule-recurrent"},

	// Hints.
	{"table", "INSERT", "hint_sources hints", "rpc-serve"},

	// Graphs, and what is done to tasks by hand.
	{"table", "INSERT DELETE", "graph_changes graph_checks", "start-runner rpc-serve dashboard"},
	{"table", "UPDATE", "graph_tasks", "start-runner rpc-serve dashboard"},
	{"table", "INSERT", "graphs graph_keys graph_tasks graph_edges", "rpc-serve"},
	{"table", "UPDATE", "graphs", "rpc-serve dashboard"},
	{"table", "DELETE", "actions", "rpc-serve dashboard"},
	{"sequence", "USAGE SELECT", "graph_place_seq", "dashboard"},
}

// of reports whether a daemon, by its command, needs the right; "" matches any.
func (r right) of(daemon string) bool {
	return daemon == "" || r.daemons == "" || slices.Contains(strings.Fields(r.daemons), daemon)
}

// MissingRight is a set of rights that the user lacks on some objects.
type MissingRight struct {
	Kind    string   // schema, table, sequence or function
	Rights  []string // such as SELECT
	Objects []string // quoted, with their schema
	Daemons []string // commands of the daemons that need them; none: all
	named   bool     // a daemon needs them on these objects only
}

// many reports whether the objects are many of our schema.
func (l MissingRight) many() bool {
	return !l.named && len(l.Objects) > 3 && !slices.ContainsFunc(l.Objects, func(object string) bool { return !strings.HasPrefix(object, "scheduler_go.") })
}

// on lists the objects in SQL. If there are many of our schema, it says all of the kind, unless one daemon
// needs only these.
func (l MissingRight) on() string {
	if l.many() {
		return "all " + l.Kind + "s in schema scheduler_go"
	}
	return l.Kind + " " + strings.Join(l.Objects, ", ")
}

// Grant returns the statements that grant a user, who is quoted, the rights. Grants on all tables leave out
// the door's password and the dashboard's sessions.
func (l MissingRight) Grant(user string) string {
	statement := fmt.Sprintf("grant %s on %s to %s", strings.ToLower(strings.Join(l.Rights, ", ")), l.on(), user)
	if l.Kind == "table" && l.many() {
		statement += "; revoke all on table scheduler_go.door, " + ofDashboards + " from " + user
	}
	return statement
}

// RightsError lists the rights that the user lacks. The database is reachable.
type RightsError struct {
	User    string // quoted
	Missing []MissingRight
	err     error // of the failed statement, or nil
}

func (e *RightsError) Error() string {
	parts := make([]string, len(e.Missing))
	for i, l := range e.Missing {
		of := ""
		if len(l.Daemons) > 0 {
			of = " (needed by " + strings.Join(l.Daemons, ", ") + ")"
		}
		parts[i] = fmt.Sprintf("%s on %s%s: %s", strings.Join(l.Rights, ", "), l.on(), of, l.Grant(e.User))
	}
	return fmt.Sprintf("its user %s lacks rights, which the owner can grant: %s", e.User, strings.Join(parts, "; "))
}

func (e *RightsError) Unwrap() error { return e.err }

// CheckUsable is CheckVersion and CheckRights. If the user may not even read the version, the error lists
// all missing rights.
func (s Checks) CheckUsable(ctx context.Context, daemon string) error {
	err := s.CheckVersion(ctx)
	if err != nil && postgres.SQLState(err) != insufficientPrivilege {
		return err
	}
	return cmp.Or(s.CheckRights(ctx, daemon), err)
}

const insufficientPrivilege = "42501"

// CheckRights returns a RightsError if the user lacks a right that the daemon needs, by its command; "" is
// any daemon.
func (s Checks) CheckRights(ctx context.Context, daemon string) error {
	user, lacks, err := s.lacks(ctx, daemon)
	if err != nil {
		return fmt.Errorf("ask which rights the database's user has: %w", err)
	}
	if len(lacks) > 0 {
		return &RightsError{User: user, Missing: lacks}
	}
	return nil
}

var deniedTo = regexp.MustCompile(`^permission denied for (schema|table|view|sequence|function) (\S+)$`)

// Denied returns err as a RightsError if PostgreSQL denied a right on an object. Otherwise, or if the
// missing rights can't be determined, it returns err.
func (s Checks) Denied(ctx context.Context, err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code != insufficientPrivilege {
		return err
	}
	m := deniedTo.FindStringSubmatch(pg.Message)
	user, lacks, askErr := s.lacks(ctx, "")
	if m == nil || askErr != nil {
		return err
	}
	kind := strings.Replace(m[1], "view", "table", 1)
	lacks = slices.DeleteFunc(lacks, func(l MissingRight) bool {
		return l.Kind != kind || !slices.ContainsFunc(l.Objects, func(object string) bool {
			name, _, _ := strings.Cut(object[strings.IndexByte(object, '.')+1:], "(")
			return strings.Trim(name, `"`) == m[2]
		})
	})
	if len(lacks) == 0 {
		return err
	}
	return &RightsError{User: user, Missing: lacks, err: err}
}

// lacks returns the session's user, quoted, and the rights that it lacks.
func (s Checks) lacks(ctx context.Context, daemon string) (user string, lacks []MissingRight, err error) {
	needed := listed("public", peerRights, daemon)
	if daemon != "" {
		needed = append(needed, listed("scheduler_go", ownRights, daemon)...)
	}
	if !s.db.IsProxied() {
		needed = append(needed, listed("scheduler_go", dashboardRights, daemon)...)
	}
	rows, err := s.db.Pool().Query(ctx, missingRights, column(needed, 0), column(needed, 1), column(needed, 2), column(needed, 3), column(needed, 4), daemon == "")
	if err != nil {
		return "", nil, err
	}
	type row struct {
		User, Kind, Object, Daemons string
		Own                         bool // it is of our schema
		Rights                      []string
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	var last row
	for _, r := range found {
		if r.Kind == last.Kind && r.Daemons == last.Daemons && r.Own == last.Own && slices.Equal(r.Rights, last.Rights) {
			l := &lacks[len(lacks)-1]
			l.Objects = append(l.Objects, r.Object)
		} else {
			lacks = append(lacks, MissingRight{Kind: r.Kind, Rights: r.Rights, Objects: []string{r.Object}, Daemons: strings.Fields(r.Daemons), named: daemon != ""})
		}
		last, user = r, r.User
	}
	return user, lacks, err
}

// listed returns the rights that a daemon needs on a schema, one a row: kind, right, schema, name and
// daemons. Rights of one daemon on our schema have no daemons.
func listed(schema string, needed []right, daemon string) (rows [][5]string) {
	for _, r := range needed {
		if !r.of(daemon) {
			continue
		}
		by := r.daemons
		if schema == "scheduler_go" && daemon != "" {
			by = ""
		}
		for right := range strings.FieldsSeq(r.rights) {
			for name := range strings.FieldsSeq(r.names) {
				rows = append(rows, [5]string{r.kind, right, schema, name, by})
			}
		}
	}
	return rows
}

func column(rows [][5]string, i int) []string {
	values := make([]string, len(rows))
	for n, row := range rows {
		values[n] = row[i]
	}
	return values
}

// neededObjects joins the rows of listed, by columns, with the tables and sequences.
const neededObjects = `unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) w(kind, "right", schema, name, daemons)
		join pg_catalog.pg_namespace n on n.nspname = w.schema
		join pg_catalog.pg_class c on c.relnamespace = n.oid and (c.relname = w.name or c.relname like w.name and c.relname not in ('door', 'sessions', 'form_key'))
			and case w.kind when 'table' then c.relkind in ('r', 'p', 'v') else c.relkind = 'S' end`

// missingRights reads catalogues only, which any user may read. Functions of triggers need no right.
// Sequences of identity columns need none, except for the places of the low-water marks.
const missingRights = `
	with own as (
		select c.oid, n.nspname, c.relname, c.relkind from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = 'scheduler_go'
	), needed as (
		select 'schema' as kind, quote_ident(nspname) as object, 'USAGE' as "right", has_schema_privilege(oid, 'USAGE') as granted, '' as daemons, false as own
		from pg_namespace where nspname in ('public', 'scheduler_go')
		union all
		select 'table', format('%I.%I', nspname, relname), p, has_table_privilege(oid, p), '', true
		from own cross join unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p
		where $6 and relname not in ('door', 'sessions', 'form_key') and (relname <> 'actions' or p in ('SELECT', 'DELETE'))
			and (relkind in ('r', 'p') and relname not in ('migrations', 'compatible') or relkind in ('r', 'p', 'v') and p = 'SELECT')
		union all
		select 'sequence', format('%I.%I', nspname, relname), p, has_sequence_privilege(oid, p), '', true
		from own cross join unnest('{USAGE,SELECT}'::text[]) p where $6 and relkind = 'S' and relname like '%\_place\_seq'
		union all
		select 'function', format('%I.%I(%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)), 'EXECUTE', has_function_privilege(p.oid, 'EXECUTE'), '', true
		from pg_proc p join pg_namespace n on n.oid = p.pronamespace
		where p.prorettype <> 'trigger'::regtype and not p.prosecdef and n.nspname = 'scheduler_go'
		union all
		select distinct w.kind, format('%I.%I', n.nspname, c.relname), w.right,
			case w.kind when 'table' then has_table_privilege(c.oid, w.right) else has_sequence_privilege(c.oid, w.right) end, w.daemons, n.nspname = 'scheduler_go'
		from ` + neededObjects + `
	), objects as (
		select kind, object, daemons, own, array_agg("right" order by array_position('{SELECT,INSERT,UPDATE,DELETE,USAGE,EXECUTE}', "right")) filter (where not granted) as rights
		from needed group by kind, object, daemons, own
	)
	select quote_ident(current_user), kind, object, daemons, own, rights from objects where rights is not null
	order by own, array_position('{schema,table,sequence,function}', kind), daemons, rights, object`
