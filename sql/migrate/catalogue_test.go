package migrate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/testenv"
	"swh-scheduler/sql/migrate"
)

// object is a line of testdata/catalogue.sql.
type object struct{ Object, Definition, Wording string }

// catalogue reads the objects of a database's schema public.
func catalogue(t *testing.T, conn *pgx.Conn) []object {
	t.Helper()
	return catalogueOf(t, conn, "public")
}

func catalogueOf(t *testing.T, conn *pgx.Conn, schema string) []object {
	t.Helper()
	query := testenv.Read(t, "testdata/catalogue.sql")
	return testenv.Rows[object](t, conn, strings.ReplaceAll(string(query), "'public'", "'"+schema+"'"))
}

// A database that migrate created has the same objects as the Python scheduler's: tables, columns,
// constraints, indexes, functions, triggers, types.
func TestBaseIsThePeers(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	testenv.Migrate(t, dsn, migrate.Options{})
	ours := testenv.Connect(t, dsn)
	peers := testenv.Connect(t, testenv.PythonDatabase(t))

	definitions := func(objects []object) []object {
		for i := range objects {
			objects[i].Wording = ""
		}
		return objects
	}
	want := definitions(catalogue(t, peers))
	if len(want) < 150 {
		t.Fatalf("the Python scheduler's database has %d objects: the catalogue query finds too little", len(want))
	}
	if diff := cmp.Diff(want, definitions(catalogue(t, ours))); diff != "" {
		t.Errorf("ours differs from the Python scheduler's (-peer +ours):\n%s", diff)
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

// texts runs a query and returns each row as one text.
func texts(t *testing.T, conn *pgx.Conn, query string, args ...any) []string {
	t.Helper()
	return testenv.Column[string](t, conn, "select r::text from ("+query+") r", args...)
}
