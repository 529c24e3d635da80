package simulator

import (
	"container/heap"
	"context"
	"slices"
	"time"
)

// Clock is simulated time. It jumps from one event to the next. It must be used by one goroutine only.
type Clock struct {
	start  time.Time
	now    time.Duration // since start
	events events
	seq    int64
}

// NewClock returns a Clock at start.
func NewClock(start time.Time) *Clock { return &Clock{start: start} }

// Now returns the simulated time in whole microseconds, the precision of the database and the Python scheduler.
func (c *Clock) Now() time.Time { return c.start.Add(c.now).Round(time.Microsecond) }

// Elapsed returns the time since start.
func (c *Clock) Elapsed() time.Duration { return c.now }

// After schedules a call of do after wait. Calls for the same time run in the order in which they were scheduled.
func (c *Clock) After(wait time.Duration, do func(context.Context) error) {
	c.seq++
	heap.Push(&c.events, event{c.now + wait, c.seq, do})
}

// Every schedules calls of do, the first one now and then one every period.
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

// Run makes the calls that are scheduled for before until (since start) and sets the clock to until. If ctx
// ends, it stops early without an error.
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

type event struct {
	at  time.Duration
	seq int64
	do  func(context.Context) error
}

// events is a heap of events by time.
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
	*e = slices.Delete(*e, last, last+1)
	return x
}
