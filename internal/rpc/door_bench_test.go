package rpc

import (
	"testing"

	"swh-scheduler/internal/testenv"
)

// BenchmarkDoor measures a small statement, and one with 10,000 rows of 100 bytes, on a connection to the database
// and on one through the door.
func BenchmarkDoor(b *testing.B) {
	dsn := testenv.Database(b)
	openDoor(b, dsn)
	database, byDoor := testenv.Connect(b, dsn), enter(b, serve(b, dsn), "")
	for _, c := range []struct{ name, statement string }{
		{"small", "select 1"}, {"rows", "select repeat('x', 100) from generate_series(1, 10000)"},
	} {
		b.Run(c.name+"/road=database", func(b *testing.B) {
			for b.Loop() {
				testenv.Exec(b, database, c.statement)
			}
		})
		b.Run(c.name+"/road=door", func(b *testing.B) {
			for b.Loop() {
				testenv.Exec(b, byDoor, c.statement)
			}
		})
	}
}
