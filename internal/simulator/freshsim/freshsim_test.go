package freshsim

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"swh-scheduler/internal/testenv/seed"
)

// small are the options of a short run. Runs with the same seed have the same result.
var small = Options{Origins: 300, WarmUp: 90, Runtime: 150, Load: 1, Workers: 2, Seed: 1, Runs: 1, Longest: 180, News: Defaults.News}

// noisy are the same options with listers that miss much, and report changes that never were.
var noisy = func() Options {
	o := small
	o.Origins, o.News = 1500, Signals{Recall: 0.7, False: 0.1}
	return o
}()

var poissonModel = Models[slices.IndexFunc(Models, func(m Model) bool { return m.Name == "poisson" })]

// With the same workers and changes, freshness leaves less staleness than the policies that don't learn rates, and
// makes fewer useless visits than pools. Its staleness is not much above an oracle's.
func TestFreshnessLetsTheArchiveBeLessStale(t *testing.T) {
	t.Parallel()
	reports, err := Compare(t.Context(), poissonModel, small)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + Text(reports, small))
	python, pools, fresh, oracle := reports[0], reports[3], reports[5], reports[6]
	if fresh.Mean > 0.7*python.Mean || fresh.Mean > 0.8*pools.Mean || fresh.Useless > pools.Useless*3/4 {
		t.Error("freshness is no better")
	}
	if fresh.Mean > 1.5*oracle.Mean {
		t.Error("rates are not learnt")
	}
	for _, r := range reports {
		if busy := r.busyPart(small); busy <= 0 || busy > 1.01 || r.Useless > r.Visits || r.P95 > r.Worst || r.Stale > 1 {
			t.Errorf("%s is busy for %g of the time", r.Policy, busy)
		}
	}
}

// With listers that miss three changes of ten, freshness learns so, and leaves less staleness than with a fixed trust.
func TestFreshnessLearnsTheQualityOfNews(t *testing.T) {
	t.Parallel()
	s, err := newSimulation(poissonModel, "freshness", noisy)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for lister, q := range s.policy.(*fresh).news[:noisy.listers()] {
		if math.Abs(q.Recall()-0.7) > 0.12 || math.Abs(q.Precision()-0.9) > 0.07 {
			t.Errorf("lister %d: recall %.2f and precision %.2f, want 0.7 and 0.9", lister, q.Recall(), q.Precision())
		}
	}
	fixed, err := Run(t.Context(), poissonModel, "fixed", noisy)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.3f days, with fixed trust %.3f", s.report.Mean, fixed.Mean)
	if s.report.Mean > 0.9*fixed.Mean {
		t.Errorf("%.3f days of staleness, with fixed trust %.3f", s.report.Mean, fixed.Mean)
	}
}

// The configured parts of the changes are reported, of the reports are false, and dates are days if configured.
func TestSignals(t *testing.T) {
	t.Parallel()
	var random rand.PCG
	random.Seed(1, 2)
	s := source{Signals: Signals{Recall: 0.6, False: 0.2, Delay: 2, Coarse: true}, used: true, counted: -1}
	const changes = 20_000
	for i := range changes {
		s.change(float64(i)+0.5, &random) // a change each day
	}
	late, all := 0.0, float64(len(s.pending))
	for _, r := range s.pending {
		late += r.at - r.date
		if r.date != math.Floor(r.date) || r.at < r.date {
			t.Fatalf("%+v", r)
		}
	}
	if want := changes * 0.6 / 0.8; math.Abs(all/want-1) > 0.05 {
		t.Errorf("%v reports, want %v", all, want)
	}
	if late /= all; math.Abs(late-2.5) > 0.2 {
		t.Errorf("%v days late on average, want 2 from half a day on", late)
	}
	s.advance(changes / 2)
	if s.last != changes/2-1 && s.last != changes/2-2 && s.last != changes/2-3 {
		t.Errorf("the last report is of day %v", s.last)
	}
	if o := (Options{News: Signals{Recall: 0.5}, RecallTo: 1}); o.news(0).Recall != 0.5 || o.news(listers-1).Recall != 1 {
		t.Errorf("recalls from %v to %v", o.news(0).Recall, o.news(listers-1).Recall)
	}
}

