package lanesim

import (
	"context"
	"math"
	"slices"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/internal/simulator"
)

// Done is what became of a job.
type Done struct {
	Job
	Wait     time.Duration // from its arrival to its end, less its runtime
	Failed   bool          // its time was over in the last lane; Runtime is what it had then
	First    int           // the lane of its first try
	TimedOut int           // how often its time was over
	End      time.Duration // since the start
}

// Run simulates some workers on some jobs, in the order of their arrival, until all
// are done or ctx ends. It returns those that are done, in the order of their ends.
func Run(ctx context.Context, jobs []Job, configured []scheduler.Lane, workers int) ([]Done, error) {
	s := &simulation{
		clock: simulator.NewClock(time.Time{}), idle: workers, lanes: scale(configured, workers),
		memory: make(map[string]lanes.Memory), sketches: make(map[string]lanes.Sketch),
	}
	s.lines, s.queues, s.running = make([]line, len(s.lanes)), make([][]*piece, len(s.lanes)), make([]int, len(s.lanes))
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
func Compare(ctx context.Context, jobs []Job, configured []scheduler.Lane, workers int) (Comparison, error) {
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

// without is one queue for all, with the last lane's limit.
func without(limits []time.Duration) []scheduler.Lane {
	return []scheduler.Lane{{Name: "all", SoftTimeLimit: limits[len(limits)-1], Slots: 1, MinSlots: 1}}
}

// scale has the lanes' slots add up to the workers, at least one each.
func scale(configured []scheduler.Lane, workers int) []scheduler.Lane {
	scaled := slices.Clone(configured)
	total := 0
	for i, l := range scaled {
		scaled[i] = l.Sized(scheduler.TaskType{}, workers)
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
	scaled[len(scaled)-1].Slots += max(0, left)
	last := &scaled[len(scaled)-1]
	last.MaxSlots = max(last.MaxSlots, last.Slots)
	return scaled
}

// piece is a job on its way.
type piece struct {
	Done
	lane int
}

// line is what waits for a slot of a lane.
type line struct{ timedOut, first []*piece }

type simulation struct {
	clock    *simulator.Clock
	lanes    []scheduler.Lane
	limits   []time.Duration
	lines    []line
	queues   [][]*piece // sent, and not taken by a worker
	running  []int
	idle     int // workers
	serving  bool
	memory   map[string]lanes.Memory
	sketches map[string]lanes.Sketch // by lister; "" is of all
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
	s.lines[lane].first = append(s.lines[lane].first, &piece{Done: Done{Job: job, First: -1}, lane: lane})
	s.serveSoon()
}

// serveSoon serves when all that happens at the same time has happened.
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

// serve sends what there are slots for, and has idle workers take it.
func (s *simulation) serve() {
	states := make([]lanes.State, len(s.lanes))
	for i, l := range s.lanes {
		states[i] = lanes.State{
			Slots: l.Slots, Min: l.MinSlots, Max: l.MaxSlots, Held: len(s.queues[i]) + s.running[i],
			TimedOut: len(s.lines[i].timedOut), Waiting: len(s.lines[i].first),
		}
	}
	for _, send := range lanes.Fill(states, lanes.Sizes(states, false)) {
		for range send.Count {
			p := s.lines[send.From].pop()
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

func (l *line) pop() *piece {
	from := &l.first
	if len(l.timedOut) > 0 {
		from = &l.timedOut
	}
	p := (*from)[0]
	*from = (*from)[1:]
	return p
}

func (s *simulation) begin(p *piece) {
	s.idle--
	s.running[p.lane]++
	if p.First < 0 {
		p.First = p.lane
	}
	takes, over := p.Runtime, p.Runtime > s.limits[p.lane]
	if over {
		takes = s.limits[p.lane]
	}
	s.clock.After(takes, func(context.Context) error {
		s.idle++
		s.running[p.lane]--
		s.end(p, takes, over)
		s.serveSoon()
		return nil
	})
}

// end learns how long a try took, and has what was over go on.
func (s *simulation) end(p *piece, took time.Duration, over bool) {
	s.remember(p.Job, took.Seconds(), over)
	if over {
		p.TimedOut++
		if p.lane < len(s.lanes)-1 {
			next := &s.lines[p.lane+1]
			next.timedOut = append(next.timedOut, p)
			return
		}
		p.Failed, p.Runtime = true, took
	}
	p.End = s.clock.Elapsed()
	p.Wait = p.End - p.Arrival - p.Runtime
	s.done = append(s.done, p.Done)
}

func (s *simulation) remember(job Job, took float64, over bool) {
	if job.Origin != "" {
		before := s.memory[job.Origin]
		m := lanes.Memory{Seconds: took, AtLeast: over, Behind: job.Behind}
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
