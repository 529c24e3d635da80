package tracing

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"swh-scheduler/internal/service"
)

// exporter logs once that the collector is unreachable, and once that it is back.
type exporter struct {
	sdk.SpanExporter
	collector *service.Service
}

// ExportSpans drops spans that the collector doesn't accept, as the exporter below has retried them.
func (e exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.collector.Failed(err)
		return nil
	}
	e.collector.OK()
	return nil
}

// complaints is a logr.LogSink for OpenTelemetry's problems with its variables. It omits their values and the errors,
// which quote them.
type complaints struct{ log *slog.Logger }

func (complaints) Init(logr.RuntimeInfo)                     {}
func (complaints) Enabled(level int) bool                    { return level <= 1 } // warnings have level 1
func (c complaints) Info(_ int, message string, _ ...any)    { c.warn(message) }
func (c complaints) Error(_ error, message string, _ ...any) { c.warn(message) }
func (c complaints) WithValues(...any) logr.LogSink          { return c }
func (c complaints) WithName(string) logr.LogSink            { return c }

func (c complaints) warn(message string) {
	c.log.Warn("OpenTelemetry reports a problem with its settings (variables OTEL_…; values are not shown)", "what", message)
}
