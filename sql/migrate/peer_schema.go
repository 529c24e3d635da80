package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	schema "swh-scheduler/sql"
	"swh-scheduler/sql/internal/stmt"
)

// peerFunctions are the functions of the Python scheduler that this program calls, directly or by triggers.
var peerFunctions = []string{
	"swh_scheduler_mktemp_task", "swh_scheduler_create_tasks_from_temp", "swh_scheduler_update_task_on_task_end",
	"swh_scheduler_delete_archived_tasks", "update_metrics",
}

// peerFacts lists the parts of the Python scheduler's schema that this program uses. A line has a column, a
// value of an enumeration, a unique key, a trigger, or a function with a hash of its text. A column that an
// insert must set has the suffix " required".
func peerFacts(ctx context.Context, db stmt.Session) ([]string, error) {
	facts, err := stmt.Column[string](ctx, db, `
		with tables as (select oid, relname from pg_class where relnamespace = 'public'::regnamespace and relname = any($1))
		select format('column %s.%s %s', relname, attname, format_type(atttypid, atttypmod))
		  || case when attnotnull and not atthasdef and attidentity = '' then ' required' else '' end
		  from pg_attribute join tables on oid = attrelid where attnum > 0 and not attisdropped
		union all
		select format('value %s %s', typname, enumlabel)
		  from pg_enum e join pg_type t on t.oid = enumtypid where typnamespace = 'public'::regnamespace
		union all
		select format('unique %s (%s)', relname, (
		    select string_agg(attname, ', ' order by place) from unnest(indkey) with ordinality k (n, place)
		    join pg_attribute a on a.attrelid = indrelid and attnum = n))
		  from pg_index join tables on oid = indrelid where indisunique and indpred is null
		union all
		select 'trigger ' || pg_get_triggerdef(t.oid)
		  from pg_trigger t join tables on tables.oid = tgrelid where not tgisinternal and tgname not like 'scheduler_go%'
		union all
		select format('function %s(%s) %s', proname, pg_get_function_identity_arguments(oid), md5(regexp_replace(prosrc, '\s+', ' ', 'g')))
		  from pg_proc where pronamespace = 'public'::regnamespace and proname = any($2)`, peerTables, peerFunctions)
	slices.Sort(facts)
	return facts, stmt.Failed(err, "read the scheduler's schema")
}

// peerDifferences compares a database's schema with the one that this program uses (sql/base/used.txt). It
// lists what is missing, differs, or would make our inserts fail. Additions of a newer version do no harm.
func peerDifferences(ctx context.Context, db stmt.Session) ([]string, error) {
	facts, err := peerFacts(ctx, db)
	if err != nil {
		return nil, err
	}
	has := make(map[string]string) // by subject
	for _, fact := range facts {
		has[subject(fact)] = fact
	}
	want := make(map[string][]string) // a function has one of two texts: the Python scheduler's or the one in sql/base
	for fact := range strings.Lines(schema.Used) {
		fact = strings.TrimSpace(fact)
		want[subject(fact)] = append(want[subject(fact)], fact)
	}
	var differences []string
	for _, about := range slices.Sorted(maps.Keys(want)) {
		switch fact, found := has[about]; {
		case slices.Contains(want[about], fact):
		case !found:
			differences = append(differences, about+" is missing")
		case strings.HasPrefix(about, "function "):
			differences = append(differences, about+" is another")
		default:
			differences = append(differences, fmt.Sprintf("%q is now %q", want[about][0], fact))
		}
	}
	for _, about := range slices.Sorted(maps.Keys(has)) {
		if fact := has[about]; want[about] == nil && strings.HasSuffix(fact, " required") {
			differences = append(differences, about+" is new and has no default")
		}
	}
	return differences, nil
}

// subject returns the subject of a fact: a column's name, or a function's name and arguments. For other
// facts it is the whole fact.
func subject(fact string) string {
	kind, rest, _ := strings.Cut(fact, " ")
	switch kind {
	case "column":
		name, _, _ := strings.Cut(rest, " ")
		return kind + " " + name
	case "function":
		return fact[:strings.LastIndexByte(fact, ' ')]
	}
	return fact
}
