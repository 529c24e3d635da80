package model

import (
	"slices"
	"time"
)

// Policy is a rule for picking origins for visits: the conditions, the order, and a description. This file defines
// all policies for grabs, indexes, explain, pools, the configuration and the simulator.
//
// Conditions and orders are SQL on a row c with the columns of scheduler_go.candidates (sql/origins/candidates.go).
type Policy struct {
	Name       VisitPolicy
	Conditions []*Condition
	OrderBy    string // SQL
	Index      string // part of the names of its indexes of candidates

	ByTarget bool // ordered by visit target: picking moves the visit type's queue position forward
	Ours     bool // not a policy of the Python scheduler
}

// Condition is a condition of a policy on an origin.
type Condition struct {
	SQL   string
	holds func(o OriginFacts) bool
	// Picks and But complete "policy X …, and …" for an origin that doesn't meet the condition.
	Picks, But string
}

// OriginFacts are the facts that conditions test.
type OriginFacts struct {
	Successful     bool // its last visit succeeded
	Loaded         bool // it has a snapshot
	Dated          bool // its lister reports the date of its last change
	Changed        bool // it changed after its last successful visit, by that date
	MayHaveChanged bool // it may have changed after that visit, as dates may be a second or day long (UpdateEnds)
	Fork           bool // its lister reports it as a fork
}

// Facts returns the facts of an origin; s is nil if it was never scheduled or visited.
func Facts(o ListedOrigin, s *VisitStats) OriginFacts {
	f := OriginFacts{Dated: o.LastUpdate != nil, Fork: o.IsFork != nil && *o.IsFork}
	if s != nil {
		f.Successful, f.Loaded = s.LastVisitStatus == VisitSuccessful, s.LastSnapshot != nil
		if f.Dated && s.LastSuccessful != nil {
			f.Changed = o.LastUpdate.After(*s.LastSuccessful)
			f.MayHaveChanged = UpdateEnds(*o.LastUpdate).After(*s.LastSuccessful)
		}
	}
	return f
}

// UpdateEnds returns the end of the time that a lister's date of an update covers: the update came before it. Most
// listers date in whole seconds, and a date at midnight (UTC) may mean the whole day. The database's function
// scheduler_go.update_ends computes the same.
func UpdateEnds(date time.Time) time.Time {
	switch date = date.UTC(); {
	case date.Year() < 1900 || date.Year() >= 2200: // impossible dates of an update
		return date
	case date.Equal(date.Truncate(24 * time.Hour)):
		return date.Add(24 * time.Hour)
	case date.Nanosecond() == 0:
		return date.Add(time.Second)
	default:
		return date.Add(time.Microsecond)
	}
}

var (
	unsuccessful = &Condition{"not c.successful", func(o OriginFacts) bool { return !o.Successful }, "picks origins until a visit has succeeded", "one has"}
	neverLoaded  = &Condition{"not c.loaded", func(o OriginFacts) bool { return !o.Loaded }, "picks origins that were never loaded", "this one was"}
	loaded       = &Condition{"c.loaded", func(o OriginFacts) bool { return o.Loaded }, "picks origins that were loaded before", "this one wasn't"}
	dated        = &Condition{"c.last_update is not null", func(o OriginFacts) bool { return o.Dated }, "picks origins whose lister reports their last change", "this one's doesn't"}
	undated      = &Condition{"c.last_update is null", func(o OriginFacts) bool { return !o.Dated }, "picks origins whose lister doesn't report their last change", "this one's does"}
	// If the policy is configured, all origins have a moment.
	momentary = &Condition{"c.moment is not null", func(OriginFacts) bool { return true }, "", ""}
	// Only loaded origins have a lag.
	loadedOfChanged = &Condition{"c.lag is not null", func(o OriginFacts) bool { return o.Loaded }, "picks origins that were loaded before", "this one wasn't"}
	mayHaveChanged  = &Condition{"c.lag is not null", func(o OriginFacts) bool { return o.MayHaveChanged }, "picks origins that changed since their last successful visit", "this one didn't, by its lister's reports"}
	changed         = &Condition{"c.lag > interval '0'", func(o OriginFacts) bool { return o.Changed }, mayHaveChanged.Picks, mayHaveChanged.But}
	unchanged       = &Condition{"c.lag is null", func(o OriginFacts) bool { return !o.MayHaveChanged }, "picks origins that did not change since their last successful visit", "this one did, or may have"}
	fork            = &Condition{"c.fork", func(o OriginFacts) bool { return o.Fork }, "picks forks", "this one is not known to be one"}
	original        = &Condition{"not c.fork", func(o OriginFacts) bool { return !o.Fork }, "picks originals", "this one is a fork"}
)

