// Package slots is a model of messages from their claims to their ends: queues with a limit, deliveries with late or
// lost confirmations, and processes that die.
//
// It has one queue and its ledger, two processes that claim and deliver, and a broker that accepts messages, delivers
// them to workers and confirms them. A listener applies the events of their ends. A claim works by DESIGN's rule for
// slots:
//
//	held ≤ ready(D) + min(prefetch, unacked(O) + max(0, ready(O) + R[O,D) − ready(D))) + R[D,S] + outgoing(S)
//
// The broker may answer that there are neither messages nor consumers, if the leader of a quorum queue is silent. Then
// ready(D) is 0, and prefetch bounds nothing.
//
// Moments are not numbers here. A record of a delivery has whether it is later than the moments O and D of each claim
// in progress, as the rule requires of clocks. A row of the ledger stands for a batch of one message.
package slots

import "swh-scheduler/test/model/check"

const (
	processes = 2
	messages  = 3 // at most; see Scope
	sends     = 3 // copies of a message at most
)

// State is a state of the model.
type State struct {
	Messages  [messages]Message
	Processes [processes]Process
	Lock      uint8 // process that has the lock of the queue, from 1; 0: none
	Consumers uint8 // workers that read the queue, each with a prefetch of one message
	Left      Faults
}

// Message is a message, from before its claim until its end was applied.
type Message struct {
	Row    Row
	Locked uint8            // process whose transaction locks the row, from 1
	Lease  uint8            // process whose lease prevents others from sending it, from 1; orphan: one that died
	Hand   [processes]Phase // state in each process
	Copies [sends]Copy
	Event  bool // the event of an end waits for the listener

	Records [sends]Record // recorded deliveries
	Early   Record        // with the mistake StampEarly: the date of the next one

	// Figures for properties.
	Executed, TwiceByOne bool
	Sent, Excused        uint8           // number of publications, and of allowed repeats before the last one
	Carried              [processes]bool // it was published on the process's present connection
	Returned             uint8           // number of its returns to the queue by a recall
}

// Row is the state of a row of the ledger.
type Row uint8

// States of rows.
const (
	Waiting  Row = iota // not claimed
	Outgoing            // claimed, to be sent
	Sent                // confirmed
	Gone                // its end was applied
)

// Phase is the state of a message in a process.
type Phase uint8

// Phases of messages.
const (
	None      Phase = iota
	InHand          // read, and to be published
	Published       // unanswered, in a batch or after it
	Confirmed       // to be written
	Lost            // its connection ended without an answer, to be written
)

// Copy is a message on its way to a worker.
type Copy struct {
	At   Place
	From uint8 // process whose connection carries it, from 1; 0: a connection that ended
}

// Place is the place of a copy.
type Place uint8

// Places of copies.
const (
	Nowhere Place = iota
	OnTheWay
	Ready
	Running // unacknowledged
	Acked   // acknowledged and running
	Ended   // unacknowledged, although its end was reported
)

// Record is a row of the table deliveries: the claims' moments before it, a bit for each process.
type Record struct{ AfterO, AfterD uint8 }

// Process is a process that claims and delivers.
type Process struct {
	Claim Stage
	Cut   bool // without a connection to the database

	// Figures of its claim.
	ReadyO, UnackedO, PrefetchO uint8
	ReadyD, ConsumersD          uint8
	FromO, FromD, Outgoing      uint8 // R[O,D), R[D,S], outgoing(S)
}

// Stage is the progress of a claim.
type Stage uint8

// Stages of claims.
const (
	Idle     Stage = iota
	AfterO         // the moment O is known
	Figures        // the management API has answered
	AfterD         // the moment D is known
	Declared       // the broker has returned the number of ready messages
	Half           // with the mistake TwoStatements: deliveries are counted
	Counted        // the snapshot S is read
)

// Faults are the faults that may still happen.
type Faults struct {
	Crashes      uint8 // of a process
	Disconnects  uint8 // of a process from the broker: answers are lost, messages may be
	Cuts         uint8 // of a process from the database: locks are lost
	Redeliveries uint8 // RabbitMQ redelivers a worker's messages
	Consumers    uint8 // that come later
	Silences     uint8 // the broker answers a passive declare for a queue's leader, which is silent
}

