// Package sessions stores the sessions of the dashboard in the database, for all its processes. Once one
// process ends a session, no process accepts it.
//
// # Keys
//
// A session has a random key, which only the browser has. The database has its SHA-256, so a reader of the
// table can't use the session. The form key signs session keys, so a forged one is refused without a query.
// It also signs forms. The form key is random and stored in the database; the first process that needs it
// creates it.
//
// # Rights
//
// The tables sessions and form_key are for their owner, rpc-serve and the dashboard. The role of the door
// to the database can't read or write them; otherwise it could log in.
package sessions
