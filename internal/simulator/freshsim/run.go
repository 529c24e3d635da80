package freshsim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Options are the options of a comparison. Times are in days.
type Options struct {
	Origins int
	WarmUp  float64 // not measured
	Runtime float64 // measured, after the warm-up
	Load    float64 // the work of visiting each origin once after each change, as a fraction of the capacity
	Workers int
	Seed    uint64  // of the first run
	Runs    int     // with consecutive seeds
	Longest float64 // the longest wait for a visit by freshness

	News     Signals // of the listers, which report the updates of half of the origins
	RecallTo float64 // the recall of the best lister, if above 0; News has that of the worst
	Hints    Signals
	Hinted   float64 // the fraction of the origins whose changes are hinted at, besides what listers report

	Failures  float64 // the fraction of the visits that fail
	Hosters   int     // number of hosters; about half of the origins are at an eighth of them; 0: one
	PerHoster int     // the limit of visits in flight per hoster; 0: none
}

// Defaults are the default options.
var Defaults = Options{
	Origins: 2000, WarmUp: 90, Runtime: 365, Load: 0.9, Workers: 20, Seed: 1, Runs: 1, Longest: 180,
	News: Signals{Recall: 0.98}, Hints: Signals{Recall: 0.9},
}

// Report is the result of a policy.
type Report struct {
	Policy          string
	Visits, Useless int     // without first visits and failed ones
	Failed          int     // visits
	Found           int     // changes
	Busy            float64 // working time, in days
	Mean, P95       float64 // staleness in days
	Worst           float64
	Stale           float64 // part of the origins
	Hinted          float64 // mean staleness of the origins of forges with hints; 0 if there are none
	Series          []Sample
}

// Sample is the state at a time.
type Sample struct {
	At, Mean, Stale float64
	Useless         float64 // part of the visits since the previous sample
}

// Policies are the names of the compared policies.
var Policies = []string{"python", "40/40/20", "15/80/5", "pools", "fixed", "freshness", "oracle"}

// Run simulates a policy.
func Run(ctx context.Context, m Model, policyName string, o Options) (Report, error) {
	s, err := newSimulation(m, policyName, o)
	if err != nil {
		return Report{}, err
	}
	err = s.run(ctx)
	return s.report, err
}

func newSimulation(m Model, policyName string, o Options) (*simulation, error) {
	until := o.WarmUp + o.Runtime
	work := demand(newOrigins(m, o), until)
	s := &simulation{
		Options: o, origins: newOrigins(m, o), idle: o.Workers,
		scale: o.Load * float64(o.Workers) * 86400 / max(work, 1e-9), report: Report{Policy: policyName}, ages: make([]int, buckets),
		random: rand.New(rand.NewPCG(o.Seed, 2)), inFlight: make([]int, max(1, o.Hosters)),
		dated: make([][]int32, int(math.Round(listing/tick))), hinted: make([][]int32, int(math.Round(hinting/tick))),
	}
	for i := range s.origins {
		origin := &s.origins[i]
		origin.hoster = int(math.Pow(s.random.Float64(), 3) * float64(o.Hosters))
		if origin.appeared >= 0 {
			s.unlisted = append(s.unlisted, int32(i))
		}
		if part := i % len(s.dated); origin.news.used {
			s.dated[part] = append(s.dated[part], int32(i))
		}
		if part := i % len(s.hinted); origin.hints.used {
			s.hinted[part] = append(s.hinted[part], int32(i))
		}
	}
	slices.SortFunc(s.unlisted, func(a, b int32) int { return cmp.Compare(s.origins[a].appeared, s.origins[b].appeared) })
	switch policyName {
	case "python":
		s.policy = newPools(s.origins, o.Seed, [4]float64{2, 49, 49, 0})
	case "40/40/20":
		s.policy = newPools(s.origins, o.Seed, [4]float64{20, 40, 40, 0})
	case "15/80/5":
		p := newPools(s.origins, o.Seed, [4]float64{5, 80, 15, 0})
		p.sampled = 0.001
		s.policy = p
	case "pools":
		p := newPools(s.origins, o.Seed, [4]float64{1 - reportedPart, reportedPart / 3, reportedPart / 3, reportedPart / 3})
		p.ours = true
		s.policy = p
	case "fixed", "informed", "freshness", "oracle":
		s.policy = newFresh(s.origins, s.scale, policyName, o.Longest)
	default:
		return nil, fmt.Errorf("unknown policy %q", policyName)
	}
	return s, nil
}

