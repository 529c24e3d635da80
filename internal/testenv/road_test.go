package testenv_test

import (
	"testing"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// Through the door, a store works as the door's role, also with a proxy to the database. The test's own statements on
// its pool run as the owner. The role is dropped after the test.
func TestRoads(t *testing.T) {
	dsn := testenv.Database(t)
	owner := testenv.URL(t, dsn).User.Username()
	user := func(store *db.Store) (user string) {
		t.Helper()
		if err := store.Pool().QueryRow(t.Context(), "select current_user").Scan(&user); err != nil {
			t.Fatal(err)
		}
		return user
	}
	t.Setenv("SWH_TEST_ROAD", "local")
	if got := user(testenv.Open(t, dsn)); got != owner {
		t.Errorf("locally it works as %s", got)
	}
	t.Setenv("SWH_TEST_ROAD", "door")
	role := "scheduler_go_door_" + testenv.URL(t, dsn).Path[1:]
	t.Run("door", func(t *testing.T) {
		through, way := testenv.Through(t, dsn, testenv.Proxy)
		stores := []*db.Store{testenv.Open(t, dsn), testenv.Open(t, through)}
		for _, store := range stores {
			if got := user(store); got != role {
				t.Errorf("by the door it works as %s", got)
			}
			if got := testenv.Value[string](t, store.Pool(), "select current_user::text"); got != owner {
				t.Errorf("the test works as %s", got)
			}
		}
		way.Cut()
		if _, err := stores[1].Pool().Exec(t.Context(), "select 1"); err == nil {
			t.Error("the proxy is not on the way")
		}
	})
	if n := testenv.Value[int](t, testenv.Connect(t, dsn), "select count(*)::int from pg_roles where rolname = $1", role); n != 0 {
		t.Error("the role is left")
	}
	if empty := testenv.Open(t, testenv.Postgres(t)); user(empty) != owner {
		t.Error("an empty database has a door")
	}
}
