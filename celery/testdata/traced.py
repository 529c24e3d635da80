"""The tasks of tasks.py in a worker that is traced in the way that the documentation
of opentelemetry-instrumentation-celery tells. OTEL_... variables say where spans go."""

from celery.signals import worker_process_init
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from tasks import app  # noqa: F401


@worker_process_init.connect(weak=False)
def trace_tasks(**_):
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    CeleryInstrumentor().instrument()
