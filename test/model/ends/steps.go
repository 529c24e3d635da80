package ends

import (
	"hash/maphash"
	"slices"

	"swh-scheduler/test/model/check"
)

// world takes the steps.
type world struct {
	rules Rules
	to    *check.Steps[State]
}

// lanes sends the backlog into free slots, one for each lane.
func (w world) lanes(s State, i int) {
	work := &s.Works[i]
	lane := int(work.Lane)
	if work.Row != Backlog || s.inLane(lane) > 0 {
		return
	}
	if w.rules.UnreadNothing && !s.Read[lane] && s.Read[1-lane] {
		return
	}
	t := &work.Tries[work.Try]
	if t.Copy != NotSent { // with the mistake SameID the try begins anew
		*t = Try{Moves: t.Moves, Outcome: t.Outcome, Lost: t.Lost}
	}
	work.Row, t.Copy, t.Lane = Sent, Queued, work.Lane
	w.to.To(s, "%d is sent to lane %d", i, lane)
}

func (s State) inLane(lane int) (n int) {
	for _, w := range s.Works {
		for _, t := range w.Tries {
			if (t.Copy == Queued || t.Copy == Running) && int(t.Lane) == lane {
				n++
			}
		}
	}
	return n
}

// workers takes the steps of a worker, which sends events, and of its autoscaler.
func (w world) workers(s State, i, t int) {
	try := &s.Works[i].Tries[t]
	lane := int(try.Lane)
	switch {
	case try.Copy == Queued && !s.Read[lane]:
		s.Read[lane] = true
		w.to.To(s, "the autoscaler starts workers of lane %d", lane)
	case try.Copy == Queued:
		try.Copy = Running
		w.to.To(s, "a worker begins try %d of %d", t, i)
	case try.Copy == Running:
		w.finish(s, i, t, Done, "try %d of %d is done")
		w.finish(s, i, t, TimedOut, "try %d of %d times out")
		if s.Left.Failures > 0 {
			failed := s
			failed.Left.Failures--
			w.finish(failed, i, t, Failed, "try %d of %d fails")
		}
		if s.Left.Revokes > 0 {
			revoked := s
			revoked.Left.Revokes--
			w.finish(revoked, i, t, Revoked, "try %d of %d is revoked")
		}
	}
}

// finish ends a try. Its events are sent, or lost.
func (w world) finish(s State, i, t int, outcome Outcome, name string) {
	try := &s.Works[i].Tries[t]
	try.Copy, try.Outcome, try.End = Finished, outcome, Unread
	switch outcome {
	case Done:
		try.Runtime = Unread
	case TimedOut, Failed:
		try.Visit = Recorded
	}
	w.to.To(s, name, t, i)
	if s.Left.Losses > 0 {
		s.Left.Losses--
		try.End, try.Lost = NoEvent, true
		w.to.Fault(s, name+", and the event is lost", t, i)
	}
}

// listener takes the steps of listeners with the events of a try.
func (w world) listener(s State, i, t int) {
	w.event(s, i, t, "end", func(try *Try) *Event { return &try.End }, w.applyEnd)
	w.event(s, i, t, "runtime", func(try *Try) *Event { return &try.Runtime }, w.applyRuntime)
}

func (w world) event(s State, i, t int, what string, of func(*Try) *Event, apply func(*State, int, int)) {
	event := of(&s.Works[i].Tries[t])
	switch *event {
	case Unread:
		*event = Taken
		w.to.To(s, "a listener gets the "+what+" of try %d of %d", t, i)
	case Taken:
		*event = Applied
		if w.rules.AckFirst {
			*event = NoEvent
			dead := s
			w.to.Fault(dead, "a listener acknowledges the "+what+" of try %d of %d, and dies", t, i)
		}
		apply(&s, i, t)
		w.to.To(s, "the "+what+" of try %d of %d is applied", t, i)
	case Applied:
		*event = NoEvent
		w.to.To(s, "the "+what+" of try %d of %d is acknowledged", t, i)
	}
}

