package db_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/db"
)

// object is one line of testdata/catalogue.sql.
type object struct{ Object, Definition, Wording string }

// catalogue reads what the schema public of a database holds.
func catalogue(t *testing.T, conn *pgx.Conn) []object {
	t.Helper()
	return catalogueOf(t, conn, "public")
}

func catalogueOf(t *testing.T, conn *pgx.Conn, schema string) []object {
	t.Helper()
	query, err := os.ReadFile("testdata/catalogue.sql")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), strings.ReplaceAll(string(query), "'public'", "'"+schema+"'"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := pgx.CollectRows(rows, pgx.RowToStructByPos[object])
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// A database that migrate made from empty is, object by object, the one that the
// peer makes: tables, columns, constraints, indexes, functions, triggers, types.
func TestBaseIsThePeers(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	if _, err := db.Migrate(t.Context(), dsn, db.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	ours := connect(t, dsn)
	peers := connect(t, testenv.PeerDatabase(t))

	definitions := func(objects []object) []object {
		for i := range objects {
			objects[i].Wording = ""
		}
		return objects
	}
	want := definitions(catalogue(t, peers))
	if len(want) < 150 {
		t.Fatalf("the peer's database has %d objects: the catalogue query finds too little", len(want))
	}
	if diff := cmp.Diff(want, definitions(catalogue(t, ours))); diff != "" {
		t.Errorf("ours differs from the peer's (-peer +ours):\n%s", diff)
	}

	// What "swh db version" and "swh db upgrade" look at.
	for _, query := range []string{
		"select version, description from dbversion",
		"select dbmodule, single_row from dbmodule",
	} {
		if diff := cmp.Diff(texts(t, peers, query), texts(t, ours, query)); diff != "" {
			t.Errorf("%s (-peer +ours):\n%s", query, diff)
		}
	}
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.WithoutCancel(t.Context()), dsn) // some callers clean up
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// texts runs a query and gives each row as one text.
func texts(t *testing.T, conn *pgx.Conn, query string, args ...any) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "select r::text from ("+query+") r", args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return lines
}
