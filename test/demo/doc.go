// Command demo runs the archive on this machine, with our scheduler, and checks it.
//
// It starts PostgreSQL, RabbitMQ and Kafka, or uses those of the environment. It starts the archive's own listers,
// loaders and storage, unchanged, at pinned versions, and the scheduler's daemons: the binary for operators. Two
// forges (gitweb and git's smart HTTP) and a server of packages, on the loopback, have the repositories and packages
// to archive. The lister and the command line of the Python scheduler use our RPC server, without the database. Every
// daemon of ours is a user of its own at the broker and at the database, with the rights of its role (migrate
// --grants). Some are clients of the RPC server instead, with the role of one daemon; the lister is a client for its
// listers only. The story:
//
//  1. tasks list the forges' repositories and the packages;
//  2. recurrent visits of them are scheduled, run, and their results come back through Kafka;
//     both forges share the queue, and slow repositories go on in a slow lane;
//  3. save code now overtakes the queue;
//  4. faults happen: each kind of daemon is killed, the broker's connections are cut, PostgreSQL
//     crashes;
//  5. some repositories get new commits, a package a release; they are listed again, and
//     visited again.
//
// The demo itself makes the repositories, changes them, runs the commands, causes the faults and watches. It watches
// from outside, with its own queries to the storage, the scheduler's database and the broker, and with the workers'
// logs. So its verdict doesn't depend on the daemons' own reports. No check is about speed.
//
// # Exit
//
// The demo ends by itself, with 0 if all its checks passed. It ends with 1 and the missing results if a check failed,
// if a process died, or if the job was not done in time. It also ends after two minutes without progress, with the
// output of "explain" for the missing origins. After a failure the logs are kept. It leaves no process in any case:
// each child is in a process group that is ended as a whole, and the kernel would kill it if the demo were killed.
//
// With -keep (KEEP=1) everything continues to run, with a copy of this command in the background as its parent, until
// "demo -stop".
package main
