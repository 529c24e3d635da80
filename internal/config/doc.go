// Package config reads the configuration file that our daemons share with the
// Python components.
//
// The file is YAML, read as the peer reads it (see internal/yaml11): sections
// and keys are the peer's (swh.core.config, swh.scheduler, swh.journal), and four
// of our own, rabbitmq, rpc_serve, queue_full_backoff, lost_after, shares, lanes, metrics and failures_keep_date. Keys that the peer, Celery or another Software
// Heritage component know mean nothing here and are passed over in silence; any other is
// a Warning that names the nearest known key, because it is probably misspelt.
// A value of the wrong type is an error that names file, line, column and key,
// and says what was expected, never what was found: that may be a password.
//
// Nothing is read from the environment except what the peer reads there:
// KAFKA_GROUP_INSTANCE_ID (the file's name, SWH_CONFIG_FILENAME, is the
// caller's business). A null value is an absent one, except where documented.
//
// What is secret (addresses with passwords, Kafka settings) has types that
// print as [redacted]; a conversion to string reveals them.
package config
