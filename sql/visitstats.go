package sql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql/internal/queries"
)

// KnownVisits is what the database knows of some origins.
type KnownVisits struct {
	// Stats has an element for each origin with a row. LastScheduled is left
	// out: it may change while the rows are locked for the journal.
	Stats []scheduler.VisitStats
	// LastFailures are the dates of VisitChanges.LastFailures, as recorded.
	LastFailures map[scheduler.OriginKey]time.Time
	// QueuePositions is where the queue of each visit type stands.
	QueuePositions map[string]int64
	// Laned has the work of those origins that was sent and goes on in another lane
	// if its time is over; Overs has when that last was so.
	Laned map[scheduler.OriginKey][]LanedVisit
	Overs map[scheduler.OriginKey]VisitOver
}

// LanedVisit is a visit underway on lanes. It doesn't end nor move until the
// transaction that reads it ends.
type LanedVisit struct {
	TaskID uuid.UUID // Celery's id of the present try
	Since  time.Time // when that was sent
}

// VisitOver is a visit whose time on a lane was over, and that went on.
type VisitOver struct {
	Claimed time.Time
	Over    time.Time // by the worker's clock
}

// HeldVisit is a failed visit that does not count yet.
type HeldVisit struct {
	scheduler.OriginKey
	TaskID uuid.UUID // of the try that it may be of
	Date   time.Time
}

// VisitChanges is what some visits change.
type VisitChanges struct {
	Stats        []*scheduler.VisitStats           // of the origins asked for, each once, LastVisit set
	LastFailures map[scheduler.OriginKey]time.Time // of origins among Stats, where LastVisit does not tell
	DisabledURLs []string                          // origins to disable until a lister sees them again
	Held         []HeldVisit                       // failed visits to keep back
	Counted      []HeldVisit                       // those kept back that count now
}

// RejectedRecord is a journal record that was set aside.
type RejectedRecord struct {
	Topic     string
	Partition int32
	Offset    int64
	Kind      string // one of a few words
	Detail    string // for people
}

// maxRejectedRecords is how many rejected records are kept.
const maxRejectedRecords = 10_000

// updateTries bounds how often UpdateVisitStats tries a transaction that met
// another one. Two members with the same new origins meet once; daemons that
// schedule visits lock rows in an order of their own and may deadlock with it.
const updateTries = 10

var errStatsAppeared = errors.New("another member inserted stats of the same origins")

// UpdateVisitStats locks the stats of the given origins, asks change what
// becomes of them, and writes that, all in one transaction. It neither reads nor
// writes when the origins were last scheduled. change may be called several
// times (the transaction met another one and is tried again) and must not keep
// what it is given.
//
// For an error of the values see IsRefused. Any other error may leave it unknown
// whether the transaction took place.
func (s *Store) UpdateVisitStats(ctx context.Context, keys []scheduler.OriginKey, change func(KnownVisits) VisitChanges) error {
	if len(keys) == 0 {
		return nil
	}
	var err error
	for range updateTries {
		err = s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
			// A plan that was kept from when the table was small, or made for a
			// batch of a few, would compare every key with every row.
			if _, err := tx.tx.Exec(ctx, "set local plan_cache_mode = force_custom_plan"); err != nil {
				return err
			}
			known, err := tx.lockVisits(ctx, keys)
			if err != nil {
				return err
			}
			return tx.writeVisits(ctx, known.Stats, change(known))
		})
		if !metAnother(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("update the visit stats of %d origins: %w", len(keys), err)
	}
	return nil
}

// metAnother says that a transaction failed only because of a concurrent one.
func metAnother(err error) bool {
	return errors.Is(err, errStatsAppeared) || sqlstateClass(err) == "40" // transaction rollback
}

// IsRefused says that err is PostgreSQL's refusal of some value, which it will
// refuse again: out of range, or too long for an index.
func IsRefused(err error) bool {
	class := sqlstateClass(err)
	return class == "22" || class == "54" // data exception, program limit exceeded
}

// sqlstateClass is the first two characters of the error's SQLSTATE, or nothing.
func sqlstateClass(err error) string {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || len(refused.Code) != 5 {
		return ""
	}
	return refused.Code[:2]
}

