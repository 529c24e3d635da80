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

// LaneFeatures is what is known of work: its lane is chosen by it.
type LaneFeatures struct {
	Key    int64         // of its memory
	Memory *lanes.Memory // nil if it was never done, and in rows of the ledger
	Lister string        // name; "" if the work has none
	First  bool          // nothing of its origin is archived yet
	Behind float64       // seconds from the last visit to the last known update; 0 if unknown
}

// LaneFeatures looks up Key, Memory, First and Behind of work by its keys, in their
// order. urls are the visited origins, "" for none; visitType is "" for work that loads
// nothing. updated are the last updates of origins (Work.Updated), which it changes: those that are 0 are looked up.
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

// SketchKey names a sketch of a lane set: of the first visits, or the later ones, of a
// lister's origins; without a lister, of all.
type SketchKey struct {
	Lister string
	First  bool
}

// LaneSketches returns the sketches of some listers of a lane set, and of all, as of now.
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

// Backlog counts the messages that wait for slots of a lane: timed out before, or not.
type Backlog struct {
	TimedOut, Waiting int
	Oldest            time.Time // since when the first has waited; zero if there is none
}

// add adds so many messages; oldest is 1970 for none.
func (b *Backlog) add(timedOut, waiting int64, oldest time.Time) {
	b.TimedOut += int(timedOut)
	b.Waiting += int(waiting)
	if oldest.Unix() > 0 && (b.Oldest.IsZero() || oldest.Before(b.Oldest)) {
		b.Oldest = oldest
	}
}

// Waited returns for how long the first message has waited; 0 if there is none.
func (b *Backlog) Waited(now time.Time) time.Duration {
	if b.Oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(b.Oldest))
}

// Backlogs counts the backlog of each of the n lanes of a set. Work of further lanes,
// which the configuration had before, is moved to the last one.
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

// SendBacklog sends the first count messages of the backlog of lane number from to the
// queue of lane number to, with its limits; left is how many lanes come after that one.
// Messages that timed out come first. A later lane gets those expected to take longest, but
// first what has waited for as long as its limit.
func (tx *Tx) SendBacklog(ctx context.Context, set string, from, to, count int, lane model.Lane, left int, now time.Time) error {
	p := queries.SendBacklogParams{
		LaneSet: &set, FromLane: new(int16(from)), ToLane: new(int16(to)), Count: int32(count), Now: &now, Queue: lane.Queue, LaneName: &lane.Name,
		SoftLimit: lane.SoftTimeLimit.Seconds(), HardLimit: lane.TimeLimit.Seconds(), LanesLeft: int16(left), Retried: lane.Retry,
		LookAt: int32(count), SlowestSince: new(now.Add(postgres.Day)), // all in their order
	}
	if from != to {
		p.LookAt, p.SlowestSince = int32(max(count, lanes.LookAhead)), new(now.Add(-lane.SoftTimeLimit))
	}
	return stmt.Failed(tx.q.SendBacklog(ctx, p), "send the backlog of lane %q", lane.Name)
}

// RecordLaneSets records that a process has lane sets in its configuration.
func (a Queries) RecordLaneSets(ctx context.Context, sets []string, now time.Time) error {
	return stmt.Failed(a.q.RecordLaneSets(ctx, queries.RecordLaneSetsParams{LaneSets: sets, Now: now}), "record the configured lane sets")
}

// A lane set is removed when looks have found for removedFor that no process has it, each at most
// observedWithin after the one before. A process that has it says so each minute.
const (
	configuredWithin = 2 * time.Minute
	observedWithin   = 3 * time.Minute
	removedFor       = 3 * time.Minute
)

// RemovedLaneSets looks at the lane sets with a backlog, once a minute, and lists those that no process has
// had in its configuration for about five minutes. After a time without looks, as the database was away, it
// lists none for three minutes: processes could not say that they have them.
func (a Queries) RemovedLaneSets(ctx context.Context, now time.Time) ([]string, error) {
	sets, err := a.q.RemovedLaneSets(ctx, queries.RemovedLaneSetsParams{
		Now: now, SeenAfter: now.Add(-configuredWithin), LookedAfter: now.Add(-observedWithin), UnseenBefore: now.Add(-removedFor),
	})
	return sets, stmt.Failed(err, "list the lane sets that were removed")
}

// SendWithoutLanes sends the first count messages of the backlog of a set that was
// removed from the configuration to a queue, without limits. It returns their number.
func (tx *Tx) SendWithoutLanes(ctx context.Context, set, queue string, count int, now time.Time) (int, error) {
	n, err := tx.q.SendWithoutLanes(ctx, queries.SendWithoutLanesParams{LaneSet: &set, Queue: queue, Count: int32(count), Now: &now})
	return int(n), err
}

// LaneState counts the messages of a lane.
type LaneState struct {
	Backlog
	Sent    int // in its queue, on the way there, or running
	Running int // those that are known to have started
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
	Wait            lanes.Sketch // seconds from the claim to the start of first tries
	Ended           int          // other than by a time-out
	TimedOut        int
	QuickSentSlow   int // predicted to need this lane, and done in the time of one before
	SlowSentExpress int // those of TimedOut that had not timed out before
	GivenUp         int // given up
}

// LaneHistory returns the history since a moment, at most a day ago, by lane name, in
// whole minutes.
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

// ForgetLanes deletes what is too old to matter: history, time-outs of visits (the
// journal is not read a week late) and memories (the rarest visits are yearly), with the
// sketches of listers and lanes that are gone.
func (a Queries) ForgetLanes(ctx context.Context, now time.Time) error {
	err := a.q.ForgetLanes(ctx, queries.ForgetLanesParams{
		HistoryBefore: now.Add(-postgres.Day), TimeoutsBefore: now.Add(-7 * postgres.Day), MemoryBefore: now.Add(-400 * postgres.Day),
	})
	return stmt.Failed(err, "forget what is old of lanes")
}

// The events in the history of lanes; see LaneRecord.
const (
	LaneWait            = "wait" // by bucket
	LaneEnded           = "ended"
	LaneTimedOut        = "timed_out"
	LaneQuickSentSlow   = "quick_sent_slow"
	LaneSlowSentExpress = "slow_sent_express"
	LaneGivenUp         = "unheard"
)

// LaneRecords collects additions to the history, so that each row is written once.
type LaneRecords map[laneRecord]int

type laneRecord struct {
	Set, Lane, What string
	Bucket          int16
	Minute          time.Time
}

// Add adds n events to a lane.
func (l LaneRecords) Add(set, lane, what string, bucket int16, heard time.Time, n int) {
	l[laneRecord{set, lane, what, bucket, heard.Truncate(time.Minute)}] += n
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