// Orphan is the lease of a process that died.
const orphan = processes + 1

// Scope has the numbers of things in the model.
type Scope struct {
	Messages, Limit, Claimers int
	Slow                      bool // workers always acknowledge late
	Faults
	Most int
}

// Rules are the correct rules with at most one mistake.
type Rules struct {
	HostClock        bool // O and D are read from a clock that is ahead: both moments are too late
	NoStatsAge       bool // O is not moved back by stats_age, although figures may be older
	OneAge           bool // D is the moment of both figures
	GoneUnrecorded   bool // the confirmation for a row that is gone is not recorded
	EndUnrecorded    bool // the end of an outgoing message doesn't record its delivery
	StampEarly       bool // a delivery is dated before it is published
	TwoStatements    bool // deliveries are counted before outgoing rows
	TrustsSilence    bool // an answer of neither messages nor consumers is that of an empty queue
	PrefetchOfO      bool // the prefetch of O also bounds consumers that came later
	NoUnacked        bool // ready messages only are counted
	NoOutgoing       bool // outgoing rows are not counted
	NoLock           bool // claims don't wait for each other, or read the ledger before they have the lock
	SentAtOnce       bool // a row is sent once its message is published
	NoLease          bool // unanswered messages are not leased
	LeaseForever     bool // the lease of a dead process doesn't end
	ForgetsHand      bool // a process reads again what it holds
	ForgetsConfirmed bool // a confirmation that can't be written is dropped
	FreesOthers      bool // a process frees another's lease
	EndsHealthy      bool // a blocked write ends the connection of other messages
	Recall           bool // messages are taken back from a queue without consumers
}

// Model is the protocol in a scope, with rules.
func Model(scope Scope, rules Rules) check.Model[State] {
	initial := State{Consumers: 1, Left: scope.Faults}
	for i := scope.Messages; i < messages; i++ {
		initial.Messages[i].Row, initial.Messages[i].Executed = Gone, true
	}
	return check.Model[State]{
		Initial: initial,
		Next: func(s State, to *check.Steps[State]) {
			w := world{scope: scope, rules: rules, to: to}
			w.claims(s)
			w.deliveries(s)
			w.broker(s)
			w.faults(s)
		},
		Same: func(s State) State { return canonical(s, scope.Claimers == processes) },
		Most: scope.Most,
		Always: []check.Property[State]{
			{Name: "the limit holds but for repeats", Holds: func(s State) bool { return s.held() <= scope.Limit }},
			{Name: "nothing is lost", Holds: each(nothingLost)},
			{Name: "repeats only after a fault", Holds: each(func(m Message) bool { return m.Sent <= 1+m.Excused })},
			{Name: "a process repeats nothing that its connection carries", Holds: each(func(m Message) bool { return !m.TwiceByOne })},
		},
		Eventually: []check.Property[State]{{Name: "all ends", Holds: each(func(m Message) bool { return m.Row == Gone })}},
	}
}

func each(holds func(Message) bool) func(State) bool {
	return func(s State) bool {
		for _, m := range s.Messages {
			if !holds(m) {
				return false
			}
		}
		return true
	}
}

// held counts the messages that use a slot, without those that were sent twice.
func (s State) held() (n int) {
	for _, m := range s.Messages {
		if m.Row == Outgoing || m.Sent <= 1 && m.count(Ready, Running, Ended) > 0 {
			n++
		}
	}
	return n
}

// nothingLost says whether a row is outgoing until its message is safe.
func nothingLost(m Message) bool {
	return m.Row == Waiting || m.Row == Outgoing || m.Executed || m.count(Ready, Running, Acked, Ended) > 0
}

func (m Message) count(places ...Place) (n int) {
	for _, c := range m.Copies {
		for _, p := range places {
			if c.At == p {
				n++
			}
		}
	}
	return n
}

func (s State) count(places ...Place) (n uint8) {
	for _, m := range s.Messages {
		n += uint8(m.count(places...))
	}
	return n
}

func (s State) rows(row Row) (n uint8) {
	for _, m := range s.Messages {
		if m.Row == row {
			n++
		}
	}
	return n
}
