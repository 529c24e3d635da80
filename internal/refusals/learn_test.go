package refusals

import (
	"testing"
	"time"

	"swh-scheduler/internal/model"
)

var backsOff = model.Hosters{Backoff: &backoff}

// end is the end of a visit that was claimed a minute before.
func end(kind Kind, received time.Time, hosters ...string) End {
	return End{Hosters: hosters, Refusal: Refusal{Kind: kind}, Reason: string(kind), Claimed: received.Add(-time.Minute), Received: received}
}

// A refusal of one host lowers the limit of an instance only if nearly all its visits are of that host.
func TestRefusalsOfAHostOfAnInstance(t *testing.T) {
	t.Parallel()
	const instance = "gitlab/forges"
	for name, c := range map[string]struct {
		others  int
		limited bool
	}{"few others": {10, true}, "many others": {11, false}} {
		loads := []Load{{[]string{"a.example", instance}, 90}, {[]string{instance}, c.others}, {[]string{"b.example"}, 1000}}
		changed, _ := Learn(backsOff, nil, loads, []End{end(TooMany, at(60), "a.example", instance)})
		if len(changed) != 2 || changed[0].InFlight != 90 || changed[0].Limit != 45 {
			t.Fatalf("%s: %+v, want half of the host's 90", name, changed)
		}
		if s := changed[1]; s.InFlight != 90+c.others || (s.Limit > 0) != c.limited || s.Mixed == c.limited {
			t.Errorf("%s: the instance: %+v", name, s)
		}
	}
	loads := []Load{{[]string{"a.example"}, 60}, {[]string{"a.example", "b.example"}, 40}}
	if changed, _ := Learn(backsOff, nil, loads, []End{end(TooMany, at(60), "a.example", "b.example")}); changed[0].Mixed || changed[0].Limit != 50 {
		t.Errorf("%+v, want half of a host's 100, whichever others count them", changed[0])
	}
}

// A visit is asked for again after the last moment of its hosters. A refusal counts as a failure only after a week
// without a success.
func TestRefusedVisitsAreAskedForAgain(t *testing.T) {
	t.Parallel()
	known := []State{{Hoster: "a.example", Limit: 5, Level: 5, Until: at(3600), Lowered: at(3000)}}
	_, again := Learn(backsOff, known, nil, []End{end(TooMany, at(60), "a.example", "b.example"), end("", at(61), "b.example")})
	if !again[0].Equal(at(3600)) || !again[1].IsZero() {
		t.Errorf("%s, want the later of both hosters, and none for a success", again)
	}
	s := []State{{Hoster: "a.example"}}
	for _, c := range []struct {
		after  time.Duration
		counts bool
	}{{0, false}, {Excused - time.Second, false}, {Excused, true}} {
		changed, again := Learn(backsOff, s, nil, []End{end(TooMany, start.Add(c.after), "a.example")})
		if again[0].IsZero() != c.counts {
			t.Errorf("%s after the first refusal: %s", c.after, again[0])
		}
		s = changed
	}
}

// What is shown of a hoster is its last refusal, whatever the order of the ends.
func TestLastRefusalIsShown(t *testing.T) {
	t.Parallel()
	changed, _ := Learn(backsOff, nil, nil, []End{end(Refused, at(90), "a.example"), end(TooMany, at(60), "a.example")})
	if s := changed[0]; s.Kind != Refused || s.Reason != string(Refused) || !s.Refused.Equal(at(90)) {
		t.Errorf("%+v, want the last refusal", s)
	}
}

// Ends of visits that were claimed before a limit was lowered change it no further.
func TestEndsOfEarlierFlights(t *testing.T) {
	t.Parallel()
	lowered := State{InFlight: 100}
	lowered.Refuse(backoff, model.HosterLimit{}, Refusal{Kind: TooMany}, at(0), at(60))
	for _, claimed := range []time.Time{at(59), at(60)} {
		s := lowered
		s.Refuse(backoff, model.HosterLimit{}, Refusal{Kind: TooMany}, claimed, at(500))
		s.Succeed(claimed, at(501))
		if s.Limit != 50 || s.Since.IsZero() {
			t.Errorf("claimed at %s: %+v, want the limit of 50", claimed, s)
		}
	}
	s := lowered
	if s.Succeed(at(61), at(501)); s.Limit <= 50 || !s.Since.IsZero() {
		t.Errorf("%+v, want more than 50", s)
	}
}

// A hoster that asks for ever closes for backoff's longest time at most, also when its limit stays; one whose clock is
// off closes for its shortest.
func TestPausesAreBounded(t *testing.T) {
	t.Parallel()
	for says, want := range map[time.Duration]time.Duration{maxWait: backoff.Max, -time.Hour: backoff.Min, time.Second: pause} {
		s := State{InFlight: 100}
		s.Refuse(backoff, model.HosterLimit{}, Refusal{Kind: TooMany}, at(0), at(60))
		s.Refuse(backoff, model.HosterLimit{}, Refusal{TooMany, says, true}, at(0), at(1000)) // of the same flight
		if got := s.Closed.Sub(at(1000)); got != want {
			t.Errorf("it asks for %s: closed for %s, want %s", says, got, want)
		}
	}
}

// The pace of a hoster that was closed begins at its opening: what it didn't get meanwhile isn't sent at once.
func TestPaceBeginsAtTheOpening(t *testing.T) {
	t.Parallel()
	s := State{Limit: 10, Seconds: 20, Closed: at(100)}
	if got := s.Paced(at(0), at(101)); !got.Equal(at(98)) {
		t.Errorf("paced from %s, want one interval before %s", got, s.Closed)
	}
}

// A limit isn't lowered below the configured least. At the least, a hoster that still refuses is closed for the wait.
func TestLeastInFlight(t *testing.T) {
	t.Parallel()
	limit := model.HosterLimit{MinInFlight: 20}
	s := State{Limit: 20, Level: 20, Lowered: at(0), Score: -0.5}
	s.Refuse(backoff, limit, Refusal{Kind: TooMany}, at(50), at(60))
	if s.Limit != 20 {
		t.Errorf("after a refusal: %+v, want the least of 20", s)
	}
	s.Score = 10
	s.Refuse(backoff, limit, Refusal{Kind: TooMany}, at(90), at(100))
	if most, _ := s.Max(at(101)); s.Limit != 20 || most != 0 || !s.Closed.Equal(s.Until) {
		t.Errorf("after many: %+v, want the least of 20, closed for the wait", s)
	}
}
