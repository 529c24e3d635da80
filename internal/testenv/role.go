package testenv

import (
	"context"
	"errors"
	"net/url"
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/sql/db"
)

// roleVar chooses the role of PostgreSQL that stores work as: "door" is that of daemons behind an RPC
// server, and without it they own the database. What tests do on a store's pool themselves the owner
// does, if they use the functions of this package.
const roleVar = "SWH_TEST_DATABASE_ROLE"

// owners are the pools of owners of databases, by the pool of a store that works as another role.
var owners sync.Map

// AsDoor opens the door of a database until the test ends, and returns the DSN of its role.
func AsDoor(t testing.TB, dsn string) string {
	t.Helper()
	owner, err := db.Open(t.Context(), dsn, db.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	door, err := db.NewDoor(owner, "")
	if err != nil {
		t.Fatal(err)
	}
	way, err := door.Config(t.Context())
	if errors.Is(err, db.ErrNoDoor) {
		if _, err = db.Migrate(t.Context(), dsn, db.MigrateOptions{Door: db.DoorOpened}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := db.Migrate(context.Background(), dsn, db.MigrateOptions{Door: db.DoorClosed}); err != nil {
				t.Errorf("testenv: close the door: %v", err)
			}
		})
		way, err = door.Config(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	u := URL(t, dsn)
	u.User = url.UserPassword(way.User, way.Password)
	return u.String()
}

// AsRole returns the DSN of the role that SWH_TEST_DATABASE_ROLE names, for a store of a database
// that is migrated.
func AsRole(t testing.TB, dsn string) string {
	t.Helper()
	if os.Getenv(roleVar) != "door" {
		return dsn
	}
	if status, err := db.MigrateStatus(t.Context(), dsn); err != nil || !status.Ready() {
		return dsn // it is no database for daemons, or not yet
	}
	return AsDoor(t, dsn)
}

// ownedBy notes the owner of the database of a store's pool, if the store works as another role.
func ownedBy(t testing.TB, store *db.Store, as, dsn string) {
	t.Helper()
	if as == dsn {
		return
	}
	owner, err := pgxpool.New(context.WithoutCancel(t.Context()), dsn)
	if err != nil {
		t.Fatal(err)
	}
	owners.Store(store.Pool(), owner)
	t.Cleanup(func() {
		owners.Delete(store.Pool())
		owner.Close()
	})
}

// ofOwner returns the session of the owner for that of a store.
func ofOwner(on Session) Session {
	if pool, ok := on.(*pgxpool.Pool); ok {
		if owner, found := owners.Load(pool); found {
			return owner.(*pgxpool.Pool)
		}
	}
	return on
}
