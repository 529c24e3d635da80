// Package config reads the configuration file that our daemons share with the Python
// components.
//
// The file is YAML, read as the Python scheduler reads it (see internal/yaml11). Sections and keys are
// the Python scheduler's (swh.core.config, swh.scheduler, swh.journal), and our own: rabbitmq,
// database, rpc_serve, dashboard, queue_full_backoff, lost_after, archive, shares, priority_ageing, hosters, lanes, metrics,
// sentry, visit_rules, failures_keep_date, update_metrics_after.
// Keys that only the Python scheduler, Celery or another Software Heritage component reads are
// ignored (known_keys.txt). A key that looks like one of ours is an Error that suggests it; any
// other key is a Warning. A value of the wrong type is an Error with file, line, column and key; it says what
// was expected but quotes no value, which may be a password. A null value means that the
// key is absent, except where documented.
//
// From the environment it reads KAFKA_GROUP_INSTANCE_ID, as the Python scheduler does, and refuses
// Celery's CELERY_BROKER_URL and the like if they name another broker.
//
// Secrets (addresses with passwords, Kafka settings) have types that print as [redacted];
// a conversion to string reveals them.
package config
