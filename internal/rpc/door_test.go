package rpc

import (
	"testing"

	"swh-scheduler/internal/testenv"
)

// Through the door a client works on the database as the door's role, whatever user and database it names.
func TestDoor(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	openDoor(t, dsn)
	conn := enter(t, serve(t, dsn), "application_name=someone")
	var user, database, name string
	if err := conn.QueryRow(t.Context(), "select current_user, current_database(), current_setting('application_name')").Scan(&user, &database, &name); err != nil {
		t.Fatal(err)
	}
	wanted := testenv.URL(t, dsn).Path[1:]
	if user != "scheduler_go_door_"+wanted || database != wanted || name != "someone" {
		t.Errorf("%s on %s, as %s", user, database, name)
	}
}
