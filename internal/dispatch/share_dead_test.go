package dispatch_test

import (
	"log/slog"
	"testing"
	"time"

	"swh-scheduler/internal/maintenance"
	"swh-scheduler/internal/settle"
	"swh-scheduler/internal/testenv"
)

// begin makes a worker with its own clock start all sent messages of a group and never end them. It returns their
// number.
func (s *sharing) begin(group string, at float64) int {
	s.t.Helper()
	var starts []settle.Outcome
	for _, id := range s.sent[group] {
		starts = append(starts, settle.Outcome{BackendID: id.String(), Received: s.now, Start: &settle.Start{EventTime: at}})
	}
	delete(s.sent, group)
	if err := (settle.Store{Store: s.store}).ApplyOutcomes(s.t.Context(), starts); err != nil {
		s.t.Fatal(err)
	}
	return len(starts)
}

// A worker that dies with all of a group's messages doesn't starve the group: within two half-lives it has its
// share again.
func TestGroupOfADeadWorkerRegainsItsShare(t *testing.T) {
	t.Parallel()
	s := newSharing(t, nil, 1)
	s.q.Shares.HalfLife = 10 * time.Second
	s.waiting = map[string]int{"a": -1, "b": -1}
	for range 30 {
		s.pass(6)
		s.end("a", 1)
		s.end("b", 1)
	}
	s.pass(6)
	s.end("b", 1)
	if n := s.begin("a", float64(s.now.Unix())); n != 3 {
		t.Fatalf("the worker had %d messages of a, want 3", n)
	}
	got := make(map[string]int)
	for second := range 60 {
		for group, n := range s.pass(3) {
			if second >= 20 {
				got[group] += n
			}
			s.end(group, 1)
		}
	}
	s.want(got, map[string]int{"a": 60, "b": 60}, 12)
}

// A worker's clock at 1970, or a year ahead, doesn't change the load of its running messages.
func TestLoadIsBoundedWhateverTheClock(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(now time.Time) time.Time{
		"1970":            func(time.Time) time.Time { return time.Unix(1, 0) },
		"a year ahead":    func(now time.Time) time.Time { return now.AddDate(1, 0, 0) },
		"an hour behind":  func(now time.Time) time.Time { return now.Add(-time.Hour) },
		"a second behind": func(now time.Time) time.Time { return now.Add(-time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSharing(t, nil, 1)
			s.waiting = map[string]int{"a": 3}
			s.pass(3)
			s.begin("a", float64(at(s.now).Unix()))
			s.now = s.now.Add(20 * time.Second)
			states, err := s.store.ShareStates(t.Context(), "q", s.now, time.Hour)
			if err != nil || states["a"].InFlightLoad > 63 || states["a"].InFlightLoad < 3 {
				t.Errorf("%+v, %v; want a load of 3 times 20 seconds at most", states["a"], err)
			}
		})
	}
}

// Work without a time limit that a worker started a day ago is given up, so that its group is below its ceiling
// again.
func TestStartedWorkWithoutALimitIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newSharing(t, nil, 1)
	s.now = time.Now().UTC()
	s.waiting = map[string]int{"a": 3}
	s.pass(3)
	testenv.Declare(t, s.channel(t), "q", nil)
	s.exec(t, "update scheduler_go.work set state = 'sent'")
	s.begin("a", float64(s.now.Unix()))
	m := maintenance.GiveUpWork{Store: s.store, Broker: s.inspector, Log: slog.New(slog.DiscardHandler)}
	inFlight := func(after time.Duration) int {
		t.Helper()
		if _, err := m.GiveUp(t.Context(), s.now.Add(after)); err != nil {
			t.Fatal(err)
		}
		states, err := s.store.ShareStates(t.Context(), "q", s.now, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if states["a"] == nil {
			return 0
		}
		return states["a"].InFlight
	}
	for after, want := range map[time.Duration]int{23 * time.Hour: 3} {
		if n := inFlight(after); n != want {
			t.Errorf("%d are in flight after %s, want %d", n, after, want)
		}
	}
	if n := inFlight(25 * time.Hour); n != 0 {
		t.Errorf("%d are in flight after a day, want none", n)
	}
}
