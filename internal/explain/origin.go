package explain

import (
	"fmt"
	"math"
	"time"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/refusals"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
)

// Origin has the facts about an origin that is listed or has been visited.
type Origin struct {
	URL, VisitType string
	Listed         *model.ListedOrigin // nil: no lister lists it
	Lister         model.Lister        // if it is listed
	Stats          *model.VisitStats   // nil: never scheduled nor visited
	Loader         *model.TaskType     // nil: no loader for this visit type
	Message        *db.WaitingMessage  // of its visit, if it is still outgoing
	Lane           *db.LanePlace       // of its visit, if it is on a lane
	Lanes          string              // the lane set of its loader, or ""
	Queue          Queue
	Policies       []Policy                 // of its visit type
	Schedulers     int                      // number of connected schedule-recurrent
	Share          *Share                   // nil: its queue is not divided between groups
	Hosters        []Hoster                 // with a limit
	Refused        *ledger.WaitingRefusal   // nil: no visit that its hoster refused waits to be tried again
	Freshness      *origins.OriginFreshness // nil: its visit type doesn't have that policy
	Hint           *origins.LastHint        // nil: no hint of it in the last 30 days
	Failures       int                      // recorded visits in a row that failed or found nothing
	Failure        *ledger.FoundFailure     // the last one of a visit; nil: none is stored
	Rules          model.VisitRules
	Gone           *origins.Gone // nil: no full listing is the reason why it is disabled
}

// Hoster is a hoster of an origin, with its limits and its load.
type Hoster struct {
	Name  string
	Limit model.HosterLimit
	Load  origins.HosterLoad
	State refusals.State // its limit by refusals; zero for none
}

// full returns the reason why a hoster takes no more visits, or "" if it takes more.
func (h Hoster) full() string {
	maxInFlight, perMinute := h.Limit.Reached(h.Load.InFlight, h.Load.LastMinute)
	switch {
	case maxInFlight:
		return model.Count(h.Load.InFlight, "of its visits is", "of its visits are") + " in flight"
	case perMinute:
		return model.Count(h.Load.LastMinute, "of its visits was", "of its visits were") + " claimed in the last minute"
	}
	return ""
}

type Policy struct {
	model.WeightedPolicy
	origins.VisitPlace // of the origin in the policy's order, if the policy can pick it
}

type cooling struct {
	why   string
	until time.Time
}

// undated reports whether the last visit of an origin failed or didn't find it, without a date. The cooldown of such
// an origin never ends.
func undated(c model.Cooldowns, s *model.VisitStats) bool {
	return s != nil && s.LastVisit == nil &&
		(s.LastVisitStatus == model.VisitFailed && c.Failed != 0 || s.LastVisitStatus == model.VisitNotFound && c.NotFound != 0)
}

// coolings returns the cooldowns in force by the rules of grab_next_visits, without undated ones.
func coolings(c model.Cooldowns, s *model.VisitStats, now time.Time) []cooling {
	if s == nil {
		return nil
	}
	var all []cooling
	add := func(cooldown time.Duration, from *time.Time, why string) {
		if cooldown != 0 && from != nil && !from.Add(cooldown).Before(now) {
			all = append(all, cooling{why, from.Add(cooldown)})
		}
	}
	add(c.Absolute, s.LastScheduled, fmt.Sprintf("it was scheduled less than %s ago (absolute cooldown)", Roughly(c.Absolute)))
	if s.LastScheduled != nil && (s.LastVisit == nil || !s.LastScheduled.Before(*s.LastVisit)) {
		add(c.Scheduled, s.LastScheduled, fmt.Sprintf("it was scheduled less than %s ago and nothing is known of that visit yet (scheduled cooldown)", Roughly(c.Scheduled)))
	}
	switch s.LastVisitStatus {
	case model.VisitFailed:
		add(c.Failed, s.LastVisit, fmt.Sprintf("its last visit failed less than %s ago (failed cooldown)", Roughly(c.Failed)))
	case model.VisitNotFound:
		add(c.NotFound, s.LastVisit, fmt.Sprintf("its last visit did not find it, less than %s ago (not found cooldown)", Roughly(c.NotFound)))
	}
	return all
}

