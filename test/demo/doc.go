// Command demo runs the scheduler's main job on real services, and checks it.
//
// It starts PostgreSQL, RabbitMQ and Kafka (or uses those that the environment
// names), Celery workers built on the peer's task class, and the scheduler's
// daemons: the binary that operators run, with one configuration file for all.
// The job, which only the command line and the daemons carry out:
//
//  1. a one-shot task lists git repositories that the demo has made on disk;
//  2. recurrent visits of them are scheduled, run, and their results come back
//     through Kafka;
//  3. some repositories get new commits after their first visit; a second
//     listing notices, and they are visited again;
//  4. midway, a save-code-now request overtakes the queue.
//
// The demo itself makes the repositories, changes them, issues the commands
// and watches. It watches from outside, with questions of its own to the
// database and the broker and with the workers' notes of what they ran, so
// that its verdict does not rest on what the daemons say of themselves.
//
// # Exit
//
// The demo ends by itself, with 0 if all that it promises was true. It ends
// with 1, saying what is missing, if something was not, if a process died, or
// if the job was not done in time; then the logs are kept. However it ends, no
// process is left: each child is in a process group that is ended as a whole,
// and would be killed by the kernel if the demo were.
//
// With -keep (KEEP=1) everything is left running, looked after by a copy of
// this command in the background, until "demo -stop".
package main
