package lanes

import (
	"math"
	"time"
)

// State is the state of a lane. Numbers are in messages.
type State struct {
	Slots, Min, Max int // as configured: 1 <= Min <= Slots <= Max
	Held            int // in its queue, or outgoing
	TimedOut        int // in its backlog, timed out before
	FirstTries      int // in its backlog, not tried before

	Waited time.Duration // the wait of the first message of its backlog
	Target time.Duration // the longest wait intended; 0: none configured
}

// LookAhead is the number of messages of a backlog among which the slowest are searched.
const LookAhead = 1000

func (s State) backlog() int { return s.TimedOut + s.FirstTries }

// use returns how many slots the lane needs.
func (s State) use() int { return s.Held + s.backlog() }

// late returns the wait of the lane's backlog divided by its target; 0 without a target.
func (s State) late() float64 {
	if s.Target <= 0 || s.backlog() == 0 {
		return 0
	}
	return s.Waited.Seconds() / s.Target.Seconds()
}

// times returns the lane's own slots times factor, rounded up.
func (s State) times(factor float64) int { return int(math.Ceil(float64(s.Slots) * factor)) }

// Sizes returns how many messages each lane may hold. more says that there may be unclaimed work, for which the first
// lane then keeps its slots.
//
// A lane lends slots that it doesn't need to lanes with more work than slots: first to those after it, the next one
// first, then to those before it. So the sizes never sum to more than the slots. A lane that holds more than its size
// keeps those messages until they end. Then moveToLate moves slots to late lanes.
func Sizes(lanes []State, more bool) []int {
	sizes := make([]int, len(lanes))
	for i, l := range lanes {
		sizes[i] = l.Slots
	}
	for i, l := range lanes {
		if more && i == 0 {
			continue
		}
		spare := l.Slots - max(l.use(), l.Min)
		lend := func(to int) {
			n := min(spare, min(lanes[to].Max, lanes[to].use())-sizes[to])
			if n > 0 {
				sizes[to] += n
				sizes[i] -= n
				spare -= n
			}
		}
		for to := i + 1; to < len(lanes); to++ {
			lend(to)
		}
		for to := i - 1; to >= 0; to-- {
			lend(to)
		}
	}
	moveToLate(lanes, sizes, more)
	return sizes
}

// moveToLate moves free slots to lanes whose backlogs wait for longer than their targets, from lanes whose backlogs
// don't. A lane that waits for n times its target gets up to n times its own slots. A lane that waits for a fraction
// of its target keeps that fraction of its own slots. The wait of unclaimed work is unknown: a first lane that may
// have some keeps 1/n of its slots.
func moveToLate(lanes []State, sizes []int, more bool) {
	for to, l := range lanes {
		late := l.late()
		if late <= 1 {
			continue
		}
		want := min(l.Max, l.use(), l.times(late))
		for from, other := range lanes {
			if other.Target <= 0 || other.late() > 1 {
				continue
			}
			keep := max(other.Min, other.Held, other.times(other.late()))
			if more && from == 0 {
				keep = max(keep, other.times(1/late))
			}
			if n := min(want-sizes[to], sizes[from]-keep); n > 0 {
				sizes[to] += n
				sizes[from] -= n
			}
		}
	}
}

// Room returns how many messages are worth claiming: the slots that the backlogs leave free.
func Room(lanes []State, sizes []int) int {
	room := 0
	for i, l := range lanes {
		room += max(0, sizes[i]-l.use())
	}
	return room
}

// Send moves the first Count messages of a lane's backlog to the queue of a lane: its own, or a later one.
type Send struct{ From, To, Count int }

// Fill returns the parts of the backlogs to send, in that order, so that no lane exceeds its size. Work without a
// slot of its own lane may use one of a later lane whose backlog has no timed-out message.
func Fill(lanes []State, sizes []int) []Send {
	var sends []Send
	free, backlog := make([]int, len(lanes)), make([]int, len(lanes))
	for i, l := range lanes {
		free[i], backlog[i] = max(0, sizes[i]-l.Held), l.backlog()
	}
	send := func(from, to, n int) {
		if n > 0 {
			sends = append(sends, Send{from, to, n})
			free[to] -= n
			backlog[from] -= n
		}
	}
	// The last lane is first: a later lane's slot takes the first messages of a backlog.
	for to := len(lanes) - 1; to >= 0; to-- {
		send(to, to, min(free[to], backlog[to]))
		for from := to - 1; from >= 0; from-- {
			send(from, to, min(free[to], backlog[from]-free[from]))
		}
	}
	return sends
}