// The configured fraction of visits fails, under each policy. No hoster exceeds its limit of visits in flight, and a
// claim refuses a full hoster once. Failures don't change freshness's estimates.
func TestFailuresAndHosters(t *testing.T) {
	t.Parallel()
	o := small
	o.Failures, o.Hosters, o.PerHoster = 0.2, 8, 1
	var means []float64
	for _, policy := range Policies {
		s, err := newSimulation(poissonModel, policy, o)
		if err != nil {
			t.Fatal(err)
		}
		c := &counted{policy: s.policy, s: s}
		s.policy = c
		if err := s.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if part := float64(c.failures) / float64(c.ends); math.Abs(part-0.2) > 0.03 {
			t.Errorf("%s: %g of the visits failed", policy, part)
		}
		if c.most != o.PerHoster {
			t.Errorf("%s: a hoster had %d visits in flight", policy, c.most)
		}
		if c.refused > 4*o.Hosters {
			t.Errorf("%s: full hosters were asked %d times in a claim", policy, c.refused)
		}
		means = append(means, s.report.Mean)
	}
	if fresh := means[5]; fresh > 0.9*means[0] || fresh > 0.9*means[3] {
		t.Errorf("the mean stalenesses are %.2f", means)
	}
}

// counted counts the ends of visits, and the visits in flight by hoster.
type counted struct {
	policy
	s                    *simulation
	ends, failures, most int
	refused              int // the most refusals of a hoster in a claim
}

func (c *counted) failed(i int32) {
	c.ends, c.failures = c.ends+1, c.failures+1
	c.policy.failed(i)
}

func (c *counted) visited(i int32, before float64, first, eventful bool) {
	c.ends++
	c.policy.visited(i, before, first, eventful)
}

func (c *counted) claim(now float64, n int, busy bool, take func(i int32) bool, to []int32) []int32 {
	refused := 0
	to = c.policy.claim(now, n, busy, func(i int32) bool {
		ok := take(i)
		if !ok {
			refused++
		}
		return ok
	}, to)
	c.refused = max(c.refused, refused)
	c.most = max(c.most, slices.Max(c.s.inFlight))
	return to
}

// settling is the time, in days, until the start no longer shows.
const settling = 60

// watched records the times between visits.
type watched struct {
	*fresh
	longest, shortest float64 // between visits
	first             float64 // longest wait for a first visit
}

func (w *watched) visited(i int32, before float64, first, eventful bool) {
	o := &w.origins[i]
	if gap := o.visit - before; before < settling { // of the initial state
	} else if first {
		w.first = max(w.first, gap)
	} else {
		w.longest, w.shortest = max(w.longest, gap), min(w.shortest, gap)
	}
	w.fresh.visited(i, before, first, eventful)
}

// Under freshness no origin waits longer than the longest wait, and none is visited before it has cooled down. New
// origins are visited soon, even if more is due than workers can do.
func TestFreshnessKeepsItsBounds(t *testing.T) {
	t.Parallel()
	o := small
	o.Load, o.Longest = 1.3, 45
	s, err := newSimulation(poissonModel, "freshness", o)
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{fresh: s.policy.(*fresh), shortest: math.Inf(1)}
	s.policy = w
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.shortest < cooldown || w.longest > o.Longest+5 || w.first > 5 {
		t.Errorf("visits are %.2f to %.1f days apart, first ones come after %.1f days", w.shortest, w.longest, w.first)
	}
}

// The changes of a history are in order, and come at the rate that the oracle uses.
func TestModels(t *testing.T) {
	t.Parallel()
	random := seed.Rand(t)
	for _, m := range Models {
		changes, expected := 0.0, 0.0
		for i := range 4000 { // enough that no seed is off by a quarter
			h := m.draw(i, random)
			if h.rate(0) > 20 { // too many to count each
				continue
			}
			expected += h.rate(0) * 300
			for at := h.after(0); at < 300; changes++ {
				next := h.after(at)
				if !(next > at) {
					t.Fatalf("%s: %g after %g", m.Name, next, at)
				}
				at = next
			}
		}
		if m.Name != "revived" && math.Abs(changes/expected-1) > 0.25 {
			t.Errorf("%s: %.0f changes, expected %.0f", m.Name, changes, expected)
		}
	}
}

// The simulation ends only if each change comes after the last one. Days as floating-point numbers have few digits for
// intervals of a second.
func TestEvenChangesIncrease(t *testing.T) {
	seed.Check(t, func(t *rapid.T) {
		seconds := math.Exp(rapid.Float64Range(0, math.Log(10*365*86400)).Draw(t, "log of seconds"))
		e := even{seconds / 86400, -rapid.Float64Range(0, 1).Draw(t, "phase") * seconds / 86400}
		at := e.first + math.Floor(rapid.Float64Range(0, 1000).Draw(t, "day")/e.interval)*e.interval
		for range 1000 {
			next := e.after(at)
			if gap := (next - at) / e.interval; gap < 0.99 || gap > 1.01 {
				t.Fatalf("the change after %v comes %v intervals later", at, gap)
			}
			at = next
		}
	})
}

