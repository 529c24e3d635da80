// Package migrate makes a database what this program needs, and says whether it is that: the schemas and their
// versions ([Run], [Remove], [Checks]), the rights of roles ([RightsError]), and the role of the door ([Door]).
//
// # Two schemas
//
// The schema public is that of the Python scheduler (swh.scheduler) at version 38
// ([PeerVersion]). On an empty database [Run] creates it from the files in sql/base. Our additions are in the
// schema scheduler_go, created by the files in sql/migrations. [Remove] removes them.
//
// Migrations need a direct connection, without a pooler: their lock belongs to the session.
package migrate
