package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"swh-scheduler/internal/service"
)

// Tracer makes the spans of one daemon. The nil value makes none.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// New returns a Tracer, or nil if the environment names no endpoint, or has a wrong value, which it logs. name is the service's name unless
// OTEL_SERVICE_NAME is set. New opens no connection. It sets OpenTelemetry's process-wide log to log.
func New(ctx context.Context, name, version string, log *slog.Logger) (*Tracer, error) {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" ||
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
		return nil, nil
	}
	otel.SetLogger(logr.New(complaints{log}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("OpenTelemetry reports an error", "error", err) }))
	collector, err := settingsOf(os.Getenv)
	if err != nil {
		log.Warn("no traces are sent: a variable of OpenTelemetry is wrong", "error", err)
		return nil, nil
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", name), attribute.String("service.version", version)),
		resource.WithFromEnv()) // overrides the others
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter{otlptrace.NewUnstarted(newClient(collector)), service.NewService(log, "the collector of traces")}), sdk.WithResource(about), sdk.WithIDGenerator(ids{}))
	return &Tracer{provider: provider, tracer: provider.Tracer("swh-scheduler")}, nil
}

// Close sends the remaining spans.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// MessageSpan is the first span of a message's trace.
type MessageSpan struct{ span trace.Span }

// Send begins the trace of a message, dated with its claim.
func (t *Tracer) Send(taskID, taskName, queue string, claimed time.Time) MessageSpan {
	if t == nil {
		return MessageSpan{}
	}
	_, span := t.tracer.Start(context.WithValue(context.Background(), taskKey{}, taskID), "send "+taskName,
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(claimed),
		trace.WithAttributes(attribute.String("messaging.system", "rabbitmq"), attribute.String("messaging.destination.name", queue),
			attribute.String("messaging.message.id", taskID), attribute.String("celery.task_name", taskName)))
	return MessageSpan{span}
}

// Parent returns the message's header traceparent; "" without a trace.
func (s MessageSpan) Parent() string {
	if s.span == nil {
		return ""
	}
	c := s.span.SpanContext()
	return fmt.Sprintf("00-%s-%s-%s", c.TraceID(), c.SpanID(), c.TraceFlags())
}

// Done ends the span: the broker confirmed the message, or refused it with err.
func (s MessageSpan) Done(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, err.Error())
	}
	s.span.End()
}

// Outcome adds the outcome of a task to its trace.
func (t *Tracer) Outcome(taskID, outcome string, at time.Time, failed bool) {
	if t == nil {
		return
	}
	traceID, spanID := idsOf(taskID)
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled, Remote: true})
	_, span := t.tracer.Start(trace.ContextWithRemoteSpanContext(context.Background(), parent), "outcome",
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(at),
		trace.WithAttributes(attribute.String("messaging.message.id", taskID), attribute.String("swh.outcome", outcome)))
	if failed {
		span.SetStatus(codes.Error, outcome)
	}
	span.End()
}

type taskKey struct{}

// idsOf returns the ids of a task's trace and of its first span: a hash, as samplers need random bits, which a UUID
// isn't throughout.
func idsOf(taskID string) (t trace.TraceID, s trace.SpanID) {
	sum := sha256.Sum256([]byte(taskID))
	copy(t[:], sum[:])
	copy(s[:], sum[len(t):])
	return t, s
}

// ids makes the ids of new traces from the task in the context.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	taskID, _ := ctx.Value(taskKey{}).(string)
	return idsOf(taskID)
}

func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	var s trace.SpanID
	_, _ = rand.Read(s[:]) // never fails
	return s
}