func TestReadChanges(t *testing.T) {
	t.Parallel()
	model, o, err := ReadChanges(strings.NewReader("time,origin\n2026-03-01T12:00:00Z,b\n2026-01-01,a\n2026-01-03 00:00:00+00:00,a\n2026-01-02,a\n2026-01-02,a\n2026-04-11,b\n"))
	if err != nil || o.Origins != 2 || o.WarmUp != 25 || o.Runtime != 50 {
		t.Fatalf("%+v, %v", o, err)
	}
	if diff := cmp.Diff([]float64{-25, -24, -23}, model.draw(0+1, nil).(recorded).times); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	o.Load, o.Workers, o.Runs, o.Longest = 1, 1, 1, 30
	reports, err := Compare(t.Context(), model, o)
	if err != nil || len(reports) != len(Policies) {
		t.Fatalf("%+v, %v", reports, err)
	}
	var table bytes.Buffer
	if err := WriteCSV(&table, reports); err != nil || !strings.HasPrefix(table.String(), "policy,day,mean_staleness,stale_per_cent,useless_per_cent\r\npython,0.00,") {
		t.Errorf("%s, %v", table.String(), err)
	}
	for text, want := range map[string]string{
		"":                              "the file is empty; expected a header with origin and time",
		"origin,when\n":                 "line 1: no column time among origin, when",
		"origin,time\na,soon\n":         "line 2: time must be a date such as 2026-01-31T12:00:00Z",
		"origin,time\n,2026-01-01\n":    "line 2: origin is empty",
		"origin,time\na,2026-01-01,b\n": "record on line 2: wrong number of fields",
		"origin,time\n":                 "the file's changes are within four days, too few to compare policies",
		"origin,time\na,1970-01-01\na,2026-01-01\n": "the file's changes span more than ten years, from 1970-01-01 to 2026-01-01: remove changes with wrong dates",
		"origin,time\na,2026-01-01\na,9\n":          "line 3: time must be a date such as 2026-01-31T12:00:00Z",
	} {
		if _, _, err := ReadChanges(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// An oracle has the rate at the last visit, also for origins that change seldom or never, and for a project between
// abandonment and revival.
func TestOracleKnowsTheRate(t *testing.T) {
	t.Parallel()
	never := recorded{[]float64{-90}, 365}
	abandoned := &revived{phases: []phase{{2, 10}, {0, 300}, {3, 400}}}
	for _, test := range []struct {
		history
		at, want float64
	}{
		{&poisson{mean: 1e-4}, 0, 1e-4},
		{never, 0, 1 / 455.0},
		{abandoned, 5, 2},
		{abandoned, 10, 1.0 / abandonedMean},
		{abandoned, 300, 3},
	} {
		p := newFresh([]origin{{history: test.history, visit: test.at}}, 1, "oracle", 180)
		if got := p.update(0).Estimate.Rate(); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%+v: %g, want %g", test.history, got, test.want)
		}
	}
}

// Parallel runs have the same results as sequential ones.
func TestRunsDoNotDependOnEachOther(t *testing.T) {
	t.Parallel()
	o := Options{Origins: 100, WarmUp: 30, Runtime: 40, Load: 1, Workers: 2, Seed: 7, Runs: 2, Longest: 180, News: Defaults.News, Failures: 0.1, Hosters: 4, PerHoster: 2}
	got, err := Compare(t.Context(), poissonModel, o)
	if err != nil {
		t.Fatal(err)
	}
	for p, name := range Policies {
		var visits int
		var mean float64
		for run := range uint64(2) {
			alone := o
			alone.Seed += run
			r, err := Run(t.Context(), poissonModel, name, alone)
			if err != nil {
				t.Fatal(err)
			}
			visits, mean = visits+r.Visits, mean+r.Mean
		}
		if got[p].Policy != name || got[p].Visits != visits/2 || got[p].Mean != mean/2 {
			t.Errorf("%s: %d visits, %g days; alone %d, %g", name, got[p].Visits, got[p].Mean, visits/2, mean/2)
		}
	}
}

// The heap returns origins in the order of their last keys.
func TestOrder(t *testing.T) {
	t.Parallel()
	seed.Check(t, func(t *rapid.T) {
		h, want := newOrder(20), map[int32]float64{}
		for range rapid.IntRange(0, 100).Draw(t, "changes") {
			origin, key := int32(rapid.IntRange(0, 19).Draw(t, "origin")), rapid.Float64Range(0, 9).Draw(t, "key")
			if rapid.Bool().Draw(t, "remove") {
				h.remove(origin)
				delete(want, origin)
			} else {
				h.set(origin, key)
				want[origin] = key
			}
		}
		last := math.Inf(-1)
		for h.Len() > 0 {
			origin, key := h.first()
			if w, ok := want[origin]; !ok || w != key || key < last {
				t.Fatalf("origin %d with key %g after %g, want %g", origin, key, last, w)
			}
			last = key
			delete(want, origin)
			h.remove(origin)
		}
		if len(want) > 0 {
			t.Fatalf("%v are missing", want)
		}
	})
}
