package lanes

// State is what one lane has and may have, in messages.
type State struct {
	Slots, Min, Max int // as configured: 1 <= Min <= Slots <= Max
	Held            int // in its queue, or on the way there
	TimedOut        int // in its line, timed out before
	Waiting         int // in its line, not tried before
}

func (s State) line() int { return s.TimedOut + s.Waiting }

// use is how many slots the lane has a use for.
func (s State) use() int { return s.Held + s.line() }

// Sizes says how many messages each lane may hold now. more says that there may be
// work that is not in any line yet: then the first lane keeps its slots for it.
//
// What a lane has no use for is lent to those that have more work than slots: to
// the lanes after it, the next one first, then to those before it. So the sizes
// never add up to more than the slots do; but a lane that already holds more than
// its size keeps that until it is done.
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
	return sizes
}

// Room is how much new work is worth claiming: what the lines leave free.
func Room(lanes []State, sizes []int) int {
	room := 0
	for i, l := range lanes {
		room += max(0, sizes[i]-l.use())
	}
	return room
}

// Send is a number of pieces of work, the first of a lane's line, that go into the
// queue of a lane: its own, or a later one.
type Send struct {
	From, To, Count int
}

// Fill says what of the lines goes into which queue, in that order, so that no lane
// holds more than its size. What waits in a line and finds no slot of its own lane
// may take one of a later lane in which nothing waits that timed out.
func Fill(lanes []State, sizes []int) []Send {
	var sends []Send
	free, line := make([]int, len(lanes)), make([]int, len(lanes))
	for i, l := range lanes {
		free[i], line[i] = max(0, sizes[i]-l.Held), l.line()
	}
	send := func(from, to, n int) {
		if n > 0 {
			sends = append(sends, Send{from, to, n})
			free[to] -= n
			line[from] -= n
		}
	}
	// From the last lane on: what takes a later lane's slot is the first of its line.
	for to := len(lanes) - 1; to >= 0; to-- {
		send(to, to, min(free[to], line[to]))
		for from := to - 1; from >= 0; from-- {
			send(from, to, min(free[to], line[from]-free[from]))
		}
	}
	return sends
}
