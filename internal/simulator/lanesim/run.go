package lanesim

import (
	"context"
	"math"
	"slices"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/simulator"
)

type Done struct {
	Job
	Wait     time.Duration // from its arrival to its end, minus its runtime
	Failed   bool          // it timed out in the last lane; Runtime is that of the last attempt
	First    int           // the lane of the first attempt
	TimedOut int           // number of time-outs
	End      time.Duration // since the start
}

// Run simulates the jobs until all end or ctx ends. It returns the jobs that ended, in the order of their ends.
func Run(ctx context.Context, jobs []Job, configured []model.Lane, workers int) ([]Done, error) {
	s := &simulation{
		clock: simulator.NewClock(time.Time{}), idle: workers, lanes: scale(configured, workers),
		memory: make(map[string]lanes.Memory), sketches: make(map[string]lanes.Sketch),
	}
	s.backlogs, s.queues, s.running = make([]backlog, len(s.lanes)), make([][]*piece, len(s.lanes)), make([]int, len(s.lanes))
	for _, l := range s.lanes {
		s.limits = append(s.limits, l.SoftTimeLimit)
	}
	for _, job := range jobs {
		s.clock.After(job.Arrival, func(context.Context) error { s.arrive(job); return nil })
	}
	err := s.clock.Run(ctx, math.MaxInt64)
	return s.done, err
}

// Compare runs the same jobs with lanes and without.
func Compare(ctx context.Context, jobs []Job, configured []model.Lane, workers int) (Comparison, error) {
	c := Comparison{}
	for _, l := range configured {
		c.Limits = append(c.Limits, l.SoftTimeLimit)
	}
	var err error
	if c.Without, err = Run(ctx, jobs, without(c.Limits), workers); err != nil {
		return c, err
	}
	c.With, err = Run(ctx, jobs, configured, workers)
	return c, err
}

// without returns a single lane with the limit of the last lane.
func without(limits []time.Duration) []model.Lane {
	return []model.Lane{{Name: "all", SoftTimeLimit: limits[len(limits)-1], Slots: 1, MinSlots: 1}}
}

// scale scales the slots of lanes so that they sum to the workers, with at least one slot for each lane.
func scale(configured []model.Lane, workers int) []model.Lane {
	scaled := slices.Clone(configured)
	total := 0
	for i, l := range scaled {
		scaled[i] = l.Sized(model.TaskType{}, workers)
		total += scaled[i].Slots
	}
	factor := float64(workers) / float64(total)
	left := workers
	for i := range scaled {
		l := &scaled[i]
		l.Slots = max(1, min(int(math.Round(float64(l.Slots)*factor)), left-(len(scaled)-1-i)))
		left -= l.Slots
		l.MinSlots = max(1, min(l.Slots, int(math.Round(float64(l.MinSlots)*factor))))
		l.MaxSlots = max(l.Slots, min(workers, int(math.Round(float64(l.MaxSlots)*factor))))
	}
	last := &scaled[len(scaled)-1]
	last.Slots += max(0, left)
	last.MaxSlots = max(last.MaxSlots, last.Slots)
	return scaled
}

type piece struct {
	Done
	lane     int
	expected float64       // seconds; 0 if unknown
	since    time.Duration // when it was added to the backlog, since the start
}

// backlog has the jobs without a slot of a lane: those that timed out, and first attempts.
type backlog struct{ timedOut, first []*piece }

type simulation struct {
	clock    *simulator.Clock
	lanes    []model.Lane
	limits   []time.Duration
	backlogs []backlog
	queues   [][]*piece // sent, not yet taken by a worker
	running  []int
	idle     int // workers
	serving  bool
	memory   map[string]lanes.Memory
	sketches map[string]lanes.Sketch // by lister; "" has all
	done     []Done
}

func (s *simulation) arrive(job Job) {
	expected := 0.0
	if m, ok := s.memory[job.Origin]; ok {
		expected = m.Expect(job.Behind)
	} else {
		expected = lanes.Typical(s.sketches[job.Lister], s.sketches[""])
	}
	lane := lanes.Choose(s.limits, expected, false)
	s.backlogs[lane].first = append(s.backlogs[lane].first, &piece{Done: Done{Job: job, First: -1}, lane: lane, expected: expected, since: job.Arrival})
	s.serveSoon()
}

