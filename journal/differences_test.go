package journal

import (
	"testing"
	"time"

	"swh-scheduler/internal/model"
)

// The Python scheduler's client exceeds the longest interval, records a visit without a date, and ends at a
// fault in an unused key. Ours doesn't.
func TestDiffersFromThePeersClient(t *testing.T) {
	t.Parallel()
	for _, offset := range []int32{11, 40} { // of an origin without a last visit
		s := originState{VisitStats: model.VisitStats{NextPositionOffset: offset}}
		noFudge.apply(&s, Visit{Date: time.Unix(1e9, 0), Status: model.VisitSuccessful}, 0)
		if days := *s.NextVisitQueuePosition / 86400; days != 4096 || s.NextPositionOffset != offset {
			t.Errorf("offset %d: %d days, and then offset %d; want those of offset 10", offset, days, s.NextPositionOffset)
		}
	}
	if _, _, err := newDecoder().decode(record(map[string]any{"date": nil})); err == nil {
		t.Error("a date that is nil is not set aside")
	}
	// This fault is in an unused key.
	value := append(record(nil), "\xa5other\xa1\xff"...)
	value[0]++ // one key more
	if _, final, err := newDecoder().decode(value); !final || err != nil {
		t.Errorf("a text that is not UTF-8 in another key: %v", err)
	}
}
