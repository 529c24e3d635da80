package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

// maxLine is how much work may wait in the lines of a task type. Lines grow while
// claims find much work for a lane that is full, and little for one that is not;
// beyond this nothing is claimed until workers have caught up.
const maxLine = 100_000

// Lanes are the lanes by which the work of a queue goes to workers.
type Lanes struct {
	Line      string           // their name in the configuration: see scheduler.PriorityLanes
	TaskType  string           // whose work it is
	VisitType string           // of the origins that it loads; "" if it loads none
	Lanes     []scheduler.Lane // with their queues and slots
}

// limits are the soft limits, by which work is divided.
func (l *Lanes) limits() []time.Duration {
	limits := make([]time.Duration, len(l.Lanes))
	for i, lane := range l.Lanes {
		limits[i] = lane.SoftTimeLimit
	}
	return limits
}

// Queues are the lanes' queues.
func (l *Lanes) Queues() []string {
	queues := make([]string, len(l.Lanes))
	for i, lane := range l.Lanes {
		queues[i] = lane.Queue
	}
	return queues
}

// OnLanes puts the work of a queue on lanes, if all, by line, has some for the given
// one, which is the type's name or scheduler.PriorityLanes of it. The queue's limit,
// of which a part must be free for a claim to be worth it, is then the first lane's: a
// larger one that is full does not keep that one empty. {backend_name} in the names of
// their queues is the type's, with the prefix of tasks with priority for those.
func (q Queue) OnLanes(line string, tt scheduler.TaskType, all map[string][]scheduler.Lane) Queue {
	configured, ok := all[line]
	if !ok {
		return q
	}
	l := &Lanes{Line: line, TaskType: tt.Type}
	l.VisitType, _ = scheduler.LoadedVisitType(tt.Type)
	for _, lane := range configured {
		lane = lane.Sized(tt, MaxClaim)
		lane.Queue = strings.ReplaceAll(lane.Queue, scheduler.BackendNameInQueue, strings.TrimSuffix(line, tt.Type)+tt.BackendName)
		l.Lanes = append(l.Lanes, lane)
	}
	q.Lanes, q.Limit = l, new(int64(l.Lanes[0].Slots))
	return q
}

// moreWork remembers, of each line, whether the last claim left work waiting.
type moreWork struct {
	mutex sync.Mutex
	none  map[string]bool
}

func (m *moreWork) set(line string, more bool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.none == nil {
		m.none = make(map[string]bool)
	}
	m.none[line] = !more
}

func (m *moreWork) get(line string) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return !m.none[line]
}

// claimLanes does Claim's work for a queue with lanes: what claim takes goes into
// the lines of its lanes, and of the lines as much as there are slots into their
// queues. claim may be nil, for the latter alone. It returns how many messages were
// claimed and how many sent.
func (s *Slots) claimLanes(ctx context.Context, tx *sql.Tx, q Queue, claim ClaimFunc) (claimed, sent int, err error) {
	l := q.Lanes
	for _, queue := range slices.Sorted(slices.Values(l.Queues())) {
		if err := tx.LockQueue(ctx, queue); err != nil {
			return 0, 0, err
		}
	}
	states, err := s.laneStates(ctx, tx, l)
	if err != nil {
		return 0, 0, err
	}
	lines := make([]int, len(states)) // what waits in each, without what is claimed now
	for i, state := range states {
		lines[i] = state.TimedOut + state.Waiting
	}
	var work []sql.LaneWork
	var choices []sql.LaneChoice
	if claim != nil {
		room := min(lanes.Room(states, lanes.Sizes(states, true)), MaxClaim)
		if waitingInLines(states) >= maxLine {
			room = 0
		}
		if claimed, err = claim(ctx, tx, room); err != nil {
			return 0, 0, err
		}
		if work, choices, err = s.choose(ctx, tx, q, states); err != nil {
			return 0, 0, err
		}
		if int64(room) > *q.Limit/5 {
			// Of fewer slots the claim may not have wanted any.
			s.more.set(l.Line, claimed >= room)
		}
	}
	first := newFirstTimers(choices, len(states))
	for _, send := range lanes.Fill(states, lanes.Sizes(states, s.more.get(l.Line))) {
		left := len(l.Lanes) - 1 - send.To
		waiting := min(send.Count, lines[send.From])
		lines[send.From] -= waiting
		if waiting > 0 {
			if err := tx.SendLaneWork(ctx, l.Line, send.From, send.To, waiting, l.Lanes[send.To], left, s.now()); err != nil {
				return 0, 0, err
			}
		}
		first.send(send.From, send.Count-waiting, send.To, l.Lanes[send.To], left)
		sent += send.Count
	}
	if len(work) > 0 {
		err = tx.AddLaneWork(ctx, l.Line, q.Name, l.VisitType, work, choices, s.now())
	}
	return claimed, sent, err
}

