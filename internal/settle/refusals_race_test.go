package settle

import (
	"context"
	"fmt"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv"
)

// Of two batches with the first refusals of a hoster, the one that is written last doesn't undo what the other found.
func TestTwoBatchesWithAHostersFirstRefusals(t *testing.T) {
	t.Parallel()
	store := testenv.Open(t, testenv.Database(t))
	now := store.Now().Truncate(time.Second)
	testenv.Exec(t, store.Pool(), `insert into scheduler_go.work (task_id, state, since, claimed, task_name, args, kwargs, queue, home, hosters, url, visit_type)
		select ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'sent', now() - interval '1 minute', now() - interval '1 minute', 'x', '[]', '{}', 'q', 'q',
			'{git.example.org}', 'https://git.example.org/' || n, 'git' from generate_series(1, 9) n`)
	settle := Store{Store: store, Hosters: model.Hosters{Backoff: &model.DefaultHosterBackoff}}
	apply := func(ctx context.Context, status string, visits ...int) error {
		var outcomes []Outcome
		for _, n := range visits {
			outcomes = append(outcomes, Outcome{BackendID: fmt.Sprintf("00000000-0000-0000-0000-00000000000%d", n), Received: now,
				End: &End{Status: model.RunFailed, Error: new("unexpected http resp " + status + " for https://git.example.org/a"), EventTime: model.UnixSeconds(now)}})
		}
		return settle.ApplyOutcomes(ctx, outcomes)
	}
	// The first batch waits after it has read the hoster's state and before it writes it.
	hold, err := store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hold.Exec(t.Context(), "insert into scheduler_go.refused_visits (url, visit_type, claimed, ended, again, recorded) values ('https://git.example.org/1', 'git', now(), 0, now(), now())"); err != nil {
		t.Fatal(err)
	}
	first, second := make(chan error), make(chan error)
	go func() { first <- apply(t.Context(), "503", 1) }()
	testenv.Becomes(t, "batches that wait", 1, func() int {
		return testenv.Value[int](t, store.Pool(), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")
	})
	go func() { second <- apply(t.Context(), "429", 2, 3, 4, 5) }()
	select {
	case err := <-second:
		if err != nil {
			t.Fatal(err)
		}
		second = nil
	case <-time.After(time.Second): // it waits for the first one
	}
	if err := hold.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
	if second != nil {
		if err := <-second; err != nil {
			t.Error(err)
		}
	}
	s, known, err := store.RefusingHoster(t.Context(), "git.example.org")
	if err != nil || !known {
		t.Fatal(known, err)
	}
	if most, limited := s.Max(now); !limited {
		t.Errorf("the hoster has no limit after five refusals: %+v", s)
	} else {
		t.Log(most, s.Score)
	}
}
