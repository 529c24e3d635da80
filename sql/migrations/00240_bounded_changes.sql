-- +goose Up
-- Changes of candidates stay bounded where no daemon of ours runs: those who write them give
-- candidates up, as BoundChanges of our daemons does. It costs a writer some seconds once in
-- about a million changes, and only beyond the limit.

-- +goose StatementBegin
create function scheduler_go.bound_candidate_changes(place tid, max_changes bigint, every_pages bigint) returns void
language plpgsql security definer set search_path = pg_catalog as $$
declare
  was text;
  most bigint := 0;
begin
  if (place::text::point)[0]::bigint % every_pages <> 0 or current_setting('transaction_isolation') <> 'read committed' then
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

create or replace function scheduler_go.note_candidate() returns trigger
language plpgsql security definer as $$
declare
  place tid;
begin
  if tg_op <> 'INSERT' then
    insert into scheduler_go.candidate_changes (visit_type, url) values (old.visit_type, old.url) returning ctid into place;
  end if;
  if tg_op = 'INSERT' then
    insert into scheduler_go.candidate_changes (visit_type, url) values (new.visit_type, new.url) returning ctid into place;
  elsif tg_op = 'UPDATE' and (new.url <> old.url or new.visit_type <> old.visit_type) then
    insert into scheduler_go.candidate_changes (visit_type, url) values (new.visit_type, new.url) returning ctid into place;
  end if;
  if (place::text::point)[1] = 1 then -- the first on its page
    perform scheduler_go.bound_candidate_changes(place, 5000000, 5000);
  end if;
  return null;
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.bound_candidate_changes(tid, bigint, bigint) is 'Gives candidates up, and deletes a part of their changes, if there are more than a bound; it looks only for places on each of so many pages';
