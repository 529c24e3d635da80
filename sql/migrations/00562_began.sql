-- +goose Up
-- A worker's clock may be off by years.
create function scheduler_go.began(started double precision, since timestamptz, now timestamptz) returns double precision
language sql stable parallel safe
as $$
select case when started between extract(epoch from since) and extract(epoch from now) then started
            when started is not null then extract(epoch from since)::double precision end
$$;
comment on function scheduler_go.began(double precision, timestamptz, timestamptz) is
  'Returns when a worker began work, in seconds since 1970: by its own clock, or when the work was sent if that clock says that it began before that or has yet to begin; null if it has not begun';