// applyEnd settles the end of a try: its row, then its run.
func (w world) applyEnd(s *State, i, t int) {
	work := &s.Works[i]
	try := &work.Tries[t]
	if w.rules.ChargesAgain {
		try.Charged += cost
	}
	if t != int(work.Try) {
		return // neither row nor run has that id
	}
	if work.Row == Sent || w.rules.SameID && work.Row == Backlog {
		if try.Outcome == TimedOut && work.Lane == 0 && work.Open {
			w.moveOn(work, try)
			return
		}
		work.Row = Gone
		if !w.rules.ChargesAgain {
			try.Charged = cost
		}
		if try.Outcome == Done {
			work.Row = Settled
		}
	}
	w.endRun(s, i, try.Outcome)
}

// moveOn moves work that timed out to the backlog of the next lane, with a new id.
func (w world) moveOn(work *Work, try *Try) {
	try.Moves++
	if !w.rules.ChargesAgain {
		try.Charged = cost
	}
	try.TimedOut = !w.rules.NoTimeoutRecord
	if try.Visit == Held {
		try.Visit = Dropped
	}
	work.Row = Backlog
	if w.rules.SameID {
		return
	}
	work.Lane = 1
	work.Try++
}

// endRun ends the run, if it is open, and retries its task by the rules of its type.
func (w world) endRun(s *State, i int, outcome Outcome) {
	work := &s.Works[i]
	if !work.Open && !w.rules.EndsAgain {
		return
	}
	work.Open = false
	work.Ends++
	again := outcome == Failed || outcome == Unknown || outcome == Revoked && w.rules.RevokedRetried || outcome == TimedOut && w.rules.FinalRetried
	if again && work.Retries > 0 {
		s.Broken.RevokedAgain = s.Broken.RevokedAgain || outcome == Revoked
		s.Broken.FinalAgain = s.Broken.FinalAgain || outcome == TimedOut
		work.Retries--
		work.Open, work.Ends = true, 0
		work.Row, work.Lane = Backlog, 1
		work.Try++
	}
}

// applyRuntime charges the runtime of a try, or corrects its charge.
func (w world) applyRuntime(s *State, i, t int) {
	work := &s.Works[i]
	try := &work.Tries[t]
	switch {
	case t != int(work.Try):
	case work.Row == Settled:
		try.Charged += took - cost
		work.Row = Gone
		if w.rules.CorrectsAgain {
			work.Row = Settled
		}
	case work.Row == Sent:
		try.Charged = took
		work.Row = Gone
	}
}

// journal takes the steps of the journal client with a failed visit.
func (w world) journal(s State, i, t int) {
	work := &s.Works[i]
	try := &work.Tries[t]
	open := work.Row == Sent && int(work.Try) == t
	switch {
	case try.Visit == Recorded && open && try.Lane == 0 && !w.rules.NotHeld:
		try.Visit = Held
		w.to.To(s, "the failed visit of try %d of %d is held", t, i)
	case try.Visit == Recorded && try.TimedOut:
		try.Visit = Dropped
		w.to.To(s, "the failed visit of try %d of %d is known to be a time-out", t, i)
	case try.Visit == Recorded, try.Visit == Held && !open:
		try.Visit = Counted
		w.to.To(s, "the failed visit of try %d of %d counts", t, i)
	}
}

// silence takes the steps of jobs that give up work without events.
func (w world) silence(s State, i int) {
	work := s.Works[i]
	try := work.Tries[work.Try]
	switch {
	case try.Silent == Short && try.Copy >= Running && work.waits():
		s.Works[i].Tries[work.Try].Silent = Noted
		w.to.To(s, "a look finds %d out of its queue", i)
		return
	case try.Silent == Short && try.Copy == Queued && work.waits() && (w.rules.CountedLate || w.rules.QueueIgnored):
		s.Works[i].Tries[work.Try].Silent = Noted
		w.to.To(s, "%d was sent long ago", i)
		return
	case try.Silent == Begun && try.Copy > Running && work.waits():
		s.Works[i].Tries[work.Try].Silent = Long
		w.to.To(s, "the time of %d is over", i)
		return
	}
	if w.rules.StaysSilent || try.Silent < Known && !w.rules.SilenceByClock {
		return
	}
	if try.Silent == Short || try.Silent == Begun || try.Copy == Queued && !w.rules.QueueIgnored {
		return
	}
	unread := try.Copy == Queued || try.Copy == Running || try.End == Unread || try.End == Taken
	switch {
	case work.Row == Sent:
		given := s
		given.Broken.UnreadGivenUp = s.Broken.UnreadGivenUp || unread
		given.Works[i].Row = Gone
		given.Works[i].Tries[work.Try].Charged = cost
		w.to.To(given, "the message of %d is given up", i)
	case work.Row == Settled:
		given := s
		given.Works[i].Row = Gone
		w.to.To(given, "the runtime of %d is waited for no more", i)
	}
	if work.Open && work.Row != Backlog {
		s.Broken.UnreadGivenUp = s.Broken.UnreadGivenUp || unread
		if work.Row == Sent {
			s.Works[i].Tries[work.Try].Charged = cost
		}
		s.Works[i].Row = Gone
		w.endRun(&s, i, Unknown)
		w.to.To(s, "the run of %d is lost", i)
	}
}

