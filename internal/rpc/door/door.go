// Package door passes PostgreSQL's protocol through an RPC server, so that daemons without a
// database's address work on the database.
package door

const (
	// Path is where a client asks for a connection to the database.
	Path = "/scheduler_go/database"
	// Protocol is the value of the request's Upgrade header.
	Protocol = "postgresql"
)
