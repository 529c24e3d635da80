package refusals

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/testenv/seed"
)

// world is a hoster that takes a limited number of requests, and a scheduler that claims a visit each time the
// learned limit has room for one. Times are in seconds.
type world struct {
	random   *rand.Rand
	duration float64 // mean of visits, exponentially distributed
	kind     Kind    // of refusals; "" is TooMany
	slots    int     // most visits in flight without a limit
	allows   func(at float64) (retryAfter float64, ok bool)

	state      State
	known      bool // state exists
	paced      time.Time
	now        float64
	inFlight   visits
	done, refs int
}

type visit struct{ claimed, ends, after float64 } // after: seconds of Retry-After; negative: not refused

type visits []visit

func (v visits) Len() int           { return len(v) }
func (v visits) Less(i, j int) bool { return v[i].ends < v[j].ends }
func (v visits) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *visits) Push(x any)        { *v = append(*v, x.(visit)) }
func (v *visits) Pop() any {
	last := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return last
}

var (
	start   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	backoff = model.DefaultHosterBackoff
)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * 1e9)) }

// claim fills the free places, as a round of claims does each second.
func (w *world) claim() {
	most := w.slots
	if limit, limited := w.state.Max(at(w.now)); limited {
		most = min(most, limit)
	}
	interval := w.state.Interval()
	if interval > 0 {
		w.paced = w.state.Paced(w.paced, at(w.now))
	}
	for len(w.inFlight) < most && (interval == 0 || !w.paced.Add(interval).After(at(w.now))) {
		w.paced = w.paced.Add(interval)
		v := visit{w.now, w.now + w.random.ExpFloat64()*w.duration, -1}
		// The request comes when a worker takes the visit, within a second.
		if after, ok := w.allows(w.now + w.random.Float64()); !ok {
			v.ends, v.after = w.now+1+w.random.Float64(), after
		}
		heap.Push(&w.inFlight, v)
	}
	w.paced = later(w.paced, at(w.now).Add(-interval))
}

// run runs until a moment, and returns the visits a second and the part refused after the moment from.
func (w *world) run(from, until float64) (rate, refused float64) {
	for ; w.now < until; w.now++ {
		for len(w.inFlight) > 0 && w.inFlight[0].ends <= w.now {
			v := heap.Pop(&w.inFlight).(visit)
			if v.after < 0 {
				if w.known {
					w.state.Succeed(at(v.claimed), at(w.now))
				}
				if w.now >= from {
					w.done++
				}
				continue
			}
			if w.now >= from {
				w.refs++
			}
			if !w.known {
				w.known, w.state.InFlight = true, len(w.inFlight)+1
			}
			w.state.Refuse(backoff, model.HosterLimit{}, Refusal{cmp.Or(w.kind, TooMany), time.Duration(v.after * 1e9), v.after > 0}, at(v.claimed), at(w.now))
		}
		w.claim()
	}
	return float64(w.done) / (until - from), float64(w.refs) / float64(max(1, w.done+w.refs))
}

// bucket allows a rate of requests a second, and bursts.
func bucket(rate, burst, retryAfter float64) func(float64) (float64, bool) {
	tokens, last := burst, 0.0
	return func(at float64) (float64, bool) {
		tokens, last = min(burst, tokens+rate*max(0, at-last)), max(at, last)
		if tokens < 1 {
			return retryAfter, false
		}
		tokens--
		return 0, true
	}
}

// window allows a number of requests in each window of so many seconds, and asks to wait for the next one.
func window(n int, length float64, says bool) func(float64) (float64, bool) {
	used, current := 0, 0.0
	return func(at float64) (float64, bool) {
		if w := math.Floor(at / length); w > current {
			current, used = w, 0
		}
		if used >= n {
			if says {
				return math.Ceil((current+1)*length - at), false
			}
			return 0, false
		}
		used++
		return 0, true
	}
}

