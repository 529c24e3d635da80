-- +goose Up
-- An action on all graphs that a search matches notes the graph before it does anything to it:
-- what is done may change what the graph is searched by, and the rest of the step fail.
alter table scheduler_go.actions add column in_hand bigint;
comment on column scheduler_go.actions.in_hand is 'The graph of the step in progress, for an action on what a search of graphs matches';
