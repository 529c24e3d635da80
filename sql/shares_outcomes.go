package sql

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/sql/internal/queries"
)

// settleInFlight brings what is underway up to date with what a batch of events
// tells: work begins, or it ends, for good or to go on in another lane, and is
// charged to its group. What is not in the ledger, or no longer, is passed over, so
// that a repeat changes nothing.
//
// Work whose end is heard of before its start and its time is charged as it was
// expected, which is corrected when that comes.
func (tx *Tx) settleInFlight(ctx context.Context, byID map[string]*told) error {
	tolds, ids := toldByUUID(byID)
	rows, err := tx.q.LockInFlight(ctx, ids)
	if err != nil {
		return err
	}
	s := shareSettlement{charges: make(map[[2]string]*charge)}
	for _, r := range rows {
		s.settle(r, tolds[r.TaskID])
		delete(tolds, r.TaskID)
	}
	if err := s.correct(ctx, tx, tolds); err != nil {
		return err
	}
	return s.write(ctx, tx)
}

// shareSettlement is what a batch changes.
type shareSettlement struct {
	begun   queries.StartInFlightParams
	ended   []uuid.UUID
	moved   queries.MoveInFlightParams
	early   []queries.AddShareEndedParams
	charges map[[2]string]*charge // by queue and group
}

func (s *shareSettlement) settle(r queries.LockInFlightRow, t *told) {
	if t.start != nil {
		r.Started = new(t.startTime())
	}
	if !t.ended() {
		s.begun.TaskIds = append(s.begun.TaskIds, r.TaskID)
		s.begun.Started = append(s.begun.Started, *r.Started)
		return
	}
	if t.goesOn != uuid.Nil {
		s.moved.TaskIds = append(s.moved.TaskIds, r.TaskID)
		s.moved.NewIds = append(s.moved.NewIds, t.goesOn)
	} else {
		s.ended = append(s.ended, r.TaskID)
	}
	took, heard := t.workTime(r.Started, r.Cost), t.endHeard()
	if t.runtime == nil && r.Started == nil {
		s.early = append(s.early, queries.AddShareEndedParams{TaskID: r.TaskID, Queue: r.Queue, ShareGroup: r.ShareGroup, Charged: took, Heard: heard})
	}
	s.charge(r.Queue, r.ShareGroup).add(took, 1, heard)
}

func (s *shareSettlement) charge(queue, group string) *charge {
	key := [2]string{queue, group}
	if s.charges[key] == nil {
		s.charges[key] = &charge{}
	}
	return s.charges[key]
}

// correct charges what work that has ended before took beyond what it was charged,
// or less.
func (s *shareSettlement) correct(ctx context.Context, tx *Tx, tolds map[uuid.UUID]*told) error {
	var ids []uuid.UUID
	for id, t := range tolds {
		if t.runtime != nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := tx.q.TakeShareEnded(ctx, ids)
	for _, r := range rows {
		t := tolds[r.TaskID]
		s.charge(r.Queue, r.ShareGroup).add(t.runtime.Seconds()-r.Charged, 0, t.runtimeHeard)
	}
	return err
}

func (s *shareSettlement) write(ctx context.Context, tx *Tx) error {
	if len(s.begun.TaskIds) > 0 {
		if err := tx.q.StartInFlight(ctx, s.begun); err != nil {
			return err
		}
	}
	if len(s.ended) > 0 {
		if err := tx.q.EndInFlight(ctx, s.ended); err != nil {
			return err
		}
	}
	if len(s.moved.TaskIds) > 0 {
		if err := tx.q.MoveInFlight(ctx, s.moved); err != nil {
			return err
		}
	}
	if len(s.early) > 0 {
		if _, err := tx.q.AddShareEnded(ctx, s.early); err != nil {
			return err
		}
	}
	if len(s.charges) == 0 {
		return nil
	}
	return tx.chargeShares(ctx, s.charges)
}

// charge sums what ended of one group.
type charge struct {
	seconds float64
	pieces  int
	heard   time.Time
}

func (c *charge) add(seconds float64, pieces int, heard time.Time) {
	c.seconds += seconds
	c.pieces += pieces
	c.heard = later(c.heard, heard)
}

func (tx *Tx) chargeShares(ctx context.Context, charges map[[2]string]*charge) error {
	var p queries.ChargeSharesParams
	for key, c := range charges {
		p.Queues = append(p.Queues, key[0])
		p.Groups = append(p.Groups, key[1])
		p.Heard = append(p.Heard, c.heard)
		p.Seconds = append(p.Seconds, c.seconds)
		p.Pieces = append(p.Pieces, int32(c.pieces))
	}
	return tx.q.ChargeShares(ctx, p)
}

// ended says that a batch tells of the end of a piece of work.
func (t *told) ended() bool { return t.end != nil || t.runtime != nil && !t.undecided }

func (t *told) endHeard() time.Time {
	if t.end != nil {
		return t.end.Heard
	}
	return t.runtimeHeard
}

// startTime is when the newest start was, in seconds since 1970 UTC: on the
// worker's clock if the event tells it.
func (t *told) startTime() float64 {
	if t.start.Start.EventTime > 0 {
		return t.start.Start.EventTime
	}
	return seconds(t.start.Heard)
}

// workTime is how long the work took, in seconds: what the worker says, else from
// its start to its end, else what was expected.
func (t *told) workTime(started *float64, expected float64) float64 {
	switch {
	case t.runtime != nil:
		return t.runtime.Seconds()
	case started == nil:
		return expected
	}
	return max(0, t.endTime()-*started)
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }
