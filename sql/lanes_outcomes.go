package sql

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// settleLanes brings work of lanes up to date with what a batch of events tells: it
// begins, it ends, or its time is over and it goes into the line of the next lane
// under a new id, as if nothing had been told of its end. What is not there, or no
// longer, is passed over, so that a repeat changes nothing. runs are the runs of
// tasks that the events are about, locked.
func (tx *Tx) settleLanes(ctx context.Context, byID map[string]*told, runs []queries.LockRunsRow) error {
	tolds, ids := toldByUUID(byID)
	rows, err := tx.q.LockLaneWork(ctx, ids)
	if err != nil {
		return err
	}
	runOf := make(map[string]queries.LockRunsRow, len(runs))
	for _, r := range runs {
		runOf[*r.BackendID] = r
	}
	s := laneSettlement{records: laneRecords{}, counts: make(map[sketchBucket]float64), memories: make(map[int64]memory)}
	for _, w := range rows {
		run, isRun := runOf[w.TaskID.String()]
		// A run that was given up goes on nowhere.
		s.settle(w, tolds[w.TaskID], run, isRun && run.Open, !isRun || run.Open)
		delete(tolds, w.TaskID)
	}
	if err := s.hearOfEnded(ctx, tx, tolds); err != nil {
		return err
	}
	return s.write(ctx, tx)
}

// toldByUUID are those of byID that tell of a start or an end, by their id; what is
// no UUID is none of ours.
func toldByUUID(byID map[string]*told) (map[uuid.UUID]*told, []uuid.UUID) {
	tolds := make(map[uuid.UUID]*told, len(byID))
	ids := make([]uuid.UUID, 0, len(byID))
	for text, t := range byID {
		id, err := uuid.Parse(text)
		if err != nil || t.start == nil && !t.ended() {
			continue
		}
		tolds[id] = t
		ids = append(ids, id)
	}
	return tolds, ids
}

// laneSettlement is what a batch changes.
type laneSettlement struct {
	begun    queries.StartLaneWorkParams
	ended    []uuid.UUID
	early    []queries.AddLaneEndedParams // of ended: more may be heard of it
	moved    queries.MoveLaneWorkParams
	overs    queries.RecordOversParams
	runs     queries.MoveRunsParams
	records  laneRecords
	memories map[int64]memory
	counts   map[sketchBucket]float64
	heard    time.Time
}

type memory struct {
	seconds, behind float64
	atLeast         bool
	heard           time.Time
}

type sketchBucket struct {
	line string
	SketchKey
	bucket int16
}

// settle notes what is told of one piece of work. mayMove is whether it may go on in
// another lane; then run is its run, if it is one.
func (s *laneSettlement) settle(w queries.SchedulerGoLaneWork, t *told, run queries.LockRunsRow, isRun, mayMove bool) {
	if t.start != nil {
		if w.Started == nil && w.TimedOut == 0 {
			s.records.wait(w.Line, *w.LaneName, w.Claimed, t.start.Heard)
		}
		w.Started = new(t.startTime())
	}
	if t.end == nil && t.runtime != nil && t.runtime.Seconds() >= *w.SoftLimit {
		t.undecided = true
		if w.Started == nil {
			w.Started = new(t.endTime() - t.runtime.Seconds())
		}
	}
	if !t.ended() {
		s.begun.TaskIds = append(s.begun.TaskIds, w.TaskID)
		s.begun.Started = append(s.begun.Started, *w.Started)
		return
	}
	heard := t.endHeard()
	s.heard = later(s.heard, heard)
	took := t.timeTaken(w.Started)
	if !t.timedOut(took, *w.SoftLimit) {
		s.end(w, t, took, heard)
		return
	}
	s.record(w, laneTimedOut, 0, heard)
	if w.TimedOut == 0 && w.LanesLeft > 0 {
		s.record(w, laneSlowSentExpress, 0, heard)
	}
	s.remember(workOf(w), max(took, *w.SoftLimit), true, heard)
	if w.LanesLeft == 0 || !mayMove {
		s.ended = append(s.ended, w.TaskID)
		return
	}
	next := uuid.New()
	s.moved.TaskIds = append(s.moved.TaskIds, w.TaskID)
	s.moved.NewIds = append(s.moved.NewIds, next)
	s.moved.Heard = append(s.moved.Heard, heard)
	if w.URL != nil {
		s.overs.Urls = append(s.overs.Urls, *w.URL)
		s.overs.VisitTypes = append(s.overs.VisitTypes, *w.VisitType)
		s.overs.Claimed = append(s.overs.Claimed, w.Claimed)
		s.overs.Over = append(s.overs.Over, t.endTime())
		s.overs.Heard = append(s.overs.Heard, heard)
	}
	if isRun {
		s.runs.Runs = append(s.runs.Runs, run.ID)
		s.runs.NewIds = append(s.runs.NewIds, next)
		s.runs.LaneNames = append(s.runs.LaneNames, *w.LaneName)
	}
	t.goesOn = next
}