// waits returns the reasons why a policy doesn't pick the origin yet, and until when.
func (o Origin) waits(f model.VisitFilter, now time.Time) []cooling {
	stats, again := o.released()
	waits := coolings(f.Cooldowns, stats, now)
	if again != nil {
		waits = append(waits, cooling{"its hoster refused its last visit, which counts as not scheduled from then on", *again})
	}
	if f.Policy == model.Freshness && o.Freshness != nil && o.Freshness.Moment(now).After(now) {
		waits = append(waits, cooling{"a visit is not worth its cost before", o.Freshness.Moment(now)})
	}
	if facts := model.Facts(*o.Listed, o.Stats); f.WaitsForDate() && facts.MayHaveChanged && !facts.Changed {
		if until := model.UpdateEnds(*o.Listed.LastUpdate); !until.Before(now) {
			waits = append(waits, cooling{"its last visit was in the second, or day, that is the date of its last change, and only a later one sees all of that", until})
		}
	}
	return waits
}

// released returns the stats that the origin has once a visit that its hoster refused may be tried again, and from when on
// that is; nil: no such visit waits. It follows the rule of ledger.Store.ReleaseRefused.
func (o Origin) released() (*model.VisitStats, *time.Time) {
	s := o.Stats
	if o.Refused == nil || s == nil || s.LastScheduled == nil || s.LastScheduled.After(o.Refused.Claimed) || s.LastVisit != nil && !s.LastVisit.Before(o.Refused.Claimed) {
		return s, nil
	}
	released := *s
	released.LastScheduled = nil
	if s.LastVisit != nil {
		released.LastScheduled = new(s.LastVisit.Add(-time.Second))
	}
	return &released, &o.Refused.Again
}

// isReady reports whether a policy can pick the listed origin now.
func (o Origin) isReady(f model.VisitFilter, now time.Time) bool {
	return f.WhyExcluded(model.Facts(*o.Listed, o.Stats)) == "" && !undated(f.Cooldowns, o.Stats) && len(o.waits(f, now)) == 0
}

// Explain returns why the origin has not been scheduled by now. Dates are shown in UTC.
func (o Origin) Explain(now time.Time) Explanation {
	e := &Explanation{now: now}
	e.Subject = fmt.Sprintf("Origin %s (%s)", o.URL, o.VisitType)
	if o.Listed != nil {
		e.Subject = originSubject(o.URL, o.VisitType, o.Lister)
	}
	switch {
	case o.Message != nil:
		e.Summary = "Its visit is scheduled, but the message has not been sent yet."
		e.describeMessage(*o.Message)
	case o.Lane != nil && !o.Lane.Sent:
		e.waitsInBacklog(*o.Lane)
	case o.Lane != nil:
		e.Summary = "Its visit has been sent, and no worker has begun it."
		if o.Lane.Started != nil {
			e.Summary = "A worker runs its visit."
		}
		e.describeLane(*o.Lane)
		o.describeVisits(e)
	case o.Listed == nil:
		e.Summary = "No lister lists it, so no visit of it is scheduled."
		o.describeVisits(e)
	case o.Loader == nil:
		e.Summary = fmt.Sprintf("There is no task type %s, so nothing visits origins of its type.", model.LoaderTaskType(o.VisitType))
		o.describeVisits(e)
	case !o.Listed.Enabled:
		o.isDisabled(e)
	case len(o.Policies) == 0:
		e.Summary = "The configuration has no scheduling policy for its visit type."
		o.describeVisits(e)
	default:
		o.byPolicies(e)
	}
	o.describeSent(e)
	return *e
}

func originSubject(url, visitType string, l model.Lister) string {
	return fmt.Sprintf("Origin %s (%s), listed by %s", url, visitType, listerName(l))
}

func listerName(l model.Lister) string {
	if l.InstanceName == "" {
		return l.Name
	}
	return fmt.Sprintf("%s (%s)", l.Name, l.InstanceName)
}

