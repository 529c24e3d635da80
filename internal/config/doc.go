// Package config reads the configuration file that our daemons share with the Python components.
//
// The file is YAML, read as the Python scheduler reads it (see internal/yaml11). Most sections and keys are the
// Python scheduler's (swh.core.config, swh.scheduler, swh.journal). Our own are rabbitmq, database, rpc_serve,
// dashboard, queue_full_backoff, lost_after, archive, shares, priority_ageing, hosters, hints, gone_origins, lanes,
// metrics, sentry, visit_rules, failures_keep_date, update_metrics_after and wanted_workers.
//
// The package ignores keys that only the Python scheduler, Celery or another Software Heritage component reads
// (known_keys.txt). A key that resembles one of ours is an Error with a suggestion; any other key is a Warning. A
// value of the wrong type is an Error with file, line, column, key and the expected type. The Error quotes no value,
// which may be a password. A null value means that the key is absent, except where documented.
//
// The package reads KAFKA_GROUP_INSTANCE_ID from the environment, as the Python scheduler does. It refuses Celery's
// CELERY_BROKER_URL and the like if they name another broker.
//
// Secrets (addresses with passwords, Kafka settings) have types that print as [redacted]. A conversion to string
// returns the secret.
package config
