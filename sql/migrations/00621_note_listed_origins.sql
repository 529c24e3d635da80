-- +goose Up
-- Trigger functions of their own, for listed_origins and for origin_visit_stats. The Python scheduler writes a statement for
-- each row, and PostgreSQL parses the condition of a trigger anew in each. So the function compares; only what lets a
-- claim pass is a condition, as a claim writes a thousand rows in a statement.

-- It is called for one place in so many, as it counts all changes.
-- +goose StatementBegin
create function scheduler_go.bound_candidate_changes(max_changes bigint) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  was text;
  most bigint := 0;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    return;
  end if;
  if (select phase from scheduler_go.candidate_build) <> 'empty' then
    select count(*) into most from (select from scheduler_go.candidate_changes limit max_changes + 1) c;
    if most <= max_changes then
      return;
    end if;
  end if;
  -- Nobody builds or drains until this transaction ends.
  if not pg_try_advisory_xact_lock(hashtextextended('swh-scheduler candidates', 0)) then
    return;
  end if;
  select phase into was from scheduler_go.candidate_build for update skip locked;
  if was <> 'empty' and most > max_changes then
    update scheduler_go.candidate_build set phase = 'empty';
  elsif was is distinct from 'empty' then
    return;
  end if;
  -- The build reads later what became of the origins.
  delete from scheduler_go.candidate_changes
  where ctid = any(array(select ctid from scheduler_go.candidate_changes limit max_changes / 5));
end
$$;

create function scheduler_go.note_listed_origin() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  noted bigint;
begin
  if tg_op = 'UPDATE' then
    if (old.last_update, old.enabled, old.first_seen, old.is_fork, old.lister_id, old.url, old.visit_type)
      is not distinct from (new.last_update, new.enabled, new.first_seen, new.is_fork, new.lister_id, new.url, new.visit_type)
      or not (old.enabled or new.enabled) then
      return null;
    end if;
    if old.url <> new.url or old.visit_type <> new.visit_type then
      insert into scheduler_go.candidate_changes (visit_type, url) values (old.visit_type, old.url);
    end if;
  elsif not new.enabled then
    return null;
  end if;
  insert into scheduler_go.candidate_changes (visit_type, url) values (new.visit_type, new.url) returning place into noted;
  if noted % 400000 = 0 then
    perform scheduler_go.bound_candidate_changes(5000000);
  end if;
  return null;
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.bound_candidate_changes(bigint) is 'Gives candidates up, and deletes a part of their changes, if there are more than a bound';
comment on function scheduler_go.note_listed_origin() is 'Notes that the candidates of an origin may be out of date, as it is new or has changed';

-- To be called by the trigger functions only; who may execute these may attach them to a table of his own.
revoke execute on function scheduler_go.bound_candidate_changes(bigint), scheduler_go.note_listed_origin() from public;

drop trigger if exists scheduler_go_candidate_insert on listed_origins;
drop trigger if exists scheduler_go_candidate_update on listed_origins;
create trigger scheduler_go_candidate_write after insert or update on listed_origins
for each row execute function scheduler_go.note_listed_origin();