func (o Origin) isDisabled(e *Explanation) {
	e.Summary = "It is disabled: no visit of it is scheduled until its lister sees it again."
	e.because("Its lister saw it last at %s.", e.at(o.Listed.LastSeen))
	o.describeVisits(e)
	s, limit, mixed := o.Stats, o.Rules.DisableAfter, o.Rules.DisableAfterMixed
	unsuccessful := s != nil && (s.LastVisitStatus == model.VisitFailed || s.LastVisitStatus == model.VisitNotFound)
	switch {
	case o.Gone != nil:
		e.because("It was not in the listing that ended at %s: it was disabled at %s, as gone_origins says.", e.at(o.Gone.Ended), e.at(o.Gone.Disabled))
	case unsuccessful && int(s.SuccessiveVisits) >= limit:
		e.because("Its last %s ended so: %d in a row disable an origin.", model.Count(s.SuccessiveVisits, "visit", "visits"), limit)
	case unsuccessful && mixed > 0 && o.Failures >= mixed:
		e.because("Its last %s failed or found nothing: %d in a row disable an origin (disable_after_mixed).", model.Count(o.Failures, "visit", "visits"), mixed)
	default:
		e.because("Its lister recorded it so, or a program did on its behalf.")
	}
}

func (o Origin) describeVisits(e *Explanation) {
	defer o.describeHint(e)
	s := o.Stats
	if s == nil {
		e.because("It has never been scheduled nor visited.")
		e.describeFailure(o.Failure)
		return
	}
	if s.LastVisit != nil {
		e.because("Its last visit, at %s, was %s.", e.at(*s.LastVisit), s.LastVisitStatus)
		if len(o.Rules.Intervals) > 0 {
			after := func(step int32) time.Duration { return o.Rules.Interval(s.NextPositionOffset + step) }
			place := "has no place yet"
			if target := s.NextVisitQueuePosition; target != nil {
				place = fmt.Sprintf("is at %d s", *target)
			}
			e.because("In the order by visit target it %s, with interval number %d (from 0): a visit without news moves it by %s, one with news by %s (visit_rules).",
				place, s.NextPositionOffset, Roughly(after(+1)), Roughly(after(-2)))
		}
	} else {
		e.because("No visit of it is known.")
	}
	if o.pending() {
		e.because("It was scheduled at %s.", e.at(*s.LastScheduled))
	}
	e.describeFailure(o.Failure)
}

// byPolicies adds whether and when each policy can pick the origin.
func (o Origin) byPolicies(e *Explanation) {
	var ready, resting []string
	for _, p := range o.Policies {
		name := p.Name()
		if why := p.Filter.WhyExcluded(model.Facts(*o.Listed, o.Stats)); why != "" {
			e.because("Policy %s %s.", name, why)
			continue
		}
		if undated(p.Filter.Cooldowns, o.Stats) {
			e.because("Policy %s does not pick it: its last visit was %s, and when that was is not recorded.", name, o.Stats.LastVisitStatus)
			continue
		}
		waits := o.waits(p.Filter, e.now)
		until := e.now
		for _, w := range waits {
			e.because("Policy %s leaves it alone until %s: %s.", name, e.at(w.until), w.why)
			if w.until.After(until) {
				until = w.until
			}
		}
		if e.When == nil || until.Before(*e.When) {
			e.When = &until
		}
		if waits != nil {
			resting = append(resting, name)
			continue
		}
		ready = append(ready, name)
		e.because("Policy %s, which %s, can pick it: %s.", name, p.part(), p.place())
	}
	o.describeFreshness(e)
	o.describeVisits(e)
	switch {
	case ready != nil:
		e.Summary = "It can be picked for a visit now."
		e.describeCapacity(o.Lanes, o.Queue, dispatch.RefillByVisits, o.Share)
		for _, h := range o.Hosters {
			if most, limited := h.State.Max(e.now); limited && h.Load.InFlight >= most {
				e.Summary = "It is due, and its hoster refuses visits."
				e.describeRefusals(h)
			} else if why := h.full(); why != "" {
				e.Summary = "It is due, and its hoster takes no more visits now."
				e.because("%s takes no more visits now: %s, as many as hosters in the configuration allow.", h.Name, why)
			}
		}
		if o.Schedulers == 0 {
			e.because("No schedule-recurrent of this program is connected to the database now.")
		}
	case resting != nil:
		e.Summary = fmt.Sprintf("It is cooling down, and can be picked for a visit from %s on.", e.at(*e.When))
		if _, again := o.released(); again != nil {
			if !e.When.After(e.now) || !e.When.After(*again) {
				e.Summary = fmt.Sprintf("Its hoster refused its last visit, and it can be picked again from %s on.", e.at(*e.When))
			}
			for _, h := range o.Hosters {
				e.describeRefusals(h)
			}
		}
	default:
		e.Summary = "No policy of its visit type picks it."
	}
	o.firstVisits(e)
}