func (tx *Tx) lockVisits(ctx context.Context, keys []scheduler.OriginKey) (KnownVisits, error) {
	arg := queries.LockVisitStatsParams{}
	for _, key := range keys {
		arg.Urls = append(arg.Urls, key.URL)
		arg.VisitTypes = append(arg.VisitTypes, key.VisitType)
	}
	rows, err := tx.q.LockVisitStats(ctx, arg)
	if err != nil {
		return KnownVisits{}, err
	}
	positions, err := tx.q.VisitQueuePositions(ctx)
	if err != nil {
		return KnownVisits{}, err
	}
	failures, err := tx.q.VisitFailures(ctx, queries.VisitFailuresParams(arg))
	if err != nil {
		return KnownVisits{}, err
	}
	laned, err := tx.q.LanedVisits(ctx, queries.LanedVisitsParams(arg))
	if err != nil {
		return KnownVisits{}, err
	}
	overs, err := tx.q.VisitOvers(ctx, queries.VisitOversParams(arg))
	if err != nil {
		return KnownVisits{}, err
	}
	known := KnownVisits{
		Stats:          make([]scheduler.VisitStats, 0, len(rows)),
		LastFailures:   make(map[scheduler.OriginKey]time.Time, len(failures)),
		QueuePositions: make(map[string]int64, len(positions)),
		Laned:          make(map[scheduler.OriginKey][]LanedVisit, len(laned)),
		Overs:          make(map[scheduler.OriginKey]VisitOver, len(overs)),
	}
	for _, row := range rows {
		known.Stats = append(known.Stats, scheduler.VisitStats{
			URL:                    row.URL,
			VisitType:              row.VisitType,
			LastSuccessful:         row.LastSuccessful,
			LastVisit:              row.LastVisit,
			LastVisitStatus:        scheduler.VisitStatus(row.LastVisitStatus),
			LastSnapshot:           row.LastSnapshot,
			NextVisitQueuePosition: row.NextVisitQueuePosition,
			NextPositionOffset:     row.NextPositionOffset,
			SuccessiveVisits:       row.SuccessiveVisits,
		})
	}
	for _, f := range failures {
		known.LastFailures[scheduler.OriginKey{URL: f.URL, VisitType: f.VisitType}] = f.LastFailure
	}
	for _, l := range laned {
		key := scheduler.OriginKey{URL: l.URL, VisitType: l.VisitType}
		known.Laned[key] = append(known.Laned[key], LanedVisit{TaskID: l.TaskID, Since: l.Since})
	}
	for _, o := range overs {
		known.Overs[scheduler.OriginKey{URL: o.URL, VisitType: o.VisitType}] = VisitOver{
			Claimed: o.Claimed, Over: time.UnixMicro(int64(o.Over * 1e6)).UTC(),
		}
	}
	for _, p := range positions {
		known.QueuePositions[p.VisitType] = p.Position
	}
	return known, nil
}

// writeVisits updates the rows of known and inserts the others, in the order of
// their keys: every member waits for another in the same order.
func (tx *Tx) writeVisits(ctx context.Context, known []scheduler.VisitStats, changes VisitChanges) error {
	hasRow := make(map[scheduler.OriginKey]bool, len(known))
	for i := range known {
		hasRow[scheduler.OriginKey{URL: known[i].URL, VisitType: known[i].VisitType}] = true
	}
	var old, fresh []*scheduler.VisitStats
	for _, s := range changes.Stats {
		if hasRow[scheduler.OriginKey{URL: s.URL, VisitType: s.VisitType}] {
			old = append(old, s)
		} else {
			fresh = append(fresh, s)
		}
	}
	if len(old) > 0 {
		if err := tx.q.UpdateVisitStats(ctx, statsColumns(old)); err != nil {
			return err
		}
	}
	if len(fresh) > 0 {
		slices.SortFunc(fresh, func(a, b *scheduler.VisitStats) int {
			return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.VisitType, b.VisitType))
		})
		inserted, err := tx.q.InsertVisitStats(ctx, queries.InsertVisitStatsParams(statsColumns(fresh)))
		if err != nil {
			return err
		}
		if inserted < int64(len(fresh)) {
			return errStatsAppeared
		}
	}
	if len(changes.LastFailures) > 0 {
		var c queries.RecordVisitFailuresParams
		for key, date := range changes.LastFailures {
			c.Urls = append(c.Urls, key.URL)
			c.VisitTypes = append(c.VisitTypes, key.VisitType)
			c.LastFailure = append(c.LastFailure, date)
		}
		if err := tx.q.RecordVisitFailures(ctx, c); err != nil {
			return err
		}
	}
	if len(changes.Held) > 0 {
		var c queries.HoldVisitsParams
		for _, h := range changes.Held {
			c.TaskIds = append(c.TaskIds, h.TaskID)
			c.Urls = append(c.Urls, h.URL)
			c.VisitTypes = append(c.VisitTypes, h.VisitType)
			c.Dates = append(c.Dates, h.Date)
		}
		if err := tx.q.HoldVisits(ctx, c); err != nil {
			return err
		}
	}
	if len(changes.Counted) > 0 {
		var c queries.DropHeldVisitsParams
		for _, h := range changes.Counted {
			c.Urls = append(c.Urls, h.URL)
			c.VisitTypes = append(c.VisitTypes, h.VisitType)
			c.Dates = append(c.Dates, h.Date)
		}
		if err := tx.q.DropHeldVisits(ctx, c); err != nil {
			return err
		}
	}
	if len(changes.DisabledURLs) > 0 {
		if _, err := tx.q.DisableListedOrigins(ctx, changes.DisabledURLs); err != nil {
			return err
		}
	}
	return nil
}

