package ledger

import (
	"context"
	"math"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// LaneFeatures are the inputs of lane selection.
type LaneFeatures struct {
	Key    int64         // the hash of the memory's key
	Memory *lanes.Memory // nil without earlier work, and in rows of the ledger
	Lister string        // name; "" if the work has none
	First  bool          // no visit of the origin is archived yet
	Behind float64       // seconds from the last visit to the last known update; 0 if unknown
}

// LaneFeatures reads Key, Memory, First and Behind of work by its keys, in their order. urls are the
// visited origins, "" for none. visitType is "" for work that is no load. updated are the last updates of
// origins (Work.Updated). LaneFeatures reads those that are 0, and changes the slice.
func (tx *Tx) LaneFeatures(ctx context.Context, keys, urls []string, visitType string, updated []float64) ([]LaneFeatures, error) {
	for i := range updated {
		if updated[i] == 0 {
			updated[i] = math.NaN()
		}
	}
	rows, err := tx.q.LaneFeatures(ctx, queries.LaneFeaturesParams{Keys: keys, Urls: urls, VisitType: visitType, Updated: updated})
	return stmt.List(rows, stmt.Failed(err, "read the lane features of %d messages", len(keys)), func(r queries.LaneFeaturesRow) LaneFeatures {
		f := LaneFeatures{Key: r.Memory, First: r.First, Behind: max(0, r.Behind)}
		if r.Known {
			f.Memory = &lanes.Memory{
				Seconds: float64(r.Seconds), Before: float64(r.Before), AtLeast: r.AtLeast, Behind: float64(r.BehindThen),
			}
		}
		return f
	})
}

// SketchKey identifies a sketch of a lane set: of the first visits or the later ones of a lister's origins.
// Lister "" is for all listers.
type SketchKey struct {
	Lister string
	First  bool
}

// LaneSketches returns the lane set's sketches of the listers and of all, decayed to now.
func (a Queries) LaneSketches(ctx context.Context, set string, listers []string, now time.Time, halfLife time.Duration) (map[SketchKey]lanes.Sketch, error) {
	rows, err := a.q.LaneSketches(ctx, queries.LaneSketchesParams{
		LaneSet: set, Listers: append([]string{""}, listers...), Now: now, HalfLife: halfLife.Seconds(),
	})
	sketches := make(map[SketchKey]lanes.Sketch)
	for _, r := range rows {
		key := SketchKey{Lister: r.Lister, First: r.First}
		if sketches[key] == nil {
			sketches[key] = lanes.Sketch{}
		}
		sketches[key][r.Bucket] = r.Weight
	}
	return sketches, stmt.Failed(err, "read how long work of %q takes", set)
}

// Backlog counts the messages that wait for a slot of a lane: with an earlier time-out, or without.
type Backlog struct {
	TimedOut, Waiting int
	Oldest            time.Time // the start of the longest wait; zero without messages
}

// add adds messages. oldest is 1970 for none.
func (b *Backlog) add(timedOut, waiting int64, oldest time.Time) {
	b.TimedOut += int(timedOut)
	b.Waiting += int(waiting)
	if oldest.Unix() > 0 && (b.Oldest.IsZero() || oldest.Before(b.Oldest)) {
		b.Oldest = oldest
	}
}

// Waited returns the longest wait; 0 without messages.
func (b *Backlog) Waited(now time.Time) time.Duration {
	if b.Oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(b.Oldest))
}

// Backlogs counts the backlog of each of a set's n lanes. It moves work of further lanes, from an earlier
// configuration, to the last one.
func (tx *Tx) Backlogs(ctx context.Context, set string, n int) ([]Backlog, error) {
	rows, err := tx.q.Backlogs(ctx, &set)
	if err != nil {
		return nil, stmt.Failed(err, "count the backlog of %q", set)
	}
	found := make([]Backlog, n)
	shorter := false
	for _, r := range rows {
		shorter = shorter || int(r.Lane) >= n
		found[min(int(r.Lane), n-1)].add(r.TimedOut, r.Waiting, r.Oldest)
	}
	if shorter {
		err = tx.q.ShortenLaneSet(ctx, queries.ShortenLaneSetParams{LaneSet: &set, LastLane: new(int16(n - 1))})
	}
	return found, err
}

// SendBacklog sends the first count messages of the backlog of lane from to the queue of lane to, with its
// limits. left is the number of lanes after to. Messages that timed out go first. A later lane first gets
// messages that have waited as long as its limit, then those with the longest expected runtime.
func (tx *Tx) SendBacklog(ctx context.Context, set string, from, to, count int, lane model.Lane, left int, now time.Time) error {
	p := queries.SendBacklogParams{
		LaneSet: &set, FromLane: new(int16(from)), ToLane: new(int16(to)), Count: int32(count), Now: &now, Queue: lane.Queue, LaneName: &lane.Name,
		SoftLimit: lane.SoftTimeLimit.Seconds(), HardLimit: lane.TimeLimit.Seconds(), LanesLeft: int16(left), Retried: lane.Retry,
		LookAt: int32(count), SlowestSince: new(now.Add(postgres.Day)), // no message is newer: all go in order
	}
	if from != to {
		p.LookAt, p.SlowestSince = int32(max(count, lanes.LookAhead)), new(now.Add(-lane.SoftTimeLimit))
	}
	return stmt.Failed(tx.q.SendBacklog(ctx, p), "send the backlog of lane %q", lane.Name)
}

