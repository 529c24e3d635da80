package dispatch_test

import (
	"testing"
	"time"
)

// After an outage of PostgreSQL longer than the time after which lanes count as removed, lanes in use stay:
// processes soon record them again. Lanes that no process has count as removed some minutes later.
func TestLanesStayAfterAnOutage(t *testing.T) {
	t.Parallel()
	l := newLaned(t, two(2, 2)...)
	l.exec(`insert into scheduler_go.lane_memory select hashtextextended('load-git https://forge.example/' || n, 0), 500, 0, false, 0, now() from generate_series(0, 9) n`)
	for range 3 {
		l.claim(4)
	}
	waiting := func() int { return l.count("scheduler_go.work where state = 'backlog'") }
	l.maintain(l.now, l.q)
	l.sent()
	before := waiting()
	if before == 0 {
		t.Fatal("nothing waits")
	}
	back := l.now.Add(10 * time.Minute)
	for i := range 10 { // another process, which has no lanes, is back first
		l.maintain(back.Add(time.Duration(i) * time.Minute))
		if n := waiting(); n != before {
			t.Fatalf("%d minutes after the outage %d of %d are left in the backlog", i, n, before)
		}
		if err := l.store.RecordLaneSets(t.Context(), []string{"load-git"}, back.Add(time.Duration(i)*time.Minute+30*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 7 {
		l.maintain(back.Add(time.Duration(10+i) * time.Minute))
	}
	if n := waiting(); n >= before {
		t.Errorf("%d of %d are left in the backlog of lanes that nobody has any more", n, before)
	}
}
