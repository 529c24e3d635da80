package migrate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// withRole creates a login role without rights, and returns its name and a store with it.
func withRole(t *testing.T, dsn string) (role string, store *db.Store) {
	t.Helper()
	role = "poor-" + strings.ReplaceAll(uuid.NewString(), "-", "") // needs quoting
	testenv.Exec(t, testenv.Connect(t, dsn), `create role "`+role+`" login`)
	t.Cleanup(func() { testenv.Exec(t, testenv.Connect(t, dsn), `drop owned by "`+role+`"; drop role "`+role+`"`) })
	u := testenv.URL(t, dsn)
	q := u.Query()
	q.Set("user", role)
	u.RawQuery = q.Encode()
	return role, testenv.OpenLocal(t, u.String())
}

// A user without rights gets a list of the missing ones, with the statements that grant them. After these
// statements no right is missing.
func TestRightsThatAreMissing(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	role, store := withRole(t, dsn)
	testenv.Exec(t, testenv.Connect(t, dsn), "revoke usage on schema public from public; revoke execute on all functions in schema scheduler_go from public")
	var missing *migrate.RightsError
	if err := store.CheckVersion(t.Context()); err == nil || postgres.IsUnreachable(err) {
		t.Fatalf("the version can be read without rights: %v", err)
	}
	if err := store.CheckUsable(t.Context(), ""); !errors.As(err, &missing) || missing.User != `"`+role+`"` {
		t.Fatal(err)
	}
	for _, want := range []string{
		`its user "` + role + `" lacks rights, which the owner can grant: `,
		`USAGE on schema public, scheduler_go: grant usage on schema public, scheduler_go to "` + role + `"; `,
		`INSERT on table public.task_run (needed by start-runner, rpc-serve): grant insert on table public.task_run to "` + role + `"; `,
		`SELECT, INSERT, UPDATE, DELETE on all tables in schema scheduler_go: grant select, insert, update, delete on all tables in schema scheduler_go to "` + role + `"; `,
		`USAGE on sequence public.task_run_id_seq (needed by start-runner, rpc-serve): grant usage on sequence public.task_run_id_seq to `,
		`SELECT, USAGE on sequence scheduler_go.candidate_changes_place_seq, scheduler_go.graph_place_seq, scheduler_go.work_place_seq: `,
		`EXECUTE on all functions in schema scheduler_go: grant execute on all functions in schema scheduler_go to `,
	} {
		if !strings.Contains(missing.Error(), want) {
			t.Errorf("no %q in\n%s", want, missing)
		}
	}
	for range 10 {
		err := store.CheckRights(t.Context(), "")
		if err == nil {
			break
		}
		if !errors.As(err, &missing) {
			t.Fatal(err)
		}
		for _, l := range missing.Missing {
			testenv.Exec(t, testenv.Connect(t, dsn), l.Grant(missing.User))
		}
	}
	if err := store.CheckUsable(t.Context(), ""); err != nil {
		t.Fatal(err)
	}

	// A revoked right is listed, with its purpose.
	for _, tc := range []struct{ revoke, daemon, others, want string }{
		{"usage on sequence task_run_id_seq", "start-runner", "start-listener", "USAGE on sequence public.task_run_id_seq (needed by start-runner, rpc-serve): grant usage on sequence public.task_run_id_seq to "},
		{"update on task", "start-listener", "journal-client", "UPDATE on table public.task (needed by start-runner, start-listener, rpc-serve, dashboard): grant update on table public.task to "},
		{"insert on origin_visit_stats", "journal-client", "start-runner", "INSERT on table public.origin_visit_stats (needed by "},
		{"delete on scheduler_go.work", "start-listener", "", "DELETE on table scheduler_go.work: grant delete on table scheduler_go.work to "},
		{"usage on sequence scheduler_go.work_place_seq", "start-runner", "", "USAGE on sequence scheduler_go.work_place_seq: grant usage on sequence scheduler_go.work_place_seq to "},
		{"select on scheduler_go.candidates_now", "schedule-recurrent", "", "SELECT on table scheduler_go.candidates_now: grant select on table scheduler_go.candidates_now to "},
		{"usage on schema scheduler_go", "rpc-serve", "", "USAGE on schema scheduler_go: grant usage on schema scheduler_go to "},
	} {
		grant, from, _ := strings.Cut(tc.revoke, " on ")
		testenv.Exec(t, testenv.Connect(t, dsn), fmt.Sprintf(`revoke %s on %s from "%s"`, grant, from, role))
		err := store.CheckRights(t.Context(), tc.daemon)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Count(err.Error(), "grant ") != 1 {
			t.Errorf("without %s, %s: %v, want %s", tc.revoke, tc.daemon, err, tc.want)
		}
		if tc.others != "" {
			if err := store.CheckRights(t.Context(), tc.others); err != nil {
				t.Errorf("without %s, %s: %v", tc.revoke, tc.others, err)
			}
		}
		testenv.Exec(t, testenv.Connect(t, dsn), fmt.Sprintf(`grant %s on %s to "%s"`, grant, from, role))
	}

	// A denied statement gets an explanation.
	testenv.Exec(t, testenv.Connect(t, dsn), `revoke select on task_type from "`+role+`"`)
	_, err := store.TaskTypes(t.Context())
	if err = store.Denied(t.Context(), err); !errors.As(err, &missing) || len(missing.Missing) != 1 || !slices.Equal(missing.Missing[0].Objects, []string{"public.task_type"}) {
		t.Error(err)
	}
}
