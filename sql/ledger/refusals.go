package ledger

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/internal/refusals"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
)

// HosterEnds are the ends of visits that count for hosters which back off, with the function that decides what
// follows from them.
type HosterEnds struct {
	Ended   []string // hosters of visits that ended
	Refused []string // those of them that refused some
	// Learn returns the changed states and the visits that don't count. known has the states of Ended that have one.
	// loads are the visits in flight by all their hosters, if they were counted.
	Learn func(known []refusals.State, loads []refusals.Load) ([]refusals.State, []RefusedVisit)
}

// RefusedVisit is a visit that its hoster refused. It is no failure of its origin.
type RefusedVisit struct {
	URL, VisitType string
	Claimed        time.Time
	Ended          float64   // worker's clock, seconds since 1970 UTC
	Again          time.Time // when the origin may be visited again
	Heard          time.Time // when the listener received the end
	TaskID         uuid.UUID
}

// countPeriod is how long counts of a hoster's visits in flight are used.
const countPeriod = time.Minute

// loadsOfHosters counts the visits in flight of hosters that refused some, if a count is missing or old. It must
// precede the steps that delete ended work.
func (tx *Tx) loadsOfHosters(ctx context.Context, e HosterEnds, now time.Time) (loads []refusals.Load, err error) {
	if len(e.Refused) == 0 {
		return nil, nil
	}
	rows, err := tx.q.RefusingHosters(ctx, e.Refused)
	if err != nil {
		return nil, err
	}
	fresh := 0
	for _, r := range rows {
		if s := refusingHosterOf(r); s.Limit > 0 || now.Sub(s.Counted) < countPeriod {
			fresh++
		}
	}
	if fresh == len(e.Refused) {
		return nil, nil
	}
	counted, err := tx.q.LoadsOfHosters(ctx, e.Refused)
	return stmt.List(counted, err, func(r queries.LoadsOfHostersRow) refusals.Load {
		return refusals.Load{Hosters: r.Hosters, Visits: int(r.Visits)}
	})
}

// learnRefusals returns the step that locks the states of hosters, in their order, and writes what follows from the
// ends of their visits. It follows all other locks.
func (tx *Tx) learnRefusals(e HosterEnds, loads []refusals.Load) stmt.Step {
	return func(ctx context.Context) error {
		if len(e.Ended) == 0 {
			return nil
		}
		if err := tx.lockFirstRefusals(ctx, e.Refused); err != nil {
			return err
		}
		rows, err := tx.q.LockRefusingHosters(ctx, e.Ended)
		if err != nil || len(rows) == 0 && len(e.Refused) == 0 {
			return err
		}
		known, _ := stmt.List(rows, nil, refusingHosterOf)
		states, visits := e.Learn(known, loads)
		var ids []uuid.UUID
		for _, v := range visits {
			ids = append(ids, v.TaskID)
		}
		return stmt.InOrder(ctx, stmt.Arrays(visits, tx.q.RecordRefusedVisits), stmt.Keys(ids, tx.q.ForgetHeldVisits), writeRefusingHosters(tx.q, states))
	}
}

// lockFirstRefusals makes two transactions that both write a hoster's first refusals follow each other: the second one
// reads what the first one found.
func (tx *Tx) lockFirstRefusals(ctx context.Context, hosters []string) error {
	if len(hosters) == 0 {
		return nil
	}
	known, err := tx.q.RefusingHosters(ctx, hosters)
	if err != nil || len(known) == len(hosters) {
		return err
	}
	return tx.q.LockFirstRefusals(ctx)
}

// writeRefusingHosters returns the step that writes states.
func writeRefusingHosters(q *queries.Queries, states []refusals.State) stmt.Step {
	var p queries.WriteRefusingHostersParams
	for _, s := range states {
		p.Hoster, p.MaxLoad, p.Closed = append(p.Hoster, s.Hoster), append(p.MaxLoad, s.Limit), append(p.Closed, moment(s.Closed))
		p.Level, p.Lowered, p.Until = append(p.Level, s.Level), append(p.Lowered, moment(s.Lowered)), append(p.Until, moment(s.Until))
		p.Waits, p.Rounds, p.Raised = append(p.Waits, int32(s.Waits)), append(p.Rounds, s.Rounds), append(p.Raised, moment(s.Raised))
		p.Since, p.Score, p.Refused = append(p.Since, moment(s.Since)), append(p.Score, s.Score), append(p.Refused, moment(s.Refused))
		p.Kind, p.Reason = append(p.Kind, string(s.Kind)), append(p.Reason, s.Reason)
		p.InFlight, p.Counted, p.Mixed = append(p.InFlight, int32(s.InFlight)), append(p.Counted, moment(s.Counted)), append(p.Mixed, s.Mixed)
		p.Seconds, p.Ended = append(p.Seconds, s.Seconds), append(p.Ended, int32(s.Ended))
	}
	return func(ctx context.Context) error {
		if len(states) == 0 {
			return nil
		}
		return q.WriteRefusingHosters(ctx, p)
	}
}

