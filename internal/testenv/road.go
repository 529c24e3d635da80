package testenv

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"swh-scheduler/internal/rpc/door"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/migrate"
	"swh-scheduler/sql/postgres"
)

// roadVar chooses how tests' daemons reach the database. "local" is the default; "door" is through an RPC server and
// as the role of its door; with "roles" each has only the rights of its daemon.
const roadVar = "SWH_TEST_ROAD"

// ByDoor reports whether the daemons of this run reach the database through an RPC server's door.
func ByDoor(t testing.TB) bool { return road(t) == "door" }

// ByRoles reports whether programs of this run have the rights of their daemons only (AsDaemon).
func ByRoles(t testing.TB) bool { return road(t) == "roles" }

func road(t testing.TB) string {
	t.Helper()
	switch road := os.Getenv(roadVar); road {
	case "", "local", "door", "roles":
		return road
	default:
		t.Fatalf("%s is %q, want local, door or roles", roadVar, road)
		return ""
	}
}

// onRoad returns the DSN and the options of a store on the road of this run, and whether it works as another role
// than the DSN's. A database without our schema has no door.
func onRoad(t testing.TB, dsn string, o postgres.Options) (string, postgres.Options, bool) {
	t.Helper()
	if u, err := url.Parse(dsn); !ByDoor(t) || o.Direct != "" || o.Proxy != nil || err != nil || u.Host == "" {
		return dsn, o, false
	}
	if status, err := migrate.ReadStatus(t.Context(), behindProxies(t, dsn)); err != nil || !status.Ready() {
		return dsn, o, false
	}
	server, way := serveDoor(t, dsn)
	o.Proxy = way
	u := URL(t, dsn)
	u.User, u.Host, u.Path = url.User("door"), server, "/door"
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String(), o, true
}

// serveDoor serves the door of a database until the test ends. The server reaches the database by dsn, which may lead
// through proxies.
func serveDoor(t testing.TB, dsn string) (server string, way *postgres.Proxy) {
	t.Helper()
	openDoor(t, dsn)
	owner, err := db.Open(t.Context(), dsn, postgres.Options{Command: "rpc-serve"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(owner.Close)
	database, err := migrate.NewDoor(owner.DB, "")
	if err != nil {
		t.Fatal(err)
	}
	s := door.New(door.Options{
		Database: database, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Registry: prometheus.NewRegistry(),
		From: func(*http.Request) netip.Prefix { return netip.Prefix{} }, Who: func(*http.Request) door.Visitor { return door.Visitor{} },
	})
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	Run(t, s.Run)
	address, err := door.Parse(listening.URL)
	if err != nil {
		t.Fatal(err)
	}
	return listening.Listener.Addr().String(), &postgres.Proxy{Name: "the database of RPC server " + address.String(), Dial: address.Dial}
}
