-- +goose Up
-- Failures of hours and days without what succeeded, and without the heap.
create index if not exists ended_past_failed_idx on scheduler_go.ended_past (span, since) include (source, type, status, exception, pieces)
  where status in ('failed', 'permfailed', 'lost');
