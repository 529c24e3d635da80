package dispatch_test

import (
	"slices"
	"testing"

	"swh-scheduler/internal/testenv"
)

// While PostgreSQL's disk is too full to write the outcome of sent messages, no process sends them again. When
// there is room, all outcomes are written.
func TestFullDiskRepeatsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec(t, `create table room (free bool);
		create sequence tries;
		create function no_room() returns trigger language plpgsql security definer as
			$$ begin perform nextval('public.tries'); if (select not free from public.room) then raise exception 'could not extend file' using errcode = 'disk_full'; end if; return new; end $$;
		create trigger no_room before insert on scheduler_go.deliveries for each row execute function no_room();
		insert into room values (false)`)
	want := b.enqueue(t, "q", 300) // two batches
	first, other := b.deliverer(t, b.publisher), b.deliverer(t, b.publisher)
	ended := make(chan error, 1)
	go func() {
		_, err := first.Drain(t.Context())
		ended <- err
	}()
	testenv.Becomes(t, "each batch was tried twice, and its messages are locked again", true, func() bool {
		return testenv.Value[int](t, b.store.Pool(), "select last_value from tries") >= 4
	})
	if done, err := other.Drain(t.Context()); err != nil || done.Confirmed > 0 {
		t.Errorf("another process sent %d messages again (%v)", done.Confirmed, err)
	}
	if n := b.outbox(t); n != len(want) {
		t.Errorf("%d messages are outgoing, want %d", n, len(want))
	}
	b.exec(t, "update room set free = true")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	got := b.received(t, "q")
	slices.Sort(got)
	slices.Sort(want)
	assertSame(t, got, want)
	if n := testenv.Value[int](t, b.store.Pool(), "select coalesce(sum(messages), 0) from scheduler_go.deliveries"); n != len(want) {
		t.Errorf("%d deliveries are recorded, want %d", n, len(want))
	}
	if n := b.outbox(t); n != 0 {
		t.Errorf("%d messages are still outgoing", n)
	}
}
