package ends

import (
	"os"
	"testing"

	"swh-scheduler/test/model/check"
)

// scopes are explored whole in CI, long ones by `make model`.
var (
	scopes = map[string]Scope{
		"2 works":               {Works: 2},
		"listeners die":         {Works: 1, Retries: 1, Faults: Faults{Crashes: 2, Failures: 1, Revokes: 1}},
		"an event is lost":      {Works: 1, Retries: 1, Faults: Faults{Losses: 1, Failures: 1, Crashes: 1}},
		"workers die":           {Works: 1, Retries: 1, Faults: Faults{Deaths: 2, Losses: 1}},
		"an outage, no workers": {Works: 1, Retries: 1, Faults: Faults{Outages: 2, ScaleDown: 2}},
	}
	long = map[string]Scope{
		"1 work, all faults":             {Works: 1, Retries: 1, Faults: Faults{Deaths: 1, Losses: 1, Crashes: 1, Outages: 1, ScaleDown: 1, Failures: 1, Revokes: 1}},
		"2 works, a listener dies":       {Works: 2, Faults: Faults{Crashes: 1}},
		"2 works, a lost event":          {Works: 2, Faults: Faults{Losses: 1}},
		"2 works, a worker dies":         {Works: 2, Faults: Faults{Deaths: 1}},
		"2 works, an outage, no workers": {Works: 2, Faults: Faults{Outages: 1, ScaleDown: 1}},
	}
)

func TestRight(t *testing.T) {
	for name, s := range scopes {
		check.Holds(t, name, Model(s, Rules{}))
	}
	check.Holds(t, "the known moment, a listener dies", KnownUpTo(1, KnownRules{}))
	check.Holds(t, "charges", Charges(3, false))
	check.Holds(t, "shares", Shares(false, 2, GroupRules{}))
	check.Holds(t, "shares with a ceiling", Shares(true, 2, GroupRules{}))
}

func TestLong(t *testing.T) {
	if os.Getenv("SWH_MODEL") != "long" {
		t.Skip("by make model")
	}
	for name, s := range long {
		check.Holds(t, name, Model(s, Rules{}))
	}
}

const (
	once    = "a run's end counts once"
	goesOn  = "a time-out goes on once"
	waits   = "nothing is given up that waits"
	charges = "charges are never negative"
	twice   = "nothing is charged twice"
	revoked = "what was revoked is not run again"
	final   = "a time-out in the last lane is final"
	emptied = "lanes in use are not emptied"
	visit   = "a time-out is no failed visit"
	all     = "all ends, and what timed out goes on"
	known   = "what was sent before the known moment is written"
	part    = "a group's part comes back"
	idle    = "no worker is idle while work may run"
)

func TestMistakes(t *testing.T) {
	var table []check.Mistake[State]
	for _, m := range []struct {
		name   string
		faults Faults
		rules  Rules
		broken string
		steps  int
	}{
		{"silence by the clock while a listener is behind", Faults{}, Rules{SilenceByClock: true}, waits, 4},
		{"a queue without ready events counts as read", Faults{}, Rules{UnackedIgnored: true}, waits, 7},
		{"silence since a message was sent, not since a look found it out of its queue", Faults{}, Rules{CountedLate: true}, waits, 5},
		{"what waits in its queue is given up", Faults{}, Rules{QueueIgnored: true}, waits, 4},
		{"events are acknowledged before they are written", Faults{}, Rules{AckFirst: true}, visit, 9},
		{"the next lane's try has the same id", Faults{Crashes: 1}, Rules{SameID: true}, goesOn, 8},
		{"a second end of a run counts", Faults{Crashes: 1}, Rules{EndsAgain: true}, once, 8},
		{"a revoked run is retried", Faults{Revokes: 1}, Rules{RevokedRetried: true}, revoked, 5},
		{"a time-out in the last lane is retried", Faults{}, Rules{FinalRetried: true}, final, 10},
		{"failed visits of the express lane count at once", Faults{}, Rules{NotHeld: true}, visit, 4},
		{"the journal client gets no time-outs", Faults{}, Rules{NoTimeoutRecord: true}, visit, 6},
		{"each event of a runtime corrects the charge", Faults{Crashes: 1}, Rules{CorrectsAgain: true}, charges, 10},
		{"each end charges", Faults{}, Rules{ChargesAgain: true}, twice, 7},
		{"a lane without consumers gets nothing", Faults{ScaleDown: 1}, Rules{UnreadNothing: true}, all, 1},
		{"lanes count as removed before a process has noted them", Faults{Outages: 1}, Rules{JudgesFirst: true}, emptied, 2},
		{"what is silent is never given up", Faults{Losses: 1}, Rules{StaysSilent: true}, all, 3},
	} {
		table = append(table, check.Mistake[State]{Name: m.name, Model: Model(Scope{Works: 1, Retries: 1, Faults: m.faults}, m.rules), Broken: m.broken, Steps: m.steps})
	}
	check.Distinguishes(t, table)
	check.Distinguishes(t, []check.Mistake[EventQueue]{
		{Name: "all is known up to now", Model: KnownUpTo(1, KnownRules{Now: true}), Broken: known, Steps: 3},
		{Name: "nothing ready is enough", Model: KnownUpTo(1, KnownRules{ReadyOnly: true}), Broken: known, Steps: 4},
		{Name: "ready and unacknowledged are of two moments", Model: KnownUpTo(1, KnownRules{TwoMoments: true}), Broken: known, Steps: 5},
		{Name: "a marker alone", Model: KnownUpTo(1, KnownRules{MarkerAlone: true}), Broken: known, Steps: 7},
		{Name: "a marker's date less the age of the oldest batch", Model: KnownUpTo(1, KnownRules{LessTheLongest: true}), Broken: known, Steps: 6},
		{Name: "a marker counts although a listener died", Model: KnownUpTo(1, KnownRules{Survives: true}), Broken: known, Steps: 8},
	})
	check.Distinguishes(t, []check.Mistake[Ledger]{
		{Name: "claims for one queue hold different locks", Model: Charges(3, true), Broken: "no charge is lost", Steps: 6},
	})
	check.Distinguishes(t, []check.Mistake[Groups]{
		{Name: "work in hand counts with its age, however old", Model: Shares(false, 2, GroupRules{Unbounded: true}), Broken: part, Steps: 13},
		{Name: "started work at a ceiling is not given up", Model: Shares(true, 2, GroupRules{NeverLost: true}), Broken: part, Steps: 21},
		{Name: "slots that a group at its ceiling leaves stay free", Model: Shares(true, 2, GroupRules{ToEach: true}), Broken: idle, Steps: 3},
		{Name: "a worker's clock is at 1970", Model: Shares(false, 2, GroupRules{WorkersAge: true}), Broken: part, Steps: 11},
	})
}