// moment returns a time for PostgreSQL: the zero time as never.
func moment(t time.Time) time.Time {
	if t.IsZero() {
		return never
	}
	return t
}

// never stands for no time in refusing_hosters.
var never = time.Unix(0, 0).UTC()

func timeOf(t time.Time) time.Time {
	if !t.After(never) {
		return time.Time{}
	}
	return t
}

func refusingHosterOf(r queries.SchedulerGoRefusingHoster) refusals.State {
	return refusals.State{
		Hoster: r.Hoster, Limit: r.MaxLoad, Closed: timeOf(r.Closed), Level: r.Level, Lowered: timeOf(r.Lowered), Until: timeOf(r.Until),
		Waits: int(r.Waits), Rounds: r.Rounds, Raised: timeOf(r.Raised), Since: timeOf(r.Since), Score: r.Score,
		Refused: timeOf(r.Refused), Kind: refusals.Kind(r.Kind), Reason: r.Reason, InFlight: int(r.InFlight), Counted: timeOf(r.Counted), Mixed: r.Mixed,
		Seconds: r.Seconds, Ended: int(r.Ended),
	}
}

// RefusingHosters returns the hosters that have a limit by refusals, or get no visits, by name.
func (a Queries) RefusingHosters(ctx context.Context, now time.Time) (map[string]refusals.State, error) {
	rows, err := a.q.LimitedByRefusals(ctx, now)
	states := make(map[string]refusals.State, len(rows))
	for _, r := range rows {
		states[r.Hoster] = refusingHosterOf(r)
	}
	return states, stmt.Failed(err, "read the hosters that refuse visits")
}

// RefusingHoster returns the state of a hoster. known is false if it refused no visit of late.
func (a Queries) RefusingHoster(ctx context.Context, hoster string) (s refusals.State, known bool, err error) {
	rows, err := a.q.RefusingHosters(ctx, []string{hoster})
	if err != nil || len(rows) == 0 {
		return s, false, stmt.Failed(err, "read whether %s refuses visits", hoster)
	}
	return refusingHosterOf(rows[0]), true, nil
}

// ForgetRefusingHoster ends the limit that a hoster has by refusals. It reports whether the hoster refused visits.
func (a Queries) ForgetRefusingHoster(ctx context.Context, hoster string) (bool, error) {
	n, err := a.q.ForgetRefusingHoster(ctx, hoster)
	return n > 0, stmt.Failed(err, "forget the refusals of %s", hoster)
}

// WaitingRefusal is the last visit of an origin, which its hoster refused, and the time from which ReleaseRefused lets the
// origin be visited again.
type WaitingRefusal = queries.WaitingRefusalRow

// WaitingRefusal returns the refused visit of an origin that waits to be visited again; nil if there is none.
func (a Queries) WaitingRefusal(ctx context.Context, key model.OriginKey) (*WaitingRefusal, error) {
	rows, err := a.q.WaitingRefusal(ctx, queries.WaitingRefusalParams{URL: key.URL, VisitType: key.VisitType})
	return stmt.First(rows, stmt.Failed(err, "read the refused visit of %q", key.URL))
}

// ReleaseRefused lets up to limit origins be visited again whose hosters refused their last visit, and whose wait is
// over. It returns their number.
func (s Store) ReleaseRefused(ctx context.Context, now time.Time, limit int) (int64, error) {
	n, err := s.q.ReleaseRefused(ctx, queries.ReleaseRefusedParams{Now: now, MaxRows: int32(limit)})
	return n, stmt.Failed(err, "release origins whose hosters refused visits")
}

// These bound the rows about refusals.
const (
	refusedVisitsKept   = 7 * 24 * time.Hour // the journal may be behind
	refusingHostersKept = 7 * 24 * time.Hour
	maxRefusingHosters  = 10_000
)

// ForgetRefusals deletes old rows about refusals.
func (s Store) ForgetRefusals(ctx context.Context, now time.Time) error {
	return stmt.Failed(s.q.ForgetRefusals(ctx, queries.ForgetRefusalsParams{
		VisitsBefore: now.Add(-refusedVisitsKept), HostersBefore: now.Add(-refusingHostersKept), Most: maxRefusingHosters,
	}), "forget refusals")
}

// lastRefused returns the last refused visits of origins as time-outs are: a failed visit up to their end doesn't
// count.
func (tx *Tx) lastRefused(ctx context.Context, arg queries.LockVisitStatsParams, into map[model.OriginKey][]LastTimeout) error {
	rows, err := tx.q.RefusedVisits(ctx, queries.RefusedVisitsParams(arg))
	for _, r := range rows {
		key := model.OriginKey{URL: r.URL, VisitType: r.VisitType}
		into[key] = append(into[key], LastTimeout{Claimed: r.Claimed, TimedOut: model.UnixTime(r.Ended)})
	}
	return err
}