// firstTimers is work that was just claimed, by the lane in whose line it comes last.
type firstTimers [][]*sql.LaneChoice

func newFirstTimers(choices []sql.LaneChoice, n int) firstTimers {
	f := make(firstTimers, n)
	for i := range choices {
		f[choices[i].Lane] = append(f[choices[i].Lane], &choices[i])
	}
	return f
}

// send sends the first count of a line to a lane.
func (f firstTimers) send(from, count, to int, lane scheduler.Lane, left int) {
	for _, c := range f[from][:count] {
		if c.Sent, c.Left = &lane, left; from != to {
			c.Lane, c.Below = to, 0 // not what was predicted decides
		}
	}
	f[from] = f[from][count:]
}

// laneStates counts what is in the lanes' queues and lines. The queues' locks are
// held.
func (s *Slots) laneStates(ctx context.Context, tx *sql.Tx, l *Lanes) ([]lanes.State, error) {
	lines, err := tx.LaneLines(ctx, l.Line, len(l.Lanes))
	if err != nil {
		return nil, fmt.Errorf("count what waits in the lines of %q: %w", l.Line, err)
	}
	states := make([]lanes.State, len(l.Lanes))
	for i, lane := range l.Lanes {
		held, err := s.held(ctx, tx, lane.Queue)
		if err != nil {
			return nil, fmt.Errorf("count the messages of queue %q: %w", lane.Queue, err)
		}
		s.metrics.limit.WithLabelValues(lane.Queue).Set(float64(lane.Slots))
		s.metrics.free.WithLabelValues(lane.Queue).Set(float64(max(0, lane.Slots-held)))
		states[i] = lanes.State{
			Slots: lane.Slots, Min: lane.MinSlots, Max: lane.MaxSlots,
			Held: held, TimedOut: lines[i].TimedOut, Waiting: lines[i].Waiting,
		}
	}
	return states, nil
}

func waitingInLines(states []lanes.State) int {
	n := 0
	for _, s := range states {
		n += s.TimedOut + s.Waiting
	}
	return n
}

// choose takes what was just claimed for a queue and says in whose lane's line each
// belongs, counting it in states.
func (s *Slots) choose(ctx context.Context, tx *sql.Tx, q Queue, states []lanes.State) ([]sql.LaneWork, []sql.LaneChoice, error) {
	l := q.Lanes
	work, err := tx.TakeForLanes(ctx, q.Name, l.TaskType, l.VisitType)
	if err != nil || len(work) == 0 {
		return nil, nil, err
	}
	listers := make(map[string]bool)
	for _, w := range work {
		listers[w.Lister] = true
	}
	names := make([]string, 0, len(listers))
	for name := range listers {
		names = append(names, name)
	}
	sketches, err := tx.LaneSketches(ctx, l.Line, names, s.now())
	if err != nil {
		return nil, nil, err
	}
	limits := l.limits()
	choices := make([]sql.LaneChoice, len(work))
	for i, w := range work {
		expected := expect(w, sketches)
		lane := lanes.Choose(limits, expected, w.Tried)
		choices[i].Lane = lane
		if lane > 0 && expected > 0 && !w.Tried {
			choices[i].Below = limits[lane-1].Seconds()
		}
		states[lane].Waiting++
	}
	return work, choices, nil
}

// expect is how long work is expected to take, in seconds; 0 where nothing says.
func expect(w sql.LaneWork, sketches map[sql.SketchKey]lanes.Sketch) float64 {
	if w.Memory != nil {
		return w.Memory.Expect(w.Behind)
	}
	return lanes.Typical(sketches[sql.SketchKey{Lister: w.Lister, First: w.First}], sketches[sql.SketchKey{First: w.First}])
}
