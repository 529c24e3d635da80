package dispatch

import (
	"errors"
	"testing"
	"time"

	"swh-scheduler/celery"
)

// A queue that refuses messages has no free slots for a while, and isn't asked; an outage of the
// broker is about no queue.
func TestQueueThatRefusesRests(t *testing.T) {
	d := &Direct{Rest: time.Hour} // it panics if it asks
	d.failed("q", &celery.RejectedError{})
	if free, err := d.Free(t.Context(), "q", new(int64(100))); free != 0 || err != nil {
		t.Errorf("%d free slots, %v", free, err)
	}
	d.failed("other", errors.New("connection refused"))
	if _, rests := d.resting.Load("other"); rests {
		t.Error("a queue rests for an outage")
	}
}
