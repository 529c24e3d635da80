package simulator

import (
	"context"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
	"swh-scheduler/sql/ledger"
)

// census maintains the counts of the Python scheduler's update_metrics. It counts all origins at the start; later it
// reads only those that are visited or listed. No other process may write to the database.
type census struct {
	store   *db.Store
	counts  counts
	origins map[string][]*standing // by URL: changed origins, of all visit types and listers
}

type standing struct {
	visitType      string
	lister         uuid.UUID
	enabled        bool
	loaded         bool
	lastUpdate     time.Time // may be zero
	lastSuccessful time.Time // may be zero
}

// counts are the numbers of origins by state.
type counts struct{ Known, Enabled, NeverVisited, PendingChanges int }

func countsOf(metrics []model.Metrics) counts {
	var c counts
	for _, m := range metrics {
		c.Known += int(m.OriginsKnown)
		c.Enabled += int(m.OriginsEnabled)
		c.NeverVisited += int(m.OriginsNeverVisited)
		c.PendingChanges += int(m.OriginsWithPendingChanges)
	}
	return c
}

// add adds an origin (times is 1) or removes it (-1).
func (c *counts) add(s *standing, times int) {
	c.Known += times
	if !s.enabled {
		return
	}
	c.Enabled += times
	if !s.loaded {
		c.NeverVisited += times
	}
	if !s.lastSuccessful.IsZero() && s.lastUpdate.After(s.lastSuccessful) {
		c.PendingChanges += times
	}
}

func newCensus(store *db.Store, counted counts) *census {
	return &census{store: store, counts: counted, origins: make(map[string][]*standing)}
}

// read reads the state of origins that it has not read yet. Callers call it before a change.
func (c *census) read(ctx context.Context, urls []string) error {
	var unknown []string
	for _, url := range urls {
		if _, ok := c.origins[url]; !ok {
			c.origins[url] = nil
			unknown = append(unknown, url)
		}
	}
	rows, err := c.store.OriginsForMetrics(ctx, unknown)
	for _, row := range rows {
		c.origins[row.URL] = append(c.origins[row.URL], &standing{
			visitType: row.VisitType, lister: row.ListerID, enabled: row.Enabled, loaded: row.Loaded,
			lastUpdate: orZero(row.LastUpdate), lastSuccessful: orZero(row.LastSuccessful),
		})
	}
	return err
}

// change calls change for the origins of a URL and updates the counts.
func (c *census) change(url string, change func(*standing)) {
	for _, s := range c.origins[url] {
		c.counts.add(s, -1)
		change(s)
		c.counts.add(s, 1)
	}
}

// visited applies the journal client's changes.
func (c *census) visited(changes ledger.VisitChanges) {
	for _, stats := range changes.Stats {
		c.change(stats.URL, func(s *standing) {
			if s.visitType == stats.VisitType {
				s.loaded, s.lastSuccessful = stats.LastSnapshot != nil, orZero(stats.LastSuccessful)
			}
		})
	}
	for _, url := range changes.DisabledURLs {
		c.change(url, func(s *standing) { s.enabled = false })
	}
}

// listed applies the listing of an origin, which may be new.
func (c *census) listed(key model.OriginKey, lister uuid.UUID, lastUpdate time.Time) {
	found := false
	c.change(key.URL, func(s *standing) {
		if s.visitType == key.VisitType && s.lister == lister {
			found, s.enabled, s.lastUpdate = true, true, lastUpdate
		}
	})
	if !found {
		s := &standing{visitType: key.VisitType, lister: lister, enabled: true, lastUpdate: lastUpdate}
		c.origins[key.URL] = append(c.origins[key.URL], s)
		c.counts.add(s, 1)
	}
}
