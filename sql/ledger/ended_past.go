package ledger

import (
	"context"
	"time"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// OtherExceptions stands for the classes of exceptions of a type, in an hour or a day, that are not among its most frequent.
const OtherExceptions = "(other)"

const (
	mostExceptions = 20  // of a type in an hour or a day
	mostErrors     = 200 // classes of exceptions of a type, in two years
)

// Past says what part of the past is summed, in steps of equal length since 1970. What ended in the last three hours is known by minute, in the last
// 30 days by hour, in two years by day.
type Past struct {
	Span  string // of older rows: hour, day, or "" for none
	Since time.Time
	Step  time.Duration
}

// Steps returns the number of the first step, and of the one that now is in.
func (p Past) Steps(now time.Time) (first, last int64) {
	step := int64(p.Step / time.Second)
	return p.Since.Unix() / step, now.Unix() / step
}

// MoveEnded moves what ended more than three hours ago from minutes to hours and days, the oldest hour first, each in a transaction of its own,
// until nothing is left or about atMost is over. It deletes hours after 30 days and days after two years. It returns how many hours it moved. Each minute is
// moved once, whichever processes do so at the same time, and however clocks jump.
func (s Store) MoveEnded(ctx context.Context, atMost time.Duration) (hours int, err error) {
	for began := time.Now(); ; hours++ {
		hour, err := s.q.OldEndedHour(ctx)
		if err != nil {
			return hours, stmt.Failed(err, "read what ended hours ago")
		}
		if hour.Unix() == 0 || time.Since(began) > atMost {
			break
		}
		if err := s.inTx(ctx, postgres.ByIndex, func(ctx context.Context, tx *Tx) error {
			if err := tx.q.LockEndedPast(ctx); err != nil {
				return err
			}
			return tx.q.MoveEnded(ctx, queries.MoveEndedParams{Hour: hour, NextHour: hour.Add(time.Hour), MostExceptions: mostExceptions})
		}); err != nil {
			return hours, stmt.Failed(err, "move what ended in the hour from %s", hour.UTC().Format(time.RFC3339))
		}
	}
	if err := s.q.ForgetEndedPast(ctx); err != nil {
		return hours, stmt.Failed(err, "forget what ended long ago")
	}
	return hours, stmt.Failed(s.q.ForgetErrors(ctx, mostErrors), "forget old exceptions")
}

// EndedStep is how much of a type ended in a step.
type EndedStep = queries.EndedStepsRow

// EndedSteps sums what ended of all types, as workers and the journal tell.
func (a Queries) EndedSteps(ctx context.Context, p Past) ([]EndedStep, error) {
	rows, err := a.q.EndedSteps(ctx, queries.EndedStepsParams{Span: p.Span, Since: p.Since, Step: p.Step.Seconds()})
	return rows, stmt.Failed(err, "read what ended since %s", p.Since)
}

// EndedCell is how much of a type, from one source, ended in a step, by status, exception and bucket. Of a wait, it is how much started.
type EndedCell struct {
	Source, Status, Exception string
	Step                      int64
	Bucket                    int16 // of internal/lanes; -1: not known
	Pieces                    int64
	Seconds                   float64 // sum of what is known
}

// EndedOf sums what ended of one type each of some sources. Each minute is a look-up of its own, as other types may have far more.
// Not with sqlc, which doesn't know the columns of nested lateral queries.
func (s Store) EndedOf(ctx context.Context, p Past, of ...EndedKey) ([]EndedCell, error) {
	var sources, types []string
	for _, key := range of {
		sources, types = append(sources, key.Source), append(types, key.Type)
	}
	cells, err := stmt.Rows[EndedCell](ctx, s.db.Pool(), `
select o.source, m.status, m.exception, floor(extract(epoch from m.minute) / $1)::bigint as step, m.bucket, sum(m.pieces)::bigint, sum(m.seconds)
from unnest($3::text[], $4::text[]) o (source, type)
cross join generate_series(date_trunc('minute', greatest($2::timestamptz, now() - interval '1 day', (select min(minute) from scheduler_go.ended))), now(), interval '1 minute') t (minute)
cross join lateral (select * from scheduler_go.ended d where d.minute = t.minute and d.source = o.source and d.type = o.type offset 0) m
group by 1, 2, 3, 4, 5`, p.Step.Seconds(), p.Since, sources, types)
	if err == nil && p.Span != "" {
		cells, err = s.addPast(ctx, p, sources, types, cells)
	}
	return cells, stmt.Failed(err, "read what ended of %v", of)
}

// addPast adds hours or days to the cells of minutes. Their buckets are summed here: a row of each would cost PostgreSQL more.
func (s Store) addPast(ctx context.Context, p Past, sources, types []string, cells []EndedCell) ([]EndedCell, error) {
	type row struct {
		Source, Status, Exception string
		Step                      int64
		Buckets                   []int16
		Counts                    []int64
		Seconds                   float64
	}
	rows, err := stmt.Rows[row](ctx, s.db.Pool(), `
select o.source, q.status, q.exception, floor(extract(epoch from q.since) / $1)::bigint, q.buckets, q.counts, q.seconds
from unnest($3::text[], $4::text[]) o (source, type)
cross join lateral (select * from scheduler_go.ended_past h where h.span = $5 and h.source = o.source and h.type = o.type and h.since >= $2 offset 0) q`,
		p.Step.Seconds(), p.Since, sources, types, p.Span)
	type cell struct {
		source, status, exception string
		step                      int64
		bucket                    int16
	}
	at := make(map[cell]int, len(cells))
	for i, c := range cells {
		at[cell{c.Source, c.Status, c.Exception, c.Step, c.Bucket}] = i
	}
	for _, r := range rows {
		seconds := r.Seconds
		for b, bucket := range r.Buckets {
			key := cell{r.Source, r.Status, r.Exception, r.Step, bucket}
			i, ok := at[key]
			if !ok {
				i = len(cells)
				at[key] = i
				cells = append(cells, EndedCell{Source: r.Source, Status: r.Status, Exception: r.Exception, Step: r.Step, Bucket: bucket})
			}
			cells[i].Pieces += r.Counts[b]
			cells[i].Seconds += seconds
			seconds = 0 // of all buckets together
		}
	}
	return cells, err
}

// Took returns how long what ended since a moment took, by type, of some statuses: by the minute, and days that began since then.
func (s Store) Took(ctx context.Context, source string, since time.Time, statuses ...string) (map[string]lanes.Sketch, error) {
	type row struct {
		Type   string
		Bucket int16
		Pieces int64
	}
	rows, err := stmt.Rows[row](ctx, s.db.Pool(), `
select type, bucket, sum(pieces)::bigint
from (select type, bucket, pieces from scheduler_go.ended where source = $1 and status = any($3::text[])
      union all
      select p.type, b.bucket, b.pieces from scheduler_go.ended_past p, unnest(p.buckets, p.counts) b (bucket, pieces)
      where p.span = 'day' and p.since >= $2 and p.source = $1 and p.status = any($3::text[])) e
where bucket >= 0
group by type, bucket`, source, since, statuses)
	took := map[string]lanes.Sketch{}
	for _, r := range rows {
		if took[r.Type] == nil {
			took[r.Type] = lanes.Sketch{}
		}
		took[r.Type][r.Bucket] = float64(r.Pieces)
	}
	return took, stmt.Failed(err, "read how long work takes")
}

// FailureStep is how much of a task type failed in a step, by class of the exception, and when the first and the last of it did: by minute, hour or day.
type FailureStep = queries.FailureStepsRow

// FailureSteps sums failures of task types.
func (a Queries) FailureSteps(ctx context.Context, p Past) ([]FailureStep, error) {
	rows, err := a.q.FailureSteps(ctx, queries.FailureStepsParams{Span: p.Span, Since: p.Since, Step: p.Step.Seconds()})
	return rows, stmt.Failed(err, "read failures since %s", p.Since)
}

// ErrorClass says when tasks of a type first and last failed by a class of exception, in two years up to three hours ago.
type ErrorClass = queries.SchedulerGoError

// Errors lists the classes of exceptions by which tasks failed.
func (a Queries) Errors(ctx context.Context) ([]ErrorClass, error) {
	rows, err := a.q.Errors(ctx)
	return rows, stmt.Failed(err, "list classes of exceptions")
}

// SketchOf adds up the known buckets of cells.
func SketchOf(cells []EndedCell) lanes.Sketch {
	sketch := lanes.Sketch{}
	for _, c := range cells {
		if c.Bucket >= 0 {
			sketch[c.Bucket] += float64(c.Pieces)
		}
	}
	return sketch
}
