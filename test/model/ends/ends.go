// Package ends has models of sent messages until their ends.
//
// [Model] has messages in an express lane and a slow one. Workers time out, fail or die. Events are lost, late,
// repeated, out of order or unread. Maintenance gives up messages without events. [KnownUpTo] has the moment up to
// which ends are known. [Shares] has the recovery of a group's share after its workers died.
package ends

import "swh-scheduler/test/model/check"

const (
	works = 2
	tries = 3 // the most of a message: express, slow, and a retry
	lanes = 2
	cost  = 3 // expected seconds of a message
	took  = 1 // seconds of a message that succeeds
)

// State is a state of the model.
type State struct {
	Works   [works]Work
	Read    [lanes]bool // whether workers read the lane's queue
	Seen    bool        // a process has recorded its lanes lately
	Watched bool        // the judging process has run for long enough to have read that record
	Broken  Broken
	Left    Faults
}

// Broken has the violations that have happened.
type Broken struct{ UnreadGivenUp, RevokedAgain, FinalAgain, Released bool }

// Work is a run of a task with its row of the ledger, and a visit.
type Work struct {
	Row     Row
	Lane    uint8
	Try     uint8 // its Celery id is that of this try
	Open    bool  // the run has not ended
	Retries uint8
	Ends    uint8 // ends of the present run that counted
	Tries   [tries]Try
}

// Row is the state of a row of the ledger.
type Row uint8

// States of rows.
const (
	Backlog Row = iota
	Sent
	Settled // ended, with its runtime still to come
	Gone
)

// Try is a message, its result at a worker, and its events.
type Try struct {
	Lane     uint8
	Copy     Copy
	Outcome  Outcome
	End      Event
	Runtime  Event
	Lost     bool // the event of its end was lost
	Visit    Visit
	Silent   Silence
	TimedOut bool  // recorded for the journal client
	Moves    uint8 // number of its moves by a time-out
	Charged  int8  // seconds
}

// Copy is the place of the message.
type Copy uint8

// Places of messages.
const (
	NotSent Copy = iota
	Queued
	Running
	Finished
	Died // with its worker, which sends no event
)

// Outcome is the outcome of a try.
type Outcome uint8

// Outcomes of tries.
const (
	Unknown Outcome = iota
	Done
	TimedOut
	Failed
	Revoked // by an operator
)

// Event is the place of an event.
type Event uint8

// Places of events.
const (
	NoEvent Event = iota
	Unread        // in the event queue
	Taken         // delivered to a listener
	Applied       // and written, but not acknowledged
)

// Visit is the journal client's state of the failed visit that a loader recorded.
type Visit uint8

// States of failed visits.
const (
	NoVisit  Visit = iota
	Recorded       // in the journal
	Held           // kept back until the outcome of the try is known
	Counted        // as a failure
	Dropped        // as a time-out
)

// Silence is how long a try has had no event.
type Silence uint8

// Silences.
const (
	Short Silence = iota
	Noted         // observed out of its queue, without a known start
	Begun         // with a known start
	Long          // with a known start, and its time is over, by the clock
	Known         // the events until Noted, or Long, are known
)

// Faults are the faults that may still happen.
type Faults struct {
	Deaths    uint8 // of a worker
	Losses    uint8 // of an event
	Crashes   uint8 // of a listener
	Outages   uint8 // of PostgreSQL, for longer than a lane set is remembered
	ScaleDown uint8 // of the workers of a lane
	Failures  uint8 // of work
	Revokes   uint8 // of work, by an operator
}

// Scope has the numbers of things in the model.
type Scope struct {
	Works, Retries int
	Faults
}

// Rules are the correct rules with at most one mistake.
type Rules struct {
	SilenceByClock  bool // the time without events is by the clock, despite unread events
	UnackedIgnored  bool // the event queue counts as empty while listeners hold events
	CountedLate     bool // that time begins at the sending, not at the observation out of its queue
	QueueIgnored    bool // messages in their queue are given up, too
	AckFirst        bool // events are acknowledged before they are written
	SameID          bool // the next lane's try keeps the id
	EndsAgain       bool // a second end of a run counts
	RevokedRetried  bool // a revoked run is retried
	FinalRetried    bool // a time-out in the last lane is retried
	NotHeld         bool // failed visits of the express lane count at once
	NoTimeoutRecord bool // the journal client gets no time-outs
	CorrectsAgain   bool // a charge is corrected by each event of the runtime
	ChargesAgain    bool // each end charges, with or without the row
	UnreadNothing   bool // a lane without consumers gets nothing
	JudgesFirst     bool // lanes count as removed before a process has recorded them
	StaysSilent     bool // messages without events are not given up
}

// Model is the protocol in a scope, with rules.
func Model(scope Scope, rules Rules) check.Model[State] {
	initial := State{Seen: true, Watched: true, Read: [lanes]bool{true, true}, Left: scope.Faults}
	for i := range initial.Works {
		initial.Works[i] = Work{Row: Gone}
		if i < scope.Works {
			initial.Works[i] = Work{Open: true, Retries: uint8(scope.Retries)}
		}
	}
	return check.Model[State]{
		Initial: initial,
		Next: func(s State, to *check.Steps[State]) {
			w := world{rules: rules, to: to}
			for i := range s.Works {
				w.lanes(s, i)
				w.silence(s, i)
				for t := range s.Works[i].Tries {
					w.workers(s, i, t)
					w.listener(s, i, t)
					w.journal(s, i, t)
				}
			}
			w.keeper(s)
			w.faults(s)
		},
		Same: canonical,
		Always: []check.Property[State]{
			{Name: "a run's end counts once", Holds: func(s State) bool { return s.Works[0].Ends <= 1 && s.Works[1].Ends <= 1 }},
			{Name: "a time-out goes on once", Holds: each(func(t Try) bool { return t.Moves <= 1 })},
			{Name: "nothing is given up that waits", Holds: func(s State) bool { return !s.Broken.UnreadGivenUp }},
			{Name: "charges are never negative", Holds: each(func(t Try) bool { return t.Charged >= 0 })},
			{Name: "nothing is charged twice", Holds: each(func(t Try) bool { return t.Charged <= cost })},
			{Name: "what was revoked is not run again", Holds: func(s State) bool { return !s.Broken.RevokedAgain }},
			{Name: "a time-out in the last lane is final", Holds: func(s State) bool { return !s.Broken.FinalAgain }},
			{Name: "lanes in use are not emptied", Holds: func(s State) bool { return !s.Broken.Released }},
			{Name: "a time-out is no failed visit", Holds: each(func(t Try) bool { return t.Visit != Counted || !t.goesOn() })},
		},
		Eventually: []check.Property[State]{{Name: "all ends, and what timed out goes on", Holds: func(s State) bool {
			for _, w := range s.Works {
				if w.Open || w.Row != Gone {
					return false
				}
			}
			return each(func(t Try) bool {
				return (t.Moves == 1) == t.goesOn() && t.Visit != Recorded && t.Visit != Held
			})(s)
		}}},
	}
}

// goesOn says whether a try continues in the next lane: it timed out, and its event came.
func (t Try) goesOn() bool { return t.Outcome == TimedOut && t.Lane == 0 && !t.Lost }

func each(holds func(Try) bool) func(State) bool {
	return func(s State) bool {
		for _, w := range s.Works {
			for _, t := range w.Tries {
				if !holds(t) {
					return false
				}
			}
		}
		return true
	}
}
