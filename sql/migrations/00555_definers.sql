-- +goose Up
-- Who may execute a trigger function may attach it to a table of his own, and so write our tables with the rights
-- of its owner. A trigger that is there fires without that right of whoever writes the table.
revoke execute on function scheduler_go.note_candidate(), scheduler_go.rebuild_candidates(), scheduler_go.note_graph_change(),
  scheduler_go.note_graph_deletion(), scheduler_go.note_listing() from public;
