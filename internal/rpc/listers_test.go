package rpc

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"swh-scheduler/internal/testenv"
)

// The call returns listers with a queue for first visits, a finished listing, and first visits that are not
// scheduled.
func TestListersWithFirstVisitsToSchedule(t *testing.T) {
	t.Parallel()
	dsn := testenv.Database(t)
	testenv.Exec(t, openStore(t, dsn).Pool(), `insert into listers
			(id, name, instance_name, current_state, updated, first_visits_queue_prefix, last_listing_finished_at, first_visits_scheduled_at)
		values (gen_random_uuid(), 'waits', '', '{}', now(), 'first', now(), null), (gen_random_uuid(), 'scheduled', '', '{}', now(), 'first', now(), now()),
			(gen_random_uuid(), 'lists', '', '{}', now(), 'first', null, null), (gen_random_uuid(), 'plain', '', '{}', now(), null, now(), null)`)
	url := serve(t, dsn)
	for body, want := range map[string]string{
		`{"with_first_visits_to_schedule": true}`: "waits", `{"with_first_visits_to_schedule": false}`: "lists plain scheduled waits",
	} {
		_, answer := post(t, url+"/listers/get", mimeJSON, []byte(body))
		var got []string
		for _, name := range strings.Fields("lists plain scheduled waits") {
			if strings.Contains(string(answer), `"`+name+`"`) {
				got = append(got, name)
			}
		}
		if diff := cmp.Diff(strings.Fields(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s%s", body, diff, answer)
		}
	}
}
