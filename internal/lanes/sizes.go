package lanes

import (
	"math"
	"time"
)

// State is what one lane has and may have, in messages.
type State struct {
	Slots, Min, Max int // as configured: 1 <= Min <= Slots <= Max
	Held            int // in its queue, or on the way there
	TimedOut        int // in its backlog, timed out before
	Waiting         int // in its backlog, not tried before

	Waited time.Duration // how long the first of its backlog has waited
	Target time.Duration // how long that should wait at most; 0 if nothing says so
}

// LookAhead is among how many messages of a backlog the slowest are looked for.
const LookAhead = 1000

func (s State) backlog() int { return s.TimedOut + s.Waiting }

// use returns how many slots the lane needs.
func (s State) use() int { return s.Held + s.backlog() }

// late returns for how many times its target the lane's backlog waits; 0 without a target.
func (s State) late() float64 {
	if s.Target <= 0 || s.backlog() == 0 {
		return 0
	}
	return s.Waited.Seconds() / s.Target.Seconds()
}

// times returns a number of the lane's own slots, rounded up.
func (s State) times(factor float64) int { return int(math.Ceil(float64(s.Slots) * factor)) }

// Sizes returns how many messages each lane may hold now. more says that there may be
// unclaimed work: then the first lane keeps its slots for it.
//
// Slots that a lane doesn't need are lent to those that have more work than slots: to
// the lanes after it, the next one first, then to those before it. So the sizes
// never add up to more than the slots do; but a lane that already holds more than
// its size keeps that until it is done. Then slots move to lanes that are late.
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

// moveToLate moves free slots to lanes whose backlogs wait for longer than their targets, from lanes
// whose backlogs don't. A lane that waits for n times its target gets up to n times its own
// slots. One that waits for a part of its target keeps that part of its own. How long unclaimed
// work waits is not known: a first lane that may have some keeps the nth part.
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

// Room returns how much new work is worth claiming: the slots that the backlogs leave free.
func Room(lanes []State, sizes []int) int {
	room := 0
	for i, l := range lanes {
		room += max(0, sizes[i]-l.use())
	}
	return room
}

// Send moves the first Count messages of a lane's backlog to the queue of a lane: its
// own, or a later one.
type Send struct{ From, To, Count int }

// Fill returns which part of the backlogs goes to which queue, in that order, so that no
// lane holds more than its size. Work that finds no slot of its own lane may take one of
// a later lane whose backlog has nothing that timed out.
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
	// From the last lane on: what takes a later lane's slot is the first of its backlog.
	for to := len(lanes) - 1; to >= 0; to-- {
		send(to, to, min(free[to], backlog[to]))
		for from := to - 1; from >= 0; from-- {
			send(from, to, min(free[to], backlog[from]-free[from]))
		}
	}
	return sends
}
