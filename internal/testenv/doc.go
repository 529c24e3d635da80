// Package testenv gives tests real services: PostgreSQL, RabbitMQ with its
// management plugin, Kafka, and a Python that holds Celery and the Python scheduler.
//
// # Where the services come from
//
// The first test that asks finds them, once for the process:
//
//  1. the environment, if it names them: SWH_TEST_POSTGRES_URL (a superuser's),
//     SWH_TEST_RABBITMQ_URL and SWH_TEST_RABBITMQ_MANAGEMENT_URL (an
//     administrator's), SWH_TEST_KAFKA_BROKERS (comma-separated), SWH_TEST_PYTHON;
//  2. else the testservices command (test/testservices), which starts those it lacks in Docker or,
//     without it, as local processes, and stops them when this process ends,
//     however it ends.
//
// `make test` runs testservices once around all packages, so that they share
// one set of servers.
//
// # What a test gets
//
// Everything handed out is the test's own (a database, a virtual host, a topic)
// and is dropped when the test ends, failed or not, so that tests run in
// parallel and leave shared servers as they were. A service that is missing
// fails the test, and says how to get it; nothing is skipped.
//
// Databases are copies of templates, because running migrations for each test
// is slow. A template is built once a server, under an advisory lock, as
// several test binaries may want it at once; its name holds a hash of what it
// is made from.
package testenv
