package simulator

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/dispatch"
	"swh-scheduler/internal/model"
	"swh-scheduler/internal/settle"
	"swh-scheduler/journal"
	"swh-scheduler/recurrent"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
)

// journalBatch is the batch size of the Python scheduler's simulated journal client, which never handles an
// incomplete batch.
const journalBatch = 100

// originAgents picks visits and updates visit stats with the code of schedule-recurrent and the journal client.
type originAgents struct {
	store    *db.Store
	policies map[string][]model.WeightedPolicy // by visit type, and default
	journal  *watchedStore
	rules    journal.Rules
	census   *census
	disabled func(urls []string)

	queues      map[string]sharedQueue // by visit type
	ageing      time.Duration
	room        bool             // since the last claim, a visit of a group with a ceiling has ended
	outcomes    []settle.Outcome // of visits in the ledger, not yet written
	hostersFull bool             // the last claim skipped visits because of their hosters' limits

	statuses  int             // since the last whole batch
	unwritten []journal.Visit // not yet written
	whole     int             // how many of unwritten are in whole batches
}

// newOriginAgents returns agents that call disabled with the URLs that the journal's rules disable.
func newOriginAgents(ctx context.Context, o Options, visitTypes []string, c *census, disabled func(urls []string)) (*originAgents, error) {
	a := &originAgents{
		store: o.Store, policies: o.Policies, rules: o.Rules, journal: &watchedStore{Store: o.Store}, census: c, disabled: disabled, ageing: o.Ageing,
	}
	var err error
	a.queues, err = sharedQueues(ctx, o, visitTypes)
	return a, err
}

func (a *originAgents) policiesOf(visitType string) []model.WeightedPolicy {
	return model.PoliciesOf(a.policies, visitType)
}

func (a *originAgents) sources(visitType string) map[source]int {
	return map[source]int{{visitType: visitType}: queueCapacity}
}

func (a *originAgents) claim(ctx context.Context, of source, n int, now time.Time) ([]visit, error) {
	visitType := of.visitType
	picker := recurrent.Picker{VisitType: visitType, Policies: a.policiesOf(visitType)}
	// This only makes the claim faster. The daemon's keeper does it, too.
	if err := keepCandidates(ctx, a.store); err != nil {
		return nil, err
	}
	a.room = false
	var visits []visit
	err := a.store.InTx(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if queue, ok := a.queues[visitType]; ok {
			visits, a.hostersFull, err = queue.claim(ctx, tx, picker, now, n, a.ageing)
			return err
		}
		picked, err := picker.Pick(ctx, tx, now, n)
		if err == nil {
			err = picked.StepThreshold(ctx, tx, visitType, now, n, n < queueCapacity)
		}
		if err != nil {
			return err
		}
		var work []ledger.Work
		visits, work = claimed(model.LoaderTaskType(visitType), picked.Visits, now)
		if len(picked.Policies) > 1 {
			recurrent.Shuffle(visits)
		}
		a.hostersFull = picked.HostersFull
		return tx.AddWork(ctx, work)
	})
	return visits, err
}

func newVisit(p dispatch.Visit, now time.Time) visit {
	return visit{OriginKey: model.OriginKey{URL: p.Origin.URL, VisitType: p.Origin.VisitType}, id: uuid.New(), group: p.Share.Group, fork: orZero(p.Origin.IsFork), claimed: now}
}

// claimed returns the picked visits, and the messages of those that stay in the ledger for groups or hosters.
func claimed(queue string, picked []dispatch.Visit, now time.Time) ([]visit, []ledger.Work) {
	visits := make([]visit, len(picked))
	var work []ledger.Work
	for i, p := range picked {
		v := newVisit(p, now)
		if v.inLedger = p.Share.Shared || p.Hosters != nil; v.inLedger {
			work = append(work, ledger.Work{TaskID: v.id, Queue: queue, Home: queue, Args: []byte("[]"), Kwargs: noArguments, Claimed: now, Share: p.Share, Hosters: p.Hosters})
		}
		visits[i] = v
	}
	return visits, work
}

