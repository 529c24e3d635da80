package dispatch_test

import (
	"slices"
	"testing"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/testenv"
)

// A queue of first visits stays known after all of them were scheduled: their messages wait there, perhaps for a worker.
func TestQueuesOfScheduledFirstVisitsAreKnown(t *testing.T) {
	t.Parallel()
	store := testenv.Open(t, testenv.Database(t))
	testenv.Exec(t, store.Pool(), `
		insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git');
		insert into listers (id, name, instance_name, current_state, updated, first_visits_queue_prefix, last_listing_finished_at, first_visits_scheduled_at)
			values (gen_random_uuid(), 'gitea', 'new', '{}', now(), 'add_forge_now', now(), now())`)
	known, err := dispatch.KnownQueues(t.Context(), store, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(known, func(q dispatch.KnownQueue) bool { return q.Name == "add_forge_now:swh.git" }) {
		t.Errorf("known are %+v", known)
	}
}
