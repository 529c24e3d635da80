package slots

import (
	"os"
	"testing"

	"swh-scheduler/test/model/check"
)

// scopes are explored whole in CI, long ones by `make model`.
var (
	scopes = map[string]Scope{
		"3 messages":                 {Messages: 3, Limit: 2, Claimers: 1},
		"2 messages, 2 claims":       {Messages: 2, Limit: 1, Claimers: 2},
		"a crash":                    {Messages: 2, Limit: 1, Claimers: 1, Faults: Faults{Crashes: 1}},
		"a lost answer":              {Messages: 2, Limit: 1, Claimers: 1, Faults: Faults{Disconnects: 1}},
		"a lost database":            {Messages: 2, Limit: 1, Claimers: 1, Faults: Faults{Cuts: 1}},
		"a redelivery, a new worker": {Messages: 2, Limit: 1, Claimers: 1, Faults: Faults{Redeliveries: 1, Consumers: 1}},
		"a silent leader":            {Messages: 2, Limit: 1, Claimers: 1, Faults: Faults{Silences: 1, Consumers: 1}},
		"1 message, all faults":      {Messages: 1, Limit: 1, Claimers: 1, Faults: Faults{Crashes: 2, Disconnects: 1, Cuts: 1, Redeliveries: 1}},
	}
	long = map[string]Scope{
		"3 messages, a redelivery, a new worker":              {Messages: 3, Limit: 2, Claimers: 1, Faults: Faults{Redeliveries: 1, Consumers: 1}},
		"3 messages, 2 claims":                                {Messages: 3, Limit: 2, Claimers: 2},
		"2 messages, 2 claims, a crash, a lost answer":        {Messages: 2, Limit: 1, Claimers: 2, Faults: Faults{Crashes: 1, Disconnects: 1}},
		"2 messages, 2 crashes, a lost answer":                {Messages: 2, Limit: 1, Claimers: 1, Faults: Faults{Crashes: 2, Disconnects: 1}},
		"2 messages, a crash, a lost database, a lost answer": {Messages: 2, Limit: 1, Claimers: 1, Faults: Faults{Crashes: 1, Cuts: 1, Disconnects: 1}},
		"3 messages, a crash, workers that acknowledge late":  {Messages: 3, Limit: 2, Claimers: 1, Slow: true, Faults: Faults{Crashes: 1}},
		"3 messages, a lost answer, workers acknowledge late": {Messages: 3, Limit: 2, Claimers: 1, Slow: true, Faults: Faults{Disconnects: 1}},
	}
)

func TestRight(t *testing.T) {
	for name, s := range scopes {
		check.Holds(t, name, Model(s, Rules{}))
	}
	check.Holds(t, "a delivery that the end records needs no other record", Model(scopes["a lost answer"], Rules{GoneUnrecorded: true}))
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
	limit   = "the limit holds but for repeats"
	lost    = "nothing is lost"
	repeats = "repeats only after a fault"
	carried = "a process repeats nothing that its connection carries"
	ends    = "all ends"
)

func TestMistakes(t *testing.T) {
	two := Scope{Messages: 2, Limit: 1, Claimers: 1}
	claims := Scope{Messages: 2, Limit: 1, Claimers: 2}
	worker := Scope{Messages: 3, Limit: 2, Claimers: 1, Faults: Faults{Consumers: 1}}
	silent := Scope{Messages: 3, Limit: 2, Claimers: 1, Faults: Faults{Silences: 1}}
	crash := Scope{Messages: 1, Limit: 1, Claimers: 1, Faults: Faults{Crashes: 1}}
	cut := Scope{Messages: 1, Limit: 1, Claimers: 1, Faults: Faults{Cuts: 1}}
	both := Scope{Messages: 1, Limit: 1, Claimers: 1, Faults: Faults{Cuts: 1, Disconnects: 1}}
	var table []check.Mistake[State]
	for _, m := range []struct {
		name   string
		scope  Scope
		rules  Rules
		broken string
		steps  int
	}{
		{"O and D by the host's clock, which is ahead", two, Rules{HostClock: true}, limit, 19},
		{"O without stats_age", two, Rules{NoStatsAge: true}, limit, 19},
		{"one age for both figures", two, Rules{OneAge: true}, limit, 18},
		{"no record of a confirmation for a row that is gone", two, Rules{GoneUnrecorded: true, EndUnrecorded: true}, limit, 19},
		{"a record of it, but none when the end of an outgoing row is applied", two, Rules{EndUnrecorded: true}, limit, 19},
		{"a delivery is dated before it is published", two, Rules{StampEarly: true}, limit, 17},
		{"deliveries are counted, then outgoing rows", two, Rules{TwoStatements: true}, limit, 19},
		{"an answer for a silent leader is that of an empty queue", silent, Rules{TrustsSilence: true}, limit, 22},
		{"the prefetch of O bounds workers that came later", worker, Rules{PrefetchOfO: true}, limit, 25},
		{"unacknowledged messages are not counted", two, Rules{NoUnacked: true}, limit, 18},
		{"outgoing rows are not counted", two, Rules{NoOutgoing: true}, limit, 12},
		{"no lock of the queue, or a snapshot older than the lock", claims, Rules{NoLock: true}, limit, 12},
		{"a row is sent once it is published", crash, Rules{SentAtOnce: true}, lost, 8},
		{"unanswered messages are not leased", two, Rules{NoLease: true}, repeats, 11},
		{"the lease of a dead process doesn't end", crash, Rules{LeaseForever: true}, ends, 11},
		{"what is in hand when locks are lost is read again", cut, Rules{ForgetsHand: true}, carried, 12},
		{"a confirmation that can't be written is forgotten", cut, Rules{ForgetsConfirmed: true}, carried, 15},
		{"a lost answer frees a row that another process has leased", both, Rules{FreesOthers: true}, repeats, 17},
		{"a write that is stuck ends the connection of other messages", two, Rules{EndsHealthy: true}, repeats, 12},
		{"recall: messages go back as it takes too long, and RabbitMQ drops them", two, Rules{Recall: true}, lost, 13},
	} {
		table = append(table, check.Mistake[State]{Name: m.name, Model: Model(m.scope, m.rules), Broken: m.broken, Steps: m.steps})
	}
	check.Distinguishes(t, table)
}
