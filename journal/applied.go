package journal

import (
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// Applied counts visits that changed something, by visit type and outcome.
type Applied map[visitOutcome]int

type visitOutcome struct {
	visitType, outcome string
	chance             string // the chance of a change that the policy freshness expected, rounded down to tenths; "" without the policy
}

// outcomeOf returns the outcome of a visit. An uneventful visit found no change: it was in vain.
func outcomeOf(status model.VisitStatus, eventful bool) string {
	switch {
	case eventful:
		return "eventful"
	case status == model.VisitSuccessful:
		return "uneventful"
	}
	return string(status)
}

// ends returns the counts in the ledger's form. The durations of visits are unknown.
func (a Applied) ends() ledger.Ends {
	ends := ledger.Ends{}
	for what, n := range a {
		ends.Add(ledger.EndedByJournal, what.visitType, what.outcome, "", -1, n)
	}
	return ends
}

func (a Applied) add(more Applied) {
	for what, n := range more {
		a[what] += n
	}
}

// Total returns the number of visits.
func (a Applied) Total() (n int) {
	for _, of := range a {
		n += of
	}
	return n
}
