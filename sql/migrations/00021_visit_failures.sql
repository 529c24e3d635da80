-- +goose Up
-- With the rule that failed visits keep the date of the last visit (off unless
-- configured), the date of the last failure is needed to know one that comes
-- again from a new one.
create table scheduler_go.visit_failures (
  url          text not null,
  visit_type   text not null,
  last_failure timestamptz not null,
  primary key (url, visit_type)
);

-- +goose Down
drop table scheduler_go.visit_failures;
