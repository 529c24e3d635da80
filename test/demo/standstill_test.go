package main

import (
	"testing"
	"testing/synctest"
	"time"

	"swh-scheduler/internal/testenv/swh"
)

// A job ends after two minutes without progress. Only progress of a stage restarts that time.
func TestStandstill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := storyOf(goodRun())
		var still standstill
		// lasts calls over for a time as the demo does, and returns the time after which it is true; 0: it isn't.
		lasts := func(d time.Duration) time.Duration {
			for began := time.Now(); time.Since(began) < d; time.Sleep(lookInterval) {
				if still.over(s.state()) {
					return time.Since(began)
				}
			}
			return 0
		}
		if over := lasts(standstillTime - time.Second); over != 0 {
			t.Fatalf("over after %s", over)
		}
		for name, moves := range map[string]func(){
			"an origin is listed":   func() { s.evidence.Listed++ },
			"a step is done":        func() { s.steps = s.steps[1:] },
			"a message is sent":     func() { s.evidence.Waiting++ },
			"a run has ended":       func() { s.evidence.Runs = append(s.evidence.Runs, taskRun{Status: "started"}) },
			"a fault falls":         func() { s.evidence.Faults = append(s.evidence.Faults, fault{}) },
			"a visit's result":      func() { s.evidence.Known["small/plain"] = swh.Known{Status: "successful"} },
			"a command was started": func() { s.command = make(chan error) },
		} {
			if moves(); lasts(standstillTime-time.Second) != 0 {
				t.Errorf("it is over although %s", name)
			}
		}
		// Queues, and visits without a reason, change during a standstill.
		s.evidence.Queues[expressQueue] = queue{Ready: 7}
		url := s.world.origins[0].URL
		s.evidence.Claims[url] = append(s.evidence.Claims[url], time.Now())
		if over := lasts(2 * standstillTime); over == 0 || over > time.Second+lookInterval {
			t.Errorf("over %s after %s of standstill", over, standstillTime-time.Second)
		}
	})
}

// A release must be newer than the visit before it, by dates in whole seconds.
func TestReleasesAreNewerThanVisits(t *testing.T) {
	t.Parallel()
	s := storyOf(goodRun())
	growing := s.world.of(growing)
	if len(growing) == 0 {
		t.Fatal("nothing grows")
	}
	known, stored := at(10).Add(300*time.Millisecond), at(12).Add(900*time.Millisecond)
	for _, o := range growing {
		s.evidence.Known[o.URL] = swh.Known{Status: "successful", Visited: &known}
		s.evidence.Stored[o.URL] = nil
	}
	for _, c := range []struct {
		now  time.Time
		want bool
	}{{known, false}, {at(10).Add(999 * time.Millisecond), false}, {at(11), true}} {
		if got := s.newerThanVisits(c.now); got != c.want {
			t.Errorf("at %s: %v", c.now, got)
		}
	}
	s.evidence.Stored[growing[0].URL] = []swh.Visit{{Date: stored}}
	if s.newerThanVisits(at(12).Add(950*time.Millisecond)) || !s.newerThanVisits(at(13)) {
		t.Error("a visit that the scheduler doesn't know yet does not count")
	}
	// The missing origins are named, for explain.
	s.evidence.Runs[1].Ended = &known
	if urls := s.unfinished(); len(urls) != len(growing) {
		t.Errorf("%v are unfinished, want the %d that have grown", urls, len(growing))
	}
}

// storyOf returns a story with the evidence and a world of its origins, with two steps left.
func storyOf(e *evidence) *story {
	s := &story{evidence: e, world: &world{}, steps: make([]step, 2)}
	s.world.origins = e.Origins
	return s
}
