package simulator

import (
	"container/heap"
	"context"
	"time"
)

// A Clock is simulated time: it stands still while something is done, and jumps to
// what comes next. It belongs to one goroutine.
type Clock struct {
	start  time.Time
	now    time.Duration // since start
	events events
	seq    int64
}

// NewClock makes a Clock that shows start.
func NewClock(start time.Time) *Clock { return &Clock{start: start} }

// Now is the simulated time, in whole microseconds, as the database and the peer
// have it.
func (c *Clock) Now() time.Time { return c.start.Add(c.now).Round(time.Microsecond) }

// Elapsed is how much time was simulated.
func (c *Clock) Elapsed() time.Duration { return c.now }

// After has something done later. What is due at the same time is done in the
// order in which it was asked for.
func (c *Clock) After(wait time.Duration, do func(context.Context) error) {
	c.seq++
	heap.Push(&c.events, event{c.now + wait, c.seq, do})
}

// Every has something done now, and again each period.
func (c *Clock) Every(period time.Duration, do func(context.Context) error) {
	var again func(ctx context.Context) error
	again = func(ctx context.Context) error {
		if err := do(ctx); err != nil {
			return err
		}
		c.After(period, again)
		return nil
	}
	c.After(0, again)
}

// Run does what is due before until (since the start), and then shows until. It
// stops early when ctx ends, which is no error: the clock shows how far it came.
func (c *Clock) Run(ctx context.Context, until time.Duration) error {
	for ctx.Err() == nil {
		if len(c.events) == 0 || c.events[0].at >= until {
			c.now = max(c.now, until)
			return nil
		}
		e := heap.Pop(&c.events).(event)
		c.now = e.at
		if err := e.do(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// event is something to do at a time.
type event struct {
	at  time.Duration
	seq int64
	do  func(context.Context) error
}

// events are a heap: the first is the next.
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e *events) Push(x any) { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{} // let go of what it holds
	*e = (*e)[:last]
	return x
}