// serveSoon schedules a call of serve after all other events of the current time.
func (s *simulation) serveSoon() {
	if s.serving {
		return
	}
	s.serving = true
	s.clock.After(0, func(context.Context) error {
		s.serving = false
		s.serve()
		return nil
	})
}

// serve fills free slots from the backlogs and makes idle workers take work.
func (s *simulation) serve() {
	states := make([]lanes.State, len(s.lanes))
	for i, l := range s.lanes {
		states[i] = lanes.State{
			Slots: l.Slots, Min: l.MinSlots, Max: l.MaxSlots, Held: len(s.queues[i]) + s.running[i],
			TimedOut: len(s.backlogs[i].timedOut), FirstTries: len(s.backlogs[i].first),
			Waited: s.clock.Elapsed() - s.backlogs[i].since(s.clock.Elapsed()), Target: l.TargetWait,
		}
	}
	for _, send := range lanes.Fill(states, lanes.Sizes(states, false)) {
		for range send.Count {
			p := s.backlogs[send.From].pop(send.To > send.From, s.clock.Elapsed()-s.limits[send.To])
			p.lane = send.To
			s.queues[send.To] = append(s.queues[send.To], p)
		}
	}
	for i := range s.queues {
		for s.idle > 0 && len(s.queues[i]) > 0 {
			p := s.queues[i][0]
			s.queues[i] = s.queues[i][1:]
			s.begin(p)
		}
	}
}

// since returns when the oldest job was added to the backlog; now if it is empty.
func (l *backlog) since(now time.Duration) time.Duration {
	for _, p := range [][]*piece{l.timedOut, l.first} {
		if len(p) > 0 {
			now = min(now, p[0].since)
		}
	}
	return now
}

// pop removes and returns a job: the first that timed out, or else the first of the others. With slowest, it returns
// the slowest of the first few others instead, unless the first one has waited since old or longer.
func (l *backlog) pop(slowest bool, old time.Duration) *piece {
	from, i := &l.first, 0
	if len(l.timedOut) > 0 {
		from = &l.timedOut
	} else if slowest && l.first[0].since > old {
		for j, p := range l.first[:min(len(l.first), lanes.LookAhead)] {
			if p.expected > l.first[i].expected {
				i = j
			}
		}
	}
	p := (*from)[i]
	copy((*from)[1:], (*from)[:i])
	*from = (*from)[1:]
	return p
}

func (s *simulation) begin(p *piece) {
	s.idle--
	s.running[p.lane]++
	if p.First < 0 {
		p.First = p.lane
	}
	takes, timedOut := min(p.Runtime, s.limits[p.lane]), p.Runtime > s.limits[p.lane]
	s.clock.After(takes, func(context.Context) error {
		s.idle++
		s.running[p.lane]--
		s.end(p, takes, timedOut)
		s.serveSoon()
		return nil
	})
}

// end records the runtime of an attempt. It moves a job that timed out to the next lane.
func (s *simulation) end(p *piece, took time.Duration, timedOut bool) {
	s.remember(p.Job, took.Seconds(), timedOut)
	if timedOut {
		p.TimedOut++
		if p.lane < len(s.lanes)-1 {
			p.since = s.clock.Elapsed()
			next := &s.backlogs[p.lane+1]
			next.timedOut = append(next.timedOut, p)
			return
		}
		p.Failed, p.Runtime = true, took
	}
	p.End = s.clock.Elapsed()
	p.Wait = p.End - p.Arrival - p.Runtime
	s.done = append(s.done, p.Done)
}

func (s *simulation) remember(job Job, took float64, timedOut bool) {
	if job.Origin != "" {
		before := s.memory[job.Origin]
		m := lanes.Memory{Seconds: took, AtLeast: timedOut, Behind: job.Behind}
		if !before.AtLeast {
			m.Before = before.Seconds
		}
		s.memory[job.Origin] = m
	}
	for _, lister := range slices.Compact([]string{"", job.Lister}) {
		if s.sketches[lister] == nil {
			s.sketches[lister] = lanes.Sketch{}
		}
		s.sketches[lister][lanes.Bucket(took)]++
	}
}
