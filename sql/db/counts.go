package db

import (
	"context"
	"time"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/bulk"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/ledger"
	"swh-scheduler/sql/origins"
	"swh-scheduler/sql/postgres"
)

// These are the names of walks in the table of walks.
const (
	originWalk = "count of origins"
	readyWalk  = "ready tasks by type" // 1.0 has another result under "count of ready tasks"
	runWalk    = "count of runs"
	lostWalk   = "lost runs"
)

const (
	countEvery = time.Hour
	pagesAStep = 4096    // of candidates, 32 MiB a step
	runsAStep  = 100_000 // numbers of task_run a step
	typesAStep = 50      // task types a step, up to 10,000 tasks each

	readyYoung = 5 * time.Minute // the greatest age of a count of ready tasks in use
	wholeEvery = 15              // walks over ready tasks, of which one looks at all dates of a type

	unansweredAfter = 24 * time.Hour // a run without an event for that long counts as unanswered
)

// readyCount is the result of a walk over task types.
type readyCount struct {
	Ready []ReadyTasks
	Since time.Time // the walk's beginning
	Turn  int       // 1 to wholeEvery: which steps look at all dates; 0: all steps
}

// CountReady takes steps of a walk that counts the ready tasks, for about atMost. The result is for all
// processes.
func (s MonitorStore) CountReady(ctx context.Context, now time.Time, atMost time.Duration) (ended bool, err error) {
	return s.countReady(now).Take(ctx, s.q, atMost)
}

// countReady returns a walk that looks at each type from where the last walk found its oldest ready task, or from
// that walk's beginning. So under a snapshot it doesn't read the dead rows of all tasks claimed since. One step in
// wholeEvery, in turn, looks at all dates, and all steps do without a young result. They find tasks that were written
// with an earlier date.
func (s MonitorStore) countReady(now time.Time) bulk.Walk[readyCount] {
	return bulk.Walk[readyCount]{
		Name: readyWalk, StepSize: typesAStep,
		Begin: func(ctx context.Context) (int64, readyCount, error) {
			last, young, err := s.lastReadyCount(ctx)
			found := readyCount{Since: now, Turn: last.Turn%wholeEvery + 1}
			if !young {
				found.Turn = 0
			}
			return 0, found, err
		},
		End: s.q.EndOfTaskTypes,
		Step: func(ctx context.Context, first, end int64, found *readyCount) error {
			p := queries.OldestReadyParams{FirstType: int32(first), Types: int32(end - first), Now: now}
			if found.Turn > 0 && int(first/typesAStep)%wholeEvery != found.Turn-1 {
				last, _, err := s.lastReadyCount(ctx)
				if err != nil {
					return err
				}
				p.Since, p.Found, p.Oldest = last.oldest()
			}
			var ready []ReadyTasks
			err := s.InTx(ctx, func(ctx context.Context, tx *Tx) (err error) {
				// The planner lacks statistics on ready tasks by type; without this it would scan all
				// tasks.
				if _, err := tx.Raw.Exec(ctx, postgres.PinPlans); err != nil {
					return err
				}
				ready, err = tx.q.OldestReady(ctx, p)
				return err
			})
			if err == nil {
				found.Ready = append(found.Ready, ready...)
			}
			return err
		},
	}
}

func (s MonitorStore) lastReadyCount(ctx context.Context) (last readyCount, young bool, err error) {
	return bulk.RecentResultOf[readyCount](ctx, s.q, readyWalk, readyYoung)
}

// oldest returns from when on the next walk looks: by type where some tasks were ready, and for the other types.
func (c readyCount) oldest() (since time.Time, types []string, oldest []time.Time) {
	of := make(map[string]time.Time)
	for _, r := range c.Ready {
		at := r.Oldest
		if at.Unix() <= 0 { // or earlier
			at = time.Time{}
		}
		if first, ok := of[r.Type]; !ok || at.Before(first) {
			of[r.Type] = at
		}
	}
	for name, at := range of {
		types, oldest = append(types, name), append(oldest, at)
	}
	return c.Since.Add(-ledger.LateTasks), types, oldest
}

