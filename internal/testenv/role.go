package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// owners are the pools of owners of databases, by the pool of a store that works as another role.
var owners sync.Map

// doors counts the tests that use the open door of a database, by its server and name.
var doors = struct {
	sync.Mutex
	users map[string]int
}{users: make(map[string]int)}

// openDoor opens the door of a database until all tests that use it have ended.
func openDoor(t testing.TB, dsn string) {
	t.Helper()
	dsn = behindProxies(t, dsn)
	u := URL(t, dsn)
	database := u.Host + u.Path
	doors.Lock()
	defer doors.Unlock()
	if doors.users[database] == 0 && !doorIsOpen(t, dsn) {
		Migrate(t, dsn, migrate.Options{Door: migrate.DoorOpened})
	}
	doors.users[database]++
	t.Cleanup(func() {
		doors.Lock()
		defer doors.Unlock()
		if doors.users[database]--; doors.users[database] > 0 {
			return
		}
		if _, err := migrate.Run(context.Background(), dsn, migrate.Options{Door: migrate.DoorClosed}); err != nil {
			t.Errorf("testenv: close the door: %v", err)
		}
	})
}

func doorIsOpen(t testing.TB, dsn string) bool {
	t.Helper()
	return Value[bool](t, Connect(t, dsn), "select exists (select from scheduler_go.door where opened is not null)")
}

// AsDoor opens the door of a database until the test ends, and returns the DSN of its role.
func AsDoor(t testing.TB, dsn string) string {
	t.Helper()
	openDoor(t, dsn)
	owner, err := db.Open(t.Context(), dsn, postgres.Options{Command: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	door, err := migrate.NewDoor(owner.DB, "")
	if err != nil {
		t.Fatal(err)
	}
	way, err := door.Config(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	u := URL(t, dsn)
	u.User = url.UserPassword(way.User, way.Password)
	return u.String()
}

// ownedBy records the owner of the database of a store's pool, which works as another role. The functions of this
// package then run tests' statements on that pool as the owner.
func ownedBy(t testing.TB, store *db.Store, dsn string) {
	t.Helper()
	owner, err := pgxpool.New(context.WithoutCancel(t.Context()), behindProxies(t, dsn))
	if err != nil {
		t.Fatal(err)
	}
	owners.Store(store.Pool(), owner)
	t.Cleanup(func() {
		owners.Delete(store.Pool())
		owner.Close()
	})
}

// ofOwner returns the owner's session for a store's.
func ofOwner(on Session) Session {
	if pool, ok := on.(*pgxpool.Pool); ok {
		if owner, found := owners.Load(pool); found {
			return owner.(*pgxpool.Pool)
		}
	}
	return on
}

// grants counts the tests that use the roles of daemons of a database, by its server and name.
var grants = struct {
	sync.Mutex
	users map[string]int
}{users: make(map[string]int)}

// AsDaemon returns the DSN of a new user of a database with only the rights of a daemon, by its command, until the
// test ends. It returns false for a database that is unreachable or not migrated.
func AsDaemon(t testing.TB, dsn, daemon string) (string, bool) {
	t.Helper()
	direct := behindProxies(t, dsn)
	if status, err := migrate.ReadStatus(t.Context(), direct); err != nil || !status.Ready() {
		return "", false
	}
	u := URL(t, direct)
	key, database := u.Host+u.Path, strings.TrimPrefix(u.Path, "/")
	grants.Lock()
	defer grants.Unlock()
	if grants.users[key] == 0 {
		Migrate(t, direct, migrate.Options{Grants: migrate.GrantsMade})
	}
	grants.users[key]++
	user, password := "daemon_"+strings.ToLower(rand.Text()), rand.Text()
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		grants.Lock()
		defer grants.Unlock()
		grants.users[key]--
		if grants.users[key] == 0 {
			if _, err := migrate.Run(ctx, direct, migrate.Options{Grants: migrate.GrantsDropped}); err != nil {
				t.Errorf("testenv: drop the roles of daemons: %v", err)
			}
		}
		Exec(t, Connect(t, direct), "drop owned by "+user+"; drop role "+user)
	})
	Exec(t, Connect(t, direct), fmt.Sprintf("create role %s login password '%s'; grant %q to %[1]s", user, password, migrate.DaemonRole(daemon, database)))
	as := URL(t, dsn)
	as.User = url.UserPassword(user, password)
	q := as.Query()
	q.Del("user")
	as.RawQuery = q.Encode()
	return as.String(), true
}
