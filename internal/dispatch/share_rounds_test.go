package dispatch_test

import (
	"context"
	"testing"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// Slots that a group can't use go to the others in the same claim, so that all are level with their earlier use.
func TestDivisionCountsWhatItGave(t *testing.T) {
	t.Parallel()
	s := newSharing(t, nil, 1)
	s.waiting = map[string]int{"a": -1, "b": -1, "c": -1}
	s.want(s.pass(30), map[string]int{"a": 10, "b": 10, "c": 10}, 0)
	s.end("a", 1)
	s.end("b", 5)
	s.end("c", 1)
	s.waiting["c"] = 7
	// By then a has used 10 seconds and b 50, and a piece of theirs is expected to
	// take 1.1 and 4.8: they are even, at about 92, after 74 pieces and 9.
	s.want(s.pass(90), map[string]int{"a": 74, "b": 9, "c": 7}, 1)
}

// A claim records only for the groups that it read whether they have more work. Another runner of the queue reads
// the others.
func TestGroupsOutsideAClaimStayWaiting(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := time.Now()
	waited := model.UnixSeconds(now) - 5
	got := map[string]float64{}
	if err := b.store.InTx(t.Context(), func(ctx context.Context, tx *db.Tx) error {
		if err := tx.SaveShares(ctx, "q", now, map[string]*ledger.ShareState{
			"a": {Group: "a", TasksWaited: waited}, "b": {Group: "b", TasksWaited: waited}, "c": {Group: "c", TasksWaited: waited},
		}); err != nil {
			return err
		}
		q := dispatch.SharedQueue{Name: "q", Shares: model.Shares{By: model.ShareByTaskType, Default: 1, HalfLife: time.Hour}}
		d, err := dispatch.Divide(ctx, tx, q, now, 10, dispatch.WaitingGroups{Groups: []string{"a"}, Read: []string{"a", "c"}})
		if err != nil {
			return err
		}
		for asks := d.Next(); asks != nil; asks = d.Next() {
			d.RecordClaimed(make([]int, len(asks))) // it has none after all
		}
		if err := d.Save(ctx, tx); err != nil {
			return err
		}
		states, err := tx.ShareStates(ctx, "q", now, time.Hour)
		for name, s := range states {
			got[name] = s.TasksWaited
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got["a"] != 0 || got["c"] != 0 || got["b"] != waited {
		t.Errorf("waiting since %v; want a and c not to wait, b since %v", got, waited)
	}
}