// readyTasks returns the last result of CountReady, or counts if the result is missing or too old.
func (s MonitorStore) readyTasks(ctx context.Context, now time.Time) ([]ReadyTasks, error) {
	found, young, err := s.lastReadyCount(ctx)
	if !young && err == nil {
		found, err = s.countReady(now).Whole(ctx)
	}
	return found.Ready, err
}

// PoolCounts counts the candidates of a visit type by pool.
type PoolCounts struct {
	WithoutUpdate, NeverLoaded, Lagging, Others int64
}

// originCounts is the result of a walk over candidates.
type originCounts struct {
	Pools map[string]PoolCounts // by visit type
	// Active are the counts of active origins of Listings, by index.
	Listings []queries.UncountedListingsRow
	Active   []int64
}

// CountOrigins takes steps of a walk over candidates, for about atMost. The walk counts the origins of each
// pool. Once for each listing that ended, it counts the origins that changed between the last two listings
// of the lister. It may miss a row that moves meanwhile, or count it twice.
func (s MonitorStore) CountOrigins(ctx context.Context, atMost time.Duration) (ended bool, err error) {
	return bulk.Walk[originCounts]{
		Name: originWalk, Period: countEvery, StepSize: pagesAStep,
		Begin: func(ctx context.Context) (int64, originCounts, error) {
			listings, err := s.q.UncountedListings(ctx, origins.MaxPendingChanges)
			return 0, originCounts{Pools: map[string]PoolCounts{}, Listings: listings, Active: make([]int64, len(listings))}, err
		},
		End: s.q.CandidatePages,
		Step: func(ctx context.Context, first, end int64, found *originCounts) error {
			pools, err := s.q.CountPools(ctx, queries.CountPoolsParams{FirstPage: first, EndPage: end})
			if err != nil {
				return err
			}
			for _, p := range pools {
				n := found.Pools[p.VisitType]
				found.Pools[p.VisitType] = PoolCounts{
					n.WithoutUpdate + p.WithoutUpdate, n.NeverLoaded + p.NeverLoaded, n.Lagging + p.Lagging, n.Others + p.Others,
				}
			}
			return s.countActive(ctx, first, end, found)
		},
		Finish: func(ctx context.Context, found originCounts) error {
			p := queries.SetActiveParams{Origins: found.Active}
			for _, l := range found.Listings {
				p.Listers, p.Finished = append(p.Listers, l.ListerID), append(p.Finished, l.Finished)
			}
			return s.q.SetActive(ctx, p)
		},
	}.Take(ctx, s.q, atMost)
}

func (s MonitorStore) countActive(ctx context.Context, first, end int64, found *originCounts) error {
	if len(found.Listings) == 0 {
		return nil
	}
	p := stmt.Columns[queries.CountActiveParams](found.Listings)
	p.FirstPage, p.EndPage = first, end
	counts, err := s.q.CountActive(ctx, p)
	for _, c := range counts {
		for i, l := range found.Listings {
			if l.ListerID == c.ListerID {
				found.Active[i] += c.Origins
			}
		}
	}
	return err
}

// RunCounts is the result of a walk over runs.
type RunCounts struct {
	Unanswered int64 // scheduled or started more than a day ago, and not ended
	// Keep is the first run that has not ended, or that was scheduled in the last day. Later walks begin
	// there.
	Keep int64
}

