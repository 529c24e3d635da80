// Package door passes PostgreSQL's protocol through an RPC server, so that daemons without a
// database's address work on the database.
package door