func statsColumns(stats []*scheduler.VisitStats) queries.UpdateVisitStatsParams {
	var c queries.UpdateVisitStatsParams
	for _, s := range stats {
		c.Urls = append(c.Urls, s.URL)
		c.VisitTypes = append(c.VisitTypes, s.VisitType)
		var successful time.Time
		if s.LastSuccessful != nil {
			successful = *s.LastSuccessful
		}
		c.Succeeded = append(c.Succeeded, s.LastSuccessful != nil)
		c.LastSuccessful = append(c.LastSuccessful, successful)
		c.LastVisit = append(c.LastVisit, *s.LastVisit)
		c.LastVisitStatus = append(c.LastVisitStatus, string(s.LastVisitStatus))
		c.LastSnapshot = append(c.LastSnapshot, s.LastSnapshot)
		c.NextVisitQueuePosition = append(c.NextVisitQueuePosition, *s.NextVisitQueuePosition)
		c.NextPositionOffset = append(c.NextPositionOffset, s.NextPositionOffset)
		c.SuccessiveVisits = append(c.SuccessiveVisits, s.SuccessiveVisits)
	}
	return c
}

// RejectRecords keeps where records are that were set aside, the latest 10,000.
// One that was kept before stays as it was.
func (s *Store) RejectRecords(ctx context.Context, records []RejectedRecord) error {
	if len(records) == 0 {
		return nil
	}
	if len(records) > maxRejectedRecords {
		records = records[len(records)-maxRejectedRecords:]
	}
	var c queries.InsertRejectedRecordsParams
	for _, r := range records {
		c.Topics = append(c.Topics, r.Topic)
		c.Partitions = append(c.Partitions, r.Partition)
		c.RecordOffsets = append(c.RecordOffsets, r.Offset)
		c.Kinds = append(c.Kinds, r.Kind)
		c.Details = append(c.Details, r.Detail)
	}
	err := s.InTx(ctx, func(ctx context.Context, tx *Tx) error {
		if err := tx.q.InsertRejectedRecords(ctx, c); err != nil {
			return err
		}
		return tx.q.TrimRejectedRecords(ctx, maxRejectedRecords)
	})
	if err != nil {
		return fmt.Errorf("set %d journal records aside: %w", len(records), err)
	}
	return nil
}

// ReleasedVisits lists up to limit failed visits that were kept back, whose try has
// ended and not gone on: they count.
func (s *Store) ReleasedVisits(ctx context.Context, limit int) ([]HeldVisit, error) {
	rows, err := s.q.ReleasedVisits(ctx, int32(limit))
	if err != nil {
		return nil, fmt.Errorf("list failed visits that were kept back: %w", err)
	}
	visits := make([]HeldVisit, len(rows))
	for i, r := range rows {
		visits[i] = HeldVisit{OriginKey: scheduler.OriginKey{URL: r.URL, VisitType: r.VisitType}, Date: r.Date}
	}
	return visits, nil
}