// describeRefusals adds the limit that a hoster has because it refused visits, if it has one.
func (e *Explanation) describeRefusals(h Hoster) {
	most, limited := h.State.Max(e.now)
	if !limited {
		return
	}
	until := h.State.Until
	if most == 0 {
		until = h.State.Closed
	}
	e.because("%s refused a visit %s (%s: %s), so it has at most %s in flight until %s, and more as visits succeed.",
		h.Name, e.at(h.State.Refused), h.State.Kind, h.State.Reason, model.Count(most, "visit", "visits"), e.at(until))
}

// describeFreshness adds the figures that the policy freshness uses.
func (o Origin) describeFreshness(e *Explanation) {
	f := o.Freshness
	if f == nil {
		return
	}
	if f.LastVisit.IsZero() {
		e.because("For the policy freshness, it is due since it was listed, as no visit has succeeded yet.")
		return
	}
	switch n := f.News; {
	case f.HintSource != "":
		e.because("Its last news is a hint of %s. Of the visits after that source's hints, an estimated %.0f %% find a change (from %.0f visits).",
			f.HintSource, 100*n.Precision(), n.Right+n.Wrong)
	case f.HasUpdates():
		e.because("Of its lister's news of updates, an estimated %.0f %% is right, and %.0f %% of the changes are reported (from %.0f visits after news, and %.0f changes).",
			100*n.Precision(), 100*n.Recall(), n.Right+n.Wrong, n.Reported+n.Missed)
	}
	if f.Weight != 1 {
		e.because("Its lister has the weight %.3g (swh-scheduler lister weight), which divides the worth that a visit needs.", f.Weight)
	}
	of, waited := f.Origin(e.now), e.now.Sub(f.LastVisit)
	e.because("It is estimated to change once in %s (certainty %.2f of 1), and a visit now to find a change with a chance of %.0f %%.",
		Roughly(time.Duration(min(float64(24*time.Hour)/of.Rate(), math.MaxInt64/2))), of.Certainty(), 100*of.Chance(waited))
	e.because("For the policy freshness, a visit now is worth %.3g, and has to be worth %.3g, which it is from %s on.",
		of.Value(waited), f.Threshold, e.at(f.Moment(e.now)))
}

// part describes the policy's part of the slots.
func (p Policy) part() string {
	if p.Rest {
		return "takes the slots that freshness leaves until the moments of all origins are computed"
	}
	return fmt.Sprintf("has weight %v of its visit type's", p.Weight)
}

func (p Policy) place() string {
	sampled := ""
	if p.Filter.TableSample > 0 && p.Filter.Inexact {
		sampled = fmt.Sprintf(", where %v%% of the table's pages that are drawn anew each time have it", p.Filter.TableSample)
	}
	switch {
	case !p.Known:
		return "its place in the policy's order is unknown now, as candidates are being built, too many have changed, or too many would have to be searched" + sampled
	case p.Place > 0:
		return fmt.Sprintf("it is number %d in the policy's order%s", p.Place, sampled)
	}
	return "more than " + model.Count(p.Searched, "origin is", "origins are") + " before it in the policy's order" + sampled
}

// firstVisits adds the lister's queue for first visits, if the origin's first visit goes there.
func (o Origin) firstVisits(e *Explanation) {
	l := o.Lister
	never := o.Stats == nil || o.Stats.LastScheduled == nil
	if never && l.FirstVisitsQueuePrefix != nil && l.FirstVisitsScheduledAt == nil {
		when := "once a listing has finished"
		if l.LastListingFinishedAt != nil {
			when = "as its queue has room"
		}
		e.because("Its lister has a queue for first visits (%s:%s): start-runner-first-visits sends it there %s.", *l.FirstVisitsQueuePrefix, o.Loader.BackendName, when)
	}
}

// deepest is the default of Gatherer.SearchDepth.
const deepest = 10_000
