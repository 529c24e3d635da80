// Package migrate prepares a database for this program and checks it. It handles the schemas and their
// versions ([Run], [Remove], [Checks]), the rights of roles ([RightsError]), and the role of the door
// ([Door]).
//
// # Two schemas
//
// The schema public is that of the Python scheduler (swh.scheduler) at version 38 ([PythonSchemaVersion]). On an
// empty database [Run] creates it from the files in sql/base. The schema scheduler_go holds our additions;
// the files in sql/migrations create it and [Remove] drops it.
//
// Migrations need a direct connection, not a pooler: their lock belongs to the session.
package migrate
