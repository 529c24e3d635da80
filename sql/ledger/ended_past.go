package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"swh-scheduler/internal/lanes"
	"swh-scheduler/internal/model"
	"swh-scheduler/sql/internal/queries"
	"swh-scheduler/sql/internal/stmt"
	"swh-scheduler/sql/postgres"
)

// OtherExceptions stands for all but the most frequent classes of exceptions of a type in an hour or a day.
const OtherExceptions = "(other)"

const (
	mostExceptions = 20  // classes by name, of a type in an hour or a day
	mostErrors     = 200 // classes of exceptions of a type, in two years
)

// Past is a part of the past, in steps of equal length counted from 1970. Ends are stored by minute for
// three hours, by hour for 30 days, by day for two years.
type Past struct {
	Span  string // of rows older than three hours: hour, day, or "" for none
	Since time.Time
	Step  time.Duration
}

// Steps returns the number of the first step, and of the step that contains now.
func (p Past) Steps(now time.Time) (first, last int64) {
	step := int64(p.Step / time.Second)
	return p.Since.Unix() / step, now.Unix() / step
}

// MoveEnded moves ends older than three hours from minutes to hours and days, the oldest hour first, one
// transaction an hour. It stops when none is left or after about atMost. It deletes hours after 30 days and
// days after two years. It returns the number of hours that it moved. It moves each minute once, even if
// several processes move at the same time or clocks jump.
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
		return hours, stmt.Failed(err, "delete old hours and days")
	}
	return hours, stmt.Failed(s.q.ForgetErrors(ctx, mostErrors), "forget old exceptions")
}

// EndedStep counts a type's ends in a step.
type EndedStep = queries.EndedStepsRow

// EndedSteps sums the ends of all types, by workers' events and by the journal.
func (a Queries) EndedSteps(ctx context.Context, p Past) ([]EndedStep, error) {
	rows, err := a.q.EndedSteps(ctx, queries.EndedStepsParams{Span: p.Span, Since: p.Since, Step: p.Step.Seconds()})
	return rows, stmt.Failed(err, "read what ended since %s", p.Since)
}

// EndedCell counts a type's ends in a step, from one source, by status, exception and bucket. For the
// source EndedWait it counts starts.
type EndedCell struct {
	Source, Status, Exception string
	Step                      int64
	Bucket                    int16 // of internal/lanes; -1: unknown, or the end is a failure
	Pieces                    int64
	Seconds                   float64 // sum of the known runtimes
}

// failedStatuses are the statuses of failures.
var failedStatuses = []string{string(model.RunFailed), string(model.RunPermFailed), string(model.RunLost)}

// EndedOf sums the ends of the given sources and types. It looks up each minute on its own, as other types may have far
// more rows. PostgreSQL sums failures, as a type may have 20 exceptions an hour; other rows of hours and days are groups
// of their own. Their buckets are summed here, because a row for each bucket costs PostgreSQL more. EndedOf doesn't use
// sqlc, which doesn't resolve the columns of nested lateral queries.
func (s Store) EndedOf(ctx context.Context, p Past, of ...EndedKey) ([]EndedCell, error) {
	var sources, types []string
	for _, key := range of {
		sources, types = append(sources, key.Source), append(types, key.Type)
	}
	query, args := endedOfMinutes, []any{p.Step.Seconds(), p.Since, sources, types, failedStatuses}
	if p.Span != "" {
		query, args = endedOfMinutes+endedOfPast, append(args, p.Span)
	}
	rows, _ := s.db.Pool().Query(ctx, query, args...)
	var one struct {
		EndedCell
		buckets []int16
		counts  []int64
	}
	type group struct {
		source, status, exception string
		step                      int64
	}
	at := map[group][]int{} // indexes of cells by bucket, plus one; 0: none
	var cells []EndedCell
	_, err := pgx.ForEachRow(rows, []any{&one.Source, &one.Status, &one.Exception, &one.Step, &one.buckets, &one.counts, &one.Seconds}, func() error {
		g := group{one.Source, one.Status, one.Exception, one.Step}
		known := at[g]
		for b, bucket := range one.buckets {
			i := int(bucket) + 1
			for len(known) <= i {
				known = append(known, 0)
			}
			if known[i] == 0 {
				cells = append(cells, EndedCell{Source: one.Source, Status: one.Status, Exception: one.Exception, Step: one.Step, Bucket: bucket})
				known[i] = len(cells)
			}
			cell := &cells[known[i]-1]
			cell.Pieces += one.counts[b]
			if b == 0 { // the sum is for all buckets together
				cell.Seconds += one.Seconds
			}
		}
		at[g] = known
		return nil
	})
	return cells, stmt.Failed(err, "read what ended of %v", of)
}

