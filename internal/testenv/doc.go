// Package testenv gives tests real services: PostgreSQL, RabbitMQ with its management plugin, Kafka, and a Python
// with Celery and the Python scheduler.
//
// # Where the services come from
//
// The first test that needs a service finds all, once for the process:
//
//  1. the environment, if it names them: SWH_TEST_POSTGRES_URL (a superuser's),
//     SWH_TEST_RABBITMQ_URL and SWH_TEST_RABBITMQ_MANAGEMENT_URL (an
//     administrator's), SWH_TEST_KAFKA_BROKERS (comma-separated), SWH_TEST_PYTHON;
//  2. else the testservices command (test/testservices). It starts the missing ones in Docker or,
//     without it, as local processes, and stops them when this process ends,
//     even when it is killed.
//
// `make test` runs testservices once around all packages, so that they share a set of servers.
//
// # What a test gets
//
// Each test gets its own database, virtual host or topic, dropped when the test ends, failed or not. So tests run in
// parallel and leave shared servers unchanged. A missing service fails the test with a text about how to get it; no
// test is skipped.
//
// Databases are copies of templates, as running migrations for each test is slow. A template is built once for a
// server, under an advisory lock, as several test binaries may need it at once. Its name has a hash of its sources.
package testenv