// Policies are all policies but pools, which combines some of them, and first_visits_after_listing, which depends on
// a lister.
var Policies = []Policy{
	{Name: OldestScheduledFirst, Index: "oldest_scheduled", OrderBy: "c.last_scheduled nulls first"},
	{Name: StopAfterSuccess, Index: "unsuccessful", Conditions: []*Condition{unsuccessful}, OrderBy: "c.last_update, c.first_seen"},
	{Name: NeverVisitedOldestUpdateFirst, Index: "never_loaded", Conditions: []*Condition{neverLoaded, dated}, OrderBy: "c.last_update"},
	{Name: AlreadyVisitedOrderByLag, Index: "lag", Conditions: []*Condition{loadedOfChanged, mayHaveChanged}, OrderBy: "c.lag desc"},
	{Name: OriginsWithoutLastUpdate, Index: "without_update", Conditions: []*Condition{undated}, OrderBy: "c.queue_position nulls first, c.first_seen", ByTarget: true},
	{Name: OthersByVisitTarget, Index: "others", Conditions: []*Condition{dated, loaded, unchanged}, OrderBy: "c.queue_position nulls first, c.first_seen", ByTarget: true, Ours: true},
	// A grab adds the condition that the moment has come.
	{Name: Freshness, Index: "moment", Conditions: []*Condition{momentary}, OrderBy: "c.moment, c.first_seen", Ours: true},
}

// Policy returns the policy of Policies with that name, or nil.
func (p VisitPolicy) Policy() *Policy {
	if i := slices.IndexFunc(Policies, func(q Policy) bool { return q.Name == p }); i >= 0 {
		return &Policies[i]
	}
	return nil
}

// firstVisits is FirstVisitsAfterListing, whose condition depends on the lister.
var firstVisits = Policy{Name: FirstVisitsAfterListing, OrderBy: "c.last_scheduled nulls first"}

// Rule returns a filter's policy with the filter's conditions: on forks, and, unless pools picks, that the date of
// the last change is after the last visit. nil: the policy is unknown or combines others.
func (f VisitFilter) Rule() *Policy {
	p := f.Policy.Policy()
	if f.Policy == FirstVisitsAfterListing {
		p = &firstVisits
	}
	var more []*Condition
	if f.Policy == AlreadyVisitedOrderByLag && !f.OfPools {
		more = append(more, changed)
	}
	if f.Forks != ForksToo {
		more = append(more, map[Forks]*Condition{Originals: original, ForksOnly: fork}[f.Forks])
	}
	if p == nil || more == nil {
		return p
	}
	restricted := *p
	restricted.Conditions = append(slices.Clone(p.Conditions), more...)
	return &restricted
}

// WaitsForDate reports whether a filter picks an origin that may have changed only after the date of its last change
// is over (UpdateEnds). An earlier visit could miss the change.
func (f VisitFilter) WaitsForDate() bool { return f.Policy == AlreadyVisitedOrderByLag && f.OfPools }

// SQL returns the conditions as SQL, without duplicates.
func (p *Policy) SQL() []string {
	var all []string
	for _, c := range p.Conditions {
		all = append(all, c.SQL)
	}
	return slices.Compact(all)
}

// WhyExcluded returns why the filter's policy doesn't pick an origin, or "".
func (f VisitFilter) WhyExcluded(o OriginFacts) string {
	rule := f.Rule()
	if rule == nil {
		return ""
	}
	for _, c := range rule.Conditions {
		if !c.holds(o) {
			return c.Picks + ", and " + c.But
		}
	}
	return ""
}

// PoolPolicies are the four policies that pools combines: one for origins whose listers report no date (group A), and
// three for the others (group B).
var PoolPolicies = []VisitPolicy{OriginsWithoutLastUpdate, NeverVisitedOldestUpdateFirst, AlreadyVisitedOrderByLag, OthersByVisitTarget}