// waits says whether the end of work, or its runtime, is still needed.
func (w Work) waits() bool { return w.Row == Sent || w.Row == Settled || w.Open }

// keeper observes the event queue and removed lanes.
func (w world) keeper(s State) {
	if s.known(w.rules) {
		seen := s
		for i := range seen.Works {
			for t := range seen.Works[i].Tries {
				switch try := &seen.Works[i].Tries[t]; {
				case try.Silent == Noted && try.Copy == Running:
					try.Silent = Begun
				case try.Silent == Noted, try.Silent == Long:
					try.Silent = Known
				}
			}
		}
		w.to.To(seen, "the event queue is seen with nothing ready and nothing unacknowledged")
	}
	switch {
	case !s.Seen && (s.Watched || w.rules.JudgesFirst) && s.backlog():
		released := s
		released.Broken.Released = true
		w.to.To(released, "the lanes count as removed")
	case s.Seen && !s.Watched:
		watched := s
		watched.Watched = true
		w.to.To(watched, "five minutes without a gap")
	}
	if !s.Seen {
		s.Seen = true
		w.to.To(s, "a process notes that it has the lanes")
	}
}

func (s State) known(rules Rules) bool {
	for _, work := range s.Works {
		for _, t := range work.Tries {
			for _, e := range [...]Event{t.End, t.Runtime} {
				if e == Unread || e != NoEvent && !rules.UnackedIgnored {
					return false
				}
			}
		}
	}
	return true
}

func (s State) backlog() bool {
	return slices.ContainsFunc(s.Works[:], func(w Work) bool { return w.Row == Backlog })
}

// faults takes the remaining faults.
func (w world) faults(s State) {
	if s.Left.Crashes > 0 {
		dead := s
		dead.Left.Crashes--
		for i := range dead.Works {
			for t := range dead.Works[i].Tries {
				try := &dead.Works[i].Tries[t]
				for _, e := range [...]*Event{&try.End, &try.Runtime} {
					if *e != NoEvent {
						*e = Unread
					}
				}
			}
		}
		w.to.Fault(dead, "a listener dies")
	}
	if s.Left.Outages > 0 {
		out := s
		out.Left.Outages--
		out.Seen, out.Watched = false, false
		w.to.Fault(out, "PostgreSQL is unreachable for more than five minutes")
	}
	for lane, read := range s.Read {
		if s.Left.ScaleDown > 0 && read {
			down := s
			down.Left.ScaleDown--
			down.Read[lane] = false
			w.to.Fault(down, "the workers of lane %d are scaled to zero", lane)
		}
	}
	for i := range s.Works {
		for t := range s.Works[i].Tries {
			if s.Left.Deaths > 0 && s.Works[i].Tries[t].Copy == Running {
				dead := s
				dead.Left.Deaths--
				dead.Works[i].Tries[t].Copy = Died
				w.to.Fault(dead, "the worker of try %d of %d dies", t, i)
			}
		}
	}
}

var seed = maphash.MakeSeed()

// canonical returns one of the states that differ only in the names of works, and in the silence of tries whose end
// is not needed.
func canonical(s State) State {
	for i := range s.Works {
		for t := range s.Works[i].Tries {
			if t != int(s.Works[i].Try) || !s.Works[i].waits() {
				s.Works[i].Tries[t].Silent = Short
			}
		}
	}
	if s.Works[0] != s.Works[1] && maphash.Comparable(seed, s.Works[0]) > maphash.Comparable(seed, s.Works[1]) {
		s.Works[0], s.Works[1] = s.Works[1], s.Works[0]
	}
	return s
}
