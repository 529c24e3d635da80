-- +goose Up
-- Functions that run with their owner's rights look up types, operators and functions in
-- pg_catalog first and in the caller's temporary schema last, whatever the caller's path:
-- otherwise one who may write to a table could have the owner run a function of his.
alter function scheduler_go.note_candidate() set search_path = pg_catalog, pg_temp;
alter function scheduler_go.rebuild_candidates() set search_path = pg_catalog, pg_temp;
alter function scheduler_go.bound_candidate_changes(tid, bigint, bigint) set search_path = pg_catalog, pg_temp;
alter function scheduler_go.note_graph_change() set search_path = pg_catalog, pg_temp;
alter function scheduler_go.note_graph_deletion() set search_path = pg_catalog, pg_temp;
alter function scheduler_go.note_listing() set search_path = pg_catalog, pg_temp;

-- Only note_candidate, which is no function to call, is to call it.
revoke execute on function scheduler_go.bound_candidate_changes(tid, bigint, bigint) from public;
