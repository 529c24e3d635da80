-- Sessions of the dashboard (sql/sessions). Only the owner, rpc-serve and the dashboard may run these.

-- MakeFormKey writes a key, unless there is one.
-- name: MakeFormKey :exec
insert into scheduler_go.form_key (key) values (@key) on conflict do nothing;

-- FormKey returns the key, if there is one.
-- name: FormKey :many
select key from scheduler_go.form_key;

-- ForgetFormKey deletes the key, which invalidates all that it has signed.
-- name: ForgetFormKey :exec
delete from scheduler_go.form_key;

-- BeginSession writes a session that ends after some seconds.
-- name: BeginSession :exec
insert into scheduler_go.sessions (key, who, credential, ends, address)
values (@key, @who, @credential, now() + make_interval(secs => @seconds::double precision), @address);

-- BoundSessions deletes sessions that have ended, and all but a user's newest ones. It skips sessions that
-- another login is deleting.
-- name: BoundSessions :exec
delete from scheduler_go.sessions where id in (
  select s.id from scheduler_go.sessions s
  where s.ends <= now()
     or s.who = @who and s.id not in (select n.id from scheduler_go.sessions n where n.who = @who order by n.id desc limit @most::bigint)
  order by s.id for update skip locked);

-- Session returns the session with the key, unless it has ended.
-- name: Session :many
select id, who, credential from scheduler_go.sessions where key = @key and ends > now();

-- Sessions returns the sessions that have not ended, the newest first.
-- name: Sessions :many
select id, who, began, ends, address from scheduler_go.sessions where ends > now() order by id desc limit @most::bigint;

-- EndSession ends the session with the key.
-- name: EndSession :execrows
delete from scheduler_go.sessions where key = @key;

-- EndSessions ends the sessions with the numbers and those of the users, or all.
-- name: EndSessions :execrows
delete from scheduler_go.sessions where ends > now() and (@everyones::boolean or id = any(@ids::bigint[]) or who = any(@who::text[]));
