// Package sessions keeps the sessions of the dashboard in the database, where all its processes see them: a session
// that one of them ends is ended for all.
//
// # Keys
//
// A session has a random key, which only the browser has. The database has its SHA-256, so that who reads the table
// can't act. The key has a signature by the form key, so that a made-up one is refused without a look into the
// database. The form key signs forms, too. It is random, in the database, and made by who first needs it.
//
// # Rights
//
// The tables sessions and form_key are for their owner, rpc-serve and the dashboard. The role of the door to the
// database can't read or write them: it would be a way to log in.
package sessions
