-- +goose Up
-- What only visits changed of an origin, a drain does not look up in listed_origins.
alter table scheduler_go.candidate_changes add column listed boolean not null default true;
comment on column scheduler_go.candidate_changes.listed is 'Whether what listers write may have changed, too; false: only origin_visit_stats';

-- +goose StatementBegin
create or replace function scheduler_go.note_visit_stats() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  noted bigint;
begin
  if tg_op = 'UPDATE' then
    if (old.last_visit, old.last_successful, old.last_visit_status, old.last_scheduled, old.next_visit_queue_position, old.last_snapshot is null, old.url, old.visit_type)
      is not distinct from
      (new.last_visit, new.last_successful, new.last_visit_status, new.last_scheduled, new.next_visit_queue_position, new.last_snapshot is null, new.url, new.visit_type) then
      return null;
    end if;
    if old.url <> new.url or old.visit_type <> new.visit_type then
      insert into scheduler_go.candidate_changes (visit_type, url, listed) values (old.visit_type, old.url, false);
    end if;
  end if;
  insert into scheduler_go.candidate_changes (visit_type, url, listed) values (new.visit_type, new.url, false) returning place into noted;
  if noted % 400000 = 0 then
    perform scheduler_go.bound_candidate_changes(5000000);
  end if;
  return null;
end
$$;
-- +goose StatementEnd