func (s *laneSettlement) record(w queries.SchedulerGoLaneWork, what string, bucket int16, heard time.Time) {
	s.records.add(w.Line, *w.LaneName, what, bucket, heard, 1)
}

// end notes that work ended in its time, or failed for another reason, which says
// little of how long it takes.
func (s *laneSettlement) end(w queries.SchedulerGoLaneWork, t *told, took float64, heard time.Time) {
	s.ended = append(s.ended, w.TaskID)
	s.record(w, laneEnded, 0, heard)
	if t.end != nil && t.end.End.Status == scheduler.RunFailed {
		return
	}
	work := workOf(w)
	if took > 0 {
		s.done(work, took, heard)
		return
	}
	if w.TimedOut == 0 {
		work.Claimed = &w.Claimed
	}
	work.Heard = heard
	s.early = append(s.early, work)
}

// workOf is what is needed to learn from a piece of work.
func workOf(w queries.SchedulerGoLaneWork) queries.AddLaneEndedParams {
	return queries.AddLaneEndedParams{
		TaskID: w.TaskID, Line: w.Line, LaneName: *w.LaneName, Memory: w.Memory, Lister: w.Lister, First: w.First,
		Behind: w.Behind, Below: w.Below,
	}
}

// hearOfEnded learns what is told of work that has ended before: results overtake
// the events that tell when it began and how long it took.
func (s *laneSettlement) hearOfEnded(ctx context.Context, tx *Tx, tolds map[uuid.UUID]*told) error {
	ids := make([]uuid.UUID, 0, len(tolds))
	for id, t := range tolds {
		if t.start != nil || t.runtime != nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := tx.q.LockLaneEnded(ctx, ids)
	if err != nil {
		return err
	}
	var waited, known []uuid.UUID
	for _, r := range rows {
		t := tolds[r.TaskID]
		if t.start != nil && r.Claimed != nil {
			s.records.wait(r.Line, r.LaneName, *r.Claimed, t.start.Heard)
			waited = append(waited, r.TaskID)
		}
		if t.runtime != nil {
			s.done(queries.AddLaneEndedParams(r), t.runtime.Seconds(), t.runtimeHeard)
			known = append(known, r.TaskID)
		}
	}
	if err := tx.q.WaitOfLaneEnded(ctx, waited); err != nil {
		return err
	}
	return tx.q.DropLaneEnded(ctx, known)
}

// done learns from work that ended in its time.
func (s *laneSettlement) done(w queries.AddLaneEndedParams, took float64, heard time.Time) {
	s.heard = later(s.heard, heard)
	s.remember(w, took, false, heard)
	if w.Below != nil && took <= *w.Below {
		s.records.add(w.Line, w.LaneName, laneQuickSentSlow, 0, heard, 1)
	}
}

// remember notes how long work took, in seconds.
func (s *laneSettlement) remember(w queries.AddLaneEndedParams, took float64, atLeast bool, heard time.Time) {
	s.memories[w.Memory] = memory{seconds: took, behind: w.Behind, atLeast: atLeast, heard: heard}
	for _, lister := range slices.Compact([]string{"", w.Lister}) {
		s.counts[sketchBucket{w.Line, SketchKey{lister, w.First}, lanes.Bucket(took)}]++
	}
}

func (s *laneSettlement) write(ctx context.Context, tx *Tx) error {
	if len(s.begun.TaskIds) > 0 {
		if err := tx.q.StartLaneWork(ctx, s.begun); err != nil {
			return err
		}
	}
	if len(s.ended) > 0 {
		if err := tx.q.EndLaneWork(ctx, s.ended); err != nil {
			return err
		}
	}
	if len(s.early) > 0 {
		if _, err := tx.q.AddLaneEnded(ctx, s.early); err != nil {
			return err
		}
	}
	if len(s.moved.TaskIds) > 0 {
		if err := s.move(ctx, tx); err != nil {
			return err
		}
	}
	if err := s.learn(ctx, tx); err != nil {
		return err
	}
	return s.records.write(ctx, tx)
}

func (s *laneSettlement) move(ctx context.Context, tx *Tx) error {
	if err := tx.q.MoveLaneWork(ctx, s.moved); err != nil {
		return err
	}
	// The failed visits of these tries were time-outs.
	if len(s.overs.Urls) > 0 {
		if err := tx.q.RecordOvers(ctx, s.overs); err != nil {
			return err
		}
	}
	if err := tx.q.ForgetHeldVisits(ctx, s.moved.TaskIds); err != nil {
		return err
	}
	if len(s.runs.Runs) > 0 {
		if err := tx.q.MoveRuns(ctx, s.runs); err != nil {
			return err
		}
	}
	_, err := tx.tx.Exec(ctx, "notify scheduler_go_lanes")
	return err
}

func (s *laneSettlement) learn(ctx context.Context, tx *Tx) error {
	if len(s.memories) == 0 {
		return nil
	}
	var m queries.RememberWorkParams
	for key, v := range s.memories {
		m.Memories = append(m.Memories, key)
		m.Seconds = append(m.Seconds, float32(v.seconds))
		m.AtLeast = append(m.AtLeast, v.atLeast)
		m.Behind = append(m.Behind, float32(v.behind))
		m.Recorded = append(m.Recorded, v.heard)
	}
	if err := tx.q.RememberWork(ctx, m); err != nil {
		return err
	}
	c := queries.CountWorkParams{Now: s.heard, HalfLife: lanes.SketchHalfLife.Seconds()}
	for key, weight := range s.counts {
		c.Lines = append(c.Lines, key.line)
		c.Listers = append(c.Listers, key.Lister)
		c.Firsts = append(c.Firsts, key.First)
		c.Buckets = append(c.Buckets, key.bucket)
		c.Weights = append(c.Weights, weight)
	}
	return tx.q.CountWork(ctx, c)
}

// timeTaken is how long the work took, in seconds: what the worker says, else from
// its start to its end; 0 where that is not known.
func (t *told) timeTaken(started *float64) float64 {
	if t.runtime != nil || started == nil {
		return cmp.Or(t.runtime, new(time.Duration)).Seconds()
	}
	return max(0, t.endTime()-*started)
}

// timedOut says whether the time of a try was over, in which it took so long. A task
// that catches the exception by which Celery tells it may only say that it failed.
func (t *told) timedOut(took, softLimit float64) bool {
	if t.end == nil || t.end.End.Status != scheduler.RunFailed {
		return false
	}
	return t.end.End.TimedOut || took >= softLimit
}

// endTime is when the work ended, on the worker's clock if it tells, in seconds
// since 1970 UTC.
func (t *told) endTime() float64 {
	if t.end == nil {
		return seconds(t.runtimeHeard)
	}
	if t.end.End.EventTime > 0 {
		return t.end.End.EventTime
	}
	return seconds(t.end.Heard)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
