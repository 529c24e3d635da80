package simulator

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/journal"
	"swh-scheduler/recurrent"
	"swh-scheduler/sql"
)

// journalBatch is how many statuses the peer's simulated journal client handles
// together; what comes after the last whole batch is never handled.
const journalBatch = 100

// originAgents pick visits of listed origins, and keep visit stats, with the code
// of schedule-recurrent and of the journal client.
type originAgents struct {
	store    *sql.Store
	policies map[string][]scheduler.WeightedPolicy // by visit type, and default
	journal  *watchedStore
	census   *census
	disabled func(urls []string)

	queues   map[string]sharedQueue // by visit type: those that are shared
	outcomes []sql.Outcome          // heard of visits that have a group, and not written

	statuses int             // heard since the last whole batch
	heard    []journal.Visit // and not written
	whole    int             // how many of them belong to whole batches
}

// newOriginAgents makes them; disabled hears of the URLs that the journal disables.
func newOriginAgents(ctx context.Context, o Options, visitTypes []string, c *census, disabled func(urls []string)) (*originAgents, error) {
	a := &originAgents{
		store: o.Store, policies: o.Policies, journal: &watchedStore{Store: o.Store}, census: c, disabled: disabled,
	}
	var err error
	a.queues, err = sharedQueues(ctx, o, visitTypes)
	return a, err
}

func (a *originAgents) policiesOf(visitType string) []scheduler.WeightedPolicy {
	if policies, ok := a.policies[visitType]; ok {
		return policies
	}
	return a.policies["default"]
}

func (a *originAgents) claim(ctx context.Context, visitType string, n int, now time.Time) ([]visit, error) {
	// As the daemon's keeper does beside its rounds: what is picked is the same, but
	// picked sooner.
	if err := keepCandidates(ctx, a.store); err != nil {
		return nil, err
	}
	picker := recurrent.Picker{VisitType: visitType, Policies: a.policiesOf(visitType)}
	var visits []visit
	err := a.store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		if queue, ok := a.queues[visitType]; ok {
			visits, err = queue.claim(ctx, tx, picker, now, n)
			return err
		}
		picked, err := picker.Pick(ctx, tx, now, n)
		for _, o := range picked.Origins {
			visits = append(visits, newVisit(o, ""))
		}
		if len(picked.Policies) > 1 {
			mix(visits)
		}
		return err
	})
	return visits, err
}

func newVisit(o scheduler.ListedOrigin, group string) visit {
	return visit{scheduler.OriginKey{URL: o.URL, VisitType: o.VisitType}, uuid.New(), group}
}

// mix shuffles visits that different policies or groups picked, as the daemon does.
func mix(visits []visit) {
	rand.Shuffle(len(visits), func(i, j int) { visits[i], visits[j] = visits[j], visits[i] })
}

func (a *originAgents) nextClaim(ctx context.Context, visitType string, now time.Time) (time.Time, bool, error) {
	for _, p := range a.policiesOf(visitType) {
		if p.Filter.Policy == scheduler.Pools {
			p.Filter.Policy = scheduler.OldestScheduledFirst // any of those it stands for
		}
		if !sql.KnownToCandidates(p.Filter) {
			return time.Time{}, false, nil
		}
	}
	next, err := a.store.NextDue(ctx, visitType, now)
	// What was picked just now is not among the candidates yet. It cools down.
	if cooled := now.Add(scheduler.DefaultCooldowns.Absolute); next.IsZero() || cooled.Before(next) {
		next = cooled
	}
	return next.Add(time.Microsecond), err == nil, err // an origin may be visited after it is due
}

// keepCandidates has candidates show all that was written.
func keepCandidates(ctx context.Context, store *sql.Store) error {
	for {
		kept, err := store.KeepCandidates(ctx)
		if err != nil || !kept.More {
			return err
		}
	}
}

func (a *originAgents) began(v visit, now time.Time) {
	if v.group != "" {
		a.outcomes = append(a.outcomes, began(v, now))
	}
	a.hear()
}

func (a *originAgents) ended(v visit, _ time.Time, l load, eventful bool, now time.Time) {
	jv := journal.Visit{OriginKey: v.OriginKey, Date: now, Status: scheduler.VisitSuccessful, Snapshot: l.snapshot}
	if l.snapshot == nil {
		jv.Status = scheduler.VisitFailed
	}
	a.heard = append(a.heard, jv)
	if v.group != "" {
		a.outcomes = append(a.outcomes, ended(v, l, eventful, now))
	}
	a.hear()
}

// hear counts a status.
func (a *originAgents) hear() {
	if a.statuses++; a.statuses == journalBatch {
		a.statuses, a.whole = 0, len(a.heard)
	}
}

func (a *originAgents) unsettled(time.Time) bool { return a.whole > 0 }

func (a *originAgents) settle(ctx context.Context) (bool, error) {
	if err := a.store.ApplyOutcomes(ctx, a.outcomes); err != nil {
		return false, err
	}
	a.outcomes = nil
	if a.whole == 0 {
		return false, nil
	}
	visits := a.heard[:a.whole]
	urls := make([]string, len(visits))
	for i, v := range visits {
		urls[i] = v.URL
	}
	if err := a.census.know(ctx, urls); err != nil {
		return false, err
	}
	if _, err := (journal.Rules{}).Write(ctx, a.journal, visits); err != nil {
		return false, err
	}
	a.census.visited(a.journal.changes)
	a.disabled(a.journal.changes.DisabledURLs)
	a.heard, a.whole = slices.Clone(a.heard[a.whole:]), 0
	return true, nil
}

// watchedStore is the store of the journal's rules, which shows what they changed.
type watchedStore struct {
	*sql.Store
	changes sql.VisitChanges // by the last call
}

func (s *watchedStore) UpdateVisitStats(ctx context.Context, keys []scheduler.OriginKey, change func(sql.KnownVisits) sql.VisitChanges) error {
	return s.Store.UpdateVisitStats(ctx, keys, func(known sql.KnownVisits) sql.VisitChanges {
		s.changes = change(known)
		return s.changes
	})
}