// A hoster that takes 3 visits a second gets some 90 % of them or more, and refuses some 2 % at most. It takes bursts, or
// counts by the second, the minute or the hour. Visits last from 3 seconds to 2 minutes, and the hoster may ask to
// wait. Requests come within a second of their claims, so a hoster that counts by the second gets somewhat less. One
// that counts by the hour and doesn't ask to wait refuses everything for some minutes, and gets less too. The bounds are
// below the least of 70 runs.
func TestRateIsReached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		least  float64 // part of the rate
		allows func() func(float64) (float64, bool)
	}{
		{"bursts of 60", 0.95, func() func(float64) (float64, bool) { return bucket(3, 60, 0) }},
		{"bursts of 180", 0.95, func() func(float64) (float64, bool) { return bucket(3, 180, 0) }},
		{"bursts of 180, says 20", 0.95, func() func(float64) (float64, bool) { return bucket(3, 180, 20) }},
		{"bursts of 10", 0.9, func() func(float64) (float64, bool) { return bucket(3, 10, 0) }},
		{"bursts of 10, says 5", 0.87, func() func(float64) (float64, bool) { return bucket(3, 10, 5) }},
		{"3 in each second", 0.8, func() func(float64) (float64, bool) { return window(3, 1, false) }},
		{"180 a minute", 0.86, func() func(float64) (float64, bool) { return window(180, 60, false) }},
		{"180 a minute, says", 0.88, func() func(float64) (float64, bool) { return window(180, 60, true) }},
		{"10800 an hour", 0.5, func() func(float64) (float64, bool) { return window(10800, 3600, false) }},
		{"10800 an hour, says", 0.98, func() func(float64) (float64, bool) { return window(10800, 3600, true) }},
	} {
		for _, duration := range []float64{3, 10, 30, 120} {
			w := &world{random: seed.Rand(t), duration: duration, slots: 1000, allows: c.allows()}
			rate, refused := w.run(4*3600, 12*3600)
			t.Logf("%s, visits of %.0f s: %.1f %% of the rate, %.2f %% refused", c.name, duration, rate/3*100, refused*100)
			if rate < c.least*3 || refused >= 0.025 {
				t.Errorf("%s, visits of %.0f s: %.1f %% of the rate, %.2f %% refused", c.name, duration, rate/3*100, refused*100)
			}
		}
	}
}

// A hoster that takes 30 visits at a time gets more than 90 % of what these can do.
func TestConcurrencyIsReached(t *testing.T) {
	t.Parallel()
	for _, duration := range []float64{3, 10, 30, 120} {
		w := &world{random: seed.Rand(t), duration: duration, slots: 1000}
		w.allows = func(float64) (float64, bool) {
			accepted := 0
			for _, v := range w.inFlight {
				if v.after < 0 {
					accepted++
				}
			}
			return 0, accepted < 30
		}
		rate, refused := w.run(4*3600, 12*3600)
		most := 30 / (duration + 0.5) // a place is free for half a second in the mean
		t.Logf("visits of %.0f s: %.1f %%, %.2f %% refused", duration, rate/most*100, refused*100)
		if rate < 0.88*most || refused >= 0.02 {
			t.Errorf("visits of %.0f s: %.1f %%, %.2f %% refused", duration, rate/most*100, refused*100)
		}
	}
}

// A hoster without refusals keeps all its slots. One with an origin in a thousand that fails by its own fault, as if
// the hoster had refused it, loses less than a hundredth.
func TestNoLossWithoutTrouble(t *testing.T) {
	t.Parallel()
	for _, faults := range []float64{0, 0.001} {
		random := seed.Rand(t)
		w := &world{random: seed.Rand(t), duration: 30, slots: 300, kind: Unavailable, allows: func(float64) (float64, bool) {
			return 0, random.Float64() >= faults
		}}
		if rate, _ := w.run(3600, 12*3600); rate < 0.99*300/31 {
			t.Errorf("%g faults: %.2f visits a second, want about 10; %+v", faults, rate, w.state)
		}
	}
}