// Compare runs each policy on the same changes, with as many parallel runs as there are processors. For each policy
// it returns the means over the runs. The worst staleness is the maximum, and the series is that of the first run.
func Compare(ctx context.Context, m Model, o Options) ([]Report, error) {
	runs := make([][]Report, o.Runs)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for run := range runs {
		runs[run] = make([]Report, len(Policies))
		seeded := o
		seeded.Seed += uint64(run)
		for p, name := range Policies {
			group.Go(func() (err error) {
				runs[run][p], err = Run(ctx, m, name, seeded)
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	reports := runs[0]
	for p := range reports {
		sum := &reports[p]
		for _, run := range runs[1:] {
			r := run[p]
			sum.Visits, sum.Useless, sum.Found, sum.Busy = sum.Visits+r.Visits, sum.Useless+r.Useless, sum.Found+r.Found, sum.Busy+r.Busy
			sum.Failed += r.Failed
			sum.Mean, sum.P95, sum.Stale, sum.Worst = sum.Mean+r.Mean, sum.P95+r.P95, sum.Stale+r.Stale, max(sum.Worst, r.Worst)
			sum.Hinted += r.Hinted
		}
		n := float64(o.Runs)
		sum.Visits, sum.Useless, sum.Failed, sum.Found, sum.Busy = sum.Visits/o.Runs, sum.Useless/o.Runs, sum.Failed/o.Runs, sum.Found/o.Runs, sum.Busy/n
		sum.Mean, sum.P95, sum.Stale, sum.Hinted = sum.Mean/n, sum.P95/n, sum.Stale/n, sum.Hinted/n
	}
	return reports, nil
}

type simulation struct {
	Options
	origins  []origin
	scale    float64 // of costs
	policy   policy
	unlisted []int32   // origins that have not appeared yet, in the order of their appearance
	dated    [][]int32 // origins whose lister reports updates, by the tick of their listing
	hinted   [][]int32 // origins with hints, by the tick in which they are received
	queue    []int32
	running  []running
	idle     int
	ages     []int // a histogram
	report   Report
	random   *rand.Rand // for draws for no single origin
	inFlight []int      // number of visits by hoster
}

type running struct {
	origin          int32
	end, before     float64
	first, eventful bool
	failed          bool
}

// queueLength returns the capacity of the queue: some hours of work. The queue is refilled when more than a twentieth
// of it is free.
func (s *simulation) queueLength() int { return max(2, len(s.origins)/250) }

const (
	tick         = 5 * minute
	listing      = day
	hinting      = 30 * minute // how often hints are received
	samplePeriod = 25 * hour
)

func (s *simulation) run(ctx context.Context) error {
	until := s.WarmUp + s.Runtime
	nextSample, visits, useless, samples := s.WarmUp, 0, 0, 0
	for step := 0; ; step++ {
		now := float64(step) * tick
		if now >= until {
			break
		}
		if step%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s.work(now)
		for len(s.unlisted) > 0 && s.origins[s.unlisted[0]].appeared <= now {
			s.policy.listed(s.unlisted[0], now)
			s.unlisted = s.unlisted[1:]
		}
		for _, i := range s.dated[step%len(s.dated)] {
			s.origins[i].seen = now
			s.receive(i, now, &s.origins[i].news)
		}
		for _, i := range s.hinted[step%len(s.hinted)] {
			s.receive(i, now, &s.origins[i].hints)
		}
		if free := s.queueLength() - len(s.queue); free > s.queueLength()/20 {
			s.queue = s.policy.claim(now, free, len(s.queue) > 0, s.take, s.queue)
			s.begin(now)
		}
		if now >= nextSample {
			sample := s.sample(now)
			if n := s.report.Visits - visits; n > 0 {
				sample.Useless = float64(s.report.Useless-useless) / float64(n)
			}
			visits, useless = s.report.Visits, s.report.Useless
			s.report.Series = append(s.report.Series, sample)
			nextSample += samplePeriod
			s.report.Mean += sample.Mean
			s.report.Stale += sample.Stale
			samples++
		}
	}
	s.report.Mean /= float64(max(1, samples))
	s.report.Stale /= float64(max(1, samples))
	s.report.Hinted /= float64(max(1, samples))
	s.report.P95 = percentile(s.ages, 0.95)
	return nil
}

// take counts an origin's visit as in flight and returns true, unless its hoster has reached its limit.
func (s *simulation) take(i int32) bool {
	n := &s.inFlight[s.origins[i].hoster]
	if s.PerHoster > 0 && *n >= s.PerHoster {
		return false
	}
	*n++
	return true
}

// receive passes the reports of a source about an origin to the policy.
func (s *simulation) receive(i int32, now float64, from *source) {
	o := &s.origins[i]
	if o.appeared > now {
		return
	}
	o.advance(now)
	if from.advance(now); from.last > o.listed {
		o.listed = from.last
		s.policy.listed(i, now)
	}
}

// work ends the visits whose end is at now or before.
func (s *simulation) work(now float64) {
	for len(s.running) > 0 && s.running[0].end <= now {
		r := s.running[0]
		s.running = s.running[1:]
		s.idle++
		o := &s.origins[r.origin]
		o.underway = false
		s.inFlight[o.hoster]--
		if r.failed {
			s.policy.failed(r.origin)
		} else {
			s.policy.visited(r.origin, r.before, r.first, r.eventful)
		}
		s.begin(r.end)
	}
}

// begin makes idle workers take visits from the queue.
func (s *simulation) begin(now float64) {
	for s.idle > 0 && len(s.queue) > 0 {
		i := s.queue[0]
		s.queue = s.queue[1:]
		s.idle--
		o := &s.origins[i]
		r := running{origin: i, before: o.visit, first: !o.visited, failed: s.Failures > 0 && s.random.Float64() < s.Failures}
		found, cost := 0, o.basis
		if o.ready = now + failedCooldown; !r.failed {
			o.ready = now + cooldown
			found = o.load(now)
			cost = o.costOf(found)
			if o.cost = (2*cost + o.cost) / 3; r.first {
				o.cost = o.basis
				r.before = o.appeared
			}
		}
		took := cost * s.scale / 86400
		r.eventful, r.end = found > 0, now+took
		if now >= s.WarmUp {
			s.count(r, found, took)
		}
		at, _ := slices.BinarySearchFunc(s.running, r.end, func(a running, end float64) int {
			if a.end <= end {
				return -1
			}
			return 1
		})
		s.running = slices.Insert(s.running, at, r)
	}
}

func (s *simulation) count(r running, found int, took float64) {
	s.report.Busy += took
	if r.failed {
		s.report.Failed++
	}
	if r.first || r.failed {
		return
	}
	s.report.Visits++
	s.report.Found += found
	if !r.eventful {
		s.report.Useless++
	}
}

func (s *simulation) sample(now float64) Sample {
	sample, n := Sample{At: now - s.WarmUp}, 0
	hinted, hintedAge := 0, 0.0
	for i := range s.origins {
		o := &s.origins[i]
		if o.appeared > now {
			continue
		}
		n++
		age := o.age(now)
		s.ages[bucket(age)]++
		if o.hinted {
			hinted++
			hintedAge += age
		}
		if age > 0 {
			sample.Mean += age
			sample.Stale++
			s.report.Worst = max(s.report.Worst, age)
		}
	}
	s.report.Hinted += hintedAge / float64(max(1, hinted))
	sample.Mean /= float64(max(1, n))
	sample.Stale /= float64(max(1, n))
	return sample
}

// Ages are counted in buckets. The first one ends at a hundredth of a day, and each other one at 1.05 times the end
// of the previous one.
const buckets = 300

func bucket(age float64) int {
	if age <= 0.01 {
		return 0
	}
	return min(1+int(math.Log(age/0.01)/math.Log(1.05)), buckets-1)
}

func percentile(counts []int, part float64) float64 {
	total, sum := 0, 0
	for _, n := range counts {
		total += n
	}
	for b, n := range counts {
		if sum += n; float64(sum) >= part*float64(total) {
			if b == 0 {
				return 0
			}
			return 0.01 * math.Pow(1.05, float64(b))
		}
	}
	return 0
}