func (a *originAgents) nextClaim(ctx context.Context, of source, now time.Time) (time.Time, bool, error) {
	visitType := of.visitType
	if a.hostersFull {
		return time.Time{}, false, nil
	}
	if byFreshness(a.policiesOf(visitType)) { // a moment comes without a write
		return now.Add(20 * time.Minute), true, nil // the default of no_origins_scheduled_backoff
	}
	for _, p := range a.policiesOf(visitType) {
		if p.Filter.Policy == model.Pools {
			p.Filter.Policy = model.OldestScheduledFirst // all pools have the same due dates
		}
		plain := model.VisitFilter{VisitType: p.Filter.VisitType, Policy: p.Filter.Policy, Cooldowns: model.DefaultCooldowns}
		if p.Filter != plain || !origins.KnownToCandidates(plain) { // the claim depends on more than due dates
			return time.Time{}, false, nil
		}
	}
	next, err := a.store.NextDue(ctx, visitType, now)
	// The candidates don't have the visits that were picked just now, which are cooling down.
	if cooled := now.Add(model.DefaultCooldowns.Absolute); next.IsZero() || cooled.Before(next) {
		next = cooled
	}
	return next.Add(time.Microsecond), err == nil, err // an origin may be visited after it is due
}

// keepsCandidates is implemented by a database. An RPC server drains its candidates itself.
type keepsCandidates interface {
	MaintainCandidates(ctx context.Context) (origins.MaintainResult, error)
}

// keepCandidates drains all changes of candidates.
func keepCandidates(ctx context.Context, store keepsCandidates) error {
	for {
		result, err := store.MaintainCandidates(ctx)
		if err != nil || !result.More {
			return err
		}
	}
}

func (a *originAgents) began(v visit, now time.Time) {
	if v.inLedger {
		a.outcomes = append(a.outcomes, began(v, now))
	}
	a.countStatus()
}

func (a *originAgents) ended(v visit, l load, eventful bool, now time.Time) {
	jv := journal.Visit{OriginKey: v.OriginKey, Date: now, Status: model.VisitSuccessful, Snapshot: l.snapshot}
	if l.snapshot == nil {
		jv.Status = model.VisitFailed
	}
	a.unwritten = append(a.unwritten, jv)
	if v.inLedger {
		a.outcomes = append(a.outcomes, ended(v, l, eventful, now))
		a.room = a.room || a.queues[v.VisitType].Shares.MaxInFlight[v.group] > 0
	}
	a.countStatus()
}

// countStatus counts a status.
func (a *originAgents) countStatus() {
	if a.statuses++; a.statuses == journalBatch {
		a.statuses, a.whole = 0, len(a.unwritten)
	}
}

func (a *originAgents) unsettled(time.Time) bool { return a.whole > 0 || a.room }

func (a *originAgents) settle(ctx context.Context) (bool, error) {
	if err := (settle.Store{Store: a.store}).ApplyOutcomes(ctx, a.outcomes); err != nil {
		return false, err
	}
	a.outcomes = nil
	if a.whole == 0 {
		return false, nil
	}
	visits := a.unwritten[:a.whole]
	urls := make([]string, len(visits))
	for i, v := range visits {
		urls[i] = v.URL
	}
	if err := a.census.read(ctx, urls); err != nil {
		return false, err
	}
	if _, err := a.rules.Write(ctx, a.journal, visits); err != nil {
		return false, err
	}
	a.census.visited(a.journal.changes)
	a.disabled(a.journal.changes.DisabledURLs)
	a.unwritten, a.whole = slices.Clone(a.unwritten[a.whole:]), 0
	return true, nil
}

// watchedStore records the changes that the journal's rules make.
type watchedStore struct {
	journal.Store
	changes ledger.VisitChanges // of the last call
}

func (s *watchedStore) UpdateVisitStats(ctx context.Context, keys []model.OriginKey, change func(ledger.KnownVisits) ledger.VisitChanges) error {
	return s.Store.UpdateVisitStats(ctx, keys, func(known ledger.KnownVisits) ledger.VisitChanges {
		s.changes = change(known)
		return s.changes
	})
}
