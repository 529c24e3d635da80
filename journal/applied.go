package journal

import (
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/ledger"
)

// Applied counts visits that changed something, by visit type and outcome.
type Applied map[visitOutcome]int

type visitOutcome struct {
	visitType, outcome string
	chance             string // of a change, as the policy freshness expected it, rounded down to tenths; "" if it didn't
}

// outcomeOf returns how a visit ended. An uneventful visit, which found nothing new, was
// made in vain.
func outcomeOf(status model.VisitStatus, eventful bool) string {
	switch {
	case eventful:
		return "eventful"
	case status == model.VisitSuccessful:
		return "uneventful"
	}
	return string(status)
}

// ends returns the counts as the database takes them. How long visits took is not known.
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
