// Package tracing records a task or visit, from its claim to its outcome, as one OpenTelemetry trace. It is off
// unless the environment names an endpoint (OTEL_EXPORTER_OTLP_ENDPOINT and the other standard variables).
//
// # Identity
//
// The database stores no trace ids. The ids of the trace and of its first span are derived from the task's Celery id,
// which the deliverer, the worker's message and the listener all have. So a message that two processes send has one
// trace.
//
//	send (claim → confirmed)      deliverer
//	  ├─ what the worker does     opentelemetry-instrumentation-celery, which finds
//	  │                           traceparent in the message's headers
//	  └─ outcome                  listener
//
// # Sampling
//
// OTEL_TRACES_SAMPLER=traceidratio decides by the trace's id alone, so that all processes decide alike.
//
// # Failure
//
// Spans that the collector doesn't accept are dropped, and no daemon waits for it. The daemon's log has the reports
// of the libraries, without their quotes of the environment, which has passwords and tokens.
package tracing
