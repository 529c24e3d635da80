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
	listerName      = "example"
	// listedAnHour is how many more origins each listing finds.
	listedAnHour = 100
	// recordBatch is how many origins are written at a time.
	recordBatch = 5000
)

// listed is an origin that the lister has listed.
type listed struct {
	url        string
	interval   float64
	lastUpdate time.Time // as written; zero: not yet
	disabled   bool      // since then
}

// originURL is the URL of the nth origin, from 1 on.
func originURL(n int) string { return fmt.Sprintf("https://example.com/%06d.git", n) }

// lister lists origins: more each hour, and those it has listed again.
type lister struct {
	store   *sql.Store
	id      uuid.UUID
	before  int // how many were listed by others: it goes on after them
	origins []listed
	byURL   map[string]int
}

func newLister(ctx context.Context, store *sql.Store, before int) (*lister, error) {
	l, err := store.GetOrCreateLister(ctx, listerName, "", nil)
	return &lister{store: store, id: l.ID, before: before, byURL: make(map[string]int)}, err
}

// disabled notes that origins were disabled: the next listing enables them.
func (l *lister) disabled(urls []string) {
	for _, url := range urls {
		if i, ok := l.byURL[url]; ok {
			l.origins[i].disabled = true
		}
	}
}

// more makes some origins that were not listed before.
func (l *lister) more(n int) {
	for range n {
		url := originURL(l.before + len(l.origins) + 1)
		l.byURL[url] = len(l.origins)
		l.origins = append(l.origins, listed{url: url, interval: commitInterval(url)})
	}
}

// list lists 100 more origins, and writes what changed of all.
func (l *lister) list(ctx context.Context, now time.Time) error {
	l.more(listedAnHour)
	_, err := l.record(ctx, now)
	return err
}

// record writes the origins that changed, as of now, and returns them.
func (l *lister) record(ctx context.Context, now time.Time) ([]scheduler.ListedOrigin, error) {
	var changed []scheduler.ListedOrigin
	for i := range l.origins {
		o := &l.origins[i]
		updated := lastUpdate(o.interval, now)
		if updated.Equal(o.lastUpdate) && !o.disabled {
			continue
		}
		o.lastUpdate, o.disabled = updated, false
		changed = append(changed, scheduler.ListedOrigin{
			ListerID: l.id, URL: o.url, VisitType: listedVisitType, Enabled: true, LastUpdate: &updated,
			ExtraLoaderArguments: json.RawMessage("{}"),
		})
	}
	for from := 0; from < len(changed); from += recordBatch {
		batch := changed[from:min(from+recordBatch, len(changed))]
		if _, err := l.store.RecordListedOrigins(ctx, batch, false); err != nil {
			return nil, err
		}
	}
	return changed, nil
}