// A hoster that was away for an hour gets half of its visits an hour after it is back, and more then.
func TestOutage(t *testing.T) {
	t.Parallel()
	w := &world{random: seed.Rand(t), duration: 30, slots: 300, kind: Refused, allows: func(at float64) (float64, bool) {
		return 0, at < 3600 || at > 7200
	}}
	if _, refused := w.run(3600, 7200); w.refs > 600 {
		t.Errorf("%d refused (%.0f %%) in the hour, want few beside the 300 in flight", w.refs, refused*100)
	}
	if limit, _ := w.state.Max(at(7200)); limit != 0 {
		t.Errorf("limit %d, want none in flight", limit)
	}
	w.done = 0
	if rate, _ := w.run(3*3600, 4*3600); rate < 0.5*300/31 {
		t.Errorf("%.2f visits a second an hour after it is back, want half of 10; %+v", rate, w.state)
	}
}

// The wait of a hoster whose clock is off is bounded.
func TestClockThatIsOff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ says, want time.Duration }{{-time.Hour, backoff.Min}, {maxWait, backoff.Max}, {10 * time.Minute, 10 * time.Minute}} {
		s := State{InFlight: 100}
		again := s.Refuse(backoff, model.HosterLimit{}, Refusal{TooMany, c.says, true}, start, at(60))
		if got := again.Sub(at(60)); got != c.want {
			t.Errorf("it asks for %s: waits %s, want %s", c.says, got, c.want)
		}
		if most, limited := s.Max(at(61)); most != 0 || !limited {
			t.Errorf("%d, %v in flight before that, want none", most, limited)
		}
		if most, _ := s.Max(again); most != 50 {
			t.Errorf("%d in flight after that, want 50", most)
		}
	}
}

// A refusal halves the limit at once, from the configured one or from the visits in flight. Each wait is twice as long
// as the one before, up to a day. A success resets that, and raises the limit slowly.
func TestRefuse(t *testing.T) {
	t.Parallel()
	refused, now := Refusal{Kind: Refused}, at(0)
	s := State{InFlight: 40}
	s.Refuse(backoff, model.HosterLimit{MaxInFlight: 20}, refused, now, at(1))
	if most, _ := s.Max(at(1)); most != 10 {
		t.Errorf("%d, want half of the configured 20", most)
	}
	s = State{InFlight: 40}
	s.Refuse(backoff, model.HosterLimit{}, refused, now, at(1))
	s.Refuse(backoff, model.HosterLimit{}, refused, now, at(2)) // of the same flight
	if most, _ := s.Max(at(2)); most != 20 || !s.Until.Equal(at(61)) {
		t.Errorf("%d until %s, want half of the 40 in flight for a minute", most, s.Until)
	}
	moment, wait := s.Until, 2*time.Minute
	for range 14 {
		claimed := moment.Add(time.Second)
		again := s.Refuse(backoff, model.HosterLimit{MinInFlight: 2}, refused, claimed, claimed.Add(time.Second))
		if got := again.Sub(claimed.Add(time.Second)); got != min(wait, backoff.Max) {
			t.Fatalf("waits %s, want %s", got, wait)
		}
		moment, wait = again, 2*wait
	}
	if most, _ := s.Max(moment); most != 2 {
		t.Errorf("%d in flight, want the least", most)
	}
	for range 3 {
		s.Succeed(moment.Add(time.Second), moment.Add(time.Minute))
	}
	if most, _ := s.Max(moment.Add(time.Minute)); most < 3 || s.Waits != 0 || !s.Since.IsZero() {
		t.Errorf("%d after visits that succeeded, %+v", most, s)
	}
	if weak := (State{InFlight: 40}); !weak.Refuse(backoff, model.HosterLimit{}, Refusal{Kind: Unavailable}, now, at(1)).Equal(at(61)) || weak.Limit != 0 {
		t.Errorf("one origin is unavailable: %+v, want no limit", weak)
	}
}
