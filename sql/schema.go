// Package schema has the SQL files: the Python scheduler's tables and our migrations.
// Package sql/migrate applies them.
package schema

import "embed"

var (
	//go:embed base/*.sql
	Base embed.FS // makes the Python scheduler's tables in an empty database

	//go:embed base/used.txt
	Used string // what this program uses of these tables, as sql/migrate/peer_schema.go describes it

	//go:embed migrations/*.sql
	Migrations embed.FS // of goose, by number
)
