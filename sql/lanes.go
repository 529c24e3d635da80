package sql

import (
	"context"
	"fmt"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// LaneWork is a piece of work that was just claimed for a task type with lanes, with
// what is known of it.
type LaneWork struct {
	Lister string        // its name; "" if the work has none
	First  bool          // nothing of its origin is archived yet
	Behind float64       // seconds of news; 0 where not known
	Memory *lanes.Memory // nil if it was never done
	Tried  bool          // a try of it has failed

	row queries.TakeForLanesRow
}

// TakeForLanes takes back the messages that this transaction has written to the
// outbox for a queue, so that they go through the lanes of a task type. They are in
// the order in which they were written. visitType is "" for work that loads nothing.
func (tx *Tx) TakeForLanes(ctx context.Context, queue, taskType, visitType string) ([]LaneWork, error) {
	rows, err := tx.q.TakeForLanes(ctx, queries.TakeForLanesParams{TaskType: taskType, Queue: queue, VisitType: visitType})
	if err != nil {
		return nil, fmt.Errorf("take the messages claimed for queue %q: %w", queue, err)
	}
	work := make([]LaneWork, len(rows))
	for i, r := range rows {
		work[i] = LaneWork{Lister: r.Lister, First: r.Unseen, Behind: max(0, r.Behind), Tried: r.Tried, row: r}
		if r.Seconds != nil {
			work[i].Memory = &lanes.Memory{
				Seconds: float64(*r.Seconds), Before: float64(*r.Before), AtLeast: *r.AtLeast, Behind: float64(*r.BehindThen),
			}
		}
	}
	return work, nil
}

// SketchKey tells the sketches of a line apart: how long the first visits, or
// the later ones, of a lister's origins take. That without a lister is of all.
type SketchKey struct {
	Lister string
	First  bool
}

// LaneSketches are the sketches of some listers of a line, and of all.
func (a asker) LaneSketches(ctx context.Context, line string, listers []string, now time.Time) (map[SketchKey]lanes.Sketch, error) {
	rows, err := a.q.LaneSketches(ctx, queries.LaneSketchesParams{
		Line: line, Listers: append([]string{""}, listers...), Now: now, HalfLife: lanes.SketchHalfLife.Seconds(),
	})
	if err != nil {
		return nil, fmt.Errorf("read how long work of %q takes: %w", line, err)
	}
	sketches := make(map[SketchKey]lanes.Sketch)
	for _, r := range rows {
		key := SketchKey{Lister: r.Lister, First: r.First}
		if sketches[key] == nil {
			sketches[key] = lanes.Sketch{}
		}
		sketches[key][r.Bucket] = r.Weight
	}
	return sketches, nil
}

// LaneChoice is where a piece of work goes.
type LaneChoice struct {
	Lane int
	// Below is the soft limit, in seconds, of the lane that it was predicted to
	// outlast; 0 if none was.
	Below float64
	// Sent, if not nil, is the lane, which has a slot for it at once: it doesn't wait
	// in its line. Left is how many lanes come after it.
	Sent *scheduler.Lane
	Left int
}

// AddLaneWork puts work that was taken from a queue, claimed at now, into lines, or
// writes it to the outbox.
func (tx *Tx) AddLaneWork(ctx context.Context, line, queue, visitType string, work []LaneWork, choices []LaneChoice, now time.Time) error {
	rows := make([]queries.AddLaneWorkParams, len(work))
	var messages []OutboxRow
	for i, w := range work {
		p := queries.AddLaneWorkParams{
			TaskID: w.row.TaskID, RootID: w.row.TaskID, Line: line, Lane: int16(choices[i].Lane), Since: now, Claimed: now,
			TaskName: w.row.TaskName, Args: w.row.Args, Kwargs: w.row.Kwargs, Urgent: w.row.Urgent, Queue: queue,
			Memory: w.row.Memory, Lister: w.Lister, First: w.First, Behind: w.Behind,
		}
		if w.row.URL != "" && visitType != "" {
			p.URL, p.VisitType = &w.row.URL, &visitType
		}
		if choices[i].Below > 0 {
			p.Below = &choices[i].Below
		}
		if lane := choices[i].Sent; lane != nil {
			p.Sent, p.Queue, p.LaneName, p.LanesLeft = true, lane.Queue, &lane.Name, int16(choices[i].Left)
			p.SoftLimit, p.HardLimit = new(lane.SoftTimeLimit.Seconds()), new(lane.TimeLimit.Seconds())
			messages = append(messages, OutboxRow{
				Queue: lane.Queue, TaskID: w.row.TaskID, TaskName: w.row.TaskName, Args: w.row.Args, Kwargs: w.row.Kwargs, Urgent: w.row.Urgent,
				TimeLimit: lane.TimeLimit, SoftTimeLimit: lane.SoftTimeLimit,
			})
		}
		rows[i] = p
	}
	if _, err := tx.q.AddLaneWork(ctx, rows); err != nil {
		return fmt.Errorf("put work into the lines of %q: %w", line, err)
	}
	return tx.EnqueueMessages(ctx, messages)
}

// LaneLine is what waits in one lane of a line.
type LaneLine struct{ TimedOut, Waiting int }

// LaneLines counts what waits in each of n lanes. Work of lanes beyond, which the
// configuration had before, is moved to the last one.
func (tx *Tx) LaneLines(ctx context.Context, line string, n int) ([]LaneLine, error) {
	if err := tx.q.ShortenLines(ctx, queries.ShortenLinesParams{Line: line, LastLane: int16(n - 1)}); err != nil {
		return nil, err
	}
	rows, err := tx.q.LaneLines(ctx, line)
	if err != nil {
		return nil, err
	}
	found := make([]LaneLine, n)
	for _, r := range rows {
		// A listener may have moved work beyond the last one since.
		l := &found[min(int(r.Lane), n-1)]
		l.TimedOut += int(r.TimedOut)
		l.Waiting += int(r.Waiting)
	}
	return found, nil
}

// SendLaneWork writes the first count of a line to the outbox, for the queue of
// lane number to, with its limits; left is how many lanes come after that one. What
// timed out before comes first.
func (tx *Tx) SendLaneWork(ctx context.Context, line string, from, to, count int, lane scheduler.Lane, left int, now time.Time) error {
	err := tx.q.SendLaneWork(ctx, queries.SendLaneWorkParams{
		Line: line, FromLane: int16(from), ToLane: int16(to), Count: int32(count), Now: now, Queue: lane.Queue, LaneName: lane.Name,
		SoftLimit: lane.SoftTimeLimit.Seconds(), HardLimit: lane.TimeLimit.Seconds(), LanesLeft: int16(left),
	})
	if err != nil {
		return fmt.Errorf("send work of lane %q: %w", lane.Name, err)
	}
	return nil
}

// WaitingLines lists the lines in which work waits.
func (a asker) WaitingLines(ctx context.Context) ([]string, error) {
	lines, err := a.q.WaitingLines(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the lines in which work waits: %w", err)
	}
	return lines, nil
}

// SendWithoutLanes writes the first count of a line, which has no lanes any more, to
// the outbox for a queue, without limits. It returns how many that was.
func (tx *Tx) SendWithoutLanes(ctx context.Context, line, queue string, count int) (int, error) {
	n, err := tx.q.SendWithoutLanes(ctx, queries.SendWithoutLanesParams{Line: line, Queue: queue, Count: int32(count)})
	return int(n), err
}

// LaneState is what a lane of a line has, in pieces of work.
type LaneState struct {
	LaneLine
	Sent    int // in its queue, on the way there, or running
	Running int // those of them that are known to have begun
}

// LaneStates counts the work of a line by lane, of n lanes.
func (a asker) LaneStates(ctx context.Context, line string, n int) ([]LaneState, error) {
	rows, err := a.q.LaneUnderway(ctx, line)
	if err != nil {
		return nil, err
	}
	states := make([]LaneState, n)
	for _, r := range rows {
		s := &states[min(int(r.Lane), n-1)]
		s.TimedOut += int(r.TimedOut)
		s.Waiting += int(r.Waiting)
		s.Sent += int(r.Sent)
		s.Running += int(r.Running)
	}
	return states, nil
}

// LaneRecord is what happened in a lane in some time.
type LaneRecord struct {
	Wait            lanes.Sketch // seconds from the claim to the start of first tries
	Ended           int          // in this lane, in its time or by the usual rules for failures
	TimedOut        int          // over before they were done
	QuickSentSlow   int          // predicted to need this lane, and done in the time of one before
	SlowSentExpress int          // those of TimedOut that had not timed out before
	Unheard         int          // given up
}

// LaneHistory is what happened since a moment, at most a day ago, by the name of the
// lane and by whole minutes.
func (a asker) LaneHistory(ctx context.Context, line string, since time.Time) (map[string]*LaneRecord, error) {
	rows, err := a.q.LaneHistory(ctx, queries.LaneHistoryParams{Line: line, Since: since})
	if err != nil {
		return nil, fmt.Errorf("read the history of the lanes of %q: %w", line, err)
	}
	history := make(map[string]*LaneRecord)
	for _, r := range rows {
		h := history[r.Lane]
		if h == nil {
			h = &LaneRecord{Wait: lanes.Sketch{}}
			history[r.Lane] = h
		}
		n := int(r.Pieces)
		switch r.What {
		case laneWait:
			h.Wait[r.Bucket] += float64(n)
		case laneEnded:
			h.Ended += n
		case laneTimedOut:
			h.TimedOut += n
		case laneQuickSentSlow:
			h.QuickSentSlow += n
		case laneSlowSentExpress:
			h.SlowSentExpress += n
		case laneUnheard:
			h.Unheard += n
		}
	}
	return history, nil
}

// How long things are kept.
const (
	laneHistoryKept = 24 * time.Hour
	laneOversKept   = 7 * 24 * time.Hour   // the journal is not read later than that
	laneMemoryKept  = 400 * 24 * time.Hour // a visit a year is the rarest there is
)

// LaneUnderway is a lane of a line to which work was sent that has not ended, by its
// name and queue when it was sent.
type LaneUnderway struct{ Line, Lane, Queue string }

// LanesUnderway lists the lanes to which work was sent that has not ended, whether or
// not they are still configured.
func (a asker) LanesUnderway(ctx context.Context) ([]LaneUnderway, error) {
	rows, err := a.q.LanesUnderway(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the lanes that have work: %w", err)
	}
	underway := make([]LaneUnderway, len(rows))
	for i, r := range rows {
		underway[i] = LaneUnderway{Line: r.Line, Lane: r.LaneName, Queue: r.Queue}
	}
	return underway, nil
}

// GiveUpLaneWork forgets work of one lane whose outcome will not be heard: what began
// and was over, by its limit, before unheardBefore; what was sent before lostBefore;
// and of what was sent before unheardBefore and is not known to have begun the oldest
// beyond waiting, which is how many messages can still be in the queue. It returns how
// many that was.
func (s *Store) GiveUpLaneWork(ctx context.Context, l LaneUnderway, waiting int, now, unheardBefore, lostBefore time.Time) (int, error) {
	var n int64
	err := s.InTx(ctx, func(ctx context.Context, tx *Tx) (err error) {
		n, err = tx.q.GiveUpLaneWork(ctx, queries.GiveUpLaneWorkParams{
			Line: l.Line, LaneName: l.Lane, Queue: l.Queue, Waiting: int64(waiting), UnheardBefore: unheardBefore, LostBefore: lostBefore,
		})
		if err != nil || n == 0 {
			return err
		}
		records := laneRecords{}
		records.add(l.Line, l.Lane, laneUnheard, 0, now, int(n))
		return records.write(ctx, tx)
	})
	if err != nil {
		return 0, fmt.Errorf("give up work of lane %q: %w", l.Lane, err)
	}
	return int(n), nil
}

// ForgetLanes deletes what is known of lanes and is too old to matter, such as work
// that ended before endedBefore of which more might have been heard.
func (a asker) ForgetLanes(ctx context.Context, now, endedBefore time.Time) error {
	err := a.q.ForgetLanes(ctx, queries.ForgetLanesParams{
		HistoryBefore: now.Add(-laneHistoryKept), EndedBefore: endedBefore, OversBefore: now.Add(-laneOversKept), MemoryBefore: now.Add(-laneMemoryKept),
	})
	if err != nil {
		return fmt.Errorf("forget what is old of lanes: %w", err)
	}
	return nil
}

// What the history of lanes records.
const (
	laneWait            = "wait"
	laneEnded           = "ended"
	laneTimedOut        = "timed_out"
	laneQuickSentSlow   = "quick_sent_slow"
	laneSlowSentExpress = "slow_sent_express"
	laneUnheard         = "unheard"
)

// laneRecords gathers what is to be added to the history, so that each of its rows
// is written once.
type laneRecords map[laneRecord]int

type laneRecord struct {
	line, lane, what string
	bucket           int16
	minute           time.Time
}

func (l laneRecords) add(line, lane, what string, bucket int16, heard time.Time, n int) {
	l[laneRecord{line, lane, what, bucket, heard.Truncate(time.Minute)}] += n
}

// wait records how long a first try waited to begin.
func (l laneRecords) wait(line, lane string, claimed, began time.Time) {
	l.add(line, lane, laneWait, lanes.Bucket(max(0, began.Sub(claimed).Seconds())), began, 1)
}

func (l laneRecords) write(ctx context.Context, tx *Tx) error {
	if len(l) == 0 {
		return nil
	}
	var p queries.RecordLanesParams
	for r, n := range l {
		p.Lines = append(p.Lines, r.line)
		p.Lanes = append(p.Lanes, r.lane)
		p.Heard = append(p.Heard, r.minute)
		p.Whats = append(p.Whats, r.what)
		p.Buckets = append(p.Buckets, r.bucket)
		p.Pieces = append(p.Pieces, int64(n))
	}
	return tx.q.RecordLanes(ctx, p)
}

// ListenLanes calls wake each time work may have come into the line of a further
// lane, until ctx ends or the connection is lost; see ListenGraphs.
func (s *Store) ListenLanes(ctx context.Context, wake func()) error {
	return s.listen(ctx, "listen scheduler_go_lanes", wake)
}
