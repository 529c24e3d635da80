package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/model"
	"swh-scheduler/sql/db"
)

const (
	listedVisitType = "test-git" // visit type of listed origins
	listedAnHour    = 100        // new origins in each listing
	recordBatch     = 5000       // origins written at a time
)

// noArguments are the loader arguments of an origin.
var noArguments = json.RawMessage("{}")

type listed struct {
	url      string
	interval float64
	isFork   *bool // nil: unknown

	listing         // the state that the database should have
	written listing // the state that it has; zero if the origin may be missing
}

type listing struct {
	lastUpdate time.Time
	enabled    bool
}

// originURL returns the URL of the nth origin, from 1.
func originURL(n int) string { return fmt.Sprintf("https://example.com/%06d.git", n) }

type ListerName struct{ Name, Instance string }

var DefaultLister = ListerName{Name: "example"}

// lister lists its origins and new ones each hour.
type lister struct {
	store   Store
	id      uuid.UUID
	numbers *int    // number of origins of all listers
	forks   float64 // part of the origins that are forks, evenly spread over the numbers
	origins []listed
	byURL   map[string]int
}

// newListers returns listers whose origins share one numbering.
func newListers(ctx context.Context, store Store, names []ListerName, numbers *int, forks float64) ([]*lister, error) {
	listers := make([]*lister, len(names))
	for i, name := range names {
		l, err := store.GetOrCreateLister(ctx, name.Name, name.Instance, nil)
		if err != nil {
			return nil, err
		}
		listers[i] = &lister{store: store, id: l.ID, numbers: numbers, forks: forks, byURL: make(map[string]int)}
	}
	return listers, nil
}

// disabled records that origins were disabled in the database, so that the next listing enables them again.
func (l *lister) disabled(urls []string) {
	for _, url := range urls {
		if i, ok := l.byURL[url]; ok {
			o := &l.origins[i]
			o.enabled, o.written.enabled = false, false
		}
	}
}

// more adds n new origins and returns their URLs.
func (l *lister) more(n int) []string {
	urls := make([]string, n)
	for i := range urls {
		*l.numbers++
		urls[i] = originURL(*l.numbers)
		l.byURL[urls[i]] = len(l.origins)
		o := listed{url: urls[i], interval: CommitInterval(urls[i])}
		if n := float64(*l.numbers); math.Floor(n*l.forks) > math.Floor((n-1)*l.forks) {
			o.isFork = new(true)
		}
		l.origins = append(l.origins, o)
	}
	return urls
}

func (l *lister) list(now time.Time) {
	for i := range l.origins {
		o := &l.origins[i]
		o.listing = listing{lastUpdate(o.interval, now), true}
	}
}

// finish records in the database that a listing ended.
func (l *lister) finish(ctx context.Context, store *db.Store, at time.Time) error {
	known, err := store.ListersByID(ctx, []uuid.UUID{l.id})
	if err != nil || len(known) == 0 {
		return err
	}
	known[0].LastListingFinishedAt = &at
	_, err = store.UpdateLister(ctx, known[0])
	return err
}

// write writes changed listings to the database.
func (l *lister) write(ctx context.Context) error {
	var changed []model.ListedOrigin
	for i := range l.origins {
		o := &l.origins[i]
		if o.enabled == o.written.enabled && o.lastUpdate.Equal(o.written.lastUpdate) {
			continue
		}
		changed = append(changed, model.ListedOrigin{
			ListerID: l.id, URL: o.url, VisitType: listedVisitType, Enabled: o.enabled, LastUpdate: &o.lastUpdate,
			ExtraLoaderArguments: noArguments, IsFork: o.isFork,
		})
	}
	for batch := range slices.Chunk(changed, recordBatch) {
		if _, err := l.store.RecordListedOrigins(ctx, batch, false); err != nil {
			return err
		}
	}
	for i := range l.origins {
		l.origins[i].written = l.origins[i].listing
	}
	return nil
}
