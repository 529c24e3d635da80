package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"swh-scheduler/internal/scheduler"
	"swh-scheduler/sql"
)

const (
	// listedVisitType is the visit type of what the lister lists.
	listedVisitType = "test-git"
	// listedAnHour is how many more origins each listing finds.
	listedAnHour = 100
	// recordBatch is how many origins are written at a time.
	recordBatch = 5000
)

// noArguments are an origin's arguments for its loader.
var noArguments = json.RawMessage("{}")

// listed is an origin that the lister has listed.
type listed struct {
	url      string
	interval float64

	listing         // as it should be in the database
	written listing // as it is there; zero: it may not be there
}

type listing struct {
	lastUpdate time.Time
	enabled    bool
}

// originURL is the URL of the nth origin, from 1 on.
func originURL(n int) string { return fmt.Sprintf("https://example.com/%06d.git", n) }

// ListerName names a virtual lister.
type ListerName struct{ Name, Instance string }

// DefaultLister is the peer's.
var DefaultLister = ListerName{Name: "example"}

// lister lists origins: more each hour, and those it has listed again.
type lister struct {
	store   *sql.Store
	id      uuid.UUID
	numbers *int // how many origins all listers have listed
	origins []listed
	byURL   map[string]int
}

// newListers makes listers, which number their origins together.
func newListers(ctx context.Context, store *sql.Store, names []ListerName, numbers *int) ([]*lister, error) {
	listers := make([]*lister, len(names))
	for i, name := range names {
		l, err := store.GetOrCreateLister(ctx, name.Name, name.Instance, nil)
		if err != nil {
			return nil, err
		}
		listers[i] = &lister{store: store, id: l.ID, numbers: numbers, byURL: make(map[string]int)}
	}
	return listers, nil
}

// disabled notes that origins were disabled in the database: the next listing
// enables them.
func (l *lister) disabled(urls []string) {
	for _, url := range urls {
		if i, ok := l.byURL[url]; ok {
			o := &l.origins[i]
			o.enabled, o.written.enabled = false, false
		}
	}
}

// more makes some origins that were not listed before, and returns their URLs.
func (l *lister) more(n int) []string {
	urls := make([]string, n)
	for i := range urls {
		*l.numbers++
		urls[i] = originURL(*l.numbers)
		l.byURL[urls[i]] = len(l.origins)
		l.origins = append(l.origins, listed{url: urls[i], interval: CommitInterval(urls[i])})
	}
	return urls
}

// list lists all origins as of now.
func (l *lister) list(now time.Time) {
	for i := range l.origins {
		o := &l.origins[i]
		o.listing = listing{lastUpdate(o.interval, now), true}
	}
}

// write brings what was listed to the database, as far as it changed.
func (l *lister) write(ctx context.Context) error {
	var changed []scheduler.ListedOrigin
	for i := range l.origins {
		o := &l.origins[i]
		if o.enabled == o.written.enabled && o.lastUpdate.Equal(o.written.lastUpdate) {
			continue
		}
		changed = append(changed, scheduler.ListedOrigin{
			ListerID: l.id, URL: o.url, VisitType: listedVisitType, Enabled: o.enabled, LastUpdate: &o.lastUpdate,
			ExtraLoaderArguments: noArguments,
		})
	}
	for from := 0; from < len(changed); from += recordBatch {
		if _, err := l.store.RecordListedOrigins(ctx, changed[from:min(from+recordBatch, len(changed))], false); err != nil {
			return err
		}
	}
	for i := range l.origins {
		l.origins[i].written = l.origins[i].listing
	}
	return nil
}
