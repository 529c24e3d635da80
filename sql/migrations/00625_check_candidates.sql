-- +goose Up
-- A change of visits that is pending repairs nothing of what listers write. So the check passes by an origin with such a
-- change only if all that differs is of visits.
-- +goose StatementBegin
create or replace function scheduler_go.check_candidates(first_page bigint, end_page bigint) returns bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set enable_sort = off set jit = off
as $$
with wrong as materialized (
  select c.visit_type, c.url,
         n.found is null or (c.last_update, c.first_seen, c.fork) is distinct from (n.last_update, n.first_seen, n.fork) as listed
  from scheduler_go.candidates c
  left join lateral (
    select true as found, n.*
    from scheduler_go.candidates_now n
    where n.lister_id = c.lister_id and n.url = c.url and n.visit_type = c.visit_type
  ) n on true
  where c.ctid >= format('(%s,0)', first_page)::tid and c.ctid < format('(%s,0)', end_page)::tid
    and (n.found is null
      or (c.due, c.last_update, c.first_seen, c.last_scheduled, c.lag, c.queue_position, c.loaded, c.successful, c.fork) is distinct from
         (n.due, n.last_update, n.first_seen, n.last_scheduled, n.lag, n.queue_position, n.loaded, n.successful, n.fork))
), noted as (
  insert into scheduler_go.candidate_changes (visit_type, url)
  select distinct visit_type, url from wrong
  where (visit_type, url) not in (select p.visit_type, p.url from scheduler_go.candidate_changes p where p.listed)
    and (listed or (visit_type, url) not in (select p.visit_type, p.url from scheduler_go.candidate_changes p))
  returning true
)
select count(*) from noted
$$;
create or replace function scheduler_go.check_listed_origins(first_page bigint, end_page bigint) returns bigint
language sql
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set enable_sort = off set jit = off
as $$
with missing as materialized (
  select n.visit_type, n.url
  from public.listed_origins n
  where n.ctid >= format('(%s,0)', first_page)::tid and n.ctid < format('(%s,0)', end_page)::tid
    and n.enabled
    and 0 = (select count(*) from (
      select from scheduler_go.candidates c
      where c.url = n.url and c.visit_type = n.visit_type and c.lister_id = n.lister_id limit 1) c)
    and 0 = (select count(*) from scheduler_go.set_aside_origins s
      where s.lister_id = n.lister_id and s.url = n.url and s.visit_type = n.visit_type)
), noted as (
  insert into scheduler_go.candidate_changes (visit_type, url)
  select distinct visit_type, url from missing
  where (visit_type, url) not in (select p.visit_type, p.url from scheduler_go.candidate_changes p where p.listed)
  returning true
)
select count(*) from noted
$$;
-- +goose StatementEnd