// CountRuns takes steps of a walk that counts the runs unanswered at now, for about atMost.
func (s MonitorStore) CountRuns(ctx context.Context, now time.Time, atMost time.Duration) (ended bool, err error) {
	return bulk.Walk[RunCounts]{
		Name: runWalk, Period: countEvery, StepSize: runsAStep,
		Begin: func(ctx context.Context) (int64, RunCounts, error) {
			last, err := bulk.ResultOf[RunCounts](ctx, s.q, runWalk)
			return last.Keep, RunCounts{Keep: last.Keep}, err
		},
		End: s.q.EndOfRuns,
		Step: func(ctx context.Context, first, end int64, found *RunCounts) error {
			n, err := s.q.CountRuns(ctx, queries.CountRunsParams{FirstID: first, EndID: end, Before: now.Add(-unansweredAfter)})
			found.Unanswered += n.Unanswered
			if err == nil && found.Keep == first { // all runs before have ended
				found.Keep = n.Keep
			}
			return err
		},
	}.Take(ctx, s.q, atMost)
}

// SilentRuns is the result of a sweep over silent runs.
type SilentRuns struct {
	Rules  string                   // the rules of the sweep; "" if they changed during it
	After  map[string]time.Duration // the silence that these rules allow, by task type
	Before time.Time                // the moment of model.SendingSince.Sent
	Left   int                      // runs not touched, as another scheduler sent them
}

// SilentRunSweep selects the runs of EachSilentRun, and says when a sweep begins.
type SilentRunSweep struct {
	Before        map[string]time.Time // by task type: the latest scheduling or start of a silent run
	Rules         SilentRuns           // recorded with the result
	Every, AtMost time.Duration        // between the beginnings of two sweeps, and of one call
}

// EachSilentRun calls each with the silent runs in the order of their numbers. A silent run was scheduled
// or started before the moment of its task type and has not ended. Its task waits for it, and its message
// is neither outgoing nor in a backlog. each returns the number of runs that it leaves to another
// scheduler. EachSilentRun takes steps of a walk over all runs for about AtMost. A walk begins at most once
// in Every, but at once if the rules differ from the last walk's.
func (s MonitorStore) EachSilentRun(ctx context.Context, o SilentRunSweep, each func([]ledger.SilentRun) (left int, err error)) (ended bool, err error) {
	var p queries.SilentRunsParams
	for taskType, moment := range o.Before {
		p.Types, p.Before = append(p.Types, taskType), append(p.Before, moment)
	}
	last, err := s.SilentRuns(ctx)
	if err != nil {
		return false, err
	}
	if last.Rules != o.Rules.Rules {
		o.Every = 0
	}
	return bulk.Walk[SilentRuns]{
		Name: lostWalk, Period: o.Every, StepSize: runsAStep,
		Begin: func(ctx context.Context) (place int64, found SilentRuns, err error) {
			last, err := bulk.ResultOf[RunCounts](ctx, s.q, runWalk)
			return last.Keep, o.Rules, err
		},
		End: s.q.EndOfRuns,
		Step: func(ctx context.Context, first, end int64, found *SilentRuns) error {
			p.FirstID, p.EndID = first, end
			silent, err := s.q.SilentRuns(ctx, p)
			if err != nil {
				return err
			}
			left, err := each(silent)
			found.Left += left
			if found.Rules != o.Rules.Rules {
				found.Rules = ""
			}
			return err
		},
	}.Take(ctx, s.q, o.AtMost)
}

// SilentRuns returns the result of the last complete sweep, or zero if there was none.
func (s MonitorStore) SilentRuns(ctx context.Context) (SilentRuns, error) {
	return bulk.ResultOf[SilentRuns](ctx, s.q, lostWalk)
}

// NoteSending records that a runner sends tasks with a priority, or those without. Runners call it before
// their first task and each minute. If another scheduler has sent such tasks, SendingSince becomes the time
// of the next call.
func (s MonitorStore) NoteSending(ctx context.Context, withPriority bool) error {
	return stmt.Failed(s.q.NoteSending(ctx, withPriority), "note that tasks are sent")
}

// SendingSince returns the moments from which only runners of this program send, by the database's clock.
func (s MonitorStore) SendingSince(ctx context.Context) (model.SendingSince, error) {
	rows, err := s.q.SendingSince(ctx)
	since := model.SendingSince{}
	for _, r := range rows {
		since[r.WithPriority] = r.Since
	}
	return since, stmt.Failed(err, "read since when tasks are sent")
}
