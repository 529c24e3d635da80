-- +goose Up
-- Keys of clients, by which a repeated submission or extension of a graph is known.
create table scheduler_go.graph_keys (
  key    text primary key,
  graph  bigint not null,
  digest bytea not null
);
create index graph_keys_graph_idx on scheduler_go.graph_keys (graph);
comment on table scheduler_go.graph_keys is 'Keys that clients gave submissions and extensions of graphs, for as long as there is the graph';
comment on column scheduler_go.graph_keys.digest is 'SHA-256 of what was submitted with the key';

-- +goose StatementBegin
create function scheduler_go.graph_edges_below(tasks bigint[]) returns table (task bigint, depends_on bigint)
language sql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set jit = off
as $$
with recursive below as (
  select unnest(tasks) as task
  union
  select e.depends_on from below b join scheduler_go.graph_edges e on e.task = b.task
)
select e.task, e.depends_on from below b join scheduler_go.graph_edges e on e.task = b.task
where e.depends_on <> e.task
$$;
-- +goose StatementEnd
comment on function scheduler_go.graph_edges_below(bigint[]) is 'Returns the dependencies of some tasks, of those, and so on, without those of tasks on themselves';
