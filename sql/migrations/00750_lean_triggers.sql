-- +goose Up
-- The trigger functions of listed_origins and origin_visit_stats with fewer instructions in PostgreSQL: 28 % fewer where
-- a row changed, 48 % where it didn't.
--
-- They run with their owner's rights and don't set search_path: setting and restoring it costs as much as the comparison
-- of a row. Nothing in them is looked up by a path: all types, operators and functions have their schema, and no
-- construct takes an operator from the path, as "is distinct from" and "in" do. TestDefinersResolveNothingByThePath
-- checks that.
--
-- The place is drawn before the row is written, not by the column's default: "returning" costs more. The transaction
-- has an id by then, as it wrote the row.
-- +goose StatementBegin
create or replace function scheduler_go.note_listed_origin() returns trigger
language plpgsql security definer as $$
declare
  noted pg_catalog.int8;
begin
  if tg_op operator(pg_catalog.=) 'UPDATE' then
    if (old.last_update operator(pg_catalog.=) new.last_update or old.last_update is null and new.last_update is null)
      and old.enabled operator(pg_catalog.=) new.enabled
      and old.first_seen operator(pg_catalog.=) new.first_seen
      and (old.is_fork operator(pg_catalog.=) new.is_fork or old.is_fork is null and new.is_fork is null)
      and old.lister_id operator(pg_catalog.=) new.lister_id
      and old.url operator(pg_catalog.=) new.url
      and old.visit_type operator(pg_catalog.=) new.visit_type
      or not (old.enabled or new.enabled) then
      return null;
    end if;
    if old.url operator(pg_catalog.<>) new.url or old.visit_type operator(pg_catalog.<>) new.visit_type then
      insert into scheduler_go.candidate_changes (visit_type, url) values (old.visit_type, old.url);
    end if;
  elsif not new.enabled then
    return null;
  end if;
  noted := pg_catalog.nextval('scheduler_go.candidate_changes_place_seq');
  insert into scheduler_go.candidate_changes (visit_type, url, place) values (new.visit_type, new.url, noted);
  if noted operator(pg_catalog.%) 400000 operator(pg_catalog.=) 0 then
    perform scheduler_go.bound_candidate_changes(5000000);
  end if;
  return null;
end
$$;

create or replace function scheduler_go.note_visit_stats() returns trigger
language plpgsql security definer as $$
declare
  noted pg_catalog.int8;
begin
  if tg_op operator(pg_catalog.=) 'UPDATE' then
    if (old.last_visit operator(pg_catalog.=) new.last_visit or old.last_visit is null and new.last_visit is null)
      and (old.last_successful operator(pg_catalog.=) new.last_successful or old.last_successful is null and new.last_successful is null)
      and (old.last_visit_status operator(pg_catalog.=) new.last_visit_status or old.last_visit_status is null and new.last_visit_status is null)
      and (old.last_scheduled operator(pg_catalog.=) new.last_scheduled or old.last_scheduled is null and new.last_scheduled is null)
      and (old.next_visit_queue_position operator(pg_catalog.=) new.next_visit_queue_position
           or old.next_visit_queue_position is null and new.next_visit_queue_position is null)
      and (old.last_snapshot is null) operator(pg_catalog.=) (new.last_snapshot is null)
      and old.url operator(pg_catalog.=) new.url
      and old.visit_type operator(pg_catalog.=) new.visit_type then
      return null;
    end if;
    if old.url operator(pg_catalog.<>) new.url or old.visit_type operator(pg_catalog.<>) new.visit_type then
      insert into scheduler_go.candidate_changes (visit_type, url, listed) values (old.visit_type, old.url, false);
    end if;
  end if;
  noted := pg_catalog.nextval('scheduler_go.candidate_changes_place_seq');
  insert into scheduler_go.candidate_changes (visit_type, url, place, listed) values (new.visit_type, new.url, noted, false);
  if noted operator(pg_catalog.%) 400000 operator(pg_catalog.=) 0 then
    perform scheduler_go.bound_candidate_changes(5000000);
  end if;
  return null;
end
$$;
-- +goose StatementEnd
