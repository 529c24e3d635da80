package ends

import "swh-scheduler/test/model/check"

// Ledger is the state of a group's use, charged by two claims.
type Ledger struct {
	ToCome  uint8 // ends without a charge yet
	Pending uint8 // charges that no claim has added
	Used    uint8 // the sum of the claims' additions
	Lock    uint8 // the claim that has the lock, from 1
	Claims  [2]Claim
}

// Claim reads the use, adds the pending charges, and writes the sum at its commit.
type Claim struct {
	Open        bool
	Read, Taken uint8
}

// Charges is a model of two claims for one queue that charge its group. unlocked is a mistake: the claims hold
// different locks, as one has lanes in its configuration.
func Charges(ends uint8, unlocked bool) check.Model[Ledger] {
	return check.Model[Ledger]{
		Initial: Ledger{ToCome: ends},
		Next: func(l Ledger, to *check.Steps[Ledger]) {
			if l.ToCome > 0 {
				next := l
				next.ToCome--
				next.Pending++
				to.To(next, "an end is charged")
			}
			for i, claim := range l.Claims {
				next := l
				switch {
				case claim.Open:
					next.Used = claim.Read + claim.Taken
					next.Claims[i], next.Lock = Claim{}, 0
					to.To(next, "claim %d writes what the group used", i)
				case l.Lock == 0 && l.Pending > 0:
					next.Claims[i], next.Pending = Claim{true, l.Used, l.Pending}, 0
					if !unlocked {
						next.Lock = uint8(i + 1)
					}
					to.To(next, "claim %d reads what the group used, and takes its charges", i)
				}
			}
		},
		Always: []check.Property[Ledger]{{Name: "no charge is lost", Holds: func(l Ledger) bool {
			return l.Claims[0].Open || l.Claims[1].Open || l.Used+l.Pending+l.ToCome == ends
		}}},
	}
}
