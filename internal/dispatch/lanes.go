package dispatch

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// maxBacklog bounds the backlogs of a lane set. They grow while claims find much work for a full lane and little for
// the others. At this size, claims stop.
const maxBacklog = 100_000

// LaneSet is the lane set of a task type.
type LaneSet struct {
	Name      string // key in the configuration: see model.PriorityLanes
	TaskType  string
	VisitType string       // visit type of its origins; "" if it loads none
	Lanes     []model.Lane // with their queues and slots
}

// limits returns the lanes' soft limits, which divide the work.
func (l *LaneSet) limits() []time.Duration {
	limits := make([]time.Duration, len(l.Lanes))
	for i, lane := range l.Lanes {
		limits[i] = lane.SoftTimeLimit
	}
	return limits
}

func (l *LaneSet) queues() []string {
	queues := make([]string, len(l.Lanes))
	for i, lane := range l.Lanes {
		queues[i] = lane.Queue
	}
	return queues
}

// left returns the number of lanes after the given one.
func (l *LaneSet) left(lane int) int { return len(l.Lanes) - 1 - lane }

// WithLanes attaches the lane set configured for the given key, if any: the type's name, or model.PriorityLanes of
// it. The queue's limit becomes the first lane's slots: claimers need a part of that limit to be free, and a
// full larger lane must not keep the first one empty. {backend_name} in the names of the lanes' queues is the
// type's; for tasks with priority it has their prefix.
func (q Queue) WithLanes(key string, tt model.TaskType, all map[string][]model.Lane) Queue {
	configured, ok := all[key]
	if !ok {
		return q
	}
	l := &LaneSet{Name: key, TaskType: tt.Type}
	l.VisitType, _ = model.LoadedVisitType(tt.Type)
	for _, lane := range configured {
		lane = lane.Sized(tt, MaxClaim)
		lane.Queue = strings.ReplaceAll(lane.Queue, model.BackendNameInQueue, strings.TrimSuffix(key, tt.Type)+tt.BackendName)
		l.Lanes = append(l.Lanes, lane)
	}
	q.Lanes, q.Limit = l, new(int64(l.Lanes[0].Slots))
	return q
}

func (l *LaneSet) bounded() bool { return true }

// free counts the free slots of the lanes, and the free space of their backlogs.
func (l *LaneSet) free(ctx context.Context, c *Claim, counts []messageCount, _ observations) (free int, err error) {
	if c.states, err = c.slots.laneStates(ctx, c.Tx, l, counts); err != nil {
		return 0, err
	}
	backlog := 0
	for _, s := range c.states {
		backlog += s.TimedOut + s.FirstTries
	}
	if backlog < maxBacklog {
		free = min(lanes.Room(c.states, lanes.Sizes(c.states, true)), MaxClaim)
	}
	return free, nil
}

// route records whether the claim found all the work that it asked for, and sends work and backlogs to the lanes.
func (l *LaneSet) route(ctx context.Context, c *Claim, work []ledger.Work) (outgoing int, err error) {
	if c.Free >= RefillByRunner(c.queue.Limit) { // with less free, runners claim nothing
		c.slots.idle.Store(l.Name, len(work) < c.Size)
	}
	return l.send(ctx, c, work)
}

// send routes work to lanes and backlogs, and sends backlogs as far as there are slots. It returns the number of messages
// that become outgoing.
func (l *LaneSet) send(ctx context.Context, c *Claim, work []ledger.Work) (outgoing int, err error) {
	s := c.slots
	expected, err := s.predict(ctx, c.Tx, l, work)
	if err != nil {
		return 0, err
	}
	idle, _ := s.idle.Load(l.Name)
	size := batchSize(&s.sends, l.Name)
	for _, move := range route(l, c.states, idle != true, work, expected) {
		n := size.Of(move.Count) // the rest follows at the next claim or SendBacklogs
		outgoing += n + move.fresh
		if n > 0 {
			err := c.Tx.SendBacklog(ctx, l.Name, move.From, move.To, n, l.Lanes[move.To], l.left(move.To), s.now())
			size.Adjust(n, err)
			if err != nil {
				return 0, err
			}
		}
	}
	return outgoing, nil
}

// laneStates returns the states of the lanes. It reads their backlogs; counts are the messages in their queues. A lane
// whose queue can't be observed counts as full: it gets nothing, and neither lends nor borrows slots. If no lane's
// queue can be observed, laneStates returns their errors.
func (s *Slots) laneStates(ctx context.Context, tx *db.Tx, l *LaneSet, counts []messageCount) ([]lanes.State, error) {
	backlogs, err := tx.Backlogs(ctx, l.Name, len(l.Lanes))
	if err != nil {
		return nil, err
	}
	states := make([]lanes.State, len(l.Lanes))
	var failed []error
	for i, lane := range l.Lanes {
		state := lanes.State{
			Slots: lane.Slots, Min: lane.MinSlots, Max: lane.MaxSlots,
			Held: counts[i].total(), TimedOut: backlogs[i].TimedOut, FirstTries: backlogs[i].Waiting,
			Waited: backlogs[i].Waited(s.now()), Target: lane.TargetWait,
		}
		if err := counts[i].err; err != nil {
			failed = append(failed, err)
			state.Held, state.Max = lane.Slots, lane.Slots
		}
		s.showUnread(l.Name, lane, counts[i])
		s.metrics.limit.WithLabelValues(lane.Queue).Set(float64(lane.Slots))
		s.metrics.free.WithLabelValues(lane.Queue).Set(float64(max(0, lane.Slots-state.Held)))
		states[i] = state
	}
	if len(failed) == len(states) {
		return nil, errors.Join(failed...)
	}
	return states, nil
}

// unreadAfter is how long a lane's queue has messages and no consumer before the metric and the log show it. A
// restart of workers is shorter.
const unreadAfter = 45 * time.Second

// showUnread sets the metric of a lane's queue that has had messages and no consumer for unreadAfter, and logs it
// once. The messages stay in the queue: an autoscaler may start workers because of them.
func (s *Slots) showUnread(set string, lane model.Lane, c messageCount) {
	if c.err != nil || c.Consumers > 0 || c.total() == 0 {
		s.withoutConsumer.Delete(lane.Queue)
		s.metrics.unread.WithLabelValues(set, lane.Name).Set(0)
		return
	}
	found, known := s.withoutConsumer.LoadOrStore(lane.Queue, &unreadQueue{since: s.now()})
	q := found.(*unreadQueue)
	if !known || s.now().Sub(q.since) < unreadAfter {
		return
	}
	s.metrics.unread.WithLabelValues(set, lane.Name).Set(1)
	if s.Log != nil && !q.logged.Swap(true) {
		s.Log.Warn("the queue of a lane has no consumer: its messages wait for workers", "lanes", set, "lane", lane.Name, "queue", lane.Queue)
	}
}

// unreadQueue is a queue without a consumer.
type unreadQueue struct {
	since  time.Time
	logged atomic.Bool
}