const (
	endedOfMinutes = `
select o.source, m.status, m.exception, floor(date_part('epoch', m.minute) / $1)::bigint, array[m.bucket], array[sum(m.pieces)::bigint], sum(m.seconds)
from unnest($3::text[], $4::text[]) o (source, type)
cross join generate_series(date_trunc('minute', greatest($2::timestamptz, now() - interval '1 day', (select min(minute) from scheduler_go.ended))), now(), interval '1 minute') t (minute)
cross join lateral (select d.minute, d.status, d.exception, case when d.status = any($5::text[]) then -1 else d.bucket end::smallint as bucket, d.pieces, d.seconds
  from scheduler_go.ended d where d.minute = t.minute and d.source = o.source and d.type = o.type offset 0) m
group by 1, 2, 3, 4, m.bucket`
	endedOfPast = `
union all
select o.source, q.status, q.exception, floor(date_part('epoch', q.since) / $1)::bigint, coalesce(max(q.buckets) filter (where not q.failed), array[-1::smallint]),
  coalesce(max(q.counts) filter (where not q.failed), array[sum(q.pieces)::bigint]), sum(q.seconds)
from unnest($3::text[], $4::text[]) o (source, type)
cross join lateral (select h.*, h.status = any($5::text[]) as failed from scheduler_go.ended_past h
  where h.span = $6 and h.source = o.source and h.type = o.type and h.since >= $2 offset 0) q
group by 1, 2, 3, 4, case when not q.failed then q.since end`
)

// Took returns the runtimes of ends with the statuses, by type: those of days that began after since. Of a type
// without such days, it returns those by minute. An end is counted in its day after some three hours.
func (s Store) Took(ctx context.Context, source string, since time.Time, statuses ...string) (map[string]lanes.Sketch, error) {
	type row struct {
		Type   string
		Bucket int16
		Pieces int64
	}
	rows, err := stmt.Rows[row](ctx, s.db.Pool(), `
with days as materialized (
  select p.type, b.bucket, b.pieces from scheduler_go.ended_past p, unnest(p.buckets, p.counts) b (bucket, pieces)
  where p.span = 'day' and p.since >= $2 and p.source = $1 and p.status = any($3::text[]))
select type, bucket, sum(pieces)::bigint
from (select * from days
      union all
      select m.type, m.bucket, m.pieces from scheduler_go.ended m
      where m.source = $1 and m.status = any($3::text[]) and m.type <> all (array(select distinct d.type from days d))) e
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

// FailureStep counts a type's failures in a step by source and class of exception ("" for the journal), with the
// first and the last, to the minute, hour or day.
type FailureStep = queries.FailureStepsRow

// FailureSteps sums failures, as workers and the journal report them.
func (a Queries) FailureSteps(ctx context.Context, p Past) ([]FailureStep, error) {
	rows, err := a.q.FailureSteps(ctx, queries.FailureStepsParams{Span: p.Span, Since: p.Since, Step: p.Step.Seconds()})
	return rows, stmt.Failed(err, "read failures since %s", p.Since)
}

// ErrorClass has the first and the last failure of a type's tasks with a class of exception, within two
// years, up to three hours ago.
type ErrorClass = queries.SchedulerGoError

// Errors lists the classes of exceptions of failed tasks.
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
