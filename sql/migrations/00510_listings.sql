-- +goose Up
-- When listings ended, from which follows how many origins of a lister change.
create table scheduler_go.listings (
  lister_id uuid primary key,
  finished  timestamptz not null,
  previous  timestamptz,
  active    bigint,
  counted   timestamptz
);

comment on table scheduler_go.listings is 'When the last two listings of each lister ended, of which the peer keeps the last one only, and how many origins changed between the two';
comment on column scheduler_go.listings.finished is 'End of the last listing';
comment on column scheduler_go.listings.previous is 'End of the one before; null: only one is known';
comment on column scheduler_go.listings.active is 'How many enabled origins changed between two listings; null: not counted yet';
comment on column scheduler_go.listings.counted is 'End of the later one of these two';

insert into scheduler_go.listings (lister_id, finished)
select id, last_listing_finished_at from listers where last_listing_finished_at is not null;

-- +goose StatementBegin
create function scheduler_go.note_listing() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into scheduler_go.listings as l (lister_id, finished)
  values (new.id, new.last_listing_finished_at)
  on conflict (lister_id) do update set previous = l.finished, finished = excluded.finished
  where l.finished < excluded.finished;
  return null;
end
$$;
-- +goose StatementEnd
comment on function scheduler_go.note_listing() is 'Notes that a listing ended';

revoke execute on function scheduler_go.note_listing() from public; -- who may execute it may attach it to a table of his own

create trigger scheduler_go_listing_insert after insert on listers
for each row when (new.last_listing_finished_at is not null)
execute function scheduler_go.note_listing();

create trigger scheduler_go_listing_update after update of last_listing_finished_at on listers
for each row when (new.last_listing_finished_at is distinct from old.last_listing_finished_at and new.last_listing_finished_at is not null)
execute function scheduler_go.note_listing();