// RecordLaneSets records that a process is configured with the lane sets.
func (a Queries) RecordLaneSets(ctx context.Context, sets []string, now time.Time) error {
	return stmt.Failed(a.q.RecordLaneSets(ctx, queries.RecordLaneSetsParams{LaneSets: sets, Now: now}), "record the configured lane sets")
}

// A lane set counts as removed once calls of RemovedLaneSets have found for removedFor that no process is
// configured with it. The calls must be at most observedWithin apart. A process with the set records it
// each minute.
const (
	configuredWithin = 2 * time.Minute
	observedWithin   = 3 * time.Minute
	removedFor       = 3 * time.Minute
)

// RemovedLaneSets lists the lane sets with a backlog that no process has been configured with for about
// five minutes. Callers call it once a minute. After a gap between calls, as when the database was down, it
// lists none for three minutes: processes could not record their sets.
func (a Queries) RemovedLaneSets(ctx context.Context, now time.Time) ([]string, error) {
	sets, err := a.q.RemovedLaneSets(ctx, queries.RemovedLaneSetsParams{
		Now: now, SeenAfter: now.Add(-configuredWithin), LookedAfter: now.Add(-observedWithin), UnseenBefore: now.Add(-removedFor),
	})
	return sets, stmt.Failed(err, "list the lane sets that were removed")
}

// SendWithoutLanes sends the first count messages of a removed set's backlog to a queue, without limits. It
// returns their number.
func (tx *Tx) SendWithoutLanes(ctx context.Context, set, queue string, count int, now time.Time) (int, error) {
	n, err := tx.q.SendWithoutLanes(ctx, queries.SendWithoutLanesParams{LaneSet: &set, Queue: queue, Count: int32(count), Now: &now})
	return int(n), err
}

// LaneState counts the messages of a lane.
type LaneState struct {
	Backlog
	Sent    int // in its queue, on the way there, or running
	Running int // with a known start
}

// LaneStates counts the messages of each of the n lanes of a set.
func (a Queries) LaneStates(ctx context.Context, set string, n int) ([]LaneState, error) {
	rows, err := a.q.LaneStates(ctx, &set)
	states := make([]LaneState, n)
	for _, r := range rows {
		s := &states[min(int(r.Lane), n-1)]
		s.add(r.TimedOut, r.Waiting, r.Oldest)
		s.Sent += int(r.Sent)
		s.Running += int(r.Running)
	}
	return states, err
}

// LaneRecord is the history of a lane over some time.
type LaneRecord struct {
	Wait            lanes.Sketch // seconds from claim to start of first tries
	Ended           int          // ends other than time-outs
	TimedOut        int
	QuickSentSlow   int // predicted to need this lane, and done within an earlier lane's limit
	SlowSentExpress int // those of TimedOut without an earlier time-out
	GivenUp         int
}

// LaneHistory returns the history since a moment, at most a day ago, by lane name and in whole minutes.
func (a Queries) LaneHistory(ctx context.Context, set string, since time.Time) (map[string]*LaneRecord, error) {
	rows, err := a.q.LaneHistory(ctx, queries.LaneHistoryParams{LaneSet: set, Since: since})
	history := make(map[string]*LaneRecord)
	for _, r := range rows {
		h := history[r.Lane]
		if h == nil {
			h = &LaneRecord{Wait: lanes.Sketch{}}
			history[r.Lane] = h
		}
		n := int(r.Pieces)
		switch r.What {
		case LaneWait:
			h.Wait[r.Bucket] += float64(n)
		case LaneEnded:
			h.Ended += n
		case LaneTimedOut:
			h.TimedOut += n
		case LaneQuickSentSlow:
			h.QuickSentSlow += n
		case LaneSlowSentExpress:
			h.SlowSentExpress += n
		case LaneGivenUp:
			h.GivenUp += n
		}
	}
	return history, stmt.Failed(err, "read the history of the lanes of %q", set)
}

// ForgetLanes deletes old rows of lanes: history after a day, time-outs of visits after a week (the journal
// is read sooner), memories after 400 days (the rarest visits are yearly). It also deletes sketches of
// removed listers and lanes.
func (a Queries) ForgetLanes(ctx context.Context, now time.Time) error {
	err := a.q.ForgetLanes(ctx, queries.ForgetLanesParams{
		HistoryBefore: now.Add(-postgres.Day), TimeoutsBefore: now.Add(-7 * postgres.Day), MemoryBefore: now.Add(-400 * postgres.Day),
	})
	return stmt.Failed(err, "delete old rows of lanes")
}

// These are the events of LaneRecord.
const (
	LaneWait            = "wait" // by bucket
	LaneEnded           = "ended"
	LaneTimedOut        = "timed_out"
	LaneQuickSentSlow   = "quick_sent_slow"
	LaneSlowSentExpress = "slow_sent_express"
	LaneGivenUp         = "unheard"
)

// LaneRecords sums additions to the history, so that each row is written once.
type LaneRecords map[laneRecord]int

type laneRecord struct {
	Set, Lane, What string
	Bucket          int16
	Minute          time.Time
}

// Add adds n events to a lane.
func (l LaneRecords) Add(set, lane, what string, bucket int16, received time.Time, n int) {
	l[laneRecord{set, lane, what, bucket, received.Truncate(time.Minute)}] += n
}

// Each calls do with the events of each lane.
func (l LaneRecords) Each(do func(set, lane, what string, n int)) {
	for r, n := range l {
		do(r.Set, r.Lane, r.What, n)
	}
}

func (tx *Tx) recordLanes(l LaneRecords) stmt.Step {
	return stmt.Arrays(stmt.Entries(l), tx.q.RecordLanes)
}
