// Command demo runs the archive on this machine, with our scheduler, and checks it.
//
// It starts PostgreSQL, RabbitMQ and Kafka (or uses those that the environment names), the
// archive's own listers, loaders and storage, unchanged, at pinned versions, and the
// scheduler's daemons: the binary that operators run. Two forges (gitweb and git's smart
// HTTP) and a server of packages, on the loopback, hold what is to be archived. The lister
// and the command line of the Python scheduler speak to our RPC server, and do not see the
// database. Every daemon of ours is a user of its own at the broker and at the database, with the rights of its role
// (migrate --grants), or a client of the RPC server with the role of one daemon; the lister is a client for its
// listers only. The story:
//
//  1. tasks list the forges' repositories and the packages;
//  2. recurrent visits of them are scheduled, run, and their results come back through Kafka;
//     both forges share the queue, and slow repositories go on in a slow lane;
//  3. save code now overtakes the queue;
//  4. faults fall: each kind of daemon is killed, the broker's connections are cut, PostgreSQL
//     crashes;
//  5. some repositories get new commits, a package a release; they are listed again, and
//     visited again.
//
// The demo itself makes the repositories, changes them, issues the commands, causes the
// faults and watches. It watches from outside, with questions of its own to the storage, the
// scheduler's database and the broker, and with the workers' logs, so that its verdict does not
// rest on what the daemons say of themselves. No check is about speed.
//
// # Exit
//
// The demo ends by itself, with 0 if all that it promises was true. It ends
// with 1, saying what is missing, if something was not, if a process died, if
// nothing has moved for two minutes (then with what "explain" says of what is missing), or
// if the job was not done in time; then the logs are kept. However it ends, no
// process is left: each child is in a process group that is ended as a whole,
// and would be killed by the kernel if the demo were.
//
// With -keep (KEEP=1) everything is left running, looked after by a copy of
// this command in the background, until "demo -stop".
package main
