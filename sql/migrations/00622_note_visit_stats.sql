-- +goose Up
-- The trigger of origin_visit_stats, like that of listed_origins.
-- +goose StatementBegin
create function scheduler_go.note_visit_stats() returns trigger
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
      insert into scheduler_go.candidate_changes (visit_type, url) values (old.visit_type, old.url);
    end if;
  end if;
  insert into scheduler_go.candidate_changes (visit_type, url) values (new.visit_type, new.url) returning place into noted;
  if noted % 400000 = 0 then
    perform scheduler_go.bound_candidate_changes(5000000);
  end if;
  return null;
end
$$;

-- What is left to it is rare: deleted rows, and origins that are set aside or put back.
create or replace function scheduler_go.note_candidate() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  noted bigint;
begin
  if tg_op = 'DELETE' then
    insert into scheduler_go.candidate_changes (visit_type, url) values (old.visit_type, old.url) returning place into noted;
  else
    insert into scheduler_go.candidate_changes (visit_type, url) values (new.visit_type, new.url) returning place into noted;
  end if;
  if noted % 400000 = 0 then
    perform scheduler_go.bound_candidate_changes(5000000);
  end if;
  return null;
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.note_visit_stats() is 'Notes that the candidates of an origin may be out of date, as what is known of its visits has changed';
revoke execute on function scheduler_go.note_visit_stats() from public;

drop trigger if exists scheduler_go_candidate_insert on origin_visit_stats;
drop trigger if exists scheduler_go_candidate_update on origin_visit_stats;
create trigger scheduler_go_candidate_write after insert or update on origin_visit_stats
for each row when (current_setting('scheduler_go.noted', true) is distinct from 'on')
execute function scheduler_go.note_visit_stats();
drop function scheduler_go.bound_candidate_changes(tid, bigint, bigint);
